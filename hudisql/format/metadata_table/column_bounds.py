"""The bounds of a column in files or partitions, as filters are compared with them.

Follows `ColumnStatsIndexSupport` and `HoodieTableMetadataUtil.mergeColumnStatsRecords` of Hudi 1.2. Bounds
may be wider than the values, never narrower; what a record does not tell for certain is unknown.

Apache Hudi 0.15 and 1.2 make some ranges too narrow (docs/facts.md): those of footers, which have the bytes
of the column, where a row group has NaN or texts that are too long for bounds, and those of the bytes in log
files, whose order is that of signed bytes. Records of hudisql have no bytes of such columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import inf, isnan
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.metadata_table.metadata_records import MetadataRecords
from hudisql.format.metadata_table.value_types import (
    DATE_WRAPPER,
    DECIMAL_ORDINAL,
    DECIMAL_WRAPPER,
    TEXT_WRAPPER,
    ValueKind,
    decimal_of,
    value_kind,
    wrapper_in_first_form,
)
from hudisql.format.paths.file_names import is_log_file

_ORDERED_OTHERWISE: Final = re.compile("[\ue000-\U0010ffff].*", re.DOTALL)
"""The end of a text from the first character on that UTF-8 and UTF-16 order differently."""
_ABOVE_SURROGATES: Final = re.compile("[\ue000-\uffff]")
_BEFORE_SURROGATES: Final = "\ud7ff"
GREATEST_TEXT: Final = "\U0010ffff"
_FIELD_OF_WRAPPER: Final = {
    "BooleanWrapper": "1",
    "IntWrapper": "2",
    "LongWrapper": "3",
    "FloatWrapper": "4",
    "DoubleWrapper": "5",
    "BytesWrapper": "6",
    TEXT_WRAPPER: "7",
    DATE_WRAPPER: "8",
    DECIMAL_WRAPPER: "9",
}
"""The place of a wrapper in Hudi's union, which is its name in decoded records."""
FIRST_YEAR_OF_ONE_CALENDAR: Final = 1900
"""Dates and timestamps from this year on are the same in all calendars."""


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """Of the rows of a file or partition, the nulls (None if unknown) and bounds of the other values.

    A bound is a Python value of the column's type; None if it is unknown, or if all rows are null.
    """

    rows: int
    nulls: int | None
    least: Any = None
    greatest: Any = None

    @property
    def is_empty(self) -> bool:
        """True if no row has a value."""
        return self.nulls is not None and self.nulls == self.rows


UNKNOWN_BOUNDS: Final = ColumnBounds(1, None)


def bounds_by_key(
    layers: Sequence[MetadataRecords], column: pa.Field, *, in_first_form: bool = False
) -> dict[str, ColumnBounds]:
    """The bounds that the records of a file group tell about one column, by key.

    `layers` are its records, the oldest first. A record that is tight replaces the older ones of its key, any
    other one widens them. With `in_first_form` they are of version V1, where the wrapper of a value tells
    its type; of a column of long integers or timestamps the caller knows that it never changed.
    """
    find_bounds = _first_bounds if in_first_form else _bounds
    bounds: dict[str, ColumnBounds] = {}
    for layer in layers:
        keys = layer.keys.to_pylist()
        if pa.types.is_null(layer.values.type):
            for key in keys:
                bounds.pop(key, None)
            continue
        is_gone = pc.fill_null(pc.or_(layer.values.is_null(), layer.values.field("isDeleted")), True)
        of_records = find_bounds(layer.values, column)
        for key, gone, is_tight, found in zip(
            keys, is_gone.to_pylist(), _tightness(layer.values), of_records, strict=True
        ):
            older = None if is_tight else bounds.get(key)
            if gone:
                bounds.pop(key, None)
            else:
                bounds[key] = found if older is None else merged_bounds((older, found))
    return bounds


