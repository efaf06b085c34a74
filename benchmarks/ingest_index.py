"""The ingest index: CPU seconds of hashing, tagging with insertion, look-ups and rebuilding.

`python -m benchmarks.ingest_index` tags flushes of 100,000 keys, 70 % of them new, on an index of 1, 10 and
50 million keys, in memory and on disk (fewer keys), and rebuilds an index from base files. CPU seconds of all
threads (`process_time`). Writes its part of docs/benchmarks-ingest.md.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pages import replace_part
from hudisql.format.keys.key_hashes import Hashes, xxhash64
from hudisql.format.table_properties import TableProperties
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.ingest.index.key_index import UNKNOWN, KeyIndex
from hudisql.ingest.index.partition_index import PartitionIndex, PendingKeys
from hudisql.ingest.index.rebuild import add_slices
from hudisql.ingest.index.rocksdb_index import RocksDbIndex
from hudisql.ingest.index.sorted_index import SortedIndex
from hudisql.ingest.index.tag import tag_keys
from hudisql.storage import Storage
from hudisql.table.file_slice import BaseFile, FileSlice
from hudisql.table.hudi_table import HudiTable

ROOT: Final = Path(__file__).resolve().parent.parent
TITLE: Final = "Ingest index"
MILLION: Final = 1_000_000
FLUSH: Final = 100_000
NEW_SHARE: Final = 0.7
GROUPS: Final = 300
HASH_GOAL, TAG_GOAL, REBUILD_GOAL = 20.0, 1.5, 2.0
_LOADED_AT_ONCE: Final = 2 * MILLION


@dataclass(frozen=True)
class Speed:
    """Millions a second of CPU time; `goal` None if there is none."""

    what: str
    speed: float
    goal: float | None = None
    note: str = ""


def _cpu(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def uuid_keys(random: np.random.Generator, count: int) -> pa.Array:
    """Random keys of 36 characters."""
    hexadecimal = random.bytes(16 * count).hex()
    offsets = np.arange(0, 32 * count + 1, 32, dtype=np.int32)
    text = np.frombuffer(hexadecimal.encode(), np.uint8).reshape(count, 32)
    dashes = np.full((count, 1), ord("-"), np.uint8)
    parts = [text[:, :8], dashes, text[:, 8:12], dashes, text[:, 12:16], dashes, text[:, 16:20], dashes]
    joined = np.concatenate([*parts, text[:, 20:]], axis=1)
    offsets = np.arange(0, 36 * count + 1, 36, dtype=np.int32)
    return pa.StringArray.from_buffers(
        count, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(joined))
    )


def measure_hashes() -> Speed:
    """Hash a million keys of 36 characters; the best of three."""
    keys = uuid_keys(np.random.default_rng(1), MILLION)
    xxhash64(keys)
    best = min(_cpu(lambda: xxhash64(keys)) for _ in range(3))
    return Speed("hash keys of 36 characters", len(keys) / best / MILLION, HASH_GOAL)


def measure_flushes(name: str, index: KeyIndex, keys: int, flushes: int, goal: float | None) -> list[Speed]:
    """Load the index with random hashes, then look flushes up and add their new keys."""
    random = np.random.default_rng(7)
    loaded = _cpu(lambda: _load(index, random, keys))
    known = np.random.default_rng(7).integers(0, 1 << 64, min(keys, _LOADED_AT_ONCE), dtype=np.uint64)
    spent = []
    for _ in range(flushes):
        new = random.integers(0, 1 << 64, int(FLUSH * NEW_SHARE), dtype=np.uint64)
        hashes = np.concatenate([new, random.choice(known, FLUSH - len(new))])
        spent.append(_cpu(lambda hashes=hashes: _flush(index, hashes)))
    size = f"{keys // MILLION} M keys"
    note = f"{index.nbytes / len(index):.1f} B a key in memory"
    return [
        Speed(f"{name}, {size}: load", keys / loaded / MILLION),
        Speed(f"{name}, {size}: look up and add", flushes * FLUSH / sum(spent) / MILLION, goal, note),
    ]


def _load(index: KeyIndex, random: np.random.Generator, keys: int) -> None:
    for start in range(0, keys, _LOADED_AT_ONCE):
        count = min(_LOADED_AT_ONCE, keys - start)
        hashes = random.integers(0, 1 << 64, count, dtype=np.uint64)
        index.add(hashes, (hashes % np.uint64(GROUPS)).astype(np.int32))


def _flush(index: KeyIndex, hashes: Hashes) -> None:
    new = hashes[index.look_up(hashes) == UNKNOWN]
    index.add(new, np.zeros(len(new), np.int32))


def measure_tagging(keys: int, flushes: int) -> Speed:
    """The whole way of a flush: real keys, hashed, tagged, collected and published."""
    random = np.random.default_rng(3)
    index = PartitionIndex("p", SortedIndex())
    _load(index.keys, random, keys)
    for number in range(GROUPS):
        index.add(np.zeros(0, np.uint64), f"group-{number}")
    spent = 0.0
    before = uuid_keys(random, FLUSH)
    for _ in range(flushes):
        new = int(FLUSH * NEW_SHARE)
        batch = uuid_keys(random, FLUSH)
        flush = pa.concat_arrays([batch.slice(0, new), before.slice(0, FLUSH - new)])
        spent += _cpu(lambda flush=flush: _tag_and_publish(index, flush))
        before = batch
    return Speed(
        f"tag and publish keys, {keys // MILLION} M keys", flushes * FLUSH / spent / MILLION, TAG_GOAL
    )


def _tag_and_publish(index: PartitionIndex, keys: pa.Array) -> None:
    tagged = tag_keys(index, keys, lambda *_: [])
    is_new = np.flatnonzero(tagged.file_ids.is_null().to_numpy(zero_copy_only=False))
    places = np.zeros(len(is_new), np.int32)
    file_ids = pa.DictionaryArray.from_arrays(pa.array(places), pa.array(["group-0"]))
    pending = PendingKeys(index)
    pending.add(tagged.hashes[is_new], file_ids)
    pending.publish()


def measure_rebuild(keys: int, files: int) -> Speed:
    """Read the record keys of base files and add them to an index."""
    random = np.random.default_rng(5)
    with tempfile.TemporaryDirectory(prefix="hudisql-ingest-index-") as directory:
        slices = []
        for number in range(files):
            column = uuid_keys(random, keys // files)
            path = Path(directory) / f"f{number}_0-0-0_20261101000000000.parquet"
            rows = pa.table({"_hoodie_record_key": column, "value": np.arange(len(column))})
            pq.write_table(rows, path, compression="zstd", compression_level=1)
            file = BaseFile(str(path), path.stat().st_size, f"f{number}", "0-0-0", "20261101000000000")
            slices.append(FileSlice("", file.file_id, file.instant_time, file))
        _rebuild(slices[:1])
        spent = _cpu(lambda: _rebuild(slices))
    return Speed(f"rebuild from {files} base files", keys / spent / MILLION, REBUILD_GOAL)


def _rebuild(slices: list[FileSlice]) -> None:
    table = HudiTable("", TableProperties({}), Timeline(()), Storage())
    add_slices(table, PartitionIndex("", SortedIndex()), slices)


def render(speeds: list[Speed], peak_bytes: int) -> str:
    """This benchmark's part of the page."""
    lines = [
        f"# {TITLE}",
        "",
        f"`python -m benchmarks.ingest_index`: millions of keys a second of CPU time. Flushes have {FLUSH:,}"
        f" keys, {NEW_SHARE:.0%} of them new. Peak of the process: {peak_bytes / MILLION:,.0f} MB.",
        "",
        "| | M keys/s | goal | |",
        "|---|--:|---|---|",
    ]
    for each in speeds:
        goal = "–"
        if each.goal is not None:
            goal = f"≥ {each.goal:g}: {'met' if each.speed >= each.goal else '**missed**'}"
        lines.append(f"| {each.what} | {each.speed:.2f} | {goal} | {each.note} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write this benchmark's part of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=int, nargs="+", default=[1, 10, 50])
    parser.add_argument("--disk-millions", type=int, default=5)
    parser.add_argument("--rebuild-millions", type=int, default=4)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks-ingest.md")
    options = parser.parse_args()
    largest = max(options.millions)
    speeds = [measure_hashes()]
    for millions in options.millions:
        speeds += measure_flushes("in memory", SortedIndex(), millions * MILLION, 30, TAG_GOAL)
    speeds.append(measure_tagging(largest * MILLION, 30))
    speeds.append(measure_rebuild(options.rebuild_millions * MILLION, 16))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    on_disk = RocksDbIndex()
    speeds += measure_flushes("RocksDB", on_disk, options.disk_millions * MILLION, 10, None)
    on_disk.close()
    replace_part(options.output, TITLE, render(speeds, peak))


if __name__ == "__main__":
    main()
