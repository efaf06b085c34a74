"""Put new rows whose keys were deleted in log files into the file groups whose base files have these keys.

Follows the indexes BLOOM and SIMPLE of Hudi 0.15 and 1.2, which search base files alone: a key that a log
file deleted keeps its file group, to which `HoodieAppendHandle` writes the key's next row. In another file
group the row would become two with Hudi's next upsert of the key, which finds both base files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.keys.key_table import KeyTable
from hudisql.format.keys.record_keys import render_record_keys
from hudisql.storage import Storage
from hudisql.storage.parallel_reads import read_large
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.write.changes import FILE_GROUP, OPERATION, PARTITION, RECORD_KEY, REMOVALS
from hudisql.write.execution.driver_apply import goes_anywhere
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.record_index import IndexKind
from hudisql.write.index.slice_key_lookup import base_file_lookup, find_keys
from hudisql.write.keygen.partition_paths import PartitionPaths
from hudisql.write.transaction.pending_table_services import exclude_pending_clustering

# The operations that look up no keys in Hudi, either.
_OPERATIONS_WITHOUT_LOOKUP: Final = ("INSERT", "BULK_INSERT")
_INDEXES_OF_BASE_FILES: Final = (
    IndexKind.BLOOM,
    IndexKind.SIMPLE,
    IndexKind.GLOBAL_BLOOM,
    IndexKind.GLOBAL_SIMPLE,
)
LOCATION: Final = pa.schema([pa.field(name, pa.string()) for name in (RECORD_KEY, PARTITION, FILE_GROUP)])
"""The columns of found keys: the key, its partition path, and the id of a file group that has it."""


@dataclass(frozen=True, slots=True)
class UnplacedRows:
    """The new rows of changes whose file group is not chosen: their positions, record keys and partitions."""

    at: npt.NDArray[np.int64]
    keys: pa.StringArray
    paths: pa.StringArray


FindKeys = Callable[[Sequence[FileSlice], UnplacedRows], Iterable[pa.Table]]
"""Finds the rows' keys in the base files of slices; gives tables with the columns `LOCATION`."""


def keeps_file_groups(table: HudiTable, options: WriteOptions, operation_type: str) -> bool:
    """True if new rows of keys that were deleted in log files go to the file groups with these keys.

    Record and bucket indexes know the file group of a key without its base file.
    """
    return (
        table.is_merge_on_read
        and bool(table.properties.record_key_fields)
        and operation_type not in _OPERATIONS_WITHOUT_LOOKUP
        and options.index.kind in _INDEXES_OF_BASE_FILES
    )


def slices_with_deletes(
    table: HudiTable, paths: PartitionPaths, of_rows: Iterable[str | None]
) -> list[FileSlice]:
    """The slices of the partitions with the paths `of_rows` whose log files may delete keys of a base file.

    Without those with a pending clustering, which take no rows. Raises CorruptTableError, StorageError.
    """
    slices = load_file_slices(table, paths.all_existing(of_rows))
    chosen = [each for each in slices if each.base_file is not None and each.has_log_files]
    return exclude_pending_clustering(table, chosen) if chosen else []


def place_deleted_keys(
    table: HudiTable,
    changes: pa.Table,
    options: WriteOptions,
    paths: PartitionPaths,
    find: FindKeys | None = None,
) -> pa.Table:
    """The changes (columns of `change_schema`); new rows have the file group of their deleted key, if any.

    Keys that the changes themselves delete or move are found, too. By default the driver reads the footers of
    base files with log files in the partitions of the new rows, and the record keys of those that may have
    one. Raises WriteRefusedError for partition values that a directory cannot have,
    CorruptTableError, StorageError.
    """
    rows = _unplaced_rows(table, changes, options, paths)
    if rows is None:
        return changes
    slices = slices_with_deletes(table, paths, pc.unique(rows.paths).to_pylist())
    read = (find or find_on_driver(table.storage))(slices, rows) if slices else ()
    return _with_file_groups(changes, rows, pa.concat_tables([_removed_keys(changes), *read]))


def find_on_driver(storage: Storage) -> FindKeys:
    """Finds keys in several base files at once. Raises CorruptTableError, StorageError."""

    def find(slices: Sequence[FileSlice], rows: UnplacedRows) -> Iterable[pa.Table]:
        of_path = {
            path: pc.unique(rows.keys.filter(pc.equal(rows.paths, path)))
            for path in {each.partition_path for each in slices}
        }

        def find_in(file_slice: FileSlice) -> list[pa.Table]:
            keys, group = of_path[file_slice.partition_path], file_slice.file_group
            found = find_keys(storage, base_file_lookup(file_slice), keys, prunes_by_footer=True)
            return [
                pa.table([batch.column(0), *(pa.repeat(text, batch.num_rows) for text in group)], LOCATION)
                for batch in found
            ]

        return [table for tables in read_large(find_in, slices) for table in tables]

    return find


def _unplaced_rows(
    table: HudiTable, changes: pa.Table, options: WriteOptions, paths: PartitionPaths
) -> UnplacedRows | None:
    """The new rows with a record key whose file group is not chosen; None if there are none."""
    at = np.flatnonzero(goes_anywhere(changes))
    new = changes.take(pa.array(at)).combine_chunks()
    fields, complex_keys = table.properties.record_key_fields, options.complex_keys
    batches = new.to_batches()
    of_rows = [pa.array([], pa.string()), *(paths.of(batch) for batch in batches)]
    keys = [render_record_keys(batch, fields, complex_keys=complex_keys).keys for batch in batches]
    all_keys = pa.concat_arrays([pa.array([], pa.string()), *(pc.cast(each, pa.string()) for each in keys)])
    has_key = all_keys.is_valid()
    chosen = at[has_key.to_numpy(zero_copy_only=False)]
    if not len(chosen):
        return None
    return UnplacedRows(chosen, all_keys.filter(has_key), pa.concat_arrays(of_rows).filter(has_key))


def _removed_keys(changes: pa.Table) -> pa.Table:
    """The locations of rows that the changes delete or move: log files may get these deletes."""
    removes = pc.is_in(changes.column(OPERATION), value_set=pa.array(REMOVALS, pa.int8()))
    return changes.filter(removes).select(LOCATION.names).cast(LOCATION)


def _with_file_groups(changes: pa.Table, rows: UnplacedRows, found: pa.Table) -> pa.Table:
    """The changes; rows whose keys are found in their partition have the first file group with their key."""
    known = KeyTable(_pairs(found.column(PARTITION), found.column(RECORD_KEY)))
    places = known.find(_pairs(rows.paths, rows.keys))
    at = np.flatnonzero(places >= 0)
    if not len(at):
        return changes
    is_placed = np.zeros(changes.num_rows, np.bool_)
    is_placed[rows.at[at]] = True
    locations = found.take(pa.array(places[at]))
    for name in LOCATION.names:
        column = changes.column(name).combine_chunks().cast(pa.string())
        placed = pc.replace_with_mask(column, pa.array(is_placed), locations.column(name).combine_chunks())
        changes = changes.set_column(changes.schema.get_field_index(name), name, placed)
    return changes


def _pairs(paths: pa.Array | pa.ChunkedArray, keys: pa.Array | pa.ChunkedArray) -> pa.StringArray:
    """Texts that are equal for equal keys in the same partition alone."""
    pairs = pc.binary_join_element_wise(paths, keys, "\0")
    return pairs.combine_chunks() if isinstance(pairs, pa.ChunkedArray) else pairs
