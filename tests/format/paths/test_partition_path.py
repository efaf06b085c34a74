from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.errors import CorruptTableError
from hudisql.format.paths.partition_path import (
    escape_partition_value,
    parse_partition_value,
    partition_path,
    render_directory_value,
    render_partition_value,
    same_value,
    split_partition_path,
    unescape_partition_value,
)

TIMESTAMP = pa.timestamp("us", tz="UTC")


def test_values_are_escaped_as_hive_does() -> None:
    # The directory that the facts measured for this value, written by Spark.
    assert escape_partition_value("a b:c/d%e") == "a b%3Ac%2Fd%25e"
    assert escape_partition_value("{[]^}\x7f\n") == "%7B%5B%5D%5E}%7F%0A"
    assert escape_partition_value("größe-1_2.3") == "größe-1_2.3"


def test_a_percent_sign_without_hex_digits_stays() -> None:
    assert unescape_partition_value("100%") == "100%"
    assert unescape_partition_value("%zz%41") == "%zzA"


@given(st.text())
def test_any_value_survives_escaping(value: str) -> None:
    escaped = escape_partition_value(value)
    assert "/" not in escaped
    assert unescape_partition_value(escaped) == value


def test_paths_of_the_four_layouts() -> None:
    fields, values = ["region", "dt"], ["a:b", None]
    path = {
        (hive, encode): partition_path(fields, values, hive_style=hive, url_encode=encode)
        for hive in (True, False)
        for encode in (True, False)
    }
    assert path[True, True] == "region=a%3Ab/dt=__HIVE_DEFAULT_PARTITION__"
    assert path[True, False] == "region=a:b/dt=__HIVE_DEFAULT_PARTITION__"
    assert path[False, True] == "a%3Ab/__HIVE_DEFAULT_PARTITION__"
    assert path[False, False] == "a:b/__HIVE_DEFAULT_PARTITION__"
    assert partition_path([], [], hive_style=True, url_encode=True) == ""


@given(st.lists(st.none() | st.text(min_size=1), min_size=1, max_size=3), st.booleans())
def test_encoded_paths_are_split_into_the_values_they_were_made_of(
    values: list[str | None], hive_style: bool
) -> None:
    fields = [f"c{number}" for number in range(len(values))]
    path = partition_path(fields, values, hive_style=hive_style, url_encode=True)
    expected = tuple(None if value == "__HIVE_DEFAULT_PARTITION__" else value for value in values)
    assert split_partition_path(path, fields) == expected


def test_a_path_without_encoding_keeps_what_looks_escaped() -> None:
    assert split_partition_path("dt=50%25", ["dt"], url_encode=False) == ("50%25",)
    assert split_partition_path("dt=50%25", ["dt"]) == ("50%",)


def test_one_column_may_lie_over_several_directories() -> None:
    assert split_partition_path("2024/03/01", ["dt"]) == ("2024/03/01",)
    assert split_partition_path("2024/03/01", ["year", "month", "day"]) == ("2024", "03", "01")


def test_directories_that_do_not_fit_the_columns_are_an_error() -> None:
    with pytest.raises(CorruptTableError, match="region, dt"):
        split_partition_path("2024/03/01", ["region", "dt"])


