"""Savepoints and restores: what is undone, what stays, what is refused, and kills at every step."""

from __future__ import annotations

import operator
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import (
    CorruptTableError,
    HudisqlError,
    InvalidArgumentError,
    NoSuchInstantError,
    RollbackRefusedError,
    UnsupportedTableError,
    WriteConflictError,
)
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.paths.file_names import parse_base_file_name, parse_log_file_name
from hudisql.format.timeline.instant import Instant, InstantState
from hudisql.services.rollback.restore import restore_to_savepoint
from hudisql.services.rollback.savepoint import create_savepoint, delete_savepoint, read_savepoint
from hudisql.storage import join
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.commit import begin_commit, rollback_commit
from hudisql.write.transaction.timeline_payloads import RestorePlan
from tests.file_slices import has_lost_its_rows
from tests.oracle.line_process import LineProcess
from tests.services.copied_tables import STORAGE, Copy, again, rows_of, rows_without
from tests.soak import parameters
from tests.write.crashed_commits import crash

BOOTSTRAP = "00000000000001"
COPIED = (
    "cow_bootstrap_then_upsert_delete",
    "cow_insert_overwrite",
    "cow_clustering_scheduled",
    "mor_two_log_generations",
    "mor_compaction_scheduled",
    "mor_parquet_log",
)


def _data_files(table: HudiTable) -> list[str]:
    """Base files, and log files that were not rolled back."""
    return sorted(
        path.name
        for path in Path(table.base_path).glob("*/*")
        if parse_base_file_name(path.name) or (parse_log_file_name(path.name) and not has_lost_its_rows(path))
    )


@pytest.mark.parametrize("name", COPIED)
def test_a_restore_brings_back_the_rows_of_the_savepoint(copy: Copy, name: str) -> None:
    times = [each.timestamp for each in copy(name).timeline.commits]
    for kept in times[:-1] if len(times) > 1 else times:
        table = copy(name)
        expected = rows_without(table, partial(operator.lt, kept))
        later = [each for each in table.timeline.instants if each.timestamp > kept]
        assert create_savepoint(table, kept, "me", "why") == kept
        plan = restore_to_savepoint(table)
        assert sorted(each.timestamp for each in plan.instants) == [each.timestamp for each in later]
        assert rows_of(table).equals(expected)
        restored = again(table)
        assert restored.timeline.pending == ()
        assert [each.action for each in restored.timeline.instants if each.timestamp > kept] == ["restore"]
        saved = read_savepoint(restored, kept)
        assert (saved.user, saved.comments) == ("me", "why")
        bases = [each.base_file for each in load_file_slices(restored)]
        saved_names = {name for names in saved.files.values() for name in names}
        assert {each.path.rpartition("/")[2] for each in bases if each is not None} <= saved_names
        # The next writer goes on.
        rollback_commit(begin_commit(again(table), "UPSERT"))
        assert rows_of(table).equals(expected)


def test_the_completed_restore_names_each_rollback(copy: Copy) -> None:
    table = copy("mor_two_log_generations")
    later = [each for each in table.timeline.commits if each.timestamp > BOOTSTRAP]
    create_savepoint(table, BOOTSTRAP)
    restore_to_savepoint(table)
    (restore,) = [each for each in again(table).timeline.completed if each.action == "restore"]
    path = table.instant_path(restore)
    found = load_codec("HoodieRestoreMetadata").decode(STORAGE.read(path), path)
    assert found["startRestoreTime"] == restore.timestamp
    assert found["instantsToRollback"] == [each.timestamp for each in reversed(later)]
    assert [each["action"] for each in found["restoreInstantInfo"]] == [
        "deltacommit",
        "commit",
        "deltacommit",
        "deltacommit",
    ]
    for each in later:
        (rollback,) = found["hoodieRestoreMetadata"][each.timestamp]
        assert rollback["commitsRollback"] == [each.timestamp]
    # Each commit wrote base files or log files of its own.
    assert all(
        partition["successDeleteFiles"] or partition["logFilesFromFailedCommit"]
        for rollbacks in found["hoodieRestoreMetadata"].values()
        for rollback in rollbacks
        for partition in rollback["partitionMetadata"].values()
    )


