"""Managed tables of hudisql in other engines: they read them, and their DROP TABLE removes the files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from tests.hive.server import HiveServer
from tests.oracle.client import HudiOracle

pytestmark = [pytest.mark.hive, pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]


@pytest.fixture
def home(session: Any) -> Iterator[Path]:
    """The directory of the database `kept`."""
    session.sql("CREATE DATABASE kept")
    yield Path(urlparse(session.context.metastore.get_database("kept").location).path)
    session.sql("DROP DATABASE kept CASCADE")


def test_other_engines_read_and_drop_managed_tables(
    session: Any, hive_server: HiveServer, oracle_015: HudiOracle, home: Path
) -> None:
    for name in ("by_hive", "by_hudi"):
        session.sql(f"CREATE TABLE kept.{name} (id INT) USING hudi TBLPROPERTIES (primaryKey = 'id')")
        session.sql(f"INSERT INTO kept.{name} VALUES (1), (2)")

    def count() -> int:
        return int(hive_server.query("SELECT count(*) AS n FROM kept.by_hive")[0]["n"] or -1)

    assert count() == 2
    hive_server.query("ANALYZE TABLE kept.by_hive COMPUTE STATISTICS")
    session.sql("INSERT INTO kept.by_hive VALUES (3)")
    assert count() == 3
    oracle_015.sql("INSERT INTO kept.by_hudi VALUES (3)")
    assert sorted(oracle_015.sql("SELECT id FROM kept.by_hudi")["id"].to_pylist()) == [1, 2, 3]
    assert session.sql("SELECT count(*) FROM kept.by_hudi").rows[0][0] == 3
    hive_server.query("DROP TABLE kept.by_hive")
    oracle_015.sql("DROP TABLE kept.by_hudi")
    assert list(home.iterdir()) == []
    session.sql("CREATE TABLE kept.by_hive (id INT) USING hudi")
    assert session.sql("SELECT * FROM kept.by_hive").rows == []
