"""Archiving: which instants leave the active timeline, and that nothing is lost on the way."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as some

from hudisql.config.config_key import HudiConfig
from hudisql.config.table_service_keys import KEEP_MAX_COMMITS, KEEP_MIN_COMMITS
from hudisql.errors import InvalidArgumentError, RollbackRefusedError, SettingsError, UnsupportedTableError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.archived_log_files import encode_archive_file, parse_archive_file
from hudisql.format.timeline.instant import CLEAN, ROLLBACK, Instant, InstantState
from hudisql.services.archive.archive_action import archive_instants, archive_table
from hudisql.services.archive.archive_plan import ArchiveOptions, archive_options, may_archive, plan_archive
from hudisql.services.clean.clean_action import clean_table
from hudisql.services.clean.clean_plan import CleanOptions, CleanPolicy
from hudisql.services.rollback.restore import restore_to_savepoint
from hudisql.services.rollback.rollback_action import roll_back_commit
from hudisql.services.rollback.savepoint import create_savepoint, delete_savepoint
from hudisql.storage import Storage
from hudisql.table.files.snapshot import list_file_slices
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.timeline.archived_timeline import list_archive_files, read_archived_entries
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from hudisql.write.transaction.failed_writes import roll_back_failed_writes
from hudisql.write.transaction.timeline_payloads import RollbackFiles, render_rollback_plan
from tests.fault_injection import FaultyStorage
from tests.opened import open_at
from tests.table.conftest import SCHEMA, TableDirectory

MakeTable = Callable[..., TableDirectory]


def _time(number: int) -> str:
    return f"202611220000{number:02d}000"


def _keep(least: int, most: int, retained: int = 1) -> ArchiveOptions:
    return ArchiveOptions(least, most, clean=CleanOptions(commits_retained=retained))


def _fill(directory: TableDirectory, commits: int, action: str = "commit") -> TableDirectory:
    directory.partition("dt=a")
    for number in range(commits):
        _commit(directory, number, action)
    return directory


def _commit(directory: TableDirectory, number: int, action: str = "commit") -> None:
    name = "inflight" if action == "commit" else f"{action}.inflight"
    directory.instant(f"{_time(number)}.{action}.requested")
    directory.instant(f"{_time(number)}.{name}")
    directory.commit(_time(number), action)
    directory.base_file("dt=a", f"f{number % 2}", _time(number))


def _open(directory: TableDirectory, storage: Storage | None = None) -> HudiTable:
    return open_table(storage or Storage(), str(directory.path))


def _planned(directory: TableDirectory, options: ArchiveOptions) -> list[int]:
    times = [_time(number) for number in range(100)]
    return [times.index(each.timestamp) for each in plan_archive(_open(directory), options)]


def _active(directory: TableDirectory) -> list[str]:
    return [each.timestamp for each in _open(directory).timeline.commits]


def test_an_archive_of_hudis_is_read_and_written_as_it_was(golden: Callable[[str], Any]) -> None:
    table = open_at(golden("cow_archived_bootstrap").table)
    entries = read_archived_entries(table)
    assert [each.instant.state.name for each in entries[:3]] == ["REQUESTED", "INFLIGHT", "COMPLETED"]
    assert len({each.instant.timestamp for each in entries}) == len(entries) // 3 == 4
    assert entries[0].transition_time == "20261121103918358"
    metadata = entries[2].commit_metadata
    assert metadata is not None
    assert sum(stat.num_inserts for stat in metadata.write_stats) == 24
    (_, first), _ = list_archive_files(table)
    content = Path(first.path).read_bytes()
    assert encode_archive_file(list(parse_archive_file(content, first.path))) == content


def test_a_torn_archive_file_is_read_as_far_as_it_goes(golden: Callable[[str], Any]) -> None:
    found = open_at(golden("cow_archived_bootstrap").table)
    (_, first), _ = list_archive_files(found)
    content = Path(first.path).read_bytes()
    assert len(list(parse_archive_file(content + content[:100], "torn"))) == 6


def test_the_oldest_commits_go_when_there_are_too_many(make_table: MakeTable) -> None:
    directory = _fill(make_table(), 6)
    assert not may_archive(_open(directory).timeline, _keep(4, 6))
    assert _planned(directory, _keep(4, 6)) == []
    assert may_archive(_open(directory).timeline, _keep(4, 5))
    assert _planned(directory, _keep(4, 5)) == [0, 1]


def test_what_the_next_clean_looks_at_stays(make_table: MakeTable) -> None:
    directory = _fill(make_table(), 12)
    # Four commits are retained, one before them is needed, and one more is Hudi's margin.
    assert _planned(directory, _keep(2, 3, retained=4)) == [*range(7)]


@pytest.mark.parametrize(("savepoint", "archived"), [(2, [0, 1]), (0, []), (7, [0, 1, 2, 3])])
def test_a_savepoint_holds_all_commits_after_it(
    make_table: MakeTable, savepoint: int, archived: list[int]
) -> None:
    directory = _fill(make_table(), 8)
    directory.instant(f"{_time(savepoint)}.savepoint")
    assert _planned(directory, _keep(4, 5)) == archived


def test_a_pending_write_holds_the_commit_before_it(make_table: MakeTable) -> None:
    directory = _fill(make_table(), 8)
    (directory.path / f".hoodie/{_time(3)}.commit").unlink()
    os.utime(directory.path / f".hoodie/{_time(3)}.commit.requested", (2e9, 2e9))
    by_versions = CleanOptions(CleanPolicy.KEEP_LATEST_FILE_VERSIONS)
    assert _planned(directory, ArchiveOptions(4, 5, clean=by_versions)) == [0, 1]
    # With another policy the clean has to look at all commits since, and these are too few.
    assert _planned(directory, _keep(4, 5)) == []


def test_what_was_completed_since_a_pending_write_was_requested_stays(make_table: MakeTable) -> None:
    directory = _fill(make_table(), 9)
    (directory.path / f".hoodie/{_time(6)}.commit").unlink()
    os.utime(directory.path / f".hoodie/{_time(6)}.commit.requested", (2e9, 2e9))
    options = ArchiveOptions(2, 3, clean=CleanOptions(CleanPolicy.KEEP_LATEST_FILE_VERSIONS))
    assert _planned(directory, options) == [0, 1, 2, 3, 4]
    # The write may conflict with commit 3, which was slow.
    os.utime(directory.path / f".hoodie/{_time(3)}.commit", (2e9 + 1, 2e9 + 1))
    assert _planned(directory, options) == [0, 1]


def _request_rollback(directory: TableDirectory, number: int) -> str:
    """Plan the rollback of a commit; gives its file."""
    path = directory.base_file("dt=a", f"f{number % 2}", _time(number))
    target = Instant(_time(number), "commit", InstantState.COMPLETED)
    plan = render_rollback_plan(target, {"dt=a": RollbackFiles([f"file://{path}"])})
    directory.instant(f"{_time(50)}.rollback.requested", plan)
    return path


def test_what_is_being_rolled_back_stays(make_table: MakeTable) -> None:
    directory = _fill(make_table(), 8)
    _request_rollback(directory, 2)
    assert _planned(directory, _keep(2, 4)) == [0, 1]


def test_an_archived_commit_is_never_rolled_back(make_table: MakeTable) -> None:
    directory = _fill(make_table(), 8)
    archive_table(_open(directory), _keep(1, 2), SINGLE_WRITER)
    kept = _request_rollback(directory, 2)
    with pytest.raises(UnsupportedTableError, match="that commit is archived: its files count as committed"):
        roll_back_failed_writes(_open(directory))
    assert Path(kept).exists()
    (directory.path / f".hoodie/{_time(50)}.rollback.requested").unlink()
    while len(active := _active(directory)) > 1:
        roll_back_commit(_open(directory), active[-1])
    with pytest.raises(RollbackRefusedError, match="is the last one on its active timeline"):
        roll_back_commit(_open(directory), active[0])
    assert list_file_slices(_open(directory), ["dt=a"], None)


def _archive(directory: TableDirectory, *numbers: int) -> None:
    """Archive these commits, as Apache Hudi does beyond a savepoint with a setting."""
    table, times = _open(directory), {_time(number) for number in numbers}
    chosen = [commit for commit in table.timeline.commits if commit.timestamp in times]
    archive_instants(table, chosen, lambda: None)


def _archived_beyond_savepoint(make_table: MakeTable) -> TableDirectory:
    """A table whose third commit, which replaces a group, has a savepoint, and of which most are archived."""
    directory = make_table()
    directory.partition("dt=a")
    directory.base_file("dt=a", "g", _time(0))
    for number in range(8):
        path = f"dt=a/f{number}_0-0-0_{_time(number)}.parquet"
        directory.file(path)
        if number == 2:
            directory.commit(_time(number), "replacecommit", written=(path,), replaced={"dt=a": ("g",)})
        else:
            directory.commit(_time(number), written=(path,))
    create_savepoint(_open(directory), _time(2))
    clean = CleanOptions(commits_retained=1)
    clean_table(_open(directory), clean, SINGLE_WRITER)
    _archive(directory, 0, 1, 3, 4, 5)
    assert _active(directory) == [_time(number) for number in (2, 6, 7)]
    with pytest.raises(RollbackRefusedError, match=r"the commit 20261122000003000 .* is archived"):
        restore_to_savepoint(_open(directory))
    return directory


def test_a_table_is_not_restored_beyond_commits_whose_archiving_was_interrupted(
    make_table: MakeTable, tmp_path: Path
) -> None:
    directory = make_table()
    for number in range(6):
        directory.commit(_time(number))
    create_savepoint(_open(directory), _time(2))
    timeline = tmp_path / "timeline"
    shutil.copytree(directory.path / ".hoodie", timeline)
    _archive(directory, 0, 1, 3)
    shutil.copytree(timeline, directory.path / ".hoodie", dirs_exist_ok=True)
    assert len(_active(directory)) == 6
    with pytest.raises(RollbackRefusedError, match=r"the commit 20261122000003000 .* is archived"):
        restore_to_savepoint(_open(directory))
    assert len(_active(directory)) == 6


def test_a_commit_stays_without_which_archived_rows_would_come_after_the_active_timeline(
    make_table: MakeTable,
) -> None:
    directory = _archived_beyond_savepoint(make_table)
    roll_back_commit(_open(directory), _time(7))
    before = list_file_slices(_open(directory), ["dt=a"], None)
    with pytest.raises(RollbackRefusedError, match="is the last one on its active timeline"):
        roll_back_commit(_open(directory), _time(6))
    assert list_file_slices(_open(directory), ["dt=a"], None) == before
    directory.commit(_time(8))
    roll_back_commit(_open(directory), _time(8))
    assert list_file_slices(_open(directory), ["dt=a"], None) == before


def test_the_commit_of_a_savepoint_that_archiving_went_beyond_is_archived_when_it_is_deleted(
    make_table: MakeTable,
) -> None:
    directory = _archived_beyond_savepoint(make_table)
    before = list_file_slices(_open(directory), ["dt=a"], None)
    assert len(before) == 8
    assert delete_savepoint(_open(directory)) == _time(2)
    assert _active(directory) == [_time(6), _time(7)]
    assert list_file_slices(_open(directory), ["dt=a"], None) == before
    create_savepoint(_open(directory), _time(7))
    assert delete_savepoint(_open(directory), _time(7)) == _time(7)


def test_a_savepoint_stays_while_groups_that_its_commit_replaced_have_files(make_table: MakeTable) -> None:
    directory = _archived_beyond_savepoint(make_table)
    # A clean says that it is gone, but it could not be deleted.
    directory.base_file("dt=a", "g", _time(0))
    with pytest.raises(InvalidArgumentError, match="must stay: the later commit 20261122000003000"):
        delete_savepoint(_open(directory))
    assert _open(directory).timeline.savepoints == {_time(2)}
    assert "g" not in {each.file_id for each in list_file_slices(_open(directory), ["dt=a"], None)}


def test_the_delta_commits_that_a_compaction_counts_stay(make_table: MakeTable) -> None:
    directory = _fill(make_table(hoodie__table__type="MERGE_ON_READ"), 8, "deltacommit")
    assert _planned(directory, _keep(2, 3)) == [0, 1, 2]
    directory.commit(_time(8))
    assert _planned(directory, _keep(2, 3)) == [*range(7)]


def test_a_replacecommit_stays_while_its_replaced_groups_have_files(make_table: MakeTable) -> None:
    directory = make_table()
    for partition in ("dt=a", "dt=b"):
        directory.partition(partition)
    directory.base_file("dt=b", "g", _time(0))
    _commit(directory, 0)
    directory.commit(_time(1), "replacecommit", replaced={"dt=b": ("g",)})
    for number in range(2, 9):
        _commit(directory, number)
    assert _planned(directory, _keep(4, 5)) == [0]
    clean_table(_open(directory), CleanOptions(commits_retained=2), SINGLE_WRITER)
    assert _planned(directory, _keep(4, 5)) == [0, 1, 2, 3, 4]
    # A clean says that they are gone, but one could not be deleted.
    directory.base_file("dt=b", "g", _time(0))
    assert _planned(directory, _keep(4, 5)) == [0]


def test_cleans_and_rollbacks_go_by_the_same_numbers(make_table: MakeTable) -> None:
    directory = _fill(make_table(), 2)
    plan = {"policy": "KEEP_LATEST_COMMITS", "version": 2}
    for number in range(10, 17):
        directory.instant(f"{_time(number)}.clean.requested", load_codec("HoodieCleanerPlan").encode(plan))
        directory.instant(f"{_time(number)}.clean")
    directory.instant(f"{_time(20)}.rollback")
    table = _open(directory)
    found = plan_archive(table, _keep(4, 5))
    assert [(each.action, each.timestamp) for each in found] == [(CLEAN, _time(n)) for n in (10, 11, 12)]
    assert ROLLBACK in {each.action for each in table.timeline.completed}


def test_archived_instants_are_read_and_their_files_still_seen(make_table: MakeTable) -> None:
    directory = _fill(make_table(), 8)
    table = _open(directory)
    before = list_file_slices(table, ["dt=a"], None)
    archived = archive_table(table, _keep(2, 4), SINGLE_WRITER)
    assert [each.timestamp for each in archived] == [_time(number) for number in range(6)]
    assert _active(directory) == [_time(number) for number in (6, 7)]
    after = _open(directory)
    assert list_file_slices(after, ["dt=a"], None) == before
    entries = read_archived_entries(after)
    assert [(each.instant.timestamp, each.instant.state) for each in entries] == [
        (_time(number), state) for number in range(6) for state in InstantState
    ]
    assert all(each.transition_time for each in entries)
    assert [json.loads(json.dumps(each.record["hoodieCommitMetadata"])) for each in entries[:1]] == [
        {
            "partitionToWriteStats": {},
            "extraMetadata": {"ROLLING_STAT": ""},
            "version": None,
            "operationType": "UNKNOWN",
        }
    ]
    assert archive_table(after, _keep(2, 4), SINGLE_WRITER) == []


def test_archiving_that_was_killed_at_any_step_is_done_by_the_next(make_table: MakeTable) -> None:
    for step in range(100):
        directory = _fill(make_table(), 8)
        before = list_file_slices(_open(directory), ["dt=a"], None)
        code = _archive_and_kill(directory, step)
        killed = _open(directory)
        assert killed.timeline.pending == ()
        assert list_file_slices(killed, ["dt=a"], None) == before
        for number in (8, 9, 10):
            _commit(directory, number)
        archive_table(_open(directory), _keep(2, 4), SINGLE_WRITER)
        assert _active(directory) == [_time(number) for number in (9, 10)]
        entries = read_archived_entries(_open(directory))
        done = [each for each in entries if each.instant.is_completed]
        assert [each.instant.timestamp for each in done] == [_time(number) for number in range(9)]
        assert all(each.commit_metadata is not None for each in done)
        shutil.rmtree(directory.path)
        if code == 0:
            assert step > 5
            return
    raise AssertionError("archiving never came to its end")


def _archive_and_kill(directory: TableDirectory, step: int) -> int:
    child = os.fork()
    if not child:
        try:
            storage = FaultyStorage(target=str(directory.path), step=step)
            archive_table(_open(directory, storage), _keep(2, 4), SINGLE_WRITER)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def test_a_file_that_hudi_was_merging_archives_into_is_not_taken(make_table: MakeTable) -> None:
    directory = _fill(make_table(), 8)
    schema = {
        "type": "record",
        "name": "HoodieMergeArchiveFilePlan",
        "fields": [{"name": "mergedArchiveFileName", "type": ["null", "string"]}],
    }
    plan = BytesIO()
    fastavro.writer(plan, schema, [{"mergedArchiveFileName": ".commits_.archive.7_1-0-1"}])
    directory.file(".hoodie/archived/mergeArchivePlan", plan.getvalue())
    archive_table(_open(directory), _keep(2, 4), SINGLE_WRITER)
    assert [number for number, _ in list_archive_files(_open(directory))] == [8]


def test_what_cannot_be_archived_is_said(make_table: MakeTable) -> None:
    settings = {KEEP_MAX_COMMITS.name: "20"}
    with pytest.raises(SettingsError, match=r"must be greater than hoodie\.keep\.min"):
        archive_options(HudiConfig(lambda name, default: settings.get(name, default)))
    settings = {KEEP_MIN_COMMITS.name: "0"}
    with pytest.raises(SettingsError, match=r"hoodie\.keep\.min\.commits \(0\) must be 1 or more"):
        archive_options(HudiConfig(lambda name, default: settings.get(name, default)))
    directory = _fill(make_table(), 8)
    directory.file(".hoodie/metadata/.hoodie/hoodie.properties")
    with pytest.raises(UnsupportedTableError, match="has a metadata table"):
        archive_table(_open(directory), _keep(2, 4), SINGLE_WRITER)


GROUPS = ("f", "g", "h", "i")
Steps = some.lists(
    some.tuples(
        some.sets(some.sampled_from(GROUPS)),
        some.sampled_from(("update", "replace", "savepoint", "delete savepoint", "clean", "archive")),
    ),
    min_size=5,
    max_size=40,
)


@given(steps=Steps, least=some.integers(1, 3), retained=some.integers(1, 3))
def test_readers_see_the_same_files_whatever_is_cleaned_and_archived(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[set[str], str]],
    least: int,
    retained: int,
) -> None:
    directory = TableDirectory(tmp_path_factory.mktemp("table"), {"hoodie.table.create.schema": SCHEMA})
    directory.partition("dt=a")
    options = _keep(least, least + 1, retained)
    # A file group that nothing replaces: else the partition may go.
    seen = {"stays": Path(directory.base_file("dt=a", "stays", _time(0))).name}
    directory.commit(_time(0))
    replaced: set[str] = set()
    for number, (groups, step) in enumerate(steps, start=1):
        if step == "clean":
            clean_table(_open(directory), options.clean, SINGLE_WRITER)
        elif step == "archive":
            archive_table(_open(directory), options, SINGLE_WRITER)
        elif "savepoint" in step:
            _savepoint(directory, number if step == "savepoint" else None)
        else:
            ended = groups & seen.keys() if step == "replace" else set()
            written = groups - replaced - ended
            for group in written:
                seen[group] = Path(directory.base_file("dt=a", group, _time(number))).name
            replaced |= ended
            seen = {group: name for group, name in seen.items() if group not in ended}
            directory.commit(
                _time(number),
                "replacecommit" if ended else "commit",
                written=tuple(f"dt=a/{name}" for name in sorted(written)),
                replaced={"dt=a": tuple(ended)} if ended else None,
            )
        slices = list_file_slices(_open(directory), ["dt=a"], None)
        assert {Path(each.base_file.path).name for each in slices if each.base_file} == set(seen.values())


def _savepoint(directory: TableDirectory, number: int | None) -> None:
    """Put a savepoint on the newest commit, or delete all of them."""
    table = _open(directory)
    for instant_time in table.timeline.savepoints if number is None else ():
        (directory.path / f".hoodie/{instant_time}.savepoint").unlink()
    latest = table.timeline.latest_commit
    if number is None or latest is None:
        return
    names = [
        Path(each.base_file.path).name
        for each in list_file_slices(table, ["dt=a"], None)
        if each.base_file is not None
    ]
    partition = {"partitionPath": "dt=a", "savepointDataFile": names}
    record = {
        "savepointedBy": "",
        "savepointedAt": 0,
        "comments": "",
        "partitionMetadata": {"dt=a": partition},
        "version": 1,
    }
    content = load_codec("HoodieSavepointMetadata").encode(record)
    directory.instant(f"{latest.timestamp}.savepoint", content)
