"""Which pairs of a value and a record key a commit brings and takes away, for secondary indexes.

Follows `SecondaryIndexRecordGenerationUtils.convertWriteStatsToSecondaryIndexRecords` of Hudi 1.2, which
compares the rows of each file group before and after the commit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.hfile.hfile_cells import EncodedCells
from hudisql.format.keys.key_table import KeyTable
from hudisql.format.metadata_table.metadata_writing import encode_secondary
from hudisql.format.metadata_table.record_locations import FileGroup
from hudisql.format.metadata_table.secondary_keys import has_same_texts, secondary_keys, texts_of_values
from hudisql.format.schema.avro_schema import arrow_from_avro
from hudisql.format.schema.meta_columns import META_SCHEMA, RECORD_KEY
from hudisql.format.timeline.commit_metadata import NO_COMMIT, CommitMetadata
from hudisql.read.merge.merge_mode import LogMergeConfig, log_merge_config_of
from hudisql.read.merge.merged_log_scanner import read_log_records
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import file_slices_at
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.secondary_indexes import SecondaryIndex, secondary_indexes
from hudisql.write.metadata_table.deltacommit_files import IndexUpdate, IndexUpdates
from hudisql.write.metadata_table.key_changes import has_too_long_keys, keys_without

_THREADS: Final = 8
_CLUSTERING: Final = "CLUSTER"
_KEY_FIELD: Final = META_SCHEMA.field(RECORD_KEY)
_NO_KEYS: Final = pa.nulls(0, pa.large_string())


@dataclass(frozen=True, slots=True)
class _GroupChange:
    """A file group before a commit and after it, None where it has no rows; `written` are its new log files.

    Of a group with new log files only the rows of their keys can be others.
    """

    before: FileSlice | None
    after: FileSlice | None
    written: FileSlice | None = None


@dataclass(frozen=True, slots=True)
class SecondaryChanges:
    """The keys that come and go, by the names of the indexes; indexes that cannot be kept are left out."""

    came: Mapping[str, pa.Array] = field(default_factory=dict)
    gone: Mapping[str, pa.Array] = field(default_factory=dict)


NO_SECONDARY_CHANGES: Final = SecondaryChanges()


def read_secondary_changes(
    table: HudiTable, commit: CommitMetadata, instant_time: str, written: Sequence[FileSlice]
) -> SecondaryChanges:
    """The changes of a commit by its files, which are `written`, each as a slice of its own.

    Reads the record keys and the indexed columns of the file groups before and after it; a compaction or
    clustering changes no rows. Raises CorruptTableError, StorageError, UnsupportedTableError.
    """
    schema = arrow_from_avro(commit.schema) if commit.schema else table.schema
    indexes = [
        index for index in secondary_indexes(table).values() if _keeps_texts(index, table.schema, schema)
    ]
    if not indexes:
        return NO_SECONDARY_CHANGES
    changes: list[_GroupChange] = []
    if not commit.compacted and commit.operation_type != _CLUSTERING:
        changes = _group_changes(table, commit, written)
    config = log_merge_config_of(table)
    known = config.instant_range.committed | {instant_time}
    config = replace(config, instant_range=replace(config.instant_range, committed=known))
    read_keys = SecondaryKeyReader(tuple(indexes), schema)
    with ThreadPoolExecutor(_THREADS) as pool:
        of_groups = list(
            pool.map(lambda change: _changes_of_group(table.storage, change, read_keys, config), changes)
        )
    came, gone = {}, {}
    for number, index in enumerate(indexes):
        all_came = pa.concat_arrays([_NO_KEYS, *(of_group[0][number] for of_group in of_groups)])
        all_gone = pa.concat_arrays([_NO_KEYS, *(of_group[1][number] for of_group in of_groups)])
        if not has_too_long_keys(all_came):
            # Rows that have moved to another file group keep their pairs.
            came[index.name] = pc.unique(all_came)
            gone[index.name] = pc.unique(keys_without(all_gone, all_came))
    return SecondaryChanges(came, gone)


def secondary_updates(table: HudiTable, changes: SecondaryChanges) -> IndexUpdates:
    """The updates of the indexes. Raises CorruptTableError, StorageError."""
    indexes = secondary_indexes(table)
    return {
        name: IndexUpdate(
            cells_of_keys(came), changes.gone[name].cast(pa.string()), indexes[name].file_groups_of
        )
        for name, came in changes.came.items()
        if name in indexes
    }


def cells_of_keys(keys: pa.Array) -> EncodedCells:
    """The records of these keys of a secondary index, which are alike."""
    return EncodedCells(keys, np.zeros(len(keys), np.int64), [encode_secondary()])


@dataclass(frozen=True, slots=True)
class SecondaryKeyReader:
    """Reads the keys of `indexes` of file slices; `schema` is that of the table."""

    indexes: tuple[SecondaryIndex, ...]
    schema: pa.Schema

    def __call__(
        self,
        storage: Storage,
        config: LogMergeConfig,
        file_slice: FileSlice | None,
        only: KeyTable | None = None,
    ) -> list[pa.Array]:
        """The keys of each index, large strings, of the rows of a slice; of record keys in `only` alone.

        Raises the errors of `read_file_slice`.
        """
        keys = [[_NO_KEYS] for _ in self.indexes]
        for batch in [] if file_slice is None else self._batches(storage, config, file_slice):
            if only is not None:
                batch = batch.filter(pa.array(only.find(batch.column(RECORD_KEY)) >= 0))
            record_keys = batch.column(RECORD_KEY).cast(pa.large_string())
            for index, keys_of_index in zip(self.indexes, keys, strict=True):
                values = index.values_in(batch.column(index.column[0]))
                keys_of_index.append(secondary_keys(texts_of_values(values), record_keys))
        return [pa.concat_arrays(keys_of_index) for keys_of_index in keys]

    def _batches(
        self, storage: Storage, config: LogMergeConfig, file_slice: FileSlice
    ) -> Iterator[pa.RecordBatch]:
        columns = {index.column[0]: self.schema.field(index.column[0]) for index in self.indexes}
        schema = pa.schema([_KEY_FIELD, *columns.values()])
        return read_file_slice(storage, SliceRead(file_slice, schema, log_merge_config=config))


def _keeps_texts(index: SecondaryIndex, old: pa.Schema, new: pa.Schema) -> bool:
    """False if a commit drops the column, or gives it a type whose values have other texts."""
    old_kind, new_kind = index.kind_in(old), index.kind_in(new)
    return old_kind is not None and new_kind is not None and has_same_texts(old_kind, new_kind)


def _group_changes(
    table: HudiTable, commit: CommitMetadata, written: Sequence[FileSlice]
) -> list[_GroupChange]:
    replaced = {
        (path, file_id)
        for path, file_ids in (commit.partition_to_replace_file_ids or {}).items()
        for file_id in file_ids
    }
    of_group: dict[FileGroup, list[FileSlice]] = defaultdict(list)
    for file_slice in written:
        of_group[file_slice.file_group].append(file_slice)
    followed = {
        path
        for path, stats in commit.partition_to_write_stats.items()
        if any(stat.prev_commit != NO_COMMIT for stat in stats)
        or any(new.base_file is None for new in written if new.partition_path == path)
    }
    paths = sorted({path for path, _ in replaced} | followed)
    before = {file_slice.file_group: file_slice for file_slice in file_slices_at(table, paths)}
    return [
        *(_change_of_group(before.get(group), files) for group, files in of_group.items()),
        *(_GroupChange(before[group], None) for group in sorted(replaced) if group in before),
    ]


def _change_of_group(before: FileSlice | None, written: Sequence[FileSlice]) -> _GroupChange:
    base = next((file_slice for file_slice in written if file_slice.base_file is not None), None)
    if base is not None:
        return _GroupChange(before, base)
    logs = sorted(
        (log_file for file_slice in written for log_file in file_slice.log_files),
        key=lambda log_file: log_file.version,
    )
    new = replace(written[0], log_files=tuple(logs))
    after = new if before is None else replace(before, log_files=(*before.log_files, *logs))
    return _GroupChange(before, after, new)


def _changes_of_group(
    storage: Storage, change: _GroupChange, read_keys: SecondaryKeyReader, config: LogMergeConfig
) -> tuple[list[pa.Array], list[pa.Array]]:
    """The keys of each index that came, and those that are gone."""
    only = None
    if change.written is not None:
        only = KeyTable(read_log_records(storage, change.written, config, pa.schema([_KEY_FIELD])).keys)
    before, after = (
        read_keys(storage, config, file_slice, only) for file_slice in (change.before, change.after)
    )
    return (
        [keys_without(new, old) for new, old in zip(after, before, strict=True)],
        [keys_without(old, new) for new, old in zip(after, before, strict=True)],
    )
