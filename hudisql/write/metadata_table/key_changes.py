"""Which record keys a commit puts into file groups and takes out of them, and what the record index gets.

Follows `HoodieTableMetadataUtil.convertMetadataToRecordIndexRecords` of Hudi 1.2, which compares the record
keys of the new files with those of the slices before. A key has one row in the table; if two file groups
have rows of one key, the index cannot tell both, and is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.hfile.hfile_cells import EncodedCells
from hudisql.format.keys.key_table import KeyTable
from hudisql.format.metadata_table.metadata_writing import encode_location
from hudisql.format.metadata_table.record_locations import NOT_FOUND
from hudisql.format.paths.file_names import FileGroup
from hudisql.format.schema.meta_columns import META_SCHEMA, RECORD_KEY
from hudisql.format.timeline.instant import BOOTSTRAP_INSTANT_TIMES
from hudisql.read.merge.merge_mode import InstantRange, LogMergeConfig, log_merge_config_of
from hudisql.read.merge.merged_log_scanner import read_log_records
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.storage import Storage
from hudisql.storage.parallel_reads import read_large
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.table.metadata_table.record_lookup import (
    find_records,
    keys_in_partitions,
    record_index_groups,
)
from hudisql.write.metadata_table.deltacommit_files import IndexUpdate
from hudisql.write.metadata_table.group_writes import GroupWrite

_KEYS: Final = pa.schema([META_SCHEMA.field(RECORD_KEY)])
# `pa.array` would import pandas.
_NO_KEYS: Final = pa.nulls(0, pa.large_string())
_INSTANT_FORMAT: Final = "%Y%m%d%H%M%S"
_ELSEWHERE: Final = -2
# HFiles have the length of a key as a signed number of two bytes.
_MOST_KEY_BYTES: Final = (1 << 15) - 1

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PlacedKeys:
    """Record keys, and for each the number of its file group."""

    keys: pa.Array
    numbers: _Numbers

    def take(self, rows: _Numbers) -> PlacedKeys:
        """Those of these rows."""
        return PlacedKeys(self.keys.take(pa.array(rows)), self.numbers[rows])

    def paths(self, of_groups: pa.Array | None) -> pa.Array | None:
        """The path of each key's partition by the paths of the file groups, encoded as a dictionary."""
        return None if of_groups is None else of_groups.take(pa.array(self.numbers))

    def pairs(self) -> pa.Array:
        """Texts that are equal for equal keys in the same file group alone."""
        return keys_in_partitions(self.keys, pa.array(self.numbers).cast(pa.string()).dictionary_encode())

    def in_partitions(self, of_groups: pa.Array | None) -> pa.Array:
        """The keys themselves, or with the paths of file groups texts that tell keys of each partition."""
        paths = self.paths(of_groups)
        return self.keys if paths is None else keys_in_partitions(self.keys, paths)


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """The keys that came into file groups, some of them perhaps known there, and those that left them.

    `groups` are the file groups by their numbers. `stored` are keys of rows that were in file groups before,
    for which the index does not have these groups.
    """

    groups: tuple[FileGroup, ...]
    present: PlacedKeys
    gone: PlacedKeys
    stored: PlacedKeys = field(default_factory=lambda: _placed([]))

    def with_stored(self, of_groups: Sequence[tuple[FileGroup, pa.Array]]) -> KeyChanges:
        """With the `stored` keys of these file groups."""
        groups = [*self.groups]
        number_of = {group: number for number, group in enumerate(groups)}
        numbers = [np.zeros(0, np.int64)]
        for group, keys in of_groups:
            if group not in number_of:
                number_of[group] = len(groups)
                groups.append(group)
            numbers.append(np.full(len(keys), number_of[group], np.int64))
        stored = pa.concat_arrays([_NO_KEYS, *(keys for _, keys in of_groups)])
        return replace(self, groups=tuple(groups), stored=PlacedKeys(stored, np.concatenate(numbers)))


