"""Refreshes of few rows, whose changes the driver finds without a MERGE."""

from __future__ import annotations

import decimal
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from hudisql.errors import QueryError
from hudisql.read.changes.row_multisets import equal_row_numbers
from hudisql.session import Session
from hudisql.spark.jvm import scala_object
from hudisql.spark.versions import to_arrow
from hudisql.sql.incremental_tables import driver_changes, maintained_columns
from tests.spark_versions import needs_spark
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
    row, jobs = refreshed_with_jobs(layers)
    assert (row["rows_inserted"], row["rows_updated"], row["rows_deleted"]) == (2, 1, 1)
    assert 1 <= jobs <= 6
    assert_fresh(layers, query)
    layers.sql("UPDATE orders SET amount = 10 % (amount - 11) WHERE id = 2")
    layers.sql("INSERT INTO customers VALUES (9, 'new', '')")
    row, jobs = refreshed_with_jobs(layers)
    assert (row["rows_inserted"], row["rows_updated"], row["rows_deleted"]) == (0, 2, 0)
    assert 1 <= jobs <= 8
    assert_fresh(layers, query)


@pytest.mark.spark
@pytest.mark.hms
def test_rows_of_affected_values_are_chosen_before_they_are_joined(
    layers: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "SELECT o.id, upper(c.region) AS region FROM orders o JOIN customers c ON o.customer = c.id"
    layers.sql(f"CREATE INCREMENTAL TABLE t KEY (id) AS {query}")
    layers.sql("UPDATE orders SET customer = 2 WHERE id = 1")
    queries: list[Any] = []

    def collect(rows: Any) -> pa.Table:
        queries.append(rows)
        return to_arrow(rows)

    monkeypatch.setattr(driver_changes, "to_arrow", collect)
    # Nor does Spark see the values: `id` is a column of the source.
    monkeypatch.setattr(maintained_columns, "distinct_values", None)
    refresh(layers)
    (rows,) = queries
    nodes = [line.lstrip(":+- ") for line in str(rows._jdf.queryExecution().optimizedPlan()).splitlines()]
    joins = [line.split(",")[0] for line in nodes if line.startswith("Join")]
    assert joins == ["Join Inner", "Join LeftSemi"]
    assert_fresh(layers, query)


@pytest.mark.spark
@pytest.mark.hms
def test_spark_compiles_no_code_for_other_values(layers: Session) -> None:
    query = (
        "SELECT o.id, o.amount + 1 AS amount, c.region FROM orders o JOIN customers c ON o.customer = c.id"
    )
    layers.sql(f"CREATE INCREMENTAL TABLE t KEY (id) AS {query}")
    metrics = scala_object(layers.spark, "org.apache.spark.metrics.source.CodegenMetrics")
    compiled = []
    for number in (1, 2, 3):
        layers.sql(f"UPDATE orders SET amount = {number} WHERE id = {number}")
        before = metrics.METRIC_COMPILATION_TIME().getCount()
        row, _ = refreshed_with_jobs(layers)
        assert row["rows_updated"] == 1
        compiled.append(metrics.METRIC_COMPILATION_TIME().getCount() - before)
    assert compiled[1:] == [0, 0]
    assert_fresh(layers, query)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.hms
def test_groups_of_all_types_are_found_and_log_files_merged(layers: Session) -> None:
    query = (
        "SELECT amount > 15 AS is_large, CAST(amount AS DECIMAL(6, 1)) AS exact, "
        "to_date('2026-01-01') + amount AS date, timestamp_seconds(amount) AS time, note, "
        "CAST(sum(amount) AS DOUBLE) / nullif(max(id) - 2, 0) AS mean FROM orders GROUP BY 1, 2, 3, 4, 5"
    )
    layers.sql(f"CREATE INCREMENTAL TABLE t TBLPROPERTIES (type = 'mor') AS {query}")
    for change in ("UPDATE orders SET amount = 10", "DELETE FROM orders WHERE id < 3"):
        layers.sql(change)
        _, jobs = refreshed_with_jobs(layers)
        assert 1 <= jobs <= 6
        assert_fresh(layers, query)


@pytest.mark.spark
@pytest.mark.hms
@needs_spark("4.0", "ANSI mode by default")
def test_an_error_in_a_row_is_the_query_error_that_spark_says(layers: Session) -> None:
    layers.sql("CREATE INCREMENTAL TABLE t AS SELECT id, 100 / (amount - 15) AS part FROM orders")
    layers.sql("UPDATE orders SET amount = 15 WHERE id = 1")
    with pytest.raises(QueryError, match="zero"):
        refresh(layers)


def refreshed_with_jobs(session: Session) -> tuple[dict[str, Any], int]:
    """The row of a refresh, and how many Spark jobs it ran."""
    context: Any = session.spark.sparkContext
    tag = f"refreshed-{uuid4().hex}"
    context.addJobTag(tag)
    try:
        row = refresh(session)
    finally:
        context.removeJobTag(tag)
    jobs = context._jsc.sc().statusStore().jobsList(None)
    return row, sum(tag in str(jobs.apply(at).jobTags()) for at in range(jobs.size()))
