"""CREATE TABLE … LIKE: the same table as Apache Hudi's own statement makes, and Hudi writes to it by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from hudisql.format.table_properties import parse_properties
from tests.oracle.client import HudiOracle

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

SAME = (
    *("hoodie.table.recordkey.fields", "hoodie.table.precombine.field", "hoodie.table.type"),
    *("hoodie.table.partition.fields", "hoodie.table.keygenerator.class", "hoodie.table.version"),
)


@pytest.fixture
def home(session: Any) -> Iterator[Path]:
    """The directory of the database `liked_too`."""
    session.sql("CREATE DATABASE liked_too")
    yield Path(urlparse(session.context.metastore.get_database("liked_too").location).path)
    session.sql("DROP DATABASE liked_too CASCADE")


@pytest.mark.soak
def test_a_table_like_another_is_the_one_that_hudi_makes(
    session: Any, oracle_015: HudiOracle, home: Path
) -> None:
    # The source is Hudi's own: it makes no table like one whose entry has hoodie.query.as.ro.table.
    oracle_015.sql(
        "CREATE TABLE liked_too.source (id INT, v STRING, ts BIGINT, dt STRING) USING hudi "
        "PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts')"
    )
    like = "LIKE liked_too.source USING hudi TBLPROPERTIES (primaryKey = 'id,v')"
    session.sql(f"CREATE TABLE liked_too.ours {like}")
    oracle_015.sql(f"CREATE TABLE liked_too.theirs {like}")
    ours, theirs = (
        parse_properties((home / name / ".hoodie" / "hoodie.properties").read_bytes())
        for name in ("ours", "theirs")
    )
    assert {key: ours.get(key) for key in SAME} == {key: theirs.get(key) for key in SAME}
    for name in ("ours", "theirs"):
        session.sql(f"INSERT INTO liked_too.{name} VALUES (1, 'a', 1, 'd1'), (2, 'b', 1, 'd2')")
        oracle_015.sql(f"UPDATE liked_too.{name} SET v = 'c' WHERE id = 2")
        expected = [(1, "a", 1, "d1"), (2, "c", 1, "d2")]
        select = f"SELECT id, v, ts, dt FROM liked_too.{name} ORDER BY id"
        assert [tuple(row) for row in session.sql(select).rows] == expected
        assert [tuple(row.values()) for row in oracle_015.sql(select).to_pylist()] == expected
