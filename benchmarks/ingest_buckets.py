"""Partitions before and after their split into hash buckets: index bytes, late events a second, reads.

`python -m benchmarks.ingest_buckets` writes JSON events into three partitions of a table, then late events
(half of them new keys) flush by flush, reads the table, splits the partitions, and does both again. CPU
seconds of this process, all threads (`process_time`). Writes its part of docs/benchmarks-ingest.md.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.ingest import LocalTable, make_events, make_table
from benchmarks.pages import replace_part
from hudisql.format import table_properties as keys
from hudisql.format.schema.meta_columns import RECORD_KEY
from hudisql.ingest.declaration import IngestDeclaration
from hudisql.ingest.table_buffer import EventBatch
from hudisql.ingest.table_feed import OpenFeed
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from tests.oracle.comparison import our_rows

ROOT: Final = Path(__file__).resolve().parent.parent
TITLE: Final = "Split partitions"
SOURCE: Final = ("events", 0)
_BATCH: Final = 10_000


@dataclass(frozen=True)
class Phase:
    """Before or after the split: late events a second of CPU time, and CPU seconds of a read."""

    index_bytes: int
    late_speed: float
    read_cpu: float
    rows: int


@dataclass(frozen=True)
class Comparison:
    """One table; `split_cpu` are the CPU seconds of splitting all of its partitions into `split_bytes`,
    `split_read_cpu` those of a read right after it.
    """

    table_type: str
    before: Phase
    after: Phase
    split_cpu: float
    split_bytes: int
    split_read_cpu: float


def _cpu(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


class _Feed:
    """A table's feed, events given by hand."""

    def __init__(self, path: str, split: str, sent: int) -> None:
        declaration = IngestDeclaration(topic="events", bootstrap_servers="none:1", split=split)
        self.feed: OpenFeed = LocalTable(path, declaration).feed("benchmark").open()
        self.sent = sent
        self.feed.begin_at({SOURCE: sent}, commits=False)

    def flush(self, events: Sequence[tuple[bytes, bytes]]) -> None:
        for start in range(0, len(events), _BATCH):
            part = events[start : start + _BATCH]
            offsets = np.arange(self.sent, self.sent + len(part))
            self.sent += len(part)
            values: list[bytes | None] = [value for _, value in part]
            names: list[bytes | None] = [key for key, _ in part]
            times = np.zeros(len(part), np.int64)
            self.feed.take(EventBatch(SOURCE, values, names, offsets, times, self.sent), 0.0)
        self.feed.flush()
        self.feed.look_for_splits()

    def split(self) -> int:
        """Split all partitions that are due; the bytes that were written."""
        size = 0
        while self.feed.wants_split:
            result = self.feed.split_next()
            assert result is not None
            size += result.bytes
        return size


def compare(
    directory: Path, table_type: str, count: int, flush: int, late_flush: int, late: int
) -> Comparison:
    """Load `count` events, then write `late` flushes of late ones before the split, and as many after it."""
    path = str(directory / table_type)
    make_table(path, table_type)
    # Of the events behind `count` half are states of earlier keys.
    events = list(make_events(count + 2 * late * late_flush, 0.5))
    ends = range(count, len(events), late_flush)
    parts = [events[start : start + late_flush] for start in ends]
    loaded = _Feed(path, "never", 0)
    for start in range(0, count, flush):
        loaded.flush(events[start : start + flush])
    before = _phase(path, loaded, parts[:late])
    given = _Feed(path, "now", loaded.sent)
    started = time.process_time()
    size = given.split()
    split_cpu = time.process_time() - started
    split_read = _read_cpu(path)
    return Comparison(table_type, before, _phase(path, given, parts[late:]), split_cpu, size, split_read)


def _phase(path: str, given: _Feed, parts: Sequence[Sequence[tuple[bytes, bytes]]]) -> Phase:
    cpu = sum(_cpu(lambda part=part: given.flush(part)) for part in parts)  # type: ignore[misc]
    found = our_rows(open_table(Storage(), path))
    assert len(found.column(RECORD_KEY).unique()) == found.num_rows
    return Phase(given.feed._index.nbytes, sum(map(len, parts)) / cpu, _read_cpu(path), found.num_rows)


def _read_cpu(path: str) -> float:
    return min(_cpu(lambda: our_rows(open_table(Storage(), path))) for _ in range(3))


def render(found: Sequence[Comparison], count: int, late_flush: int, late: int) -> str:
    """This benchmark's part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"`python -m benchmarks.ingest_buckets`: {count:,} JSON events in three partitions, then {late} "
        f"flushes of {late_flush:,} late events, half of them new keys, before the split of all partitions, "
        "and as many after it. CPU seconds, all threads; each key is there once. Reads are of the whole "
        "table: after the late events, and right after the split.",
        "",
        "| table | | index in memory | late events a second | read, s | rows |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for each in found:
        for name, phase in (("before", each.before), ("after", each.after)):
            index, speed = f"{phase.index_bytes / 1e6:.1f} MB", f"{phase.late_speed:,.0f}"
            read = f"{phase.read_cpu:.2f} | {phase.rows:,}"
            lines.append(f"| {each.table_type} | {name} | {index} | {speed} | {read} |")
            if phase is each.before:
                read = f"{each.split_read_cpu:.2f} | {phase.rows:,}"
                lines.append(f"| {each.table_type} | right after | 0 MB | | {read} |")
    lines.append("")
    for each in found:
        lines.append(
            f"The split of the {each.table_type} table took {each.split_cpu:.1f} CPU seconds for "
            f"{each.split_bytes / 1e6:.0f} MB of base files."
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write this benchmark's part of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--flush", type=int, default=100_000)
    parser.add_argument("--late-flush", type=int, default=5_000)
    parser.add_argument("--late", type=int, default=10)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks-ingest.md")
    options = parser.parse_args()
    sizes = options.flush, options.late_flush, options.late
    with tempfile.TemporaryDirectory(prefix="hudisql-buckets-") as name:
        compare(Path(name) / "warm_up", keys.MERGE_ON_READ, 1_000, 1_000, 100, 1)
        found = [
            compare(Path(name), kind, options.events, *sizes)
            for kind in (keys.MERGE_ON_READ, keys.COPY_ON_WRITE)
        ]
    text = render(found, options.events, options.late_flush, options.late)
    replace_part(options.output, TITLE, text)
    print(text)


if __name__ == "__main__":
    main()
