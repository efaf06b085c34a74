"""What one Spark task does for a commit: take the changes of its buckets, write their file slices.

A task gets Arrow batches of changes that carry their bucket's number. Slices are merged (copy-on-write), new
rows go straight into new base files. Results are small pickled values. Knows no Spark besides the shape of
`mapInArrow`.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import HudisqlError, StorageError, WriteConflictError
from hudisql.format.commit_metadata import LogWriteStat
from hudisql.format.partition_metadata import (
    PARTITION_METADATA_FILE,
    PartitionMetadata,
    render_partition_metadata,
)
from hudisql.read.conform import batch_of, conform_array
from hudisql.read.hybrid_calendar import CalendarSettings
from hudisql.read.log_rule import LogRule
from hudisql.read.task_errors import encode_error
from hudisql.read.task_heap import spare_loaded_modules
from hudisql.storage import Storage, join
from hudisql.table.file_slice import FileSlice
from hudisql.write.base_file import BaseFileForm, BaseFilePlace, BaseFileWriter
from hudisql.write.changes import CHANGE_COLUMNS, change_schema
from hudisql.write.held_changes import HeldChanges
from hudisql.write.log_file import BlockFormat
from hudisql.write.markers import Marker, MarkerKind, create_marker
from hudisql.write.record_keys import render_record_keys, repeated_keys
from hudisql.write.slice_log import append_changes, can_append
from hudisql.write.slice_merge import MergeTask, merge_slice, null_key_error

BUCKET: Final = "__hudisql_bucket"


@dataclass(frozen=True, slots=True)
class WriteTask:
    """One bucket's work: `file_slice` to merge with, or None for new file groups.

    `is_new_partition` asks for the partition's marker file; `depth` is the number of its folders.
    """

    number: int
    file_slice: FileSlice | None
    partition_values: Mapping[str, object]
    place: BaseFilePlace
    rows: int
    is_new_partition: bool
    depth: int


@dataclass(frozen=True, slots=True)
class CommitWork:
    """What all tasks of a commit share; see `MergeTask` for `ordering`, `newest_by` and `log_rule`.

    With `appends` (merge-on-read) changes go to log files of `block_format` where those say the same;
    `merges_bootstrapped` says that the real Hudi would read skeletons with log files wrong. With
    `unique_new_keys` the results name keys that several new rows have.
    """

    storage: Storage
    base_path: str
    instant_time: str
    inflight_path: str
    schema: pa.Schema
    avro_schema: str
    form: BaseFileForm
    record_key_fields: tuple[str, ...]
    composite: bool
    ordering: str | None
    newest_by: str | None
    bytes_per_row: float
    calendars: CalendarSettings
    log_rule: LogRule | None = None
    appends: bool = False
    merges_bootstrapped: bool = False
    block_format: BlockFormat = "avro"
    unique_new_keys: bool = False


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One file that a task wrote; counts as in Hudi's write statistics, `changes` are the rows it took in.

    `log` is there for a log file; `repeated_keys` are those of several new rows, if that was asked for.
    """

    file_id: str
    path: str
    partition_path: str
    previous_instant: str | None
    rows: int
    bytes: int
    inserted: int
    updated: int
    deleted: int
    late: int
    moved: int
    milliseconds: int
    changes: int
    log: LogWriteStat | None = None
    repeated_keys: tuple[str, ...] = ()


