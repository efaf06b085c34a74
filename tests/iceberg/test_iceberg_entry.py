"""The Iceberg table in the metastore: PyIceberg's Hive catalog reads it by name, hudisql refuses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.hive import HiveCatalog

from hudisql.bootstrap.migrate_table import convert_table
from hudisql.bootstrap.migrate_table.migration_state import MigrationNames
from hudisql.errors import InvalidArgumentError, TableExistsError, UnsupportedTableError
from tests.iceberg.readers import hudisql_rows, publish, sorted_rows
from tests.oracle.shapes import call_bootstrap
from tests.sources import orders

pytestmark = [pytest.mark.spark, pytest.mark.hms]

STATEMENTS = (
    "SELECT * FROM {t}",
    "SELECT count(*) FROM (SELECT 1 FROM {t})",
    "INSERT INTO {t} VALUES ('x', 1, 2.0)",
    "UPDATE {t} SET amount = 0",
    "DELETE FROM {t}",
    "MERGE INTO {t} AS t USING (SELECT 1 AS seq) AS s ON t.seq = s.seq WHEN MATCHED THEN DELETE",
    "ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')",
    "ALTER TABLE {t} RENAME TO oracle.other",
    "TRUNCATE TABLE {t}",
    "DROP TABLE {t} PURGE",
    "ANALYZE TABLE {t} COMPUTE STATISTICS",
    "CALL sync_iceberg(table => '{t}')",
)


def _bootstrap(session: Any, directory: Path, name: str) -> str:
    source = directory / f"{name}_source"
    source.mkdir()
    pq.write_table(orders(at=pa.array([0] * 20, pa.timestamp("us", "UTC"))), source / "part-0.parquet")
    given = {"source": str(source), "record_key": "id", "target_path": str(directory / name)}
    call_bootstrap(session, {"table": f"oracle.{name}", **given})
    return f"oracle.{name}"


def _catalog_rows(uri: str, name: str) -> list[str]:
    """The rows that PyIceberg reads by the name of the entry."""
    return sorted_rows(HiveCatalog("hive", uri=uri).load_table(name).scan().to_arrow().to_pylist())


@pytest.mark.soak
def test_the_entry_follows_publications_and_goes_with_the_table(
    session: Any, metastore_uri: str, tmp_path: Path
) -> None:
    name = _bootstrap(session, tmp_path, "entry")
    assert publish(session, name)["entry"] is None
    assert publish(session, name, ", register => true, dry_run => true")["entry"] is None
    published = publish(session, name, ", register => true")
    assert (published["result"], published["entry"]) == ("already published", f"{name}_iceberg")
    assert _catalog_rows(metastore_uri, f"{name}_iceberg") == hudisql_rows(session, name)
    session.sql(f"UPDATE {name} SET amount = 0 WHERE seq < 3")
    assert publish(session, name)["entry"] == f"{name}_iceberg"
    assert _catalog_rows(metastore_uri, f"{name}_iceberg") == hudisql_rows(session, name)
    for statement in STATEMENTS:
        with pytest.raises(
            UnsupportedTableError, match=r"is the Iceberg table of the Hudi table oracle\.entry"
        ):
            session.sql(statement.format(t=f"{name}_iceberg")).rows  # noqa: B018
    session.sql(f"ALTER TABLE {name} RENAME TO oracle.renamed")
    published = publish(session, "oracle.renamed")
    assert published["entry"] == "oracle.renamed_iceberg"
    assert _catalog_rows(metastore_uri, "oracle.renamed_iceberg") == hudisql_rows(session, "oracle.renamed")
    session.sql("DROP TABLE oracle.renamed_iceberg")
    assert publish(session, "oracle.renamed")["entry"] is None
    assert _tables(session) == {"renamed"}
    publish(session, "oracle.renamed", ", register => true")
    session.sql("DROP TABLE oracle.renamed")
    assert _tables(session) == set()
    assert Path(published["metadata_file"].removeprefix("file:")).exists()


def _tables(session: Any) -> set[str]:
    return {row.tableName for row in session.sql("SHOW TABLES IN oracle LIKE '*renamed*|entry*'").rows}


@pytest.mark.soak
def test_names_that_are_taken_and_removed_tables(session: Any, tmp_path: Path) -> None:
    name = _bootstrap(session, tmp_path, "taken")
    session.sql(f"CREATE TABLE {name}_iceberg (a INT) USING parquet")
    with pytest.raises(TableExistsError, match="taken_iceberg exists already"):
        publish(session, name, ", register => true")
    session.sql(f"DROP TABLE {name}_iceberg")
    with pytest.raises(InvalidArgumentError, match="register needs"):
        session.sql(f"CALL sync_iceberg(path => '{tmp_path / 'taken'}', register => true)")
    publish(session, name, ", register => true")
    session.sql(f"CALL rollback_bootstrap(table => '{name}', force => true)")
    assert session.context.metastore.get_table("oracle", "taken_iceberg") is None


@pytest.mark.soak
def test_the_entry_goes_with_managed_tables_and_databases(session: Any) -> None:
    session.sql("CREATE DATABASE iced")
    for name in ("iced.one", "iced.two"):
        session.sql(
            f"CREATE TABLE {name} (id INT) USING hudi TBLPROPERTIES (primaryKey = 'id', type = 'mor')"
        )
        session.sql(f"INSERT INTO {name} VALUES (1)")
        publish(session, name, ", register => true")
    assert len(session.context.metastore.list_tables("iced")) == 8
    session.sql("DROP TABLE iced.one")
    assert len(session.context.metastore.list_tables("iced")) == 4
    session.sql("DROP DATABASE iced CASCADE")
    assert session.context.metastore.get_database("iced") is None


@pytest.mark.soak
def test_the_entry_follows_a_migration_and_its_revert(
    session: Any, metastore_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, client = "oracle.taken_over", session.context.metastore
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(f"CREATE TABLE {name} USING parquet AS SELECT 1L AS id, 'a' AS name")
    migrate = f"CALL migrate_table(table => '{name}', record_key => 'id')"
    with monkeypatch.context() as patched:
        patched.setattr(convert_table, "exchange_names", _killed)
        with pytest.raises(KeyboardInterrupt):
            session.sql(migrate)
    staged = MigrationNames("oracle", "taken_over").staged
    assert publish(session, f"oracle.{staged}", ", register => true")["entry"] == f"oracle.{staged}_iceberg"
    session.sql(migrate)
    assert client.get_table("oracle", f"{staged}_iceberg") is None
    session.sql(f"INSERT INTO {name} VALUES (2, 'b')")
    assert publish(session, name)["entry"] == f"{name}_iceberg"
    assert _catalog_rows(metastore_uri, f"{name}_iceberg") == hudisql_rows(session, name)
    session.sql(f"CALL revert_migration(table => '{name}', force => true)")
    assert session.sql(f"SELECT * FROM {name}").rows == [(1, "a")]
    left = [each for each in client.list_tables("oracle") if "taken_over" in each]
    assert left == ["taken_over"]
    session.sql(f"DROP TABLE {name}")


def _killed(*_arguments: object) -> None:
    raise KeyboardInterrupt
