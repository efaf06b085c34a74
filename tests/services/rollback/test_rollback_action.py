"""Rolling back the latest commit: what is undone, what is refused, and kills at every step."""

from __future__ import annotations

import operator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import NoSuchInstantError, RollbackRefusedError, UnsupportedTableError, WriteConflictError
from hudisql.format.avro.avro_container import load_codec
from hudisql.services.archive.archive_action import archive_instants
from hudisql.services.clean.clean_action import clean_table
from hudisql.services.clean.clean_plan import CleanOptions, CleanPolicy
from hudisql.services.rollback.rollback_action import roll_back_commit
from hudisql.services.rollback.savepoint import create_savepoint
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.properties.table_configuration import record_statistics
from hudisql.write.transaction.commit import begin_commit
from hudisql.write.transaction.concurrency import SINGLE_WRITER, Concurrency, FailedWrites
from tests.life.faults import DyingStorage, ProcessKilled
from tests.oracle.line_process import LineProcess
from tests.services.copied_tables import STORAGE, Copy, again, rows_of, rows_without
from tests.write.crashed_commits import crash


@pytest.mark.parametrize(
    "name",
    ["cow_insert_overwrite", "mor_two_log_generations", "mor_compacted", "mor_compaction_scheduled"],
)
def test_commits_are_rolled_back_from_the_latest_one_to_the_bootstrap(copy: Copy, name: str) -> None:
    table = copy(name)
    *_, latest = table.timeline.commits
    refused = RollbackRefusedError
    planned = [each.timestamp for each in table.timeline.pending]
    for commit in reversed(table.timeline.commits[1:]):
        if planned and commit.timestamp < planned[0]:
            with pytest.raises(refused, match=f"compaction .{planned[0]}.* is planned of file groups"):
                roll_back_commit(again(table), commit.timestamp)
            return
        expected = rows_without(table, partial(operator.eq, commit.timestamp))
        roll_back_commit(again(table), commit.timestamp)
        assert rows_of(table).equals(expected)
        timeline = again(table).timeline
        assert [each.timestamp for each in timeline.pending] == planned
        assert commit.timestamp not in {each.timestamp for each in timeline.instants}
    rollbacks = [each for each in again(table).timeline.completed if each.action == "rollback"]
    path = table.instant_path(rollbacks[0])
    metadata = load_codec("HoodieRollbackMetadata").decode(STORAGE.read(path), path)
    assert metadata["instantsRollback"] == [{"commitTime": latest.timestamp, "action": latest.action}]
    with pytest.raises(refused, match="is its bootstrap"):
        roll_back_commit(again(table), "00000000000001")


@pytest.mark.parametrize("name", ["cow_insert_overwrite", "mor_compacted"])
def test_a_rollback_that_is_killed_at_any_step_is_completed_when_it_is_called_again(
    copy: Copy, committer: LineProcess, name: str
) -> None:
    table = copy(name)
    latest = table.timeline.commits[-1].timestamp
    before, after = rows_of(table), rows_without(table, partial(operator.eq, latest))
    step, is_crashed, seen = 0, True, set()
    while is_crashed:
        table = copy(name)
        is_crashed = crash(committer, table.base_path, step, action="rollback", instant=latest)
        rows = rows_of(table)
        assert rows.equals(before) or rows.equals(after)
        is_completed = any(each.action == "rollback" for each in again(table).timeline.completed)
        seen.add((rows.equals(after), is_completed))
        if not is_completed:
            if step % 2:
                roll_back_commit(again(table), latest)
            elif again(table).timeline.pending:
                # Or by the next writer, whose statement has read what was rolled back.
                try:
                    begin_commit(again(table), "UPSERT")
                except WriteConflictError as error:
                    assert "rolled back" in error.message  # noqa: PT017
        step += 1
        timeline = again(table).timeline
        if is_completed or step % 2 == 0:
            assert timeline.pending == ()
            assert latest not in {each.timestamp for each in timeline.instants}
            assert rows_of(table).equals(after)
            assert not list(Path(table.base_path).rglob(f"*_{latest}.parquet"))
    assert seen == {(False, False), (True, False), (True, True)}


def test_a_clean_first_completes_a_rollback_that_was_killed(copy: Copy, committer: LineProcess) -> None:
    table = copy("cow_insert_overwrite")
    record_statistics(table, are_right=False)
    latest = table.timeline.commits[-1].timestamp
    before, after = rows_of(table), rows_without(table, partial(operator.eq, latest))
    # The rollback is planned, and the commit still there.
    assert crash(committer, table.base_path, 1, action="rollback", instant=latest)
    assert [each.action for each in again(table).timeline.pending] == ["rollback"]
    assert rows_of(table).equals(before)
    one_version = CleanOptions(CleanPolicy.KEEP_LATEST_FILE_VERSIONS, versions_retained=1)
    clean_table(again(table), one_version, SINGLE_WRITER)
    assert rows_of(table).equals(after)
    assert again(table).timeline.pending == ()


