"""The ranges of values in a data file, from the footers where these tell them, otherwise from the rows.

Follows `HoodieTableMetadataUtil.convertFilesToColumnStatsRecords` and `ValueType` of Hudi 1.2. A skeleton
gets the ranges of its external file: with its own alone Hudi 1.2 leaves out rows. A column that a file lacks
counts as null in all rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from math import inf, isnan, nan
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudisql.format.metadata_table.column_bounds import (
    FIRST_YEAR_OF_ONE_CALENDAR,
    GREATEST_TEXT,
    may_be_narrow,
)
from hudisql.format.metadata_table.metadata_writing import ColumnRange
from hudisql.format.metadata_table.value_types import TEXT_WRAPPER, value_kind
from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS, CalendarSettings
from hudisql.read.files.parquet_rows import read_footer
from hudisql.read.merge.merge_mode import LogMergeConfig
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.write.handle.log_file import columns_of_blocks

_FIRST_THAT_TELLS_NAN: Final = (1, 10)
"""The version of parquet-mr; older ones and other libraries leave NaN out of the bounds."""
_ALL_DIGITS: Final = Context(prec=76)


@dataclass(frozen=True, slots=True)
class MeasuredFile:
    """One file to measure: a slice of a base file alone, or of one log file alone.

    `name` is the file's name, `fields` are the measured columns, `partition_values` those that the
    partition's path gives.
    """

    name: str
    file_slice: FileSlice
    fields: tuple[pa.Field, ...]
    partition_values: Mapping[str, object] = field(default_factory=dict)
    calendars: CalendarSettings = DEFAULT_CALENDARS
    log_merge_config: LogMergeConfig | None = None


def measure_file(storage: Storage, file: MeasuredFile) -> list[ColumnRange]:
    """The ranges of the file's columns, in the order of `fields`.

    Raises SourceChangedError if the external file is missing or another one, CorruptTableError, StorageError.
    """
    footers = _read_footers(storage, file)
    return _ranges(storage, file, footers)


@dataclass(frozen=True, slots=True)
class MeasureWithOthers:
    """Gives the ranges of a file's columns, and the names of those that it has beside `known`.

    The names are those of columns at the top level, in lower case.
    """

    known: frozenset[str]

    def __call__(self, storage: Storage, file: MeasuredFile) -> tuple[list[ColumnRange], frozenset[str]]:
        """Raises as `measure_file`."""
        footers = _read_footers(storage, file)
        names = {
            footer.schema.column(at).path.split(".")[0].lower()
            for footer in footers
            for at in range(footer.num_columns)
        }
        for log_file in file.file_slice.log_files:
            names |= columns_of_blocks(storage, log_file.path)
        return _ranges(storage, file, footers), frozenset(names - self.known)


def _read_footers(storage: Storage, file: MeasuredFile) -> Sequence[pq.FileMetaData]:
    """The footers of the base file and of the external file; none of a log file."""
    base_file, external = file.file_slice.base_file, file.file_slice.external_file
    if base_file is None:
        return ()
    footer = read_footer(storage, base_file.path, base_file.length)
    return (footer,) if external is None else (footer, read_footer(storage, external.path))


def _ranges(storage: Storage, file: MeasuredFile, footers: Sequence[pq.FileMetaData]) -> list[ColumnRange]:
    column_ranges = _ranges_in_footers(file, footers)
    unknown = [each for each in file.fields if each.name not in column_ranges]
    if unknown:
        column_ranges |= _ranges_of_rows(storage, file, unknown)
    return [column_ranges[each.name] for each in file.fields]


def _ranges_in_footers(file: MeasuredFile, footers: Sequence[pq.FileMetaData]) -> dict[str, ColumnRange]:
    """The ranges that the footers of the base file and the external file tell, by column."""
    if not footers or file.file_slice.columns is not None:
        return {}
    footer, of_data, external = footers[0], footers[-1], file.file_slice.external_file
    column_ranges = {}
    for each in file.fields:
        is_meta = each.name in META_COLUMNS
        if each.name in file.partition_values and not is_meta:
            value = pa.scalar(file.partition_values[each.name], each.type)
            least = pa.array([value.as_py()], each.type)
            nulls = footer.num_rows if value.as_py() is None else 0
            column_ranges[each.name] = new_range(each, least, least, footer.num_rows, nulls)
        else:
            known = _range_in_footer(footer if is_meta else of_data, each)
            if known is not None:
                # Without bytes the range is known not to be one of those that Hudi makes too narrow.
                is_other = external is not None and not is_meta
                if is_other or may_be_narrow(each.type):
                    known = replace(known, stored_bytes=0, raw_bytes=0)
                column_ranges[each.name] = known
    return column_ranges


def _range_in_footer(footer: pq.FileMetaData, column: pa.Field) -> ColumnRange | None:
    """None if the column is not found by its exact name, or the statistics are not enough."""
    names = footer.schema.names
    if names.count(column.name) != 1:
        return None
    at = names.index(column.name)
    if footer.schema.column(at).path != column.name or footer.schema.column(at).physical_type == "INT96":
        return None
    least, greatest, nulls, stored, raw = [], [], 0, 0, 0
    for number in range(footer.num_row_groups):
        chunk = footer.row_group(number).column(at)
        known = chunk.statistics if chunk.is_stats_set else None
        if known is None or not known.has_null_count:
            return None
        if known.has_min_max:
            try:
                least.append(known.min)
                greatest.append(known.max)
            except (OverflowError, UnicodeDecodeError):
                # Years before 1 and after 9999, bytes that are no text.
                return None
        elif known.null_count != footer.row_group(number).num_rows:
            return None
        nulls += known.null_count
        stored += chunk.total_compressed_size
        raw += chunk.total_uncompressed_size
    if footer.schema.column(at).physical_type == "FLOAT":
        # Hudi 1.2 reads a float as the double with the same digits.
        least += [float(str(np.float32(value))) for value in least]
        greatest += [float(str(np.float32(value))) for value in greatest]
    try:
        lower, upper = pa.array(least, column.type), pa.array(greatest, column.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    if _may_be_rebased(lower) or _has_nan(lower) or _has_nan(upper):
        return None
    if pa.types.is_floating(column.type) and greatest and not _tells_nan(footer):
        upper = pa.array([*greatest, nan], column.type)
    column_range = new_range(column, lower, upper, footer.num_rows, nulls)
    return replace(column_range, stored_bytes=stored, raw_bytes=raw)


def _may_be_rebased(least: pa.Array) -> bool:
    if not (pa.types.is_date(least.type) or pa.types.is_timestamp(least.type)):
        return False
    return any(value is not None and value.year < FIRST_YEAR_OF_ONE_CALENDAR for value in least.to_pylist())


def _tells_nan(footer: pq.FileMetaData) -> bool:
    """True if the bounds of columns with NaN are NaN; other writers than these give those of the others."""
    found = re.match(r"parquet-mr version (\d+)\.(\d+)", footer.created_by or "")
    return found is not None and (int(found[1]), int(found[2])) >= _FIRST_THAT_TELLS_NAN


def _has_nan(values: pa.Array) -> bool:
    return pa.types.is_floating(values.type) and bool(pc.any(pc.is_nan(values)).as_py())


def _ranges_of_rows(
    storage: Storage, file: MeasuredFile, columns: Sequence[pa.Field]
) -> dict[str, ColumnRange]:
    """The ranges of these columns from the rows of the file."""
    schema = pa.schema(columns)
    read = SliceRead(
        file.file_slice,
        schema,
        partition_values={k: v for k, v in file.partition_values.items() if k in schema.names},
        calendars=file.calendars,
        log_merge_config=file.log_merge_config,
    )
    bounds: list[list[pa.Scalar]] = [[] for _ in columns]
    tops: list[list[pa.Scalar]] = [[] for _ in columns]
    nulls, rows = [0] * len(columns), 0
    for batch in read_file_slice(storage, read):
        rows += batch.num_rows
        for number, array in enumerate(batch.columns):
            plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
            ends = pc.min_max(plain)
            bounds[number].append(ends["min"])
            tops[number].append(pa.scalar(nan, plain.type) if _has_nan(plain) else ends["max"])
            nulls[number] += plain.null_count
    return {
        column.name: new_range(
            column,
            pa.array(bounds[number], column.type),
            pa.array(tops[number], column.type),
            rows,
            nulls[number],
        )
        for number, column in enumerate(columns)
    }


def new_range(column: pa.Field, least: pa.Array, greatest: pa.Array, rows: int, nulls: int) -> ColumnRange:
    """The range of a column of a measured type, whose bounds are among `least` and `greatest`."""
    kind = value_kind(column.type)
    assert kind is not None  # columns of other types are not measured
    lower, upper = pc.min_max(least)["min"], pc.min_max(greatest)["max"]
    if _has_nan(greatest):
        # Spark takes NaN for greater than all other numbers.
        upper = pa.scalar(nan, column.type)
    return ColumnRange(
        column.name,
        kind.wrapper,
        kind.ordinal,
        _text(lower) if kind.wrapper == TEXT_WRAPPER else _stored(lower),
        _text(upper, above=GREATEST_TEXT) if kind.wrapper == TEXT_WRAPPER else _stored(upper),
        values=rows,
        nulls=nulls,
        type_details=kind.details,
    )


def _stored(value: pa.Scalar) -> Any:
    """The value as Hudi's record of its type has it."""
    if not value.is_valid:
        return None
    kind = value.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return value.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).as_py()
    plain = value.as_py()
    if isinstance(plain, float) and isnan(plain):
        return inf  # Hudi 1.2 leaves out files and partitions by bounds that are NaN
    return _unscaled(plain, kind.scale) if isinstance(plain, Decimal) else plain


def _text(value: pa.Scalar, above: str = "") -> str | None:
    """The text; of bytes that are no text the part before them, and `above`."""
    if not value.is_valid:
        return None
    content = value.cast(pa.binary()).as_py()
    try:
        return str(content, "utf-8")
    except UnicodeDecodeError as error:
        return str(content[: error.start], "utf-8") + above


def _unscaled(value: Decimal, scale: int) -> bytes:
    """The unscaled number as two's complement in as few bytes as it needs, as `BigInteger.toByteArray`."""
    number = int(value.scaleb(scale, _ALL_DIGITS))
    positive = number if number >= 0 else ~number
    return number.to_bytes(positive.bit_length() // 8 + 1, "big", signed=True)
