from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from hudisql.read.files.conform import batch_of, conform_array, find_field

NANOS, MICROS, MILLIS = (pa.timestamp(unit, "UTC") for unit in ("ns", "us", "ms"))
STRUCT = pa.struct([("y", pa.string()), ("gone", pa.int32()), ("x", pa.int64())])


@pytest.mark.parametrize(
    ("array", "wanted", "values"),
    [
        (pa.array([1, None], pa.int8()), pa.int32(), [1, None]),
        (pa.array([4294967295], pa.uint32()), pa.int64(), [4294967295]),
        (pa.array(["a", None, "a"]).dictionary_encode(), pa.string(), ["a", None, "a"]),
        (pa.array(["a"], pa.large_string()), pa.string(), ["a"]),
        (pa.array([b"\x01\x02"], pa.binary(2)), pa.binary(), [b"\x01\x02"]),
        (pa.array([1999], NANOS), MICROS, [datetime(1970, 1, 1, 0, 0, 0, 1, UTC)]),
        (pa.array([1], MILLIS), MICROS, [datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)]),
        (
            pa.array([[9], None, [1, None], []], pa.large_list(pa.field("item", pa.int16(), nullable=True))),
            pa.list_(pa.field("element", pa.int32())),
            [[9], None, [1, None], []],
        ),
        (
            pa.array([[("a", 1)], None, [("b", None)]], pa.map_(pa.string(), pa.int32())),
            pa.map_(pa.string(), pa.int64()),
            [[("a", 1)], None, [("b", None)]],
        ),
        (
            pa.array([{"X": 1, "y": "q"}, None, {"X": None, "y": "r"}]),
            STRUCT,
            [{"y": "q", "gone": None, "x": 1}, None, {"y": "r", "gone": None, "x": None}],
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else None,
)
def test_columns_are_rebuilt_to_the_tables_type(array: pa.Array, wanted: Any, values: list[Any]) -> None:
    for start in range(len(array)):
        found = conform_array(array.slice(start), wanted)
        found.validate(full=True)
        assert found.type == wanted
        assert found.to_pylist() == values[start:]


def test_a_value_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        conform_array(pa.array([2**40]), pa.int32())


def test_columns_are_found_by_name_in_any_case_unless_that_is_ambiguous() -> None:
    schema = pa.schema([("Id", pa.int32()), ("id", pa.int32()), ("Name", pa.int32())])
    assert find_field(schema, "id") == 1
    assert find_field(schema, "NAME") == 2
    assert find_field(schema, "ID") == -1
    assert find_field(schema, "nothing") == -1


def test_a_batch_without_columns_knows_its_rows() -> None:
    assert batch_of([], pa.schema([]), 7).num_rows == 7
