"""The split of a partition, read from its file groups: one for each hash bucket, and those of other writers.

The file ids name the bucket, the number of buckets and the split's instant (`split_file_id`). A partition is
split if it has a file group for every bucket of one split; other file groups are foreign: their writers look
keys up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from hudisql.format.keys.bucket_id import bucket_ids
from hudisql.format.paths.split_file_id import MOST_BUCKETS, split_bucket_of
from hudisql.table.file_slice import FileSlice

BUCKET_BYTES: Final = 64 << 20
"""What the files of a bucket have together when a partition is split, about."""
_OUTGROWN: Final = 2


@dataclass(frozen=True, slots=True)
class PartitionSplit:
    """A partition that is split: its file ids by bucket, the foreign ones, and the bytes of files."""

    path: str
    instant_time: str
    file_ids: tuple[str, ...]
    foreign: frozenset[str] = frozenset()
    bytes: int = 0
    foreign_bytes: int = 0

    @property
    def buckets(self) -> int:
        """The number of buckets."""
        return len(self.file_ids)

    def file_ids_of(self, keys: pa.Array, fields: Sequence[str]) -> pa.Array:
        """The id of the file group that each record key belongs to; `fields` are the table's key columns."""
        numbers = bucket_ids(keys, fields, self.buckets)
        return pa.array(self.file_ids, pa.string()).take(pa.array(numbers.astype(np.int32)))

    def is_outgrown(self, bucket_bytes: int) -> bool:
        """True if the buckets have at least twice their intended bytes."""
        return self.bytes >= self.buckets * bucket_bytes * _OUTGROWN and self.buckets < MOST_BUCKETS


def find_split(path: str, slices: Iterable[FileSlice]) -> PartitionSplit | None:
    """The split of the partition at `path`, of its slices; None if it is not split."""
    file_slices = list(slices)
    splits: dict[tuple[str, int], dict[int, str]] = defaultdict(dict)
    for file_slice in file_slices:
        own = split_bucket_of(file_slice.file_id)
        if own is not None:
            splits[own.instant_time, own.buckets][own.bucket] = file_slice.file_id
    whole = [key for key, groups in splits.items() if len(groups) == key[1]]
    if not whole:
        return None
    instant_time, buckets = max(whole)
    groups = splits[instant_time, buckets]
    file_ids = tuple(groups[bucket] for bucket in range(buckets))
    foreign = {
        file_slice.file_id: file_slice.length
        for file_slice in file_slices
        if file_slice.file_id not in groups.values()
    }
    size = sum(file_slice.length for file_slice in file_slices)
    return PartitionSplit(path, instant_time, file_ids, frozenset(foreign), size, sum(foreign.values()))


def bucket_count(size: int, bucket_bytes: int) -> int:
    """The number of buckets for a partition of this size."""
    return min(max(1, -(-size // bucket_bytes)), MOST_BUCKETS)
