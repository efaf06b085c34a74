"""Copy-on-write: one file slice and its changed rows become a new base file of the same file group.

Follows `HoodieMergeHandle` of Hudi 0.15: untouched rows keep their commit time, sequence number and values;
changed and new rows get the commit's. A skeleton with its external file becomes a whole base file, and the
external file is only read. Works on Arrow tables inside one task; knows no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudisql.errors import WriteConflictError, WriteRefusedError
from hudisql.format.keys.record_keys import NO_REPEATED_KEYS, RepeatedKeys, repeated_keys
from hudisql.format.paths.file_names import base_file_name, change_log_name
from hudisql.format.schema import meta_columns
from hudisql.format.schema.internal_columns import internal_column
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS, CalendarSettings
from hudisql.read.files.parquet_rows import read_footer
from hudisql.read.merge.merge_mode import DEFAULT_MERGE_MODE, LogMergeConfig, RecordMergeMode
from hudisql.read.merge.merged_log_scanner import marked_deletes
from hudisql.read.merge.partial_update import lacking_columns, merge_rows
from hudisql.read.merge.precombine import comparable, is_higher, is_newer, newest_first
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.storage import Storage, join
from hudisql.table.file_slice import FileSlice
from hudisql.write.changes import CHANGE_COLUMNS, NEW_ROWS, OPERATION, RECORD_KEY, RowOperation
from hudisql.write.handle.base_file import ROW_GROUP_BYTES, BaseFileConfig, FileNaming, key_footer
from hudisql.write.handle.change_log_writer import ChangeLogConfig, ChangeLogWriter
from hudisql.write.handle.log_naming import LOG_NAMING_V1, LogNaming
from hudisql.write.handle.meta_arrays import constant_text, meta_arrays_of_new_rows
from hudisql.write.handle.open_base_file import OpenBaseFile, dictionary_columns
from hudisql.write.handle.row_identity import ChangedRows, change_identities, key_of_identity
from hudisql.write.keygen.new_row_keys import NewRowKeys

_SHOWN_KEYS = 3
_ROW = internal_column("row")
_FILE_NAME_POSITION = meta_columns.META_COLUMNS.index(meta_columns.FILE_NAME)


@dataclass(frozen=True, slots=True)
class MergeTask:
    """A slice to merge, and the configuration of its new base file.

    `schema` is the table's (data and partition columns). An UPSERT does not replace a stored row with higher
    values of `event_time_fields` (none: the incoming row always wins); `ordering_fields` decide between
    several changes of one row. `log_merge_config` is needed for slices with log files,
    `file_naming.file_id_prefix` is not used. By the partial update mode of `merge_mode` UPSERTs and stored
    rows take values from each other. With `unique_new_keys` the result names keys of several new rows. With
    `change_log` the changes are logged beside the new base file.
    """

    file_slice: FileSlice
    partition_values: Mapping[str, object]
    file_naming: FileNaming
    schema: pa.Schema
    avro_schema: str
    base_file_config: BaseFileConfig
    record_key_fields: tuple[str, ...]
    complex_keys: bool
    event_time_fields: tuple[str, ...] = ()
    ordering_fields: tuple[str, ...] = ()
    calendars: CalendarSettings = DEFAULT_CALENDARS
    log_merge_config: LogMergeConfig | None = None
    merge_mode: RecordMergeMode = DEFAULT_MERGE_MODE
    unique_new_keys: bool = False
    log_naming: LogNaming = LOG_NAMING_V1
    change_log: ChangeLogConfig | None = None

    @property
    def file_name(self) -> str:
        """The new base file's name."""
        return base_file_name(
            self.file_slice.file_id, self.file_naming.write_token, self.file_naming.instant_time
        )

    @property
    def previous_instant_of_log(self) -> str:
        """The previous instant in the statistics of the log files that this task writes.

        With change logs it is that of the slice in each layout: Hudi reads the rows before from it.
        """
        if self.change_log is not None and self.log_naming.is_new_file:
            return self.file_slice.base_instant_time
        return self.log_naming.instant(self.file_slice, self.file_naming.instant_time)


@dataclass(frozen=True, slots=True)
class MergedSlice:
    """The result of a merge: the new base file and its footer, the row counts by operation, and the bytes of
    change logs by path.
    """

    path: str
    rows: int
    bytes: int
    inserted: int
    updated: int
    deleted: int
    late_arriving: int
    moved: int
    combined: int
    change_logs: Mapping[str, int]
    footer: pq.FileMetaData
    repeated_keys: RepeatedKeys = NO_REPEATED_KEYS