def read_key_changes(table: HudiTable, writes: Sequence[GroupWrite], instant_time: str) -> KeyChanges:
    """The changes of a commit by its writes to file groups.

    Reads the record keys of the new files, of the base files that they follow and of replaced file groups.
    Raises CorruptTableError, StorageError, UnsupportedTableError.
    """
    config = log_merge_config_of(table)
    found = read_large(lambda each: _changes_of_group(table, each, config, instant_time), writes)
    return KeyChanges(
        tuple(each.group for each in writes),
        _placed([present for present, _ in found]),
        _placed([gone for _, gone in found]),
    )


def _changes_of_group(
    table: HudiTable, write: GroupWrite, config: LogMergeConfig, instant_time: str
) -> tuple[pa.Array, pa.Array]:
    """The keys that came, and those that left."""
    if not write.written:
        return _NO_KEYS, keys_of_slice(table.storage, config, write.before)
    if write.base is not None:
        after, before = (
            keys_of_slice(table.storage, config, write.base),
            keys_of_slice(table.storage, config, write.before),
        )
        return keys_without(after, before), keys_without(before, after)
    only = InstantRange(frozenset(), None, only=frozenset({instant_time}))
    records = read_log_records(table.storage, write.logs, replace(config, instant_range=only), _KEYS)
    keys = records.keys.cast(pa.large_string())
    has_row = records.row_of_key >= 0
    is_present = has_row.copy()
    is_present[has_row] = ~records.is_delete[records.row_of_key[has_row]]
    is_gone = ~is_present
    if config.merge_mode.keeps_newer_base_rows or config.merge_mode.orders_deletes:
        # The delete may lose against the stored row, which then must be found.
        is_gone &= ~records.may_yield
    return keys.filter(pa.array(is_present)), keys.filter(pa.array(is_gone))


def keys_of_slice(storage: Storage, config: LogMergeConfig, file_slice: FileSlice | None) -> pa.Array:
    """The record keys of the rows of a slice, as large strings. Raises the errors of their reading."""
    if file_slice is None:
        return _NO_KEYS
    read = SliceRead(file_slice, _KEYS, log_merge_config=config)
    batches = [batch.column(0).cast(pa.large_string()) for batch in read_file_slice(storage, read)]
    return pa.concat_arrays(batches) if batches else _NO_KEYS


def keys_without(keys: pa.Array, others: pa.Array) -> pa.Array:
    """The keys that are none of the others."""
    if not len(keys) or not len(others):
        return keys
    return keys.filter(pa.array(KeyTable(others).find(keys) < 0))


def _placed(of_groups: Sequence[pa.Array]) -> PlacedKeys:
    numbers = np.repeat(np.arange(len(of_groups)), [len(keys) for keys in of_groups])
    return PlacedKeys(pa.concat_arrays([_NO_KEYS, *of_groups]), numbers)


def index_changes(metadata: MetadataTable, changes: KeyChanges, instant_time: str) -> IndexUpdate | None:
    """The update of the index `record_index`.

    None if a key that came or left has rows in two file groups (in a partitioned index: of one partition),
    has come twice, or is too long; also if a `stored` one has. Looks up the keys that came or left. Raises
    CorruptTableError, UnsupportedTableError, StorageError.
    """
    present, gone, paths = changes.present, changes.gone, None
    groups = record_index_groups(metadata)
    if groups is not None and groups.is_partitioned:
        if _has_unfinished_commits(metadata, instant_time):
            return None
        paths = pa.array([path for path, _ in changes.groups], pa.string()).dictionary_encode()
    present_rows, gone_rows = present.in_partitions(paths), gone.in_partitions(paths)
    if has_too_long_keys(present.keys) or repeated_keys(present_rows):
        return None
    current = _current_groups(metadata, changes, present, paths)
    rows = np.flatnonzero((current != NOT_FOUND) & (current != present.numbers))
    if not _all_left(present_rows.take(pa.array(rows)), current[rows], gone_rows, gone.numbers):
        return None
    is_moved = current != present.numbers
    left = gone.take(np.flatnonzero(KeyTable(present_rows).find(gone_rows) < 0))
    left = left.take(np.flatnonzero(_current_groups(metadata, changes, left, paths) == left.numbers))
    left = left.take(np.flatnonzero(~_are_repeated(left.in_partitions(paths))))
    moved = present.take(np.flatnonzero(is_moved))
    left_out = _left_out(metadata, changes, paths)
    if left_out is None:
        return None
    left = left.take(_others(left.in_partitions(paths), left_out.in_partitions(paths)))
    moved = PlacedKeys(
        pa.concat_arrays([moved.keys, left_out.keys]), np.concatenate([moved.numbers, left_out.numbers])
    )
    inserted = milliseconds_of(instant_time)
    values = [encode_location(group, inserted) for group in changes.groups]
    return IndexUpdate(
        EncodedCells(moved.keys, moved.numbers, values),
        left.keys.cast(pa.string()),
        paths=moved.paths(paths),
        deleted_paths=left.paths(paths),
    )


