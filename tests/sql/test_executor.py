"""Statements on a real metastore: what goes to Spark, what hudisql answers itself, and what is refused."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import (
    HudisqlError,
    InvalidArgumentError,
    NoSuchTableError,
    QueryError,
    SqlSyntaxError,
    UnsupportedStatementError,
)
from hudisql.session import Session
from tests.spark_versions import needs_spark

pytestmark = [pytest.mark.spark, pytest.mark.hms]

BLOCKS = needs_spark("4.1", "BEGIN … END, EXECUTE IMMEDIATE of an expression")
WITH_TABLES_INSIDE = [
    ("BEGIN INSERT INTO shop.plain VALUES ('x', 1); SELECT * FROM shop.trips; END", "BEGIN … END"),
    ("BEGIN IF (SELECT count(*) FROM trips_view) > 0 THEN SELECT 1; END IF; END", "trips_view"),
    ("BEGIN CASE 1 WHEN (SELECT max(seq) FROM shop.trips) THEN SELECT 1; END CASE; END", "BEGIN … END"),
    ("BEGIN DELETE FROM shop.trips WHERE shop.trips.id = 'k'; END", "BEGIN … END"),
    ("EXECUTE IMMEDIATE 'DELETE FROM ' || 'shop.trips'", "EXECUTE IMMEDIATE"),
    ("EXECUTE IMMEDIATE 'SELECT ?' USING (SELECT max(seq) FROM shop.trips)", "EXECUTE IMMEDIATE"),
    ("EXECUTE IMMEDIATE (SELECT max(id) FROM shop.trips)", "EXECUTE IMMEDIATE"),
]


def fingerprint(*directories: str) -> str:
    digest = hashlib.sha256()
    for directory in directories:
        for path in sorted(Path(directory).rglob("*")):
            digest.update(str(path).encode())
            if path.is_file():
                digest.update(path.read_bytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def trips(golden: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A copy of the golden table, for statements that would change it if they were not refused."""
    copy = tmp_path_factory.mktemp("trips") / "table"
    shutil.copytree(golden("cow_bootstrap_meta").table, copy)
    return str(copy)


@pytest.fixture(scope="module")
def shop(session: Session, trips: str) -> Iterator[Session]:
    """`shop.trips`: a bootstrapped Hudi table by dt; `shop.plain`: a parquet table of Spark's."""
    session.sql("CREATE DATABASE shop")
    session.sql(f"CALL hive_sync(table => 'shop.trips', path => '{trips}')")
    session.sql(
        "CREATE TABLE shop.plain USING parquet AS SELECT id, seq FROM shop.trips WHERE id < 'k000010'"
    )
    session.sql("CREATE TEMPORARY VIEW trips_view AS SELECT * FROM shop.trips")
    yield session
    session.sql("USE default")
    session.sql("DROP TABLE IF EXISTS shop.trips")
    session.sql("DROP DATABASE shop CASCADE")


@pytest.fixture
def unchanged(golden: Callable[[str], Any], trips: str) -> Iterator[None]:
    """No statement of the test changes a byte of the table or of its source."""
    source = golden("cow_bootstrap_meta").source
    before = fingerprint(trips, source)
    yield
    assert fingerprint(trips, source) == before


def values(session: Session, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.sql(text).rows]


def test_queries_join_hudi_and_plain_tables(shop: Session, golden: Callable[[str], Any]) -> None:
    counted = values(
        shop, "SELECT count(*), count(p.id) FROM shop.trips t LEFT JOIN shop.plain p ON t.id = p.id"
    )
    assert counted == [(len(golden("cow_bootstrap_meta").rows), 10)]


def test_a_result_has_rows_schema_arrow_and_dataframe(shop: Session, capsys: Any) -> None:
    result = shop.sql("SELECT id, seq FROM shop.trips WHERE id = 'k000003'")
    assert result.has_rows
    assert result.schema.names == ["id", "seq"]
    assert result.arrow().num_rows == 1
    assert result.df.count() == 1
    assert result.rows[0].seq == 3
    result.show()
    assert "|k000003|  3|" in capsys.readouterr().out
    assert "<table" in (result._repr_html_() or "")
    assert not shop.sql("USE default").has_rows


