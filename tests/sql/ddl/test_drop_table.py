"""DROP TABLE: all names of a table go, with PURGE its files, a bootstrap's source never."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import RollbackRefusedError, UnsupportedStatementError
from hudisql.session import Session
from hudisql.storage import Storage
from tests.sources import fingerprint
from tests.sql.changed_tables import ChangedTable, database_fixture, write_source

pytestmark = pytest.mark.spark


database = database_fixture("dropped", autouse=True)


def names_of(session: Session) -> list[str]:
    return session.context.metastore.list_tables("dropped")


def make(session: Session, path: Path, kind: str = "cow") -> None:
    session.sql(
        f"CREATE TABLE dropped.t (id INT, dt STRING) USING hudi PARTITIONED BY (dt) LOCATION '{path}' "
        f"TBLPROPERTIES (primaryKey = 'id', type = '{kind}')"
    )


def test_purge_removes_files_and_entry(session: Session, tmp_path: Path) -> None:
    make(session, tmp_path / "t")
    session.sql("INSERT INTO dropped.t VALUES (1, 'a'), (2, 'b')")
    session.sql("DROP TABLE dropped.t PURGE")
    assert not (tmp_path / "t").exists()
    assert names_of(session) == []
    make(session, tmp_path / "t")
    assert session.sql("SELECT * FROM dropped.t").rows == []


def test_without_purge_the_files_stay(session: Session, tmp_path: Path) -> None:
    make(session, tmp_path / "t")
    session.sql("INSERT INTO dropped.t VALUES (1, 'a')")
    before = fingerprint(tmp_path / "t")
    session.sql("DROP TABLE dropped.t")
    assert fingerprint(tmp_path / "t") == before
    assert names_of(session) == []


def test_purge_removes_all_names_of_a_merge_on_read_table(session: Session, tmp_path: Path) -> None:
    make(session, tmp_path / "t", "mor")
    for name in ("t_ro", "t_rt"):
        with pytest.raises(UnsupportedStatementError, match="one of the names of"):
            session.sql(f"DROP TABLE dropped.{name} PURGE")
    session.sql("DROP TABLE dropped.t PURGE")
    assert names_of(session) == []
    assert not (tmp_path / "t").exists()


def test_a_dropped_merge_on_read_table_leaves_no_name(session: Session, tmp_path: Path) -> None:
    make(session, tmp_path / "t", "mor")
    session.sql(f"CREATE TABLE dropped.t_rt_rt USING hudi LOCATION '{tmp_path / 't'}'")
    session.sql("DROP TABLE dropped.t_ro")
    assert names_of(session) == ["t", "t_rt", "t_rt_rt", "t_rt_rt_ro", "t_rt_rt_rt"]
    session.sql("DROP TABLE dropped.t")
    assert names_of(session) == ["t_rt_rt", "t_rt_rt_ro", "t_rt_rt_rt"]


def test_a_name_alike_at_another_place_stays(session: Session, tmp_path: Path) -> None:
    make(session, tmp_path / "t")
    session.sql(
        f"CREATE TABLE dropped.t_ro (id INT) USING hudi LOCATION '{tmp_path / 'other'}' "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    session.sql("DROP TABLE dropped.t")
    assert names_of(session) == ["t_ro"]


def test_purge_leaves_the_source_of_a_bootstrap(table: ChangedTable, session: Session) -> None:
    table.run("DELETE FROM {t} WHERE seq < 3")
    session.sql(f"DROP TABLE {table.name} PURGE")
    # The fixture compares the source's bytes at the end.
    assert not Path(table.path).exists()
    session.sql(f"CREATE TABLE {table.name} (id INT) USING parquet")


def test_purge_is_refused_if_the_source_lies_in_the_table(session: Session, tmp_path: Path) -> None:
    source = write_source(tmp_path / "source")
    session.sql(
        f"CALL bootstrap_table(table => 'dropped.t', source => '{source}', record_key => 'id', "
        f"target_path => '{tmp_path / 't'}')"
    )
    # Somebody has linked the source's directory to a place in the table.
    shutil.move(source, tmp_path / "t" / "inside")
    source.symlink_to(tmp_path / "t" / "inside")
    before = fingerprint(tmp_path / "t")
    with pytest.raises(RollbackRefusedError, match="source files lie inside"):
        session.sql("DROP TABLE dropped.t PURGE")
    assert fingerprint(tmp_path / "t") == before
    assert names_of(session) == ["t"]


def test_files_of_others_in_the_directory_stay(session: Session, tmp_path: Path) -> None:
    make(session, tmp_path / "t")
    session.sql("INSERT INTO dropped.t VALUES (1, 'a')")
    (tmp_path / "t" / "dt=a" / "note.txt").write_text("mine")
    session.sql("DROP TABLE dropped.t PURGE")
    left = [path for path in (tmp_path / "t").rglob("*") if path.is_file()]
    assert [path.name for path in left] == ["note.txt"]


def test_a_killed_purge_is_ended_by_the_next(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(session, tmp_path / "t")
    session.sql("INSERT INTO dropped.t VALUES (1, 'a'), (2, 'b')")

    def fail(*_arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "delete_directory", fail)
        with pytest.raises(KeyboardInterrupt):
            session.sql("DROP TABLE dropped.t PURGE")
    assert not (tmp_path / "t" / ".hoodie" / "hoodie.properties").exists()
    assert names_of(session) == ["t"]
    session.sql("DROP TABLE dropped.t PURGE")
    assert not (tmp_path / "t").exists()
    assert names_of(session) == []


def test_the_name_by_which_a_purge_is_run_again_goes_last(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(session, tmp_path / "t", "mor")
    metastore = session.context.metastore
    drop = metastore.drop_table
    dropped: list[str] = []

    def drop_one(database: str, name: str, **more: Any) -> None:
        if dropped:
            raise KeyboardInterrupt
        dropped.append(name)
        drop(database, name, **more)

    with monkeypatch.context() as patch:
        patch.setattr(metastore, "drop_table", drop_one)
        with pytest.raises(KeyboardInterrupt):
            session.sql("DROP TABLE dropped.t PURGE")
    assert len(dropped) == 1
    assert "t" in names_of(session)
    session.sql("DROP TABLE dropped.t PURGE")
    assert not (tmp_path / "t").exists()
    assert names_of(session) == []
