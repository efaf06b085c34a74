"""The records of the indexes `column_stats` and `partition_stats` as values.

Follows `HoodieMetadataColumnStats` of Hudi 0.15, where the wrapper of a value tells its type, and
`ValueMetadata` of Hudi 1.2, where an ordinal does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from hudisql.errors import CorruptTableError
from hudisql.format.metadata_table.metadata_records import MetadataRecords
from hudisql.format.metadata_table.value_types import DECIMAL_ORDINAL, decimal_of

_DATE_WRAPPERS: Final = frozenset({"8", "12"})
_TIME_WRAPPER: Final = "10"
_TIMESTAMP_WRAPPER: Final = "11"
_DATE: Final = 12
_TIMES: Final[Mapping[int, int]] = {13: 1_000, 14: 1}
# The factor to microseconds, as a divisor for nanoseconds, of timestamps with and without a time zone.
_INSTANTS: Final[Mapping[int, float]] = {15: 1_000, 16: 1, 17: 1 / 1_000}
_LOCAL_INSTANTS: Final[Mapping[int, float]] = {18: 1_000, 19: 1, 20: 1 / 1_000}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of one column of a file, or of a partition whose path `file_name` then is.

    `least` and `greatest` are Python values of the column's type: dates, decimals, timestamps (UTC, without
    a time zone for local ones), times as a `timedelta` since midnight; None if all values are null.
    """

    file_name: str
    column_name: str
    least: Any
    greatest: Any
    values: int
    nulls: int


def column_statistics(records: MetadataRecords) -> Iterator[ColumnStatistics]:
    """The statistics of records of the two indexes in their order, without those marked as deleted."""
    for value in records.values.to_pylist():
        if value["isDeleted"]:
            continue
        kind = value.get("valueType") or {}
        yield ColumnStatistics(
            value["fileName"],
            value["columnName"],
            _unwrapped(value["minValue"], kind),
            _unwrapped(value["maxValue"], kind),
            value["valueCount"],
            value["nullCount"],
        )


def _unwrapped(wrappers: Mapping[str, Any] | None, kind: Mapping[str, Any]) -> Any:
    """The value of the one wrapper that is not null; wrappers go by their place in Hudi's union."""
    filled = [(name, each) for name, each in (wrappers or {}).items() if each is not None]
    if not filled:
        return None
    ((name, wrapper),) = filled
    value = wrapper["value"]
    ordinal = kind.get("typeOrdinal")
    try:
        return _by_wrapper(name, value) if ordinal is None else _by_ordinal(ordinal, value, kind)
    except OverflowError:
        # A day or moment after the year 9999.
        return value


def _by_wrapper(name: str, value: Any) -> Any:
    if name in _DATE_WRAPPERS and isinstance(value, int):
        return _date(value)
    if name == _TIMESTAMP_WRAPPER and isinstance(value, int):
        return _EPOCH + timedelta(microseconds=value)
    if name == _TIME_WRAPPER and isinstance(value, int):
        return timedelta(microseconds=value)
    return value


def _by_ordinal(ordinal: int, value: Any, kind: Mapping[str, Any]) -> Any:
    if ordinal == DECIMAL_ORDINAL:
        return _decimal(int.from_bytes(value, "big", signed=True), kind.get("additionalInfo"))
    if ordinal == _DATE:
        return _date(value)
    if ordinal in _TIMES:
        return timedelta(microseconds=value * _TIMES[ordinal])
    if ordinal in _INSTANTS:
        return _EPOCH + timedelta(microseconds=int(value * _INSTANTS[ordinal]))
    if ordinal in _LOCAL_INSTANTS:
        return _EPOCH.replace(tzinfo=None) + timedelta(microseconds=int(value * _LOCAL_INSTANTS[ordinal]))
    return value


def _decimal(unscaled: int, precision_and_scale: str | None) -> Decimal:
    """The value; `precision_and_scale` is a text as in `20,2`."""
    scale = (precision_and_scale or "").rpartition(",")[2]
    if not scale.isdigit():
        raise CorruptTableError(f"statistics of a decimal column have the type '{precision_and_scale}'")
    return decimal_of(unscaled, int(scale))


def _date(days: int) -> date:
    return date(1970, 1, 1) + timedelta(days=days)
