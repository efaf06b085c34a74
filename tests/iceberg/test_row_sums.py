"""Sums of rows: equal for the same rows in any order, batches and widths of offsets, else not."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hudisql.iceberg.row_sums import group_number, sum_rows, sum_rows_by

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int32()),
        pa.field("f", pa.float64()),
        pa.field("text", pa.string()),
        pa.field("raw", pa.binary()),
        pa.field("fixed", pa.binary(2)),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("good", pa.bool_()),
        pa.field("tags", pa.map_(pa.string(), pa.list_(pa.int32()))),
        pa.field("places", pa.list_(pa.struct([("x", pa.float32()), ("name", pa.string())]))),
    ]
)
_ROW = st.tuples(
    *(
        st.none() | values
        for values in (
            st.integers(-2, 2),
            st.sampled_from([0.0, -0.0, 1.5, float("nan")]),
            st.sampled_from(["", "a", "ä" * 9]),
            st.sampled_from([b"", b"\xff", b"a"]),
            st.sampled_from([b"ab", b"ba"]),
            st.sampled_from([Decimal("1.00"), Decimal("-1.00")]),
            st.sampled_from([date(1969, 12, 31), date(2024, 1, 1)]),
            st.just(datetime(2024, 1, 1, 1, 1, 1, 123456, UTC)),
            st.booleans(),
            st.sampled_from([[], [("a", [1, None])], [("a", [None, 1])], [("a", None)]]),
            st.sampled_from([[], [None], [{"x": 1.5, "name": None}], [{"x": None, "name": None}]]),
        )
    )
)


def _table(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)] or [[]] * 11, SCHEMA)


def _sums(rows: list[tuple[Any, ...]], batch_rows: int = 1000) -> Any:
    return sum_rows(_table(rows).to_batches(batch_rows), len(SCHEMA))


def _multiset(rows: list[tuple[Any, ...]]) -> Counter[str]:
    return Counter(repr(row) for row in rows)


@given(st.lists(_ROW, max_size=6), st.lists(_ROW, max_size=6), st.integers(1, 3), st.randoms())
def test_sums_are_equal_just_for_the_same_rows(one: Any, other: Any, batch_rows: int, random: Any) -> None:
    shuffled = random.sample(one, len(one))
    assert _sums(one) == _sums(shuffled, batch_rows)
    assert (_sums(one) == _sums(other)) == (_multiset(one) == _multiset(other))


def test_slices_have_the_sums_of_their_rows() -> None:
    rows: list[tuple[Any, ...]] = [
        (
            n,
            n / 2,
            str(n),
            b"a",
            b"xy",
            None,
            None,
            None,
            n % 2 == 0,
            [("k", [n])],
            [{"x": n, "name": str(n)}],
        )
        for n in range(9)
    ]
    table = _table(rows)
    for start in range(9):
        assert sum_rows(table.slice(start, 2).to_batches(), 11) == _sums(rows[start : start + 2])


def test_the_first_column_that_differs_is_named() -> None:
    names = ["a", "b"]

    def sums(a: list[int], b: list[int]) -> Any:
        return sum_rows([pa.record_batch([a, b], names)], 2)

    assert "column b has" in sums([1, 2], [3, 4]).first_difference(sums([1, 2], [3, 5]), names)
    assert "not together" in sums([1, 2], [3, 4]).first_difference(sums([1, 2], [4, 3]), names)
    assert "1 rows, the Hudi table has 2" in sums([1], [3]).first_difference(sums([1, 2], [3, 4]), names)


def test_rows_are_summed_by_the_values_of_key_columns() -> None:
    schema = pa.schema([("p", pa.string()), ("day", pa.date32())])
    batch = pa.record_batch([["x", None, "x"], [date(2024, 1, 1)] * 3, [1, 2, 3]], [*schema.names, "n"])
    found = sum_rows_by(batch.slice(0, 3), ["p", "day"])
    assert found.keys() == {
        group_number(("x", date(2024, 1, 1)), schema),
        group_number((None, date(2024, 1, 1)), schema),
    }
    assert found[group_number(("x", date(2024, 1, 1)), schema)] == sum_rows([batch.take([0, 2])], 3)
    assert sum_rows_by(batch, [])[group_number((), pa.schema([]))].rows == 3
