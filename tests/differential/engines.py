"""The engines that run differential scripts, and the run itself: statements in order, then every table read.

An engine is asked three things (do, query, write a DataFrame); what a script means is the same for all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from hudisql.errors import HudisqlError
from tests.differential.script import DifferentialScript, FrameWrite
from tests.oracle.client import HudiOracle, OracleError


class Engine(Protocol):
    """What runs scripts. `refusals` are the errors by which it says no."""

    name: str
    refusals: tuple[type[Exception], ...]

    def do(self, text: str) -> None:
        """Run a statement, without its rows."""

    def query(self, text: str) -> pa.Table:
        """The rows of a query."""

    def write(self, write: FrameWrite, path: str) -> None:
        """Write a query's rows into the table at `path`."""


@dataclass
class Outcome:
    """What a script left: rows of its queries (`query 1` …) and tables, and what each statement said."""

    rows: dict[str, pa.Table] = field(default_factory=dict)
    refusals: dict[int, str] = field(default_factory=dict)


@dataclass
class Hudisql:
    """hudisql's own session."""

    session: Any
    name: str = "hudisql"
    refusals: tuple[type[Exception], ...] = (HudisqlError,)

    def do(self, text: str) -> None:
        self.session.sql(text)

    def query(self, text: str) -> pa.Table:
        return self.session.sql(text).arrow()

    def write(self, write: FrameWrite, path: str) -> None:  # noqa: ARG002 - found by its name
        frame = self.session.spark.sql(write.query)
        self.session.write(frame, write.table, write.operation, **write.options)


@dataclass
class ApacheHudi:
    """Apache Hudi 0.15 in its own process."""

    oracle: HudiOracle
    defaults: Mapping[str, str] = field(default_factory=dict)
    name: str = "hudi-0.15"
    refusals: tuple[type[Exception], ...] = (OracleError,)

    def do(self, text: str) -> None:
        self.oracle.request("sql", text=text)
        found = re.match(r"RESET\s+(\S+)", text)
        if found and found[1] in self.defaults:
            self.oracle.request("sql", text=f"SET {found[1]} = {self.defaults[found[1]]}")

    def query(self, text: str) -> pa.Table:
        return self.oracle.sql(text)

    def write(self, write: FrameWrite, path: str) -> None:
        options = {
            "hoodie.datasource.write.operation": write.operation,
            "hoodie.table.name": write.table,
            **write.options,
        }
        self.oracle.request("save_query", query=write.query, path=path, options=options)
        self.do(f"REFRESH TABLE {write.table}")


@dataclass
class Delta:
    """Delta Lake in its own process: the tables of a script are Delta tables there."""

    oracle: HudiOracle
    name: str = "delta"
    refusals: tuple[type[Exception], ...] = (OracleError,)

    def do(self, text: str) -> None:
        self.oracle.request("sql", text=re.sub(r"\bUSING\s+hudi\b", "USING delta", text, flags=re.IGNORECASE))

    def query(self, text: str) -> pa.Table:
        return self.oracle.sql(text)

    def write(self, write: FrameWrite, path: str) -> None:
        raise OracleError(f"Delta knows no {write.operation} into {path}")


def run_script(engine: Engine, script: DifferentialScript, directory: Path) -> Outcome:
    """Run a script in a database and a warehouse directory of its own; gives the rows it leaves.

    Raises AssertionError if a statement is refused that must not be, or the other way round.
    """
    database = f"differential_{script.name}"
    warehouse = directory / script.name
    outcome = Outcome()
    engine.do(f"CREATE DATABASE {database} LOCATION '{warehouse}'")
    engine.do(f"USE {database}")
    try:
        _run_steps(engine, script, warehouse, outcome)
        for table in script.tables:
            outcome.rows[table] = engine.query(f"SELECT * FROM {table}")
    finally:
        for view in script.views:
            engine.do(f"DROP VIEW IF EXISTS {view}")
        for setting in script.settings:
            engine.do(f"RESET {setting}")
        engine.do("USE default")
    return outcome


def _run_steps(engine: Engine, script: DifferentialScript, warehouse: Path, outcome: Outcome) -> None:
    queries = 0
    for number, step in enumerate(script.steps):
        queries += step.is_query
        try:
            if step.is_query:
                outcome.rows[f"query {queries}"] = engine.query(step.text)
            elif step.write is not None:
                engine.write(step.write, str(warehouse / step.write.table))
            else:
                engine.do(step.text)
        except engine.refusals as error:
            if not step.fails_in(engine.name):
                raise AssertionError(f"{engine.name} refused: {step.text}\n{error}") from error
            outcome.refusals[number] = str(error)
        else:
            assert not step.fails_in(engine.name), f"{engine.name} took: {step.text}"
