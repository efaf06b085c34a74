"""Rebase dates and timestamps from the Julian-Gregorian hybrid calendar to the proleptic Gregorian one.

Spark 2, Spark 3 and later in LEGACY mode and Hive 2 count days before 15 October 1582 by the Julian calendar.
Follows Spark's `DataSourceUtils.getRebaseSpec` (which files) and `RebaseDateTime` (which values), so that the
slice reader gives what Spark's parquet scan gives. Whole columns; knows no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import UnsupportedTableError
from hudisql.format.encoding.java_time_zone import machine_time_zone
from hudisql.format.schema.calendar import LEGACY_DATETIME_KEY, LEGACY_INT96_KEY, SPARK_VERSION_KEY
from hudisql.read.calendar.legacy_time_zones import legacy_zone

TIME_ZONE_KEY: Final = b"org.apache.spark.timeZone"
# The first days and moments that both calendars, and every time zone's rules in both, agree on.
FIRST_COMMON_DAY: Final = -141_427  # 1582-10-15
FIRST_COMMON_MICRO: Final = -2_208_988_800_000_000  # 1900-01-01
_DAY_MICROS: Final = 86_400_000_000
_JULIAN_EPOCH_SHIFT: Final = 719_470  # days from 0000-03-01 (Julian) to 1970-01-01


class Calendar(StrEnum):
    """The calendar of files whose writer does not name it, in the terms of Spark's settings."""

    CORRECTED = "CORRECTED"
    """The proleptic Gregorian calendar: values stay as they are."""
    LEGACY = "LEGACY"
    """The hybrid calendar: values are rebased."""
    EXCEPTION = "EXCEPTION"
    """Values that differ between the calendars are an error."""


@dataclass(frozen=True, slots=True)
class CalendarSettings:
    """The calendar and the time zone of files that do not name theirs."""

    of_dates: Calendar = Calendar.CORRECTED
    of_int96: Calendar = Calendar.CORRECTED
    time_zone: str = field(default_factory=machine_time_zone)


DEFAULT_CALENDARS: Final = CalendarSettings()

Rebase: TypeAlias = "Callable[[pa.Array], pa.Array] | Mapping[str, Rebase]"


def rebases_of(
    parquet_schema: Any,
    schema: pa.Schema,
    key_values: Mapping[bytes, bytes] | None,
    settings: CalendarSettings = DEFAULT_CALENDARS,
) -> Mapping[str, Rebase]:
    """The rebase of each column of a file: a function for a leaf, a mapping for a nested column.

    `schema` is the Arrow form of `parquet_schema`; lists have an `element`, maps a `key` and a `value`. Empty
    for files of the proleptic calendar.
    """
    found = key_values or {}
    zone = found.get(TIME_ZONE_KEY, b"").decode() or settings.time_zone
    of_dates = _calendar(found, LEGACY_DATETIME_KEY, "3.0.0", settings.of_dates)
    of_int96 = _calendar(found, LEGACY_INT96_KEY, "3.1.0", settings.of_int96)
    if of_dates is Calendar.CORRECTED and of_int96 is Calendar.CORRECTED:
        return {}
    leaves = iter(range(len(parquet_schema)))

    def of_leaf(data_type: pa.DataType) -> Rebase | None:
        leaf = parquet_schema.column(next(leaves))
        if leaf.physical_type == "INT96":
            return _rebase_moments(of_int96, zone)
        if pa.types.is_date32(data_type):
            return _rebase_dates(of_dates)
        # Spark leaves timestamps without time zone as they are.
        is_moment = pa.types.is_timestamp(data_type) and data_type.tz is not None
        return _rebase_moments(of_dates, zone) if is_moment else None

    return _of_fields(schema, of_leaf)


def calendar_of_dates(key_values: Mapping[bytes, bytes] | None) -> Calendar | None:
    """The calendar of dates and timestamps (not INT96) in a footer's key-values, if they name one."""
    unknown = Calendar.EXCEPTION
    calendar = _calendar(key_values or {}, LEGACY_DATETIME_KEY, "3.0.0", unknown)
    return None if calendar is unknown else calendar


def statistics_valid_after_rebase(minimum: object) -> bool:
    """True if a rebase does not change a column's smallest stored value, nor therefore its greatest."""
    if isinstance(minimum, datetime):
        return minimum.replace(tzinfo=None) >= datetime(1900, 1, 1)
    return isinstance(minimum, date) and minimum >= date(1582, 10, 15)


def _calendar(
    key_values: Mapping[bytes, bytes], legacy_key: bytes, first_proleptic: str, otherwise: Calendar
) -> Calendar:
    version = key_values.get(SPARK_VERSION_KEY)
    if version is None:
        return otherwise
    # As text, as Spark does it.
    is_legacy = version.decode() < first_proleptic or legacy_key in key_values
    return Calendar.LEGACY if is_legacy else Calendar.CORRECTED