def test_a_result_is_used_as_a_notebook_uses_it(shop: Session) -> None:
    text = "SELECT id, seq FROM shop.trips ORDER BY id"
    result = shop.sql(text)
    assert [row.id for row in result][:2] == ["k000000", "k000001"]
    assert len(result) == len(result.collect()) > 20
    assert list(result.toPandas().columns) == ["id", "seq"]
    assert pa.table(result).num_rows == len(result)
    assert repr(result).splitlines()[0].split() == ["id", "seq"]
    assert repr(result).endswith("\n…")
    assert repr(shop.sql(f"{text} LIMIT 1")).split() == ["id", "seq", "k000000", "0"]
    assert "bad row" in repr(shop.sql("SELECT raise_error('bad row') FROM shop.trips"))
    nothing = shop.sql("USE default")
    assert (list(nothing), len(nothing), bool(nothing)) == ([], 0, True)
    assert "without rows" in repr(nothing)
    [commit] = shop.sql("CALL show_commits(table => 'shop.trips', limit => 1)")
    assert commit.commit_time in repr(shop.sql("CALL show_commits(table => 'shop.trips', limit => 1)"))


def test_use_decides_what_unqualified_names_mean(shop: Session) -> None:
    shop.sql("USE shop")
    try:
        assert values(shop, "SELECT count(*) FROM plain p JOIN trips t ON p.id = t.id") == [(10,)]
        assert len(values(shop, "SHOW PARTITIONS trips")) > 1
    finally:
        shop.sql("USE default")


def test_show_partitions_of_a_hudi_table(shop: Session, golden: Callable[[str], Any]) -> None:
    expected = sorted({f"dt={row['dt']}" for row in golden("cow_bootstrap_meta").rows})
    assert values(shop, "SHOW PARTITIONS shop.trips") == [(name,) for name in expected]
    day = expected[0].removeprefix("dt=")
    assert values(shop, f"SHOW PARTITIONS shop.trips PARTITION (DT = '{day}')") == [(expected[0],)]
    with pytest.raises(InvalidArgumentError, match="nope is not a partition column"):
        shop.sql("SHOW PARTITIONS shop.trips PARTITION (nope = 1)")


def test_describe_of_a_hudi_table(shop: Session, trips: str) -> None:
    rows = values(shop, "DESCRIBE shop.trips")
    assert rows[0][:2] == ("_hoodie_commit_time", "string")
    assert ("price", "decimal(12,2)") in [row[:2] for row in rows]
    position = [row[0] for row in rows].index("# Partition Information")
    assert rows[position + 2][0] == "dt"
    details = {row[0]: row[1] for row in values(shop, "DESCRIBE EXTENDED shop.trips")}
    assert details["Provider"] == "hudi"
    assert details["Location"] == trips
    assert details["Table Type"] == "COPY_ON_WRITE"
    assert dict(values(shop, "DESC shop.trips id"))["data_type"] == "string"
    with pytest.raises(InvalidArgumentError, match="no column 'nope'"):
        shop.sql("DESCRIBE shop.trips nope")
    assert values(shop, "DESCRIBE QUERY SELECT id FROM shop.trips")[0][:2] == ("id", "string")


def test_show_create_table_and_columns_of_a_hudi_table(shop: Session) -> None:
    text = values(shop, "SHOW CREATE TABLE shop.trips")[0][0]
    assert text.startswith("CREATE TABLE shop.trips (\n  id string,")
    assert "USING hudi\nPARTITIONED BY (dt)\nLOCATION '/" in text
    assert "'primaryKey' = 'id'" in text
    names = [row[0] for row in values(shop, "SHOW COLUMNS IN shop.trips")]
    assert names[:5] == [
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name",
    ]
    assert "dt" in names


