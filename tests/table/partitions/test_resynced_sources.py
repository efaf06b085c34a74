"""The lists of source files that resyncs took: killed, rolled back, archived, raced for."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import CorruptTableError, WriteConflictError
from hudisql.format.paths.external_file import ExternalFile
from hudisql.services.archive.archive_action import archive_table
from hudisql.services.archive.archive_plan import ArchiveOptions
from hudisql.services.clean.clean_plan import CleanOptions
from hudisql.services.rollback.rollback_action import roll_back_commit
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.partitions.resynced_sources import (
    LISTS_DIRECTORY,
    ResyncedSource,
    ResyncState,
    read_resync_lists,
    record_resync,
)
from hudisql.write.transaction.commit import OpenCommit, begin_commit, rollback_commit
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.oracle.line_process import LineProcess
from tests.soak import parameters
from tests.write.crashed_commits import commit_a_file, crash, resync_files

STORAGE = Storage()
TWO_COMMITS = ArchiveOptions(2, 3, clean=CleanOptions(commits_retained=1))


@pytest.fixture
def make_table(golden: Callable[[str], Any], tmp_path: Path) -> Callable[[], str]:
    """Gives the path of a table as it was, again and again."""

    def make() -> str:
        shutil.rmtree(tmp_path / "table", ignore_errors=True)
        shutil.copytree(golden("cow_bootstrap_then_upsert_delete").table, tmp_path / "table")
        return str(tmp_path / "table")

    return make


def opened(path: str) -> HudiTable:
    return open_table(STORAGE, path)


def taken(path: str) -> set[str]:
    return set(read_resync_lists(opened(path)).taken)


def lists(path: str) -> list[str]:
    return sorted(each.name for each in Path(path, LISTS_DIRECTORY).glob("*.parquet"))


def state_of_latest(path: str) -> ResyncState:
    found = read_resync_lists(opened(path))
    return found.states[found.last_number]


@pytest.mark.parametrize(
    ("is_shared", "every"), parameters([(False, 4), (False, 1), (True, 1)], in_ci=[(False, 4)])
)
def test_a_resync_killed_at_any_step_took_all_its_files_or_none(
    committer: LineProcess, make_table: Callable[[], str], is_shared: bool, every: int
) -> None:
    step = 0
    outcomes = set()
    while True:
        path = make_table()
        assert resync_files(STORAGE, path, files=2) == ["0", "1"]
        before = len(opened(path).timeline.commits)
        is_killed = crash(committer, path, step, action="resync", files=4, is_shared=is_shared)
        is_committed = len(opened(path).timeline.commits) > before
        assert taken(path) == {str(number) for number in range(4 if is_committed else 2)}
        outcomes.add(is_committed)
        if not is_shared:  # the heartbeat of a shared table's dead writer still looks alive
            assert resync_files(STORAGE, path, files=5) == (["4"] if is_committed else ["2", "3", "4"])
            assert resync_files(STORAGE, path, files=5) == []
            assert taken(path) == {str(number) for number in range(5)}
        if not is_killed:
            break
        step += every
    assert outcomes == {False, True}
    assert step > 8


def test_files_of_a_resync_that_was_rolled_back_are_new_again(make_table: Callable[[], str]) -> None:
    path = make_table()
    resync_files(STORAGE, path, files=1)
    resync_files(STORAGE, path, files=3)
    latest = opened(path).timeline.latest_commit
    assert latest is not None
    roll_back_commit(opened(path), latest.timestamp)
    assert taken(path) == {"0"}
    assert state_of_latest(path) is ResyncState.GONE
    assert resync_files(STORAGE, path, files=3) == ["1", "2"]
    assert lists(path) == ["000000001.parquet", "000000003.parquet"]


def test_archived_resyncs_are_remembered_and_merged(make_table: Callable[[], str]) -> None:
    path = make_table()
    resync_files(STORAGE, path, files=1)
    resync_files(STORAGE, path, files=2)
    for _ in range(6):
        commit_a_file(STORAGE, path)
    assert archive_table(opened(path), TWO_COMMITS, SINGLE_WRITER)
    found = read_resync_lists(opened(path))
    assert {found.states[number] for number in (1, 2)} == {ResyncState.ARCHIVED}
    assert taken(path) == {"0", "1"}
    assert resync_files(STORAGE, path, files=3) == ["2"]
    assert lists(path) == ["000000003.parquet", "000000004.parquet"]
    assert taken(path) == {"0", "1", "2"}
    # The merged list needs no archive.
    shutil.rmtree(Path(path, ".hoodie", "archived"))
    assert taken(path) == {"0", "1", "2"}
    assert resync_files(STORAGE, path, files=4) == ["3"]
    assert lists(path)[:2] == ["000000003.parquet", "000000004.parquet"]


def test_a_resync_that_was_rolled_back_before_an_archiving_is_not_taken_for_archived(
    make_table: Callable[[], str],
) -> None:
    path = make_table()
    resync_files(STORAGE, path, files=2)
    latest = opened(path).timeline.latest_commit
    assert latest is not None
    roll_back_commit(opened(path), latest.timestamp)
    for _ in range(6):
        commit_a_file(STORAGE, path)
    archive_table(opened(path), TWO_COMMITS, SINGLE_WRITER)
    first = opened(path).timeline.first_active_time
    assert first is not None
    assert first > latest.timestamp
    assert taken(path) == set()


def test_of_two_resyncs_planned_alike_one_fails(make_table: Callable[[], str]) -> None:
    path = make_table()
    planned = read_resync_lists(opened(path))
    source = [ResyncedSource("dt=2024-03-01", ExternalFile("0", 1, 1))]
    resync_files(STORAGE, path, files=1)
    with pytest.raises(WriteConflictError, match=r"another resync of the table at .* has begun meanwhile"):
        record_resync(opened(path), "20270101000000000", planned, source)


def test_a_resync_that_is_under_way_is_not_joined(make_table: Callable[[], str]) -> None:
    path = make_table()
    source = [ResyncedSource("dt=2024-03-01", ExternalFile("0", 1, 1))]
    first = begin_commit(opened(path), "INSERT")
    record_resync(first.table, first.instant_time, read_resync_lists(opened(path)), source)
    planned = read_resync_lists(opened(path))
    assert state_of_latest(path) is ResyncState.PENDING
    assert planned.taken == {}
    with pytest.raises(WriteConflictError, match="another resync"):
        record_resync(opened(path), "20270101000000000", planned, source)
    rollback_commit(first)
    assert record_resync(opened(path), "20270101000000000", planned, source) == 2


def test_a_resync_that_completes_after_the_plan_is_not_repeated(make_table: Callable[[], str]) -> None:
    path = make_table()
    source = [ResyncedSource("dt=2024-03-01", ExternalFile("0", 1, 1))]
    planned = []

    def begun(commit: OpenCommit) -> dict[str, str]:
        number = record_resync(commit.table, commit.instant_time, read_resync_lists(opened(path)), source)
        planned.append(read_resync_lists(opened(path)))
        return {"list": str(number)}

    commit_a_file(STORAGE, path, begun=begun)
    assert planned[0].taken == {}
    with pytest.raises(WriteConflictError, match="another resync"):
        commit_a_file(
            STORAGE,
            path,
            begun=lambda commit: {
                "list": str(record_resync(commit.table, commit.instant_time, planned[0], source))
            },
        )
    assert taken(path) == {"0"}


def test_a_damaged_list_is_an_error_that_names_it(make_table: Callable[[], str]) -> None:
    path = make_table()
    resync_files(STORAGE, path, files=1)
    Path(path, LISTS_DIRECTORY, "000000001.parquet").write_bytes(b"PAR1")
    with pytest.raises(CorruptTableError, match=r"000000001\.parquet"):
        read_resync_lists(opened(path))
