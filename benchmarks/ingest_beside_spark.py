"""The ingest worker beside Spark's structured streaming into Apache Hudi: CPU seconds for the same events.

One broker has the events. Both write a merge-on-read table, as many events a commit, and both have taken
another topic before, so that start-up and first compilations are left out. hudisql counts the rows of both
tables. Writes its part of docs/benchmarks-ingest.md.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.ingest import ROOT, LocalTable, make_events, make_table, measure, produce
from benchmarks.pages import replace_part
from benchmarks.process_tree import CpuClock, peak_resident_bytes, started_clock
from hudisql.format import table_properties as keys
from hudisql.format.schema.meta_columns import RECORD_KEY
from hudisql.ingest.declaration import IngestDeclaration
from hudisql.ingest.table_buffer import EventBatch
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from scripts.setup_oracles import install_hudi_bundle, install_spark_kafka_jars
from tests.ingest.broker import KafkaBroker, kafka_broker
from tests.oracle.client import HudiOracle, start_oracle
from tests.oracle.comparison import our_rows

TITLE: Final = "Beside Spark's structured streaming"
GOAL: Final = 50.0
SMALL: Final = 1_000
_FIRST_COMMITS: Final = 5
_HUDI: Final = "0.15.0"
_COLUMNS: Final = (
    "event_id string, user_id bigint, session string, kind string, amount decimal(12,2), price double, "
    "quantity int, country string, device string, ok boolean, ts bigint, note string, dt string"
)
_OPTIONS: Final = {
    "hoodie.table.name": "events",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.recordkey.field": "event_id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    # Ours compacts in another process: neither does here.
    "hoodie.compact.inline": "false",
    "hoodie.datasource.compaction.async.enable": "false",
    "hoodie.parquet.compression.codec": "snappy",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.insert.shuffle.parallelism": "2",
}


@dataclass(frozen=True)
class Beside:
    """CPU and wall-clock seconds of one engine for all events, and its peak memory in bytes."""

    engine: str
    cpu: float
    wall: float
    memory: int


@contextmanager
def running_spark(directory: Path) -> Iterator[tuple[HudiOracle, CpuClock]]:
    """Apache Hudi 0.15 on Spark 3.5 with Spark's Kafka source, and a clock of its CPU time."""
    jars = [install_hudi_bundle(_HUDI), *install_spark_kafka_jars()]
    config = {"spark.jars": ",".join(map(str, jars)), "spark.sql.shuffle.partitions": "2"}
    oracle = start_oracle(_HUDI, directory / "spark", memory="3g", config=config)
    clock = started_clock(oracle.child.process.pid)
    try:
        yield oracle, clock
    finally:
        clock.stop()
        oracle.close()


def measure_spark(
    broker: KafkaBroker,
    directory: Path,
    sent: tuple[float, int],
    most: int,
    warm_ups: int,
    with_metadata_table: bool,
) -> tuple[Beside, float]:
    """Stream the topic `events` into a table, after `warm_ups` streams of the topic `warm_up`; then
    `warm_up` in commits of SMALL events each: the CPU seconds of one.

    Apache Hudi keeps a metadata table unless told otherwise; with it a commit costs more.
    """
    options = {**_OPTIONS, "hoodie.metadata.enable": str(with_metadata_table).lower()}
    with running_spark(directory) as (oracle, clock):
        for number in range(warm_ups):
            _stream(oracle, broker, directory, "warm_up", most, f"warm_up{number}", options)
        cpu, wall = clock.seconds(), time.perf_counter()
        _stream(oracle, broker, directory, "events", most, "events", options)
        cpu, wall = clock.seconds() - cpu, time.perf_counter() - wall
        before = clock.seconds()
        _stream(oracle, broker, directory, "warm_up", SMALL, "small", options)
        small = clock.seconds() - before
        memory = peak_resident_bytes(_java_of(oracle.child.process.pid))
    found = our_rows(open_table(Storage(), str(directory / "hudi_events"))).column(RECORD_KEY)
    assert len(found.unique()) == len(found) == sent[1], (len(found.unique()), len(found), sent[1])
    commits = len(open_table(Storage(), str(directory / "hudi_small")).timeline.commits)
    label = "with" if with_metadata_table else "without"
    engine = f"Spark 3.5, Apache Hudi 0.15, {label} its metadata table"
    return Beside(engine, cpu, wall, memory), small / commits


