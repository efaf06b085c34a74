"""One ingest worker with many small tables: CPU time while nothing comes, and of small commits.

The tables are in a metastore of their own and each has a topic; the worker is `hudisql ingest worker`. The
CPU time of a commit is that of a round of events, one commit a table, less what idle tables cost meanwhile;
the sync of the metastore and automatic services are part of it, and are waited for. Writes its part of
docs/benchmarks-ingest.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from benchmarks.ingest import ROOT
from benchmarks.pages import replace_part
from benchmarks.process_tree import CpuClock, peak_resident_bytes, started_clock
from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.embedded import acquire_embedded_metastore
from tests.ingest.broker import KafkaBroker, kafka_broker
from tests.ingest.fed_tables import FedTables, fed_tables

TITLE: Final = "Many small tables"
IDLE_GOAL: Final = 0.03
_TABLES: Final = 1_000
_FLUSH_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 1200.0
_SETTLED_SECONDS: Final = 5.0
_SETTLED_SHARE: Final = 0.06
"""A worker that takes less of a core for so long has no syncs left."""


@dataclass(frozen=True)
class Round:
    """One commit for each of `tables` tables with so many events; CPU and wall-clock seconds for all."""

    events: int
    tables: int
    cpu: float
    wall: float

    def milliseconds(self, idle: float) -> float:
        """CPU milliseconds of a commit; `idle` is the share of a core that idle tables take."""
        return max(self.cpu - idle * self.wall, 0.0) / self.tables * 1000


@dataclass(frozen=True)
class Found:
    """`idle` is a share of a core, measured for `seconds`; `memory` is the process's peak in bytes."""

    tables: int
    start_cpu: float
    idle: float
    seconds: float
    rounds: tuple[Round, ...]
    memory: int


@dataclass
class Worker:
    """The process, with the log that has a line for each commit."""

    process: subprocess.Popen[bytes]
    log: Path
    clock: CpuClock

    def wait_for(self, commits: int) -> None:
        """Wait until so many commits are done. Raises TimeoutError, and RuntimeError if it ended."""
        deadline = time.monotonic() + _LONGEST_SECONDS
        while self.log.read_bytes().count(b": commit ") < commits:
            if self.process.poll() is not None:
                raise RuntimeError(self.log.read_text()[-4000:])
            if time.monotonic() > deadline:
                raise TimeoutError(self.log.read_text()[-4000:])
            time.sleep(0.1)

    def settle(self) -> None:
        """Wait until the syncs of its commits are done, which run beside them. Raises TimeoutError."""
        deadline = time.monotonic() + _LONGEST_SECONDS
        while time.monotonic() < deadline:
            before = self.clock.seconds()
            time.sleep(_SETTLED_SECONDS)
            if self.clock.seconds() - before < _SETTLED_SHARE * _SETTLED_SECONDS:
                return
        raise TimeoutError("the worker is not idle")


@contextmanager
def running_worker(metastore_uri: str, directory: Path) -> Iterator[Worker]:
    """`hudisql ingest worker`, ended by SIGTERM."""
    log = directory / "worker.log"
    command = [sys.executable, "-m", "hudisql", "--metastore", metastore_uri, "ingest", "worker"]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream)
    clock = started_clock(process.pid)
    try:
        yield Worker(process, log, clock)
    finally:
        clock.stop()
        process.terminate()
        process.wait(300)


def measure_tables(
    broker: KafkaBroker, tables: FedTables, directory: Path, metastore_uri: str, count: int, seconds: float
) -> Found:
    """Make `count` tables; a first event each, then idle time, then rounds of 1, 20 and 1,000 events."""
    names = [f"table{number:04d}" for number in range(count)]
    broker.create_topics(names)
    for name in names:
        tables.make(name, partitions=1, has_topic=True, flush_seconds=_FLUSH_SECONDS)
    with running_worker(metastore_uri, directory) as worker:
        commits = _produce(broker, names, 1, 0)
        worker.wait_for(commits)
        worker.settle()
        start = worker.clock.seconds()
        before = worker.clock.seconds()
        time.sleep(seconds)
        idle = (worker.clock.seconds() - before) / seconds
        rounds = []
        for number, (events, of) in enumerate(
            ((1, count), (20, count), (1_000, max(count // 10, 1))), start=1
        ):
            cpu, wall = worker.clock.seconds(), time.perf_counter()
            commits += _produce(broker, names[:of], events, number)
            worker.wait_for(commits)
            worker.settle()
            rounds.append(Round(events, of, worker.clock.seconds() - cpu, time.perf_counter() - wall))
        memory = peak_resident_bytes(worker.process.pid)
    return Found(count, start, idle, seconds, tuple(rounds), memory)


def _produce(broker: KafkaBroker, topics: list[str], events: int, ts: int) -> int:
    """So many events for each topic, half of them of known keys; the number of topics."""
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 100})
    for topic in topics:
        for number in range(events):
            key = number if number % 2 else ts * 10_000 + number
            row = {"id": key, "name": f"n{ts}", "ts": ts, "dt": "2024-01-01"}
            producer.produce(topic, json.dumps(row).encode())
        producer.poll(0)
    assert producer.flush(60) == 0
    return len(topics)


def render(found: Found, command: str) -> str:
    """This benchmark's part of the page."""
    # Much of it is the same for one table: it is not multiplied.
    judged = "met" if found.idle <= IDLE_GOAL else "**missed**"
    goal = judged if found.tables >= _TABLES else "not measured"
    lines = [
        f"# {TITLE}",
        "",
        f"`{command}`, {date.today().isoformat()}: one worker, {found.tables:,} merge-on-read tables of one "
        "partition and one topic each, a real metastore. CPU of the worker's process; the sync of the "
        "metastore and automatic services are part of a commit.",
        "",
        "| | CPU | goal |",
        "|---|--:|---|",
        f"| start, and a first commit of each table | {found.start_cpu:.1f} s | |",
        f"| idle, for {found.seconds:.0f} s | {found.idle:.2%} of a core | "
        f"≤ {IDLE_GOAL:.0%} for 1,000 tables: {goal} |",
    ]
    lines += [
        f"| a commit of {each.events:,} event{'s' * (each.events > 1)}, in a round of {each.tables:,} "
        f"tables | {each.milliseconds(found.idle):.1f} ms | |"
        for each in found.rounds
    ]
    lines += ["", f"Peak memory of the worker: {found.memory / 1e6:.0f} MB."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write this benchmark's part of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=_TABLES)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long idle tables are watched")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks-ingest.md")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="hudisql-ingest-") as name,
        acquire_embedded_metastore(name) as metastore,
        kafka_broker(Path(name) / "kafka", heap="1g") as broker,
    ):
        directory = Path(name)
        client = MetastoreClient(metastore.uri)
        for tables in fed_tables(broker, client, directory):
            found = measure_tables(broker, tables, directory, metastore.uri, options.tables, options.seconds)
            tables.made.clear()  # the metastore ends with them
    command = f"python -m benchmarks.ingest_tables --tables {options.tables} --seconds {options.seconds:g}"
    replace_part(options.output, TITLE, render(found, command))
    print(render(found, command))


if __name__ == "__main__":
    main()
