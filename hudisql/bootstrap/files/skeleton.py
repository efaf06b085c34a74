"""Skeleton files: the five meta columns of one source file, row by row; the source stays as it is.

Follows RFC-12 and Hudi's `MetadataBootstrapHandler` and `HoodieAvroWriteSupport` (footer keys), except that
row groups follow the source's, so that both files are split alike. One call handles one file in one task and
reads only its key columns; it knows nothing of Spark, plans or commits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.bootstrap.files.key_ranges import KeyRange, KeyRangeFinder
from hudisql.errors import HudisqlError, NoSuchPathError, SourceChangedError, SourceError, StorageError
from hudisql.format.keys.record_keys import NullKeys, RecordKeys, check_key_type, render_record_keys
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.schema import meta_columns
from hudisql.read.calendar.hybrid_calendar import rebases_of
from hudisql.read.files.conform import rebase_batch
from hudisql.storage import Storage
from hudisql.write.handle.key_footer import KeyFooter
from hudisql.write.handle.meta_arrays import CONSTANT_COLUMNS, META_ARRAY_SCHEMA, meta_arrays_of_new_rows
from hudisql.write.handle.parquet_writer import open_parquet_writer
from hudisql.write.keygen.new_row_keys import generated_keys

DEFAULT_BLOOM_FPP = 1e-3
_BATCH_ROWS = 262_144
_READ_BUFFER_BYTES = 4 << 20
_NULL_KEY_SAMPLES = 5
_LEAST_ROW_BYTES = 32


class SkeletonEncoding(StrEnum):
    """The parquet encoding of record keys and sequence numbers in a skeleton."""

    PLAIN = "plain"
    """PLAIN: every reader reads it, Hive 2.3 included."""
    DELTA = "delta"
    """DELTA_BYTE_ARRAY: several times smaller for ascending keys, not readable by Hive 2.3."""


class KeyCheck(StrEnum):
    """The checks of the record keys while they are read."""

    UNIQUE = "unique"
    """No null or empty key, and none twice in a partition."""
    UNIQUE_GLOBAL = "unique_global"
    """No null or empty key, and none twice in the table."""
    NULLS = "nulls"
    NONE = "none"

    @property
    def is_unique(self) -> bool:
        """True if no key may occur twice."""
        return self in (KeyCheck.UNIQUE, KeyCheck.UNIQUE_GLOBAL)


@dataclass(frozen=True, slots=True)
class SkeletonFileTask:
    """One skeleton to write: `source` is the file it describes, `target_path` its own absolute path.

    `partition_path` is relative to the table, `bloom_entries` None sizes the filter to the file's rows;
    `codec` is one of `open_base_file.CODECS`. Without `record_key_fields` keys are generated.
    `partition_values` are those of the partition columns in the record key: the files lack these columns, or
    the directory's value has priority. The footer has the range of the `measured_columns`.
    """

    source: ExternalFile
    target_path: str
    file_id: str
    write_token: str
    file_name: str
    partition_path: str
    instant_time: str
    task_partition_id: int
    record_key_fields: tuple[str, ...]
    complex_keys: bool
    bloom_entries: int | None = None
    bloom_fpp: float = DEFAULT_BLOOM_FPP
    codec: str = "gzip"
    encoding: SkeletonEncoding = SkeletonEncoding.PLAIN
    key_check: KeyCheck = KeyCheck.NULLS
    consistent_logical_timestamp: bool = False
    partition_values: Mapping[str, pa.Scalar] = field(default_factory=dict)
    measured_columns: tuple[str, ...] = (meta_columns.RECORD_KEY,)

    @property
    def stored_key_fields(self) -> list[str]:
        """The fields of the record key that are in the source file."""
        return [name for name in self.record_key_fields if name not in self.partition_values]


@dataclass(frozen=True, slots=True)
class SkeletonResult:
    """A written skeleton; `bytes` is its length, `null_key_samples` are row numbers in the file.

    `key_range` is set if keys must be unique and the file has rows.
    """

    file_id: str
    path: str
    rows: int
    bytes: int
    source_bytes: int
    row_groups: int
    min_key: str | None
    max_key: str | None
    null_keys: int
    null_key_samples: tuple[int, ...]
    seconds: float
    key_range: KeyRange | None = None


def write_skeleton(storage: Storage, task: SkeletonFileTask) -> SkeletonResult:
    """Write the skeleton of one source file; memory is bounded by the keys of its largest row group.

    A skeleton that could not be finished is deleted. Raises SourceChangedError if the source is gone, or
    cannot be read by its planned length and has another, SourceError if it cannot be decoded,
    InvalidArgumentError for an unusable key column.
    """
    try:
        return _write_skeleton(storage, task)
    except SourceChangedError:
        raise
    except SourceError:
        # An object store is not asked for the length before it is read.
        check_length(storage, task.source)
        raise


def _write_skeleton(storage: Storage, task: SkeletonFileTask) -> SkeletonResult:
    started = time.perf_counter()
    with _open_source(storage, task) as stream:
        try:
            source = pq.ParquetFile(stream, buffer_size=_READ_BUFFER_BYTES, coerce_int96_timestamp_unit="us")
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(task, error) from error
        _check_key_columns(task, source)
        summary = _KeySummary(task, source.metadata.num_rows)
        try:
            written = _write_row_groups(storage, task, source, summary)
        except BaseException:
            storage.delete_file(task.target_path)
            raise
        return SkeletonResult(
            file_id=task.file_id,
            path=task.target_path,
            rows=source.metadata.num_rows,
            bytes=written,
            source_bytes=task.source.length,
            row_groups=source.metadata.num_row_groups,
            min_key=summary.footer.min_key,
            max_key=summary.footer.max_key,
            null_keys=summary.null_keys,
            null_key_samples=tuple(summary.null_key_samples),
            key_range=summary.key_range(),
            seconds=time.perf_counter() - started,
        )


def _open_source(storage: Storage, task: SkeletonFileTask) -> Any:
    try:
        stream = storage.open_input(task.source.path, task.source.length)
    except NoSuchPathError as error:
        raise source_changed(task.source, None) from error
    length = stream.size()
    if length != task.source.length:
        stream.close()
        raise source_changed(task.source, length)
    return stream


def source_changed(planned: ExternalFile, length: int | None) -> SourceChangedError:
    """The error for a source file that now has `length` bytes; None if it was removed."""
    what = "was removed since the source was listed"
    if length is not None:
        what = f"changed since the source was listed: {length} bytes instead of {planned.length}"
    return SourceChangedError(
        f"the source file {planned.path} {what}",
        hint="run the statement again when nothing writes to the source",
    )


def check_length(storage: Storage, source: ExternalFile) -> None:
    """Raise SourceChangedError if the source file is gone or has another length than planned."""
    info = storage.info(source.path)
    length = None if info is None else info.length
    if length != source.length:
        raise source_changed(source, length)


def _unreadable(task: SkeletonFileTask, error: Exception) -> SourceError:
    return SourceError(f"cannot read {task.source.path} as parquet: {error}")


def _write_row_groups(
    storage: Storage, task: SkeletonFileTask, source: pq.ParquetFile, summary: _KeySummary
) -> int:
    """Write all row groups and the footer; returns the skeleton's length in bytes."""
    try:
        with storage.open_output(task.target_path) as sink:
            with _open_writer(sink, task, source.metadata) as writer:
                rows = 0
                for group in range(source.metadata.num_row_groups):
                    batches = list(_meta_batches(task, source, group, rows, summary))
                    if batches:
                        table = pa.Table.from_batches(batches, META_ARRAY_SCHEMA)
                        writer.write_table(table, row_group_size=table.num_rows)
                        rows += table.num_rows
                writer.add_key_value_metadata(summary.footer.key_values(meta_columns.SKELETON_AVRO_SCHEMA))
            written: int = sink.tell()
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, HudisqlError):
            raise
        raise StorageError(f"cannot write {task.target_path}: {error}") from error
    if rows != source.metadata.num_rows:
        raise SourceError(f"{task.source.path} has {rows} rows, its footer says {source.metadata.num_rows}")
    return written


