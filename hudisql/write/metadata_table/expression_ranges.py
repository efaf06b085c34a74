"""The records of expression indexes: the ranges of an expression in files and in their partitions.

Follows `SparkMetadataWriterUtils.getExpressionIndexRecordsUsingColumnStats` of Hudi 1.2: the values that are
counted are those that are not null, the bytes are those of the file, and a file without rows has no record.
Readers merge the ranges of a partition with the older ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from hudisql.format.metadata_table.expression_values import is_of_texts, range_of_bounds, range_of_texts
from hudisql.format.metadata_table.merged_ranges import mergeable_range, merged_ranges
from hudisql.format.metadata_table.metadata_keys import file_key_part, key_parts, partition_key_part
from hudisql.format.metadata_table.metadata_writing import ColumnRange, encode_range
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.spark.task_runner import SILENT
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.expression_indexes import ExpressionIndex
from hudisql.write.metadata_table.column_ranges import (
    MeasuredFile,
    measure_file,
    new_range,
)
from hudisql.write.metadata_table.measured_files import FilesToMeasure, measure_by

_OF_PARTITION: Final = "__partition_stat__"
_RAW_BYTES_PER_BYTE: Final = 2


def expression_records(
    table: HudiTable,
    index: ExpressionIndex,
    column: pa.Field,
    files: FilesToMeasure,
    spark: Callable[[], Any] | None = None,
    console: Any = SILENT,
) -> dict[str, bytes]:
    """The records of an index for files by partition path, whose source column is `column`.

    Reads footers for columns of dates, moments and numbers, and the rows for texts, as `measure` does. Raises
    SourceChangedError, CorruptTableError, StorageError.
    """
    of_column = {path: [replace(file, fields=(column,)) for file in found] for path, found in files.items()}
    measured = measure_by(_MeasureExpression(index), table, of_column, spark, console)
    records: dict[str, bytes] = {}
    parts = key_parts([index.column, _OF_PARTITION])
    for path, found in measured.items():
        ranges = {name: ranges[0] for name, ranges in found if ranges[0].values or ranges[0].nulls}
        for key, (name, of_file) in zip(expression_keys(index, path, ranges), ranges.items(), strict=True):
            records[key] = encode_range(of_file, name, in_first_form=index.in_first_form)
        if ranges:
            merged = mergeable_range(merged_ranges([*ranges.values()]))
            key = f"{parts[index.column]}{parts[_OF_PARTITION]}{partition_key_part(path)}"
            records[key] = encode_range(merged, path, of_partition=True, in_first_form=index.in_first_form)
    return records


def expression_keys(index: ExpressionIndex, path: str, names: Iterable[str]) -> list[str]:
    """The keys of the records of files of the partition with this path."""
    beginning = f"{key_parts([index.column])[index.column]}{partition_key_part(path)}"
    return [f"{beginning}{file_key_part(name)}" for name in names]


@dataclass(frozen=True, slots=True)
class _MeasureExpression:
    """Gives the range of the index's expression in a file."""

    index: ExpressionIndex

    def __call__(self, storage: Storage, file: MeasuredFile) -> list[ColumnRange]:
        return [_measure(storage, self.index, file)]


def _measure(storage: Storage, index: ExpressionIndex, file: MeasuredFile) -> ColumnRange:
    (column,) = file.fields
    kind = index.type_of(pa.schema([column]))
    assert kind is not None  # of an index that is kept
    (known,) = [_of_rows(storage, index, file)] if is_of_texts(column.type) else measure_file(storage, file)
    if not is_of_texts(column.type) and known.least is not None:
        bounds = range_of_bounds(index.function, index.options, column.type, known.least, known.greatest)
        known = replace(known, least=bounds[0], greatest=bounds[1])
    file_slice = file.file_slice
    length = sum(
        stored.length for stored in (file_slice.base_file, *file_slice.log_files) if stored is not None
    )
    empty = pa.nulls(0, kind)
    return replace(
        new_range(pa.field(column.name, kind), empty, empty, known.values - known.nulls, known.nulls),
        least=known.least,
        greatest=known.greatest,
        stored_bytes=length,
        raw_bytes=length * _RAW_BYTES_PER_BYTE,
    )


def _of_rows(storage: Storage, index: ExpressionIndex, file: MeasuredFile) -> ColumnRange:
    """The range of the rows' expressions; its values are all rows."""
    schema = pa.schema(file.fields)
    read = SliceRead(
        file.file_slice, schema, calendars=file.calendars, log_merge_config=file.log_merge_config
    )
    rows, nulls, ranges = 0, 0, []
    for batch in read_file_slice(storage, read):
        texts = batch.column(0)
        if pa.types.is_dictionary(texts.type):
            texts = texts.dictionary_decode()
        rows, nulls = rows + len(texts), nulls + texts.null_count
        found = range_of_texts(index.function, index.options, texts)
        ranges += [] if found is None else [found]
    empty = pa.nulls(0, file.fields[0].type)
    return replace(
        new_range(file.fields[0], empty, empty, rows, nulls),
        least=min((found[0] for found in ranges), default=None),
        greatest=max((found[1] for found in ranges), default=None),
    )
