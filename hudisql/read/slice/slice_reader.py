"""Read one file slice as Arrow record batches: the one reader of scans, merges and services.

A slice is a base file, or a skeleton with its external file (RFC-12; Hudi's HoodieBootstrapRDD zips the two
row by row). Skeleton and external rows are joined by absolute row position, so row groups that a predicate
excludes are skipped on both sides, and a bootstrapped slice is split like any parquet file. Knows neither
Spark nor the metastore.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.config.hudi_config import CHANGED_SOURCES
from hudisql.errors import CorruptTableError, SourceChangedError, UnsupportedTableError
from hudisql.format.paths.external_file import is_same_time, utc_text
from hudisql.format.schema.meta_columns import COMMIT_TIME, META_COLUMNS, META_SCHEMA
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS, CalendarSettings
from hudisql.read.files.conform import batch_of, constant_column
from hudisql.read.files.parquet_rows import ParquetRows
from hudisql.read.files.predicates import (
    Predicate,
    columns_of,
    conjunction,
    matching_rows,
    split_conjuncts,
)
from hudisql.read.files.promote import promote_batch
from hudisql.read.files.splits import Split
from hudisql.read.merge.log_merge import merge_log_records, merge_schema
from hudisql.read.merge.merge_mode import LogMergeConfig
from hudisql.read.merge.merged_log_scanner import read_log_records
from hudisql.storage import FileInfo, Storage
from hudisql.table.file_slice import ExternalFile, FileSlice


@dataclass(frozen=True, slots=True)
class SliceRead:
    """The request for one slice.

    `schema` has the result's columns in order: any meta columns, data columns (structs may be pruned) and
    partition columns. A column named in `partition_values` gets that value and is never read from a file.
    `predicate` looks at columns of `schema` only. `split` is a byte range of the driving file (see `splits`).
    `calendars` is the calendar of files that do not name the calendar of their dates. A slice with log files
    needs the table's `log_merge_config`, and is read as one split.
    """

    file_slice: FileSlice
    schema: pa.Schema
    partition_values: Mapping[str, object] = field(default_factory=dict)
    predicate: Predicate | None = None
    split: Split | None = None
    calendars: CalendarSettings = DEFAULT_CALENDARS
    log_merge_config: LogMergeConfig | None = None

    @property
    def file_schema(self) -> pa.Schema:
        """The columns that are read from files."""
        return pa.schema([column for column in self.schema if column.name not in self.partition_values])


def needs_data_columns(schema: pa.Schema, partition_columns: Sequence[str]) -> bool:
    """True if a read of `schema` opens the files that hold the data columns."""
    return any(name not in META_COLUMNS and name not in partition_columns for name in schema.names)


def read_file_slice(storage: Storage, read: SliceRead) -> Iterator[pa.RecordBatch]:
    """The rows of the slice (or split) for which the predicate is TRUE, in file order, exactly as `schema`.

    Memory: one row group's compressed columns and one batch, per file. Columns that a file lacks are null.
    Raises UnsupportedTableError for log files without `log_merge_config` or with unknown blocks,
    SourceChangedError if the external file is missing or differs from what the index or the skeleton say,
    CorruptTableError if a file of the table cannot be decoded, InvalidArgumentError if the predicate looks at
    a column outside `schema`.
    """
    if read.file_slice.has_log_files:
        batches = _read_merged(storage, read, read.file_schema)
    else:
        batches = read_base_rows(storage, read, read.file_schema)
    for batch in batches:
        yield from complete_rows(batch, read)


def complete_rows(batch: pa.RecordBatch, read: SliceRead) -> Iterator[pa.RecordBatch]:
    """The rows of the batch for which the predicate is TRUE, with the columns of the read, as one batch."""
    complete = _complete(batch, read)
    if read.predicate is not None:
        complete = complete.filter(matching_rows(read.predicate, complete))
    if complete.num_rows:
        yield complete


def _read_merged(storage: Storage, read: SliceRead, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    config = read.log_merge_config
    if config is None:
        raise UnsupportedTableError(
            f"file group {read.file_slice.file_id} of {_partition(read.file_slice)} has log files, "
            "which this operation does not merge",
            hint="compact the table with Hudi (run_compaction) and try again",
        )
    merged_schema = merge_schema(schema, config.merge_mode)
    records = read_log_records(storage, read.file_slice, config, merged_schema)
    # The predicate may skip a base row: it is not in the result, or its log row, which then comes last,
    # replaces it. A base row that may win over its log row, or gives it columns, must be read.
    mode = config.merge_mode
    needs_all = (
        mode.keeps_newer_base_rows or records.lacks is not None or mode.partial_update_mode is not None
    )
    below = replace(read, predicate=None if needs_all else read.predicate, split=None)
    only = config.instant_range.only
    base_schema = _with_commit_time(merged_schema) if only is not None else merged_schema
    base = (
        _rows_of(batch, only).select(merged_schema.names)
        for batch in read_base_rows(storage, below, base_schema)
    )
    for batch in merge_log_records(base, records, config.merge_mode):
        yield batch.select(schema.names) if schema.names else batch_of([], schema, batch.num_rows)


def _with_commit_time(schema: pa.Schema) -> pa.Schema:
    return schema if COMMIT_TIME in schema.names else schema.append(META_SCHEMA.field(COMMIT_TIME))


def _rows_of(batch: pa.RecordBatch, instants: frozenset[str] | None) -> pa.RecordBatch:
    """The rows that these instants wrote; all of them for None."""
    if instants is None:
        return batch
    wanted = pa.array(sorted(instants), pa.string())
    return batch.filter(pc.is_in(batch.column(COMMIT_TIME), value_set=wanted))


def read_base_rows(storage: Storage, read: SliceRead, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of the slice's base file by `schema` (meta and data columns), without log files and partition
    values. Row groups that the predicate excludes are skipped. Raises UnsupportedTableError,
    SourceChangedError, CorruptTableError, StorageError.
    """
    if read.file_slice.external_file is None:
        is_empty = read.file_slice.base_file is None
        return iter(()) if is_empty else _read_base_file(storage, read, schema)
    check_external_files(storage, [read.file_slice])
    if read.file_slice.is_register_only:
        return _read_external_file(storage, read, schema)
    meta_schema = pa.schema([each for each in schema if each.name in META_COLUMNS])
    data_schema = pa.schema([each for each in schema if each.name not in META_COLUMNS])
    if data_schema.names and meta_schema.names:
        return _read_stitched(storage, read, meta_schema, data_schema)
    if data_schema.names:
        return _read_external_file(storage, read, data_schema)
    return _read_base_file(storage, read, meta_schema)


