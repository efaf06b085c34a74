"""Every type of Spark's as a column: written and read back exactly, or refused by its name."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from hudisql.errors import HudisqlError, UnsupportedTableError, WriteRefusedError
from hudisql.session import Session
from tests.soak import parameters
from tests.spark_versions import needs_spark
from tests.sql.changed_tables import ChangedTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]

HELD = {
    "BOOLEAN": ("boolean", "true"),
    "TINYINT": ("int", "-128Y"),
    "SMALLINT": ("int", "32767S"),
    "INT": ("int", "-2147483648"),
    "BIGINT": ("bigint", "-9223372036854775808"),
    "FLOAT": ("float", "CAST('-1.5e-40' AS FLOAT)"),
    "DOUBLE": ("double", "DOUBLE('NaN')"),
    "DECIMAL(5,2)": ("decimal(5,2)", "-999.99"),
    "DECIMAL(38,10)": ("decimal(38,10)", "9999999999999999999999999999.9999999999BD"),
    "STRING": ("string", "'e\\u0301 \\U0001F600 \\u0000'"),
    "BINARY": ("binary", "X'00FF'"),
    "DATE": ("date", "DATE'0001-01-01'"),
    "TIMESTAMP": ("timestamp", "TIMESTAMP'9999-12-31 23:59:59.999999'"),
    "TIMESTAMP_NTZ": ("timestamp_ntz", "TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'"),
    "ARRAY<INT>": ("array<int>", "array(1, NULL)"),
    "ARRAY<ARRAY<STRING>>": ("array<array<string>>", "array(array('a', NULL), array(), NULL)"),
    "ARRAY<STRUCT<a: INT>>": ("array<struct<a:int>>", "array(named_struct('a', 1), NULL)"),
    "MAP<STRING, DECIMAL(20,3)>": ("map<string,decimal(20,3)>", "map('k', 1.500BD, 'n', NULL)"),
    "MAP<STRING, ARRAY<STRUCT<x: DATE>>>": (
        "map<string,array<struct<x:date>>>",
        "map('k', array(named_struct('x', DATE'2024-02-29')))",
    ),
    "STRUCT<a: TINYINT, b: STRUCT<c: TIMESTAMP, d: BINARY>>": (
        "struct<a:int,b:struct<c:timestamp,d:binary>>",
        "named_struct('a', 1Y, 'b', named_struct('c', TIMESTAMP'1970-01-01', 'd', X'01'))",
    ),
}
REFUSED = {
    "ARRAY<VARCHAR(3)>": "array(CAST('abc' AS VARCHAR(3)))",
    "VARIANT": "parse_json('1')",
    "INTERVAL": "make_interval(1)",
    "INTERVAL DAY TO SECOND": "INTERVAL '1' DAY",
    "INTERVAL YEAR TO MONTH": "INTERVAL '1' MONTH",
    "TIME(6)": "TIME'12:00:00'",
    "VOID": "NULL",
    "MAP<INT, STRING>": "map(1, 'a')",
    "STRUCT<>": "struct()",
    "STRUCT<a: VARIANT>": "named_struct('a', parse_json('1'))",
    "STRING COLLATE UTF8_LCASE": "'a' COLLATE UTF8_LCASE",
}
# Older Sparks do not have these types, or fail at a query of one with errors of their own.
QUERIED_SINCE = {
    "VARIANT": "4.0",
    "INTERVAL": "4.0",
    "STRUCT<>": "4.0",
    "STRUCT<a: VARIANT>": "4.0",
    "STRING COLLATE UTF8_LCASE": "4.0",
    "TIME(6)": "4.1",
}
# CAST(… AS VARCHAR) and its kin give a STRING: there is nothing to refuse in a query.
TEXTS = ("ARRAY<VARCHAR(3)>",)


@pytest.fixture
def database(session: Session) -> Iterator[Session]:
    session.sql("CREATE DATABASE kinds")
    yield session
    for name in ("t", "copy"):
        session.sql(f"DROP TABLE IF EXISTS kinds.{name} PURGE")
    session.sql("DROP DATABASE kinds CASCADE")


@pytest.mark.parametrize("table_type", parameters(["cow", "mor"], in_ci=["mor"]))
def test_what_a_column_can_hold_comes_back_as_it_was_written(database: Session, table_type: str) -> None:
    columns = ", ".join(f"c{number} {name}" for number, name in enumerate(HELD))
    database.sql(
        f"CREATE TABLE kinds.t (id INT, {columns}) USING hudi "
        f"TBLPROPERTIES (primaryKey = 'id', type = '{table_type}')"
    )
    declared = {row[0]: row[1] for row in database.sql("DESCRIBE kinds.t").rows}
    names = [f"c{number}" for number in range(len(HELD))]
    assert [declared[name] for name in names] == [name for name, _ in HELD.values()]

    values = ", ".join(f"{value} AS {name}" for name, (_, value) in zip(names, HELD.values(), strict=True))
    nulls = ", ".join("NULL" for _ in names)
    database.sql(f"INSERT INTO kinds.t SELECT 1, {values} UNION ALL SELECT 2, {nulls}")
    database.sql("UPDATE kinds.t SET c0 = NOT c0 WHERE id = 1")
    database.sql("UPDATE kinds.t SET c0 = NOT c0 WHERE id = 1")
    kinds = [kind for kind, _ in HELD.values()]
    casts = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in zip(names, kinds, strict=True))
    expected = database.spark.sql(f"SELECT {casts} FROM (SELECT {values})").collect()
    read = f"SELECT {', '.join(names)} FROM kinds.t WHERE id = "
    assert repr(database.sql(f"{read} 1").rows) == repr(expected)
    assert set(database.sql(f"{read} 2").rows[0]) == {None}

    frame = database.sql("SELECT * FROM kinds.t").df
    copied = database.write(
        frame, "kinds.copy", "insert", **{"hoodie.datasource.write.recordkey.field": "id"}
    )
    assert copied.inserted == 2
    assert repr(database.sql(f"{read.replace('kinds.t', 'kinds.copy')} 1").rows) == repr(expected)


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_column_can_hold_is_refused_by_its_name(database: Session, name: str) -> None:
    said = re.findall("[A-Z]+", name)[-1 if "<a" in name or "ARRAY" in name else 0]
    with pytest.raises(HudisqlError) as caught:
        database.sql(f"CREATE TABLE kinds.t (id INT, c {name}) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    assert said.lower() in str(caught.value).lower()
    assert database.context.metastore.get_table("kinds", "t") is None


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=needs_spark(QUERIED_SINCE.get(name, "3.5"), f"queries of the type {name}"))
        for name in REFUSED
        if name not in TEXTS
    ],
)
def test_a_query_of_what_no_column_can_hold_is_refused_by_its_column(database: Session, name: str) -> None:
    query = f"SELECT 1 AS id, {REFUSED[name]} AS c"
    with pytest.raises(HudisqlError) as caught:
        database.sql(f"CREATE TABLE kinds.t USING hudi TBLPROPERTIES (primaryKey = 'id') AS {query}")
    assert "column c" in str(caught.value)
    with pytest.raises(UnsupportedTableError) as unsupported:
        database.write(
            database.spark.sql(query), "kinds.t", **{"hoodie.datasource.write.recordkey.field": "id"}
        )
    assert "column c" in str(unsupported.value)
    assert database.context.metastore.get_table("kinds", "t") is None


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("id", "array('a')"),
        ("seq", "INTERVAL '1' DAY"),
        ("seq", "TIMESTAMP'2024-01-01'"),
        ("at", "5"),
        ("at", "'2024-01-01'"),
        ("st", "named_struct('a', 1)"),
        ("tags", "map('a', 'b')"),
        ("price", "'1.5'"),
    ],
)
def test_a_value_of_a_kind_that_its_column_does_not_take_is_refused(
    table: ChangedTable, column: str, value: str
) -> None:
    with pytest.raises(WriteRefusedError) as caught:
        table.run(f"UPDATE {{t}} SET {column} = {value} WHERE seq = 1")
    assert f"column '{column}' of changes.t" in str(caught.value)