def _open_writer(sink: Any, task: SkeletonFileTask, source: pq.FileMetaData) -> pq.ParquetWriter:
    options: dict[str, Any] = {
        "use_dictionary": list(CONSTANT_COLUMNS),
        # Others would only lengthen small files.
        "write_statistics": list(task.measured_columns),
        "version": "1.0",
        "data_page_version": "1.0",
        "store_schema": False,
    }
    if task.encoding is SkeletonEncoding.DELTA:
        options["column_encoding"] = {
            meta_columns.RECORD_KEY: "DELTA_BYTE_ARRAY",
            meta_columns.COMMIT_SEQNO: "DELTA_BYTE_ARRAY",
        }
    first_rows = source.row_group(0).num_rows if source.num_row_groups else 0
    return open_parquet_writer(
        sink, META_ARRAY_SCHEMA, task.codec, first_bytes=first_rows * _LEAST_ROW_BYTES, **options
    )


def _check_key_columns(task: SkeletonFileTask, source: pq.ParquetFile) -> None:
    schema = source.schema_arrow
    for name in task.stored_key_fields:
        column, *path = name.split(".")
        position = schema.get_field_index(column)
        value_type = schema.field(position).type if position >= 0 else None
        for step in path:
            is_inside = (
                value_type is not None
                and pa.types.is_struct(value_type)
                and value_type.get_field_index(step) >= 0
            )
            value_type = value_type.field(step).type if is_inside and value_type is not None else None
        if value_type is None:
            raise SourceError(
                f"the key column '{name}' is not in {task.source.path}",
                hint=f"its columns are {', '.join(schema.names)}",
            )
        check_key_type(name, value_type)