@dataclass(slots=True)
class _Counts:
    updated: int = 0
    deleted: int = 0
    late_arriving: int = 0
    moved: int = 0
    matched: int = 0


@dataclass(frozen=True, slots=True)
class _Changes:
    """The changes to stored rows, and the rows to append; both with the table's columns.

    `merged_changes` counts, for each change, the incoming changes of the same row.
    """

    keys: pa.StringArray
    stored: ChangedRows
    merged_changes: npt.NDArray[np.int64]
    operations: npt.NDArray[np.int8]
    rows: pa.Table
    new_keys: pa.StringArray
    new_rows: pa.Table
    moved_in: int


def merge_slice(
    storage: Storage, task: MergeTask, changes: pa.Table, create_marker: Callable[[str], None] | None = None
) -> MergedSlice:
    """Write the slice's next base file; `changes` has the columns of `changes.change_schema`.

    `create_marker` is called with a file's name before the file is created; unfinished files are deleted.
    Memory: a row group, the changes, and a block of the change log. Raises WriteRefusedError if several
    changes match one row or a new key is null, WriteConflictError if a row to change is missing,
    UnsupportedTableError, SourceChangedError, CorruptTableError, StorageError.
    """
    prepared = _prepare(task, changes)
    path = join(task.file_naming.directory, task.file_name)
    if create_marker is not None:
        create_marker(task.file_name)
    schema = pa.schema([*meta_columns.META_SCHEMA, *task.schema])
    file_schema = task.base_file_config.in_files(schema)
    footer = _stored_footer(storage, task)
    stored_rows = 0 if footer is None else footer.num_rows
    entries = task.base_file_config.bloom_entries or max(1, stored_rows + prepared.new_rows.num_rows)
    file = OpenBaseFile(
        storage,
        path,
        file_schema,
        dictionary_columns(file_schema),
        key_footer(entries, task.base_file_config),
        _codec(storage, task, footer),
    )
    counts = _Counts()
    log = None
    try:
        log = _open_change_log(storage, task, create_marker)
        merged = _merged_tables(storage, task, schema.remove(_FILE_NAME_POSITION), prepared, counts, log)
        for group in _row_groups(merged):
            file.write(_with_file_name(group, task.file_name))
        _check_matched_rows(task, prepared)
        new_footer = file.close(task.avro_schema)
        if log is not None:
            log.close()
    except BaseException:
        file.abandon()
        if log is not None:
            log.abandon()
        raise
    return MergedSlice(
        path=path,
        rows=file.rows,
        bytes=file.bytes,
        inserted=prepared.new_rows.num_rows - prepared.moved_in,
        updated=counts.updated,
        deleted=counts.deleted,
        late_arriving=counts.late_arriving,
        moved=counts.moved,
        combined=int(np.maximum(prepared.merged_changes - prepared.stored.matched, 0).sum()),
        repeated_keys=repeated_keys(prepared.new_keys) if task.unique_new_keys else NO_REPEATED_KEYS,
        change_logs={} if log is None else {log.path: log.bytes},
        footer=new_footer,
    )


def _open_change_log(
    storage: Storage, task: MergeTask, create_marker: Callable[[str], None] | None
) -> ChangeLogWriter | None:
    if task.change_log is None:
        return None
    naming = task.file_naming
    name = change_log_name(task.file_slice.file_id, naming.instant_time, naming.write_token)
    if create_marker is not None:
        create_marker(name)
    return ChangeLogWriter(storage, join(naming.directory, name), task.change_log, naming.instant_time)


