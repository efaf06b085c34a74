"""Full-record bootstrap: the source files of a partition rewritten as base files of the table.

Follows Hudi's full bootstrap (`SparkFullBootstrapDataProviderBase`, a bulk insert with its default sort mode
NONE): rows keep the source's order, files are sized by `hoodie.parquet.max.file.size`. One call handles one
task, a run of source files (or a byte range of a large one) of one partition, and needs no shuffle. It knows
nothing of Spark, plans or commits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.bootstrap.files.key_ranges import KeyRange, KeyRangeFinder
from hudisql.bootstrap.files.skeleton import KeyCheck, check_length, source_changed
from hudisql.errors import NoSuchPathError, SourceError
from hudisql.format.keys.record_keys import NullKeys, RecordKeys, render_record_keys
from hudisql.format.paths.external_file import ExternalFile
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS, CalendarSettings
from hudisql.read.files.conform import batch_of, constant_column
from hudisql.read.files.parquet_rows import ParquetRows
from hudisql.read.files.splits import Split
from hudisql.storage import Storage
from hudisql.write.handle.base_file import BaseFileConfig, BaseFileWriter, FileNaming, WrittenBaseFile
from hudisql.write.keygen.new_row_keys import generated_keys

_NULL_KEY_SAMPLES = 5
# Sizes the first row group of rows that nobody has counted.
_UNKNOWN_BYTES_PER_ROW = 100
_NO_ROWS: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class FullRecordInput:
    """A source file of a task, or its row groups whose middle lies in `split`.

    `rows` is approximate, and 0 if it is unknown.
    """

    source: ExternalFile
    rows: int
    split: Split | None = None

    @property
    def bytes(self) -> int:
        """The bytes of the source that are read."""
        return self.source.length if self.split is None else self.split.length


@dataclass(frozen=True, slots=True)
class FullRecordTask:
    """The work of one task. `schema` is the table's, partition columns last, with `partition_values`."""

    inputs: tuple[FullRecordInput, ...]
    naming: FileNaming
    schema: pa.Schema
    avro_schema: str
    partition_values: Mapping[str, object]
    record_key_fields: tuple[str, ...]
    complex_keys: bool
    form: BaseFileConfig
    key_check: KeyCheck
    calendars: CalendarSettings = DEFAULT_CALENDARS

    @property
    def bytes(self) -> int:
        """The bytes of the source that are read."""
        return sum(record_input.bytes for record_input in self.inputs)


@dataclass(frozen=True, slots=True)
class SourceRows:
    """A run of rows in a written file and their source: from row `first_row` of `path` (None: unknown)."""

    path: str
    first_row: int | None
    rows: int

    @property
    def next_row(self) -> int | None:
        """The row of the source file after the run."""
        return None if self.first_row is None else self.first_row + self.rows


@dataclass(frozen=True, slots=True)
class FullRecordFile(WrittenBaseFile):
    """One base file and the sources of its rows, in order.

    `null_key_samples` are (source path, row); `key_range` is set if keys must be unique. `seconds` is the
    file's share of the task's time, by rows.
    """

    source_rows: tuple[SourceRows, ...]
    null_keys: int
    null_key_samples: tuple[tuple[str, int | None], ...]
    key_range: KeyRange | None
    seconds: float


def write_full_records(storage: Storage, task: FullRecordTask) -> list[FullRecordFile]:
    """Rewrite the task's source rows; files that could not all be finished are deleted.

    Raises SourceChangedError if a source file is not the planned one, SourceError if one cannot be decoded,
    StorageError, InvalidArgumentError for an unusable key column.
    """
    sink = FullRecordSink(storage, task)
    try:
        for record_input in task.inputs:
            batches = read_source_file(
                storage,
                record_input.source,
                task.schema,
                task.partition_values,
                task.calendars,
                record_input.split,
            )
            for first_row, batch in batches:
                sink.write(record_input.source.path, first_row, batch)
        return sink.finish()
    except BaseException:
        sink.abandon()
        raise


