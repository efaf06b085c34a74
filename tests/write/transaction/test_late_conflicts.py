"""Two commits that complete at the same time without a lock: of two that conflict at most one stands."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import (
    HudisqlError,
    NoSuchInstantError,
    RollbackRefusedError,
    StorageError,
    TimelineChangedError,
    WriteConflictError,
)
from hudisql.format.timeline.active_timeline import timeline_file_times
from hudisql.format.timeline.commit_metadata import CommitMetadata, WriteStat
from hudisql.services.rollback.rollback_action import roll_back_commit
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.transaction import late_conflicts
from hudisql.write.transaction.commit import OpenCommit, begin_commit, complete_commit, rollback_commit
from hudisql.write.transaction.concurrency import SINGLE_WRITER, Concurrency, FailedWrites, default_lock

STORAGE = Storage()
CALLS = ("create", "delete_file", "list_file_names", "list_directory", "info", "infos", "read")
KINDS = {
    "cow_6": "cow_bootstrap_then_upsert_delete",
    "mor_6": "mor_upsert_only_updates",
    "cow_9": "v9_cow_upsert_delete",
    "mor_9": "v9_mor_bootstrap_upsert_delete",
}
OPTIMISTIC = Concurrency(optimistic=True, failed_writes=FailedWrites.LAZY)


@pytest.fixture(params=sorted(KINDS))
def table(request: pytest.FixtureRequest, golden: Callable[[str], Any], tmp_path: Path) -> HudiTable:
    shutil.copytree(golden(KINDS[request.param]).table, tmp_path / "table")
    return open_table(STORAGE, str(tmp_path / "table"))


def _stat(commit: OpenCommit, file_id: str) -> CommitMetadata:
    partition, name = "dt=1", f"{file_id}_0-0-0_{commit.instant_time}.parquet"
    stat = WriteStat(file_id=file_id, path=f"{partition}/{name}", partition_path=partition)
    return CommitMetadata(partition_to_write_stats={partition: (stat,)}, operation_type="UPSERT")


def _run_at(
    monkeypatch: pytest.MonkeyPatch, step: int, action: Callable[[], object], suffix: str = ""
) -> list[int]:
    """Run this before the `step`-th call of the storage for a path that ends so; gives the calls so far."""
    calls: list[int] = []

    def patched(name: str) -> Callable[..., Any]:
        original = getattr(Storage, name)

        def call(self: Storage, path: Any, *arguments: Any) -> Any:
            if str(path).endswith(suffix):
                calls.append(len(calls))
                if calls[-1] == step:
                    action()
            return original(self, path, *arguments)

        return call

    for name in CALLS:
        monkeypatch.setattr(Storage, name, patched(name))
    return calls


def _two_open_commits(table: HudiTable, concurrency: Concurrency) -> tuple[OpenCommit, OpenCommit]:
    """Commits of which neither has seen the other as it began."""
    others: list[OpenCommit] = []
    with pytest.MonkeyPatch.context() as patched:
        _run_at(
            patched,
            0,
            lambda: others.append(begin_commit(table.reopened(), "UPSERT", concurrency=concurrency)),
            suffix="commit.requested",
        )
        first = begin_commit(table.reopened(), "UPSERT", concurrency=concurrency)
    return first, others[0]


def _is_completed(table: HudiTable, commit: OpenCommit) -> bool:
    return any(each.timestamp == commit.instant_time for each in table.reopened().timeline.commits)


def _try(commit: OpenCommit, metadata: CommitMetadata, acknowledged: list[OpenCommit]) -> None:
    try:
        complete_commit(commit, metadata)
        acknowledged.append(commit)
    except WriteConflictError:
        rollback_commit(commit)


Outcome = tuple[list[OpenCommit], list[OpenCommit]]


def _outcomes(table: HudiTable, concurrency: Concurrency, groups: tuple[str, str]) -> Iterator[Outcome]:
    """The commits that were acknowledged and those that stand, for each step at which the other completes."""
    backup = Path(table.base_path).with_name("backup")
    shutil.copytree(table.base_path, backup)
    for step in itertools.count():
        shutil.rmtree(table.base_path)
        shutil.copytree(backup, table.base_path)
        slow, fast = _two_open_commits(table, concurrency)
        acknowledged: list[OpenCommit] = []
        with pytest.MonkeyPatch.context() as patched:
            complete_fast = partial(_try, fast, _stat(fast, groups[1]), acknowledged)
            calls = _run_at(patched, step, complete_fast)
            _try(slow, _stat(slow, groups[0]), acknowledged)
        if len(calls) <= step:
            return
        yield acknowledged, [commit for commit in (fast, slow) if _is_completed(table, commit)]
        assert table.reopened().timeline.pending == ()


@pytest.mark.parametrize("concurrency", [SINGLE_WRITER, OPTIMISTIC], ids=["single", "optimistic"])
def test_of_two_commits_at_most_one_is_acknowledged_whenever_the_other_completes(
    table: HudiTable, concurrency: Concurrency
) -> None:
    counts = set()
    for acknowledged, completed in _outcomes(table, concurrency, ("f", "f")):
        assert acknowledged == completed
        counts.add(len(acknowledged))
    assert counts == {1}


def test_commits_to_different_file_groups_both_stand_whenever_the_other_completes(table: HudiTable) -> None:
    for acknowledged, completed in _outcomes(table, OPTIMISTIC, ("f", "g")):
        assert len(acknowledged) == len(completed) == 2


def _commit_upon(table: HudiTable, built_on: str, acknowledged: list[bool]) -> None:
    """A commit; `acknowledged` gets whether it builds on that commit."""
    with suppress(WriteConflictError):
        commit = begin_commit(table.reopened(), "UPSERT")
        _try(commit, _stat(commit, "f"), [])
        if _is_completed(table, commit):
            acknowledged.append(any(each.timestamp == built_on for each in commit.table.timeline.commits))


def test_no_commit_is_rolled_back_under_one_that_builds_on_it_whenever_that_one_comes(
    table: HudiTable,
) -> None:
    Path(table.base_path, "dt=1").mkdir()
    first = begin_commit(table, "UPSERT")
    complete_commit(first, _stat(first, "f"))
    last = table.reopened().timeline.commits[-1].timestamp
    backup = Path(table.base_path).with_name("backup")
    shutil.copytree(table.base_path, backup)
    outcomes = set()
    for step in itertools.count():
        shutil.rmtree(table.base_path)
        shutil.copytree(backup, table.base_path)
        acknowledged: list[bool] = []
        is_rolled_back = True
        with pytest.MonkeyPatch.context() as patched:
            calls = _run_at(patched, step, partial(_commit_upon, table, last, acknowledged))
            try:
                roll_back_commit(table.reopened(), last)
            except (RollbackRefusedError, NoSuchInstantError, WriteConflictError):
                is_rolled_back = False
        if len(calls) <= step:
            break
        stands = any(each.timestamp == last for each in table.reopened().timeline.commits)
        assert stands is not is_rolled_back or not acknowledged, step
        assert stands or acknowledged != [True], step
        outcomes.add((stands, tuple(acknowledged)))
    assert (True, (True,)) in outcomes
    assert any(not stands for stands, _ in outcomes)


def test_a_commit_that_later_ones_build_on_is_not_withdrawn(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, _ = _two_open_commits(table, OPTIMISTIC)
    later: list[OpenCommit] = []

    def build_on_it() -> None:
        later.append(begin_commit(table.reopened(), "UPSERT", concurrency=OPTIMISTIC))
        complete_commit(later[0], _stat(later[0], "f"))

    def stopped_before(*arguments: Any) -> dict[str, int]:
        if not later:
            build_on_it()
        return timeline_file_times(*arguments)

    # As if the writer had been stopped for a second after the completion.
    monkeypatch.setattr(late_conflicts, "CLOCK_SKEW_SECONDS", -1)
    monkeypatch.setattr(late_conflicts, "timeline_file_times", stopped_before)
    complete_commit(slow, _stat(slow, "f"))
    assert _is_completed(table, slow)
    assert _is_completed(table, later[0])


@pytest.mark.parametrize("is_locked", [True, False])
@pytest.mark.parametrize("error", [TimelineChangedError("the timeline changed"), StorageError("away")])
def test_a_look_that_fails_withdraws_the_commit_only_if_it_has_seen_a_conflict(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch, is_locked: bool, error: HudisqlError
) -> None:
    lock = default_lock(STORAGE, table.base_path) if is_locked else None
    commit = begin_commit(table, "UPSERT", concurrency=Concurrency(lock=lock))

    def fail(*_arguments: Any) -> dict[str, int]:
        raise error

    stands = not isinstance(error, WriteConflictError)
    with monkeypatch.context() as patched:
        patched.setattr(late_conflicts, "timeline_file_times", fail)
        if stands and is_locked:
            complete_commit(commit, _stat(commit, "f"))
        else:
            with pytest.raises(
                type(error), match=f"{commit.instant_time}.* is complete" if stands else "changed"
            ):
                complete_commit(commit, _stat(commit, "f"))
    assert _is_completed(table, commit) is stands
    if commit.heartbeat is not None:
        commit.heartbeat.stop()
