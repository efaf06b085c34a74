"""The ingest worker from Kafka to committed Hudi files: MB of JSON a second of CPU time, and memory.

A broker holds the events; the worker runs in a process of its own, after a first topic has warmed it up, so
that start-up is left out. What the table holds afterwards is counted. Writes its part of
docs/benchmarks-ingest.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks.pages import replace_part
from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import CODEC
from hudisql.console import PlainConsole
from hudisql.format import table_properties as keys
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.schema.meta_columns import RECORD_KEY
from hudisql.ingest.declaration import IngestDeclaration
from hudisql.ingest.flush import IngestTarget
from hudisql.ingest.ownership import OwnsAll
from hudisql.ingest.parse.json_records import JsonParser
from hudisql.ingest.table_feed import TableFeed
from hudisql.ingest.watch.observer import CommittedEvents, IngestObserver
from hudisql.ingest.worker import IngestWorker
from hudisql.options.writer_settings import write_options_by
from hudisql.service_process.ingest.declared_table import SHARED_BY_WRITERS
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from hudisql.table.properties.new_table import NewTable, publish_new_table
from tests.ingest.broker import KafkaBroker, kafka_broker
from tests.oracle.comparison import our_rows

ROOT = Path(__file__).resolve().parent.parent
TITLE = "From Kafka to Hudi files"
GOAL: Final = 30.0
SCHEMA = pa.schema(
    [
        ("event_id", pa.string()),
        ("user_id", pa.int64()),
        ("session", pa.string()),
        ("kind", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("price", pa.float64()),
        ("quantity", pa.int32()),
        ("country", pa.string()),
        ("device", pa.string()),
        ("ok", pa.bool_()),
        ("ts", pa.int64()),
        ("note", pa.string()),
        ("dt", pa.string()),
    ]
)
_DAYS: Final = 3
_SEED: Final = 13


def make_events(count: int, updates: float) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values; the share `updates` are new states of keys, recent ones more often (Pareto)."""
    random = np.random.default_rng(_SEED)
    days = [(date.today() - timedelta(days=each)).isoformat() for each in range(_DAYS)]
    ids: list[tuple[str, str]] = []
    again = random.random(count) < updates
    back = (random.pareto(0.5, count) * 1000).astype(np.int64)
    numbers = random.integers(0, 1 << 30, (count, 4))
    for at in range(count):
        one, two, three, four = numbers[at].tolist()
        if again[at] and ids:
            key, day = ids[-1 - min(int(back[at]), len(ids) - 1)]
        else:
            key, day = f"{one:08x}-{two & 0xFFFF:04x}-4{three & 0xFFF:03x}-{at:016x}", days[four % _DAYS]
            ids.append((key, day))
        event = {
            "event_id": key,
            "user_id": two,
            "session": f"s{three % 10**8:08d}",
            "kind": ("view", "click", "buy")[one % 3],
            "amount": f"{two % 1000}.{three % 100:02d}",
            "price": (four % 100_000) / 1000,
            "quantity": one % 50,
            "country": ("DE", "FR", "US", "CN")[two % 4],
            "device": ("ios", "android", "web")[three % 3],
            "ok": bool(four & 1),
            "ts": at,
            "note": f"n{at:020d}",
            "dt": day,
        }
        yield key.encode(), json.dumps(event, separators=(",", ":")).encode()


@dataclass
class LocalTable:
    """A table in a directory, without a metastore; the options are those of `hudisql ingest worker`."""

    path: str
    declaration: IngestDeclaration
    name: str = "benchmark.events"
    bad: list[Any] = field(default_factory=list)

    def feed(self, owner: str) -> TableFeed:
        """A new feed."""
        return TableFeed(
            self.name,
            self.declaration,
            self._open,
            lambda table, _declaration: JsonParser(table.schema, "event_id"),
            self.bad.extend,
            owner,
        )

    def _open(self) -> IngestTarget:
        settings = {**SHARED_BY_WRITERS, CODEC.name: "snappy"}
        table = open_table(Storage(), self.path)
        config = HudiConfig(lambda key, default: settings.get(key, default))
        return IngestTarget(table, write_options_by(config, table), lambda: None)


def make_table(path: str, table_type: str) -> None:
    """An empty table, partitioned by day."""
    new = NewTable(
        "events",
        "benchmark",
        table_type,
        ("event_id",),
        ("dt",),
        "ts",
        others={keys.CREATE_SCHEMA: avro_from_arrow(SCHEMA, "events")},
    )
    publish_new_table(Storage(), path, new, datetime.now(UTC))