def test_the_same_statements_on_plain_tables_are_spark_s(shop: Session) -> None:
    assert values(shop, "DESCRIBE shop.plain")[0][0] == "id"
    assert values(shop, "SHOW COLUMNS IN shop.plain") == [("id",), ("seq",)]
    assert "USING parquet" in values(shop, "SHOW CREATE TABLE shop.plain")[0][0]
    assert ("shop", "trips", False) in values(shop, "SHOW TABLES IN shop")
    shop.sql("REFRESH TABLE shop.plain")
    shop.sql("ANALYZE TABLE shop.plain COMPUTE STATISTICS")
    with pytest.raises(QueryError) as refused:
        shop.sql("ALTER TABLE shop.plain RENAME COLUMN seq TO n")
    assert "migrate_table" not in str(refused.value.hint)


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM shop.plain WHERE id = 'k1'",
        "UPDATE shop.plain SET seq = 1",
        "UPDATE shop.plain SET seq = 1 WHERE id IN (SELECT id FROM shop.trips)",
        "MERGE INTO shop.plain USING shop.trips t ON plain.id = t.id WHEN MATCHED THEN DELETE",
    ],
)
def test_a_change_of_a_plain_table_names_the_table_and_what_makes_a_hudi_table_of_it(
    shop: Session, text: str
) -> None:
    with pytest.raises(
        UnsupportedStatementError, match=r"needs a Hudi table, and shop\.plain is not"
    ) as refused:
        shop.sql(text)
    assert "migrate_table" in str(refused.value.hint)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("FROM shop.plain INSERT INTO shop.plain SELECT id INSERT INTO shop.trips SELECT id", "INSERT INTO"),
        ("EXPLAIN TRUNCATE TABLE shop.trips", "TRUNCATE"),
        ("ANALYZE TABLE shop.trips COMPUTE STATISTICS", "ANALYZE TABLE"),
        ("LOAD DATA INPATH '/nowhere' INTO TABLE shop.trips", "LOAD DATA"),
        ("CREATE TABLE shop.copy LIKE shop.trips USING parquet", "CREATE TABLE LIKE"),
        ("CREATE TABLE shop.copy LIKE shop.trips STORED AS PARQUET", "CREATE TABLE LIKE"),
        ("DESCRIBE shop.trips PARTITION (dt = '2024-03-01')", "DESCRIBE"),
        ("CACHE TABLE shop.trips", "CACHE TABLE"),
        ("DESCRIBE EXTENDED shop.trips AS JSON", "AS JSON"),
        ("DESCRIBE FORMATTED shop.trips id AS JSON", "AS JSON"),
        ("CREATE OR REPLACE TABLE shop.trips (id int) USING parquet", "CREATE OR REPLACE TABLE"),
        ("CREATE OR REPLACE TABLE shop.trips USING parquet AS SELECT 1 id", "CREATE OR REPLACE TABLE"),
        ("ANALYZE TABLES IN shop COMPUTE STATISTICS", "ANALYZE TABLES"),
        *(pytest.param(*each, marks=BLOCKS) for each in WITH_TABLES_INSIDE),
    ],
)  # fmt: skip
def test_what_would_change_a_hudi_table_is_refused_by_name(shop: Session, text: str, named: str) -> None:
    with pytest.raises(UnsupportedStatementError) as caught:
        shop.sql(text)
    assert named in caught.value.message
    assert "shop.trips" in caught.value.message or "trips" in caught.value.message
    assert caught.value.hint
    assert values(shop, "SHOW TABLES IN shop LIKE 'trips'") == [("shop", "trips", False)]


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "text",
    [
        "BEGIN",
        "BEGIN TRANSACTION",
        "BEGIN USE shop; SELECT * FROM plain; END",
        "BEGIN SELECT * FROM IDENTIFIER('shop.' || 'plain'); END",
        "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN USE shop; END; SELECT 1; END",
        "BEGIN LOOP EXECUTE IMMEDIATE 'SELECT 1'; END LOOP; END",
        "BEGIN CASE 1 WHEN 2 THEN SELECT 1; ELSE DROP DATABASE shop CASCADE; END CASE; END",
        "BEGIN CREATE TABLE shop.n (id INT) USING hudi TBLPROPERTIES (primaryKey = 'id'); END",
        "BEGIN CREATE TABLE shop.raw USING parquet LOCATION '{table}'; END",
        "EXECUTE IMMEDIATE 'USE shop'",
        "EXECUTE IMMEDIATE 'DROP DATABASE shop CASCADE'",
        "EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE \\'SELECT 1\\''",
        "CREATE OR REPLACE TABLE shop.n USING hudi AS SELECT 1 id",
        "EXPLAIN CALL help()",
        "DROP DATABASE shop",
        "DROP DATABASE default CASCADE",
        "INSERT OVERWRITE DIRECTORY '{table}/dt=2024-03-01' USING parquet SELECT 1",
        "CREATE TABLE shop.raw USING parquet LOCATION '{table}'",
        "CREATE TABLE shop.raw USING parquet LOCATION 'file://{table}/dt=2024-03-01' AS SELECT 1 a",
    ],
)
def test_statements_of_unknown_effect_are_refused(shop: Session, trips: str, text: str) -> None:
    with pytest.raises(UnsupportedStatementError):
        shop.sql(text.replace("{table}", trips))


def test_inserts_into_plain_tables_read_hudi_tables(shop: Session) -> None:
    shop.sql("CREATE TABLE shop.sink (id string, seq int) USING parquet")
    shop.sql("INSERT INTO shop.sink SELECT id, seq FROM shop.trips WHERE id BETWEEN 'k000003' AND 'k000005'")
    assert values(shop, "SELECT count(*), min(seq), max(seq) FROM shop.sink") == [(3, 3, 5)]
    shop.sql("DROP TABLE shop.sink")
    assert values(shop, "SHOW TABLES IN shop LIKE 'sink'") == []


