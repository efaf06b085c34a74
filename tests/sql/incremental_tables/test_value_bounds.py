"""The conditions by which files without recomputed values are passed over hold for all of these values."""

from __future__ import annotations

import datetime
import math
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

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
    assert _bounds(values) == (condition,)


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


def _bounds(values: pa.Array) -> tuple[str, ...]:
    frame: Any = SimpleNamespace(schema=from_arrow_schema(pa.schema([("v0", values.type)])))
    return bounds.value_bounds(("a",), frame, pa.table({"v0": values}))
