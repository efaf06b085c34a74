"""Two workers for an hour or more, one of which is killed every few minutes: memory, CPU time, delay, files.

Each round gives every table new rows, later states, late events and deletes, and a model of its rows is kept.
At the end each table must have the model's rows, each key once, and the offsets of its topic's ends. Writes
its part of docs/benchmarks-ingest.md.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from benchmarks.ingest import ROOT
from benchmarks.pages import replace_part
from benchmarks.process_tree import peak_resident_bytes
from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.embedded import acquire_embedded_metastore
from hudisql.errors import KafkaError
from tests.ingest.broker import kafka_broker
from tests.ingest.fed_tables import FedTable, fed_tables
from tests.ingest.test_two_workers import wait_for
from tests.ingest.test_worker_group import is_taken
from tests.ingest.worker_processes import WorkerProcess, WorkerServer, worker_server

TITLE: Final = "A long run"
_GROUP: Final = "soak"
_LONGEST_SECONDS: Final = 900.0


@dataclass(frozen=True)
class Sample:
    """After some seconds: events so far, the largest worker's peak memory in bytes, and the time in seconds
    from the end of a round of events until commits had all of them.
    """

    seconds: float
    events: int
    memory: int
    delay: float


@dataclass(frozen=True)
class Soak:
    """What a run gave: `commits` are those on the tables' timelines, archived ones left out."""

    samples: list[Sample]
    kills: int
    rows: int
    files: int
    commits: int


def run_soak(
    made: list[FedTable], workers: WorkerServer, minutes: float, kill_seconds: float, rows: int
) -> Soak:
    """Feed the tables for so long, then compare them with their models. Raises AssertionError."""
    running = [workers.start(group=_GROUP) for _ in range(2)]
    began = killed = time.monotonic()
    samples: list[Sample] = []
    events = kills = number = 0
    while (now := time.monotonic()) - began < minutes * 60:
        first = number * rows // 2
        deleted = range(max(0, first - rows // 10), first)
        for table in made:
            table.produce(range(first, first + rows), deleted=deleted, bad=number % 10 == 0)
        events += len(made) * (rows + len(deleted))
        number += 1
        if now - killed > kill_seconds:
            _replace_by_kill(running, workers)
            kills, killed = kills + 1, now
        said = running[-1].said()
        delay = wait_for(lambda: all(map(_is_taken, made)), said, _LONGEST_SECONDS)
        memory = max(peak_resident_bytes(each.pid) for each in running)
        samples.append(Sample(time.monotonic() - began, events, memory, delay))
    for each in running:
        each.signal(signal.SIGTERM)
        assert each.end(_LONGEST_SECONDS) == 0, each.said()
    for table in made:
        table.check()
    files = sum(len(list(table.path.rglob("*.parquet"))) for table in made)
    commits = sum(len(table.table.timeline.commits) for table in made)
    return Soak(samples, kills, sum(len(table.model) for table in made), files, commits)


def _is_taken(table: FedTable) -> bool:
    """False, too, while a broker on a busy machine does not answer in time."""
    try:
        return is_taken(table)
    except KafkaError:
        return False


def _replace_by_kill(running: list[WorkerProcess], workers: WorkerServer) -> None:
    chosen = running.pop(0)
    chosen.signal(signal.SIGKILL)
    chosen.end()
    running.append(workers.start(group=_GROUP))


def render(found: Soak, tables: int, command: str) -> str:
    """This benchmark's part of the page."""
    samples = found.samples
    delays = sorted(each.delay for each in samples)
    quarters = [samples[len(samples) * part // 4 - 1] for part in (1, 2, 3, 4)]
    lines = [
        f"# {TITLE}",
        "",
        f"`{command}`, {date.today().isoformat()}: two workers, {tables} tables (half merge-on-read), "
        f"flushes after 2 s, clean and archive on; {samples[-1].seconds / 60:.0f} minutes, {len(samples):,} "
        f"rounds, {samples[-1].events:,} events, a worker killed by SIGKILL {found.kills} times. At the end "
        f"each table had the rows of its model ({found.rows:,}), each key once, its topic's ends as offsets, "
        f"and each bad record once in its dead-letter table. {found.files:,} base files, {found.commits:,} "
        "commits not archived.",
        "",
        f"Delay from a round's events to their commits: median {delays[len(delays) // 2]:.1f} s, longest "
        f"{delays[-1]:.1f} s (a killed worker's tables wait for its session and its locks).",
        "",
        "| minute | events | peak memory of a worker |",
        "|--:|--:|--:|",
    ]
    lines += [
        f"| {each.seconds / 60:.0f} | {each.events:,} | {each.memory / 1e6:.0f} MB |" for each in quarters
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run and write this benchmark's part of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--tables", type=int, default=6)
    parser.add_argument("--rows", type=int, default=200, help="of each table in a round")
    parser.add_argument("--kill-seconds", type=float, default=180.0)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks-ingest.md")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="hudisql-soak-") as name,
        acquire_embedded_metastore(name) as metastore,
        kafka_broker(Path(name) / "kafka") as broker,
        worker_server(Path(name) / "workers", metastore.uri) as workers,
    ):
        for tables in fed_tables(broker, MetastoreClient(metastore.uri), Path(name)):
            made = [
                tables.make(f"soak{at}", ("mor", "cow")[at % 2], partitions=1, flush_seconds=2.0)
                for at in range(options.tables)
            ]
            found = run_soak(made, workers, options.minutes, options.kill_seconds, options.rows)
    command = f"python -m benchmarks.ingest_soak --minutes {options.minutes:g} --tables {options.tables}"
    replace_part(options.output, TITLE, render(found, options.tables, command))
    print(render(found, options.tables, command))


if __name__ == "__main__":
    main()
