"""The newest record of a key: ordering values compare as Java's do, in Arrow's columns and in Spark's."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudisql.read.merge.precombine import (
    comparable,
    is_higher,
    is_higher_column,
    is_newer,
    is_newer_column,
    keep_newest,
    newest_first,
)

NAN, INF = float("nan"), float("inf")
# Of each key the first value is the highest.
VALUES: dict[str, list[float | None]] = {
    "nan": [NAN, INF, None],
    "zero": [0.0, -0.0, None],
    "number": [2.5, 1.5, -INF],
    "null": [None, None],
}


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_nan_is_the_highest_number_and_negative_zero_is_below_zero(kind: pa.DataType) -> None:
    ascending = [float("-inf"), -1.5, -0.0, 0.0, 1.5, float("inf"), float("nan"), None]
    values = pa.array(ascending[::-1], kind)
    order = pc.sort_indices(comparable(values))
    assert repr(values.take(order).to_pylist()) == repr(ascending)
    assert (
        comparable(pa.array([float("nan"), -float("nan")], kind)).to_pylist()[0]
        == (comparable(pa.array([-float("nan")], kind)).to_pylist()[0])
    )


def test_other_values_are_as_they_are() -> None:
    texts = pa.array(["b", None, "a"])
    assert comparable(texts) is texts


def _rows() -> pa.Table:
    """The values of each key, the lowest first."""
    keyed = [(key, value) for key, values in VALUES.items() for value in reversed(values)]
    return pa.table({"key": [key for key, _ in keyed], "v": pa.array([value for _, value in keyed])})


def test_the_rows_that_begin_a_key_are_its_newest() -> None:
    ordered, is_first = newest_first(_rows(), ("key",), ("v",))
    newest = ordered.filter(pa.array(is_first)).to_pylist()
    assert repr({row["key"]: row["v"] for row in newest}) == repr(
        {key: VALUES[key][0] for key in sorted(VALUES)}
    )


def test_without_a_precombine_field_the_first_row_of_a_key_stays() -> None:
    ordered, is_first = newest_first(_rows(), ("key",), ())
    newest = ordered.filter(pa.array(is_first)).to_pylist()
    assert repr({row["key"]: row["v"] for row in newest}) == repr(
        {key: VALUES[key][-1] for key in sorted(VALUES)}
    )


def test_of_equal_values_the_last_row_stays_if_asked_for() -> None:
    rows = pa.table({"key": ["a", "b", "a", "a", "b"], "v": [2, 1, 2, 1, 1], "row": [0, 1, 2, 3, 4]})
    for fields, kept in (("v",), [2, 4]), ((), [3, 4]):
        ordered, is_first = newest_first(rows, ("key",), fields, last_of_equals=True)
        assert ordered.filter(pa.array(is_first)).column("row").to_pylist() == kept


def test_a_null_is_lower_only_if_asked_for() -> None:
    values, others = pa.array([1, None, None, 2]), pa.array([None, 1, None, 1])
    assert is_higher(values, others).tolist() == [False, False, False, True]
    assert is_higher(values, others, null_is_lowest=True).tolist() == [True, False, False, True]


SEVERAL = pa.table({"key": ["a"] * 4, "one": [1, 2, 2, 2], "two": [9.0, -0.0, 0.0, None], "row": range(4)})


def test_the_first_of_several_fields_decides_before_the_next() -> None:
    ordered, _ = newest_first(SEVERAL, ("key",), ("one", "two"))
    assert ordered["row"].to_pylist() == [2, 1, 3, 0]
    columns = [SEVERAL[name].combine_chunks() for name in ("one", "two")]
    others = [each.take(pa.array([1] * 4)) for each in columns]
    assert is_newer(columns, others).tolist() == [False, False, True, False]


@pytest.mark.spark
def test_spark_compares_several_fields_as_arrow_does(spark: Any) -> None:
    from pyspark.sql import functions as sf

    fields = [SEVERAL.schema.field(name) for name in ("one", "two")]
    rows = SEVERAL.to_pylist()
    frame = spark.createDataFrame(
        [tuple(row.values()) for row in rows], "key string, one int, two double, row int"
    )
    (kept,) = keep_newest(frame, [sf.col("key")], ["one", "two"], SEVERAL.schema, combined="others").collect()
    assert (kept["row"], kept["others"]) == (2, 3)
    stored = frame.select("row", *(sf.col(each.name).alias(f"stored_{each.name}") for each in fields))
    others = frame.filter("row < 3").withColumnRenamed("row", "other")
    pairs = stored.crossJoin(others).orderBy("row", "other")
    found = [bool(row[0]) for row in pairs.select(is_newer_column(fields, "stored_")).collect()]
    at = [(one, other) for one in range(4) for other in range(3)]
    sides = [pa.array(side) for side in zip(*at, strict=True)]
    columns = [SEVERAL[each.name].combine_chunks() for each in fields]
    assert found == is_newer(*([each.take(side) for each in columns] for side in sides)).tolist()


@pytest.mark.spark
def test_equal_floats_leave_the_decision_to_the_next_field(spark: Any) -> None:
    fields = [pa.field("score", pa.float64()), pa.field("seq", pa.int64())]
    frame = spark.createDataFrame(
        [(1.0, 5, 1.0, 3), (1.0, 3, 1.0, 5), (2.0, 1, 1.0, 5), (-0.0, 5, 0.0, 3)],
        "stored_score double, stored_seq long, score double, seq long",
    )
    found = [bool(row[0]) for row in frame.select(is_newer_column(fields, "stored_")).collect()]
    assert found == [True, False, True, False]


@pytest.mark.spark
def test_spark_keeps_the_rows_that_arrow_keeps(spark: Any) -> None:
    from pyspark.sql import functions as sf

    rows = _rows()
    frame = spark.createDataFrame([tuple(row.values()) for row in rows.to_pylist()], "key string, v double")
    kept = keep_newest(frame, [sf.col("key")], ["v"], rows.schema, combined="others").collect()
    assert repr({row[0]: row[1] for row in sorted(kept, key=lambda row: row[0])}) == repr(
        {key: VALUES[key][0] for key in sorted(VALUES)}
    )
    assert {row[0]: row[2] for row in kept} == {key: len(values) - 1 for key, values in VALUES.items()}


@pytest.mark.spark
def test_spark_compares_as_arrow_does(spark: Any) -> None:
    ascending = [None, -INF, -0.0, 0.0, 1.5, INF, NAN]
    pairs = [(one, other) for one in ascending for other in ascending]
    frame = spark.createDataFrame(pairs, "one double, other double")
    is_above = is_higher_column("one", "other", pa.field("one", pa.float64()))
    found = [bool(row[0]) for row in frame.select(is_above).collect()]
    columns = [pa.array(column, pa.float64()) for column in zip(*pairs, strict=True)]
    assert found == is_higher(columns[0], columns[1]).tolist()