def _prepare(task: MergeTask, changes: pa.Table) -> _Changes:
    operations = changes.column(OPERATION).to_numpy()
    is_new = np.isin(operations, NEW_ROWS)
    rows = changes.drop_columns(list(CHANGE_COLUMNS))
    all_stored = changes.filter(pa.array(~is_new))
    stored = one_change_for_each_row(task, all_stored)
    new_rows = rows.filter(pa.array(is_new))
    file_naming = task.file_naming
    new_keys = NewRowKeys(
        task.record_key_fields, task.complex_keys, file_naming.instant_time, file_naming.task_partition_id
    ).of(
        new_rows,
        file_naming.partition_path,
        changes.column(RECORD_KEY).filter(pa.array(is_new)).combine_chunks(),
    )
    return _Changes(
        keys=stored.column(RECORD_KEY).combine_chunks(),
        stored=ChangedRows(stored),
        merged_changes=_count_merged(all_stored, stored),
        operations=stored.column(OPERATION).to_numpy(),
        rows=stored.drop_columns(list(CHANGE_COLUMNS)),
        new_keys=new_keys,
        new_rows=new_rows,
        moved_in=int((operations == RowOperation.MOVE_IN).sum()),
    )


def _count_merged(changes: pa.Table, chosen: pa.Table) -> npt.NDArray[np.int64]:
    """For each chosen change, how many of the changes are of the same row."""
    if changes.num_rows == chosen.num_rows:
        return np.ones(chosen.num_rows, dtype=np.int64)
    number = pc.index_in(change_identities(changes), value_set=change_identities(chosen))
    return np.bincount(number.to_numpy(), minlength=chosen.num_rows)


def one_change_for_each_row(task: MergeTask, changes: pa.Table) -> pa.Table:
    """One change for each stored row: the newest of several, by `task.ordering_fields`.

    Two source rows may delete the same row. Raises WriteRefusedError if no ordering field decides which of
    several changes is the newest.
    """
    if len(pc.unique(changes.column(RECORD_KEY))) == changes.num_rows:
        return changes
    rows = change_identities(changes)
    distinct = pc.unique(rows)
    if len(distinct) == len(rows):
        return changes
    if (changes.column(OPERATION).to_numpy() == RowOperation.DELETE).all():
        return changes.take(pc.index_in(distinct, value_set=rows))
    if not task.ordering_fields:
        raise _repeated_error(task, rows)
    ordered, starts = newest_first(changes.append_column(_ROW, rows), (_ROW,), task.ordering_fields)
    by_row = ordered.column(_ROW).combine_chunks()
    is_tie = np.zeros(len(by_row), dtype=bool)
    is_tie[1:] = ~starts[1:] & starts[:-1]
    for field in task.ordering_fields:
        values = comparable(ordered.column(field).combine_chunks())
        tied = pc.fill_null(pc.equal(values[1:], values[:-1]), True)
        is_tie[1:] &= tied.to_numpy(zero_copy_only=False)
    moved = ordered.column(OPERATION).to_numpy() == RowOperation.MOVE_OUT
    if is_tie.any() or (moved & ~starts).any():
        raise _repeated_error(task, by_row.filter(pa.array(is_tie | (moved & ~starts))), ordered=True)
    return ordered.drop_columns([_ROW]).filter(pa.array(starts))


def _repeated_error(task: MergeTask, rows: pa.StringArray, *, ordered: bool = False) -> WriteRefusedError:
    counted = pc.value_counts(rows)
    repeated = counted if ordered else counted.filter(pc.greater(counted.field("counts"), 1))
    keys = [key_of_identity(row) for row in repeated.field("values").slice(0, _SHOWN_KEYS).to_pylist()]
    why = f" with the same {', '.join(task.ordering_fields)}" if ordered else ""
    return WriteRefusedError(
        f"several source rows{why} change one row, or rows that share a record key and a commit sequence "
        f"number: {len(repeated)} row(s), with the key(s) {_quoted(keys)}, {_file_group_text(task)}",
        hint="make the source unique by the join columns (for example by row_number()); DELETE removes rows "
        "that cannot be distinguished; nothing was written",
    )


def _quoted(keys: Iterable[str]) -> str:
    return ", ".join(f"'{key}'" for key in keys)


def _file_group_text(task: MergeTask) -> str:
    return f"in file group {task.file_slice.file_id} of partition '{task.file_naming.partition_path}'"


def _stored_footer(storage: Storage, task: MergeTask) -> pq.FileMetaData | None:
    """The footer of the slice's base file, which may be a skeleton; None without one."""
    base_file = task.file_slice.base_file
    return None if base_file is None else read_footer(storage, base_file.path, base_file.length)


