"""Values of older files in the types that columns have now; what Apache Hudi gives is in tests/oracle."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import UnsupportedTableError
from hudisql.read.files.promote import promote_array

PRICE = pa.decimal128(10, 2)


def _promoted(values: list[Any], stored: pa.DataType, wanted: pa.DataType) -> list[Any]:
    promoted = promote_array(pa.array([*values, None], stored), wanted, "c")
    promoted.validate(full=True)
    assert promoted.type == wanted
    assert promoted[-1].as_py() is None
    return list(promoted.to_pylist()[:-1])


def test_integers_become_the_nearest_floats_and_doubles() -> None:
    assert _promoted([2**53 + 1, -5, 2**63 - 1], pa.int64(), pa.float64()) == [2.0**53, -5.0, 2.0**63]
    assert _promoted([2**24 + 1], pa.int64(), pa.float32()) == [2.0**24]
    assert _promoted([2**24 + 1, 7], pa.int32(), pa.float32()) == [2.0**24, 7.0]


def test_the_text_of_a_double_is_rounded_half_up() -> None:
    doubles = [1.1, 1.005, -1.005, 2.675, 0.125, 1e-20, 0.005, 0.00499, 99999999.99, -0.0]
    expected = ["1.10", "1.01", "-1.01", "2.68", "0.13", "0", "0.01", "0", "99999999.99", "0"]
    assert _promoted(doubles, pa.float64(), PRICE) == list(map(Decimal, expected))
    assert _promoted([1.2345678901234568e37], pa.float64(), pa.decimal128(38, 0)) == [
        Decimal(12345678901234568 * 10**21)
    ]
    assert _promoted([5.1e-38], pa.float64(), pa.decimal128(38, 38)) == [Decimal("5E-38")]


def test_texts_become_decimals_and_days_as_java_reads_them() -> None:
    texts = ["1.255", "-1.245", "+.5", "5.", "1e3", "0.004" + "9" * 60]
    expected = ["1.26", "-1.25", "0.5", "5", "1000", "0"]
    assert _promoted(texts, pa.string(), PRICE) == list(map(Decimal, expected))
    days = ["2024-1-5", "2024-02-30", "1582-10-15", "9999-12-31"]
    assert _promoted(days, pa.string(), pa.date32()) == [
        datetime.date(2024, 1, 5),
        datetime.date(2024, 3, 1),
        datetime.date(1582, 10, 15),
        datetime.date(9999, 12, 31),
    ]


def test_a_decimal_gets_more_digits_behind_the_point() -> None:
    assert _promoted([Decimal("-7.001")], pa.decimal128(9, 3), pa.decimal128(20, 5)) == [Decimal("-7.001")]


@pytest.mark.parametrize(
    ("value", "stored", "wanted"),
    [
        (1e8, pa.float64(), PRICE),
        (99999999.999, pa.float64(), PRICE),
        (float("nan"), pa.float64(), PRICE),
        (float("-inf"), pa.float64(), PRICE),
        ("100000000", pa.string(), PRICE),
        ("9" * 90, pa.string(), PRICE),
        (" 1 ", pa.string(), PRICE),
        ("", pa.string(), PRICE),
        ("abc", pa.string(), pa.date32()),
        ("2024-13-01", pa.string(), pa.date32()),
        ("2024-01-32", pa.string(), pa.date32()),
        ("2024-01-05 10:00:00", pa.string(), pa.date32()),
        ("1582-10-14", pa.string(), pa.date32()),
    ],
)
def test_values_that_have_none_of_the_type_are_refused(
    value: object, stored: pa.DataType, wanted: pa.DataType
) -> None:
    with pytest.raises(UnsupportedTableError, match=r"column c is .* in older files .* and holds "):
        promote_array(pa.array([None, value], stored), wanted, "c")


def test_a_float_is_not_read_as_a_decimal() -> None:
    with pytest.raises(UnsupportedTableError, match=r"column c is float .* is not supported"):
        promote_array(pa.array([1.1], pa.float32()), PRICE, "c")
