"""The affected values of a refresh: each once, on the driver as long as they are few."""

from __future__ import annotations

from contextlib import ExitStack
from math import isnan
from typing import Any
from unittest import mock

import pytest

from hudisql.sql.incremental_tables import maintained_columns
from hudisql.sql.incremental_tables.maintained_columns import distinct_values

pytestmark = pytest.mark.spark

VALUES = "VALUES (1, 'a', 1.50BD), (1, 'a', 1.50BD), (NULL, '', 2BD), (NULL, '', 2BD), (NULL, NULL, 2BD)"


def test_equal_values_are_there_once_and_null_is_no_empty_text(spark: Any) -> None:
    with ExitStack() as resources:
        frame, few = distinct_values(spark.sql(f"SELECT * FROM {VALUES}"), resources)
        assert few is not None
        assert few.num_rows == 3
        assert {tuple(row) for row in frame.collect()} == {tuple(row.values()) for row in few.to_pylist()}
        assert [row["col2"] for row in few.to_pylist() if row["col1"] is None].count(None) == 1


def test_floating_numbers_are_equal_as_in_spark(spark: Any) -> None:
    text = "SELECT * FROM VALUES (0.0D), (-0.0D), (double('NaN')), (double('NaN'))"
    with ExitStack() as resources:
        _, few = distinct_values(spark.sql(text), resources)
        assert few is not None
        zero, nan = sorted(few.column(0).to_pylist(), key=isnan)
        assert str(zero) == "0.0"
        assert isnan(nan)


def test_more_than_few_stay_in_spark_and_are_kept(spark: Any) -> None:
    with mock.patch.object(maintained_columns, "MOST_VALUES", 2), ExitStack() as resources:
        frame, few = distinct_values(spark.sql(f"SELECT * FROM {VALUES}"), resources)
        assert few is None
        assert frame.is_cached
        assert frame.count() == 3
    assert not frame.is_cached
