"""A directory of models over two sources, and `hudisql run` on the suite's Spark session and metastore."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from typer.testing import Result as CliResult

from hudisql.cli.main import app
from hudisql.session import Session
from tests.sql.incremental_tables.refreshed import assert_fresh


@dataclass
class LayerProject:
    """Models in `directory`; `{db}` in their text is a database of their own, with orders and customers."""

    session: Session
    directory: Path
    database: str = field(default_factory=lambda: f"w{uuid.uuid4().hex[:8]}")

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.named(text))
        return path

    def named(self, text: str) -> str:
        return text.replace("{db}", self.database)

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        result = self.session.sql(self.named(text))
        return [tuple(row) for row in result.rows] if result.has_rows else []

    def run(self, verb: str, *options: str, exit_code: int = 0) -> CliResult:
        done = CliRunner().invoke(app, ["--format", "json", "run", verb, str(self.directory), *options])
        assert done.exit_code == exit_code, (done.exit_code, done.stdout, done.stderr, done.exception)
        return done

    def states(self, verb: str, *options: str, exit_code: int = 0) -> dict[str, tuple[Any, ...]]:
        """Of each model and test its state and way, or, for a plan, its action and way."""
        rows = json.loads(self.run(verb, *options, exit_code=exit_code).stdout)
        return {
            (row.get("model") or row["name"]).replace(f"{self.database}.", ""): (
                row.get("action") or row["state"],
                row["way"],
            )
            for row in rows
        }

    def assert_fresh(self, *names: str) -> None:
        """Each table has the rows of its query run afresh."""
        for name in names:
            file = next(each for each in self.directory.rglob("*.sql") if each.stem == name)
            query = file.read_text().split(" AS\n", 1)[1]
            assert_fresh(self.session, query, f"{self.database}.{name}")


PAID = """-- test: unique(id)
-- test: not_null(id, amount)
CREATE INCREMENTAL TABLE {db}.paid KEY (id) AS
SELECT o.id, o.customer, o.amount, c.region FROM {db}.orders o LEFT JOIN {db}.customers c ON o.customer = c.id
WHERE o.state = 'paid'"""
SALES = """-- test: accepted_values(region, 'n', 's', 'w', '?')
CREATE INCREMENTAL TABLE {db}.sales AS
SELECT coalesce(region, '?') AS region, sum(amount) AS total, count(*) AS orders FROM {db}.paid GROUP BY 1"""
BUYERS = """CREATE INCREMENTAL TABLE {db}.buyers AS
SELECT customer, count(*) AS orders FROM {db}.paid GROUP BY customer"""


@pytest.fixture
def project(session: Session, tmp_path: Path) -> Iterator[LayerProject]:
    """Three models: paid, and sales and buyers of it; no test fails on the rows that are there."""
    directory = tmp_path / "models"
    directory.mkdir()
    made = LayerProject(session, directory)
    session.sql(f"CREATE DATABASE {made.database} LOCATION '{tmp_path / 'db'}'")
    made.sql(
        "CREATE TABLE {db}.orders (id INT, customer INT, amount INT, state STRING) USING hudi "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    made.sql(
        "CREATE TABLE {db}.customers (id INT, region STRING) USING hudi TBLPROPERTIES (primaryKey = 'id')"
    )
    made.sql("INSERT INTO {db}.orders VALUES (1, 1, 10, 'paid'), (2, 2, 20, 'paid'), (3, 2, 30, 'open')")
    made.sql("INSERT INTO {db}.customers VALUES (1, 'n'), (2, 's')")
    made.write("dwd/paid.sql", PAID)
    made.write("dws/sales.sql", SALES)
    made.write("dws/buyers.sql", BUYERS)
    yield made
    session.sql("USE default")
    for row in session.sql(f"SHOW VIEWS IN {made.database}").rows:
        if row.namespace:
            session.sql(f"DROP VIEW {made.database}.{row.viewName}")
    for row in session.sql(f"SHOW TABLES IN {made.database}").rows:
        session.sql(f"DROP TABLE IF EXISTS {made.database}.{row.tableName}")
    session.sql(f"DROP DATABASE {made.database} CASCADE")