def measure_small(directory: Path, commits: int = 40) -> float:
    """CPU seconds of one of our commits of SMALL events, after a few others."""
    path = str(directory / "small")
    make_table(path, keys.MERGE_ON_READ)
    declaration = IngestDeclaration(topic="small", bootstrap_servers="none:1")
    feed = LocalTable(path, declaration).feed("benchmark").open()
    source = "small", 0
    feed.begin_at({source: 0}, commits=False)
    values = [value for _, value in make_events(SMALL * (commits + _FIRST_COMMITS), 0.3)]
    began = 0.0
    for at in range(0, len(values), SMALL):
        if at == SMALL * _FIRST_COMMITS:
            began = time.process_time()
        offsets = np.arange(at, at + SMALL)
        part, nothing = values[at : at + SMALL], [None] * SMALL
        feed.take(EventBatch(source, part, nothing, offsets, np.zeros(SMALL, np.int64), at + SMALL), 0.0)
        feed.flush()
    return (time.process_time() - began) / commits


def _stream(
    oracle: HudiOracle,
    broker: KafkaBroker,
    directory: Path,
    topic: str,
    most: int,
    name: str,
    options: dict[str, str],
) -> None:
    oracle.request(
        "stream_topic",
        servers=broker.servers,
        topic=topic,
        columns=_COLUMNS,
        path=str(directory / f"hudi_{name}"),
        checkpoint=str(directory / f"checkpoint_{name}"),
        most=most,
        options=options,
    )


def _java_of(pid: int) -> int:
    """The JVM that the Python process started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return next(int(each) for each in children if "java" in Path(f"/proc/{each}/comm").read_text())


def render(
    megabytes: float,
    events: int,
    ours: tuple[Beside, float],
    sparks: Sequence[tuple[Beside, float]],
    command: str,
) -> str:
    """This benchmark's part of the page; an engine comes with the CPU seconds of one of its small commits."""
    lines = [
        f"# {TITLE}",
        "",
        f"`{command}`, {date.today().isoformat()}: {events:,} JSON events ({megabytes:.0f} MB, 30 % of them "
        "new states of earlier keys, 3 partitions), one merge-on-read table each, commits of 32 MB of "
        "events; Spark's own Kafka source, Hudi's default index, no compaction. CPU seconds of whole process "
        f"trees, in one run, start-up and a first topic left out. A small commit has {SMALL:,} events, here "
        "without Kafka. All tables have each key once. Apache Hudi keeps a metadata table by default. The "
        f"goal is a ratio of {GOAL:g}.",
        "",
        "| | CPU s | MB/s a core | wall s | peak memory | ratio | CPU ms of a small commit | ratio |",
        "|---|--:|--:|--:|--:|---|--:|---|",
    ]
    for engine, small in (ours, *sparks):
        lines.append(
            f"| {engine.engine} | {engine.cpu:.1f} | {megabytes / engine.cpu:.2f} | {engine.wall:.1f} | "
            f"{engine.memory / 1e6:.0f} MB | {_ratio(engine.cpu, ours[0].cpu)} | {small * 1000:.0f} | "
            f"{_ratio(small, ours[1])} |"
        )
    return "\n".join(lines) + "\n"


def _ratio(theirs: float, ours: float) -> str:
    if theirs == ours:
        return ""
    ratio = theirs / ours
    return f"{ratio:.0f}: {'met' if ratio >= GOAL else '**missed**'}"


def main() -> None:
    """Measure and write this benchmark's part of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--warm-up-events", type=int, default=20_000)
    parser.add_argument("--warm-ups", type=int, default=3)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks-ingest.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hudisql-ingest-") as name:
        directory = Path(name)
        with kafka_broker(directory / "kafka") as broker:
            broker.create_topic("warm_up", 4)
            broker.produce("warm_up", (value for _, value in make_events(options.warm_up_events, 0.3)))
            broker.create_topic("events", 4)
            sent = produce(broker, "events", options.events, 0.3)
            most = int(32 * (1 << 20) / (sent[0] * 1e6 / options.events))
            measured = measure(broker, directory, "events", sent, keys.MERGE_ON_READ, 32)
            ours = Beside("hudisql ingest worker", measured.cpu, measured.wall, measured.memory)
            small = measure_small(directory)
            sparks = [
                measure_spark(broker, directory / str(each), sent, most, options.warm_ups, each)
                for each in (False, True)
            ]
    command = f"python -m benchmarks.ingest_beside_spark --events {options.events}"
    text = render(sent[0], options.events, (ours, small), sparks, command)
    replace_part(options.output, TITLE, text)
    print(text)


if __name__ == "__main__":
    main()