def check_external_files(storage: Storage, slices: Sequence[FileSlice]) -> list[str]:
    """Compare the external files' lengths and times with the bootstrap index.

    A directory with several of the files is listed, other files are looked at one by one, all in parallel.
    Returns the paths of files of which only the time has changed, if their slices accept that. Raises
    SourceChangedError naming the first missing or changed file and its partition.
    """
    bootstrapped = [each for each in slices if each.external_file is not None]
    infos = storage.infos_by_directory(
        [each.external_file.path for each in bootstrapped if each.external_file]
    )
    accepted = []
    for file_slice, info in zip(bootstrapped, infos, strict=True):
        external = file_slice.external_file
        if external is not None and not _is_unchanged(file_slice, external, info):
            accepted.append(external.path)
    return accepted


def _is_unchanged(file_slice: FileSlice, external: ExternalFile, info: FileInfo | None) -> bool:
    """False if only the time differs and the slice accepts that; raises for all other differences."""
    if info is None:
        raise _source_changed(file_slice, f"the source file {external.path} is missing")
    if info.length != external.length:
        raise _source_changed(
            file_slice,
            f"the source file {external.path} has {info.length} bytes, "
            f"but had {external.length} when it was bootstrapped",
        )
    if is_same_time(external.modification_time_ms, info.modification_time_ms):
        return True
    if not file_slice.accepts_changed_source:
        raise SourceChangedError(
            f"{_partition(file_slice)}: the source file {external.path} was modified at "
            f"{utc_text(info.modification_time_ms)}, and at {utc_text(external.modification_time_ms)} when "
            "it was bootstrapped: it has the same length, but may hold other rows",
            hint="restore the original file with its modification time (cp -p, distcp -pt), or drop the "
            "table's entry and bootstrap the source again; if it is a copy of the same content, "
            f"{CHANGED_SOURCES}=warn (SET, or an option of the hudi data source) reads it",
        )
    return False


def _source_changed(file_slice: FileSlice, what: str) -> SourceChangedError:
    return SourceChangedError(
        f"{_partition(file_slice)}: {what}",
        hint="restore the original file, or drop the table's entry and bootstrap the source again; "
        "until then the other partitions can be read with a filter on the partition columns",
    )


