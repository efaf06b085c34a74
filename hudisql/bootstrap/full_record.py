"""Full-record bootstrap: the source files of a partition written anew as base files of the table.

Follows Hudi's full bootstrap (`SparkFullBootstrapDataProviderBase`, a bulk insert with its default sort mode
NONE): rows keep the source's order, files are sized by `hoodie.parquet.max.file.size`. One call handles one
task, a run of source files (or a byte range of a large one) of one partition, and needs no shuffle. It knows
nothing of Spark, plans or commits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from hudisql.bootstrap.key_ranges import KeyRange, KeyRangeFinder
from hudisql.bootstrap.skeleton import KeyCheck
from hudisql.errors import NoSuchPathError, SourceChangedError, SourceError
from hudisql.format.external_file import ExternalFile
from hudisql.read.conform import batch_of, constant_column
from hudisql.read.parquet_rows import ParquetRows
from hudisql.read.splits import Split
from hudisql.storage import Storage
from hudisql.write.base_file import BaseFileForm, BaseFilePlace, BaseFileWriter
from hudisql.write.record_keys import render_record_keys

_NULL_KEY_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class FullRecordInput:
    """A source file of a task, or the row groups of it whose middle lies in `split`; `rows` is about."""

    source: ExternalFile
    rows: int
    split: Split | None = None

    @property
    def bytes(self) -> int:
        """Bytes of the source that are read."""
        return self.source.length if self.split is None else self.split.length


@dataclass(frozen=True, slots=True)
class FullRecordTask:
    """What one task rewrites. `schema` is the table's, partition columns last, with `partition_values`."""

    inputs: tuple[FullRecordInput, ...]
    place: BaseFilePlace
    schema: pa.Schema
    avro_schema: str
    partition_values: Mapping[str, object]
    record_key_fields: tuple[str, ...]
    composite: bool
    form: BaseFileForm
    key_check: KeyCheck

    @property
    def bytes(self) -> int:
        """Bytes of the source that are read."""
        return sum(each.bytes for each in self.inputs)


@dataclass(frozen=True, slots=True)
class SourceRows:
    """A run of rows of a written file and where it was read: `first_row` of `path`, from 0."""

    path: str
    first_row: int
    rows: int


@dataclass(frozen=True, slots=True)
class FullRecordFile:
    """One base file and what its rows are made of, in order.

    `null_key_samples` are (source path, row); `key_range` is there if keys are to be unique. `seconds` are
    the task's, shared out by rows.
    """

    file_id: str
    path: str
    rows: int
    bytes: int
    min_key: str | None
    max_key: str | None
    pieces: tuple[SourceRows, ...]
    null_keys: int
    null_key_samples: tuple[tuple[str, int], ...]
    key_range: KeyRange | None
    seconds: float


def write_full_records(storage: Storage, task: FullRecordTask) -> list[FullRecordFile]:
    """Rewrite the task's source rows; files that could not all be finished are deleted.

    Raises SourceChangedError if a source file is not the planned one, SourceError if one cannot be decoded,
    StorageError, InvalidArgumentError for an unusable key column.
    """
    started = time.perf_counter()
    rows = sum(each.rows for each in task.inputs)
    writer = BaseFileWriter(
        storage,
        task.place,
        task.schema,
        task.avro_schema,
        task.form,
        expected_rows=rows,
        bytes_per_row=task.bytes / max(rows, 1),
    )
    summaries: list[_FileSummary] = []
    with writer:
        for each in task.inputs:
            for first_row, batch in _source_batches(storage, task, each):
                _write_batch(task, writer, summaries, each.source.path, first_row, batch)
        files = writer.finish()
    seconds = time.perf_counter() - started
    written_rows = max(1, sum(file.rows for file in files))
    return [
        FullRecordFile(
            file_id=file.file_id,
            path=file.path,
            rows=file.rows,
            bytes=file.bytes,
            min_key=file.min_key,
            max_key=file.max_key,
            pieces=tuple(summary.pieces),
            null_keys=summary.null_keys,
            null_key_samples=tuple(summary.null_key_samples),
            key_range=None if summary.key_range is None else summary.key_range.result(),
            seconds=seconds * file.rows / written_rows,
        )
        for file, summary in zip(files, summaries, strict=True)
    ]


