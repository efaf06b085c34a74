"""Refreshes of few rows, whose changes the driver finds without a MERGE."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest

from hudisql.session import Session
from hudisql.sql.incremental_tables.driver_changes import equal_row_numbers
from tests.sql.incremental_tables.refreshed import assert_fresh, refresh


def test_rows_are_equal_by_all_columns_with_nulls_equal() -> None:
    number = decimal.Decimal("1.50")
    one = pa.table({"a": ["x", None, "x", ""], "b": pa.array([number, number, None, None])})
    two = pa.table({"a": ["x", None, "y"], "b": pa.array([None, number, None], one.schema.field("b").type)})
    found, others = (each.tolist() for each in equal_row_numbers([one, two]))
    assert len(set(found)) == 4
    assert others[:2] == [found[2], found[1]]
    assert others[2] not in found
    assert [each.tolist() for each in equal_row_numbers([one.slice(0, 0), two.slice(0, 0)])] == [[], []]


@pytest.mark.spark
@pytest.mark.hms
def test_a_small_refresh_runs_only_the_query_in_spark(layers: Session) -> None:
    query = "SELECT o.id, o.amount, c.region, o.day FROM orders o LEFT JOIN customers c ON o.customer = c.id"
    layers.sql(f"CREATE INCREMENTAL TABLE t KEY (id) PARTITIONED BY (day) AS {query}")
    layers.sql("UPDATE orders SET amount = 11, day = 'sun' WHERE id = 1")
    layers.sql("UPDATE orders SET amount = 21 WHERE id = 2")
    layers.sql("DELETE FROM orders WHERE id = 3")
    layers.sql("INSERT INTO orders VALUES (5, 2, NULL, 50, 'e'), (6, 9, 'mon', NULL, 'f')")
    context = layers.spark.sparkContext
    context.addJobTag("refreshed")
    try:
        row = refresh(layers)
        executions = context._jsc.sc().statusStore().jobsList(None)
        jobs = sum("refreshed" in str(executions.apply(at).jobTags()) for at in range(executions.size()))
    finally:
        context.removeJobTag("refreshed")
    assert (row["rows_inserted"], row["rows_updated"], row["rows_deleted"]) == (2, 1, 1)
    assert 1 <= jobs <= 6
    assert_fresh(layers, query)
