"""Upserts and deletes by key in one process, without a Spark job.

For few rows, and for writers that have no SparkSession (`df.write.format("hudi")` commits in a Python process
beside the driver). The steps are those of `upsert`: precombine, and key look-up in the slices of the
partition (Hudi's BLOOM and SIMPLE indexes); `driver_apply` writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.keys.record_keys import NullKeys, render_record_keys
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS
from hudisql.read.merge.merge_mode import (
    RecordMergeMode,
    log_merge_config_for,
    merge_mode_of,
)
from hudisql.read.merge.merged_log_scanner import marked_deletes
from hudisql.read.merge.precombine import newest_rows
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.write.changes import (
    FILE_GROUP,
    OPERATION,
    PARTITION,
    RECORD_KEY,
    RowOperation,
    change_schema,
)
from hudisql.write.execution.deleted_keys import keeps_file_groups, place_deleted_keys
from hudisql.write.execution.driver_apply import profile_few_changes, write_few_changes
from hudisql.write.execution.write_context import WrittenFile
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.slice_key_lookup import SliceLookup, find_keys
from hudisql.write.keygen.partition_paths import PartitionPaths
from hudisql.write.transaction.commit import OpenCommit
from hudisql.write.transaction.pending_table_services import check_not_clustered


@dataclass(frozen=True, slots=True)
class KeyLocations:
    """The id of the file group of each key, null where it has none.

    `is_stored` is false for keys that are not yet in that file group: their rows are inserted there. None:
    all keys with a file group may be treated as stored in it.
    """

    file_ids: pa.Array
    is_stored: npt.NDArray[np.bool_] | None = None


TagKeys = Callable[[HudiTable, str, pa.Array], KeyLocations | None]
"""An index beside the table's own, of the distinct keys of the partition with this path; None if it does not
know the partition."""


def upsert_on_driver(
    commit: OpenCommit, options: WriteOptions, paths: PartitionPaths, rows: pa.Table, *, deletes: bool = False
) -> list[WrittenFile]:
    """Write the rows (the table's columns, RECORD_KEY, PARTITION) by key; with `deletes` delete their keys.

    Of rows with equal ordering values the first counts. Memory and errors as `upsert_newest_on_driver`.
    """
    table = commit.table
    newest = precombine_rows(rows, table.ordering_fields, merge_mode_of(table))
    return upsert_newest_on_driver(commit, options, paths, newest, deletes=deletes)


def upsert_newest_on_driver(
    commit: OpenCommit,
    options: WriteOptions,
    paths: PartitionPaths,
    newest: pa.Table,
    *,
    deletes: bool = False,
    tag: TagKeys = lambda _table, _path, _keys: None,
) -> list[WrittenFile]:
    """Write the result of `precombine_rows` by key. Keys that `tag` does not know are looked up in the slices
    of their partitions.

    Memory: the rows twice, and that of `write_buckets` for one slice. Raises WriteRefusedError,
    WriteConflictError, StorageError, and UnsupportedTableError for rows of file groups with a pending
    clustering.
    """
    table = commit.table
    few = profile_few_changes(
        table,
        _tagged_changes(table, options, paths, newest, tag, deletes=deletes),
        table.schema,
        options,
        paths,
    )
    check_not_clustered(table, few.changed)
    return write_few_changes(commit, few, table.schema, options, paths, DEFAULT_CALENDARS)


def _tagged_changes(
    table: HudiTable,
    options: WriteOptions,
    paths: PartitionPaths,
    newest: pa.Table,
    tag: TagKeys,
    *,
    deletes: bool,
) -> pa.Table:
    """The rows as changes of stored rows: by the index if it knows their partition, else by a look-up."""
    tagged, left = _tag_by_index(table, newest, tag, deletes=deletes)
    looked_up = tag_few_rows(table, options, left, slices_of_rows(table, paths, left), deletes=deletes)
    if keeps_file_groups(table, options, "UPSERT"):
        looked_up = place_deleted_keys(table, looked_up, options, paths)
    return pa.concat_tables([*tagged, looked_up])


def insert_on_driver(
    commit: OpenCommit, options: WriteOptions, paths: PartitionPaths, rows: pa.Table
) -> list[WrittenFile]:
    """Write the rows (the table's columns, RECORD_KEY, PARTITION) as new ones, without a look-up of keys.

    For tables whose record keys are generated. Memory and errors as `upsert_on_driver`.
    """
    table = commit.table
    operations = np.full(rows.num_rows, int(RowOperation.INSERT))
    changes = _changes(rows, table.schema, operations, pa.nulls(rows.num_rows, pa.string()))
    few = profile_few_changes(table, changes, table.schema, options, paths)
    return write_few_changes(commit, few, table.schema, options, paths, DEFAULT_CALENDARS)


def with_keys(
    rows: pa.RecordBatch, table: HudiTable, options: WriteOptions, paths: PartitionPaths
) -> tuple[pa.RecordBatch, NullKeys]:
    """The rows (the table's columns) with RECORD_KEY and PARTITION, and the rows whose key Hudi refuses.

    Keys that are generated when the rows are written are null here. Raises WriteRefusedError for partition
    values that a directory cannot have.
    """
    if table.properties.generates_record_keys:
        keys = pa.nulls(rows.num_rows, pa.string())
        return rows.append_column(RECORD_KEY, keys).append_column(PARTITION, paths.of(rows)), NullKeys()
    rendered = render_record_keys(rows, table.properties.record_key_fields, complex_keys=options.complex_keys)
    keyed = rows.append_column(RECORD_KEY, rendered.keys).append_column(PARTITION, paths.of(rows))
    return keyed, rendered.null_keys


def slices_of_rows(table: HudiTable, paths: PartitionPaths, rows: pa.Table) -> list[FileSlice]:
    """The latest file slices of the partitions of the rows (column PARTITION)."""
    found = pc.unique(rows.column(PARTITION)).to_pylist()
    return load_file_slices(table, paths.all_existing(found))


def precombine_rows(
    rows: pa.Table, ordering_fields: Sequence[str], mode: RecordMergeMode, *, last_of_equals: bool = False
) -> pa.Table:
    """One row for each key and partition: the one with the highest ordering values. If values are equal or
    there are no fields, it is the first, or with `last_of_equals` the last. By a partial update mode it takes
    values that it lacks from the others.
    """
    key = (PARTITION, RECORD_KEY)
    return newest_rows(rows, key, ordering_fields, mode, last_of_equals=last_of_equals)


def tag_few_rows(
    table: HudiTable, options: WriteOptions, rows: pa.Table, slices: Sequence[FileSlice], *, deletes: bool
) -> pa.Table:
    """The rows (the table's columns, RECORD_KEY, PARTITION; each key once) as changes of stored rows.

    Keys are looked up in those of `slices` that are in the row's partition: known ones are updated, others
    inserted. Rows that are deletes by the table's merge mode, with `deletes` all of them, delete the stored
    row of their key. Raises UnsupportedTableError, SourceChangedError, CorruptTableError, StorageError.
    """
    of_path: Mapping[str, list[FileSlice]] = defaultdict(list)
    for each in slices:
        of_path[each.partition_path].append(each)
    log_merge_config, mode = log_merge_config_for(table, slices), merge_mode_of(table)
    found = [change_schema(table.schema).empty_table()]
    for path in pc.unique(rows.column(PARTITION)).to_pylist():
        incoming = rows.filter(pc.equal(rows.column(PARTITION), path)).combine_chunks()
        keys = incoming.column(RECORD_KEY).combine_chunks()
        is_deleted = _deleted(incoming, mode, deletes=deletes)
        is_known = np.zeros(len(keys), dtype=bool)
        for file_slice in of_path[path]:
            lookup = SliceLookup(file_slice, log_merge_config=log_merge_config)
            prunes = options.index.prunes_by_footer
            for batch in find_keys(table.storage, lookup, keys, prunes_by_footer=prunes):
                at = pc.index_in(batch.column(0), value_set=keys).to_numpy()
                is_known[at] = True
                operations = np.where(is_deleted[at], int(RowOperation.DELETE), int(RowOperation.UPSERT))
                chosen = incoming.take(pa.array(at))
                file_ids = pa.repeat(pa.scalar(file_slice.file_id, pa.string()), chosen.num_rows)
                found.append(_changes(chosen, table.schema, operations, file_ids))
        is_new = ~is_known & ~is_deleted
        if is_new.any():
            new = incoming.filter(pa.array(is_new))
            operations = np.full(new.num_rows, int(RowOperation.INSERT))
            found.append(_changes(new, table.schema, operations, pa.nulls(new.num_rows, pa.string())))
    return pa.concat_tables(found)


def _tag_by_index(
    table: HudiTable, rows: pa.Table, tag: TagKeys, *, deletes: bool
) -> tuple[list[pa.Table], pa.Table]:
    """The rows (sorted by PARTITION, each key once) of indexed partitions as changes, and the others."""
    tagged: list[pa.Table] = []
    left = [rows.slice(0, 0)]
    paths = rows.column(PARTITION).combine_chunks()
    begins = np.flatnonzero(pc.not_equal(paths[1:], paths[:-1]).to_numpy(zero_copy_only=False)) + 1
    bounds = [0, *begins.tolist(), rows.num_rows]
    mode = merge_mode_of(table)
    for start, stop in pairwise(bounds):
        incoming = rows.slice(start, stop - start)
        if not incoming.num_rows:
            continue
        key_locations = tag(table, paths[start].as_py(), incoming.column(RECORD_KEY).combine_chunks())
        if key_locations is None:
            left.append(incoming)
            continue
        is_stored = key_locations.file_ids.is_valid().to_numpy(zero_copy_only=False)
        if key_locations.is_stored is not None:
            is_stored = is_stored & key_locations.is_stored
        is_deleted = _deleted(incoming, mode, deletes=deletes)
        operations = np.where(is_deleted, int(RowOperation.DELETE), int(RowOperation.UPSERT))
        operations[~is_stored] = int(RowOperation.INSERT)
        changes = _changes(incoming, table.schema, operations, key_locations.file_ids)
        stays = is_stored | ~is_deleted
        tagged.append(changes if stays.all() else changes.filter(pa.array(stays)))
    return tagged, pa.concat_tables(left)


def _deleted(rows: pa.Table, mode: RecordMergeMode, *, deletes: bool) -> npt.NDArray[np.bool_]:
    return np.full(rows.num_rows, True) if deletes else marked_deletes(rows, mode)


def _changes(
    rows: pa.Table, schema: pa.Schema, operations: npt.NDArray[np.int64], file_ids: pa.Array
) -> pa.Table:
    """The rows in the form of `change_schema`; the file group of rows without a file id is chosen later."""
    is_known = file_ids.is_valid()
    nothing = pa.scalar(None, pa.string())
    locations = {
        PARTITION: pc.if_else(is_known, rows.column(PARTITION), nothing),
        FILE_GROUP: file_ids.cast(pa.string()),
        RECORD_KEY: pc.if_else(is_known, rows.column(RECORD_KEY), nothing),
    }
    columns = []
    for field in change_schema(schema):
        if field.name == OPERATION:
            columns.append(pa.array(operations, field.type))
        elif field.name in schema.names:
            columns.append(rows.column(field.name))
        else:
            columns.append(locations.get(field.name, pa.nulls(rows.num_rows, pa.string())))
    return pa.Table.from_arrays(columns, schema=change_schema(schema))