class _FileSummary:
    """What is gathered of one written file while its rows pass."""

    def __init__(self, rows: int, key_check: KeyCheck) -> None:
        self.pieces: list[SourceRows] = []
        self.null_keys = 0
        self.null_key_samples: list[tuple[str, int]] = []
        self.key_range = KeyRangeFinder(rows) if key_check.is_unique else None

    def add_piece(self, path: str, first_row: int, rows: int) -> None:
        """Take in a run of rows; runs that follow each other in one source file become one."""
        last = self.pieces[-1] if self.pieces else None
        if last is not None and last.path == path and last.first_row + last.rows == first_row:
            self.pieces[-1] = SourceRows(path, last.first_row, last.rows + rows)
        else:
            self.pieces.append(SourceRows(path, first_row, rows))

    def add_null_keys(self, path: str, rows: list[int]) -> None:
        """Take in the rows of a source file whose key is null or empty."""
        self.null_keys += len(rows)
        wanted = _NULL_KEY_SAMPLES - len(self.null_key_samples)
        self.null_key_samples += [(path, row) for row in rows[:wanted]]


def _write_batch(
    task: FullRecordTask,
    writer: BaseFileWriter,
    summaries: list[_FileSummary],
    path: str,
    first_row: int,
    batch: pa.RecordBatch,
) -> None:
    rendered = render_record_keys(batch, task.record_key_fields, composite=task.composite)
    null_rows = rendered.null_keys.rows if task.key_check is not KeyCheck.NONE else ()
    at = 0
    for number, rows in writer.write(rendered.keys, batch):
        if number == len(summaries):
            summaries.append(_FileSummary(sum(each.rows for each in task.inputs), task.key_check))
        summary = summaries[number]
        summary.add_piece(path, first_row + at, rows)
        summary.add_null_keys(path, [first_row + int(row) for row in null_rows if at <= row < at + rows])
        if summary.key_range is not None:
            summary.key_range.add(rendered.keys.slice(at, rows))
        at += rows


def _source_batches(
    storage: Storage, task: FullRecordTask, given: FullRecordInput
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The input's rows as the table has them, each batch with the number of its first row in the file."""
    path = given.source.path
    _check_length(storage, given.source)
    stored = pa.schema([field for field in task.schema if field.name not in task.partition_values])
    try:
        with ParquetRows(storage, path, stored) as source:
            ranges = source.choose_ranges(given.split, None)
            positions = [each.start for each in ranges]
            for batch in source.read(ranges):
                first_row = positions[0]
                columns = [
                    constant_column(task.partition_values[field.name], field.type, batch.num_rows)
                    if field.name in task.partition_values
                    else batch.column(field.name)
                    for field in task.schema
                ]
                yield first_row, batch_of(columns, task.schema, batch.num_rows)
                positions[0] += batch.num_rows
                if positions[0] >= ranges[-len(positions)].stop:
                    positions.pop(0)
    except NoSuchPathError as error:
        raise _changed(f"the source file {path} has gone since the bootstrap was planned") from error
    except pa.ArrowException as error:
        raise SourceError(f"cannot read {path} as parquet: {error}") from error


def _check_length(storage: Storage, source: ExternalFile) -> None:
    info = storage.info(source.path)
    if info is None:
        raise _changed(f"the source file {source.path} has gone since the bootstrap was planned")
    if info.length != source.length:
        raise _changed(
            f"the source file {source.path} changed since the bootstrap was planned: "
            f"{info.length} bytes instead of {source.length}"
        )


def _changed(text: str) -> SourceChangedError:
    return SourceChangedError(text, hint="run the statement again when nothing writes to the source")