def text_bound(text: str | None, *, is_greatest: bool) -> str | None:
    """The nearest bound that is not narrower and has the same order in UTF-8 and UTF-16."""
    if text is None:
        return None
    return _ORDERED_OTHERWISE.sub(_end_above if is_greatest else "", text, count=1)


def _read_text_bound(text: str | None, *, is_greatest: bool) -> str | None:
    """`text_bound` of a bound of Hudi, by either order; None if all texts may be below it."""
    found = text_bound(text, is_greatest=is_greatest)
    if found is None or not is_greatest or text is None or not _ABOVE_SURROGATES.search(text):
        return found
    # In UTF-16 texts of other planes, after the same beginning, are below the bound.
    beginning = _ORDERED_OTHERWISE.sub("", text, count=1).rstrip(_BEFORE_SURROGATES)
    return f"{beginning[:-1]}{chr(ord(beginning[-1]) + 1)}" if beginning else None


def _end_above(end: re.Match[str]) -> str:
    """The shortest text of `GREATEST_TEXT` alone that is not less than the end."""
    run = len(end[0]) - len(end[0].lstrip(GREATEST_TEXT))
    return GREATEST_TEXT * (run + (run < len(end[0])))


def merged_bounds(several: Iterable[ColumnBounds]) -> ColumnBounds:
    """The bounds of one column over several files (at least one)."""
    parts = list(several)
    nulls = [part.nulls for part in parts if part.nulls is not None]
    least = [part.least for part in parts if not part.is_empty]
    greatest = [part.greatest for part in parts if not part.is_empty]
    whole = ColumnBounds(sum(part.rows for part in parts), sum(nulls) if len(nulls) == len(parts) else None)
    if None in least or None in greatest:
        return whole
    try:
        return replace(whole, least=min(least, default=None), greatest=max(greatest, default=None))
    except TypeError:
        return whole


def _tightness(values: pa.StructArray) -> list[bool]:
    if values.type.get_field_index("isTightBound") < 0:
        return [False] * len(values)
    return [bool(each) for each in values.field("isTightBound").to_pylist()]


def _bounds(values: pa.StructArray, column: pa.Field) -> list[ColumnBounds]:
    kind = value_kind(column.type)
    if kind is None or values.type.get_field_index("valueType") < 0:
        return [UNKNOWN_BOUNDS] * len(values)
    is_of_kind = _has_kind(values.field("valueType"), kind)
    bounds = [
        _bounds_of(*record)
        for record in zip(
            is_of_kind,
            values.field("valueCount").to_pylist(),
            values.field("nullCount").to_pylist(),
            _values(values.field("minValue"), kind, column.type, is_greatest=False),
            _values(values.field("maxValue"), kind, column.type, is_greatest=True),
            strict=True,
        )
    ]
    return _trusted(bounds, values, column.type)


def _first_bounds(values: pa.StructArray, column: pa.Field) -> list[ColumnBounds]:
    """The bounds in records of version V1."""
    kind = value_kind(column.type)
    if kind is None:
        return [UNKNOWN_BOUNDS] * len(values)
    kind = replace(kind, wrapper=wrapper_in_first_form(kind.ordinal, kind.wrapper))
    least, greatest = (
        _values(values.field(name), kind, column.type, is_greatest=name == "maxValue")
        for name in ("minValue", "maxValue")
    )
    bounds = [
        _bounds_of(low is not None and high is not None, rows, nulls, low, high)
        for rows, nulls, low, high in zip(
            values.field("valueCount").to_pylist(),
            values.field("nullCount").to_pylist(),
            least,
            greatest,
            strict=True,
        )
    ]
    return _trusted(bounds, values, column.type)


def _trusted(bounds: Sequence[ColumnBounds], values: pa.StructArray, kind: pa.DataType) -> list[ColumnBounds]:
    """The bounds, unknown where Apache Hudi may have made the range of a file too narrow."""
    if not may_be_narrow(kind):
        return list(bounds)
    sizes, names = values.field("totalSize").to_pylist(), values.field("fileName").to_pylist()
    return [
        known
        if _is_trusted(known, kind, is_of_footer=bool(size), name=name or "")
        else replace(UNKNOWN_BOUNDS, rows=known.rows)
        for known, size, name in zip(bounds, sizes, names, strict=True)
    ]


