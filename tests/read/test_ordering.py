"""Ordering values compare as Java's do."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudisql.read.ordering import comparable


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
