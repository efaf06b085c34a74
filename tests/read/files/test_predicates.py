from __future__ import annotations

import datetime
import decimal
import math
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.errors import InvalidArgumentError
from hudisql.read.files import predicates
from hudisql.read.files.parquet_rows import ParquetRows
from hudisql.read.files.predicates import (
    And,
    Comparison,
    In,
    InSet,
    IsNotNull,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    bind_predicate,
    columns_of,
    conjunction,
    matching_rows,
    split_conjuncts,
)
from hudisql.storage import Storage

SCHEMA = pa.schema(
    [("n", pa.int32()), ("f", pa.float64()), ("s", pa.string()), ("st", pa.struct([("b", pa.int64())]))]
)
_INTEGERS = st.integers(-3, 3)
_WIDE_INTEGERS = st.integers(-9, 9) | st.sampled_from([-(2**63), 2**63 - 1])
_FLOATS = st.sampled_from([-1.5, -0.0, 0.0, 2.5, math.nan, math.inf])
_TEXTS = st.sampled_from(["", "a", "ab", "b", "ba", "é"])
_VALUES: dict[tuple[str, ...], st.SearchStrategy[Any]] = {
    ("n",): _INTEGERS,
    ("f",): _FLOATS,
    ("s",): _TEXTS,
    ("st", "b"): _INTEGERS,
}


@st.composite
def _rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    row = st.fixed_dictionaries(
        {
            "n": st.none() | _INTEGERS,
            "f": st.none() | _FLOATS,
            "s": st.none() | _TEXTS,
            "st": st.none() | st.fixed_dictionaries({"b": st.none() | _INTEGERS}),
        }
    )
    return draw(st.lists(row, min_size=1, max_size=12))


@st.composite
def _leaves(draw: st.DrawFn) -> Predicate:
    path = draw(st.sampled_from(list(_VALUES)))
    values = _VALUES[path]
    kind = draw(st.sampled_from(["compare", "in", "null", "not null", "starts"]))
    if kind == "compare":
        operator: Any = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>"]))
        return Comparison(path, operator, draw(st.none() | values))
    if kind == "in":
        return In(path, tuple(draw(st.lists(st.none() | values, max_size=3))))
    if kind == "starts":
        return StartsWith(("s",), draw(_TEXTS))
    return IsNull(path) if kind == "null" else IsNotNull(path)


_PREDICATES = st.recursive(
    _leaves(),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts))),
        inner.map(Not),
    ),
    max_leaves=5,
)


def _order(value: Any) -> Any:
    # Spark SQL: NaN equals NaN and is above everything.
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def _evaluate(predicate: Predicate, row: dict[str, Any]) -> bool | None:
    """Three-valued logic, row by row: what the standard says, written plainly."""
    match predicate:
        case And(parts):
            outcomes = [_evaluate(part, row) for part in parts]
            return False if False in outcomes else None if None in outcomes else True
        case Or(parts):
            outcomes = [_evaluate(part, row) for part in parts]
            return True if True in outcomes else None if None in outcomes else False
        case Not(part):
            outcome = _evaluate(part, row)
            return None if outcome is None else not outcome
    value: Any = row
    for name in predicate.column:
        value = None if value is None else value[name]
    match predicate:
        case IsNull():
            return value is None
        case IsNotNull():
            return value is not None
        case Comparison(operator="<=>", value=other):
            return (value is None) == (other is None) and (value is None or _order(value) == _order(other))
        case Comparison(operator=operator, value=other):
            if value is None or other is None:
                return None
            left, right = _order(value), _order(other)
            return {
                "=": left == right,
                "!=": left != right,
                "<": left < right,
                "<=": left <= right,
                ">": left > right,
                ">=": left >= right,
            }[operator]
        case In(values=others):
            if value is None:
                return None
            if any(other is not None and _order(other) == _order(value) for other in others):
                return True
            return None if None in others else False
        case StartsWith(prefix=prefix):
            return None if value is None else value.startswith(prefix)
    raise AssertionError(predicate)


@given(_rows(), _PREDICATES)
def test_a_predicate_means_what_spark_sql_means(rows: list[dict[str, Any]], predicate: Predicate) -> None:
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    bound = bind_predicate(predicate, SCHEMA)
    assert bound is not None
    assert matching_rows(bound, batch).to_pylist() == [_evaluate(predicate, row) for row in rows]


@given(_rows(), _PREDICATES)
def test_statistics_never_rule_out_a_row_group_with_a_matching_row(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], predicate: Predicate
) -> None:
    path = _shared_file(tmp_path_factory)
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path, row_group_size=3)
    bound = bind_predicate(predicate, SCHEMA)
    assert bound is not None
    with ParquetRows(Storage(), str(path), SCHEMA) as file:
        kept = {row for chosen in file.choose_ranges(None, bound) for row in range(chosen.start, chosen.stop)}
    assert {number for number, row in enumerate(rows) if _evaluate(predicate, row)} <= kept


