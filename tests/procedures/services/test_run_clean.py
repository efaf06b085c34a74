"""CALL run_clean and what shows cleans, and the services that run after a commit by themselves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from hudisql.context import Context
from hudisql.errors import (
    HudisqlError,
    InvalidArgumentError,
    NoSuchTableError,
    SettingsError,
    SourceProtectedError,
    StorageError,
)
from hudisql.format.timeline.instant import CLEAN
from hudisql.services.archive.archive_action import archive_table
from hudisql.services.archive.archive_plan import ArchiveOptions
from hudisql.services.clean.clean_action import clean_table
from hudisql.services.clean.clean_plan import CleanOptions
from hudisql.services.schedule import automatic
from hudisql.sql.dispatch import execute
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.timeline.replaced_groups import ReplacedGroups
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.life.faults import DyingStorage, ProcessKilled
from tests.sql.changed_tables import ChangedTable, own_database, write_source
from tests.table.conftest import TableDirectory

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def _call(table: ChangedTable, procedure: str, arguments: str = "") -> list[dict[str, Any]]:
    rows = table.session.sql(f"CALL {procedure}(table => '{table.name}'{arguments})").rows
    return [row.asDict() for row in rows]


def _set(table: ChangedTable, **settings: str) -> None:
    pairs = ", ".join(f"'{name.replace('__', '.')}' = '{value}'" for name, value in settings.items())
    table.session.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ({pairs})")


def _files(table: ChangedTable) -> set[str]:
    return {path.name for path in Path(table.path).rglob("*.parquet")}


def _open(table: ChangedTable) -> HudiTable:
    return open_table(Storage(), table.path)


def test_a_clean_deletes_old_slices_and_is_shown(table: ChangedTable) -> None:
    for number in range(3):
        table.run(f"UPDATE {{t}} SET price = {number} WHERE seq = 1")
    before, rows = _files(table), table.rows("*")
    assert _call(table, "run_clean") == []
    (cleaned,) = _call(table, "run_clean", ", retain_commits => 1")
    commits = [each.timestamp for each in _open(table).timeline.commits]
    deleted = before - _files(table)
    assert len(deleted) == 2
    assert {name.rpartition("_")[2] for name in deleted} == {f"{time}.parquet" for time in commits[:2]}
    assert cleaned["earliest_commit_to_retain"] == commits[-1]
    assert (cleaned["total_files_deleted"], cleaned["bootstrap_part_metadata"]) == (2, "{}")
    assert table.rows("*") == rows
    (shown,) = _call(table, "show_cleans")
    assert (shown["clean_time"], shown["action"]) == (cleaned["start_clean_time"], "clean")
    assert shown["last_completed_commit_timestamp"] == commits[-1]
    (partition,) = _call(table, "show_cleans_metadata", ", filter => 'success_delete_files > 0'")
    assert (partition["partition_path"], partition["success_delete_files"]) == ("dt=2024-03-01", 2)
    (plan,) = _call(table, "show_clean_plans", ", limit => 1")
    assert (plan["state"], plan["policy"], plan["total_partitions_to_clean"]) == (
        "COMPLETED",
        "KEEP_LATEST_COMMITS",
        1,
    )
    table.run("UPDATE {t} SET price = 7 WHERE seq = 2")
    assert table.rows("price", "seq = 2") == [(7,)]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ("clean_policy => 'KEEP_ALL'", SettingsError, "hoodie.cleaner.policy must be one of KEEP_LATEST"),
        ("retain_commits => -1", SettingsError, "hoodie.cleaner.commits.retained must be a whole number"),
        ("trigger_strategy => 'TIME'", SettingsError, "hoodie.clean.trigger.strategy must be one of"),
        (
            "options => 'hoodie.cleaner.delete.bootstrap.base.file=true'",
            SourceProtectedError,
            "would delete 0 source files of the bootstrap; nothing was deleted",
        ),
        ("confirm_source_deletion => true", InvalidArgumentError, "confirms nothing while hoodie.cleaner"),
        ("path => '/no/such/table'", NoSuchTableError, "no such path: /no/such/table"),
    ],
)
def test_what_a_clean_cannot_do_is_said(
    session: Any, bootstrapped_original: Path, arguments: str, error: type[HudisqlError], message: str
) -> None:
    where = "" if "path" in arguments else f"path => '{bootstrapped_original}/table', "
    with pytest.raises(error, match=message):
        session.sql(f"CALL run_clean({where}{arguments})")


WITH_SOURCES = ", options => 'hoodie.cleaner.delete.bootstrap.base.file=true', retain_commits => 1"


@pytest.mark.soak
def test_source_files_are_deleted_by_a_confirmed_call_alone(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(session.context.console, "warning", warnings.append)
    source = write_source(tmp_path / "source")
    with own_database(session, "cleaned"):
        for name in ("t", "other"):
            session.sql(
                f"CALL bootstrap_table(table => 'cleaned.{name}', source => '{source}', record_key => 'id', "
                f"precombine => 'seq', target_path => '{tmp_path / name}')"
            )
        table = ChangedTable(session, "cleaned.t", str(tmp_path / "t"))
        _set(table, hoodie__cleaner__delete__bootstrap__base__file="true")
        for number in range(2):
            table.run(f"UPDATE {{t}} SET price = {number} WHERE true")
        rows = table.rows()
        first, second, third = (source / f"dt=2024-03-0{day}" / "part-0.parquet" for day in (1, 2, 3))
        session.sql(f"CREATE TABLE cleaned.plain (id STRING) USING parquet LOCATION '{second.parent}'")
        with pytest.raises(
            SourceProtectedError, match=r"would delete 0 source files .*; nothing was deleted"
        ):
            _call(table, "run_clean", WITH_SOURCES)
        assert any("stay: the table cleaned.other names it" in each for each in warnings)
        session.sql("DROP TABLE cleaned.other")
        (planned,) = _call(table, "run_clean", f"{WITH_SOURCES}, dry_run => true")
        patterns = [
            each["deletePathPatterns"] for each in json.loads(planned["bootstrap_part_metadata"]).values()
        ]
        assert patterns == [[f"file:{first}"], [f"file:{third}"]]
        assert planned["total_files_deleted"] == 3
        # An automatic clean takes the skeletons alone.
        _set(table, hoodie__cleaner__commits__retained="1")
        table.run("UPDATE {t} SET price = 1 WHERE seq = 1")
        assert all(path.exists() for path in (first, second, third))
        assert not any("00000000000001" in name for name in _files(table))
        with pytest.raises(SourceProtectedError, match=r"would delete 2 source files .*part-0\.parquet"):
            _call(table, "run_clean", WITH_SOURCES)
        _call(table, "run_clean", f"{WITH_SOURCES}, confirm_source_deletion => true")
        assert [path.exists() for path in (first, second, third)] == [False, True, False]
        session.sql("DROP TABLE cleaned.plain")
        _call(table, "run_clean", f"{WITH_SOURCES}, confirm_source_deletion => true")
        assert not second.exists()
        assert [row[:2] for row in table.rows()] == [row[:2] for row in rows]
        assert _call(table, "run_clean", f"{WITH_SOURCES}, confirm_source_deletion => true") == []


def test_a_clean_that_is_due_runs_after_the_commit(table: ChangedTable, monkeypatch: Any) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(table.session.context.console, "warning", warnings.append)
    table.run("UPDATE {t} SET price = 1 WHERE seq = 1")
    _set(table, hoodie__cleaner__commits__retained="1")
    table.run("UPDATE {t} SET price = 2 WHERE seq = 1")
    assert [each.action for each in _open(table).timeline.instants].count(CLEAN) == 1
    _set(table, hoodie__clean__automatic="false", hoodie__keep__min__commits="2")
    _set(table, hoodie__keep__max__commits="3")
    table.run("UPDATE {t} SET price = 3 WHERE seq = 1")
    assert [each.action for each in _open(table).timeline.instants].count(CLEAN) == 1
    archived = {row["commit_time"] for row in _call(table, "show_archived_commits")}
    assert "00000000000001" in archived
    assert archived.isdisjoint(each.timestamp for each in _open(table).timeline.commits)
    assert len(table.rows()) == 30
    assert table.rows("price", "seq = 1") == [(3,)]
    assert warnings == []


def test_a_service_that_fails_is_a_warning_and_the_commit_stands(
    table: ChangedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise StorageError("cannot list the table")

    warnings: list[str] = []
    monkeypatch.setattr(table.session.context.console, "warning", warnings.append)
    monkeypatch.setattr(automatic, "clean_table", fails)
    table.run("UPDATE {t} SET price = 1 WHERE seq = 1")
    _set(table, hoodie__cleaner__commits__retained="1")
    table.run("UPDATE {t} SET price = 2 WHERE seq = 1")
    assert table.rows("price", "seq = 1") == [(2,)]
    assert warnings == [
        "changes.t: committed, but the automatic clean failed: cannot list the table (CALL run_clean runs it "
        "again)"
    ]


def test_nothing_is_listed_where_nothing_is_due(table: ChangedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    # A service that were called would fail, which is a warning.
    warnings: list[str] = []
    monkeypatch.setattr(table.session.context.console, "warning", warnings.append)
    monkeypatch.setattr(automatic, "clean_table", None)
    monkeypatch.setattr(automatic, "schedule_compaction", None)
    table.run("UPDATE {t} SET price = 1 WHERE seq = 1")
    assert warnings == []


def test_an_inline_compaction_runs_after_the_commit(
    merge_on_read_table: ChangedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = merge_on_read_table
    warnings: list[str] = []
    monkeypatch.setattr(table.session.context.console, "warning", warnings.append)
    _set(table, hoodie__compact__schedule__inline="true", hoodie__compact__inline__max__delta__commits="1")
    table.run("DELETE FROM {t} WHERE seq % 10 = 0")
    assert len(_open(table).timeline.pending_compactions) == 1
    _set(table, hoodie__compact__inline="true")
    rows = table.rows("id, seq, price, dt", "seq % 10 > 0 AND seq <> 1")
    table.run("DELETE FROM {t} WHERE seq = 1")
    assert warnings == []
    timeline = _open(table).timeline
    assert timeline.pending == ()
    assert [each.action for each in timeline.commits].count("commit") == 2
    assert table.rows() == rows


KEEP_ONE = CleanOptions(commits_retained=1)
ARCHIVED_SOON = ArchiveOptions(2, 3, clean=KEEP_ONE)


def _often_cleaned(path: Path) -> HudiTable:
    directory = TableDirectory(path, {})
    directory.partition("dt=a")
    for number in range(8):
        instant_time = f"202611220000{number:02d}000"
        directory.base_file("dt=a", "f", instant_time)
        directory.commit(instant_time, written=(f"dt=a/f_0-0-0_{instant_time}.parquet",))
        clean_table(open_table(Storage(), str(directory.path)), KEEP_ONE, SINGLE_WRITER)
    return open_table(Storage(), str(directory.path))


def test_cleans_are_shown_whose_archiving_was_killed(session: Any, tmp_path: Path) -> None:
    table = _often_cleaned(tmp_path / "table")
    cleans = [each.timestamp for each in table.timeline.completed if each.action == CLEAN]
    plan = Path(table.base_path, ".hoodie", f"{cleans[0]}.clean.requested")
    for step in count():
        dying = open_table(DyingStorage(step=step), table.base_path)
        with pytest.raises(ProcessKilled):
            archive_table(dying, ARCHIVED_SOON, SINGLE_WRITER)
        if not plan.exists():
            break
    assert plan.with_suffix("").exists(), "the clean itself goes last"
    call = f"CALL show_clean_plans(path => '{table.base_path}', limit => 50{{}})"
    assert [row.plan_time for row in session.sql(call.format("")).rows] == cleans[:0:-1]
    archived = session.sql(call.format(", showArchived => true")).rows
    assert {row.plan_time for row in archived} == set(cleans)


def test_archived_cleans_and_commits_are_shown(session: Any, tmp_path: Path) -> None:
    table = _often_cleaned(tmp_path / "table")
    directory = Path(table.base_path)
    cleans = [each.timestamp for each in table.timeline.completed if each.action == CLEAN]
    archive_table(table, ARCHIVED_SOON, SINGLE_WRITER)

    def call(procedure: str, arguments: str) -> list[Any]:
        return session.sql(f"CALL {procedure}(path => '{directory}', limit => 50{arguments})").rows

    assert [row.clean_time for row in call("show_cleans", "")] == cleans[:-3:-1]
    for procedure, column in (
        ("show_cleans", "clean_time"),
        ("show_cleans_metadata", "clean_time"),
        ("show_clean_plans", "plan_time"),
    ):
        rows = call(procedure, ", showArchived => true")
        assert [row[column] for row in rows] == cleans[::-1]
        assert {row["action"] for row in rows} == {CLEAN}
    commits = call("show_archived_commits", "")
    assert [row.commit_time for row in commits] == [f"202611220000{n:02d}000" for n in range(5, -1, -1)]
    files = call("show_archived_commits_metadata", ", start_ts => '20261122000004000'")
    assert [(row.commit_time, row.file_id) for row in files] == [
        ("20261122000005000", "f"),
        ("20261122000004000", "f"),
    ]
    kinds = [row.timeline_type for row in call("show_timeline", ", showArchived => true")]
    assert kinds == ["ACTIVE"] * 4 + ["ARCHIVED"] * (6 + len(cleans) - 2)
    query = f"SELECT timestamp, action, total_partitions_written FROM hudi_query_timeline('{directory}'"
    active = [tuple(row) for row in session.sql(f"{query})").rows]
    every = [tuple(row) for row in session.sql(f"{query}, true)").rows]
    assert every[-4:] == active
    assert [row[0] for row in every[:-4] if row[1:] == ("commit", 1)] == [each[0] for each in commits[::-1]]
    assert [row[0] for row in every if row[1:] == (CLEAN, -1)] == cleans
    with pytest.raises(InvalidArgumentError, match="enable_metadata must be false"):
        session.sql(f"CALL archive_commits(path => '{directory}', enable_metadata => true)")
    with pytest.raises(SettingsError, match=r"hoodie\.keep\.max\.commits \(5\) must be greater"):
        session.sql(f"CALL archive_commits(path => '{directory}', min_commits => 5, max_commits => 5)")


@dataclass(frozen=True)
class ArchivingStorage(Storage):
    """A storage where another process archives before the first replacecommit is read."""

    path: str = ""
    archived: list[object] = field(default_factory=list, compare=False)

    def read(self, path: str) -> bytes:
        self._archive_if_due([path])
        return super().read(path)

    def read_files(self, paths: Sequence[str]) -> list[bytes]:
        self._archive_if_due(paths)
        return super().read_files(paths)

    def _archive_if_due(self, paths: Sequence[str]) -> None:
        if not self.archived and any(path.endswith(".replacecommit") for path in paths):
            options = ArchiveOptions(2, 3, clean=CleanOptions(commits_retained=1))
            self.archived.append(archive_table(open_table(Storage(), self.path), options, SINGLE_WRITER))


@pytest.mark.soak
def test_a_query_goes_on_if_instants_are_archived_while_it_is_planned(
    table: ChangedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.run("INSERT OVERWRITE {t} PARTITION (dt = '2024-03-01') (id, seq) VALUES ('n', 100)")
    for number in range(101, 105):
        table.run(f"INSERT INTO {{t}} (id, seq, dt) VALUES ('n{number}', {number}, '2024-03-02')")
    _call(table, "run_clean", ", retain_commits => 1")
    expected = table.rows()
    storage = ArchivingStorage(path=table.path)
    context = Context(table.session.spark, table.session.context.metastore, storage)
    monkeypatch.setattr("hudisql.table.timeline.replaced_groups._replaced", ReplacedGroups())
    rows = execute(context, f"SELECT id, seq, price, dt FROM {table.name} ORDER BY id").rows
    assert storage.archived
    assert [tuple(row) for row in rows] == expected