def _of_fields(
    fields: Iterable[pa.Field],
    of_leaf: Callable[[pa.DataType], Rebase | None],
) -> dict[str, Rebase]:
    found = [(each.name, _of_type(each.type, of_leaf)) for each in fields]
    return {name: rebase for name, rebase in found if rebase}


def _of_type(data_type: pa.DataType, of_leaf: Callable[[pa.DataType], Rebase | None]) -> Rebase | None:
    if isinstance(data_type, pa.BaseExtensionType):
        return _of_type(data_type.storage_type, of_leaf)
    if pa.types.is_struct(data_type):
        return _of_fields(data_type, of_leaf)
    if pa.types.is_map(data_type):
        fields = [pa.field("key", data_type.key_type), pa.field("value", data_type.item_type)]
        return _of_fields(fields, of_leaf)
    if pa.types.is_nested(data_type):
        return _of_fields([pa.field("element", data_type.value_type)], of_leaf)
    return of_leaf(data_type)


def _rebase_dates(calendar: Calendar) -> Rebase | None:
    if calendar is Calendar.CORRECTED:
        return None

    def rebase(array: pa.Array) -> pa.Array:
        if not _reaches_below(array.cast(pa.int32()), FIRST_COMMON_DAY):
            return array
        _refuse_unknown(calendar, "dates before 1582-10-15")
        days = _values(array, np.dtype(np.int32)).astype(np.int64)
        return _with_values(array, (days + julian_day_shifts(days)).astype(np.int32))

    return rebase


def _rebase_moments(calendar: Calendar, zone: str) -> Rebase | None:
    if calendar is Calendar.CORRECTED:
        return None

    def rebase(array: pa.Array) -> pa.Array:
        micros = pc.cast(
            array, options=pc.CastOptions(pa.timestamp("us", array.type.tz), allow_time_truncate=True)
        )
        if not _reaches_below(micros.cast(pa.int64()), FIRST_COMMON_MICRO):
            return micros
        _refuse_unknown(calendar, "timestamps before 1900")
        return _with_values(micros, rebase_micros(_values(micros, np.dtype(np.int64)), zone))

    return rebase


def rebase_micros(micros: npt.NDArray[np.int64], zone_name: str) -> npt.NDArray[np.int64]:
    """Microseconds since 1970 of the moments with the same local date and time in the proleptic calendar.

    Raises UnsupportedTableError for a zone that Spark does not know.
    """
    zone = legacy_zone(zone_name)
    rebased = micros.copy()
    earliest = int(zone.switches[0]) if zone.switches.size else FIRST_COMMON_DAY * _DAY_MICROS
    by_days = micros < earliest + (0 if zone.switches.size else _DAY_MICROS)
    if zone.switches.size:
        position = np.searchsorted(zone.switches, micros, side="right") - 1
        rebased += np.where(by_days, 0, zone.shifts[np.maximum(position, 0)])
    local_days = (micros[by_days] + zone.offset_micros) // _DAY_MICROS
    rebased[by_days] += julian_day_shifts(local_days) * _DAY_MICROS + zone.extra_micros
    return rebased


def julian_day_shifts(days: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The days to add to days of the hybrid calendar, so that the proleptic calendar shows the same date.

    29 February becomes 1 March if the proleptic year has no leap day, as in Spark.
    """
    # Years begin in March, so that a leap day is the last of its year.
    since = days + _JULIAN_EPOCH_SHIFT
    year = (4 * since + 3) // 1461
    day_of_year = since - (1461 * year) // 4
    centuries = year // 100
    proleptic = 365 * year + year // 4 - centuries + centuries // 4 + day_of_year - 719_468
    return np.where(days < FIRST_COMMON_DAY, proleptic - days, 0)


def _reaches_below(numbers: pa.Array, first_common: int) -> bool:
    smallest = pc.min(numbers).as_py()
    return smallest is not None and smallest < first_common


def _refuse_unknown(calendar: Calendar, what: str) -> None:
    if calendar is Calendar.EXCEPTION:
        raise UnsupportedTableError(
            f"the files hold {what}, and their writer does not name the calendar",
            hint="set spark.sql.parquet.datetimeRebaseModeInRead and int96RebaseModeInRead to LEGACY (Spark 2"
            " and Hive 2 wrote them) or to CORRECTED",
        )


def _values(array: pa.Array, width: np.dtype[Any]) -> npt.NDArray[Any]:
    """The values from the buffer's start, including nulls and the values before the array's offset."""
    return np.frombuffer(array.buffers()[1], dtype=width, count=array.offset + len(array))


def _with_values(array: pa.Array, values: npt.NDArray[Any]) -> pa.Array:
    buffers = [array.buffers()[0], pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(array.type, len(array), buffers, array.null_count, array.offset)