_DIRECTORIES: list[Path] = []


def _shared_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not _DIRECTORIES:
        _DIRECTORIES.append(tmp_path_factory.mktemp("statistics"))
    return _DIRECTORIES[0] / "rows.parquet"


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (Comparison(("p",), "<", decimal.Decimal("10.00")), [0]),
        (Comparison(("p",), "=", decimal.Decimal("25.00")), [2]),
        (Comparison(("d",), ">=", datetime.date(2020, 1, 21)), [2]),
        (Comparison(("t",), "<=", datetime.datetime(2020, 1, 1, 4, tzinfo=datetime.UTC)), [0]),
        (StartsWith(("s",), "k01"), [1]),
        (In(("n",), (5, 25)), [0, 2]),
        (Not(Comparison(("n",), "<", 20)), [2]),
        (Or((Comparison(("n",), "=", 3), Comparison(("n",), "=", 13))), [0, 1]),
        (IsNull(("n",)), []),
        (Comparison(("absent",), "=", 1), []),
        (IsNull(("absent",)), [0, 1, 2]),
    ],
    ids=str,
)
def test_row_groups_are_skipped_by_statistics_of_every_kind_of_column(
    tmp_path: Path, predicate: Predicate, kept: list[int]
) -> None:
    numbers = range(30)
    table = pa.table(
        {
            "n": pa.array(numbers, pa.int32()),
            "p": pa.array([decimal.Decimal(n).quantize(decimal.Decimal("0.01")) for n in numbers]),
            "d": pa.array([datetime.date(2020, 1, 1 + n) for n in numbers]),
            "t": pa.array(
                [datetime.datetime(2020, 1, 1, n // 2, tzinfo=datetime.UTC) for n in numbers],
                pa.timestamp("us", "UTC"),
            ),
            "s": pa.array([f"k{n:03d}" for n in numbers]),
        }
    )
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=10)
    schema = pa.schema([*table.schema, pa.field("absent", pa.int32())])
    bound = bind_predicate(predicate, schema)
    assert bound is not None
    with ParquetRows(Storage(), str(tmp_path / "f.parquet"), schema) as file:
        assert [chosen.start // 10 for chosen in file.choose_ranges(None, bound)] == kept


def test_values_are_brought_to_the_columns_type_or_the_predicate_is_not_used() -> None:
    schema = pa.schema([("f", pa.float32()), ("n", pa.int32()), ("s", pa.string())])
    bound = bind_predicate(Comparison(("f",), "=", 0.1), schema)
    assert isinstance(bound, Comparison)
    assert bound.value == pa.scalar(0.1, pa.float32()).as_py()
    assert bind_predicate(Comparison(("n",), "=", 2**40), schema) is None
    assert bind_predicate(Comparison(("n",), "=", "x"), schema) is None
    assert bind_predicate(Comparison(("n",), "=", True), schema) is None
    assert bind_predicate(Comparison(("s", "x"), "=", "x"), schema) is None
    assert bind_predicate(And((IsNull(("n",)), Comparison(("zzz",), "=", 1))), schema) is None


def test_a_predicate_on_a_column_that_is_not_read_is_an_error() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1]})
    with pytest.raises(InvalidArgumentError, match=r"'b\.c'"):
        matching_rows(IsNull(("b", "c")), batch)


def test_conjunctions_flatten_and_name_their_columns() -> None:
    one, two, three = IsNull(("a",)), IsNotNull(("b", "c")), Comparison(("d",), "=", "it's")
    assert conjunction([And((one, And((two, three))))]) == And((one, two, three))
    assert conjunction([one]) == one
    assert conjunction([]) is None
    assert split_conjuncts(Or((one, two))) == (Or((one, two)),)
    assert columns_of(Or((one, Not(two)))) == {("a",), ("b", "c")}
    assert str(And((two, three))) == "(b.c IS NOT NULL AND d = 'it''s')"


@given(
    values=st.sets(_WIDE_INTEGERS, min_size=1, max_size=20),
    column=st.lists(st.none() | _WIDE_INTEGERS, max_size=10),
    many=st.sampled_from([1, 1_000]),
)
def test_a_set_of_values_keeps_the_rows_that_hold_one(
    values: set[int], column: list[int | None], many: int
) -> None:
    batch = pa.record_batch({"n": pa.array(column, pa.int64())})
    with mock.patch.object(predicates, "_MANY_VALUES", many):
        found = matching_rows(InSet(("n",), pa.array(sorted(values), pa.int64())), batch)
    assert batch.filter(found).column(0).to_pylist() == [each for each in column if each in values]
