"""Tables made without LOCATION are managed: DROP TABLE removes their files, and nothing else."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest

from hudisql.catalog.client import MetastoreClient
from hudisql.context import Context
from hudisql.errors import (
    RollbackRefusedError,
    SettingsError,
    SourceProtectedError,
    SyncFailedError,
    TableExistsError,
    UnsupportedTableError,
    WriteRefusedError,
)
from hudisql.session import Session
from hudisql.sql.ddl.drop_table import plan_drop, run_drop
from hudisql.storage import Storage
from hudisql.table.properties.table_configuration import COLUMN_STATS_ENABLE
from tests.fault_injection import FaultyStorage, run_and_kill
from tests.sql.changed_tables import ChangedTable, own_database

pytestmark = pytest.mark.spark

COLUMNS = "(id INT, dt STRING) USING hudi PARTITIONED BY (dt)"


@pytest.fixture(autouse=True)
def home(session: Session) -> Iterator[Path]:
    """The directory of the database `managed`, empty at the end."""
    with own_database(session, "managed"):
        location = session.context.metastore.get_database("managed").location  # type: ignore[union-attr]
        yield Path(urlparse(location or "").path)


def make(session: Session, name: str = "t", kind: str = "cow", clauses: str = "") -> None:
    session.sql(
        f"CREATE TABLE managed.{name} {COLUMNS} {clauses} TBLPROPERTIES (primaryKey = 'id', type = '{kind}')"
    )


def types_of(session: Session) -> dict[str, bool]:
    """Whether each entry of the database is that of a managed table."""
    metastore = session.context.metastore
    entries = metastore.get_tables("managed", metastore.list_tables("managed"))
    return {entry.name: entry.table_type == "MANAGED_TABLE" for entry in entries}


def rows_of(session: Session, name: str = "managed.t") -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.sql(f"SELECT id, dt FROM {name} ORDER BY id").rows]


@pytest.mark.parametrize(("kind", "purge"), [("cow", "PURGE"), ("mor", "")])
def test_drop_removes_files_and_all_names(session: Session, home: Path, kind: str, purge: str) -> None:
    make(session, kind=kind)
    session.sql("INSERT INTO managed.t VALUES (1, 'a'), (2, 'b')")
    session.sql("UPDATE managed.t SET dt = dt")
    names = {"t": True} | ({"t_ro": False, "t_rt": False} if kind == "mor" else {})
    assert types_of(session) == names
    session.sql(f"DROP TABLE managed.t {purge}")
    assert not (home / "t").exists()
    assert types_of(session) == {}
    session.sql("DROP TABLE IF EXISTS managed.t")
    make(session, kind=kind)
    assert rows_of(session) == []


def test_a_table_made_again_and_again_has_its_own_rows_only(session: Session, home: Path) -> None:
    for number in (1, 2):
        session.sql("DROP TABLE IF EXISTS managed.seed")
        make(session, "seed")
        session.sql(f"INSERT INTO managed.seed VALUES ({number}, 'a')")
        session.sql("DROP TABLE IF EXISTS managed.t")
        session.sql("CREATE TABLE managed.t USING hudi AS SELECT * FROM managed.seed")
        assert rows_of(session) == [(number, "a")]
    session.sql("DROP SCHEMA managed CASCADE")
    assert not home.exists()
    session.sql("CREATE SCHEMA managed")
    make(session)
    assert rows_of(session) == []


def test_files_of_a_table_with_a_location_stay(session: Session, tmp_path: Path) -> None:
    make(session, clauses=f"LOCATION '{tmp_path / 't'}'")
    session.sql("INSERT INTO managed.t VALUES (1, 'a')")
    assert types_of(session) == {"t": False}
    session.sql("DROP TABLE managed.t")
    make(session, clauses=f"LOCATION '{tmp_path / 't'}'")
    assert rows_of(session) == [(1, "a")]


def test_show_create_table_makes_a_managed_table_again(session: Session, tmp_path: Path) -> None:
    make(session)
    make(session, "u", clauses=f"LOCATION '{tmp_path / 'u'}'")
    shown = session.sql("SHOW CREATE TABLE managed.t").rows[0][0]
    session.sql("DROP TABLE managed.t")
    session.sql(shown)
    assert types_of(session) == {"t": True, "u": False}
    assert f"LOCATION '{tmp_path / 'u'}'" in session.sql("SHOW CREATE TABLE managed.u").rows[0][0]


def test_a_directory_with_other_files_is_refused(session: Session, home: Path) -> None:
    make(session)
    session.sql("INSERT INTO managed.t VALUES (1, 'a')")
    (made,) = (home / "t" / "dt=a").glob("*.parquet")
    # By its name a table has made the second, but not this one: no partition is there.
    others = ("note.txt", f"copied/{made.name}", "inside/.hoodie/hoodie.properties", "dt=a/part-0.parquet")
    for path in others:
        other = home / "t" / path
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_text("mine")
        with pytest.raises(RollbackRefusedError, match=f"such as .*{re.escape(path)}; nothing"):
            session.sql("DROP TABLE managed.t")
        if path != others[-1]:
            other.unlink()
    for statement in ("DROP TABLE managed.t PURGE", "DROP SCHEMA managed CASCADE"):
        with pytest.raises(RollbackRefusedError) as refused:
            session.sql(statement)
    assert rows_of(session) == [(1, "a")]
    advised = re.search(r"ALTER TABLE [^)]*\)", refused.value.hint or "")
    assert advised is not None
    session.sql(advised[0])
    session.sql("DROP TABLE managed.t PURGE")
    assert [file for file in home.rglob("*") if file.is_file()] == [other]
    shutil.rmtree(home / "t")


def test_source_files_in_the_directory_stay(table: ChangedTable, session: Session) -> None:
    """A bootstrapped table is external, and its source is kept from the DROP TABLE of others."""
    entry = session.context.metastore.get_table(*table.name.split("."))
    assert entry is not None
    assert entry.is_external
    with pytest.raises(UnsupportedTableError, match="bootstrapped"):
        session.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('external.table.purge' = 'true')")
    with pytest.raises(UnsupportedTableError, match="skeletons") as refused:
        session.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('{COLUMN_STATS_ENABLE}' = 'true')")
    assert "create_metadata_table" in str(refused.value.hint)
    make(session)
    made = session.context.metastore.get_table("managed", "t")
    source = entry.parameters["hudisql_bootstrap_source"].strip('["]')
    assert made is not None
    properties = {**made.serde_properties, "path": source}
    session.context.metastore.alter_table(replace(made, serde_properties=properties))
    # The fixture compares the source's bytes at the end.
    with pytest.raises(SourceProtectedError):
        session.sql("DROP TABLE managed.t")
    session.context.metastore.alter_table(made)


def test_the_metastore_follows_dropped_partitions_without_deleting(session: Session, home: Path) -> None:
    make(session)
    session.sql("INSERT INTO managed.t VALUES (1, 'a'), (2, 'b')")
    session.sql("ALTER TABLE managed.t DROP PARTITION (dt = 'b')")
    assert list((home / "t" / "dt=b").glob("*.parquet"))
    assert types_of(session) == {"t": True}
    assert rows_of(session) == [(1, "a")]


def test_a_renamed_table_stays_managed(session: Session, home: Path) -> None:
    kind = "mor"
    make(session, kind=kind)
    session.sql("INSERT INTO managed.t VALUES (1, 'a')")
    session.sql("ALTER TABLE managed.t RENAME TO managed.u")
    assert types_of(session)["u"]
    assert rows_of(session, "managed.u") == [(1, "a")]
    with pytest.raises(TableExistsError, match=r"is the directory of the table managed\.u"):
        make(session, kind=kind)
    session.sql("DROP TABLE managed.u")
    assert not (home / "t").exists()
    make(session, kind=kind)
    assert rows_of(session) == []


def test_a_table_that_lies_there_is_not_adopted(session: Session, home: Path) -> None:
    make(session)
    session.sql("INSERT INTO managed.t VALUES (1, 'a')")
    session.context.metastore.drop_table("managed", "t")
    for text in (f"{COLUMNS} TBLPROPERTIES (primaryKey = 'id')", "USING hudi AS SELECT 2 AS id, 'b' AS dt"):
        with pytest.raises(TableExistsError, match="already") as refused:
            session.sql(f"CREATE TABLE managed.t {text}")
    assert f"LOCATION '{home / 't'}'" in (refused.value.hint or "")
    session.sql(f"CREATE TABLE managed.t USING hudi LOCATION '{home / 't'}'")
    assert rows_of(session) == [(1, "a")]
    assert types_of(session) == {"t": False}
    session.sql("DROP TABLE managed.t PURGE")


def test_an_external_table_becomes_managed_by_the_property_of_hive_3(session: Session, home: Path) -> None:
    make(session, kind="mor", clauses=f"LOCATION '{home / 't'}'")
    session.sql("ALTER TABLE managed.t SET TBLPROPERTIES ('external.table.purge' = 'true')")
    entries = session.context.metastore.get_tables("managed", ["t", "t_ro", "t_rt"])
    assert [entry.name for entry in entries if "external.table.purge" in entry.parameters] == ["t"]
    session.sql("DROP TABLE managed.t")
    assert not (home / "t").exists()


def test_a_table_whose_files_are_gone_is_dropped(session: Session, home: Path) -> None:
    make(session, kind="mor")
    session.context.storage.delete_directory(str(home / "t"))
    session.sql("DROP TABLE managed.t")
    assert types_of(session) == {}


def test_a_directory_without_its_table_is_refused(session: Session, home: Path) -> None:
    make(session)
    session.sql("INSERT INTO managed.t VALUES (1, 'a')")
    (home / "t" / ".hoodie" / "hoodie.properties").unlink()
    with pytest.raises(RollbackRefusedError, match="such as"):
        session.sql("DROP TABLE managed.t")
    shutil.rmtree(home / "t")


def test_a_failed_create_table_as_leaves_nothing(session: Session, home: Path) -> None:
    with pytest.raises(WriteRefusedError):
        session.sql(
            "CREATE TABLE managed.t USING hudi PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id') "
            "AS SELECT IF(id = 3, NULL, id) AS id, concat('d', id) AS dt FROM range(5)"
        )
    assert not (home / "t").exists()
    assert types_of(session) == {}


def test_what_a_failed_sync_advises_makes_a_managed_table(
    session: Session, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: Any) -> None:
        from hudisql.errors import MetastoreError

        raise MetastoreError("out of order")

    with monkeypatch.context() as patch:
        patch.setattr(session.context.metastore, "create_table", fail)
        with pytest.raises(SyncFailedError) as failed:
            session.sql("CREATE TABLE managed.t USING hudi AS SELECT 1 AS id, 'a' AS dt")
    session.sql((failed.value.hint or "").partition("run: ")[2])
    assert rows_of(session) == [(1, "a")]
    session.sql("DROP TABLE managed.t")
    assert not (home / "t").exists()


@pytest.mark.soak
def test_a_drop_killed_at_any_step_is_completed_by_the_next(
    session: Session, metastore_uri: str, home: Path, tmp_path: Path
) -> None:
    make(session, kind="mor")
    session.sql("INSERT INTO managed.t VALUES (1, 'a'), (2, 'b')")
    shutil.copytree(home / "t", tmp_path / "kept")
    metastore = session.context.metastore
    entries = metastore.get_tables("managed", ["t", "t_ro", "t_rt"])

    def drop(storage: Storage) -> None:
        assert isinstance(storage, FaultyStorage)
        client = MetastoreClient(metastore_uri)
        drop_entry = client.drop_table

        def drop_one(*arguments: Any, **more: Any) -> bool:
            storage.inject_if_due("metastore")
            return drop_entry(*arguments, **more)

        client.drop_table = drop_one  # type: ignore[method-assign]
        context = Context(session.spark, client, storage, session.context.settings)
        entry = client.get_table("managed", "t")
        assert entry is not None
        run_drop(context, plan_drop(context, entry))

    for step in range(40):
        was_killed = run_and_kill(str(home / "t"), drop, step)
        if not was_killed:
            break
        remaining = types_of(session)
        assert "t" in remaining or not remaining, "the name by which it is run again goes last"
        if remaining:
            with pytest.raises(TableExistsError):
                make(session, kind="mor")
            session.sql("DROP TABLE managed.t")
            assert not (home / "t").exists()
            assert types_of(session) == {}
        # Nothing is left that the next table could take for its own.
        make(session, kind="mor")
        assert not list((home / "t").rglob("*.parquet"))
        shutil.rmtree(home / "t")
        shutil.copytree(tmp_path / "kept", home / "t")
        for entry in entries:
            metastore.drop_table("managed", entry.name)
            metastore.create_table(entry)
    assert not was_killed
    assert step > 6


def test_the_directory_of_a_renamed_table_is_not_offered_for_removal(session: Session, home: Path) -> None:
    make(session)
    session.sql("INSERT INTO managed.t VALUES (1, 'a')")
    session.sql("ALTER TABLE managed.t RENAME TO renamed")
    with pytest.raises(TableExistsError, match=r"directory of the table managed\.renamed") as raised:
        make(session)
    assert raised.value.hint == "give managed.t another LOCATION"
    assert (home / "t" / ".hoodie").is_dir()
    session.sql("DROP TABLE managed.renamed")


def test_an_ordering_column_that_was_changed_is_no_contradiction(session: Session, home: Path) -> None:
    session.sql(
        "CREATE TABLE managed.t (id INT, ts INT, booked INT) USING hudi TBLPROPERTIES (primaryKey = 'id', "
        "'hoodie.datasource.write.precombine.field' = 'ts')"
    )
    session.sql("ALTER TABLE managed.t SET TBLPROPERTIES (preCombineField = 'booked')")
    session.sql("INSERT INTO managed.t VALUES (1, 9, 1), (1, 1, 2)")
    assert [tuple(row) for row in session.sql("SELECT id, ts, booked FROM managed.t").rows] == [(1, 1, 2)]
    session.sql("SET hoodie.datasource.write.precombine.field = ts")
    try:
        with pytest.raises(SettingsError, match="contradicts the table"):
            session.sql("INSERT INTO managed.t VALUES (1, 10, 3)")
    finally:
        session.sql("RESET hoodie.datasource.write.precombine.field")
    session.sql("DROP TABLE managed.t")
    assert not (home / "t").exists()