@dataclass(frozen=True)
class Measured:
    """One run: `keys` distinct ones were in the events, `rows` are in the table."""

    table_type: str
    flush_megabytes: int
    megabytes: float
    cpu: float
    wall: float
    memory: int
    commits: int
    keys: int
    rows: int

    @property
    def speed(self) -> float:
        """MB a second of CPU time."""
        return self.megabytes / self.cpu


def measure(
    broker: KafkaBroker, directory: Path, topic: str, sent: tuple[float, int], table_type: str, flush: int
) -> Measured:
    """Run a worker on the topic in a process of its own; `sent` are the events' megabytes and keys."""
    path = str(directory / f"{topic}_{table_type}_{flush}")
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        cpu, wall, memory, commits = pool.apply(_work, (broker.servers, path, topic, table_type, flush))
    found = our_rows(open_table(Storage(), path))
    assert len(found.column(RECORD_KEY).unique()) == found.num_rows
    assert found.num_rows == sent[1], (found.num_rows, sent[1])
    return Measured(table_type, flush, sent[0], cpu, wall, memory, commits, sent[1], found.num_rows)


class _Commits(IngestObserver):
    """Counts the commits of a worker."""

    count = 0

    def committed(self, _commit: CommittedEvents) -> None:
        self.count += 1


def _work(servers: str, path: str, topic: str, table_type: str, flush: int) -> tuple[float, float, int, int]:
    commits = _Commits()
    for each, place in (("warm_up", f"{path}_warm_up"), (topic, path)):
        make_table(place, table_type)
        commits.count = 0
        declaration = IngestDeclaration(topic=each, bootstrap_servers=servers, flush_bytes=flush << 20)
        table = LocalTable(place, declaration)
        worker = IngestWorker(
            lambda table=table: [table],  # type: ignore[misc]
            OwnsAll(),
            PlainConsole(),
            threading.Event(),
            "benchmark",
            observer=commits,
        )
        cpu, wall = time.process_time(), time.perf_counter()
        assert worker.run(until_caught_up=True)
        assert not table.bad
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return cpu, wall, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, commits.count


def render(found: list[Measured], updates: float) -> str:
    """This benchmark's part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"`python -m benchmarks.ingest`: {found[0].megabytes:.0f} MB of JSON events in a topic with 4 "
        f"partitions, {updates:.0%} of them new states of earlier keys, into {_DAYS} partitions; "
        "index in memory. CPU seconds of the worker, librdkafka's and Arrow's threads included, start-up "
        "left out. The table has each key once.",
        "",
        "| table | flush | MB/s a core | goal | commits | wall s | peak memory |",
        "|---|--:|--:|---|--:|--:|--:|",
    ]
    for each in found:
        goal = f"{GOAL:g}: {'met' if each.speed >= GOAL else '**missed**'}"
        lines.append(
            f"| {each.table_type} | {each.flush_megabytes} MB | {each.speed:.0f} | {goal} | {each.commits} | "
            f"{each.wall:.1f} | {each.memory / 1e6:.0f} MB |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write this benchmark's part of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--updates", type=float, default=0.3)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks-ingest.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hudisql-ingest-") as name:
        directory = Path(name)
        with kafka_broker(directory / "kafka") as broker:
            broker.create_topic("warm_up")
            broker.produce("warm_up", (value for _, value in make_events(5_000, options.updates)))
            broker.create_topic("events", 4)
            sent = produce(broker, "events", options.events, options.updates)
            found = [
                measure(broker, directory, "events", sent, table_type, flush)
                for table_type in (keys.MERGE_ON_READ, keys.COPY_ON_WRITE)
                for flush in (32, 128)
            ]
    replace_part(options.output, TITLE, render(found, options.updates))
    print(render(found, options.updates))


def produce(broker: KafkaBroker, topic: str, count: int, updates: float) -> tuple[float, int]:
    """Write the events to the topic; their megabytes, and the number of their keys."""
    size, known = 0, set()
    most = 100_000
    keys_of_part: list[bytes] = []
    values: list[bytes] = []
    for key, value in make_events(count, updates):
        size += len(value)
        known.add(key)
        keys_of_part.append(key)
        values.append(value)
        if len(values) == most:
            broker.produce(topic, values, keys_of_part)
            keys_of_part, values = [], []
    if values:
        broker.produce(topic, values, keys_of_part)
    return size / 1e6, len(known)


if __name__ == "__main__":
    main()