def may_be_narrow(kind: pa.DataType) -> bool:
    """True for types of columns of which footers may lack bounds: floating numbers, texts and bytes."""
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(is_text or pa.types.is_binary(kind) or pa.types.is_floating(kind))


def _is_trusted(bounds: ColumnBounds, kind: pa.DataType, *, is_of_footer: bool, name: str) -> bool:
    """False for a range of a type of `may_be_narrow` that Apache Hudi may have made too narrow.

    A row group with NaN counts as one with the bounds 0.0 and 0.0, and all rows of one whose texts or bytes
    are too long as nulls.
    """
    if pa.types.is_floating(kind):
        return not is_of_footer or bounds.least is None or not bounds.least <= 0.0 <= bounds.greatest
    if pa.types.is_binary(kind) and is_log_file(name):
        return False
    return not is_of_footer or bounds.nulls == 0


def _bounds_of(
    is_of_kind: bool, rows: int | None, nulls: int | None, least: Any, greatest: Any
) -> ColumnBounds:
    if rows is None or nulls is None or not 0 <= nulls <= rows:
        return UNKNOWN_BOUNDS
    if is_of_kind:
        is_bounded = least is not None and greatest is not None
        return ColumnBounds(rows, nulls, *((least, greatest) if is_bounded else (None, None)))
    # Hudi gives a column of nulls, and all columns of a log file of deletes, the type NULL.
    is_all_null = rows == nulls and least is None and greatest is None
    return ColumnBounds(rows, nulls) if is_all_null else UNKNOWN_BOUNDS


def _has_kind(stored: pa.StructArray, kind: ValueKind) -> list[bool]:
    is_kind = pc.equal(stored.field("typeOrdinal"), kind.ordinal)
    if kind.details is not None:
        is_kind = pc.and_(is_kind, pc.equal(stored.field("additionalInfo"), kind.details))
    return [bool(each) for each in is_kind.to_pylist()]


def _values(
    wrappers: pa.StructArray, kind: ValueKind, column_type: pa.DataType, *, is_greatest: bool
) -> list[Any]:
    """The bounds as Python values of the column's type; None where it cannot be compared."""
    stored = pc.struct_field(wrappers, [_FIELD_OF_WRAPPER[kind.wrapper], "value"])
    if kind.ordinal == DECIMAL_ORDINAL:
        if kind.wrapper == DECIMAL_WRAPPER:
            return list(stored.to_pylist())
        return [_decimal(each, column_type.scale) for each in stored.to_pylist()]
    if kind.wrapper == TEXT_WRAPPER:
        # Hudi 1.2 orders the texts of log files by UTF-16.
        return [_read_text_bound(text, is_greatest=is_greatest) for text in stored.to_pylist()]
    if pa.types.is_date32(column_type) or pa.types.is_timestamp(column_type):
        return [_moment(each) for each in stored.cast(column_type)]
    if pa.types.is_floating(column_type):
        # In log files of Hudi NaN is a bound, by which Python does not order.
        return [inf if each is not None and isnan(each) else each for each in stored.to_pylist()]
    return list(stored.to_pylist())


def _decimal(stored: bytes | None, scale: int) -> Decimal | None:
    if stored is None:
        return None
    return decimal_of(int.from_bytes(stored, "big", signed=True), scale)


def _moment(stored: pa.Scalar) -> Any:
    """None also for years that calendars count differently, and for those that Python does not know."""
    try:
        moment = stored.as_py()
    except (OverflowError, ValueError):
        return None
    return moment if moment is None or moment.year >= FIRST_YEAR_OF_ONE_CALENDAR else None
