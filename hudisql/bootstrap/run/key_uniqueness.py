"""Checks before the commit that no record key occurs twice in a partition, or in the table.

Hudi identifies a record by key and partition path and would update one of two equal records at random. Files
whose ranges of keys overlap are compared by 64-bit hashes of the skeletons' own key columns, which Spark
groups; where hashes are equal, the keys are compared. (Hashes from the first pass would avoid that reading,
but need temporary files to write, list and delete.) Reads skeletons only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudisql.bootstrap.files.key_ranges import group_overlapping
from hudisql.bootstrap.files.skeleton import KeyCheck
from hudisql.errors import BootstrapBlockedError, StorageError
from hudisql.format.keys.key_hashes import Hashes, murmur_hash64, repeated_hashes
from hudisql.format.schema.meta_columns import RECORD_KEY
from hudisql.spark.task_runner import exchange_between_tasks
from hudisql.storage import Storage

if TYPE_CHECKING:
    from hudisql.bootstrap.plan.bootstrap_plan import BootstrapPlan
    from hudisql.bootstrap.run.table_files import BootstrapFile
    from hudisql.context import Context

ALL_BITS: Final = (1 << 64) - 1
# The hashes of one task: 8 MB while it scatters them, 32 MB of one bucket (twice that when it sorts).
_HASHES_PER_BATCH: Final = 1 << 20
_HASHES_A_BUCKET: Final = 1 << 22
_HASHES_WORTH_A_TASK: Final = 1 << 18
# Suspicious hashes are sent to all tasks: 8 MB of them. Further ones are not counted, only reported.
_MOST_SUSPECTS: Final = 1_000_000
_BATCH_ROWS: Final = 262_144
_SAMPLES: Final = 10
_ROW_BITS: Final = 40
_SEED_SPREAD: Final = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class ComparedFile:
    """A skeleton whose keys are compared within its `group`; `number` is its position among all files."""

    number: int
    group: int
    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Suspects:
    """Hashes that occur more than once, sorted; not all of them if `is_cut`."""

    hashes: Hashes
    is_cut: bool


@dataclass(frozen=True, slots=True)
class RepeatedKey:
    """A key that several rows have; first and last position are (file number, row in the file, from 0)."""

    key: str
    rows: int
    first: tuple[int, int]
    last: tuple[int, int]


@dataclass(frozen=True, slots=True)
class RepeatedKeys:
    """The number of repeated keys and of their rows, with the first few; at least these if `is_cut`."""

    keys: int
    rows: int
    samples: tuple[RepeatedKey, ...]
    is_cut: bool


def check_key_uniqueness(context: Context, plan: BootstrapPlan, skeletons: Sequence[BootstrapFile]) -> None:
    """Raise BootstrapBlockedError with counts and samples if keys are not as unique as `key_check` says.

    The skeletons' keys must not be null; their results have their ranges. Raises StorageError if one cannot
    be read again.
    """
    key_check = KeyCheck(plan.key_check)
    if not key_check.is_unique:
        return
    repeated_keys = find_repeated_keys(
        context,
        compared_files(skeletons, key_check),
        label=f"Comparing keys of {plan.request.full_name}, files",
        parallelism=plan.request.parallelism,
    )
    if repeated_keys.keys:
        raise _repeated_keys_error(plan, skeletons, repeated_keys)


def compared_files(skeletons: Sequence[BootstrapFile], key_check: KeyCheck) -> list[ComparedFile]:
    """The files whose keys are not proved to be unique by their ranges and the check of each file."""
    is_global = key_check is KeyCheck.UNIQUE_GLOBAL
    groups = group_overlapping(
        ("" if is_global else skeleton.partition_path, skeleton.result.key_range) for skeleton in skeletons
    )
    return [
        ComparedFile(
            number, group, skeletons[number].result.path, result.rows, skeletons[number].result.bytes
        )
        for group, numbers in enumerate(groups)
        for number in numbers
        for result in (skeletons[number].result,)
    ]


def find_repeated_keys(
    context: Context,
    files: Sequence[ComparedFile],
    *,
    label: str,
    parallelism: int | None = None,
    hash_bits: int = ALL_BITS,
) -> RepeatedKeys:
    """The keys that occur more than once in a group of files; `hash_bits` masks the hash (to weaken it).

    Two passes over the key columns: one brings equal hashes together, the second, only if there are some,
    their keys.
    """
    spark, storage = context.spark, context.storage
    rows = sum(file.rows for file in files)
    cores = parallelism or (spark.sparkContext.defaultParallelism if files else 1)
    buckets = max(math.ceil(rows / _HASHES_A_BUCKET), min(cores, math.ceil(rows / _HASHES_WORTH_A_TASK)), 1)
    by_bucket = exchange_between_tasks(
        spark,
        files,
        partial(_scatter_hashes, storage, buckets, hash_bits),
        partial(_gather_suspects, _MOST_SUSPECTS // buckets + 1),
        buckets=buckets,
        weight=_weight,
        console=context.console,
        label=label,
        parallelism=parallelism,
    )
    suspects = np.sort(np.concatenate([np.empty(0, np.uint64), *(bucket.hashes for bucket in by_bucket)]))
    if len(suspects) == 0:
        return RepeatedKeys(0, 0, (), is_cut=False)
    broadcast = spark.sparkContext.broadcast(suspects)
    try:
        confirmed = exchange_between_tasks(
            spark,
            files,
            lambda taken: _scatter_suspects(storage, cores, hash_bits, broadcast.value, taken),
            _gather_repeated,
            buckets=cores,
            weight=_weight,
            console=context.console,
            label=label,
            parallelism=parallelism,
        )
    finally:
        broadcast.unpersist()
    samples = sorted(
        (sample for repeated_keys in confirmed for sample in repeated_keys.samples),
        key=lambda repeated_key: repeated_key.first,
    )
    return RepeatedKeys(
        sum(repeated_keys.keys for repeated_keys in confirmed),
        sum(repeated_keys.rows for repeated_keys in confirmed),
        tuple(samples[:_SAMPLES]),
        is_cut=any(bucket.is_cut for bucket in by_bucket),
    )


def _weight(file: ComparedFile) -> int:
    return file.bytes


def _key_batches(storage: Storage, file: ComparedFile) -> Iterator[pa.StringArray]:
    try:
        with storage.open_input(file.path, file.bytes) as stream, pq.ParquetFile(stream) as skeleton:
            for batch in skeleton.iter_batches(_BATCH_ROWS, columns=[RECORD_KEY], use_threads=False):
                yield batch.column(0)
    except pa.ArrowException as error:
        raise StorageError(f"cannot read the skeleton {file.path} again: {error}") from error


def _hash_batch(file: ComparedFile, keys: pa.StringArray, hash_bits: int) -> Hashes:
    # The group seeds the hash: equal keys of different groups do not meet. It must be spread over all bits,
    # since the hash only adds a small seed to the last characters: 12 of group 0 would meet 13 of group 1.
    hashes = murmur_hash64(keys, file.group * _SEED_SPREAD & ALL_BITS)
    return hashes if hash_bits == ALL_BITS else hashes & np.uint64(hash_bits)


def _bucket_starts(sorted_hashes: Hashes, buckets: int) -> list[int]:
    """The start of each bucket, an even share of the 64-bit numbers, among the hashes; and their end."""
    width = (ALL_BITS + 1) // buckets + 1
    edges = np.array([number * width for number in range(1, buckets)], dtype=np.uint64)
    return [0, *np.searchsorted(sorted_hashes, edges).tolist(), len(sorted_hashes)]


def _scatter_hashes(
    storage: Storage, buckets: int, hash_bits: int, files: Iterable[ComparedFile]
) -> Iterator[tuple[int, bytes]]:
    held: list[Hashes] = []
    count = 0
    for file in files:
        for keys in _key_batches(storage, file):
            held.append(_hash_batch(file, keys, hash_bits))
            count += len(keys)
            if count >= _HASHES_PER_BATCH:
                yield from _bucket_pieces(held, buckets)
                held, count = [], 0
    if held:
        yield from _bucket_pieces(held, buckets)


def _bucket_pieces(held: list[Hashes], buckets: int) -> Iterator[tuple[int, bytes]]:
    hashes = np.concatenate(held)
    hashes.sort()
    hashes = _at_most_two_of_each(hashes)
    starts = _bucket_starts(hashes, buckets)
    for bucket in range(buckets):
        if starts[bucket] < starts[bucket + 1]:
            yield bucket, hashes[starts[bucket] : starts[bucket + 1]].tobytes()


def _at_most_two_of_each(sorted_hashes: Hashes) -> Hashes:
    # Whether a hash repeats is all that has to be known.
    if len(sorted_hashes) < 3:
        return sorted_hashes
    keep = np.ones(len(sorted_hashes), dtype=np.bool_)
    np.not_equal(sorted_hashes[2:], sorted_hashes[:-2], out=keep[2:])
    return sorted_hashes if keep.all() else sorted_hashes[keep]


def _gather_suspects(most: int, batches: Iterator[bytes]) -> Suspects:
    """The hashes of a bucket that occur more than once, at most `most`."""
    held: list[Hashes] = []
    added = 0
    for batch in batches:
        held.append(np.frombuffer(batch, dtype=np.uint64))
        added += len(held[-1])
        # A key with very many rows makes a bucket larger than planned: copies beyond two add nothing.
        if added > max(_HASHES_A_BUCKET, len(held[0])):
            held, added = [_at_most_two_of_each(np.sort(np.concatenate(held)))], 0
    if not held:
        return Suspects(np.empty(0, np.uint64), is_cut=False)
    suspects = repeated_hashes(np.sort(np.concatenate(held)))
    return Suspects(suspects[:most], is_cut=len(suspects) > most)


def _scatter_suspects(
    storage: Storage, buckets: int, hash_bits: int, suspects: Hashes, files: Iterable[ComparedFile]
) -> Iterator[tuple[int, bytes]]:
    """The keys with suspicious hashes, once per batch, with their counts and positions."""
    for file in files:
        first_row = 0
        for keys in _key_batches(storage, file):
            hashes = _hash_batch(file, keys, hash_bits)
            at = np.minimum(np.searchsorted(suspects, hashes), len(suspects) - 1)
            rows = np.flatnonzero(suspects[at] == hashes)
            rows = rows[np.argsort(hashes[rows])]
            starts = _bucket_starts(hashes[rows], buckets)
            for bucket in range(buckets):
                own = rows[starts[bucket] : starts[bucket + 1]]
                if len(own):
                    positions = pa.array((file.number << _ROW_BITS) + first_row + own)
                    occurring = pa.table(
                        {
                            "group": pa.array(np.full(len(own), file.group)),
                            "key": keys.take(pa.array(own)),
                            "rows": pa.array(np.ones(len(own), dtype=np.int64)),
                            "first": positions,
                            "last": positions,
                        }
                    )
                    yield bucket, _to_bytes(_add_up([occurring]))
            first_row += len(keys)


def _add_up(tables: Sequence[pa.Table]) -> pa.Table:
    """One row per key of the tables' rows."""
    added = (
        pa.concat_tables(tables)
        .group_by(["group", "key"])
        .aggregate([("rows", "sum"), ("first", "min"), ("last", "max")])
    )
    return added.rename_columns({"rows_sum": "rows", "first_min": "first", "last_max": "last"}).select(
        ["group", "key", "rows", "first", "last"]
    )


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _gather_repeated(batches: Iterator[bytes]) -> RepeatedKeys:
    """The keys of a bucket that are in more than one row: equal hashes of different keys are dropped here."""
    held: list[pa.Table] = []
    added = 0
    for batch in batches:
        held.append(pa.ipc.open_stream(batch).read_all())
        added += held[-1].num_rows
        if added > max(_HASHES_WORTH_A_TASK, held[0].num_rows):
            held, added = [_add_up(held)], 0
    if not held:
        return RepeatedKeys(0, 0, (), is_cut=False)
    occurring = _add_up(held)
    repeated = occurring.filter(pc.greater(occurring["rows"], 1))
    firsts = repeated.sort_by("first").slice(0, _SAMPLES).to_pylist()
    samples = tuple(
        RepeatedKey(first["key"], first["rows"], _place(first["first"]), _place(first["last"]))
        for first in firsts
    )
    return RepeatedKeys(repeated.num_rows, pc.sum(repeated["rows"]).as_py() or 0, samples, is_cut=False)


