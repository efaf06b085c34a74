"""CREATE TABLE … LIKE: what the new Hudi table takes over from its source, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hudisql.errors import (
    HudisqlError,
    InvalidArgumentError,
    NoSuchTableError,
    SqlSyntaxError,
    TableExistsError,
    UnsupportedStatementError,
    UnsupportedTableError,
)
from hudisql.format.table_properties import parse_properties
from hudisql.session import Session
from tests.rows import rows
from tests.sql.changed_tables import own_database

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def database(session: Session, tmp_path: Path) -> Iterator[None]:
    with own_database(session, "liked"):
        session.sql(
            "CREATE TABLE liked.source (id BIGINT COMMENT 'the key', at TIMESTAMP, name STRING, dt STRING) "
            f"USING hudi PARTITIONED BY (dt) LOCATION '{tmp_path / 'source'}' COMMENT 'not taken over' "
            "TBLPROPERTIES (primaryKey = 'id', type = 'mor', preCombineField = 'at', team = 'x', "
            "'hoodie.index.type' = 'BLOOM')"
        )
        session.sql("INSERT INTO liked.source VALUES (1, TIMESTAMP'2024-01-01 00:00:00', 'a', 'd1')")
        yield


def properties_at(path: Path) -> dict[str, str]:
    return parse_properties((path / ".hoodie" / "hoodie.properties").read_bytes())


def columns_of(session: Session, name: str) -> list[tuple[str, str, str | None]]:
    described = rows(session, f"DESCRIBE liked.{name}")
    return [row for row in described if not row[0].startswith(("_hoodie", "#"))]


@pytest.mark.parametrize("using", ["USING hudi", ""])
def test_a_table_like_a_hudi_table_has_its_columns_keys_and_type(
    session: Session, tmp_path: Path, using: str
) -> None:
    session.sql(f"CREATE TABLE liked.t LIKE liked.source {using} LOCATION '{tmp_path / 'a b'}'")
    assert columns_of(session, "t") == columns_of(session, "source")
    assert rows(session, "SELECT * FROM liked.t") == []
    found = properties_at(tmp_path / "a b")
    assert found["hoodie.table.recordkey.fields"] == "id"
    assert found["hoodie.table.precombine.field"] == "at"
    assert found["hoodie.table.type"] == "MERGE_ON_READ"
    assert found["hoodie.table.partition.fields"] == "dt"
    assert found["hoodie.table.name"] == "t"
    entry = session.context.metastore.get_table("liked", "t")
    assert entry is not None
    assert entry.parameters["hoodie.index.type"] == "BLOOM"
    assert not {"team", "comment"} & set(entry.parameters)
    session.sql("INSERT INTO liked.t SELECT id, at, name, dt FROM liked.source")
    assert rows(session, "SELECT id, dt FROM liked.t") == [(1, "d1")]
    assert rows(session, "SELECT count(*) FROM liked.source") == [(1,)]


def test_given_properties_win_over_the_sources(session: Session) -> None:
    session.sql(
        "CREATE TABLE IF NOT EXISTS liked.t LIKE liked.source USING hudi TBLPROPERTIES "
        "('hoodie.datasource.write.recordkey.field' = 'id,name', type = 'cow', team = 'y')"
    )
    entry = session.context.metastore.get_table("liked", "t")
    assert entry is not None
    assert not entry.is_external
    assert entry.parameters["team"] == "y"
    shown = dict(rows(session, "SHOW TBLPROPERTIES liked.t"))
    assert (shown["primaryKey"], shown["type"], shown["preCombineField"]) == ("id,name", "cow", "at")
    session.sql("CREATE TABLE IF NOT EXISTS liked.t LIKE liked.source USING hudi")
    with pytest.raises(TableExistsError, match=r"liked\.t exists already"):
        session.sql("CREATE TABLE liked.t LIKE liked.source USING hudi")


def test_plain_tables_and_views_give_columns_and_partitions(session: Session) -> None:
    session.sql(
        "CREATE TABLE liked.plain (id INT COMMENT 'the key', Dt DATE, v ARRAY<STRING>) USING parquet "
        "PARTITIONED BY (Dt)"
    )
    session.sql("CREATE TABLE liked.t LIKE liked.plain USING hudi TBLPROPERTIES (primaryKey = 'id')")
    assert [column[:2] for column in columns_of(session, "t")][:3] == [
        ("id", "int"),
        ("v", "array<string>"),
        ("Dt", "date"),
    ]
    assert columns_of(session, "t")[0][2] == "the key"
    session.sql("INSERT INTO liked.t VALUES (1, array('a'), DATE'2024-01-01')")
    assert rows(session, "SHOW PARTITIONS liked.t") == [("Dt=2024-01-01",)]
    session.sql("CREATE VIEW liked.seen AS SELECT id, name AS n FROM liked.source")
    session.sql("CREATE TABLE liked.u LIKE liked.seen USING hudi")
    assert [column[:2] for column in columns_of(session, "u")] == [("id", "bigint"), ("n", "string")]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("liked.t LIKE liked.nowhere USING hudi", NoSuchTableError, r"no table liked\.nowhere"),
        ("liked.t LIKE liked.source USING parquet", UnsupportedStatementError, "in another format"),
        ("liked.t LIKE liked.source STORED AS ORC", UnsupportedStatementError, "in another format"),
        (
            "liked.t LIKE liked.source USING hudi TBLPROPERTIES (primaryKey = 'nope')",
            InvalidArgumentError,
            "names no column",
        ),
        ("nodb.t LIKE liked.source USING hudi", HudisqlError, "no database nodb"),
        ("liked.t LIKE liked.maps USING hudi", UnsupportedTableError, "column m"),
        ("liked.t LIKE liked.source USING hudi AS SELECT 1", SqlSyntaxError, "AS"),
    ],
)
def test_bad_input_leaves_nothing(
    session: Session, text: str, error: type[HudisqlError], message: str
) -> None:
    session.sql("CREATE TABLE liked.maps (id INT, m MAP<INT, INT>) USING parquet")
    with pytest.raises(error, match=message):
        session.sql(f"CREATE TABLE {text}")
    assert session.context.metastore.get_table("liked", "t") is None
