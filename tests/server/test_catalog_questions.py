"""Catalog calls as clients send them: PyHive's classes for the requests, impyla's own methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from hudisql.server.thrift_server import ThriftServer

pytestmark = [pytest.mark.spark, pytest.mark.hms]
Ask = Callable[..., list[tuple[Any, ...]]]
MADE = (
    "CREATE DATABASE asked_db",
    "CREATE DATABASE asked_other",
    "CREATE TABLE asked_db.trips (id BIGINT, at TIMESTAMP, fare DECIMAL(10,2) COMMENT 'paid', day DATE, "
    "stops ARRAY<STRUCT<at:TIMESTAMP,fee:DECIMAL(5,1)>>, tags MAP<STRING,INT>, dt STRING) "
    "USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id')",
    "CREATE TABLE asked_db.mor (a STRING, b INT, at TIMESTAMP) USING hudi "
    "TBLPROPERTIES (primaryKey = 'a,b', type = 'mor')",
    "CREATE TABLE asked_db.plain (a INT NOT NULL, b ARRAY<STRING>, c CHAR(3), v VARCHAR(7) COMMENT 'text', "
    "at TIMESTAMP, x FLOAT) USING parquet",
    "CREATE VIEW asked_db.seen (id COMMENT 'key', at, fare, c) AS "
    "SELECT t.id, t.at, t.fare, p.c FROM asked_db.trips t JOIN asked_db.plain p ON t.id = p.a",
    "CREATE TEMPORARY VIEW asked_view AS SELECT 1 one, TIMESTAMP'2024-01-02 03:04:05' at",
)

NAMES = ("mor", "mor_ro", "mor_rt", "plain", "seen", "trips")


@pytest.fixture(scope="module")
def connection(server: ThriftServer) -> Iterator[Any]:
    """A connection of PyHive's, whose databases have a table of each kind."""
    from pyhive import hive

    with (
        closing(hive.connect("127.0.0.1", server.port, username="me")) as opened,
        closing(opened.cursor()) as cursor,
    ):
        for statement in MADE:
            cursor.execute(statement)
        yield opened
        for name in ("trips", "mor"):
            cursor.execute(f"DROP TABLE asked_db.{name}")
        for name in ("asked_db", "asked_other"):
            cursor.execute(f"DROP DATABASE {name} CASCADE")


@pytest.fixture
def ask(connection: Any) -> Iterator[Ask]:
    from TCLIService import ttypes

    with closing(connection.cursor()) as cursor:

        def send(name: str, **given: Any) -> list[tuple[Any, ...]]:
            request = getattr(ttypes, f"T{name}Req")(sessionHandle=connection.sessionHandle, **given)
            response = getattr(connection.client, name)(request)
            assert response.status.statusCode == 0, response.status
            cursor._reset_state()
            cursor._operationHandle, cursor._state = response.operationHandle, cursor._STATE_RUNNING
            return list(cursor.fetchall())

        yield send


def test_schemas_and_tables_by_the_patterns_that_clients_send(ask: Ask) -> None:
    every = [("asked_db", ""), ("asked_other", "")]
    for pattern in (None, "", "%", "*", ".*"):
        assert [row for row in ask("GetSchemas", schemaName=pattern) if row in every] == every
    for pattern in ("asked%", "asked\\_%", "asked.*", "asked*", "ASKED_DB|asked_other"):
        assert ask("GetSchemas", schemaName=pattern) == every
    everything = [(name, "VIEW" if name == "seen" else "TABLE") for name in NAMES]
    for given in (
        {"tableName": "%"},
        {"tableName": ".*"},
        {"tableName": "*"},
        {"tableName": None},
        {"catalogName": "", "tableName": "%"},
        {"tableName": "%", "tableTypes": ["TABLE", "VIEW"]},
        {"tableName": "%", "tableTypes": ["MANAGED_TABLE", "EXTERNAL_TABLE", "VIRTUAL_VIEW"]},
    ):
        rows = [row[1:4] for row in ask("GetTables", schemaName="asked\\_db", **given) if row[1]]
        assert rows == [("asked_db", *each) for each in everything], given
    rows = ask("GetTables", schemaName=".*", tableName="trips|pl.*")
    assert [row[2] for row in rows if row[1] == "asked_db"] == ["plain", "trips"]
    assert [row[2] for row in ask("GetTables", schemaName="asked_db", tableTypes=["VIEW"])] == [
        "seen",
        "asked_view",
    ]


def test_columns_of_a_hudi_table_have_its_own_types(ask: Ask) -> None:
    rows = ask("GetColumns", schemaName="asked_db", tableName="trips", columnName="%")
    assert [row[3] for row in rows[:5]] == [
        *("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key"),
        *("_hoodie_partition_path", "_hoodie_file_name"),
    ]
    # Name, JDBC type, type, size, buffer length, digits, radix, nullable, remarks.
    assert [row[3:12] for row in rows[5:]] == [
        ("id", -5, "BIGINT", 19, None, 0, 10, 1, None),
        ("at", 93, "TIMESTAMP", 29, None, 9, None, 1, None),
        ("fare", 3, "DECIMAL(10,2)", 10, None, 2, 10, 1, "paid"),
        ("day", 91, "DATE", 10, None, None, None, 1, None),
        ("stops", 2003, "array<struct<at:timestamp,fee:decimal(5,1)>>", *(None,) * 4, 1, None),
        ("tags", 2000, "map<string,int>", *(None,) * 4, 1, None),
        ("dt", 12, "STRING", 2147483647, None, None, None, 1, None),
    ]
    assert [row[16:18] for row in rows] == [(position, "YES") for position in range(1, 13)]
    times = ask("GetColumns", schemaName="asked_%", tableName=".*", columnName="at")
    assert {row[2]: row[5] for row in times} == {
        **dict.fromkeys((*NAMES, "asked_view"), "TIMESTAMP"),
    }


