"""CALL run_compaction and show_compaction on bootstrapped merge-on-read tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import (
    InvalidArgumentError,
    NoSuchInstantError,
    NoSuchTableError,
    SettingsError,
    StorageError,
    UnsupportedTableError,
    WriteConflictError,
)
from hudisql.format.paths.file_names import parse_base_file_name
from hudisql.format.table_properties import CDC_ENABLED
from hudisql.services.compaction import compaction_action as compaction
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import open_table
from hudisql.table.properties.table_configuration import update_table_properties
from hudisql.write.transaction.commit import OpenCommit
from hudisql.write.transaction.heartbeat import heartbeat_path
from hudisql.write.transaction.markers import Marker, MarkerKind, create_marker
from tests.sql.changed_tables import ChangedTable, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]

AT_ONCE = "hoodie.compact.inline.max.delta.commits=1"


@pytest.fixture
def table(merge_on_read_table: ChangedTable) -> ChangedTable:
    merge_on_read_table.run("DELETE FROM {t} WHERE seq % 10 = 0")
    return merge_on_read_table


def _call(table: ChangedTable, op: str, more: str = "") -> list[tuple[Any, ...]]:
    text = f"CALL run_compaction(op => '{op}', table => '{table.name}', options => '{AT_ONCE}'{more})"
    return [tuple(row) for row in table.session.sql(text).rows]


def _shown(table: ChangedTable) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in table.session.sql(f"CALL show_compaction('{table.name}')").rows]


def _base_files(table: ChangedTable, instant_time: str) -> list[str]:
    names = [(path.name, parse_base_file_name(path.name)) for path in Path(table.path).rglob("*.parquet")]
    return [name for name, found in names if found is not None and found.instant_time == instant_time]


def test_log_files_become_base_files_and_rows_keep_their_meta_columns(table: ChangedTable) -> None:
    before = table.rows("*")
    ((instant_time, size, state),) = _call(table, "scheduleandexecute")
    assert (size, state) == (3, "COMPLETED")
    assert _shown(table) == [(instant_time, 3, "COMPLETED")]
    after = table.rows("*")
    # `_hoodie_file_name` is the one meta column that a rewrite changes.
    assert [row[:4] + row[5:] for row in after] == [row[:4] + row[5:] for row in before]
    slices = load_file_slices(open_table(Storage(), table.path))
    compacted = [each for each in slices if each.base_instant_time == instant_time]
    assert [each.has_log_files or each.is_bootstrapped for each in compacted] == [False] * 3
    table.run("UPDATE {t} SET price = 0 WHERE seq = 1")
    assert table.rows("price", "seq = 1") == [(0,)]


def test_by_default_a_compaction_is_due_after_five_delta_commits(table: ChangedTable) -> None:
    call = f"CALL run_compaction(op => 'schedule', table => '{table.name}')"
    assert table.session.sql(call).rows == []
    assert _shown(table) == []
    key = AT_ONCE.partition("=")[0]
    table.session.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('{key}' = '1')")
    assert [row[2] for row in table.session.sql(call).rows] == ["REQUESTED"]


def test_run_plans_what_is_due_or_runs_what_is_pending(table: ChangedTable) -> None:
    not_due = f"CALL run_compaction(op => 'run', table => '{table.name}')"
    assert table.session.sql(not_due).rows == []
    assert [row[2] for row in _call(table, "run")] == ["COMPLETED"]
    table.run("DELETE FROM {t} WHERE seq = 1")
    ((planned, _, _),) = _call(table, "schedule")
    assert table.session.sql(f"RUN COMPACTION ON {table.name}").rows == [(planned, 1, "COMPLETED")]
    table.run("DELETE FROM {t} WHERE seq = 2")
    ((planned, _, _),) = _call(table, "schedule")
    assert _call(table, "execute", ", limit => 0") == []
    assert _call(table, "schedule", f", timestamp => {planned}") == [(planned, 1, "COMPLETED")]


def test_a_run_that_failed_leaves_its_plan_and_is_repeated(
    table: ChangedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = table.rows()
    ((instant_time, _, _),) = _call(table, "schedule")

    def fail(*_: object) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(compaction, "publish_commit", fail)
        with pytest.raises(StorageError, match="the disk is full"):
            _call(table, "run")
    assert _base_files(table, instant_time) == []
    assert _shown(table) == [(instant_time, 3, "REQUESTED")]
    assert table.rows() == before
    assert [row[2] for row in _call(table, "execute")] == ["COMPLETED"]
    assert table.rows() == before
    assert _call(table, "run") == []


def test_files_of_a_run_that_was_killed_are_deleted_by_the_next(table: ChangedTable) -> None:
    before = table.rows()
    ((instant_time, _, _),) = _call(table, "schedule")
    opened = open_table(Storage(), table.path)
    (killed,) = [each for each in load_file_slices(opened) if each.partition_path.endswith("1")][:1]
    name = f"{killed.file_id}_9-9-9_{instant_time}.parquet"
    create_marker(Storage(), table.path, instant_time, Marker(killed.partition_path, name, MarkerKind.MERGE))
    (Path(table.path) / killed.partition_path / name).write_bytes(b"half a file")
    (Path(table.path) / ".hoodie" / f"{instant_time}.compaction.inflight").write_bytes(b"")
    assert table.rows() == before
    assert _shown(table) == [(instant_time, 3, "INFLIGHT")]
    assert [row[2] for row in _call(table, "run")] == ["COMPLETED"]
    assert name not in _base_files(table, instant_time)
    assert len(_base_files(table, instant_time)) == 3
    assert table.rows() == before


def test_a_run_whose_heartbeat_has_expired_touches_nothing_of_the_next(
    table: ChangedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = table.rows()
    ((instant_time, _, _),) = _call(table, "schedule")

    def fall_silent(commit: OpenCommit, *_: object) -> None:
        assert commit.heartbeat is not None
        commit.heartbeat._last = 0.0
        commit.heartbeat.check()

    with monkeypatch.context() as patched:
        patched.setattr(compaction, "publish_commit", fall_silent)
        with pytest.raises(WriteConflictError, match="heartbeat"):
            _call(table, "run")
    silent = _base_files(table, instant_time)
    assert len(silent) == 3
    assert _shown(table) == [(instant_time, 3, "INFLIGHT")]
    Path(heartbeat_path(table.path, instant_time)).unlink()
    assert [row[2] for row in _call(table, "run")] == ["COMPLETED"]
    assert len(_base_files(table, instant_time)) == 3
    assert not set(_base_files(table, instant_time)) & set(silent)
    assert table.rows() == before


def test_a_run_with_a_fresh_heartbeat_is_left_alone(table: ChangedTable) -> None:
    ((instant_time, _, _),) = _call(table, "schedule")
    Storage().write(heartbeat_path(table.path, instant_time), b"")
    with pytest.raises(WriteConflictError, match=f"another process runs the compaction {instant_time}"):
        _call(table, "run")


def test_what_cannot_be_compacted_is_refused(table: ChangedTable, request: pytest.FixtureRequest) -> None:
    for op, more, error, message in [
        ("now", "", InvalidArgumentError, "op must be schedule, execute, scheduleAndExecute or run, not"),
        ("run", ", timestamp => 20990101000000000", NoSuchInstantError, "no compaction 20990101000000000"),
        (
            "execute",
            ", instants => '20990101000000000'",
            NoSuchInstantError,
            "no compaction 20990101000000000",
        ),
        ("run", ", instants => '20990101000000000'", InvalidArgumentError, "op => 'run' does not fit"),
    ]:
        with pytest.raises(error, match=message):
            _call(table, op, more)
    for options, error, message in [
        ("nonsense", InvalidArgumentError, "key=value pairs, not 'nonsense'"),
        ("hoodie.compaction.strategy=Mine", SettingsError, "Mine is not supported"),
        ("hoodie.compact.inline.trigger.strategy=SOON", SettingsError, "not 'SOON'"),
    ]:
        with pytest.raises(error, match=message):
            table.session.sql(
                f"CALL run_compaction(op => 'schedule', table => '{table.name}', options => '{options}')"
            )
    copy_on_write: ChangedTable = request.getfixturevalue("table_copy_on_write")
    with pytest.raises(UnsupportedTableError, match="is copy-on-write"):
        _call(copy_on_write, "schedule")
    assert _shown(table) == []
    update_table_properties(Storage(), table.path, {CDC_ENABLED: "true"})
    with pytest.raises(UnsupportedTableError, match="is bootstrapped and logs changes") as caught:
        _call(table, "schedule")
    assert caught.value.hint == "write to it with Apache Hudi"


@pytest.fixture
def table_copy_on_write(session: Any, bootstrapped_original: Path, tmp_path: Path) -> Any:
    import shutil

    path = tmp_path / "copy_on_write"
    shutil.copytree(bootstrapped_original / "table", path)
    session.sql(f"CALL hive_sync(table => 'changes.cow_compaction', path => '{path}')")
    yield ChangedTable(session, "changes.cow_compaction", str(path))
    session.sql("DROP TABLE IF EXISTS changes.cow_compaction")


def test_statements_of_hudis_grammar_schedule_run_and_show_compactions(table: ChangedTable) -> None:
    session = table.session
    with setting(session, "hoodie.compact.inline.max.delta.commits", "1"):
        ((first, size, state),) = session.sql(f"SCHEDULE COMPACTION ON {table.name}").rows
    assert (size, state) == (3, "REQUESTED")
    assert session.sql(f"run compaction on {table.name} at {first}").rows == [(first, 3, "COMPLETED")]
    table.run("DELETE FROM {t} WHERE seq = 1")
    with setting(session, "hoodie.compact.inline.max.delta.commits", "1"):
        ((second, _, _),) = session.sql(f"schedule compaction on '{table.path}'").rows
    assert session.sql(f"RUN COMPACTION ON '{table.path}'").rows == [(second, 1, "COMPLETED")]
    assert [row[0] for row in session.sql(f"SHOW COMPACTION ON {table.name}").rows] == [second, first]
    shown = session.sql(f"show compaction on '{table.path}' limit 1")
    assert (shown.rows, shown.schema.names) == (
        [(second, 1, "COMPLETED")],
        ["timestamp", "operation_size", "state"],
    )
    with pytest.raises(NoSuchInstantError):
        session.sql(f"RUN COMPACTION ON {table.name} AT 20200101000000000")
    with pytest.raises(NoSuchTableError, match=r"no table default\.absent"):
        session.sql("SHOW COMPACTION ON default.absent")
