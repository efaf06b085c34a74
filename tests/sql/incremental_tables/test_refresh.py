"""Incremental tables equal their query after each refresh, and say in which way they were refreshed."""

from __future__ import annotations

import pytest

from hudisql.errors import (
    InvalidArgumentError,
    RepeatedKeysError,
    UnsupportedStatementError,
    WriteConflictError,
)
from hudisql.session import Session
from hudisql.spark import versions
from hudisql.sql.incremental_tables.refresh import RefreshPlan, run_refresh
from hudisql.write.execution.commit_files import WriteResult
from tests.spark_versions import needs_spark
from tests.sql.incremental_tables.refreshed import assert_fresh, refresh

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def test_rows_that_leave_a_filter_are_deleted(layers: Session) -> None:
    query = "SELECT id, amount * 2 AS twice, note FROM orders WHERE amount > 15"
    layers.sql(f"CREATE INCREMENTAL TABLE t AS {query}")
    assert_fresh(layers, query)
    assert refresh(layers)["way"] == "nothing"
    layers.sql("UPDATE orders SET amount = 5 WHERE id = 2")
    layers.sql("UPDATE orders SET amount = 50 WHERE id = 1")
    layers.sql("DELETE FROM orders WHERE id = 3")
    layers.sql("INSERT INTO orders VALUES (9, 1, 'sun', 99, 'z')")
    explained = {row["fact"]: row["value"] for row in layers.sql("EXPLAIN REFRESH INCREMENTAL TABLE t").rows}
    assert explained["way"] == "rows"
    assert (explained["rows to write"], explained["rows to delete"]) == ("2", "2")
    row = refresh(layers)
    assert (row["way"], row["rows_inserted"], row["rows_updated"], row["rows_deleted"]) == ("rows", 2, 0, 2)
    assert_fresh(layers, query)


def test_only_the_groups_of_changed_rows_are_recomputed(layers: Session) -> None:
    query = "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"
    layers.sql(f"CREATE INCREMENTAL TABLE t AS {query}")
    layers.sql("UPDATE orders SET customer = 3 WHERE id = 3")
    explained = {row["fact"]: row["value"] for row in layers.sql("EXPLAIN REFRESH INCREMENTAL TABLE t").rows}
    assert explained["recomputed"] == "rows of 2 values of customer"
    # Four orders, two groups of the table, and the two values.
    assert explained["rows to read"] == "8"
    row = refresh(layers)
    assert (row["way"], row["rows_updated"], row["rows_deleted"]) == ("groups", 1, 1)
    assert_fresh(layers, query)


