"""The procedures of savepoints, restores and rollbacks, and the metastore after them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import InvalidArgumentError, NoSuchInstantError, NoSuchTableError, RollbackRefusedError
from hudisql.format.timeline.instant import InstantState
from hudisql.format.timeline.timeline_layout import metadata_table_directory
from hudisql.services.rollback.restore import plan_restore
from hudisql.write.transaction.instant_request import request_instant
from tests.opened import open_at, open_kept
from tests.sql.changed_tables import ChangedTable

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def _call(table: ChangedTable, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in table.session.sql(f"CALL {text.replace('{t}', table.name)}").rows]


def _partitions(table: ChangedTable) -> list[str]:
    return [row[0] for row in table.session.sql(f"SHOW PARTITIONS {table.name}").rows]


def _latest(table: ChangedTable) -> str:
    return table.instants()[-1].split()[0]


def test_a_restored_table_has_its_earlier_rows_and_partitions(merge_on_read_table: ChangedTable) -> None:
    table = merge_on_read_table
    before, partitions = table.rows("*"), _partitions(table)
    assert _call(table, "create_savepoint('{t}')") == [(True,)]
    ((saved,),) = _call(table, "show_savepoints('{t}')")
    assert saved == _latest(table)
    table.run("INSERT INTO {t} SELECT id, seq, price, st, tags, at, '2024-05-01' FROM {t} WHERE seq = 1")
    table.run("DELETE FROM {t} WHERE dt = '2024-03-01'")
    table.session.sql(f"ALTER TABLE {table.name} DROP PARTITION (dt = '2024-03-02')")
    assert _partitions(table) != partitions
    assert _call(table, "rollback_to_savepoint(table => '{t}', instant_time => '" + saved + "')") == [(True,)]
    assert table.rows("*") == before
    # By SHOW PARTITIONS and by the metastore's own entries.
    assert _partitions(table) == partitions
    entries = table.session.context.metastore.list_partitions(*table.name.split("."))
    assert sorted(f"dt={each.values[0]}" for each in entries) == partitions
    assert _call(table, "delete_savepoint('{t}')") == [(True,)]
    assert _call(table, "show_savepoints('{t}')") == []
    table.run("INSERT INTO {t} SELECT id, seq, price, st, tags, at, '2024-05-01' FROM {t} WHERE seq = 1")
    assert _partitions(table) == [*partitions, "dt=2024-05-01"]


def test_a_restore_that_hudi_began_is_completed_without_its_metadata_table(
    merge_on_read_table: ChangedTable,
) -> None:
    table = merge_on_read_table
    _call(table, "create_metadata_table(table => '{t}')")
    before, saved = table.rows("*"), _latest(table)
    _call(table, "create_savepoint('{t}')")
    table.run("INSERT INTO {t} SELECT id, seq, price, st, tags, at, '2024-05-01' FROM {t} WHERE seq = 1")
    opened = open_at(table.path)
    assert opened.storage.exists(metadata_table_directory(opened.base_path))
    # As Apache Hudi, which has planned it and undone the commit, but not said so to the metadata table.
    request_instant(opened, "restore", plan_restore(opened, saved).to_avro())
    (commit,) = [each for each in opened.timeline.commits if each.timestamp > saved]
    shutil.rmtree(Path(table.path) / "dt=2024-05-01")
    for state in (commit, *(commit.in_state(each) for each in InstantState)):
        opened.storage.delete_file(opened.instant_path(state))
    assert _call(table, "rollback_to_savepoint('{t}')") == [(True,)]
    assert not opened.storage.exists(metadata_table_directory(opened.base_path))
    assert table.rows("*") == before
    table.run("INSERT INTO {t} SELECT id, seq, price, st, tags, at, '2024-05-01' FROM {t} WHERE seq = 1")
    assert len(table.rows("*")) > len(before)


def test_the_latest_commit_is_rolled_back_and_shown(
    merge_on_read_table: ChangedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = merge_on_read_table
    _call(table, "create_metadata_table(table => '{t}')")
    warnings: list[str] = []
    monkeypatch.setattr(table.session.context.console, "warning", warnings.append)
    before, partitions = table.rows("*"), _partitions(table)
    table.run("INSERT INTO {t} SELECT id, seq, price, st, tags, at, '2024-05-01' FROM {t} WHERE seq = 1")
    latest = _latest(table)
    assert _call(table, f"rollback_to_instant('{{t}}', '{latest}')") == [(True,)]
    assert warnings == []
    open_kept(table.path)
    assert table.rows("*") == before
    assert _partitions(table) == partitions
    ((rollback, rolled_back, files, _, touched),) = _call(table, "show_rollbacks('{t}')")
    assert (rolled_back, files, touched) == (latest, 1, 1)
    ((instant, listed, partition, path, succeeded),) = _call(
        table, f"show_rollback_detail(table => '{{t}}', instant_time => '{rollback}')"
    )
    assert (instant, listed, partition, succeeded) == (rollback, f"[{latest}]", "dt=2024-05-01", True)
    assert path.endswith(f"_{latest}.parquet")
    assert _call(table, "show_rollbacks('{t}', 0)") == []
    # A metadata table that was made after the commit.
    table.run("INSERT INTO {t} SELECT id, seq, price, st, tags, at, '2024-05-01' FROM {t} WHERE seq = 1")
    _call(table, "create_metadata_table(table => '{t}')")
    _call(table, f"rollback_to_instant('{{t}}', '{_latest(table)}')")
    (warning,) = warnings
    assert "its metadata table (column_stats, files) is dropped" in warning
    assert table.rows("*") == before


def test_what_cannot_be_done_is_one_error(merge_on_read_table: ChangedTable) -> None:
    table = merge_on_read_table
    bootstrap = _latest(table)
    for text, error, match in (
        (f"rollback_to_instant('{{t}}', '{bootstrap}')", RollbackRefusedError, "is its bootstrap"),
        ("rollback_to_instant('{t}', '2020')", NoSuchInstantError, "2020 is not a completed commit"),
        ("rollback_to_instant('{t}')", InvalidArgumentError, "instant_time"),
        ("rollback_to_savepoint('{t}')", NoSuchInstantError, "has no savepoint"),
        ("delete_savepoint('{t}', '2020')", NoSuchInstantError, "has no savepoint"),
        ("create_savepoint('{t}', '2020')", NoSuchInstantError, "2020 is not a completed commit"),
        ("create_savepoint()", InvalidArgumentError, "give table or path"),
        ("show_savepoints('nowhere.t')", NoSuchTableError, "no table nowhere.t"),
        ("show_rollback_detail('{t}', 10, '2020')", NoSuchInstantError, "2020 is not a completed rollback"),
    ):
        with pytest.raises(error, match=match):
            _call(table, text)


def test_a_savepoint_keeps_what_a_service_that_was_planned_before_its_commit_has_written(
    session: Any,
) -> None:
    """Version 9 orders commits by their completion, but a savepoint's files by requests."""
    name = "restored.planned"
    session.sql("CREATE DATABASE IF NOT EXISTS restored")
    session.sql(
        f"CREATE TABLE {name} (id INT, dt STRING) USING hudi PARTITIONED BY (dt) "
        "TBLPROPERTIES (primaryKey = 'id', 'hoodie.write.table.version' = '9')"
    )
    session.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'a'), (3, 'b')")
    session.sql(f"CALL run_clustering(op => 'schedule', table => '{name}', order => 'id')")
    session.sql(f"INSERT INTO {name} VALUES (4, 'c')")
    saved = session.sql(f"CALL show_commits(table => '{name}')").rows[0].commit_time
    session.sql(f"CALL run_clustering(op => 'execute', table => '{name}')")
    session.sql(
        f"CALL run_clean(table => '{name}', clean_policy => 'KEEP_LATEST_FILE_VERSIONS', "
        "file_versions_retained => 1)"
    )
    session.sql(f"CALL create_savepoint(table => '{name}', commit_time => '{saved}')")
    session.sql(f"DELETE FROM {name} WHERE id < 4")
    session.sql(f"CALL rollback_to_savepoint(table => '{name}')")
    rows = session.sql(f"SELECT id, dt FROM {name} ORDER BY id").rows
    assert [tuple(row) for row in rows] == [(1, "a"), (2, "a"), (3, "b"), (4, "c")]
    session.sql("DROP DATABASE restored CASCADE")
