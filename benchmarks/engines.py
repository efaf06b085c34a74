"""The engines that are set side by side, behind one face: run a statement, say what it cost.

hudisql and plain Spark share one process on PySpark 4; Apache Hudi 0.15 has a process of its own on
PySpark 3.5 (the oracle's). Costs are CPU seconds of the engine's whole process tree and wall-clock seconds.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks.process_tree import CpuClock, started_clock
from tests.oracle.client import HudiOracle, start_oracle
from tests.oracle.line_process import LineProcess, start_line_process

WORKER = Path(__file__).parent / "worker.py"
REQUEST_SECONDS = 3600
Rows = list[tuple[str | None, ...]]

# Both Sparks work with the same settings; no broadcast or adaptive guess makes one run unlike the other.
COMMON_SPARK_SETTINGS = {
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "snappy",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}


@dataclass(frozen=True)
class Cost:
    """What something took: CPU seconds (user + system, whole tree) and seconds by the clock."""

    cpu: float
    wall: float


def compared(own: Cost, theirs: Cost) -> str:
    """The cells of a table's row: CPU seconds of both, their ratio, and seconds by the clock of both."""
    cpu = f"{own.cpu:.2f} | {theirs.cpu:.2f} | {own.cpu / theirs.cpu:.2f}"
    return f"{cpu} | {own.wall:.1f} | {theirs.wall:.1f}"


class Engine(Protocol):
    """A running engine; `start_cost` is what it took to be ready, `clock` counts what it uses."""

    start_cost: Cost
    clock: CpuClock

    def close(self) -> None:
        """End the engine."""


def measured(engine: Engine, action: Callable[[], Rows]) -> tuple[Rows, Cost]:
    """Do something in the engine and take its cost."""
    cpu, wall = engine.clock.seconds(), time.perf_counter()
    rows = action()
    return rows, Cost(engine.clock.seconds() - cpu, time.perf_counter() - wall)


@dataclass
class HudisqlEngine:
    """hudisql, and plain Spark beside it, in one session."""

    child: LineProcess
    start_cost: Cost
    clock: CpuClock

    def sql(self, text: str) -> Rows:
        """Run a statement in hudisql."""
        return self._rows({"command": "sql", "text": text})

    def spark(self, text: str) -> Rows:
        """Run a statement in plain Spark."""
        return self._rows({"command": "spark", "text": text})

    def view(self, name: str, path: str) -> None:
        """Name plain parquet for `spark`."""
        self._rows({"command": "view", "name": name, "path": path})

    def rewrite(self, source: str, target: str) -> Rows:
        """Read plain parquet and write it again, as a migration without metadata-only bootstrap would."""
        return self._rows({"command": "rewrite", "source": source, "target": target})

    def forget(self) -> None:
        """Let the next read match the keys of log records anew, as the first of a session does."""
        self._rows({"command": "forget"})

    def jobs(self) -> dict[int, int]:
        """The completed tasks of each Spark job of the session so far, by the job's number."""
        return {int(str(job)): int(str(tasks)) for job, tasks in self._rows({"command": "jobs"})}

    def close(self) -> None:
        """End the session."""
        self.clock.stop()
        self.child.close()

    def _rows(self, message: dict[str, Any]) -> Rows:
        answer = self.child.request(message, seconds=REQUEST_SECONDS)
        return [tuple(row) for row in answer["rows"]]


@dataclass
class RealHudiEngine:
    """A version of Apache Hudi."""

    oracle: HudiOracle
    start_cost: Cost
    clock: CpuClock

    def bootstrap(self, source: str, target: str, options: dict[str, str]) -> Rows:
        """Metadata-only bootstrap by Hudi's DataFrame writer."""
        self.oracle.bootstrap(source, target, options)
        return []

    def sql(self, text: str) -> Rows:
        """Run a statement over views."""
        rows = self.oracle.sql(text).to_pylist()
        return [tuple(None if value is None else str(value) for value in row.values()) for row in rows]

    def view(
        self, name: str, path: str, format: str = "hudi", options: Mapping[str, str] | None = None
    ) -> None:
        """Name a table for `sql`."""
        self.oracle.view(name, path, format=format, options=options)

    def close(self) -> None:
        """End the process."""
        self.clock.stop()
        self.oracle.close()


def start_hudisql(
    directory: Path, *, cores: int, memory: str, settings: Mapping[str, str] = COMMON_SPARK_SETTINGS
) -> HudisqlEngine:
    """Start hudisql on the embedded metastore below `directory`."""
    started = time.perf_counter()
    root = Path(__file__).resolve().parent.parent
    environment = _environment(PYTHONPATH=str(root))
    child = start_line_process("hudisql", [sys.executable, "-u", str(WORKER)], directory, environment)
    conf = {
        **settings,
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    setup = {"warehouse": str(directory / "warehouse"), "conf": conf}
    clock = started_clock(child.process.pid)
    child.request(setup, seconds=REQUEST_SECONDS)
    cost = Cost(clock.seconds(), time.perf_counter() - started)
    return HudisqlEngine(child, cost, clock)


def start_real_hudi(
    directory: Path,
    *,
    cores: int,
    memory: str,
    settings: Mapping[str, str] = COMMON_SPARK_SETTINGS,
    metastore_uri: str | None = None,
    version: str = "0.15.0",
) -> RealHudiEngine:
    """Start Apache Hudi; with a metastore its SQL syncs tables there after each commit."""
    started = time.perf_counter()
    oracle = start_oracle(
        version, directory, cores=cores, memory=memory, config=settings, metastore_uri=metastore_uri
    )
    clock = started_clock(oracle.child.process.pid)
    oracle.sql("SELECT 1")
    cost = Cost(clock.seconds(), time.perf_counter() - started)
    return RealHudiEngine(oracle, cost, clock)


def _environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "TZ": "UTC", "SPARK_LOCAL_IP": "127.0.0.1", **changes}
