"""Ranges of the expressions of expression indexes hold the values that Spark has in any time zone."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.metadata_table.column_bounds import GREATEST_TEXT
from hudisql.format.metadata_table.expression_values import (
    ANY_TEXT,
    expression_type,
    range_of_bounds,
    range_of_texts,
)

MOMENT = pa.timestamp("us", tz="UTC")
ZONES = (timezone(timedelta(hours=-12)), UTC, timezone(timedelta(hours=14)))


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("function", "options", "value_of"),
    [
        ("year", {}, lambda moment: moment.year),
        ("month", {}, lambda moment: moment.month),
        ("day", {}, lambda moment: moment.day),
        ("hour", {}, lambda moment: moment.hour),
        ("to_date", {}, lambda moment: (moment.date() - date(1970, 1, 1)).days),
        ("date_format", {"format": "yyyy-MM-dd"}, lambda moment: moment.strftime("%Y-%m-%d")),
        ("date_format", {"format": "yyyyMM"}, lambda moment: moment.strftime("%Y%m")),
    ],
)
@pytest.mark.parametrize(("days", "start"), [(0, 11), (3, 14), (40, 20), (700, 1)])
def test_moments_are_in_the_range_in_every_time_zone(
    function: str, options: dict[str, str], value_of: Any, days: int, start: int
) -> None:
    first = datetime(2023, 12, start, 20, 30, 1, 5, UTC)
    moments = [first + timedelta(hours=hours) for hours in range(24 * days + 1)]
    least, greatest = range_of_bounds(function, options, MOMENT, _micros(moments[0]), _micros(moments[-1]))
    for moment in moments:
        assert all(least <= value_of(moment.astimezone(zone)) <= greatest for zone in ZONES)


@pytest.mark.parametrize(
    ("function", "options", "kind", "bounds", "expected"),
    [
        ("year", {}, pa.date32(), (19675, 19675), (2023, 2023)),
        ("month", {}, pa.date32(), (19675, 19680), (11, 11)),
        ("month", {}, pa.date32(), (19675, 19725), (1, 12)),
        ("day", {}, pa.date32(), (19675, 19680), (14, 19)),
        ("day", {}, pa.date32(), (19675, 19700), (1, 31)),
        ("to_date", {}, pa.date32(), (-1, 3), (-1, 3)),
        # 2018-11-04 began at 01:00 in Sao Paulo.
        (
            "date_format",
            {"format": "yyyy-MM-dd HH"},
            pa.date32(),
            (17839, 17839),
            ("2018-11-04 00", "2018-11-05 00"),
        ),
        ("date_add", {"days": "10"}, pa.date32(), (5, 9), (15, 19)),
        ("date_sub", {"days": "-10"}, pa.date32(), (5, 9), (15, 19)),
        ("date_add", {"days": "10"}, pa.date32(), (5, 2**31 - 1), (-(2**31), 2**31 - 1)),
        ("date_format", {"format": "yyyy"}, pa.date32(), (19675, 19675), ("2023", "2023")),
        ("date_format", {"format": "yyyy"}, pa.date32(), (-719162, 19675), ANY_TEXT),
        (
            "from_unixtime",
            {},
            pa.int64(),
            (1_700_000_000,) * 2,
            ("2023-11-14 04:13:20", "2023-11-15 16:13:20"),
        ),
        ("from_unixtime", {}, pa.int64(), (0, 1_700_000_000_000), ANY_TEXT),
        ("year", {}, pa.timestamp("ms"), (0, 0), (1969, 1970)),
    ],
)
def test_ranges_follow_from_those_of_the_column(
    function: str, options: dict[str, str], kind: pa.DataType, bounds: tuple[int, int], expected: Any
) -> None:
    assert range_of_bounds(function, options, kind, *bounds) == expected


@pytest.mark.parametrize(
    ("function", "options", "texts", "expected"),
    [
        ("upper", {}, ["b", "Az", None], ("AZ", "B")),
        ("lower", {}, ["B", "aZ"], ("az", "b")),
        ("upper", {}, ["Straße", "Stral"], ("STRA", f"STRA{GREATEST_TEXT}")),
        ("lower", {}, ["ÄB\nC"], ("", GREATEST_TEXT)),
        ("trim", {}, ["  b ", "\tc"], ("\tc", "b")),
        ("ltrim", {}, ["  b "], ("b ", "b ")),
        ("rtrim", {}, ["  b "], ("  b", "  b")),
        ("length", {}, ["ä😀", ""], (0, 2)),
        ("substring", {"pos": "2", "len": "2"}, ["ä😀bc", "x"], ("", "😀b")),
        ("upper", {}, [None], None),
        ("upper", {}, [b"\xff"], ("", GREATEST_TEXT)),
        ("trim", {}, [b"\xff"], ANY_TEXT),
    ],
)
def test_ranges_of_texts(function: str, options: dict[str, str], texts: list[Any], expected: Any) -> None:
    of_bytes = pa.array([text.encode() if isinstance(text, str) else text for text in texts], pa.binary())
    column = pa.Array.from_buffers(pa.string(), len(of_bytes), of_bytes.buffers())
    assert range_of_texts(function, options, column) == expected


@pytest.mark.parametrize(
    ("function", "options", "kind"),
    [
        ("date_format", {"format": "dd.MM.yyyy"}, MOMENT),
        ("date_format", {}, MOMENT),
        ("from_unixtime", {"format": "yyyy-MM-dd'T'HH"}, pa.int64()),
        ("from_unixtime", {}, pa.string()),
        ("hour", {}, pa.date32()),
        ("date_add", {"days": "x"}, pa.date32()),
        ("substring", {"pos": "-2", "len": "2"}, pa.string()),
        ("upper", {"x": "y"}, pa.string()),
        ("upper", {}, pa.binary()),
        ("regexp_extract", {"pattern": "a", "idx": "1"}, pa.string()),
        ("identity", {}, pa.string()),
    ],
)
def test_other_expressions_are_unknown(function: str, options: dict[str, str], kind: pa.DataType) -> None:
    assert expression_type(function, options, kind) is None