@pytest.mark.usefixtures("unchanged")
def test_drop_table_removes_the_entry_and_no_file(shop: Session, trips: str) -> None:
    path = trips
    shop.sql(f"CALL hive_sync(table => 'shop.again', path => '{path}')")
    assert values(shop, "SELECT count(*) > 0 FROM shop.again") == [(True,)]
    shop.sql("DROP TABLE shop.again")
    with pytest.raises(QueryError, match="TABLE_OR_VIEW_NOT_FOUND"):
        shop.sql("SELECT * FROM shop.again")
    shop.sql("DROP TABLE IF EXISTS shop.again")


@pytest.mark.usefixtures("unchanged")
def test_repair_brings_the_metastore_in_step(shop: Session) -> None:
    client = shop.context.metastore
    entry = client.get_table("shop", "trips")
    assert entry is not None
    names = client.list_partition_names("shop", "trips")
    client.drop_partitions(entry, [[names[0].removeprefix("dt=")]])
    shop.sql("MSCK REPAIR TABLE shop.trips")
    assert client.list_partition_names("shop", "trips") == names


@pytest.mark.usefixtures("unchanged")
def test_dropping_a_database_leaves_files_that_are_not_its_tables(shop: Session) -> None:
    shop.sql("CREATE DATABASE emptied")
    database = shop.context.metastore.get_database("emptied")
    assert database is not None
    directory = Path(shop.context.storage.qualify(database.location or ""))
    kept = directory / "kept" / "file"
    kept.parent.mkdir(parents=True)
    kept.write_text("precious")
    shop.sql("CREATE TABLE emptied.t USING parquet AS SELECT 1 a")
    shop.sql("CREATE VIEW emptied.v AS SELECT 1 a")
    shop.sql("DROP DATABASE emptied CASCADE")
    assert kept.read_text() == "precious"
    assert not (directory / "t").exists()
    assert values(shop, "SHOW DATABASES LIKE 'emptied'") == []
    shop.sql("DROP DATABASE IF EXISTS emptied")
    with pytest.raises(NoSuchTableError, match="there is no database 'emptied'"):
        shop.sql("DROP DATABASE emptied")


def test_views_over_hudi_tables_are_stored_with_the_user_s_text(shop: Session) -> None:
    shop.sql("CREATE VIEW shop.few AS SELECT id, seq FROM shop.trips WHERE id < 'k000004'")
    assert values(shop, "SELECT count(*), max(seq) FROM shop.few") == [(4, 3)]
    entry = shop.context.metastore.get_table("shop", "few")
    assert entry is not None
    assert entry.view_original_text == "SELECT id, seq FROM shop.trips WHERE id < 'k000004'"
    shop.sql("DROP VIEW shop.few")


def test_call_binds_and_runs_a_procedure(shop: Session) -> None:
    shown = shop.sql("CALL system.HELP(cmd => 'hive_sync')")
    assert shown.schema.names == ["result"]
    assert "table  " in shown.rows[0].result
    assert shown.df.count() == 1
    assert shown.arrow().column("result").to_pylist() == [shown.rows[0].result]
    with pytest.raises(InvalidArgumentError, match="help has no parameter 'cmdd'"):
        shop.sql("CALL help(cmdd => 'x')")


def test_explain_shows_what_is_read_of_hudi_tables(shop: Session) -> None:
    text = values(shop, "EXPLAIN SELECT id FROM shop.trips WHERE dt = '2024-03-01'")[0][0]
    assert "shop.trips" in text
    assert "== Physical Plan ==" in text


def test_errors_name_their_place_in_the_script_and_the_user_s_own_tables(shop: Session) -> None:
    script = "SELECT 1;\nSELECT id,\n  nope FROM shop.trips"
    results = shop.run_script(script)
    assert next(results).rows[0][0] == 1
    with pytest.raises(QueryError) as caught:
        next(results)
    assert "line 3, column 3:\n    nope FROM shop.trips\n    ^^^^" in caught.value.message
    assert "hudisql_" not in caught.value.message
    with pytest.raises(QueryError, match="line 2, column 18:"):
        list(shop.run_script("USE default; \n  EXPLAIN SELECT nope FROM shop.trips"))
    for text, place in (("SELECT (1", "line 4, column 10:"), ("SELEC 1", "line 4, column 1:")):
        with pytest.raises(SqlSyntaxError) as refused:
            list(shop.run_script(f"USE default;\n\n\n{text}\n"))
        assert place in refused.value.message


