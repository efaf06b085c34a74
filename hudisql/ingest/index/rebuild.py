"""Build a partition's index from its latest file slices: the index needs no storage of its own.

Reads the record keys of base files and skeletons, and those of log files, deleted ones and rows that only
logs have included. External files are not opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.errors import UnsupportedTableError
from hudisql.format.keys.key_hashes import Hashes, xxhash64
from hudisql.format.schema import meta_columns
from hudisql.ingest.index.key_index import MOST_GROUPS, KeyIndex
from hudisql.ingest.index.partition_index import PartitionIndex, too_many_groups
from hudisql.read.merge.merge_mode import LogMergeConfig, log_merge_config_of
from hudisql.read.merge.merged_log_scanner import read_log_records
from hudisql.read.slice.slice_reader import SliceRead, read_base_rows
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import file_slices_at
from hudisql.table.hudi_table import HudiTable

_KEY_SCHEMA: Final = pa.schema([meta_columns.META_SCHEMA.field(meta_columns.RECORD_KEY)])
# Keys that are sorted together.
_KEYS_AT_ONCE: Final = 1 << 21


def build_partition_index(table: HudiTable, path: str, keys: KeyIndex) -> PartitionIndex:
    """The index of the partition at `path`, kept by the empty `keys`.

    Raises UnsupportedTableError for a table without meta columns and a partition with too many file groups,
    CorruptTableError, StorageError.
    """
    slices = file_slices_at(table, [path])
    if len(slices) > MOST_GROUPS:
        raise too_many_groups(path)
    index = PartitionIndex(path, keys)
    add_slices(table, index, slices)
    return index


def add_slices(
    table: HudiTable, index: PartitionIndex, slices: Iterable[FileSlice], *, logs_alone: bool = False
) -> None:
    """Add the keys of file slices of the index's partition, or with `logs_alone` only those in their logs."""
    if not table.properties.populate_meta_fields:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} keeps no meta columns (hoodie.populate.meta.fields=false): "
            "its record keys cannot be indexed",
            hint="write to it with a table that keeps them",
        )
    config: LogMergeConfig | None = None
    for file_slice in slices:
        if file_slice.has_log_files and config is None:
            config = log_merge_config_of(table)
        batches = read_slice_keys(table.storage, file_slice, config, logs_alone=logs_alone)
        for hashes in _hashes_of(batches):
            index.add(hashes, file_slice.file_id)


def read_slice_keys(
    storage: Storage, file_slice: FileSlice, config: LogMergeConfig | None, *, logs_alone: bool = False
) -> Iterator[pa.Array]:
    """The record keys of a slice, some twice, deleted ones too. `config` is needed for log files.

    Raises CorruptTableError, UnsupportedTableError, StorageError.
    """
    if not logs_alone:
        # A skeleton has the keys; its external file is not needed.
        read = SliceRead(replace(file_slice, external_file=None), _KEY_SCHEMA)
        for batch in read_base_rows(storage, read, _KEY_SCHEMA):
            yield batch.column(0)
    if file_slice.has_log_files:
        assert config is not None
        yield read_log_records(storage, file_slice, config, _KEY_SCHEMA).keys


def written_keys(storage: Storage, path: str) -> Iterator[pa.Array]:
    """The record keys of a base file that was just written. Raises StorageError."""
    with storage.open_input(path) as stream, pq.ParquetFile(stream) as file:
        for batch in file.iter_batches(_KEYS_AT_ONCE, columns=_KEY_SCHEMA.names, use_threads=False):
            yield batch.column(0)


def _hashes_of(batches: Iterable[pa.Array]) -> Iterator[Hashes]:
    """The keys' hashes, some millions at a time."""
    parts: list[Hashes] = []
    count = 0
    for batch in batches:
        parts.append(xxhash64(batch))
        count += len(batch)
        if count >= _KEYS_AT_ONCE:
            yield np.concatenate(parts)
            parts, count = [], 0
    if count:
        yield np.concatenate(parts)