class FullRecordSink:
    """Receives a task's rows, as the table has them, and writes its files; does not read the inputs.

    `first_sequence_number` continues the row numbers of an earlier sink with the same task partition id.
    """

    def __init__(self, storage: Storage, task: FullRecordTask, first_sequence_number: int = 0) -> None:
        self._started = time.perf_counter()
        self._task = task
        self._expected_rows = sum(record_input.rows for record_input in task.inputs)
        self._summaries: list[_FileSummary] = []
        self.rows = 0
        self._first_row = first_sequence_number
        self._writer = BaseFileWriter(
            storage,
            task.naming,
            task.schema,
            task.avro_schema,
            task.form,
            expected_rows=self._expected_rows or None,
            bytes_per_row=task.bytes / self._expected_rows if self._expected_rows else _UNKNOWN_BYTES_PER_ROW,
            first_sequence_number=first_sequence_number,
        )

    def write(self, path: str, first_row: int | None, batch: pa.RecordBatch) -> None:
        """Write rows of the source file `path`, starting at its row `first_row` (None: unknown)."""
        task = self._task
        rendered = self._record_keys(batch)
        null_rows = rendered.null_keys.rows if task.key_check is not KeyCheck.NONE else _NO_ROWS
        at = 0
        for number, rows in self._writer.write(rendered.keys, batch):
            if number == len(self._summaries):
                self._summaries.append(_FileSummary(self._expected_rows, task.key_check))
            summary = self._summaries[number]
            summary.add_rows_of(path, None if first_row is None else first_row + at, rows)
            own = null_rows[(null_rows >= at) & (null_rows < at + rows)]
            summary.add_null_keys(path, first_row, own)
            if summary.key_range is not None:
                summary.key_range.add(rendered.keys.slice(at, rows))
            at += rows
        self.rows += batch.num_rows

    def _record_keys(self, batch: pa.RecordBatch) -> RecordKeys:
        task = self._task
        if task.record_key_fields:
            return render_record_keys(batch, task.record_key_fields, complex_keys=task.complex_keys)
        naming, first_row = task.naming, self._first_row + self.rows
        keys = generated_keys(naming.instant_time, naming.task_partition_id, first_row, batch.num_rows)
        return RecordKeys(keys, NullKeys())

    def finish(self) -> list[FullRecordFile]:
        """Close the files and return their descriptions."""
        files = self._writer.finish()
        seconds = time.perf_counter() - self._started
        return [
            FullRecordFile(
                file_id=file.file_id,
                path=file.path,
                rows=file.rows,
                bytes=file.bytes,
                min_key=file.min_key,
                max_key=file.max_key,
                source_rows=tuple(summary.source_rows),
                null_keys=summary.null_keys,
                null_key_samples=tuple(summary.null_key_samples),
                key_range=None if summary.key_range is None else summary.key_range.result(),
                seconds=seconds * file.rows / max(self.rows, 1),
            )
            for file, summary in zip(files, self._summaries, strict=True)
        ]

    def abandon(self) -> None:
        """Delete all files."""
        self._writer.abandon()


class _FileSummary:
    """Collects statistics of one written file while its rows pass."""

    def __init__(self, rows: int, key_check: KeyCheck) -> None:
        self.source_rows: list[SourceRows] = []
        self.null_keys = 0
        self.null_key_samples: list[tuple[str, int | None]] = []
        self.key_range = KeyRangeFinder(rows) if key_check.is_unique else None

    def add_rows_of(self, path: str, first_row: int | None, rows: int) -> None:
        """Add a run of rows; adjacent runs of one source file are merged."""
        last = self.source_rows[-1] if self.source_rows else None
        if last is not None and last.path == path and last.next_row == first_row:
            self.source_rows[-1] = SourceRows(path, last.first_row, last.rows + rows)
        else:
            self.source_rows.append(SourceRows(path, first_row, rows))

    def add_null_keys(self, path: str, first_row: int | None, rows: npt.NDArray[np.int64]) -> None:
        """Add the rows of a batch, starting at `first_row`, whose key is null or empty."""
        self.null_keys += len(rows)
        wanted = _NULL_KEY_SAMPLES - len(self.null_key_samples)
        self.null_key_samples += [
            (path, None if first_row is None else first_row + int(row)) for row in rows[:wanted]
        ]


def read_source_file(
    storage: Storage,
    source: ExternalFile,
    schema: pa.Schema,
    partition_values: Mapping[str, object],
    calendars: CalendarSettings,
    split: Split | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The file's rows as the table has them, each batch with the number of its first row in the file.

    `schema` is the table's, or some of its columns. Raises SourceChangedError if the file is gone or has
    another length, SourceError if it cannot be decoded, StorageError.
    """
    check_length(storage, source)
    stored = pa.schema([field for field in schema if field.name not in partition_values])
    try:
        with ParquetRows(storage, source.path, stored, calendars=calendars) as rows:
            ranges = rows.choose_ranges(split, None)
            positions = [row_range.start for row_range in ranges]
            for batch in rows.read(ranges):
                first_row = positions[0]
                columns = [
                    constant_column(partition_values[field.name], field.type, batch.num_rows)
                    if field.name in partition_values
                    else batch.column(field.name)
                    for field in schema
                ]
                yield first_row, batch_of(columns, schema, batch.num_rows)
                positions[0] += batch.num_rows
                if positions[0] >= ranges[-len(positions)].stop:
                    positions.pop(0)
    except NoSuchPathError as error:
        raise source_changed(source, None) from error
    except pa.ArrowException as error:
        raise SourceError(f"cannot read {source.path} as parquet: {error}") from error