def _codec(storage: Storage, task: MergeTask, footer: pq.FileMetaData | None) -> str:
    """The codec of the new base file: that of the file with the data columns, if it is snappy and kept."""
    if not task.base_file_config.keeps_snappy or footer is None:
        return task.base_file_config.codec
    if task.file_slice.external_file is not None:
        footer = read_footer(storage, task.file_slice.external_file.path)
    codecs = {
        footer.row_group(group).column(column).compression
        for group in range(min(footer.num_row_groups, 1))
        for column in range(footer.num_columns)
    }
    return "snappy" if codecs == {"SNAPPY"} else task.base_file_config.codec


def _merged_tables(
    storage: Storage,
    task: MergeTask,
    schema: pa.Schema,
    changes: _Changes,
    counts: _Counts,
    log: ChangeLogWriter | None,
) -> Iterator[pa.Table]:
    """The new file's rows: stored ones in their order, changed in their places, new ones at the end.

    `schema` has all columns of the file except the file name.
    """
    read = SliceRead(
        task.file_slice,
        schema,
        task.partition_values,
        calendars=task.calendars,
        log_merge_config=task.log_merge_config,
    )
    numbered = 0
    for batch in read_file_slice(storage, read):
        merged, replaced = _merge_batch(task, batch, changes, counts, numbered, log)
        numbered += replaced
        if merged.num_rows:
            yield merged
    if changes.new_rows.num_rows:
        if log is not None:
            log.insert(changes.new_keys, changes.new_rows)
        meta = _new_meta(task, changes.new_keys, numbered)
        yield pa.Table.from_arrays([*meta, *changes.new_rows.columns], schema=schema)


def _merge_batch(
    task: MergeTask,
    batch: pa.RecordBatch,
    changes: _Changes,
    counts: _Counts,
    numbered: int,
    log: ChangeLogWriter | None,
) -> tuple[pa.Table, int]:
    """The batch with its changes applied, and the number of replaced rows."""
    keys = batch.column(meta_columns.RECORD_KEY)
    at, change = changes.stored.find(batch)
    if not len(at):
        return pa.Table.from_batches([batch]), 0
    operations = changes.operations[change]
    incoming = changes.rows.take(pa.array(change))
    stored_rows = batch.select(task.schema.names).take(pa.array(at))
    late_arriving = _late_arriving(task, stored_rows, incoming, operations)
    removed = np.isin(operations, [RowOperation.DELETE, RowOperation.MOVE_OUT]) & ~late_arriving
    is_late_delete = late_arriving & (operations == RowOperation.DELETE)
    if task.merge_mode.partial_update_mode is not None:
        is_upsert = operations == RowOperation.UPSERT
        incoming, late_arriving = _fill(task.merge_mode, stored_rows, incoming, is_upsert, late_arriving)
        late_arriving |= is_late_delete
    counts.deleted += int((removed & (operations == RowOperation.DELETE)).sum())
    counts.moved += int((operations == RowOperation.MOVE_OUT).sum())
    counts.late_arriving += int(late_arriving.sum())
    replaced = ~removed & ~late_arriving
    counts.updated += int(replaced.sum())
    rows = incoming.filter(pa.array(replaced))
    updated_keys = keys.take(pa.array(at[replaced]))
    if log is not None:
        stored = pa.Table.from_batches([batch])
        log.update(updated_keys, stored.take(pa.array(at[replaced])), rows)
        log.delete(keys.take(pa.array(at[removed])), stored.take(pa.array(at[removed])))
    meta = _new_meta(task, updated_keys, numbered)
    fresh = pa.Table.from_arrays([*meta, *rows.columns], schema=batch.schema)
    both = pa.concat_tables([pa.Table.from_batches([batch]), fresh]).combine_chunks()
    order = np.arange(batch.num_rows, dtype=np.int64)
    order[at[replaced]] = batch.num_rows + np.arange(int(replaced.sum()))
    kept = np.ones(batch.num_rows, dtype=bool)
    kept[at[removed]] = False
    return both.take(pa.array(order[kept])), int(replaced.sum())


def _late_arriving(
    task: MergeTask, batch: pa.RecordBatch, incoming: pa.Table, operations: npt.NDArray[np.int8]
) -> npt.NDArray[np.bool_]:
    """True for UPSERTs and rows that stand for deletes that are older than the stored rows of their keys.

    `batch` has the stored rows in the order of the incoming ones.
    """
    is_event = (operations == RowOperation.UPSERT) | deletes_by_event_time(task, operations, incoming)
    if not task.event_time_fields or not is_event.any():
        return np.zeros(len(operations), dtype=bool)
    stored = [batch.column(field) for field in task.event_time_fields]
    values = [incoming.column(field).combine_chunks() for field in task.event_time_fields]
    if task.merge_mode.keeps_equal_rows:
        stays = ~is_higher(values[0], stored[0], null_is_lowest=True)
    else:
        stays = is_newer(stored, values)
    is_late_arriving: npt.NDArray[np.bool_] = stays & is_event
    return is_late_arriving