def test_errors_while_rows_are_read_are_translated_too(shop: Session) -> None:
    result = shop.sql("SELECT raise_error(concat('bad ', id)) FROM shop.trips WHERE id = 'k000003'")
    with pytest.raises(QueryError) as caught:
        _ = result.rows
    assert "bad " in caught.value.message
    assert "\tat " not in caught.value.message


def test_variables_come_from_the_session_and_from_set(shop: Session) -> None:
    shop.sql("SET hivevar:low=k000004")
    assert values(shop, "SELECT count(*) FROM shop.plain WHERE id < '${low}'") == [(4,)]
    assert values(shop, "SELECT '${hivevar:low}'") == [("k000004",)]
    with pytest.raises(HudisqlError, match=r"the variable \$\{absent\} has no value"):
        shop.sql("SELECT ${absent}")


@BLOCKS
@pytest.mark.usefixtures("unchanged")
def test_blocks_and_execute_immediate_run_in_spark_where_no_hudi_table_is_in_them(shop: Session) -> None:
    shop.sql("CREATE TABLE shop.sums (n INT) USING parquet")
    block = """BEGIN
      DECLARE total INT DEFAULT 0; -- ; END
      WHILE total < 3 DO SET total = total + 1; INSERT INTO shop.sums VALUES (total); END WHILE;
      l: LOOP IF total > 0 THEN LEAVE l; ELSE SELECT 1; END IF; END LOOP l;
      SELECT CASE WHEN total = 3 THEN ';' END AS mark, sum(n) AS n FROM shop.sums;
    END"""
    results = [result.rows for result in shop.run_script(f"SELECT 1; {block}; SELECT 2;")]
    assert results == [[(1,)], [(";", 6)], [(2,)]]
    with pytest.raises(QueryError, match="DIVIDE_BY_ZERO") as caught:
        _ = shop.sql("BEGIN SELECT 1; SELECT 1 / n - 1 / n FROM (SELECT 0 n FROM shop.sums); END").rows
    assert "\tat " not in caught.value.message
    shop.sql("DECLARE VARIABLE low INT DEFAULT 2")
    assert values(shop, "EXECUTE IMMEDIATE 'SELECT n FROM shop.sums WHERE n >= ? ORDER BY n' USING low") == [
        (2,),
        (3,),
    ]
    assert shop.sql("EXECUTE IMMEDIATE 'DROP TABLE shop.sums'").has_rows is False
    assert values(shop, "SHOW TABLES IN shop LIKE 'sums'") == []
    shop.sql("SET VAR low = (SELECT max(seq) FROM shop.trips)")
    assert values(shop, "SELECT count(*) FROM shop.trips WHERE seq > low") == [(0,)]
    shop.sql("DROP TEMPORARY VARIABLE low")


@needs_spark("4.0", "a::BIGINT")
@pytest.mark.usefixtures("unchanged")
def test_parameters_stand_for_values_in_every_statement(shop: Session) -> None:
    query = "SELECT id, :n::bigint n FROM shop.trips -- :x\nWHERE id = :id AND ':id' <> id"
    assert shop.sql(query, {"id": "k000003", "n": 3}).rows == [("k000003", 3)]
    between = "SELECT count(*) FROM shop.trips WHERE seq BETWEEN ? AND ?"
    assert shop.sql(between, [3, 5]).rows == [(257,)]
    kept = (
        None,
        True,
        -5,
        2**40,
        1.5,
        Decimal("-1.50"),
        "it's \\ ? ${x}",
        b"\x00",
        date(2024, 3, 1),
        [1, 2],
        {"a": 1},
    )
    assert tuple(shop.sql(f"SELECT {', '.join('?' * len(kept))}", kept).rows[0]) == kept
    moment = datetime(2024, 3, 1, 12, 30, tzinfo=UTC)
    assert shop.sql("SELECT unix_micros(:t)", {"t": moment}).rows == [(1709296200000000,)]
    for args, problem in (
        ({"other": 1}, "no value for the parameter :n"),
        ({"id": "x", "n": 1, "z": 2}, "no parameter :z"),
        ([1], "no value for the parameter :n"),
        ({"id": object(), "n": 1}, "type object"),
    ):
        with pytest.raises(InvalidArgumentError, match=problem):
            shop.sql(query, args)
    with pytest.raises(InvalidArgumentError, match="3 values are given for 2 parameters"):
        shop.sql(between, [1, 2, 3])