def _left_out(metadata: MetadataTable, changes: KeyChanges, paths: pa.Array | None) -> PlacedKeys | None:
    """The `stored` keys that the index lacks with the commit; None if one of them has two rows then."""
    if not len(changes.stored.keys):
        return changes.stored
    stored = changes.stored.take(_others(changes.stored.pairs(), changes.gone.pairs()))
    stored = stored.take(_others(stored.pairs(), changes.present.pairs()))
    rows, gone_rows = stored.in_partitions(paths), changes.gone.in_partitions(paths)
    is_present = KeyTable(changes.present.in_partitions(paths)).find(rows) >= 0
    current = _current_groups(metadata, changes, stored, paths)
    is_lacking = (current == NOT_FOUND) | (KeyTable(gone_rows).find(rows) >= 0)
    lacking = stored.take(np.flatnonzero(is_lacking))
    has_two = is_present[is_lacking].any() or _are_repeated(lacking.in_partitions(paths)).any()
    return None if has_two or has_too_long_keys(lacking.keys) else lacking


def _others(keys: pa.Array, without: pa.Array) -> _Numbers:
    """The places of the keys that are none of `without`."""
    return np.flatnonzero(KeyTable(without).find(keys) < 0)


def repeated_keys(keys: pa.Array) -> int:
    """How many of the keys have come before."""
    return int(np.count_nonzero(_are_repeated(keys)))


def _has_unfinished_commits(metadata: MetadataTable, instant_time: str) -> bool:
    """True if others have written to the index; their rollback would remove file groups of new partitions."""
    pending = {instant.timestamp for instant in metadata.table.timeline.pending} - {instant_time}
    return any(instant.timestamp in pending for instant in metadata.own.timeline.instants)


def _are_repeated(keys: pa.Array) -> npt.NDArray[np.bool_]:
    repeated: npt.NDArray[np.bool_] = KeyTable(keys).find(keys) != np.arange(len(keys))
    return repeated


def has_too_long_keys(keys: pa.Array) -> bool:
    """True if one of the keys is longer than the 32767 bytes that a key of an HFile may have."""
    return len(keys) > 0 and pc.max(pc.binary_length(keys)).as_py() > _MOST_KEY_BYTES


def _current_groups(
    metadata: MetadataTable, changes: KeyChanges, placed: PlacedKeys, paths: pa.Array | None
) -> _Numbers:
    """The number of the file group that the index has for each key; another one below 0 for other groups.

    In a partitioned index the keys are looked up in the partitions where they are placed.
    """
    found = find_records(metadata, placed.keys, placed.paths(paths))
    number_of = {group: number for number, group in enumerate(changes.groups)}
    # The last one stands for keys that are not found.
    own = np.array([*(number_of.get(group, _ELSEWHERE) for group in found.groups), NOT_FOUND])
    numbers: _Numbers = own[found.numbers]
    return numbers


def _all_left(keys: pa.Array, current: _Numbers, gone: pa.Array, left: _Numbers) -> bool:
    """True if the keys, which the index has in the file groups `current`, have left these by the same commit.

    `gone` are keys that have left the file groups `left`.
    """
    if not len(keys):
        return True
    at = KeyTable(gone).find(keys)
    return bool(((at >= 0) & (left[at] == current)).all()) if len(gone) else False


def milliseconds_of(instant_time: str) -> int:
    """The instant time as Hudi stores it, read in the process's own time zone; 0 for a bootstrap's."""
    if instant_time in BOOTSTRAP_INSTANT_TIMES:
        return 0
    seconds = datetime.strptime(instant_time[:14], _INSTANT_FORMAT).timestamp()
    return int(seconds) * 1000 + int(instant_time[14:17] or 0)
