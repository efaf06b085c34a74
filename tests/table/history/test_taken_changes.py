"""Whether a table still has the commit up to which its changes were taken."""

from __future__ import annotations

import pytest

from hudisql.errors import NoSuchStateError
from hudisql.format.timeline.archived_log_files import archived_entry, encode_archive_file
from hudisql.format.timeline.commit_metadata import CommitMetadata, WriteStat
from hudisql.format.timeline.instant import COMMIT, Instant, InstantState
from hudisql.table.history.taken_changes import Place, check_not_undone, place_at
from hudisql.table.hudi_table import HudiTable
from tests.opened import open_at
from tests.table.conftest import TableDirectory

FIRST, SECOND, THIRD = (f"2026010{day}000000000" for day in (1, 2, 3))
BOOTSTRAP = "00000000000001"


def opened(directory: TableDirectory) -> HudiTable:
    return open_at(directory.path)


def assert_gone(table: HudiTable, place: Place, said: str) -> None:
    with pytest.raises(NoSuchStateError, match=said):
        check_not_undone(table, place)


def archive(directory: TableDirectory, *instant_times: str) -> None:
    content = CommitMetadata(partition_to_write_stats={}).to_json()
    entries = [
        archived_entry(Instant(each, COMMIT, InstantState.COMPLETED), content, None, "")
        for each in instant_times
    ]
    directory.file(".hoodie/archived/.commits_.archive.1_1-0-1", encode_archive_file(entries))


def bootstrapped(directory: TableDirectory, file_id: str) -> HudiTable:
    stat = WriteStat(file_id=file_id, path=f"dt=1/{file_id}_0-0-0_{BOOTSTRAP}.parquet", partition_path="dt=1")
    metadata = CommitMetadata(partition_to_write_stats={"dt=1": (stat,)})
    directory.instant(f"{BOOTSTRAP}.commit", metadata.to_json())
    return opened(directory)


def test_commits_of_the_timeline_and_of_the_archive_are_there(make_table) -> None:
    directory = make_table()
    directory.commit(THIRD)
    archive(directory, FIRST)
    table = opened(directory)
    for until in (THIRD, FIRST, "000", "00000000000000"):
        check_not_undone(table, place_at(table, until))
    # Between the archived one and the active timeline.
    assert_gone(table, Place(SECOND), f"the commit {SECOND} .* was undone by a rollback")


def test_what_is_missing_before_the_timeline_was_undone_or_is_of_another_table(make_table) -> None:
    directory = make_table()
    directory.commit(SECOND)
    assert_gone(opened(directory), Place(FIRST), "is another table now: it was created again")
    directory.instant(f"{THIRD}.rollback")
    assert_gone(opened(directory), Place(FIRST), "was undone by a rollback")


def test_a_commit_ahead_of_the_clock_was_undone_too(make_table) -> None:
    directory = make_table()
    directory.commit(FIRST)
    assert_gone(opened(directory), Place("29990101000000000"), "was undone by a rollback")


def test_a_table_without_commits_is_no_table_without_news(make_table) -> None:
    directory = make_table()
    directory.path.joinpath(".hoodie").mkdir(exist_ok=True)
    assert_gone(opened(directory), Place(FIRST), "it was created again")
    directory.instant(f"{SECOND}.rollback")
    assert_gone(opened(directory), Place(FIRST), "was undone")


def test_bootstraps_are_told_apart_by_the_files_that_they_made(make_table) -> None:
    directory = make_table()
    place = place_at(bootstrapped(directory, "one"), BOOTSTRAP)
    assert place.bootstrap
    directory.commit(SECOND)
    check_not_undone(opened(directory), place)
    assert_gone(bootstrapped(directory, "another"), place, "it was created again")
    check_not_undone(opened(directory), Place(BOOTSTRAP))
    assert place_at(opened(directory), SECOND) == Place(SECOND)


def test_an_archived_bootstrap_is_there(make_table) -> None:
    directory = make_table()
    place = place_at(bootstrapped(directory, "one"), BOOTSTRAP)
    (directory.path / f".hoodie/{BOOTSTRAP}.commit").unlink()
    directory.commit(SECOND)
    archive(directory, BOOTSTRAP)
    check_not_undone(opened(directory), place)
