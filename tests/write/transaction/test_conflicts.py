"""Conflict checks on small tables of empty files: commits that were removed or archived meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from hudisql.errors import PendingCleanError, WriteConflictError
from hudisql.services.archive.archive_action import archive_table
from hudisql.services.archive.archive_plan import ArchiveOptions
from hudisql.services.clean.clean_metadata import CleanedPartition, CleanMetadata
from hudisql.services.clean.clean_plan import CleanOptions, CleanPlan
from hudisql.services.rollback.restore import restore_to_savepoint
from hudisql.services.rollback.savepoint import create_savepoint
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from hudisql.write.transaction.conflicts import check_no_commit, check_no_conflict, check_no_partition_cleaned
from tests.opened import open_at
from tests.table.conftest import TableDirectory

MakeTable = Callable[..., TableDirectory]
KEEP = ArchiveOptions(3, 5, clean=CleanOptions(commits_retained=1))
GROUP = ("dt=a", "f")


def _time(number: int) -> str:
    return f"202611220000{number:02d}000"


def _open(directory: TableDirectory) -> HudiTable:
    return open_at(directory.path)


def _request(directory: TableDirectory, number: int) -> None:
    directory.instant(f"{_time(number)}.commit.requested")
    directory.instant(f"{_time(number)}.inflight")


def _commit(directory: TableDirectory, *numbers: int) -> None:
    """Commits that write to the file group `f` of a partition of their own; 2 and 3 write to `GROUP`."""
    for number in numbers:
        partition = "dt=a" if number in (2, 3) else f"dt=b{number}"
        path = f"{partition}/f_0-0-0_{_time(number)}.parquet"
        directory.file(path)
        directory.commit(_time(number), written=(path,))


def test_a_restore_conflicts_with_what_has_read_more_if_only_savepoints_are_left(
    make_table: MakeTable,
) -> None:
    directory = make_table()
    _commit(directory, 1, 2, 3)
    known = _open(directory)
    create_savepoint(known, _time(1))
    restore_to_savepoint(known)
    for check in (check_no_commit, check_no_conflict):
        with pytest.raises(WriteConflictError, match="has rolled back the commit 20261122000002000"):
            check(known, _open(directory).timeline, {GROUP})


def test_a_commit_that_is_archived_while_a_statement_runs_conflicts(make_table: MakeTable) -> None:
    directory = make_table()
    _commit(directory, 1)
    known = _open(directory)
    _commit(directory, *range(2, 13))
    assert archive_table(_open(directory), KEEP, SINGLE_WRITER)[-1].timestamp == _time(9)
    for check in (check_no_commit, check_no_conflict):
        with pytest.raises(WriteConflictError, match=r"the commit 20261122000002000 .* was archived while"):
            check(known, _open(directory).timeline, {GROUP})


def test_a_commit_that_was_pending_and_is_archived_conflicts(make_table: MakeTable) -> None:
    directory = make_table()
    _commit(directory, 1)
    _request(directory, 2)
    _commit(directory, *range(4, 9))
    known = _open(directory)
    _commit(directory, 2)
    archived = archive_table(_open(directory), KEEP, SINGLE_WRITER)
    assert [each.timestamp for each in archived] == [_time(number) for number in (1, 2, 4, 5)]
    timeline = _open(directory).timeline
    with pytest.raises(WriteConflictError, match=r"the commit 20261122000002000 .* was archived while"):
        check_no_conflict(known, timeline, {GROUP})


def test_archiving_what_a_statement_knows_is_no_conflict(make_table: MakeTable) -> None:
    directory = make_table()
    _commit(directory, 1)
    _request(directory, 2)
    _commit(directory, *range(4, 9))
    known = _open(directory)
    # The failed write is rolled back.
    for state in ("commit.requested", "inflight"):
        (directory.path / f".hoodie/{_time(2)}.{state}").unlink()
    assert archive_table(_open(directory), KEEP, SINGLE_WRITER)
    check_no_commit(known, _open(directory).timeline, {GROUP})
    _commit(directory, 9)
    check_no_conflict(known, _open(directory).timeline, {GROUP})


def test_a_clean_conflicts_if_it_deletes_a_partition_of_the_commit(make_table: MakeTable) -> None:
    directory = make_table()
    _commit(directory, 1)
    known = _open(directory)
    _plan_clean(directory, 2, "dt=a", "dt=b", "")
    # It cannot be run by anybody.
    directory.instant(f"{_time(3)}.clean.requested", b"not a plan")
    now = _open(directory).timeline
    check_no_partition_cleaned(known, now, {"dt=c", ""})
    with pytest.raises(PendingCleanError, match=r"the pending clean 20261122000002000 deletes .*: dt=a\n"):
        check_no_partition_cleaned(known, now, {"dt=a", "dt=c"})
    check_no_partition_cleaned(known, known.timeline, {"dt=a"})
    # It has deleted one of the two directories.
    _complete_clean(directory, 2, {"dt=a": True, "dt=b": False})
    now = _open(directory).timeline
    check_no_partition_cleaned(known, now, {"dt=b"})
    with pytest.raises(WriteConflictError, match=r"^the clean 20261122000002000 has deleted .*: dt=a\n"):
        check_no_partition_cleaned(known, now, {"dt=a", "dt=b"})
    check_no_partition_cleaned(_open(directory), now, {"dt=a"})


def _plan_clean(directory: TableDirectory, number: int, *partitions: str) -> None:
    plan = CleanPlan(None, _time(1), "KEEP_LATEST_FILE_VERSIONS", {}, partitions)
    for state in ("requested", "inflight"):
        directory.instant(f"{_time(number)}.clean.{state}", plan.to_avro())


def _complete_clean(directory: TableDirectory, number: int, deleted: Mapping[str, bool]) -> None:
    partitions = tuple(
        CleanedPartition(path, "KEEP_LATEST_FILE_VERSIONS", is_partition_deleted=is_deleted)
        for path, is_deleted in deleted.items()
    )
    metadata = CleanMetadata(_time(number), 1, "", _time(1), partitions)
    directory.instant(f"{_time(number)}.clean", metadata.to_avro())