def deletes_by_event_time(
    task: MergeTask, operations: npt.NDArray[np.int8], rows: pa.Table
) -> npt.NDArray[np.bool_]:
    """True for rows that stand for deletes, in a table that compares them with stored rows."""
    is_delete: npt.NDArray[np.bool_] = operations == RowOperation.DELETE
    if not task.event_time_fields or not is_delete.any():
        return np.zeros(len(operations), np.bool_)
    return is_delete & marked_deletes(rows, task.merge_mode)


def _fill(
    mode: RecordMergeMode,
    stored: pa.RecordBatch,
    rows: pa.Table,
    is_upsert: npt.NDArray[np.bool_],
    late_arriving: npt.NDArray[np.bool_],
) -> tuple[pa.Table, npt.NDArray[np.bool_]]:
    """The rows after a partial update, and the late-arriving ones that change nothing."""
    columns = [column.combine_chunks() for column in rows.columns]
    incoming = pa.record_batch(columns, schema=stored.schema)
    lacks, stored_lacks = lacking_columns(incoming, mode), lacking_columns(stored, mode)
    assert lacks is not None
    assert stored_lacks is not None
    merged = merge_rows(stored, incoming, lacks & is_upsert[:, np.newaxis], late_arriving, mode)
    fills_stored = (stored_lacks & ~lacks).any(axis=1)
    return pa.Table.from_batches([merged]), late_arriving & ~fills_stored


def _with_file_name(rows: pa.Table, file_name: str) -> pa.Table:
    names = constant_text(file_name, rows.num_rows)
    return rows.add_column(_FILE_NAME_POSITION, meta_columns.FILE_NAME, names)


def _new_meta(task: MergeTask, keys: pa.StringArray, first_row: int) -> list[pa.Array]:
    """The meta columns of new rows, except the file name."""
    arrays = meta_arrays_of_new_rows(
        keys,
        instant_time=task.file_naming.instant_time,
        partition_path=task.file_naming.partition_path,
        file_name=task.file_name,
        task=task.file_naming.task_partition_id,
        first_row=first_row,
    )
    del arrays[_FILE_NAME_POSITION]
    return [pc.cast(array, pa.string()) for array in arrays]


def _row_groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    buffered: list[pa.Table] = []
    buffered_bytes = 0
    for table in tables:
        buffered.append(table)
        buffered_bytes += table.nbytes
        if buffered_bytes >= ROW_GROUP_BYTES:
            yield pa.concat_tables(buffered)
            buffered, buffered_bytes = [], 0
    if buffered:
        yield pa.concat_tables(buffered)


def _check_matched_rows(task: MergeTask, changes: _Changes) -> None:
    """Raise WriteConflictError if a row is missing, WriteRefusedError if a change matched several rows.

    Rows that share key and number have the same values, unless another writer made them: a statement then
    selects all of them or none.
    """
    matched = changes.stored.matched
    if (matched == 0).any():
        missing = changes.keys.take(pa.array(np.flatnonzero(matched == 0)[:1])).to_pylist()
        raise WriteConflictError(
            f"{int((matched == 0).sum())} row(s) to change are not {_file_group_text(task)}, such as "
            f"'{missing[0]}'",
            hint="another writer has changed the table meanwhile: run the statement again",
        )
    if not changes.stored.are_single:
        return
    deletes_all = (changes.operations == RowOperation.DELETE) & (changes.merged_changes % matched == 0)
    alike = np.flatnonzero((matched > 1) & ~deletes_all)
    if len(alike):
        keys = changes.keys.take(pa.array(alike[:_SHOWN_KEYS])).to_pylist()
        raise WriteRefusedError(
            f"one change matches several rows that share a record key and a commit sequence number: key(s) "
            f"{_quoted(keys)} {_file_group_text(task)}",
            hint="DELETE all rows of the key and INSERT the rows to keep; nothing was written",
        )
