"""The conditions by which files without recomputed values are passed over hold for all of these values."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from hudisql.sql.incremental_tables import value_bounds as bounds


@pytest.mark.parametrize(
    ("values", "condition"),
    [
        (pa.array([3, 1, 3]), "`a` IN (1, 3)"),
        (pa.array(["b'", None]), "(`a` IS NULL OR `a` IN ('b\\''))"),
        (pa.array([datetime.date(2024, 3, 1)]), "`a` IN (DATE '2024-03-01')"),
        (pa.array([None], pa.int32()), "`a` IS NULL"),
        (pa.array([], pa.int32()), "false"),
        (pa.array([7, 5, 6, 4, None]), "(`a` IS NULL OR `a` BETWEEN 4 AND 7)"),
    ],
)
def test_values_are_listed_or_bounded(values: Any, condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_LISTED", 3)
    table = pa.table({"v0": values, "v1": pa.array([0.5] * len(values))})
    frame: Any = None
    assert bounds.value_bounds(("a", "b"), frame, table) == (condition,)