@pytest.mark.parametrize(
    "name",
    parameters(["mor_two_log_generations", "cow_clustering_scheduled"], in_ci=["mor_two_log_generations"]),
)
def test_a_restore_that_is_killed_at_any_step_is_completed_when_it_is_called_again(
    copy: Copy, committer: LineProcess, name: str
) -> None:
    table = copy(name)
    kept = table.timeline.commits[-3:][0].timestamp
    expected = rows_without(table, partial(operator.lt, kept))
    create_savepoint(table, kept)
    restore_to_savepoint(table)
    files = _data_files(table)
    step, is_crashed, refused = 0, True, 0
    while is_crashed:
        table = copy(name)
        create_savepoint(table, kept)
        is_crashed = crash(committer, table.base_path, step, action="restore")
        if any(each.action == "restore" for each in again(table).timeline.pending):
            refused += 1
            with pytest.raises(UnsupportedTableError, match=r"being restored.*is not complete"):
                begin_commit(again(table), "UPSERT")
            with pytest.raises(UnsupportedTableError, match="being restored"):
                create_savepoint(again(table))
        restore_to_savepoint(again(table))
        timeline = again(table).timeline
        assert timeline.pending == ()
        assert {each.action for each in timeline.completed if each.timestamp > kept} == {"restore"}
        assert _data_files(table) == files
        step += 1
    assert rows_of(table).equals(expected)
    assert refused > 10


def test_a_savepoint_that_is_killed_at_any_step_is_made_when_it_is_called_again(
    copy: Copy, committer: LineProcess
) -> None:
    for step in range(3):
        table = copy("cow_insert_overwrite")
        latest = table.timeline.commits[-1].timestamp
        if crash(committer, table.base_path, step, action="savepoint"):
            create_savepoint(again(table))
        assert again(table).timeline.savepoints == {latest}
        assert delete_savepoint(again(table)) == latest
        assert not list(Path(table.base_path, ".hoodie").glob("*savepoint*"))
    assert step == 2


def test_only_a_completed_commit_that_no_clean_has_touched_gets_a_savepoint(copy: Copy) -> None:
    table = copy("cow_savepoint_clean")
    (saved,) = table.timeline.savepoints
    with pytest.raises(NoSuchInstantError, match="20200101000000000 is not a completed commit"):
        create_savepoint(table, "20200101000000000")
    with pytest.raises(InvalidArgumentError, match=f"{saved}.*has a savepoint already"):
        create_savepoint(table, saved)
    (clean,) = [each for each in table.timeline.instants if each.action == "clean"]
    path = table.instant_path(clean)
    record = load_codec("HoodieCleanMetadata").decode(STORAGE.read(path), path)
    record["earliestCommitToRetain"] = table.timeline.commits[-1].timestamp
    STORAGE.write(path, load_codec("HoodieCleanMetadata").encode(record))
    with pytest.raises(InvalidArgumentError, match=r"earliest one that the clean .* retains"):
        create_savepoint(table, table.timeline.commits[-2].timestamp)
    with pytest.raises(NoSuchInstantError, match=f"no savepoint 20200101000000000\n.*{saved}"):
        delete_savepoint(table, "20200101000000000")
    delete_savepoint(table)
    for call in (delete_savepoint, restore_to_savepoint):
        with pytest.raises(NoSuchInstantError, match="has no savepoint"):
            call(table)


def _assert_refused(table: HudiTable, error: type[HudisqlError], match: str, *given: Any) -> None:
    before = sorted(path.name for path in Path(table.base_path, ".hoodie").iterdir())
    rows = rows_of(table)
    with pytest.raises(error, match=match):
        restore_to_savepoint(again(table), *given)
    assert sorted(path.name for path in Path(table.base_path, ".hoodie").iterdir()) == before
    assert rows_of(table).equals(rows)


