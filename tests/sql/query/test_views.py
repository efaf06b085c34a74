"""Views over Hudi tables: stored by Spark or Hive, temporary, nested; the user's text is what is stored."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hudisql.context import Context
from hudisql.errors import QueryError, UnsupportedStatementError
from hudisql.sql.dispatch import execute
from hudisql.sql.query.query_plan import create_view, prepare_query, references_hudi, run_query
from hudisql.sql.text.script import split_script
from hudisql.sql.text.statements import Statement
from tests.sources import fingerprint
from tests.spark_versions import needs_spark
from tests.sql.conftest import TablesInMemory

MIGRATING = Path(__file__).parents[3] / "docs" / "migrating.md"

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("golden_tables")]


@pytest.fixture
def view_database(spark: Any) -> Iterator[str]:
    spark.sql("CREATE DATABASE views")
    yield "views"
    spark.sql("DROP DATABASE views CASCADE")
    for view in spark.catalog.listTables():
        if view.isTemporary:
            spark.catalog.dropTempView(view.name)


def rows(context: Context, text: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in run_query(context, text).collect())


def test_a_created_view_keeps_the_users_text_and_settings_and_answers_by_its_name(
    context: Context, spark: Any, view_database: str
) -> None:
    query = "SELECT id, db.t.seq + 1, -- all\n dt  FROM /* of */ db.t"
    create_view(
        context, f"CREATE VIEW {view_database}.v (k COMMENT 'the key', `next seq`, dt) COMMENT 'c' AS {query}"
    )
    stored = spark.sql(f"DESCRIBE EXTENDED {view_database}.v").collect()
    assert ("k", "string", "the key") in [tuple(row) for row in stored]
    assert query in [row[1] for row in stored]
    assert references_hudi(context, f"SELECT * FROM {view_database}.v")
    text = f"SELECT V.k, v.`next seq` FROM {view_database}.V WHERE k = 'k000001' AND views.v.dt > '2024'"
    assert rows(context, text) == [("k000001", 2)]
    prepared = prepare_query(context, Statement(f"SELECT k FROM {view_database}.v WHERE dt = '2024-03-02'"))
    (scan,) = prepared.scans
    assert scan.plan is not None
    assert scan.plan.columns.names == ["id", "dt"]
    assert scan.plan.partitions_read == 1


def test_views_nest_across_databases_and_resolve_names_where_they_were_made(
    context: Context, spark: Any, view_database: str
) -> None:
    spark.sql(f"CREATE TABLE {view_database}.plain USING parquet AS SELECT 'k000002' AS id, 5 AS x")
    spark.catalog.setCurrentDatabase(view_database)
    try:
        create_view(
            context, "CREATE VIEW inner_view AS SELECT n.id, p.x FROM db.n JOIN plain p ON n.id = p.id"
        )
        create_view(
            context,
            "CREATE VIEW outer_view AS SELECT o.id AS a, x FROM inner_view o "
            "UNION ALL SELECT plain.id, 0 FROM plain",
        )
    finally:
        spark.catalog.setCurrentDatabase("default")
    expected = [("k000002", 0), ("k000002", 5)]
    assert rows(context, f"SELECT * FROM {view_database}.outer_view") == expected
    assert rows(
        context,
        f"SELECT outer_view.a, (SELECT max(x) FROM views.inner_view) "
        f"FROM {view_database}.outer_view WHERE x = 0",
    ) == [("k000002", 5)]


def test_a_view_runs_with_the_settings_it_was_made_with(
    context: Context, spark: Any, view_database: str
) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        create_view(
            context, f"CREATE VIEW {view_database}.lenient AS SELECT CAST(id AS INT) c FROM db.t LIMIT 1"
        )
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")
    assert rows(context, f"SELECT c FROM {view_database}.lenient") == [(None,)]
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


def test_a_view_s_settings_are_seen_by_no_other_thread_and_the_session_s_not_by_the_view(
    context: Context, spark: Any, view_database: str
) -> None:
    cast = "SELECT CAST(id AS INT) c FROM db.t LIMIT 1"
    with_setting = {"lenient": "false", "strict": "true"}
    for name, value in with_setting.items():
        spark.conf.set("spark.sql.ansi.enabled", value)
        create_view(context, f"CREATE VIEW {view_database}.{name} AS {cast}")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    kept: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            kept.append(spark.conf.get("spark.sql.ansi.enabled"))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(3):
            assert rows(context, f"SELECT c FROM {view_database}.lenient") == [(None,)]
            with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
                rows(context, f"SELECT CAST('x' AS INT) a, c FROM {view_database}.lenient")
    finally:
        done.set()
        looking.join()
    assert set(kept) == {"true"}
    spark.conf.unset("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
            rows(context, f"SELECT c FROM {view_database}.strict")
        assert rows(context, cast) == [(None,)]
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")


def test_a_view_that_hive_stored_is_read_by_its_expanded_text(
    context: Context, tables: TablesInMemory
) -> None:
    tables.add_hive_view(
        "db",
        "hv",
        "select `t`.`id` as `key`, `t`.`seq` from `db`.`t` where `t`.`seq` < 1",
        {"key": "string", "seq": "bigint"},
    )
    frame = run_query(context, "SELECT hv.key, seq FROM db.hv WHERE key = 'k000000'")
    assert [tuple(row) for row in frame.collect()] == [("k000000", 0)]
    assert frame.schema.simpleString() == "struct<key:string,seq:bigint>"


def test_a_temporary_view_keeps_its_text_and_hides_a_table(
    context: Context, spark: Any, view_database: str
) -> None:
    create_view(context, "CREATE TEMPORARY VIEW t AS SELECT id FROM db.t WHERE seq = 0 AND dt = '2024-03-01'")
    create_view(context, "CREATE OR REPLACE GLOBAL TEMPORARY VIEW g AS SELECT max(id) m FROM t")
    assert rows(context, "SELECT count(t.id) FROM t") == rows(
        context, "SELECT count(*) FROM db.t WHERE seq = 0 AND dt = '2024-03-01'"
    )
    assert rows(context, "SELECT m FROM global_temp.g") == rows(context, "SELECT max(id) FROM t")
    spark.range(3).createOrReplaceTempView("n")
    spark.catalog.setCurrentDatabase(view_database)
    assert not references_hudi(context, "SELECT * FROM n")
    spark.catalog.setCurrentDatabase("default")


def test_a_view_whose_table_lost_a_column_says_so(context: Context, tables: TablesInMemory) -> None:
    tables.add_hive_view("db", "odd", "select ((id from", {"id": "string"})
    with pytest.raises(QueryError, match=r"the view db\.odd"):
        run_query(context, "SELECT * FROM db.odd")
    tables.add_hive_view("db", "narrow", "select `t`.`id` from `db`.`t`", {"id": "string", "gone": "int"})
    with pytest.raises(QueryError, match=r"db\.narrow has 2 columns, its query now gives 1"):
        run_query(context, "SELECT * FROM db.narrow")


def test_views_in_a_circle_and_time_travel_on_views_are_refused(
    context: Context, tables: TablesInMemory
) -> None:
    tables.add_hive_view("db", "a", "select * from db.b", {"id": "string"})
    tables.add_hive_view("db", "b", "select * from db.a", {"id": "string"})
    with pytest.raises(UnsupportedStatementError, match="circle"):
        run_query(context, "SELECT * FROM db.a")
    tables.add_hive_view("db", "c", "select id from db.t", {"id": "string"})
    with pytest.raises(UnsupportedStatementError, match=r"view db\.c"):
        run_query(context, "SELECT * FROM db.c TIMESTAMP AS OF '2024-01-01'")


def test_alter_view_stores_the_new_query(context: Context, view_database: str) -> None:
    create_view(context, f"CREATE VIEW {view_database}.v AS SELECT id FROM db.t")
    create_view(context, f"ALTER VIEW {view_database}.v AS SELECT seq FROM db.n WHERE seq = 0 LIMIT 1")
    assert rows(context, f"SELECT * FROM {view_database}.v") == [(0,)]


def test_a_permanent_view_reads_neither_a_temporary_view_nor_itself(
    context: Context, spark: Any, view_database: str
) -> None:
    spark.range(3).createOrReplaceTempView("passing")
    with pytest.raises(UnsupportedStatementError, match="temporary view passing"):
        create_view(context, f"CREATE VIEW {view_database}.v AS SELECT t.id FROM db.t, passing")
    create_view(context, f"CREATE VIEW {view_database}.v AS SELECT id FROM db.t")
    create_view(context, f"CREATE VIEW {view_database}.w AS SELECT id FROM {view_database}.v")
    with pytest.raises(UnsupportedStatementError, match="would read itself"):
        create_view(context, f"CREATE OR REPLACE VIEW {view_database}.V AS SELECT id FROM {view_database}.w")
    with pytest.raises(QueryError, match="ALREADY_EXISTS"):
        create_view(context, f"CREATE VIEW {view_database}.v AS SELECT seq FROM db.t")
    assert run_query(context, f"SELECT * FROM {view_database}.v").columns == ["id"]


@pytest.mark.hms
def test_views_of_spark_and_hive_in_a_real_metastore_nest(session: Any, golden: Callable[[str], Any]) -> None:
    from hudisql.catalog.metastore_table import MetastoreColumn, MetastoreTable

    session.sql("CREATE DATABASE stored")
    try:
        path = golden("cow_bootstrap_meta").table
        session.sql(f"CALL hive_sync(table => 'stored.t', path => '{path}')")
        session.sql("CREATE VIEW stored.s (k, n) AS SELECT id, seq FROM stored.t WHERE dt = '2024-03-01'")
        entry = session.context.metastore.get_table("stored", "s")
        assert entry.view_text == "SELECT id, seq FROM stored.t WHERE dt = '2024-03-01'"
        session.context.metastore.create_table(
            MetastoreTable(
                database="stored",
                name="h",
                table_type="VIRTUAL_VIEW",
                location=None,
                columns=(MetastoreColumn("k", "string"), MetastoreColumn("n", "bigint")),
                input_format="org.apache.hadoop.mapred.TextInputFormat",
                output_format="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
                view_original_text="select k, n from s where n > 3",
                view_text="select `s`.`k`, `s`.`n` from `stored`.`s` where `s`.`n` > 3",
            )
        )
        direct = session.sql(
            "SELECT max(id), count(*) FROM stored.t WHERE dt = '2024-03-01' AND seq > 3"
        ).rows
        assert session.sql("SELECT max(h.k), count(*) FROM stored.h").rows == direct
        assert (
            session.sql("SELECT * FROM stored.h LIMIT 1").schema.simpleString() == "struct<k:string,n:bigint>"
        )
    finally:
        for statement in (
            "DROP VIEW IF EXISTS stored.h",
            "DROP VIEW IF EXISTS stored.s",
            "DROP TABLE IF EXISTS stored.t",
        ):
            session.sql(statement)
        session.sql("DROP DATABASE stored")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {v} SET seq = 1",
        "DELETE FROM {v} WHERE seq = 1",
        "INSERT INTO {v} SELECT * FROM {v}",
        "MERGE INTO {v} USING (SELECT 1 AS i) s ON {v}.seq = s.i WHEN MATCHED THEN DELETE",
        "EXPLAIN UPDATE {v} SET seq = 1",
    ],
)
def test_a_change_of_a_view_s_rows_names_the_view_and_the_table_below_it(
    context: Context, tables: TablesInMemory, statement: str
) -> None:
    tables.add_hive_view("db", "v", "SELECT `id`, `seq` FROM `db`.`t`", {"id": "string", "seq": "int"})
    tables.add_hive_view("db", "outer_v", "SELECT * FROM `db`.`v`", {"id": "string", "seq": "int"})
    create_view(context, "CREATE TEMPORARY VIEW passing AS SELECT * FROM db.n")
    try:
        for view, shown, table in (
            ("db.v", "db.v", "db.t"),
            ("db.outer_v", "db.outer_v", "db.t"),
            ("passing", "passing", "db.n"),
        ):
            with pytest.raises(UnsupportedStatementError) as refused:
                execute(context, statement.replace("{v}", view))
            assert f"on {shown}, which is a view of {table}: nothing was run" in refused.value.message
            assert refused.value.hint == f"name the table itself: {table}"
    finally:
        context.spark.catalog.dropTempView("passing")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {v} SET id = 1",
        "DELETE FROM {v} WHERE id = 1",
        "MERGE INTO {v} USING (SELECT 1 AS i) s ON {v}.id = s.i WHEN MATCHED THEN DELETE",
        "EXPLAIN DELETE FROM {v}",
    ],
)
def test_a_change_of_a_temporary_view_s_rows_says_that_it_is_one(context: Context, statement: str) -> None:
    context.spark.range(2).createOrReplaceTempView("passing")
    context.spark.range(2).createOrReplaceGlobalTempView("passing")
    try:
        for view in ("passing", "global_temp.passing"):
            with pytest.raises(UnsupportedStatementError) as refused:
                execute(context, statement.replace("{v}", view))
            assert f"on {view}, which is a temporary view: nothing was run" in refused.value.message
            assert f"AS SELECT * FROM {view} makes" in (refused.value.hint or "")
    finally:
        context.spark.catalog.dropTempView("passing")
        context.spark.catalog.dropGlobalTempView("passing")


@needs_spark("4.0", "SELECT * EXCEPT")
def test_the_view_that_migrating_md_advises_carries_the_old_name(session: Any, tmp_path: Path) -> None:
    """The document's statements run as they stand, the source's files stay, and no meta column shows."""
    snippets = re.findall(r"```sql\n(.*?)```", MIGRATING.read_text(), re.DOTALL)
    advised = [text for text in snippets if "VIEW legacy.orders AS" in text]
    assert len(advised) == 2
    source = tmp_path / "orders"
    session.sql("CREATE DATABASE legacy")
    session.sql("CREATE DATABASE lake")
    session.sql(
        "CREATE EXTERNAL TABLE legacy.orders (id BIGINT, amount DOUBLE) PARTITIONED BY (dt STRING) "
        f"STORED AS PARQUET LOCATION '{source}'"
    )
    session.sql("INSERT INTO legacy.orders PARTITION (dt = 'a') SELECT id, id / 2 FROM range(5)")
    session.sql(
        "CALL bootstrap_table(table => 'lake.orders', source_table => 'legacy.orders', record_key => 'id', "
        f"target_path => '{tmp_path / 'table'}')"
    )
    before = fingerprint(source)
    for text in advised:
        for statement in split_script(text):
            session.sql(statement.text)
        shown = session.sql("SELECT * FROM legacy.orders ORDER BY id")
        assert shown.arrow().column_names == ["id", "amount", "dt"]
        assert [tuple(row) for row in shown.rows] == [(number, number / 2, "a") for number in range(5)]
    assert fingerprint(source) == before
    session.sql("UPDATE lake.orders SET amount = -1 WHERE id = 3")
    assert session.sql("SELECT amount FROM legacy.orders WHERE id = 3").rows[0][0] == -1
    for text in (
        *("DROP VIEW legacy.orders", "DROP TABLE legacy.orders_files", "DROP TABLE lake.orders"),
        *("DROP DATABASE legacy", "DROP DATABASE lake"),
    ):
        session.sql(text)