def _meta_batches(
    task: SkeletonFileTask, source: pq.ParquetFile, group: int, first_row: int, summary: _KeySummary
) -> Iterator[pa.RecordBatch]:
    """The meta columns of one row group of the source in bounded batches, each added to the summary."""
    for rendered in _record_keys(task, source, group, first_row):
        summary.add(rendered.keys, rendered.null_keys.rows + first_row)
        columns = meta_arrays_of_new_rows(
            rendered.keys,
            instant_time=task.instant_time,
            partition_path=task.partition_path,
            file_name=task.file_name,
            task=task.task_partition_id,
            first_row=first_row,
        )
        yield pa.record_batch(columns, schema=META_ARRAY_SCHEMA)
        first_row += len(rendered.keys)


def _record_keys(
    task: SkeletonFileTask, source: pq.ParquetFile, group: int, first_row: int
) -> Iterator[RecordKeys]:
    """The keys of a row group: from its key columns, or generated without reading the source."""
    if task.record_key_fields:
        for batch in _key_batches(task, source, group):
            yield render_record_keys(
                batch,
                task.record_key_fields,
                complex_keys=task.complex_keys,
                consistent_logical_timestamp=task.consistent_logical_timestamp,
            )
        return
    rows = source.metadata.row_group(group).num_rows
    for start in range(0, rows, _BATCH_ROWS):
        count = min(_BATCH_ROWS, rows - start)
        keys = generated_keys(task.instant_time, task.task_partition_id, first_row + start, count)
        yield RecordKeys(keys, NullKeys())


def _key_batches(task: SkeletonFileTask, source: pq.ParquetFile, group: int) -> Iterator[pa.RecordBatch]:
    rebases = rebases_of(source.schema, source.schema_arrow, source.metadata.metadata)
    try:
        for batch in source.iter_batches(
            _BATCH_ROWS, row_groups=[group], columns=task.stored_key_fields, use_threads=False
        ):
            rows = rebase_batch(batch, rebases)
            for name, value in task.partition_values.items():
                rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
            yield rows
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(task, error) from error


class _KeySummary:
    """Statistics of all keys of a file for the footer and the result, collected batch by batch."""

    def __init__(self, task: SkeletonFileTask, rows: int) -> None:
        self.footer = KeyFooter(task.bloom_entries or rows, task.bloom_fpp)
        self._counts_nulls = task.key_check is not KeyCheck.NONE
        self._key_range = KeyRangeFinder(rows) if task.key_check.is_unique else None
        self.null_keys = 0
        self.null_key_samples: list[int] = []

    def add(self, keys: pa.StringArray, null_rows: np.ndarray) -> None:
        """Add the keys of a batch; `null_rows` are row numbers in the file."""
        self.footer.add(keys)
        if self._key_range is not None:
            self._key_range.add(keys)
        if self._counts_nulls:
            self.null_keys += len(null_rows)
            wanted = _NULL_KEY_SAMPLES - len(self.null_key_samples)
            self.null_key_samples += null_rows[:wanted].tolist()

    def key_range(self) -> KeyRange | None:
        """The range of the keys, if keys must be unique."""
        return None if self._key_range is None else self._key_range.result()
