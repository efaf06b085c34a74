"""The work of one Spark task of a commit: write the file slices of its buckets.

A task gets Arrow batches of changes that carry their bucket's number. Slices are merged (copy-on-write), new
rows are written directly into new base files. Results are small pickled values. Of Spark it knows only the
signature of `mapInArrow`.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import WriteRefusedError
from hudisql.format.log_file.change_log_mode import ChangeLogMode
from hudisql.format.paths.file_names import is_change_log
from hudisql.format.schema.internal_columns import internal_column
from hudisql.read.files.conform import conform_batch
from hudisql.write.changes import CHANGE_COLUMNS, OPERATION, RECORD_KEY, RowOperation, change_schema
from hudisql.write.execution.create_handle import CreateHandle, create_file_marker
from hudisql.write.execution.late_attempts import fence_late_attempt
from hudisql.write.execution.merged_inserts import merged_inserts
from hudisql.write.execution.ordering_values import check_ordering_values
from hudisql.write.execution.spillable_change_buffer import SpillableChangeBuffer
from hudisql.write.execution.task_results import encode_written_files
from hudisql.write.execution.write_context import WriteContext, WriteTask, WrittenFile
from hudisql.write.handle.append_handle import append_changes, can_append
from hudisql.write.handle.log_naming import log_naming
from hudisql.write.handle.merge_handle import MergeTask, merge_slice
from hudisql.write.transaction.markers import MarkerKind

BUCKET: Final = internal_column("bucket")


def write_buckets(
    write_context: WriteContext,
    tasks: Mapping[int, WriteTask],
    attempt: int,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[WrittenFile]:
    """Write the slices of the buckets whose changes are in `batches`, the rows of one Spark partition.

    `attempt` distinguishes the files of several task attempts. Raises WriteRefusedError, WriteConflictError,
    StorageError.
    """
    schema = change_schema(write_context.schema)
    with SpillableChangeBuffer(schema) as buffer:
        writers: dict[int, CreateHandle] = {}
        try:
            for batch in batches:
                for number, part in split_by(batch, BUCKET):
                    task = tasks[number].of_attempt(attempt)
                    rows = conform_batch(part, schema)
                    check_ordering_values(rows, write_context.event_time_fields)
                    if task.file_slice is not None:
                        buffer.add(number, rows)
                        continue
                    if number not in writers:
                        writers[number] = CreateHandle(write_context, task, write_context.row_keys(number))
                    moved_in = int(
                        pc.sum(pc.equal(rows.column(OPERATION), RowOperation.MOVE_IN)).as_py() or 0
                    )
                    own = rows.drop_columns(list(CHANGE_COLUMNS))
                    writers[number].write(own, moved_in, rows.column(RECORD_KEY))
            for number in buffer.numbers:
                merged = _merge(write_context, tasks[number].of_attempt(attempt), buffer.table(number))
                fence_late_attempt(write_context, merged)
                yield from merged
            for number in sorted(writers):
                files = writers[number].finish()
                del writers[number]
                yield from files
        finally:
            for writer in writers.values():
                writer.abandon()


def rewrite_slice(write_context: WriteContext, task: WriteTask) -> list[WrittenFile]:
    """Write the task's slice as a base file, unchanged. Raises WriteConflictError, StorageError."""
    written = _merge(write_context, task, change_schema(write_context.schema).empty_table())
    fence_late_attempt(write_context, written)
    return written


