"""Which pairs of a value and a record key a commit brings and takes away, for secondary indexes.

Follows `SecondaryIndexRecordGenerationUtils.convertWriteStatsToSecondaryIndexRecords` of Hudi 1.2, which
compares the rows of each file group before and after the commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.hfile.hfile_cells import EncodedCells
from hudisql.format.keys.key_table import KeyTable
from hudisql.format.metadata_table.metadata_writing import encode_secondary
from hudisql.format.metadata_table.secondary_keys import has_same_texts, secondary_keys, texts_of_values
from hudisql.format.schema.column_path import type_of_path
from hudisql.format.schema.meta_columns import META_SCHEMA, RECORD_KEY
from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.read.merge.merge_mode import LogMergeConfig, log_merge_config_of
from hudisql.read.merge.merged_log_scanner import read_log_records
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.storage import Storage
from hudisql.storage.parallel_reads import read_large
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.secondary_indexes import SecondaryIndex, secondary_indexes
from hudisql.write.metadata_table.deltacommit_files import IndexUpdate, IndexUpdates
from hudisql.write.metadata_table.group_writes import GroupWrite
from hudisql.write.metadata_table.key_changes import has_too_long_keys, keys_without

_CLUSTERING: Final = "CLUSTER"
_KEY_FIELD: Final = META_SCHEMA.field(RECORD_KEY)
_NO_KEYS: Final = pa.nulls(0, pa.large_string())


@dataclass(frozen=True, slots=True)
class SecondaryChanges:
    """The keys that come and go, by the names of the indexes; indexes that cannot be kept are left out."""

    came: Mapping[str, pa.Array] = field(default_factory=dict)
    gone: Mapping[str, pa.Array] = field(default_factory=dict)


NO_SECONDARY_CHANGES: Final = SecondaryChanges()


def read_secondary_changes(
    table: HudiTable, commit: CommitMetadata, writes: Sequence[GroupWrite], instant_time: str
) -> SecondaryChanges:
    """The changes of a commit by its writes to file groups, also of those before new log files.

    Reads the record keys and the indexed columns of the file groups before and after it; a compaction or
    clustering changes no rows. Raises CorruptTableError, StorageError, UnsupportedTableError.
    """
    schema = table.schema_of(commit.schema)
    indexes = [
        index for index in secondary_indexes(table).values() if _keeps_texts(index, table.schema, schema)
    ]
    if not indexes:
        return NO_SECONDARY_CHANGES
    if commit.operation_type == _CLUSTERING:
        writes = ()
    config = log_merge_config_of(table)
    known = config.instant_range.committed | {instant_time}
    config = replace(config, instant_range=replace(config.instant_range, committed=known))
    read_keys = SecondaryKeyReader(tuple(indexes), schema)
    of_groups = read_large(lambda write: _changes_of_group(table.storage, write, read_keys, config), writes)
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
    old_kind, new_kind = type_of_path(old, index.column), type_of_path(new, index.column)
    return old_kind is not None and new_kind is not None and has_same_texts(old_kind, new_kind)


def _changes_of_group(
    storage: Storage, write: GroupWrite, read_keys: SecondaryKeyReader, config: LogMergeConfig
) -> tuple[list[pa.Array], list[pa.Array]]:
    """The keys of each index that came, and those that are gone.

    Of a group with new log files only the rows of their keys can be others.
    """
    earlier, later, only = write.before, write.base, None
    if write.written and later is None:
        logs = write.logs
        later = logs if earlier is None else replace(earlier, log_files=(*earlier.log_files, *logs.log_files))
        only = KeyTable(read_log_records(storage, logs, config, pa.schema([_KEY_FIELD])).keys)
    before, after = (read_keys(storage, config, file_slice, only) for file_slice in (earlier, later))
    return (
        [keys_without(new, old) for new, old in zip(after, before, strict=True)],
        [keys_without(old, new) for new, old in zip(after, before, strict=True)],
    )
