"""The file groups of a record index: those of the whole table, or those of each of its partitions.

Follows `HoodieTableMetadataUtil.getFileIDForFileGroup` and `mapRecordKeyToFileGroupIndex` of Hudi 1.2: the
file ids of a partitioned record index have the partition's path, escaped as one name, and a hash of the key
tells the file group among those of the partition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.errors import UnsupportedTableError
from hudisql.format.metadata_table.metadata_keys import file_groups_of
from hudisql.format.metadata_table.record_locations import NOT_FOUND
from hudisql.format.paths.partition_path import escape_partition_value

_OF_TABLE: Final = re.compile(r"record-index-()(\d{4,})-0", re.ASCII)
_OF_PARTITION: Final = re.compile(r"record-index-(.*)-(\d{4,})-0", re.ASCII | re.DOTALL)
KEYS_OF_A_GROUP: Final = 2_000_000
"""A task holds the file of a group: 250 MB."""
_MOST_GROUPS: Final = 10
_MOST_BYTES: Final = 160
"""With number, instant time and write token a name has at most 255 bytes."""

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RecordGroups:
    """The file groups by partition and by their numbers in it.

    `spans` has for each partition, by its escaped path, its first file group and how many it has; None for an
    index of the whole table.
    """

    file_ids: tuple[str, ...]
    spans: Mapping[str, tuple[int, int]] | None

    @property
    def is_partitioned(self) -> bool:
        """True if each partition of the table has file groups of its own."""
        return self.spans is not None

    def numbers_of(self, keys: pa.Array, paths: pa.Array | None) -> _Numbers:
        """For each key (text) the place of its file group, NOT_FOUND in a partition without file groups.

        `paths` are the paths of the partitions of the keys, encoded as a dictionary; None for an index of the
        whole table.
        """
        if paths is None or self.spans is None:
            return file_groups_of(keys, len(self.file_ids))
        spans = [
            self.spans.get(escape_partition_value(path), (0, 0)) for path in paths.dictionary.to_pylist()
        ]
        of_keys = paths.indices.to_numpy(zero_copy_only=False)
        firsts, counts = np.array(spans, np.int64).reshape(-1, 2)[of_keys].T
        return np.where(counts > 0, firsts + file_groups_of(keys, np.maximum(counts, 1)), NOT_FOUND)

    def numbers_in(self, path: str) -> range:
        """The places of the file groups that share the keys of the partition at this path."""
        if self.spans is None:
            return range(len(self.file_ids))
        first, count = self.spans.get(escape_partition_value(path), (0, 0))
        return range(first, first + count)

    def with_new_partitions(self, keys: Mapping[str, int]) -> RecordGroups:
        """With file groups of those partitions that have none yet, by their paths and numbers of keys.

        Raises UnsupportedTableError for partitions whose paths cannot stand in the names of files.
        """
        new = {path: n for path, n in keys.items() if escape_partition_value(path) not in (self.spans or ())}
        added = [
            f"record-index-{_name_of(path)}-{number:04}-0"
            for path, count in new.items()
            for number in range(min(1 + count // KEYS_OF_A_GROUP, _MOST_GROUPS))
        ]
        groups = record_groups([*self.file_ids, *added]) if added else self
        assert groups is not None  # new file groups beside complete ones
        return groups


def _name_of(path: str) -> str:
    """The partition's path in the names of files. Raises UnsupportedTableError."""
    name = escape_partition_value(path)
    is_long = len(name.encode()) > _MOST_BYTES
    if "_" not in name and not is_long:
        return name
    # Apache Hudi takes what stands before the first underscore for the file id: groups would mix.
    raise UnsupportedTableError(
        f"a partitioned record index has no place for the partition '{path}', whose path "
        f"{'is too long' if is_long else 'has an underscore'}: it would be a part of the names of files",
        hint="CALL create_metadata_table(table => …, indexes => 'record_index') makes one of the whole table "
        "in its place",
    )


NO_PARTITIONS: Final = RecordGroups((), MappingProxyType({}))
"""Of a table that had no partition yet."""


def record_groups(file_ids: Sequence[str]) -> RecordGroups | None:
    """The file groups with these ids; None if there is none, one is missing, or they are of both kinds."""
    is_whole = any(map(_OF_TABLE.fullmatch, file_ids))
    parsed = [(_OF_TABLE if is_whole else _OF_PARTITION).fullmatch(file_id) for file_id in file_ids]
    places = sorted((matched[1], int(matched[2]), matched[0]) for matched in parsed if matched is not None)
    spans: dict[str, tuple[int, int]] = {}
    for place, (partition, number, _) in enumerate(places):
        first, count = spans.get(partition, (place, 0))
        if number != count:
            return None
        spans[partition] = first, count + 1
    if not places or len(places) < len(file_ids):
        return None
    return RecordGroups(tuple(file_id for *_, file_id in places), None if is_whole else spans)


def rows_by_group(numbers: _Numbers) -> dict[int, _Numbers]:
    """The rows of each file group that has some, by its place; those of no file group are left out."""
    if not len(numbers):
        return {}
    order = np.argsort(numbers, kind="stable")
    found, firsts = np.unique(numbers[order], return_index=True)
    return {
        int(number): rows
        for number, rows in zip(found, np.split(order, firsts[1:]), strict=True)
        if number != NOT_FOUND
    }