def run_write_tasks(
    write_context: WriteContext, tasks: Mapping[int, bytes], attempt: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """`write_buckets` as Spark's `mapInArrow` calls it."""
    return encode_written_files(write_buckets(write_context, _Unpickled(tasks), attempt, batches))


class _Unpickled(dict[int, WriteTask]):
    """Unpickles a bucket's task on first access: a Spark task needs only a few of thousands."""

    def __init__(self, pickled: Mapping[int, bytes]) -> None:
        super().__init__()
        self._pickled = pickled

    def __missing__(self, number: int) -> WriteTask:
        task: WriteTask = pickle.loads(self._pickled[number])
        self[number] = task
        return task


def _merge(write_context: WriteContext, task: WriteTask, changes: pa.Table) -> list[WrittenFile]:
    started = time.perf_counter()
    assert task.file_slice is not None
    merge = MergeTask(
        file_slice=task.file_slice,
        partition_values=task.partition_values,
        file_naming=task.file_naming,
        schema=write_context.schema,
        avro_schema=write_context.avro_schema,
        base_file_config=write_context.base_file_config,
        record_key_fields=write_context.record_key_fields,
        complex_keys=write_context.complex_keys,
        event_time_fields=write_context.event_time_fields,
        ordering_fields=write_context.ordering_fields,
        calendars=write_context.calendars,
        log_merge_config=write_context.log_merge_config,
        merge_mode=write_context.merge_mode,
        unique_new_keys=write_context.unique_new_keys,
        log_naming=log_naming(write_context.layout),
        change_log=write_context.change_log,
    )
    keeps_source_safe = not (write_context.merges_bootstrapped and task.file_slice.is_bootstrapped)
    if write_context.appends and keeps_source_safe and can_append(write_context.storage, merge, changes):
        return _append(write_context, task, merge, changes, started)
    incoming = changes.num_rows
    if write_context.merges_inserts:
        changes = merged_inserts(write_context.storage, merge, changes)
    _check_change_log(task, write_context)
    kind_of_log = _marker_of_log(merge)

    def create_marker(name: str) -> None:
        create_file_marker(
            write_context, task, name, kind_of_log if is_change_log(name) else MarkerKind.MERGE
        )

    merged = merge_slice(write_context.storage, merge, changes, create_marker)
    written = WrittenFile(
        file_id=task.file_slice.file_id,
        path=merged.path,
        partition_path=task.file_naming.partition_path,
        previous_instant=task.file_slice.base_instant_time,
        rows=merged.rows,
        bytes=merged.bytes,
        inserted=merged.inserted,
        updated=merged.updated,
        deleted=merged.deleted,
        late_arriving=merged.late_arriving,
        moved=merged.moved,
        combined=merged.combined + incoming - changes.num_rows,
        milliseconds=round((time.perf_counter() - started) * 1000),
        changes=incoming,
        repeated_keys=merged.repeated_keys,
        change_logs=merged.change_logs,
        footer=merged.footer,
    )
    return [written]


def _marker_of_log(merge: MergeTask) -> MarkerKind:
    return MarkerKind.CREATE if merge.log_naming.is_new_file else MarkerKind.APPEND


def _check_change_log(task: WriteTask, write_context: WriteContext) -> None:
    """Raise WriteRefusedError if Hudi would read wrong rows by the change log of this merge.

    For keys alone it takes the rows before from the base file, without the log files on top of it.
    """
    config, file_slice = write_context.change_log, task.file_slice
    if config is None or config.mode is not ChangeLogMode.OP_KEY_ONLY or file_slice is None:
        return
    if file_slice.has_log_files:
        raise WriteRefusedError(
            f"{write_context.base_path} logs the keys of changes alone (hoodie.table.cdc.supplemental."
            f"logging.mode=op_key_only), and this statement merges the log files of file group "
            f"{file_slice.file_id} into a base file, of which Hudi then reads wrong changes",
            hint="CALL run_compaction(op => 'scheduleandexecute', table => …, options => "
            "'hoodie.compact.inline.max.delta.commits=1') first; nothing was written",
        )


def _append(
    write_context: WriteContext, task: WriteTask, merge: MergeTask, changes: pa.Table, started: float
) -> list[WrittenFile]:
    kind = _marker_of_log(merge)

    def create_marker(name: str) -> None:
        create_file_marker(write_context, task, name, kind)

    logged = list(
        append_changes(write_context.storage, merge, changes, write_context.log_file_config, create_marker)
    )
    milliseconds = round((time.perf_counter() - started) * 1000)
    combined = changes.num_rows - sum(each.rows + each.deleted + each.moved for each in logged)
    return [
        WrittenFile(
            file_id=merge.file_slice.file_id,
            path=each.path,
            partition_path=task.file_naming.partition_path,
            previous_instant=merge.previous_instant_of_log,
            rows=each.rows,
            bytes=each.bytes,
            inserted=each.inserted,
            updated=each.updated,
            deleted=each.deleted,
            late_arriving=0,
            moved=each.moved,
            milliseconds=milliseconds if number == 0 else 0,
            changes=changes.num_rows if number == 0 else 0,
            combined=combined if number == 0 else 0,
            log=each.stat,
        )
        for number, each in enumerate(logged)
    ]


def split_by(batch: pa.RecordBatch, name: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each number in the column `name`, without that column, in order of first occurrence."""
    numbers = batch.column(name)
    rest = batch.drop_columns([name])
    distinct = numbers.unique().to_pylist()
    for number in distinct:
        yield number, rest if len(distinct) == 1 else rest.filter(pc.equal(numbers, number))
