"""Queries over Hudi tables give what Spark gives for the same text over plain copies of the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hudisql.context import Context
from hudisql.errors import QueryError, UnsupportedStatementError
from hudisql.sql.query.query_plan import prepare_query, references_hudi, run_query
from hudisql.sql.text.script import split_script
from hudisql.sql.text.spark_errors import SourceText
from hudisql.sql.text.statements import Statement
from tests.spark_versions import needs_spark
from tests.sql.conftest import TablesInMemory

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("golden_tables")]

QUERIES = [each.text for each in split_script((Path(__file__).parent / "queries.sql").read_text())]
OF_NEWER_PARSERS = ("|>", "EXCEPT (")


def rows_of(frame: Any) -> list[str]:
    return sorted(map(repr, frame.collect()))


@pytest.mark.usefixtures("plain_tables")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, marks=needs_spark("4.0" if word else "3.5", f"queries with {word}"))
        for text in QUERIES
        for word in [next((each for each in OF_NEWER_PARSERS if each in text), "")]
    ],
)
def test_a_query_gives_what_spark_gives_over_plain_copies(context: Context, spark: Any, text: str) -> None:
    frame = run_query(context, text)
    expected = spark.sql(text)
    assert frame.columns == expected.columns
    assert rows_of(frame) == rows_of(expected)
    assert references_hudi(context, text)
    assert not [view for view in spark.catalog.listTables() if view.isTemporary]


@pytest.fixture
def target_database(spark: Any) -> Iterator[None]:
    spark.sql("CREATE DATABASE target")
    yield
    spark.sql("DROP DATABASE target CASCADE")


def test_each_reference_to_a_table_has_its_own_columns_and_filters(context: Context) -> None:
    prepared = prepare_query(
        context,
        Statement(
            "SELECT a.st.b, c._hoodie_file_name FROM db.t a "
            "JOIN (SELECT id, _hoodie_file_name FROM db.t WHERE dt = '2024-03-03') c "
            "ON a.id = c.id WHERE a.seq IN (SELECT max(seq) FROM db.t WHERE fare < 5)"
        ),
    )
    first, second, third = (scan.plan for scan in prepared.scans)
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.columns.names, first.mode, first.partitions_read) == (["id", "seq", "st"], "native", 3)
    assert [field.name for field in first.columns.field("st").type] == ["b"]
    assert (second.columns.names, second.mode) == (["_hoodie_file_name", "id", "dt"], "stitched")
    assert second.partitions_read == 1
    assert third.columns.names == ["seq", "fare"]
    assert "fare < 5.0" in str(third.predicate)


@pytest.mark.parametrize(
    ("condition", "partitions"),
    [
        ("dt = '2024-03-02'", 1),
        ("dt > '2024-03-01' AND seq = 1", 2),
        ("(dt = '2024-03-01' AND seq = 1) OR (dt = '2024-03-03' AND seq = 2)", 2),
        ("dt = DATE'2024-03-02'", 1),
        ("substr(dt, 9) = '03' OR right(dt, 1) = '1'", 2),
        ("year(dt) = 2023", 0),
        ("exists(array(dt), each -> each = '2024-03-02')", 1),
        ("dt IN (SELECT max(dt) FROM db.n, (SELECT '2024-03-01' AS dt))", 3),
        ("rand() < 2", 3),
        ("_hoodie_partition_path IN ('dt=2024-03-01', 'dt=2024-03-03', 'none')", 2),
        ("_hoodie_partition_path > 'dt=2024-03-02' AND seq > 1", 1),
        ("_hoodie_partition_path = 'dt=2024-03-01' OR seq = 1", 3),
    ],
)
def test_filters_on_partition_columns_prune_partitions(
    context: Context, condition: str, partitions: int
) -> None:
    prepared = prepare_query(context, Statement(f"SELECT id FROM db.t WHERE {condition}"))
    plan = prepared.scans[0].plan
    assert plan is not None
    assert plan.partitions_read == partitions


def test_a_tables_metadata_and_the_metastore_are_asked_once_a_statement(
    context: Context, golden_tables: TablesInMemory
) -> None:
    prepared = prepare_query(
        context, Statement("SELECT a.id FROM db.t a, db.T b, (SELECT max(t.id) FROM DB.t) c")
    )
    assert golden_tables.asked == ["db.t"]
    assert len({id(scan.table) for scan in prepared.scans}) == 1


@pytest.mark.usefixtures("target_database")
def test_plain_tables_are_filled_from_hudi_tables(context: Context, spark: Any) -> None:
    expected = rows_of(run_query(context, "SELECT id, st FROM db.t WHERE seq = 1"))
    run_query(context, "CREATE TABLE target.made USING parquet AS SELECT id, st FROM db.t WHERE seq = 1")
    assert rows_of(spark.table("target.made")) == expected
    run_query(context, "INSERT OVERWRITE target.made SELECT id, st FROM db.n WHERE seq = 2")
    assert rows_of(spark.table("target.made")) == rows_of(
        run_query(context, "SELECT id, st FROM db.n WHERE n.seq = 2")
    )
    spark.sql("CREATE TABLE target.low (id STRING, seq INT) USING parquet")
    spark.sql("CREATE TABLE target.high (seq INT, id STRING) USING parquet")
    run_query(
        context,
        "FROM db.t INSERT INTO target.low SELECT id, seq WHERE t.seq < 2 "
        "INSERT INTO target.high (id, seq) SELECT id, db.t.seq WHERE seq >= (SELECT max(seq) FROM db.n)",
    )
    run_query(
        context, "WITH c AS (SELECT 'x' AS id, -1 AS seq FROM db.n LIMIT 1) INSERT INTO target.low TABLE c"
    )
    counts = run_query(
        context,
        "SELECT (SELECT count(*) FROM target.low) - 1 = (SELECT count(*) FROM db.t WHERE seq < 2), "
        "(SELECT max(seq) = min(seq) AND min(id) LIKE 'k%' FROM target.high)",
    )
    assert [tuple(row) for row in counts.collect()] == [(True, True)]


def test_a_cached_query_outlives_the_statement(context: Context, spark: Any) -> None:
    run_query(context, "CACHE TABLE kept AS SELECT id, seq FROM db.t WHERE seq = 3")
    try:
        assert spark.catalog.isCached("kept")
        assert run_query(context, "SELECT min(seq), max(seq) FROM kept").collect()[0] == (3, 3)
        with pytest.raises(UnsupportedStatementError, match="cached"):
            run_query(context, "CACHE TABLE db.t")
        run_query(context, "CACHE LAZY TABLE `kept too` AS SELECT id FROM db.t")
        assert spark.catalog.isCached("`kept too`")
    finally:
        spark.sql("UNCACHE TABLE kept")
        spark.sql("UNCACHE TABLE IF EXISTS `kept too`")
        spark.sql("DROP VIEW IF EXISTS `kept too`")
        spark.catalog.dropTempView("kept")


def test_time_travel_goes_by_timestamp(
    context: Context, golden_tables: TablesInMemory, golden: Callable[[str], Any]
) -> None:
    table = golden("cow_bootstrap_then_upsert_delete")
    golden_tables.add_hudi_table("db", "changed", table.table)
    before = "SELECT count(*) FROM db.changed TIMESTAMP AS OF '{}' c WHERE c.id IS NOT NULL"
    (then,) = run_query(context, before.format("2024-01-01")).collect()[0]
    (instant,) = run_query(context, before.format("00000000000001")).collect()[0]
    (now,) = run_query(
        context, "SELECT count(*) FROM db.changed FOR TIMESTAMP AS OF current_timestamp()"
    ).collect()[0]
    assert now == len(table.rows)
    assert then == instant == 600


@needs_spark("4.0", "SELECT … FROM t WITH (…)")
def test_options_of_a_table_are_refused(context: Context) -> None:
    with pytest.raises(UnsupportedStatementError, match="takes no options"):
        run_query(context, "SELECT * FROM db.t WITH ('a' = 'b')")


def test_errors_show_the_users_names_and_places(context: Context, spark: Any) -> None:
    text = "SELECT db.t.id,\n  nope FROM db.t JOIN db2.t ON db.t.id = db2.t.id"
    with pytest.raises(QueryError) as caught:
        run_query(context, text, SourceText(text, line=7, column=1))
    assert "nope" in caught.value.message
    assert "__hudisql" not in caught.value.message
    assert "line 8, column 3" in caught.value.message
    assert not [view for view in spark.catalog.listTables() if view.isTemporary]
    with pytest.raises(QueryError, match="TABLE_OR_VIEW_NOT_FOUND"):
        run_query(context, "SELECT * FROM db.t, db.absent")


def test_statements_without_hudi_tables_go_to_spark_as_they_are(context: Context, spark: Any) -> None:
    spark.range(3).createOrReplaceTempView("t")
    try:
        assert not references_hudi(context, "WITH n AS (SELECT 1 AS x) SELECT * FROM t, n")
        assert run_query(context, "SELECT sum(t.id) FROM t").collect() == [(3,)]
    finally:
        spark.catalog.dropTempView("t")


def test_a_hudi_table_is_read_by_its_path(context: Context, golden: Callable[[str], Any]) -> None:
    path = golden("cow_bootstrap_meta").table
    assert run_query(context, f"SELECT count(*) FROM hudi.`{path}` WHERE dt = '2024-03-01'").collect() == [
        (200,)
    ]


@needs_spark("4.0", "SQL functions")
@pytest.mark.usefixtures("plain_tables")
def test_a_hudi_table_hidden_in_a_sql_function_is_refused_and_not_read_wrong(
    context: Context, spark: Any
) -> None:
    spark.sql("CREATE TEMPORARY FUNCTION newest() RETURNS INT RETURN (SELECT max(seq) FROM db.t)")
    try:
        for text in ("SELECT newest()", "SELECT id FROM db.n WHERE seq = newest()"):
            with pytest.raises(UnsupportedStatementError, match="SQL function"):
                run_query(context, text)
    finally:
        spark.sql("DROP TEMPORARY FUNCTION newest")
