"""The conditions by which files without recomputed values are passed over hold for all of these values."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type

from hudisql.sql.incremental_tables import value_bounds as bounds


@pytest.mark.parametrize(
    ("values", "condition"),
    [
        (pa.array([3, 1, 3]), "`a` IN (1, 3)"),
        (pa.array(["b", None]), "(`a` IS NULL OR `a` IN ('b'))"),
        # As a partition value it is read as NULL.
        (pa.array(["", "b"]), "(`a` IS NULL OR `a` IN ('', 'b'))"),
        (pa.array([datetime.date(2024, 3, 1)]), "`a` IN (DATE '2024-03-01')"),
        (pa.array([None], pa.int32()), "`a` IS NULL"),
        (pa.array([], pa.int32()), "false"),
        (pa.array([7, 5, 6, 4, None]), "(`a` IS NULL OR `a` BETWEEN 4 AND 7)"),
    ],
)
def test_values_are_listed_or_bounded(values: Any, condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_LISTED", 3)
    (bound,) = _bounds(values)
    assert bound.pushed == condition
    assert ("named_struct" in bound.compared) == any(
        mark in condition for mark in ("IN (1", "DATE", "BETWEEN")
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("INT", [3, 1, 7]),
        ("BIGINT", [3, None, 7]),
        ("INT", list(range(5, 12))),
        ("DATE", [datetime.date(1970, 1, 4), datetime.date(1970, 1, 8)]),
        ("STRING", ["3", "7", ""]),
    ],
    ids=str,
)
def test_both_conditions_choose_the_same_rows_and_one_is_pushed(
    spark: Any, tmp_path: Path, kind: str, values: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_LISTED", 5)
    value = "date_from_unix_date(CAST(id AS INT))" if kind == "DATE" else f"CAST(id AS {kind})"
    rows = spark.range(20).selectExpr(f"{value} AS a")
    rows.union(rows.selectExpr("nullif(a, a)")).write.parquet(str(tmp_path / "t"))
    stored = spark.read.parquet(str(tmp_path / "t"))
    (bound,) = _bounds(pa.array(values, to_arrow_type(stored.schema["a"].dataType)))
    pushed, compared = stored.where(bound.pushed), stored.where(bound.compared)
    assert 0 < pushed.count() < 40
    assert sorted(map(str, pushed.collect())) == sorted(map(str, compared.collect()))
    plans = [str(each._jdf.queryExecution().executedPlan().toString()) for each in (pushed, compared)]
    assert ["PushedFilters: []" in plan for plan in plans] == [False, kind != "STRING"]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["b", "it's"]),
        pa.array(["C:\\x"]),
        pa.array(["${env:HOME}"]),
        # Years that Python's dates do not have.
        pa.array([2932897, 0], pa.int32()).cast(pa.date32()),
        pa.array([-719163], pa.int32()).cast(pa.date32()),
        pa.array([253402300800000000], pa.int64()).cast(pa.timestamp("us", "UTC")),
        pa.array([0.5, math.nan]),
    ],
    ids=str,
)
def test_values_without_plain_literals_have_no_bounds(values: Any) -> None:
    assert _bounds(values) == ()


def _bounds(values: pa.Array) -> tuple[bounds.ValueBound, ...]:
    frame: Any = SimpleNamespace(schema=from_arrow_schema(pa.schema([("v0", values.type)])))
    return bounds.value_bounds(("a",), frame, pa.table({"v0": values}))