def test_nothing_is_cleaned_while_a_rollback_is_running(copy: Copy, committer: LineProcess) -> None:
    table = copy("cow_insert_overwrite")
    record_statistics(table, are_right=False)
    latest = table.timeline.commits[-1].timestamp
    assert crash(committer, table.base_path, 1, action="rollback", instant=latest)
    shared = Concurrency(optimistic=True, failed_writes=FailedWrites.LAZY)
    one_version = CleanOptions(CleanPolicy.KEEP_LATEST_FILE_VERSIONS, versions_retained=1)
    assert clean_table(again(table), one_version, shared) is None
    assert [each.action for each in again(table).timeline.pending] == ["rollback"]


def _assert_refused(
    table: HudiTable, instant_time: str, match: str, error: Any = RollbackRefusedError
) -> None:
    rows = rows_of(table)
    with pytest.raises(error, match=match):
        roll_back_commit(again(table), instant_time)
    assert rows_of(table).equals(rows)
    assert not list(Path(table.base_path, ".hoodie").glob("*.rollback*"))


def test_a_commit_that_others_build_on_is_not_rolled_back(copy: Copy) -> None:
    table = copy("cow_insert_overwrite")
    _, second, third = (each.timestamp for each in table.timeline.commits)
    _assert_refused(table, second, f"the commit {second} .* is followed by {third}")
    _assert_refused(table, "20200101000000000", "is not a completed commit on the active", NoSuchInstantError)
    create_savepoint(table, third)
    _assert_refused(table, third, f"the commit {third} .* has a savepoint")


def test_a_commit_is_not_rolled_back_while_another_writer_is_active(copy: Copy) -> None:
    table = copy("cow_insert_overwrite")
    latest = table.timeline.commits[-1].timestamp
    shared = Concurrency(optimistic=True, failed_writes=FailedWrites.LAZY)
    writer = begin_commit(table, "UPSERT", concurrency=shared)
    with pytest.raises(WriteConflictError, match=f"another writer is active .* commit {writer.instant_time}"):
        roll_back_commit(again(table), latest, shared)
    with pytest.raises(WriteConflictError, match="heartbeat has not expired"):
        roll_back_commit(again(table), latest)
    with pytest.raises(NoSuchInstantError, match=f"{writer.instant_time} .* is not complete"):
        roll_back_commit(again(table), writer.instant_time, shared)
    assert writer.heartbeat is not None
    writer.heartbeat.stop()
    roll_back_commit(again(table), latest, shared)
    assert {each.timestamp for each in again(table).timeline.instants}.isdisjoint(
        {latest, writer.instant_time}
    )


def test_a_commit_whose_older_files_a_clean_has_deleted_is_not_rolled_back(copy: Copy) -> None:
    table = copy("cow_insert_overwrite")
    latest = table.timeline.commits[-1].timestamp
    for path in Path(table.base_path).rglob("*.parquet"):
        if not path.name.endswith(f"_{latest}.parquet"):
            path.unlink()
    with pytest.raises(RollbackRefusedError, match="a clean has deleted the files that it replaced"):
        roll_back_commit(again(table), latest)


def test_a_commit_that_an_interrupted_archiving_has_archived_is_not_rolled_back(copy: Copy) -> None:
    table = copy("cow_insert_overwrite")
    latest = table.timeline.commits[-1].timestamp
    count = len(table.timeline.instants)
    # Archiving writes the archive file, then deletes instants: it dies between the two.
    with pytest.raises(ProcessKilled):
        archive_instants(
            open_table(DyingStorage(step=1), table.base_path), list(table.timeline.completed), lambda: None
        )
    assert len(again(table).timeline.instants) == count
    _assert_refused(table, latest, f"the commit {latest} .* is archived")


def test_nothing_is_rolled_back_during_a_restore(copy: Copy, committer: LineProcess) -> None:
    table = copy("cow_insert_overwrite")
    record_statistics(table, are_right=False)
    create_savepoint(table, table.timeline.commits[0].timestamp)
    assert crash(committer, table.base_path, 3, action="restore")
    with pytest.raises(UnsupportedTableError, match="being restored"):
        roll_back_commit(again(table), table.timeline.commits[-1].timestamp)