def _partition(file_slice: FileSlice) -> str:
    return f"partition '{file_slice.partition_path}'" if file_slice.partition_path else "the table"


def _read_base_file(storage: Storage, read: SliceRead, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    base_file, computed_meta = read.file_slice.base_file, read.file_slice.computed_meta
    assert base_file is not None
    try:
        if computed_meta is None or not any(name in META_COLUMNS for name in schema.names):
            yield from _read_columns(storage, read, base_file.path, schema)
            return
        path, name = read.file_slice.partition_path, base_file.path.rpartition("/")[2]
        for batch in _read_columns(storage, read, base_file.path, computed_meta.columns_to_read(schema)):
            yield computed_meta.complete(batch, schema, path, name)
    except pa.ArrowException as error:
        raise CorruptTableError(f"cannot read {base_file.path}: {error}") from error


def _read_external_file(storage: Storage, read: SliceRead, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    external = read.file_slice.external_file
    assert external is not None
    try:
        yield from _read_columns(storage, read, external.path, schema)
    except pa.ArrowException as error:
        raise _source_changed(
            read.file_slice, f"cannot read the source file {external.path}: {error}"
        ) from error


def _read_columns(
    storage: Storage, read: SliceRead, path: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    stored = read.file_slice.columns_in_base(schema)
    with ParquetRows(storage, path, stored, calendars=read.calendars) as rows:
        for batch in rows.read(rows.choose_ranges(read.split, _file_predicate(read, schema, stored))):
            yield promote_batch(batch, schema)


def _read_stitched(
    storage: Storage, read: SliceRead, meta_schema: pa.Schema, data_schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    external, skeleton = read.file_slice.external_file, read.file_slice.base_file
    assert external is not None
    assert skeleton is not None
    stored = read.file_slice.columns_in_base(data_schema)
    schema = pa.schema([*meta_schema, *data_schema])
    try:
        data = ParquetRows(storage, external.path, stored, calendars=read.calendars)
    except pa.ArrowException as error:
        raise _source_changed(
            read.file_slice, f"cannot read the source file {external.path}: {error}"
        ) from error
    try:
        with data, ParquetRows(storage, skeleton.path, meta_schema) as meta:
            if data.rows != meta.rows:
                raise _source_changed(
                    read.file_slice,
                    f"the source file {external.path} has {data.rows} rows, "
                    f"but its skeleton {skeleton.path} has {meta.rows}",
                )
            ranges = data.choose_ranges(read.split, _file_predicate(read, data_schema, stored))
            for batch in _zip_rows(meta.read(ranges), data.read(ranges)):
                yield promote_batch(batch, schema)
    except pa.ArrowException as error:
        raise CorruptTableError(
            f"cannot read the skeleton {skeleton.path} with its source file {external.path}: {error}"
        ) from error


def _zip_rows(left: Iterator[pa.RecordBatch], right: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join the columns of two streams of the same rows, whose batches may differ in length."""
    left_batch, right_batch = next(left, None), next(right, None)
    while left_batch is not None and right_batch is not None:
        rows = min(left_batch.num_rows, right_batch.num_rows)
        columns = left_batch.slice(0, rows).columns + right_batch.slice(0, rows).columns
        yield pa.RecordBatch.from_arrays(columns, schema=pa.schema([*left_batch.schema, *right_batch.schema]))
        left_batch = left_batch.slice(rows) if rows < left_batch.num_rows else next(left, None)
        right_batch = right_batch.slice(rows) if rows < right_batch.num_rows else next(right, None)
    if left_batch is not None or right_batch is not None:
        raise pa.ArrowInvalid("the two files do not have the same rows")


def _file_predicate(read: SliceRead, schema: pa.Schema, stored: pa.Schema) -> Predicate | None:
    """The conjuncts over columns of one file, which its row-group statistics can evaluate.

    `stored` are the columns of `schema` as the file has them.
    """
    names = {own.name for own, other in zip(schema, stored, strict=True) if own.equals(other)}
    return conjunction(
        part for part in split_conjuncts(read.predicate) if all(path[0] in names for path in columns_of(part))
    )


def _complete(batch: pa.RecordBatch, read: SliceRead) -> pa.RecordBatch:
    rows = batch.num_rows
    columns = [
        constant_column(read.partition_values[each.name], each.type, rows)
        if each.name in read.partition_values
        else batch.column(each.name)
        for each in read.schema
    ]
    return batch_of(columns, read.schema, rows)
