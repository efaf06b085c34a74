"""What cleans have deleted or may delete: rollbacks, savepoints and plans that would lose rows of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from hudisql.errors import NoSuchStateError, RollbackRefusedError, WriteConflictError
from hudisql.format.timeline.commit_metadata import CommitMetadata, WriteStat
from hudisql.services.clean.clean_action import clean_table
from hudisql.services.clean.clean_plan import CleanOptions, CleanPolicy, plan_clean
from hudisql.services.compaction.compaction_plan import plan_compaction
from hudisql.services.rollback.rollback_action import roll_back_commit
from hudisql.services.rollback.savepoint import create_savepoint
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.opened import open_at
from tests.table.conftest import SCHEMA, TableDirectory

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
MakeTable = Callable[..., TableDirectory]
KEEP_ONE_COMMIT = CleanOptions(commits_retained=1)
KEEP_ONE_VERSION = CleanOptions(CleanPolicy.KEEP_LATEST_FILE_VERSIONS, versions_retained=1)


def _time(number: int) -> str:
    return f"202611210000{number:02d}000"


def _open(directory: TableDirectory) -> HudiTable:
    return open_at(directory.path)


def _commit(
    directory: TableDirectory,
    number: int,
    file_id: str,
    action: str = "commit",
    *,
    previous: int | None = None,
    replaced: str | None = None,
    partition: str = "dt=a",
) -> None:
    """A commit that writes one base file."""
    path = f"{partition}/{file_id}_0-0-0_{_time(number)}.parquet"
    before = "null" if previous is None else _time(previous)
    stat = WriteStat(file_id=file_id, path=path, partition_path=partition, prev_commit=before)
    metadata = CommitMetadata(
        partition_to_write_stats={partition: (stat,)},
        extra_metadata={"schema": SCHEMA},
        partition_to_replace_file_ids={"dt=a": (replaced,)} if replaced else None,
    )
    directory.partition(partition)
    directory.base_file(partition, file_id, _time(number))
    directory.instant(f"{_time(number)}.{action}.requested")
    directory.instant(f"{_time(number)}.{action}", metadata.to_json())


def _visible(directory: TableDirectory) -> list[tuple[str, str]]:
    return [(each.file_id, each.base_instant_time) for each in load_file_slices(_open(directory))]


def _assert_rollback_refused(directory: TableDirectory, number: int, match: str) -> None:
    before = _visible(directory), _open(directory).timeline.instants
    with pytest.raises(RollbackRefusedError, match=match):
        roll_back_commit(_open(directory), _time(number))
    assert (_visible(directory), _open(directory).timeline.instants) == before


def test_a_commit_is_rolled_back_only_if_the_version_before_it_is_left(make_table: MakeTable) -> None:
    directory = make_table()
    _commit(directory, 1, "f")
    create_savepoint(_open(directory), _time(1))
    for number in (2, 3, 4):
        _commit(directory, number, "f", previous=number - 1)
    cleaned = clean_table(_open(directory), KEEP_ONE_COMMIT, SINGLE_WRITER)
    assert cleaned is not None
    roll_back_commit(_open(directory), _time(4))
    assert _visible(directory) == [("f", _time(3))]
    # The older version that the savepoint keeps does not have the rows of the second commit.
    _assert_rollback_refused(directory, 3, r"a clean has deleted the files that it replaced \(dt=a/f\)")


def test_a_replacement_is_rolled_back_only_if_the_latest_replaced_version_is_left(
    make_table: MakeTable,
) -> None:
    directory = make_table()
    _commit(directory, 1, "f")
    create_savepoint(_open(directory), _time(1))
    _commit(directory, 2, "f", previous=1)
    _commit(directory, 3, "g", "replacecommit", replaced="f")
    assert clean_table(_open(directory), KEEP_ONE_VERSION, SINGLE_WRITER) is not None
    _assert_rollback_refused(directory, 3, r"a clean has deleted the files that it replaced \(dt=a/f\)")


def test_nothing_that_replaced_files_is_rolled_back_while_a_clean_is_pending(make_table: MakeTable) -> None:
    directory = make_table()
    _commit(directory, 1, "f")
    _commit(directory, 2, "f", previous=1)
    plan = plan_clean(_open(directory), KEEP_ONE_VERSION, NOON)
    assert plan is not None
    directory.instant("20261122120000000.clean.requested", plan.to_avro())
    _assert_rollback_refused(directory, 2, "a clean .20261122120000000. is not complete")


def test_a_savepoint_needs_all_files_of_its_commit(make_table: MakeTable) -> None:
    directory = make_table()
    for number in range(1, 6):
        _commit(directory, number, "f", previous=number - 1 or None)
    _commit(directory, 6, "g", partition="dt=b")
    assert clean_table(_open(directory), KEEP_ONE_VERSION, SINGLE_WRITER) is not None
    with pytest.raises(NoSuchStateError, match=f"such as dt=a/f; the earliest .* is that of {_time(5)}"):
        create_savepoint(_open(directory), _time(2))
    assert not list((directory.path / ".hoodie").glob("*.savepoint*"))
    assert create_savepoint(_open(directory), _time(5)) == _time(5)


def test_a_savepoint_needs_the_partitions_that_a_clean_has_deleted(make_table: MakeTable) -> None:
    directory = make_table()
    _commit(directory, 1, "f")
    _commit(directory, 2, "g", "replacecommit", replaced="f", partition="dt=b")
    assert clean_table(_open(directory), KEEP_ONE_VERSION, SINGLE_WRITER) is not None
    assert not (directory.path / "dt=a").exists()
    with pytest.raises(NoSuchStateError, match=f"such as dt=a/f; the earliest .* is that of {_time(2)}"):
        create_savepoint(_open(directory), _time(1))
    _assert_rollback_refused(directory, 2, r"a clean has deleted the files that it replaced \(dt=a/f\)")


def test_no_savepoint_is_made_after_a_write_that_is_not_complete(make_table: MakeTable) -> None:
    directory = make_table()
    _commit(directory, 1, "f")
    directory.instant(f"{_time(2)}.commit.requested")
    directory.instant(f"{_time(2)}.inflight")
    _commit(directory, 3, "g")
    with pytest.raises(WriteConflictError, match=f"the commit {_time(2)} .*, older than .* {_time(3)}"):
        create_savepoint(_open(directory))
    assert not list((directory.path / ".hoodie").glob("*.savepoint*"))
    assert create_savepoint(_open(directory), _time(1)) == _time(1)


def test_replaced_slices_of_a_pending_compaction_stay(make_table: MakeTable) -> None:
    directory = make_table(hoodie__table__type="MERGE_ON_READ")
    _commit(directory, 1, "f", "deltacommit")
    directory.log_file("dt=a", "f", _time(1), 1)
    directory.commit(_time(2), "deltacommit")
    plan = plan_compaction(Storage(), load_file_slices(_open(directory)), (), "log_file_size", 1000)
    directory.instant(f"{_time(3)}.compaction.requested", plan.to_avro())
    _commit(directory, 4, "g", "replacecommit", replaced="f")
    assert plan_clean(_open(directory), KEEP_ONE_VERSION, NOON) is None
    (directory.path / f".hoodie/{_time(3)}.compaction.requested").unlink()
    found = plan_clean(_open(directory), KEEP_ONE_VERSION, NOON)
    assert found is not None
    assert len(found.files["dt=a"]) == 2


def test_a_partition_with_files_of_a_savepoint_is_not_deleted(make_table: MakeTable) -> None:
    directory = make_table()
    _commit(directory, 1, "f")
    create_savepoint(_open(directory), _time(1))
    _commit(directory, 2, "f", previous=1)
    _commit(directory, 3, "g", "replacecommit", replaced="f", partition="dt=b")
    plan = plan_clean(_open(directory), KEEP_ONE_VERSION, NOON)
    assert plan is not None
    assert [each.uri.rpartition("/")[2] for each in plan.files["dt=a"]] == [f"f_0-0-0_{_time(2)}.parquet"]
    assert plan.partitions_to_delete == ()
