"""What the timeline lists is read, though another writer archives it, or undoes it, in between."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import NoSuchPathError, TimelineChangedError, WriteConflictError
from hudisql.format.timeline.instant import CLEAN, InstantState
from hudisql.read.changes.change_capture import plan_capture
from hudisql.services.clean.clean_action import clean_table
from hudisql.services.clean.clean_metadata import read_clean_metadata
from hudisql.services.clean.clean_plan import CleanOptions, read_clean_plan
from hudisql.table.history.timeline_window import changed_groups, timeline_window
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.timeline.instant_files import read_commits, read_instants
from hudisql.table.timeline.replaced_groups import replacement_times
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from hudisql.write.transaction.conflicts import check_no_conflict
from tests.fault_injection import ArchivingStorage
from tests.opened import open_at

TABLES = (
    "cow_bootstrap_then_upsert_delete",
    "cow_savepoint_clean",
    "cow_insert_overwrite",
    "mor_compacted",
    "v9_cow_insert_overwrite",
    "v9_mor_bootstrap_upsert_delete",
)
Copy = Callable[[str], HudiTable]


@pytest.fixture
def copy(golden: Callable[[str], Any], tmp_path: Path) -> Copy:
    """A copy of a golden table, behind which another process archives when it is told to."""

    def made(name: str) -> HudiTable:
        path = tmp_path / "table"
        shutil.copytree(golden(name).table, path)
        return open_table(ArchivingStorage(base_path=str(path)), str(path))

    return made


def _storage(table: HudiTable) -> ArchivingStorage:
    assert isinstance(table.storage, ArchivingStorage)
    return table.storage


@pytest.mark.parametrize("name", TABLES)
def test_commits_that_are_archived_meanwhile_say_the_same(copy: Copy, name: str) -> None:
    table = copy(name)
    commits = table.timeline.commits
    before = list(read_commits(table, commits))
    with _storage(table).archives_meanwhile() as gone:
        after = list(read_commits(table, commits))
    assert {each.timestamp for each in commits} <= set(gone)
    for one, other in zip(before, after, strict=True):
        assert one.partition_to_replace_file_ids == other.partition_to_replace_file_ids
        assert one.schema == other.schema
        wrote, found = (
            [(stat.file_id, stat.path, stat.prev_commit, stat.num_deletes) for stat in each.write_stats]
            for each in (one, other)
        )
        assert wrote == found


@pytest.mark.parametrize("name", TABLES)
def test_readings_of_the_timeline_go_on(copy: Copy, name: str) -> None:
    table = copy(name)
    with _storage(table).archives_meanwhile() as gone:
        window = timeline_window(table, table.timeline.commits[0].timestamp)
        assert changed_groups(table, window).versions
    assert gone
    assert replacement_times(table) is not None
    if name != "cow_savepoint_clean":
        assert plan_capture(table, window)
    assert table.schema.names == open_at(table.base_path).schema.names


@pytest.mark.parametrize("name", ["cow_savepoint_clean", "v9_cow_savepoint_clean"])
def test_a_clean_goes_on_from_one_that_is_archived_meanwhile(copy: Copy, name: str) -> None:
    table = copy(name)
    (clean,) = (each for each in table.timeline.completed if each.action == CLEAN)
    said, planned = read_clean_metadata(table, clean), read_clean_plan(table, clean)
    with _storage(table).archives_meanwhile() as gone:
        assert read_clean_metadata(table, clean) == said
    assert clean.timestamp in gone
    assert read_clean_plan(table, clean) == planned
    again = table.reopened()
    with _storage(again).archives_meanwhile():
        clean_table(again, CleanOptions(commits_retained=1), SINGLE_WRITER)


@pytest.mark.parametrize("name", ["cow_bootstrap_then_upsert_delete", "v9_cow_insert_overwrite"])
def test_conflicts_are_told_from_commits_that_are_archived_meanwhile(copy: Copy, name: str) -> None:
    now = copy(name)
    first, *_ = now.timeline.commits
    only_first = tuple(each for each in now.timeline.instants if each.timestamp <= first.timestamp)
    known = HudiTable(
        now.base_path, now.properties, type(now.timeline)(only_first, now.timeline.layout), now.storage
    )
    touched = [
        (partition, stat.file_id)
        for each in list(read_commits(now, now.timeline.commits))[1:]
        for partition, stats in each.partition_to_write_stats.items()
        for stat in stats
    ]
    with (
        _storage(now).archives_meanwhile() as gone,
        pytest.raises(WriteConflictError, match=r"changes the same file groups .*: dt="),
    ):
        check_no_conflict(known, now.timeline, touched)
    assert gone


def test_a_commit_that_was_undone_is_named(copy: Copy) -> None:
    table = copy("cow_bootstrap_then_upsert_delete")
    *_, last = table.timeline.commits
    Path(table.instant_path(last)).unlink()
    with pytest.raises(
        TimelineChangedError, match=f"{last.timestamp}.commit has gone since .* has undone"
    ) as caught:
        list(read_instants(table, [last]))
    assert isinstance(caught.value, WriteConflictError)
    assert isinstance(caught.value, NoSuchPathError)
    assert caught.value.hint
    pending = last.in_state(InstantState.REQUESTED)
    assert list(read_instants(table, [pending])) == [b""]
