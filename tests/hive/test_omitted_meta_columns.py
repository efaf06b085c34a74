"""Old queries by the name of a migrated table: Hive and hudisql show its old columns, the rows are the same.

Apache Hudi's Spark takes the columns of `*` from the table's files and shows the meta columns; by named
columns it gives the same rows, and its commits keep the entry's columns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudisql.format.schema.meta_columns import META_COLUMNS
from tests.hive.beeline import HiveError
from tests.hive.engines import assert_rows
from tests.hive.server import HiveServer
from tests.oracle.client import HudiOracle
from tests.oracle.sources import sample_rows, write_source

pytestmark = [
    pytest.mark.hive,
    pytest.mark.oracle,
    pytest.mark.spark,
    pytest.mark.hms,
    pytest.mark.usefixtures("lake_database"),
]
ROWS = 30
COLUMNS = ["id", "seq", "total", "fare", "price", "note", "place", "labels", "shop"]
OMITS = "'hoodie.datasource.hive_sync.omit_metadata_fields', 'true'"
PLACE, LABELS = "struct<a:bigint,b:string>", "array<int>"


def _plain_table(hive_server: HiveServer, directory: Path, name: str) -> None:
    """A partitioned parquet table of Hive, without the types whose form Hive's Hudi formats change."""
    rows = sample_rows(0, ROWS).select(COLUMNS[:-1])
    source = write_source(directory / name, rows, lambda number: f"shop=s{number % 2}")
    hive_server.query(
        f"CREATE EXTERNAL TABLE lake.{name} (id string, seq int, total bigint, fare double, "
        f"price decimal(12,2), note string, place {PLACE}, labels {LABELS}) PARTITIONED BY (shop string) "
        f"STORED AS PARQUET LOCATION 'file:{source}'"
    )
    hive_server.query(f"MSCK REPAIR TABLE lake.{name}")


def _migrate(session: Any, name: str, directory: Path, more: str = "") -> None:
    session.sql(
        f"CALL migrate_table(table => 'lake.{name}', record_key => 'id', precombine => 'seq', "
        f"target_path => '{directory / 'hudi'}'{more})"
    )


def _entry_columns(session: Any, name: str) -> list[str]:
    entry = session.context.metastore.get_table("lake", name)
    return [column.name for column in (*entry.columns, *entry.partition_columns)]


def test_old_queries_see_the_same_columns_and_rows_after_a_migration(
    session: Any,
    hive_server: HiveServer,
    oracle_015: HudiOracle,
    oracle_120: HudiOracle,
    tmp_path: Path,
) -> None:
    name = "old"
    _plain_table(hive_server, tmp_path, name)
    old_query = f"SELECT * FROM lake.{name}"
    before_in_hive = hive_server.query(old_query)
    before = session.sql(f"{old_query} ORDER BY id")
    names_before, rows_before = before.names, [tuple(row) for row in before.rows]
    _migrate(session, name, tmp_path, f", options => map({OMITS})")

    after = session.sql(f"{old_query} ORDER BY id")
    assert after.names == names_before == COLUMNS
    assert [tuple(row) for row in after.rows] == rows_before
    after_in_hive = hive_server.query(old_query)
    assert list(after_in_hive[0]) == list(before_in_hive[0]) == COLUMNS
    assert sorted(after_in_hive, key=str) == sorted(before_in_hive, key=str)
    for oracle in (oracle_015, oracle_120):
        shown = oracle.sql(old_query)
        assert shown.column_names == [*META_COLUMNS, *COLUMNS]
        found = oracle.sql(f"SELECT id, seq, price, shop, `_hoodie_record_key` AS k FROM lake.{name}")
        expected = [(row[0], row[1], row[4], row[8], row[0]) for row in rows_before]
        assert_rows([tuple(row.values()) for row in found.to_pylist()], expected)


@pytest.mark.soak
def test_commits_of_all_writers_keep_the_old_columns(
    session: Any,
    hive_server: HiveServer,
    oracle_015: HudiOracle,
    oracle_120: HudiOracle,
    tmp_path: Path,
) -> None:
    name = "kept"
    _plain_table(hive_server, tmp_path, name)
    _migrate(session, name, tmp_path, f", options => map({OMITS})")
    session.sql(f"UPDATE lake.{name} SET note = 'by hudisql' WHERE seq = 5")
    oracle_015.sql(f"UPDATE lake.{name} SET note = 'by 0.15' WHERE seq = 3")
    oracle_120.sql("SET hoodie.write.table.version=6")
    oracle_120.sql(f"UPDATE lake.{name} SET note = 'by 1.2' WHERE seq = 4")
    session.sql(f"CALL hive_sync(table => 'lake.{name}', sync_incremental => 'false')")

    assert _entry_columns(session, name) == COLUMNS
    query = f"SELECT id, note FROM lake.{name} WHERE seq IN (3, 4, 5)"
    expected = [("k000003", "by 0.15"), ("k000004", "by 1.2"), ("k000005", "by hudisql")]
    for oracle in (oracle_015, oracle_120):
        assert_rows([tuple(row.values()) for row in oracle.sql(query).to_pylist()], expected)
    assert_rows([tuple(row) for row in session.sql(query).rows], expected)
    assert_rows([tuple(row.values()) for row in hive_server.query(query)], expected)
    (row,) = hive_server.query(f"SELECT * FROM lake.{name} WHERE seq = 4")
    assert list(row) == COLUMNS
    assert (row["note"], row["place"], row["labels"], row["shop"]) == (
        "by 1.2",
        '{"a":4,"b":"s4"}',
        "[4,5]",
        "s0",
    )


@pytest.mark.soak
def test_merged_rows_of_hive_need_the_meta_columns_that_a_migration_keeps(
    session: Any, hive_server: HiveServer, oracle_015: HudiOracle, tmp_path: Path
) -> None:
    _plain_table(hive_server, tmp_path, "merging")
    _migrate(session, "merging", tmp_path, ", table_type => 'MERGE_ON_READ'")
    # Hive 2.3 reads merged rows while the newest commit wrote log files alone (docs/readers.md).
    oracle_015.sql("UPDATE lake.merging SET note = 'by 0.15' WHERE seq = 4")
    assert _entry_columns(session, "merging") == [*META_COLUMNS, *COLUMNS]
    query = "SELECT id, note FROM lake.merging WHERE seq IN (4, 6)"
    expected = [("k000004", "by 0.15"), ("k000006", "first 名 6")]
    assert_rows([tuple(row.values()) for row in hive_server.query(query)], expected)
    assert_rows([tuple(row) for row in session.sql(query).rows], expected)


def test_hive_refuses_the_old_inserts_of_a_migrated_table(
    session: Any, hive_server: HiveServer, tmp_path: Path
) -> None:
    _plain_table(hive_server, tmp_path, "filled")
    old_job = (
        "INSERT INTO lake.filled PARTITION (shop = 's0') "
        "SELECT id, seq, total, fare, price, note, place, labels FROM lake.filled"
    )
    _migrate(session, "filled", tmp_path)
    # Its files would not be part of the Hudi table.
    with pytest.raises(HiveError, match="different"):
        hive_server.query(old_job)
    assert session.sql("SELECT count(*) FROM lake.filled").rows[0][0] == ROWS
