"""RENAME TO while another writer holds the table's lock: neither the metastore nor the table changes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import TableLockedError
from hudisql.sql.ddl import alter_table
from hudisql.sql.schema.alterations import RenameTable
from hudisql.storage import Storage
from hudisql.write.transaction.concurrency import Concurrency
from hudisql.write.transaction.lock import FileSystemLock, LockRetryPolicy


def test_no_entry_is_renamed_while_another_writer_holds_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = MetastoreTable("lake", "trips", "EXTERNAL_TABLE", str(tmp_path), ())
    renamed: list[str] = []
    metastore = SimpleNamespace(
        get_table=lambda *_names: None, alter_table=lambda table, **_names: renamed.append(table.name)
    )
    context: Any = SimpleNamespace(
        metastore=metastore,
        storage=Storage(),
        console=SimpleNamespace(info=lambda _text: None),
        qualify_table_name=lambda _name: ("lake", "rides"),
    )
    table: Any = SimpleNamespace(base_path=str(tmp_path))
    concurrency = Concurrency(
        lock=FileSystemLock(Storage(), str(tmp_path)), lock_retry_policy=LockRetryPolicy(retries=0)
    )
    monkeypatch.setattr(alter_table, "settings_of", lambda *_: None)
    monkeypatch.setattr(alter_table, "writer_concurrency", lambda *_: concurrency)
    monkeypatch.setattr(alter_table, "entries_of_table", lambda *_: [entry])
    monkeypatch.setattr(alter_table, "update_table_properties", lambda *_: None)
    (tmp_path / "lock").touch()
    with pytest.raises(TableLockedError):
        alter_table._rename(context, entry, table, RenameTable(("rides",)))
    assert renamed == []
    (tmp_path / "lock").unlink()
    alter_table._rename(context, entry, table, RenameTable(("rides",)))
    assert renamed == ["rides"]