def test_a_restore_is_refused_before_anything_is_changed(copy: Copy) -> None:
    table = copy("cow_insert_overwrite")
    first, second, third = (each.timestamp for each in table.timeline.commits)
    create_savepoint(table, first)
    create_savepoint(table, second)
    _assert_refused(table, RollbackRefusedError, f"savepoints after {first}: {second}", first)
    _assert_refused(table, NoSuchInstantError, f"no savepoint {third}", third)
    gone = next(Path(table.base_path).rglob(f"*_{second}.parquet"))
    content = gone.read_bytes()
    gone.unlink()
    with pytest.raises(CorruptTableError, match=f"files of the savepoint {second} are gone: .*{gone.name}"):
        restore_to_savepoint(table, second)
    gone.write_bytes(content)
    # A commit that archiving has passed.
    deleted = [path for path in Path(table.base_path, ".hoodie").glob(f"{third}.*") if path.is_file()]
    for path in deleted:
        path.unlink()
    later = Instant("20980101000000000", "commit", InstantState.COMPLETED)
    shutil.copy(table.instant_path(table.timeline.commits[0]), table.instant_path(later))
    for path in Path(table.base_path, ".hoodie").glob(f"{first}.*"):
        path.unlink()
    _assert_refused(table, RollbackRefusedError, f"commit {third} .* is archived", second)


def test_a_restore_waits_for_active_writers_and_refuses_another_savepoint_while_it_is_pending(
    copy: Copy,
) -> None:
    table = copy("cow_insert_overwrite")
    first, second, _ = (each.timestamp for each in table.timeline.commits)
    create_savepoint(table, second)
    writer = begin_commit(table, "UPSERT")
    beat = Path(table.base_path, ".hoodie", ".heartbeat", writer.instant_time)
    beat.parent.mkdir()
    beat.touch()
    _assert_refused(table, WriteConflictError, f"another writer is active .* commit {writer.instant_time}")
    beat.unlink()
    plan = RestorePlan(second, ())
    restore = Instant("20980101000000000", "restore", InstantState.REQUESTED)
    STORAGE.create(table.instant_path(restore), plan.to_avro())
    _assert_refused(table, InvalidArgumentError, f"to the savepoint {second} is not complete", first)
    restore_to_savepoint(table, second)
    assert writer.instant_time in {each.timestamp for each in again(table).timeline.instants}


def test_a_restore_does_not_undo_a_part_of_the_bootstrap(copy: Copy) -> None:
    table = copy("cow_bootstrap_mixed")
    create_savepoint(table, BOOTSTRAP)
    _assert_refused(table, RollbackRefusedError, "would undo a part of its bootstrap.*00000000000002")


def test_a_statement_that_read_the_table_before_a_restore_conflicts(copy: Copy) -> None:
    table = copy("cow_insert_overwrite")
    read_before = again(table)
    assert read_before.schema
    create_savepoint(table, table.timeline.commits[-2].timestamp)
    restore_to_savepoint(table)
    with pytest.raises(WriteConflictError, match="has rolled back the commit"):
        begin_commit(read_before, "UPSERT")


def test_names_of_savepoint_files_are_those_of_the_slices_as_of_the_commit(copy: Copy) -> None:
    table = copy("mor_compaction_scheduled")
    started = time.time() * 1000
    latest = create_savepoint(table)
    saved = read_savepoint(again(table), latest)
    assert saved.created_at_ms >= int(started)
    # A planned compaction: the slice it will merge, and the log files that came since.
    for partition, names in saved.files.items():
        assert all(Path(join(table.base_path, partition, name)).exists() for name in names)
    assert {name for names in saved.files.values() for name in names} == set(_data_files(table))