def write_buckets(
    work: CommitWork, tasks: Mapping[int, WriteTask], attempt: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[WrittenFile]:
    """Write the slices of the buckets whose changes come in `batches`, each batch of one Spark partition.

    `attempt` tells apart the files of several tries. Raises what `merge_slice` raises, StorageError.
    """
    with HeldChanges(change_schema(work.schema)) as held:
        writers: dict[int, _NewFiles] = {}
        try:
            for batch in batches:
                for number, part in _by_bucket(batch):
                    task = _of_attempt(tasks[number], attempt)
                    rows = _as_changes(part, work.schema)
                    if task.file_slice is not None:
                        held.add(number, rows)
                        continue
                    if number not in writers:
                        writers[number] = _NewFiles(work, task)
                    writers[number].write(rows)
            for number in held.numbers:
                merged = _merge(work, _of_attempt(tasks[number], attempt), held.table(number))
                _keep_or_take_back(work, [merged])
                yield merged
            for number in sorted(writers):
                files = writers[number].finish()
                del writers[number]
                _keep_or_take_back(work, files)
                yield from files
        finally:
            for writer in writers.values():
                writer.abandon()


def run_write_tasks(
    work: CommitWork, tasks: Mapping[int, bytes], attempt: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """`write_buckets` as Spark's `mapInArrow` calls it: a binary column of pickled WrittenFiles."""
    unpickled = _Unpickled(tasks)
    try:
        for written in write_buckets(work, unpickled, attempt, batches):
            yield pa.record_batch([pa.array([pickle.dumps(written)], pa.binary())], names=["written"])
    except HudisqlError as error:
        raise encode_error(error) from None
    except OSError as error:
        raise encode_error(StorageError(f"a task failed to read or write: {error}")) from error
    spare_loaded_modules()


def _keep_or_take_back(work: CommitWork, files: Sequence[WrittenFile]) -> None:
    """Delete files that came too late: their commit has been rolled back, so nobody else would.

    Raises WriteConflictError then.
    """
    if work.storage.exists(work.inflight_path):
        return
    work.storage.delete_files([file.path for file in files])
    raise WriteConflictError(
        f"the commit {work.instant_time} on {work.base_path} was rolled back while it was being written",
        hint="run the statement again",
    )


class _Unpickled(dict[int, WriteTask]):
    """Unpickles a bucket's task when it is asked for: of thousands a Spark task needs its own alone."""

    def __init__(self, pickled: Mapping[int, bytes]) -> None:
        super().__init__()
        self._pickled = pickled

    def __missing__(self, number: int) -> WriteTask:
        task: WriteTask = pickle.loads(self._pickled[number])
        self[number] = task
        return task


class _NewFiles:
    """The new file groups of one bucket, written as the rows come."""

    def __init__(self, work: CommitWork, task: WriteTask) -> None:
        self._work = work
        self._task = task
        self._started = time.perf_counter()
        self._keys: list[pa.StringArray] = []
        _mark_partition(work, task)
        self._writer = BaseFileWriter(
            work.storage,
            task.place,
            work.schema,
            work.avro_schema,
            work.form,
            expected_rows=task.rows,
            bytes_per_row=work.bytes_per_row,
            announce=lambda name: _announce(work, task, name, MarkerKind.CREATE),
        )

    def write(self, changes: pa.RecordBatch) -> None:
        """Take new rows. Raises WriteRefusedError for null keys, StorageError."""
        work = self._work
        rows = changes.drop_columns(list(CHANGE_COLUMNS))
        rendered = render_record_keys(rows, work.record_key_fields, composite=work.composite)
        if rendered.null_keys.count:
            raise null_key_error(
                work.record_key_fields, self._task.place.partition_path, rendered.null_keys.count
            )
        self._writer.write(rendered.keys, rows)
        if work.unique_new_keys:
            # A copy, since a slice of a batch would keep all its columns.
            self._keys.append(pa.concat_arrays([rendered.keys.slice(0, 0), rendered.keys]))

    def finish(self) -> list[WrittenFile]:
        """Close the files. Raises StorageError."""
        files = self._writer.finish()
        milliseconds = round((time.perf_counter() - self._started) * 1000)
        repeated = repeated_keys(pa.chunked_array(self._keys, pa.string()))
        return [
            WrittenFile(
                file_id=file.file_id,
                path=file.path,
                partition_path=self._task.place.partition_path,
                previous_instant=None,
                rows=file.rows,
                bytes=file.bytes,
                inserted=file.rows,
                updated=0,
                deleted=0,
                late=0,
                moved=0,
                milliseconds=milliseconds,
                changes=file.rows,
                repeated_keys=repeated,
            )
            for file in files
        ]

    def abandon(self) -> None:
        """Delete the files."""
        self._writer.abandon()


def _merge(work: CommitWork, task: WriteTask, changes: pa.Table) -> WrittenFile:
    started = time.perf_counter()
    assert task.file_slice is not None
    merge = MergeTask(
        file_slice=task.file_slice,
        partition_values=task.partition_values,
        place=task.place,
        schema=work.schema,
        avro_schema=work.avro_schema,
        form=work.form,
        record_key_fields=work.record_key_fields,
        composite=work.composite,
        ordering=work.ordering,
        newest_by=work.newest_by,
        calendars=work.calendars,
        log_rule=work.log_rule,
        unique_new_keys=work.unique_new_keys,
    )
    keeps_source_safe = not (work.merges_bootstrapped and task.file_slice.is_bootstrapped)
    if work.appends and keeps_source_safe and can_append(merge, changes):
        return _append(work, task, merge, changes, started)
    merged = merge_slice(
        work.storage, merge, changes, lambda name: _announce(work, task, name, MarkerKind.MERGE)
    )
    return WrittenFile(
        file_id=task.file_slice.file_id,
        path=merged.path,
        partition_path=task.place.partition_path,
        previous_instant=task.file_slice.base_instant_time,
        rows=merged.rows,
        bytes=merged.bytes,
        inserted=merged.inserted,
        updated=merged.updated,
        deleted=merged.deleted,
        late=merged.late,
        moved=merged.moved,
        milliseconds=round((time.perf_counter() - started) * 1000),
        changes=changes.num_rows,
        repeated_keys=merged.repeated_keys,
    )


def _append(
    work: CommitWork, task: WriteTask, merge: MergeTask, changes: pa.Table, started: float
) -> WrittenFile:
    logged = append_changes(
        work.storage,
        merge,
        changes,
        work.block_format,
        lambda name: _announce(work, task, name, MarkerKind.APPEND),
    )
    return WrittenFile(
        file_id=merge.file_slice.file_id,
        path=logged.path,
        partition_path=task.place.partition_path,
        previous_instant=merge.file_slice.base_instant_time,
        rows=logged.updated,
        bytes=logged.bytes,
        inserted=0,
        updated=logged.updated,
        deleted=logged.deleted,
        late=0,
        moved=logged.moved,
        milliseconds=round((time.perf_counter() - started) * 1000),
        changes=changes.num_rows,
        log=logged.stat,
    )


def _announce(work: CommitWork, task: WriteTask, name: str, kind: MarkerKind) -> None:
    marker = Marker(task.place.partition_path, name, kind)
    create_marker(work.storage, work.base_path, work.instant_time, marker)


def _mark_partition(work: CommitWork, task: WriteTask) -> None:
    if not task.is_new_partition:
        return
    content = render_partition_metadata(PartitionMetadata(work.instant_time, task.depth), datetime.now(UTC))
    work.storage.write(join(task.place.folder, PARTITION_METADATA_FILE), content)


def _of_attempt(task: WriteTask, attempt: int) -> WriteTask:
    token, _, _ = task.place.write_token.rpartition("-")
    return replace(task, place=replace(task.place, write_token=f"{token}-{attempt}"))


def _by_bucket(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    numbers = batch.column(BUCKET)
    rest = batch.drop_columns([BUCKET])
    distinct = numbers.unique().to_pylist()
    for number in distinct:
        yield number, rest if len(distinct) == 1 else rest.filter(pc.equal(numbers, number))


def _as_changes(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    wanted = change_schema(schema)
    columns = [conform_array(batch.column(each.name), each.type) for each in wanted]
    return batch_of(columns, wanted, batch.num_rows)
