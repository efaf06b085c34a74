"""Rows of a task in the order of columns, from memory and from spilled files."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.write.execution import column_files, spillable_change_buffer
from hudisql.write.execution import sorted_rows as module
from hudisql.write.execution.sorted_rows import can_sort, sorted_rows

SCHEMA = pa.schema(
    {
        "at": pa.int64(),
        "name": pa.string(),
        "score": pa.float64(),
        "flag": pa.bool_(),
        "amount": pa.decimal128(9, 2),
        "more": pa.struct({"tags": pa.list_(pa.string()), "of": pa.map_(pa.string(), pa.int32())}),
    }
)
MORE = {"tags": ["a", None], "of": [("k", 1)]}
ROWS = st.lists(
    st.tuples(
        st.none() | st.text(max_size=3),
        st.none() | st.floats(),
        st.none() | st.booleans(),
        st.none() | st.decimals(-9, 9, places=2),
        st.sampled_from([None, MORE]),
    ),
    max_size=40,
)


@pytest.fixture(params=["in memory", "spilled"])
def spills(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROWS_A_BATCH", 7)
    if request.param == "spilled":
        for each in (spillable_change_buffer, column_files):
            monkeypatch.setattr(each, "_IN_MEMORY_BYTES", 200)


def _as_spark_orders(value: Any) -> tuple[bool, bool, Any]:
    """Nulls first, NaN last, text by its bytes."""
    if value is None:
        return (False, False, 0)
    if isinstance(value, float) and math.isnan(value):
        return (True, True, 0)
    return (True, False, value.encode() if isinstance(value, str) else value)


def _batches(rows: list[tuple[Any, ...]]) -> list[pa.RecordBatch]:
    table = pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, (at, *row), strict=True)) for at, row in enumerate(rows)], SCHEMA
    )
    return list(table.to_batches(max_chunksize=5))


@pytest.mark.usefixtures("spills")
@given(ROWS, st.lists(st.sampled_from(["name", "score", "flag", "amount"]), min_size=1, unique=True))
def test_rows_come_in_sparks_order_and_equal_ones_in_their_own(
    rows: list[tuple[Any, ...]], columns: list[str]
) -> None:
    batches = _batches(rows)
    found = pa.Table.from_batches(sorted_rows(iter(batches), SCHEMA, columns), SCHEMA)
    given_rows = pa.Table.from_batches(batches, SCHEMA)
    keys = given_rows.select(columns).to_pylist()
    order = sorted(range(len(rows)), key=lambda at: [_as_spark_orders(keys[at][name]) for name in columns])
    assert found["at"].to_pylist() == order
    expected = given_rows.take(pa.array(order, pa.int64()))
    assert found.drop_columns(["score"]).equals(expected.drop_columns(["score"]))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(pa.string(), True), (pa.decimal128(38, 2), True), (pa.struct({"a": pa.int32()}), False)],
    ids=str,
)
def test_values_of_structs_are_left_to_spark(kind: pa.DataType, expected: bool) -> None:
    assert can_sort(kind) is expected


@pytest.mark.parametrize("widths", [[1000] * 100, [1] * 60 + [5000] * 40], ids=["alike", "wide ones last"])
def test_rows_are_put_together_in_batches_of_bounded_size(
    widths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BYTES_A_BATCH", 10_000)
    rows = pa.record_batch({"at": range(len(widths)), "name": ["x" * width for width in widths]})
    found = list(sorted_rows([rows], rows.schema, ["at"]))
    assert pa.Table.from_batches(found).equals(pa.Table.from_batches([rows]))
    assert max(batch.nbytes for batch in found) <= 20_000


@pytest.mark.usefixtures("spills")
@given(
    st.lists(st.lists(st.none() | st.sampled_from(["", "a", "bb", "ccc", "dddd"]), max_size=12), max_size=9)
)
def test_texts_are_dictionaries_until_they_have_too_many_values(texts: list[list[str | None]]) -> None:
    schema = pa.schema({"at": pa.int64(), "text": pa.string()})
    numbers = itertools.count()
    batches = [
        pa.record_batch([[next(numbers) for _ in part], pa.array(part, pa.string())], schema=schema)
        for part in texts
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_files, "_MOST_VALUES", 4)  # one of them stands for null
        found = list(sorted_rows(iter(batches), schema, ["at"], ["text"]))
    assert [value for batch in found for value in batch["text"].to_pylist()] == [*itertools.chain(*texts)]
    is_encoded = len({value for part in texts for value in part if value}) <= 3
    assert {pa.types.is_dictionary(batch["text"].type) for batch in found} <= {is_encoded}


def test_a_text_of_many_values_is_no_dictionary() -> None:
    rows = pa.record_batch({"at": range(1000), "text": [f"text {number}" for number in range(1000)]})
    (found,) = sorted_rows([rows], rows.schema, ["at"], ["text"])
    assert found.equals(rows)
