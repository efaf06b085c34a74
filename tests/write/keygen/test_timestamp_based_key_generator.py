"""Directory names of points in time, as Hudi's timestamp-based key generator makes them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import HudisqlError, UnsupportedTableError, WriteRefusedError
from hudisql.write.keygen.timestamp_based_key_generator import (
    TimestampBasedKeyGenerator,
    format_times,
    zone_id,
)

MOMENT = datetime(2024, 3, 1, 23, 30, 15, 250_000, tzinfo=UTC)
SECONDS = int(MOMENT.timestamp())


def _name(value: Any, kind: pa.DataType, directories: TimestampBasedKeyGenerator) -> str:
    (name,) = directories.names(pa.array([value], kind)).to_pylist()
    return str(name)


@pytest.mark.parametrize(
    ("value", "kind", "unit", "zone", "expected"),
    [
        (SECONDS, pa.int64(), "SECONDS", "UTC", "2024/03/01 23"),
        (SECONDS, pa.int32(), "SECONDS", "GMT+8:00", "2024/03/02 07"),
        (SECONDS, pa.int64(), "SECONDS", "America/New_York", "2024/03/01 18"),
        (SECONDS * 1000, pa.int64(), "MILLISECONDS", "UTC", "2024/03/01 23"),
        (SECONDS * 1000 + 0.5, pa.float64(), "MILLISECONDS", "UTC", "2024/03/01 23"),
        (Decimal(SECONDS), pa.decimal128(20, 2), "SECONDS", "UTC", "2024/03/01 23"),
        (MOMENT, pa.timestamp("us", "UTC"), "MICROSECONDS", "UTC", "2024/03/01 23"),
        (date(2024, 3, 1), pa.date32(), "DAYS", "UTC", "2024/03/01 00"),
        (-1, pa.int64(), "MICROSECONDS", "UTC", "1970/01/01 00"),
        (None, pa.int64(), "DAYS", "UTC", "1970/01/02 00"),
    ],
)
def test_numbers_are_points_in_time_of_a_unit(
    value: Any, kind: pa.DataType, unit: str, zone: str, expected: str
) -> None:
    assert _name(value, kind, TimestampBasedKeyGenerator("yyyy/MM/dd HH", zone_id(zone), unit)) == expected


@pytest.mark.parametrize(
    ("text", "pattern", "input_zone", "output_zone", "expected"),
    [
        ("2024-03-01 23:30:15", "yyyy-MM-dd HH:mm:ss", None, None, "20240301-23"),
        ("2024-03-01 23:30:15", "yyyy-MM-dd HH:mm:ss", "UTC", "Asia/Tokyo", "20240302-08"),
        ("2024-03-01T23:30:15.250+0200", "yyyy-MM-dd'T'HH:mm:ss.SSSZ", None, "UTC", "20240301-21"),
        ("2024-03-01T23:30:15.250+0200", "yyyy-MM-dd'T'HH:mm:ss.SSSZ", None, None, "20240301-23"),
        ("2024-3-1", "yyyy-MM-dd", "UTC", "UTC", "20240301-00"),
        (None, "yyyy-MM-dd", "UTC", "UTC", "19700101-00"),
    ],
)
def test_texts_are_read_by_a_pattern(
    text: str | None, pattern: str, input_zone: str | None, output_zone: str | None, expected: str
) -> None:
    directories = TimestampBasedKeyGenerator(
        "yyyyMMdd-HH", output_zone, input_formats=(pattern,), input_zone=input_zone
    )
    assert _name(text, pa.string(), directories) == expected


def test_each_text_is_read_by_the_first_pattern_that_fits() -> None:
    directories = TimestampBasedKeyGenerator("yyyyMMdd", "UTC", None, ("yyyy-MM-dd", "dd/MM/yyyy"), "UTC")
    values = pa.array(["2024-03-01", "02/03/2024", None, "2024-03-01"])
    assert directories.names(values).to_pylist() == ["20240301", "20240302", "19700101", "20240301"]


def test_patterns_are_written_with_their_widths() -> None:
    local = pa.array([datetime(2024, 3, 1, 4, 5, 6, 7000)], pa.timestamp("ms"))
    assert format_times(local, "yy.M.d H'h'm''s S SSS SSSS D").to_pylist() == ["24.3.1 4h5'6 0 007 0070 61"]


@pytest.mark.parametrize(
    ("value", "kind", "directories", "error", "said"),
    [
        (
            "x",
            pa.string(),
            TimestampBasedKeyGenerator("yyyy", None, None, ("yyyy",)),
            WriteRefusedError,
            "'x' cannot",
        ),
        (
            "x",
            pa.string(),
            TimestampBasedKeyGenerator("yyyy", None, "DAYS"),
            UnsupportedTableError,
            "no pattern",
        ),
        (
            1,
            pa.int64(),
            TimestampBasedKeyGenerator("yyyy", None, None, ("yyyy",)),
            UnsupportedTableError,
            "not text",
        ),
        (1, pa.int64(), TimestampBasedKeyGenerator("MMM", "UTC", "DAYS"), UnsupportedTableError, "has 'MMM'"),
        (
            "1",
            pa.string(),
            TimestampBasedKeyGenerator("yyyy", None, None, ("E",)),
            UnsupportedTableError,
            "has 'E'",
        ),
        (
            True,
            pa.bool_(),
            TimestampBasedKeyGenerator("yyyy", "UTC", "DAYS"),
            UnsupportedTableError,
            "of type bool",
        ),
    ],
)
def test_what_is_not_known_is_refused(
    value: Any,
    kind: pa.DataType,
    directories: TimestampBasedKeyGenerator,
    error: type[HudisqlError],
    said: str,
) -> None:
    with pytest.raises(error, match=said):
        _name(value, kind, directories)


def test_an_unknown_time_zone_is_refused() -> None:
    with pytest.raises(UnsupportedTableError, match="'Mars/Olympus'"):
        zone_id("Mars/Olympus")
