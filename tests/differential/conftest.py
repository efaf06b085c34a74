"""One session of each engine for all scripts; the oracles run theirs ahead, beside hudisql's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.differential.engines import ApacheHudi, Delta, Engine, Hudisql, Outcome, run_script
from tests.differential.script import DifferentialScript
from tests.oracle.client import SHORT_LIVED_JAVA, start_delta, start_oracle

# Rows by the dozen: one task each, and nothing that a commit of them does not need.
SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    **SHORT_LIVED_JAVA,
}
LEAN_HUDI = {
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}


@pytest.fixture(scope="module")
def oracle_outcome(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[DifferentialScript], Outcome | None]]:
    """What a script's oracle made of it (None: it has none); all selected scripts are begun at once."""
    scripts: list[Any] = [
        item.callspec.params["script"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and "oracle_outcome" in item.fixturenames
    ]
    with ThreadPoolExecutor(1, thread_name_prefix="oracle") as thread:
        engines = _Engines(tmp_path_factory)
        running: dict[str, Future[Outcome]] = {
            script.name: thread.submit(engines.run, script)
            for script in sorted(scripts, key=lambda script: script.oracle == "delta")
            if script.oracle != "none"
        }
        yield lambda script: running[script.name].result() if script.name in running else None
        for future in running.values():
            future.cancel()
        thread.submit(engines.close).result()


class _Engines:
    """The oracles' engines, each started when its first script comes; one at a time."""

    def __init__(self, directories: pytest.TempPathFactory) -> None:
        self.directories = directories
        self.name = ""
        self.engine: Any = None
        self.directory = Path()

    def run(self, script: DifferentialScript) -> Outcome:
        if script.oracle != self.name:
            self.close()
            self.directory = self.directories.mktemp(f"differential-{script.oracle}")
            self.engine = self._start(script.oracle)
            self.name = script.oracle
        return run_script(self.engine, script, self.directory)

    def close(self) -> None:
        if self.engine is not None:
            self.engine.oracle.close()
            self.engine = None

    def _start(self, name: str) -> Engine:
        if name == "delta":
            return Delta(start_delta(self.directory / "process", config=SMALL))
        oracle = start_oracle("0.15.0", self.directory / "process", config=SMALL)
        for key, value in LEAN_HUDI.items():
            oracle.request("sql", text=f"SET {key} = {value}")
        return ApacheHudi(oracle, LEAN_HUDI)


@pytest.fixture(scope="module")
def hudisql_engine(session: Any) -> Iterator[Hudisql]:
    """The suite's hudisql session, with few tasks."""
    before = session.spark.conf.get("spark.sql.shuffle.partitions")
    session.spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield Hudisql(session)
    session.spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.fixture(scope="session")
def hudisql_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("differential-hudisql")
