"""Merge-on-read: the changed rows of a file slice become new log files on top of it.

Follows `HoodieAppendHandle` of Hudi 0.15: one log file for each slice and commit, or several if one would
grow too large. Rows go to data blocks, deletes to a delete block; readers find both by record key. Of the
stored rows at most the record keys are read. Works on Arrow tables inside one task; knows no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.log_file.log_block import LogBlock
from hudisql.format.paths.file_names import log_file_name
from hudisql.format.schema import meta_columns
from hudisql.format.timeline.commit_metadata import LogWriteStat
from hudisql.read.files.conform import batch_of
from hudisql.read.slice.slice_reader import SliceRead
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.write.changes import CHANGE_COLUMNS, NEW_ROWS, OPERATION, RECORD_KEY, RowOperation
from hudisql.write.handle.log_file import (
    LogFileConfig,
    data_blocks,
    delete_block,
    write_log_file,
)
from hudisql.write.handle.logged_inserts import KEY_SCHEMA, base_rows_of_keys, inserts_hold
from hudisql.write.handle.merge_handle import MergeTask, deletes_by_event_time, one_change_for_each_row
from hudisql.write.handle.meta_arrays import meta_arrays_of_new_rows
from hudisql.write.handle.row_identity import selects_rows


@dataclass(frozen=True, slots=True)
class LoggedChanges:
    """One log file that was appended to a slice; `bytes` is its length."""

    path: str
    bytes: int
    rows: int
    inserted: int
    updated: int
    deleted: int
    moved: int
    stat: LogWriteStat


def can_append(storage: Storage, task: MergeTask, changes: pa.Table) -> bool:
    """True if a log file has the same effect as a merge.

    New rows are written to logs if these deleted their keys (`inserts_hold`). In a table with ordering
    columns a row that a statement sets to a lower value would lose against an earlier log row, with
    event-time payloads also against the base row, and with partial updates a NULL would be filled from it:
    the slice is then merged, as it is for rows that stand for deletes, which Hudi 1.2 would fill. A log
    record replaces all base rows of its key, so the slice is also merged if a statement selects only some of
    them. Reads the base file's record keys to check that; raises CorruptTableError, StorageError.
    """
    operations = changes.column(OPERATION).to_numpy()
    is_new = np.isin(operations, NEW_ROWS)
    has_updates = bool((operations == RowOperation.UPDATE).any())
    is_partial = task.merge_mode.partial_update_mode is not None
    if is_new.any() and (is_partial or changes.column(RECORD_KEY).null_count):
        return False
    if has_updates and (is_partial or task.event_time_fields or _orders_log_rows(task)):
        return False
    if is_partial and deletes_by_event_time(task, operations, changes).any():
        return False
    stored, new = _stored_and_new(changes)
    if new.num_rows and not inserts_hold(storage, task, new, stored.column(RECORD_KEY)):
        return False
    return not (selects_rows(stored) and _repeats_keys(storage, task.file_slice, stored))


def _orders_log_rows(task: MergeTask) -> bool:
    """True if a row in a new log file may lose against one in the slice's log files."""
    if not task.file_slice.has_log_files:
        return False
    mode = None if task.log_merge_config is None else task.log_merge_config.merge_mode
    return mode is None or bool(mode.ordering_fields) or mode.partial_update_mode is not None


def _repeats_keys(storage: Storage, file_slice: FileSlice, changes: pa.Table) -> bool:
    """True if the base file holds one of the changed record keys more than once."""
    if file_slice.base_file is None:
        return False
    keys = pc.unique(changes.column(RECORD_KEY))
    met = np.zeros(len(keys), dtype=np.int64)
    own_file = replace(file_slice, external_file=None)
    for found, _ in base_rows_of_keys(storage, SliceRead(own_file, KEY_SCHEMA), keys):
        met += np.bincount(found, minlength=len(keys))
        if (met > 1).any():
            return True
    return False


def append_changes(
    storage: Storage,
    task: MergeTask,
    changes: pa.Table,
    config: LogFileConfig,
    create_marker: Callable[[str], None],
) -> Iterator[LoggedChanges]:
    """Write the changes (columns of `changes.change_schema`) as the slice's next log files, mostly one.

    `create_marker` is called with each file's name before the file is created. Raises WriteRefusedError if
    several changes match one row, StorageError.
    """
    file_slice, file_naming = task.file_slice, task.file_naming
    naming = task.log_naming
    base_instant = naming.instant(file_slice, file_naming.instant_time)
    first = naming.first_version(file_slice)
    base_file, names = _stored_slice(task)
    blocks = _encoded_blocks(task, _chosen_changes(task, changes), config)
    for version, together in enumerate(_files(blocks, config.max_file_bytes), first):
        create_marker(log_file_name(file_slice.file_id, base_instant, version, file_naming.write_token))
        log_file = write_log_file(
            storage,
            file_naming.directory,
            file_slice.file_id,
            base_instant,
            version,
            file_naming.write_token,
            [block.block for block in together],
        )
        yield LoggedChanges(
            path=log_file.path,
            bytes=log_file.length,
            rows=sum(block.rows for block in together),
            inserted=sum(block.inserted for block in together),
            updated=sum(block.updated for block in together),
            deleted=sum(block.deleted for block in together),
            moved=sum(block.moved for block in together),
            stat=LogWriteStat(
                log_version=version,
                log_offset=0,
                base_file=base_file,
                log_files=(*names, _name(log_file.path)),
            ),
        )
        if task.change_log is not None:
            names += (_name(log_file.path),)


