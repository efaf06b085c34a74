"""Z-order and Hilbert curves of columns of all types that have an order."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudisql.errors import UnsupportedTableError
from hudisql.write.execution.space_filling_curves import curve_values

SIDE = 8
X, Y = (axis.ravel() for axis in np.meshgrid(np.arange(SIDE), np.arange(SIDE)))


def _points_in_order(curve: Any) -> list[tuple[int, int]]:
    values = curve_values([pa.array(X), pa.array(Y)], ["x", "y"], curve).to_pylist()
    assert len(set(values)) == SIDE * SIDE
    return [(int(X[row]), int(Y[row])) for row in sorted(range(len(values)), key=lambda row: values[row])]


def test_neighbours_on_the_hilbert_curve_are_neighbours_in_the_plane() -> None:
    points = _points_in_order("hilbert")
    assert {abs(a - c) + abs(b - d) for (a, b), (c, d) in pairwise(points)} == {1}


def test_z_order_interleaves_the_bits() -> None:
    points = _points_in_order("z-order")
    assert points[:8] == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([None, -(2**62), -1, 0, 1, 2**62]),
        pa.array([None, float("-inf"), -1.5, 0.0, 2.5, float("inf")]),
        pa.array([None, Decimal("-1.50"), Decimal("0.00"), Decimal("12.25")]),
        pa.array([None, "", "a", "ab", "b"]),
        pa.array([None, date(1900, 1, 1), date(1970, 1, 1), date(2024, 3, 1)]),
        pa.array([None, -1, 0, 1_700_000_000_000_000], pa.timestamp("us", "UTC")),
        pa.array([False, True]),
    ],
)
def test_one_column_keeps_its_order_with_nulls_first(column: pa.Array) -> None:
    same = pa.array(np.zeros(len(column), np.int64))
    for curve in ("z-order", "hilbert"):
        values = curve_values([column, same], ["c", "same"], curve).to_pylist()
        if curve == "z-order":
            assert values == sorted(values)
        assert len(set(values)) >= len(column) - (1 if column[0].as_py() is None else 0)


def test_a_column_without_an_order_is_refused() -> None:
    with pytest.raises(UnsupportedTableError, match="'tags' of type list"):
        curve_values([pa.array([[1]])], ["tags"], "z-order")
