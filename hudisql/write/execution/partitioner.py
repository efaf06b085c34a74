"""Assign changes to buckets, each of which is written into one file slice.

Follows `UpsertPartitioner` of Hudi 0.15: changed rows go to the file group that holds them, new rows first
fill small file groups of their partition, and the rest goes to new ones of about the target size. Works on
counts only; knows neither Spark nor the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hudisql.config.hudi_config import MAX_FILE_SIZE, SMALL_FILE_LIMIT
from hudisql.format.paths.split_file_id import split_bucket_of
from hudisql.table.file_slice import FileSlice

# The cost of opening, writing and marking a file, in bytes, and the bytes of a task for small slices.
_BUCKET_BYTES: Final = 256 << 10
_TASK_BYTES: Final = 4 << 20
_TASKS_A_CORE: Final = 4
_BUCKETS_A_TASK: Final = (16, 8, 4, 2)
HASH_RANGE = 1 << 30
"""New rows are spread over the buckets of their partition by a hash below this number."""


@dataclass(frozen=True, slots=True)
class FileSizing:
    """Bytes: files below `small_file_bytes` take new rows until they have about `max_file_bytes`."""

    small_file_bytes: int = SMALL_FILE_LIMIT.default_value
    max_file_bytes: int = MAX_FILE_SIZE.default_value
    bytes_per_row: float = 1024.0

    @property
    def rows_per_file(self) -> int:
        """The approximate number of rows in a new file."""
        return max(1, int(self.max_file_bytes / self.bytes_per_row))


@dataclass(frozen=True, slots=True)
class BucketInfo:
    """The work of one task: a slice to merge, or (None) new file groups for `rows` rows of the partition.

    `file_id_prefix` is set for a new file group of a table with a bucket index.
    """

    number: int
    partition_path: str
    file_slice: FileSlice | None
    rows: int
    file_id_prefix: str | None = None


@dataclass(frozen=True, slots=True)
class InsertBuckets:
    """The distribution of a partition's new rows: hashes below `bounds[i]` go to the i-th of `buckets`.

    With a bucket index there are no bounds: rows of hash bucket i go to the i-th, which is -1 if there are no
    such rows.
    """

    buckets: tuple[int, ...]
    bounds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BucketPlan:
    """All buckets, with the bucket of each changed file group and those of each partition's new rows."""

    buckets: tuple[BucketInfo, ...]
    of_file_group: Mapping[tuple[str, str], int]
    of_new_rows: Mapping[str, InsertBuckets]


def buckets_a_task(buckets: Sequence[BucketInfo], bytes_per_row: float, parallelism: int) -> int:
    """The number of consecutive buckets of one Spark task, so that small slices share its cost.

    In addition to its largest slice a task gets at most a few megabytes, and each core gets several tasks.
    """
    costs = [_BUCKET_BYTES + bucket_bytes(bucket, bytes_per_row) for bucket in buckets]
    most = min(_TASK_BYTES, sum(costs) / (_TASKS_A_CORE * max(1, parallelism)))
    for count in _BUCKETS_A_TASK:
        groups = [costs[start : start + count] for start in range(0, len(costs), count)]
        if all(sum(group) - max(group) <= most for group in groups):
            return count
    return 1


def assign_buckets(
    slices: Iterable[FileSlice],
    changed: Mapping[tuple[str, str], int],
    new_rows: Mapping[str, int],
    sizing: FileSizing,
) -> BucketPlan:
    """Assign buckets. `changed` counts rows by (partition path, file id), `new_rows` by partition path.

    `slices` are the latest ones of the affected partitions. Slices with log files get none of `new_rows`, and
    hash buckets of a split partition get only rows with their hash.
    """
    slices = list(slices)
    by_partition: dict[str, list[FileSlice]] = {}
    for each in slices:
        by_partition.setdefault(each.partition_path, []).append(each)
    buckets, of_file_group = _merges(slices, changed)
    of_new_rows = {}
    for path, rows in sorted(new_rows.items()):
        shares = _shares(rows, by_partition.get(path, ()), sizing)
        numbers = []
        for file_slice, share in shares:
            known = of_file_group.get((path, file_slice.file_id)) if file_slice else None
            if known is None:
                known = len(buckets)
                buckets.append(BucketInfo(known, path, file_slice, share))
                if file_slice is not None:
                    of_file_group[path, file_slice.file_id] = known
            else:
                buckets[known] = replace(buckets[known], rows=buckets[known].rows + share)
            numbers.append(known)
        of_new_rows[path] = InsertBuckets(tuple(numbers), _bounds([share for _, share in shares]))
    return BucketPlan(tuple(buckets), of_file_group, of_new_rows)