@pytest.mark.soak
def test_whole_partitions_that_are_deleted_leave_the_incremental_tables(layers: Session) -> None:
    layers.sql(
        "CREATE TABLE sold (id INT, amount INT, day STRING) USING hudi PARTITIONED BY (day) "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    layers.sql("INSERT INTO sold VALUES (1, 10, 'mon'), (2, 20, 'mon'), (3, 30, 'tue'), (4, 40, 'wed')")
    queries = {
        "t": "SELECT id, amount, day FROM sold WHERE amount > 5",
        "total": "SELECT day, sum(amount) AS total FROM sold GROUP BY day",
    }
    for name, query in queries.items():
        layers.sql(f"CREATE INCREMENTAL TABLE {name} AS {query}")
    assert layers.sql("DELETE FROM sold WHERE day = 'mon'").rows[0]["files_written"] == 0
    layers.sql("INSERT INTO sold VALUES (5, 50, 'mon')")
    [row, total] = [refresh(layers, name) for name in queries]
    assert (row["way"], row["rows_inserted"], row["rows_deleted"]) == ("rows", 1, 2)
    assert (total["way"], total["rows_updated"], total["rows_deleted"]) == ("groups", 1, 0)
    for name, query in queries.items():
        assert_fresh(layers, query, name)
    layers.sql("DELETE FROM sold")
    for name, query in queries.items():
        assert refresh(layers, name)["way"] != "whole"
        assert_fresh(layers, query, name)


def test_what_is_not_followed_is_run_as_a_whole_and_says_why(layers: Session) -> None:
    query = "SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 2"
    layers.sql(f"CREATE INCREMENTAL TABLE t KEY (id) AS {query}")
    layers.sql("UPDATE orders SET amount = 100 WHERE id = 1")
    row = refresh(layers)
    assert (row["way"], row["reason"]) == ("whole", "changes are not followed through 'GlobalLimit'")
    assert_fresh(layers, query)


def test_definition_is_shown_changed_and_dropped(layers: Session) -> None:
    layers.sql(
        "CREATE INCREMENTAL TABLE t KEY (id) PARTITIONED BY (day) AS SELECT id, amount, day FROM orders"
    )
    text = layers.sql("SHOW CREATE TABLE t").rows[0][0]
    layers.sql(text.replace("`t`", "`t2`", 1))
    assert layers.sql("SHOW CREATE TABLE t2").rows[0][0] == text.replace("`t`", "`t2`", 1)
    layers.sql("UPDATE orders SET day = 'sat' WHERE id = 1")
    explained = {row["fact"]: row["value"] for row in layers.sql("EXPLAIN REFRESH INCREMENTAL TABLE t2").rows}
    assert explained["recomputed"] == "rows of 2 values of id, day"
    assert refresh(layers, "t2")["way"] == "rows"
    assert_fresh(layers, "SELECT id, amount, day FROM orders", "t2")
    with pytest.raises(InvalidArgumentError, match="not those of"):
        layers.sql("ALTER INCREMENTAL TABLE t AS SELECT id FROM orders")
    layers.sql("ALTER INCREMENTAL TABLE t AS SELECT id, -amount AS amount, day FROM orders")
    assert refresh(layers)["reason"] == "the table's definition has changed"
    assert_fresh(layers, "SELECT id, -amount AS amount, day FROM orders")
    layers.sql("DROP INCREMENTAL TABLE t")


@pytest.mark.soak
def test_a_key_that_repeats_is_an_error_and_leaves_no_table(layers: Session) -> None:
    with pytest.raises(RepeatedKeysError):
        layers.sql("CREATE INCREMENTAL TABLE t KEY (customer) AS SELECT customer, amount FROM orders")
    assert layers.sql("SHOW TABLES LIKE 't'").rows == []


_NEWEST_OF_CUSTOMER = (
    "CREATE INCREMENTAL TABLE t KEY (customer) ORDERING id AS SELECT customer, id FROM orders"
)


@pytest.mark.soak
@needs_spark("4.0", "ORDERING of incremental tables")
def test_of_rows_with_one_key_the_last_in_the_ordering_stays(layers: Session) -> None:
    layers.sql(_NEWEST_OF_CUSTOMER)
    layers.sql("DELETE FROM orders WHERE id = 2")
    assert refresh(layers)["way"] == "window partitions"
    assert_fresh(layers, "SELECT customer, max(id) AS id FROM orders GROUP BY customer")


def test_an_ordering_is_refused_by_name_before_pyspark_4(
    layers: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "pyspark_version", lambda: (3, 5))
    with pytest.raises(
        UnsupportedStatementError, match=r"ORDERING of an incremental table needs PySpark 4\.0"
    ):
        layers.sql(_NEWEST_OF_CUSTOMER)
    assert layers.sql("SHOW TABLES LIKE 't'").rows == []


@pytest.mark.soak
def test_rows_whose_partition_value_is_an_empty_text_are_found(layers: Session) -> None:
    query = "SELECT id, amount, CASE WHEN id < 3 THEN '' ELSE day END AS p FROM orders"
    layers.sql(f"CREATE INCREMENTAL TABLE t KEY (id) PARTITIONED BY (p) AS {query}")
    layers.sql("UPDATE orders SET amount = 11 WHERE id = 1")
    assert refresh(layers)["way"] == "rows"
    layers.sql("DELETE FROM orders WHERE id = 2")
    assert refresh(layers)["rows_deleted"] == 1
    stored = layers.sql("SELECT id, amount, coalesce(p, '') FROM t ORDER BY id").rows
    assert stored == layers.sql(f"{query} ORDER BY id").rows


@pytest.mark.soak
@pytest.mark.parametrize("escaped", ["false", "true"])
def test_texts_that_literals_cannot_hold_under_all_settings_are_found(layers: Session, escaped: str) -> None:
    layers.sql(r"INSERT INTO orders VALUES (7, 1, 'sun', 7, 'C:\\x'), (8, 1, 'sun', 8, '\${env:HOME}')")
    query = "SELECT note, sum(amount) AS total FROM orders WHERE note IS NOT NULL GROUP BY note"
    layers.sql(f"CREATE INCREMENTAL TABLE t AS {query}")
    layers.sql("UPDATE orders SET amount = 70 WHERE id IN (7, 8)")
    layers.sql(f"SET spark.sql.parser.escapedStringLiterals = {escaped}")
    try:
        assert refresh(layers)["rows_updated"] == 2
    finally:
        layers.sql("RESET spark.sql.parser.escapedStringLiterals")
    assert_fresh(layers, query)


@pytest.mark.soak
def test_up_to_goes_by_completion_in_version_9(layers: Session) -> None:
    layers.sql(
        "CREATE TABLE newer USING hudi TBLPROPERTIES (primaryKey = 'id', 'hoodie.write.table.version' = '9') "
        "AS SELECT id, amount FROM orders"
    )
    layers.sql("CREATE INCREMENTAL TABLE t AS SELECT id, amount FROM newer")
    instant = layers.sql("UPDATE newer SET amount = 11 WHERE id = 1").rows[0]["instant"]
    layers.sql("UPDATE newer SET amount = 12 WHERE id = 1")
    for rest, amount in ((f"UP TO '{instant}'", 11), ("", 12)):
        row = refresh(layers, rest=rest)
        assert (row["way"], row["rows_updated"]) == ("rows", 1)
        assert layers.sql("SELECT amount FROM t WHERE id = 1").rows[0][0] == amount


@pytest.mark.soak
def test_up_to_reads_the_sources_as_of_an_instant(layers: Session) -> None:
    layers.sql("CREATE INCREMENTAL TABLE t AS SELECT id, amount FROM orders")
    instant = layers.sql("UPDATE orders SET amount = 11 WHERE id = 1").rows[0]["instant"]
    layers.sql("UPDATE orders SET amount = 12 WHERE id = 1")
    assert refresh(layers, rest=f"UP TO '{instant}'")["rows_updated"] == 1
    assert layers.sql("SELECT amount FROM t WHERE id = 1").rows[0][0] == 11
    refresh(layers)
    assert layers.sql("SELECT amount FROM t WHERE id = 1").rows[0][0] == 12


@pytest.mark.soak
def test_a_source_that_was_cleaned_since_is_run_as_a_whole(layers: Session) -> None:
    query = "SELECT id, amount FROM orders"
    layers.sql(f"CREATE INCREMENTAL TABLE IF NOT EXISTS t AS {query}")
    for amount in (11, 12, 13):
        layers.sql(f"UPDATE orders SET amount = {amount} WHERE id = 1")
    assert layers.sql("CALL run_clean(table => 'layers.orders', retain_commits => 1)").rows
    explained = {row["fact"]: row["value"] for row in layers.sql("EXPLAIN REFRESH INCREMENTAL TABLE t").rows}
    row = refresh(layers)
    assert (row["way"], row["rows_updated"]) == (explained["way"], 1) == ("whole", 1)
    assert "is gone" in row["reason"]
    assert_fresh(layers, query)
    layers.sql("UPDATE orders SET amount = 14 WHERE id = 1")
    assert refresh(layers)["way"] == "rows"
    assert layers.sql(f"CREATE INCREMENTAL TABLE IF NOT EXISTS t AS {query}").rows == []
    assert refresh(layers, rest="FULL")["reason"] == "FULL"


@pytest.mark.soak
def test_of_two_refreshes_at_once_one_does_the_work(layers: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    layers.sql("CREATE INCREMENTAL TABLE t AS SELECT id, amount FROM orders")
    layers.sql("UPDATE orders SET amount = 11 WHERE id = 1")
    name = "hudisql.sql.incremental_tables.incremental_statements.run_refresh"
    rows = []

    def conflict(plan: RefreshPlan) -> WriteResult:
        monkeypatch.setattr(name, run_refresh)
        rows.append(refresh(layers))
        with pytest.raises(WriteConflictError, match=r"another (refresh|writer)"):
            run_refresh(plan)
        return run_refresh(plan)

    monkeypatch.setattr(name, conflict)
    assert refresh(layers)["way"] == "nothing"
    assert rows[0]["rows_updated"] == 1


@pytest.mark.soak
def test_groups_with_nulls_are_updated_and_not_repeated(layers: Session) -> None:
    query = "SELECT customer, note, sum(amount) AS total FROM orders GROUP BY customer, note"
    layers.sql(f"CREATE INCREMENTAL TABLE t AS {query}")
    layers.sql("UPDATE orders SET amount = 41 WHERE id = 4")
    row = refresh(layers)
    assert (row["way"], row["rows_inserted"], row["rows_updated"], row["rows_deleted"]) == ("groups", 0, 1, 0)
    assert_fresh(layers, query)
    layers.sql("DELETE FROM orders WHERE id = 4")
    assert refresh(layers)["rows_deleted"] == 1
    assert_fresh(layers, query)


@pytest.mark.soak
def test_texts_of_numbers_that_group_as_equal_are_run_as_a_whole(layers: Session) -> None:
    layers.sql("CREATE TABLE sizes (id INT, size DOUBLE) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    layers.sql("INSERT INTO sizes VALUES (1, 0.0), (2, 1.0)")
    query = "SELECT CAST(size AS STRING) AS shown, count(*) AS n FROM sizes GROUP BY size"
    layers.sql(f"CREATE INCREMENTAL TABLE t KEY (shown) AS {query}")
    layers.sql("INSERT INTO sizes VALUES (3, CAST('-0.0' AS DOUBLE))")
    assert "equal values can differ" in refresh(layers)["reason"]
    assert_fresh(layers, query)


@pytest.mark.soak
def test_the_current_time_is_found_behind_many_columns(layers: Session) -> None:
    many = ", ".join(f"amount + {at} AS a{at}" for at in range(40))
    layers.sql(f"CREATE INCREMENTAL TABLE t AS SELECT id, {many}, CAST(now() AS STRING) AS at FROM orders")
    row = refresh(layers)
    assert row["way"] == "whole"
    assert row["reason"].startswith("the query calls")


@pytest.mark.soak
def test_a_view_that_changes_is_read_again(layers: Session) -> None:
    layers.sql("CREATE VIEW big AS SELECT id, amount FROM orders WHERE amount > 15")
    layers.sql("CREATE INCREMENTAL TABLE t KEY (id) AS SELECT * FROM big")
    assert refresh(layers)["way"] == "nothing"
    layers.sql("CREATE OR REPLACE VIEW big AS SELECT id, amount FROM orders WHERE amount > 25")
    assert refresh(layers)["reason"] == "a view that the query reads has changed"
    assert_fresh(layers, "SELECT id, amount FROM orders WHERE amount > 25")


@pytest.mark.soak
def test_a_temporary_view_does_not_take_the_place_of_a_source(layers: Session) -> None:
    layers.sql("CREATE INCREMENTAL TABLE t AS SELECT id, amount FROM orders")
    layers.sql("CREATE TEMPORARY VIEW orders AS SELECT 1 AS id, 1 AS amount")
    try:
        with pytest.raises(
            UnsupportedStatementError, match=r"incremental table .* cannot read the temporary"
        ):
            refresh(layers)
    finally:
        layers.sql("DROP VIEW orders")


@pytest.mark.soak
def test_a_state_that_is_not_past_yet_is_read_again(layers: Session) -> None:
    query = "SELECT id, amount FROM orders TIMESTAMP AS OF '2999-01-01'"
    layers.sql(f"CREATE INCREMENTAL TABLE t KEY (id) AS {query}")
    layers.sql("UPDATE orders SET amount = 11 WHERE id = 1")
    assert "not yet past" in refresh(layers)["reason"]
    assert_fresh(layers, query)


@pytest.mark.soak
def test_a_query_that_changes_its_types_is_run_as_a_whole(layers: Session) -> None:
    layers.sql(
        "CREATE INCREMENTAL TABLE t KEY (k) AS SELECT CAST(id AS DECIMAL(8, 2)) AS k, note FROM orders"
    )
    layers.sql("ALTER INCREMENTAL TABLE t AS SELECT CAST(id AS DECIMAL(8, 4)) + 0.001 AS k, note FROM orders")
    refresh(layers)
    layers.sql("UPDATE orders SET note = 'new' WHERE id = 1")
    assert "the query gives k as" in refresh(layers)["reason"]
    assert layers.sql("SELECT note FROM t WHERE k = 1").rows[0][0] == "new"


def test_a_new_row_with_the_key_of_a_row_that_did_not_change_is_an_error(layers: Session) -> None:
    query = "SELECT id AS place, day, max(amount) AS most FROM orders GROUP BY id, day"
    layers.sql(f"CREATE INCREMENTAL TABLE t KEY (most) AS {query}")
    before = layers.sql("SELECT * FROM t ORDER BY most").rows
    layers.sql("INSERT INTO orders VALUES (9, 1, 'sun', 40, 'z')")
    with pytest.raises(
        RepeatedKeysError, match=r"layers\.t has the key \{40\} for a new row and for one that"
    ):
        refresh(layers)
    assert layers.sql("SELECT * FROM t ORDER BY most").rows == before
    layers.sql("UPDATE orders SET amount = 41 WHERE id = 9")
    assert refresh(layers)["rows_inserted"] == 1
    assert_fresh(layers, query)


@pytest.mark.soak
def test_a_refresh_has_the_settings_with_which_the_table_was_made(layers: Session) -> None:
    query = (
        "SELECT id, hour(timestamp_millis(amount * 3600000)) AS hour, try_divide(amount, 0) AS none, "
        "CAST(note AS INT) AS number FROM orders"
    )
    conf = layers.spark.conf
    zone, ansi = (str(conf.get(f"spark.sql.{name}")) for name in ("session.timeZone", "ansi.enabled"))
    conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    conf.set("spark.sql.ansi.enabled", "false")
    try:
        layers.sql(f"CREATE INCREMENTAL TABLE t AS {query}")
        layers.sql("UPDATE orders SET amount = 5 WHERE id = 1")
        expected = sorted(tuple(row) for row in layers.sql(query).rows)
        conf.set("spark.sql.session.timeZone", "UTC")
        conf.set("spark.sql.ansi.enabled", "true")
        row = refresh(layers)
        assert (row["way"], row["rows_updated"]) == ("rows", 1)
        assert conf.get("spark.sql.session.timeZone") == "UTC"
        stored = layers.sql("SELECT id, hour, none, number FROM t").rows
        assert sorted(tuple(row) for row in stored) == expected
        assert expected[0][:2] == (1, 14)
    finally:
        conf.set("spark.sql.session.timeZone", zone)
        conf.set("spark.sql.ansi.enabled", ansi)


@pytest.mark.soak
def test_a_column_that_the_query_does_not_give_becomes_null(layers: Session) -> None:
    layers.sql("CREATE TABLE src (id INT, b INT) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    layers.sql("INSERT INTO src VALUES (1, 1), (2, 2)")
    layers.sql("CREATE INCREMENTAL TABLE t KEY (id) AS SELECT id, b FROM src")
    # As when a run is killed between the two statements that change a model.
    layers.sql("ALTER TABLE t ADD COLUMNS (c INT)")
    layers.sql("UPDATE t SET c = 5")
    layers.sql("INSERT INTO src VALUES (3, 3)")
    layers.sql("UPDATE src SET b = 9 WHERE id = 1")
    layers.sql("REFRESH INCREMENTAL TABLE t")
    rows = layers.sql("SELECT id, b, c FROM t ORDER BY id").rows
    assert [tuple(row) for row in rows] == [(1, 9, None), (2, 2, 5), (3, 3, None)]
    layers.sql("ALTER INCREMENTAL TABLE t AS SELECT id, b, b AS c FROM src")
    layers.sql("REFRESH INCREMENTAL TABLE t")
    rows = layers.sql("SELECT id, b, c FROM t ORDER BY id").rows
    assert [tuple(row) for row in rows] == [(1, 9, 9), (2, 2, 2), (3, 3, 3)]