def _place(encoded: int) -> tuple[int, int]:
    return encoded >> _ROW_BITS, encoded & ((1 << _ROW_BITS) - 1)


def _repeated_keys_error(
    plan: BootstrapPlan, skeletons: Sequence[BootstrapFile], found: RepeatedKeys
) -> BootstrapBlockedError:
    is_global = plan.request.key_check == KeyCheck.UNIQUE_GLOBAL
    scope = "the table" if is_global or not plan.partition_columns else "a partition"
    named = ", ".join(plan.record_key)
    subject = (
        f"1 record key ({named}) occurs" if found.keys == 1 else f"{found.keys:,} record keys ({named}) occur"
    )
    blockers = [_describe(skeletons, sample) for sample in found.samples]
    more = found.keys - len(blockers)
    listed = "".join(f"\n  - {text}" for text in blockers)
    if more:
        listed += f"\n  - and {more:,} more key{'' if more == 1 else 's'}"
    remedy = (
        "take keys that are unique only in their partition with key_check => 'unique', or any"
        if is_global and plan.partition_columns
        else "take them as they are"
    )
    return BootstrapBlockedError(
        f"{'at least ' if found.is_cut else ''}{subject} more than once in {scope},"
        f" in {found.rows:,} rows; rows count from 0:{listed}",
        blockers=blockers,
        hint="no file was kept: an update would hit any one of the rows of a key;"
        f" add a column to the key, remove the surplus rows, or {remedy} with key_check => 'nulls'",
    )


def _describe(skeletons: Sequence[BootstrapFile], sample: RepeatedKey) -> str:
    (first_file, first_row), (last_file, last_row) = sample.first, sample.last
    first, row = skeletons[first_file].source_of(first_row)
    last, other_row = skeletons[last_file].source_of(last_row)
    such_as = "" if sample.rows == 2 else "such as "
    counted = f"'{sample.key}' in {sample.rows:,} rows: {such_as}"
    if row is None or other_row is None:
        return counted + (f"in {first}" if first == last else f"in {first} and {last}")
    if first == last:
        return f"{counted}rows {row:,} and {other_row:,} of {first}"
    return f"{counted}row {row:,} of {first} and row {other_row:,} of {last}"