def test_columns_of_plain_tables_and_views_have_sparks_types(ask: Ask) -> None:
    rows = ask("GetColumns", schemaName="asked_db", tableName="plain|seen")
    assert [(row[2], row[3], row[4], row[5], row[6], row[11], row[16]) for row in rows if row[1]] == [
        ("plain", "a", 4, "INT", 10, None, 1),
        ("plain", "b", 2003, "array<string>", None, None, 2),
        ("plain", "c", 1, "CHAR(3)", 3, None, 3),
        ("plain", "v", 12, "VARCHAR(7)", 7, "text", 4),
        ("plain", "at", 93, "TIMESTAMP", 29, None, 5),
        ("plain", "x", 6, "FLOAT", 7, None, 6),
        ("seen", "id", -5, "BIGINT", 19, "key", 1),
        ("seen", "at", 93, "TIMESTAMP", 29, None, 2),
        ("seen", "fare", 3, "DECIMAL(10,2)", 10, None, 3),
        ("seen", "c", 12, "STRING", 2147483647, None, 4),
    ]
    temporary = ask("GetColumns", tableName="asked\\_view")
    assert [row[1:6] for row in temporary] == [
        (None, "asked_view", "one", 4, "INT"),
        (None, "asked_view", "at", 93, "TIMESTAMP"),
    ]


def test_a_hudi_table_that_cannot_be_opened_has_the_metastores_columns(
    ask: Ask, session: Any, tmp_path: Any
) -> None:
    location = tmp_path / "gone"
    session.sql(
        f"CREATE TABLE asked_db.gone (id INT, v STRING) USING hudi LOCATION '{location}' "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    location.rename(tmp_path / "elsewhere")
    try:
        rows = ask("GetColumns", schemaName="asked_db", tableName="gone", columnName="id|v")
        assert [row[3:6] for row in rows] == [("id", 4, "INT"), ("v", 12, "STRING")]
    finally:
        (tmp_path / "elsewhere").rename(location)
        session.sql("DROP TABLE asked_db.gone")


def test_a_temporary_view_has_columns_after_its_table_is_dropped(ask: Ask, connection: Any) -> None:
    with closing(connection.cursor()) as cursor:
        cursor.execute("CREATE TABLE asked_db.short (id INT, d DECIMAL(5,2)) USING parquet")
        cursor.execute("CREATE TEMPORARY VIEW asked_broken AS SELECT * FROM asked_db.short")
        cursor.execute("DROP TABLE asked_db.short")
        rows = ask("GetColumns", tableName="asked_broken")
        assert [row[2:6] for row in rows] == [
            ("asked_broken", "id", 4, "INT"),
            ("asked_broken", "d", 3, "DECIMAL(5,2)"),
        ]
        cursor.execute("DROP VIEW asked_broken")


def test_keys_functions_and_types(ask: Ask) -> None:
    for name, keys in (("trips", ["id"]), ("mor", ["a", "b"])):
        assert ask("GetPrimaryKeys", schemaName="asked_db", tableName=name) == [
            ("", "asked_db", name, key, position, "hoodie.table.recordkey.fields")
            for position, key in enumerate(keys, 1)
        ]
    assert ask("GetPrimaryKeys", schemaName="asked_db", tableName="plain") == []
    for given in ({"schemaName": None}, {"schemaName": ".*"}, {"schemaName": "asked_db"}):
        for pattern in ("concat%", "concat.*", "concat*"):
            assert "concat_ws" in [row[2] for row in ask("GetFunctions", functionName=pattern, **given)]
    assert ask("GetFunctions", functionName="concat%", schemaName="no_such_database") == []
    assert ("DECIMAL", 3) in [row[:2] for row in ask("GetTypeInfo")]
    assert ask("GetTableTypes") == [("TABLE",), ("VIEW",)]
    assert ask("GetCatalogs") == []
    assert ask("GetCrossReference", parentTableName="trips", foreignTableName="mor") == []


def test_impyla_finds_databases_tables_columns_and_functions(server: ThriftServer, connection: Any) -> None:
    from impala.dbapi import connect

    assert connection is not None
    with (
        closing(connect("127.0.0.1", server.port, auth_mechanism="NOSASL")) as opened,
        closing(opened.cursor()) as cursor,
    ):
        cursor.get_databases()
        assert {("asked_db", ""), ("asked_other", "")} <= set(cursor.fetchall())
        cursor.get_tables(database_name="asked_db")
        assert [row[2] for row in cursor.fetchall()] == list(NAMES)
        assert cursor.get_table_schema("trips", database_name="asked_db")[5:8] == [
            ("id", "BIGINT"),
            ("at", "TIMESTAMP"),
            ("fare", "DECIMAL(10,2)"),
        ]
        assert cursor.get_table_schema("trips") == cursor.get_table_schema("trips", "asked_db")
        assert (cursor.table_exists("trips"), cursor.table_exists("nope", "asked_db")) == (True, False)
        assert (cursor.database_exists("asked_db"), cursor.database_exists("nope")) == (True, False)
        cursor.get_functions("asked_db")
        assert "concat_ws" in [row[2] for row in cursor.fetchall()]