def _chosen_changes(task: MergeTask, changes: pa.Table) -> pa.Table:
    """One change for each stored row, and the new rows."""
    stored, new = _stored_and_new(changes)
    return pa.concat_tables([one_change_for_each_row(task, stored), new])


def _stored_and_new(changes: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The changes of stored rows, and the new rows."""
    is_new = np.isin(changes.column(OPERATION).to_numpy(), NEW_ROWS)
    if not is_new.any():
        return changes, changes.slice(0, 0)
    return changes.filter(pa.array(~is_new)), changes.filter(pa.array(is_new))


def _stored_slice(task: MergeTask) -> tuple[str, tuple[str, ...]]:
    """The names of the slice's base file and log files as the commit's statistics have them.

    With change logs they are the whole slice: Hudi's `cdc` queries read the rows before from it.
    """
    file_slice = task.file_slice
    if task.change_log is None:
        return task.log_naming.base_file(file_slice), ()
    base_file = "" if file_slice.base_file is None else _name(file_slice.base_file.path)
    return base_file, tuple(_name(log_file.path) for log_file in file_slice.log_files)


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class _EncodedBlock:
    block: LogBlock
    rows: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    moved: int = 0


def _encoded_blocks(task: MergeTask, chosen: pa.Table, config: LogFileConfig) -> Iterator[_EncodedBlock]:
    """The blocks, encoded one after the other; deletes come last."""
    file_naming = task.file_naming
    operations = chosen.column(OPERATION).to_numpy()
    removes = np.isin(operations, [RowOperation.DELETE, RowOperation.MOVE_OUT])
    # A delete block would hold over newer rows, and give way to older ones that come later.
    removes &= ~deletes_by_event_time(task, operations, chosen)
    if not removes.all():
        rows = _log_rows(task, chosen.filter(pa.array(~removes)))
        of_rows, start = operations[~removes], 0
        for block, count in data_blocks(
            rows, task.schema, task.avro_schema, file_naming.instant_time, config
        ):
            of_block = of_rows[start : start + count]
            start += count
            yield _EncodedBlock(
                block,
                rows=count,
                inserted=int((of_block == RowOperation.INSERT).sum()),
                updated=int((~np.isin(of_block, NEW_ROWS)).sum()),
            )
    if removes.any():
        keys = chosen.column(RECORD_KEY).combine_chunks().filter(pa.array(removes))
        yield _EncodedBlock(
            delete_block(keys, file_naming.partition_path, task.avro_schema, file_naming.instant_time),
            deleted=int((removes & (operations == RowOperation.DELETE)).sum()),
            moved=int((operations == RowOperation.MOVE_OUT).sum()),
        )


def _files(blocks: Iterable[_EncodedBlock], max_bytes: int) -> Iterator[list[_EncodedBlock]]:
    """The pieces of each log file; a piece that exceeds the file size gets a separate file."""
    together: list[_EncodedBlock] = []
    length = 0
    for block in blocks:
        if together and length + len(block.block.content) > max_bytes:
            yield together
            together, length = [], 0
        together.append(block)
        length += len(block.block.content)
    if together:
        yield together


def _log_rows(task: MergeTask, changes: pa.Table) -> pa.RecordBatch:
    """The rows with their meta columns, which are null in a table without them."""
    columns = _meta_columns(task, changes.column(RECORD_KEY).combine_chunks())
    rows = changes.drop_columns(list(CHANGE_COLUMNS)).combine_chunks()
    columns += [rows.column(field.name).combine_chunks() for field in task.schema]
    return batch_of(columns, pa.schema([*meta_columns.META_SCHEMA, *task.schema]), rows.num_rows)


def _meta_columns(task: MergeTask, keys: pa.StringArray) -> list[pa.Array]:
    if not task.base_file_config.populates_meta:
        return [pa.nulls(len(keys), pa.string())] * len(meta_columns.META_COLUMNS)
    # A log row's file name is the file id.
    meta = meta_arrays_of_new_rows(
        keys,
        instant_time=task.file_naming.instant_time,
        partition_path=task.file_naming.partition_path,
        file_name=task.file_slice.file_id,
        task=task.file_naming.task_partition_id,
        first_row=0,
    )
    return [pc.cast(array, pa.string()) for array in meta]