def assign_hash_buckets(
    slices: Iterable[FileSlice],
    changed: Mapping[tuple[str, str], int],
    new_rows: Mapping[tuple[str, int], int],
    group_of: Mapping[tuple[str, int], FileSlice],
    file_id_prefix: Callable[[str, int], str],
) -> BucketPlan:
    """Assign buckets in a table with a bucket index.

    `new_rows` counts rows by partition path and hash bucket, `group_of` has the slices of existing buckets,
    which get all rows of their bucket, with or without log files. `file_id_prefix` is for new ones.
    """
    buckets, of_file_group = _merges(slices, changed)
    numbers: dict[str, list[int]] = {}
    for (path, hash_bucket), rows in sorted(new_rows.items()):
        file_slice = group_of.get((path, hash_bucket))
        known = None if file_slice is None else of_file_group.get((path, file_slice.file_id))
        if known is None:
            known = len(buckets)
            prefix = file_id_prefix(path, hash_bucket) if file_slice is None else None
            buckets.append(BucketInfo(known, path, file_slice, rows, prefix))
            if file_slice is not None:
                of_file_group[path, file_slice.file_id] = known
        else:
            buckets[known] = replace(buckets[known], rows=buckets[known].rows + rows)
        of_path = numbers.setdefault(path, [])
        of_path += [-1] * (hash_bucket + 1 - len(of_path))
        of_path[hash_bucket] = known
    of_new_rows = {path: InsertBuckets(tuple(found), ()) for path, found in numbers.items()}
    return BucketPlan(tuple(buckets), of_file_group, of_new_rows)


def _merges(
    slices: Iterable[FileSlice], changed: Mapping[tuple[str, str], int]
) -> tuple[list[BucketInfo], dict[tuple[str, str], int]]:
    """The buckets of slices whose rows change, and the bucket of each file group."""
    slice_of = {file_slice.file_group: file_slice for file_slice in slices}
    groups = sorted(changed.items())
    buckets = [BucketInfo(number, key[0], slice_of[key], rows) for number, (key, rows) in enumerate(groups)]
    return buckets, {key: number for number, (key, _) in enumerate(groups)}


def bucket_bytes(bucket: BucketInfo, bytes_per_row: float) -> float:
    """The approximate bytes that a bucket reads and writes."""
    stored = 0 if bucket.file_slice is None else bucket.file_slice.length
    return stored + bucket.rows * bytes_per_row


def _shares(rows: int, slices: Sequence[FileSlice], sizing: FileSizing) -> list[tuple[FileSlice | None, int]]:
    """The file groups of the partition's new rows (None: a new one), each with its row count."""
    shares: list[tuple[FileSlice | None, int]] = []
    small = [
        file_slice
        for file_slice in slices
        if not file_slice.has_log_files
        and split_bucket_of(file_slice.file_id) is None
        and file_slice.base_file is not None
        and file_slice.base_length < sizing.small_file_bytes
    ]
    for each in sorted(small, key=lambda one: (one.base_length, one.file_id)):
        room = int((sizing.max_file_bytes - each.base_length) / sizing.bytes_per_row)
        taken = min(rows, room)
        if taken > 0:
            shares.append((each, taken))
            rows -= taken
        if not rows:
            return shares
    files = math.ceil(rows / sizing.rows_per_file)
    share, more = divmod(rows, files)
    return shares + [(None, share + (number < more)) for number in range(files)]


def _bounds(shares: Sequence[int]) -> tuple[int, ...]:
    total = sum(shares)
    bounds, upto = [], 0
    for share in shares:
        upto += share
        bounds.append(HASH_RANGE * upto // total)
    return tuple(bounds)