@pytest.mark.parametrize(
    ("text", "value_type", "value"),
    [
        ("a", pa.string(), "a"),
        ("-12", pa.int32(), -12),
        ("007", pa.int64(), 7),
        ("true", pa.bool_(), True),
        ("1.5", pa.float64(), 1.5),
        ("2024-03-01", pa.date32(), date(2024, 3, 1)),
        ("2024/03/01", pa.date32(), date(2024, 3, 1)),
        ("19783", pa.date32(), date(2024, 3, 1)),
        ("12.3", pa.decimal128(5, 2), Decimal("12.30")),
        ("2024-03-01 10:30:00", TIMESTAMP, datetime(2024, 3, 1, 10, 30, tzinfo=UTC)),
        ("2024-03-01T12:30:00+02:00", TIMESTAMP, datetime(2024, 3, 1, 10, 30, tzinfo=UTC)),
        ("1577882096789000", TIMESTAMP, datetime(2020, 1, 1, 12, 34, 56, 789000, tzinfo=UTC)),
        ("2024-03-01 10:30:00.5", pa.timestamp("us"), datetime(2024, 3, 1, 10, 30, 0, 500000)),
        ("xy", pa.binary(), b"xy"),
        (None, pa.int32(), None),
    ],
)
def test_partition_texts_become_typed_values(
    text: str | None, value_type: pa.DataType, value: object
) -> None:
    parsed = parse_partition_value(text, value_type)
    assert parsed == value
    assert type(parsed) is type(value)
    assert pa.scalar(parsed, value_type).as_py() == value


@pytest.mark.parametrize(
    ("text", "value_type"),
    [
        ("x", pa.int32()),
        ("1.5", pa.int32()),
        ("99999999999", pa.int32()),
        ("yes", pa.bool_()),
        ("2024-13-01", pa.date32()),
        ("12.345", pa.decimal128(5, 2)),
        ("1234.5", pa.decimal128(5, 2)),
        ("NaN", pa.decimal128(5, 2)),
        ("soon", TIMESTAMP),
    ],
)
def test_texts_that_are_no_value_of_the_type_are_refused(text: str, value_type: pa.DataType) -> None:
    with pytest.raises((ValueError, OverflowError)):
        parse_partition_value(text, value_type)


@pytest.mark.parametrize(
    ("value", "value_type", "text"),
    [
        (None, pa.string(), None),
        (True, pa.bool_(), "true"),
        (7, pa.int32(), "7"),
        (date(2024, 3, 1), pa.date32(), "2024-03-01"),
        (Decimal("12.30"), pa.decimal128(5, 2), "12.30"),
        (datetime(2024, 3, 1, 10, 30, tzinfo=UTC), TIMESTAMP, "2024-03-01 10:30:00"),
        (datetime(2024, 3, 1, 10, 30, 0, 120000, tzinfo=UTC), TIMESTAMP, "2024-03-01 10:30:00.12"),
        (b"xy", pa.binary(), "xy"),
        (0.10000000149011612, pa.float32(), "0.1"),
        (12345678.0, pa.float64(), "1.2345678E7"),
        (1e20, pa.float64(), "1.0E20"),
        (-0.0, pa.float64(), "0.0"),
        (float("nan"), pa.float32(), "NaN"),
        (float("-inf"), pa.float64(), "-Infinity"),
    ],
)
def test_typed_values_are_rendered_as_hudi_hive_and_spark_name_directories(
    value: object, value_type: pa.DataType, text: str | None
) -> None:
    assert render_partition_value(value, value_type) == text
    if text is not None:
        assert same_value(parse_partition_value(text, value_type), value)


@pytest.mark.parametrize(
    ("value", "text"), [("0E-8", "0E-8"), ("1E-8", "1E-8"), ("0.00000100", "0.00000100"), ("3", "3.00000000")]
)
def test_a_decimal_names_its_directory_as_javas_bigdecimal_prints_it(value: str, text: str) -> None:
    value_type = pa.decimal128(12, 8)
    stored = pa.scalar(Decimal(value), value_type).as_py()
    assert render_directory_value(stored, value_type) == text
    # As PySpark gives it, with a digit more.
    assert render_directory_value(stored.quantize(Decimal("1E-9")), value_type) == text
    assert parse_partition_value(text, value_type) == stored


@pytest.mark.parametrize("text", ["0.1", "+0.1", "0.10", "1e-1", "1.0E-1"])
def test_a_float_is_the_one_nearest_to_the_text(text: str) -> None:
    assert parse_partition_value(text, pa.float32()) == 0.10000000149011612
    assert parse_partition_value(text, pa.float64()) == 0.1
