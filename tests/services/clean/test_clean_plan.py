"""Clean plans: Hudi's bytes, which commits stay readable, and that exactly the rest is deleted."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.active_timeline import Timeline, timeline_of
from hudisql.format.timeline.instant import (
    COMMIT,
    COMPACTION,
    DELTA_COMMIT,
    METADATA_BOOTSTRAP_INSTANT_TIME,
    Instant,
    InstantState,
)
from hudisql.services.clean import clean_action
from hudisql.services.clean.clean_action import clean_table
from hudisql.services.clean.clean_plan import (
    CleanOptions,
    CleanPlan,
    CleanPolicy,
    earliest_commit_to_retain,
    is_clean_due,
    parse_clean_plan,
    plan_clean,
    read_clean_plan,
)
from hudisql.services.clean.looked_at import RECORD_FILE
from hudisql.storage import FileInfo, Storage
from hudisql.table.files.snapshot import list_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.opened import open_at
from tests.requests.counted_requests import counted_requests
from tests.table.conftest import TableDirectory

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
MakeTable = Callable[..., TableDirectory]


def _time(number: int) -> str:
    return f"20261122{number // 60:02d}{number % 60:02d}00000"


def _commits(*numbers: int, pending: tuple[int, ...] = (), action: str = COMMIT) -> Timeline:
    done = [Instant(_time(number), COMMIT, InstantState.COMPLETED) for number in numbers]
    return timeline_of([*done, *(Instant(_time(each), action, InstantState.REQUESTED) for each in pending)])


def _retained(timeline: Timeline, options: CleanOptions) -> str | None:
    found = earliest_commit_to_retain(timeline, options, NOON)
    return None if found is None else found.timestamp


def _names(plan: CleanPlan | None) -> list[str]:
    files = [] if plan is None else [each for some in plan.files.values() for each in some]
    return sorted(each.uri.rpartition("/")[2] for each in files)


def _open(directory: TableDirectory) -> HudiTable:
    return open_at(directory.path)


KEEP_TWO = CleanOptions(commits_retained=2)
KEEP_ONE_VERSION = CleanOptions(CleanPolicy.KEEP_LATEST_FILE_VERSIONS, versions_retained=1)


def test_hudis_plan_of_a_table_is_ours(golden: Callable[[str], Any]) -> None:
    table = open_at(golden("cow_savepoint_clean").table)
    (clean,) = [each for each in table.timeline.completed if each.action == "clean"]
    theirs = read_clean_plan(table, clean)
    assert parse_clean_plan(theirs.to_avro(), "plan", table) == theirs
    hoodie = Path(table.base_path, ".hoodie")
    kept = {path: path.read_bytes() for path in hoodie.glob(f"{clean.timestamp}.clean*")}
    assert load_codec("HoodieCleanerPlan").decode(theirs.to_avro()) == load_codec("HoodieCleanerPlan").decode(
        kept[hoodie / f"{clean.timestamp}.clean.requested"]
    )
    deleted = [Path(table.storage.qualify(each.uri)) for files in theirs.files.values() for each in files]
    try:
        for path in kept:
            path.unlink()
        for path in deleted:
            path.touch()
        ours = plan_clean(table.reopened(), KEEP_ONE_VERSION, NOON)
    finally:
        for path, content in kept.items():
            path.write_bytes(content)
        for path in deleted:
            path.unlink(missing_ok=True)
    assert ours is not None
    assert {path: set(files) for path, files in ours.files.items()} == {
        path: set(files) for path, files in theirs.files.items()
    }
    assert (ours.policy, ours.last_completed) == (theirs.policy, theirs.last_completed)
    assert (ours.extra_metadata, ours.earliest_retained) == (theirs.extra_metadata, None)


def test_the_commits_to_retain_are_counted_from_the_newest() -> None:
    assert _retained(_commits(1, 2), KEEP_TWO) is None
    assert _retained(_commits(1, 2, 3), KEEP_TWO) == _time(2)
    assert _retained(_commits(1, 2, 3), CleanOptions(commits_retained=0)) is None
    assert _retained(_commits(*range(20)), CleanOptions()) == _time(10)


def test_a_pending_write_holds_the_commit_before_it() -> None:
    assert _retained(_commits(1, 2, 4, 5, 6, pending=(3,)), KEEP_TWO) == _time(2)
    assert _retained(_commits(1, 2, 4, 5, 6, pending=(3,), action=COMPACTION), KEEP_TWO) == _time(2)
    assert _retained(_commits(4, 5, 6, pending=(3,)), KEEP_TWO) is None
    assert _retained(_commits(1, 2, 3, pending=(4,)), KEEP_TWO) == _time(2)
    timeline = _commits(1, 2, 4, 5, 6, pending=(3,), action=COMPACTION)
    found = earliest_commit_to_retain(timeline, KEEP_TWO, NOON, counts_compactions=False)
    assert found is not None
    assert found.timestamp == _time(5)


def test_hours_are_counted_from_now() -> None:
    options = CleanOptions(CleanPolicy.KEEP_LATEST_BY_HOURS, hours_retained=2)
    assert _retained(_commits(599, 600, 601), options) == _time(600)
    assert _retained(_commits(1, 2), options) is None


def test_a_clean_is_due_after_so_many_commits(make_table: MakeTable) -> None:
    directory = make_table()
    directory.partition("dt=a")
    for number in range(5):
        directory.commit(_time(number))
        directory.base_file("dt=a", "f", _time(number))
    options = CleanOptions(commits_retained=2, trigger_commits=2)
    assert clean_table(_open(directory), options, SINGLE_WRITER) is not None
    directory.commit(_time(5))
    assert not is_clean_due(_open(directory), options)
    directory.commit(_time(6))
    assert is_clean_due(_open(directory), options)


def test_the_version_that_the_earliest_state_consists_of_stays(make_table: MakeTable) -> None:
    directory = make_table()
    directory.partition("dt=a")
    for number in range(5):
        directory.commit(_time(number))
    for number in (0, 1, 4):
        directory.base_file("dt=a", "f", _time(number))
    directory.base_file("dt=a", "g", _time(0))
    # An uncommitted file is none of a clean's.
    directory.base_file("dt=a", "f", _time(3) + "", token="9-9-9")
    assert _names(plan_clean(_open(directory), KEEP_TWO, NOON)) == [f"f_0-0-0_{_time(0)}.parquet"]


def test_log_files_go_with_their_slice(make_table: MakeTable) -> None:
    directory = make_table(hoodie__table__type="MERGE_ON_READ")
    directory.partition("dt=a")
    for number in range(5):
        directory.commit(_time(number), DELTA_COMMIT)
    for number in (0, 2):
        directory.base_file("dt=a", "f", _time(number))
        directory.log_file("dt=a", "f", _time(number), 1)
        directory.log_file("dt=a", "f", _time(number), 2)
    found = _names(plan_clean(_open(directory), KEEP_ONE_VERSION, NOON))
    assert found == [
        f".f_{_time(0)}.log.1_0-0-0",
        f".f_{_time(0)}.log.2_0-0-0",
        f"f_0-0-0_{_time(0)}.parquet",
    ]


def test_change_logs_go_with_their_slice(make_table: MakeTable) -> None:
    directory = make_table()
    directory.partition("dt=a")
    for number in range(3):
        directory.commit(_time(number))
        directory.base_file("dt=a", "f", _time(number))
        directory.file(f"dt=a/.f_{_time(number)}.log.1_0-0-0.cdc")
    # Of a version that has no base file.
    directory.file(f"dt=a/.f_{_time(1)[:-3]}001.log.1_0-0-0.cdc")
    assert _names(plan_clean(_open(directory), KEEP_ONE_VERSION, NOON)) == [
        f".f_{_time(0)}.log.1_0-0-0.cdc",
        f".f_{_time(1)}.log.1_0-0-0.cdc",
        f"f_0-0-0_{_time(0)}.parquet",
        f"f_0-0-0_{_time(1)}.parquet",
    ]


def test_what_a_pending_compaction_merges_stays(golden: Callable[[str], Any]) -> None:
    table = open_at(golden("mor_compaction_scheduled").table)
    none = CleanOptions(CleanPolicy.KEEP_LATEST_FILE_VERSIONS, versions_retained=0)
    compacted = {each.file_id for each in list_file_slices(table, _partitions(table), None) if each.log_files}
    assert compacted
    names = _names(plan_clean(table, none, NOON))
    assert not [name for name in names if any(file_id in name for file_id in compacted)]


def _partitions(table: HudiTable) -> list[str]:
    return sorted({path.parent.name for path in Path(table.base_path).glob("*/*.parquet")})


def test_savepointed_files_stay_until_the_savepoint_is_deleted(make_table: MakeTable) -> None:
    directory = make_table()
    directory.partition("dt=a")
    for number in range(6):
        _commit(directory, number, "commit", [f"dt=a/f_0-0-0_{_time(number)}.parquet"])
        directory.base_file("dt=a", "f", _time(number))
    _savepoint(directory, 1)
    before = clean_table(_open(directory), KEEP_TWO, SINGLE_WRITER)
    assert before is not None
    assert before.savepoints == {_time(1)}
    assert [each.deleted for each in before.partitions] == [
        tuple(f"f_0-0-0_{_time(number)}.parquet" for number in (2, 0))
    ]
    # Nothing was written there since, but the savepoint is gone.
    (directory.path / f".hoodie/{_time(1)}.savepoint").unlink()
    directory.commit(_time(6))
    found = _names(plan_clean(_open(directory), KEEP_TWO, NOON))
    assert f"f_0-0-0_{_time(1)}.parquet" in found


def _savepoint(directory: TableDirectory, number: int) -> None:
    files = {"partitionPath": "dt=a", "savepointDataFile": [f"f_0-0-0_{_time(number)}.parquet"]}
    record = {
        "savepointedBy": "",
        "savepointedAt": 0,
        "comments": "",
        "partitionMetadata": {"dt=a": files},
        "version": 1,
    }
    directory.instant(f"{_time(number)}.savepoint", load_codec("HoodieSavepointMetadata").encode(record))


def test_replaced_file_groups_go_when_no_state_needs_them_and_then_their_partition(
    make_table: MakeTable,
) -> None:
    directory = make_table()
    for path in ("dt=a", "dt=b"):
        directory.partition(path)
        directory.base_file(path, "f", _time(0))
    directory.commit(_time(0))
    directory.commit(_time(1), "replacecommit", replaced={"dt=a": ("f",)})
    directory.commit(_time(2))
    assert plan_clean(_open(directory), KEEP_TWO, NOON) is None
    for number in (3, 4):
        directory.commit(_time(number))
    plan = plan_clean(_open(directory), KEEP_TWO, NOON)
    assert plan is not None
    assert (_names(plan), plan.partitions_to_delete) == ([f"f_0-0-0_{_time(0)}.parquet"], ("dt=a",))
    # A write that is not complete keeps the directory.
    directory.base_file("dt=a", "g", _time(5))
    plan = plan_clean(_open(directory), KEEP_TWO, NOON)
    assert plan is not None
    assert plan.partitions_to_delete == ()


def _five_partitions(make_table: MakeTable) -> TableDirectory:
    """Five commits of a file each, in the partitions dt=a to dt=e."""
    directory = make_table()
    for number, partition in enumerate("abcde"):
        directory.partition(f"dt={partition}")
        directory.base_file(f"dt={partition}", "f", _time(number))
        _commit(directory, number, "commit", [f"dt={partition}/f_0-0-0_{_time(number)}.parquet"])
    return directory


def test_partitions_that_were_found_clean_are_listed_once(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = _five_partitions(make_table)
    assert clean_table(_open(directory), KEEP_TWO, SINGLE_WRITER) is None
    listed: list[str] = []
    listings = Storage.list_directories

    def list_directories(
        storage: Storage, paths: list[str], *, missing_ok: bool = False
    ) -> list[list[FileInfo]]:
        listed.extend(paths)
        return listings(storage, paths, missing_ok=missing_ok)

    monkeypatch.setattr(Storage, "list_directories", list_directories)
    _commit(directory, 5, "commit", [])
    assert clean_table(_open(directory), KEEP_TWO, SINGLE_WRITER) is None
    # The one that the commits since say to have been written.
    assert listed == [f"{directory.path}/dt=d"]
    # The first state is superfluous once dt=a has a second version, and the commit is old enough.
    directory.base_file("dt=a", "f", _time(6))
    _commit(directory, 6, "commit", [f"dt=a/f_0-0-0_{_time(6)}.parquet"])
    for number in (7, 8, 9):
        _commit(directory, number, "commit", [])
    cleaned = clean_table(_open(directory), KEEP_TWO, SINGLE_WRITER)
    assert cleaned is not None
    assert [each.deleted for each in cleaned.partitions] == [(f"f_0-0-0_{_time(0)}.parquet",)]


def test_a_new_process_goes_on_where_the_last_found_nothing(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = _five_partitions(make_table)

    def listed_by_a_clean() -> list[str]:
        monkeypatch.setattr(clean_action, "_looked_at_until", {})
        with counted_requests(directory.path) as requests:
            assert clean_table(_open(directory), KEEP_TWO, SINGLE_WRITER) is None
        return [path.rpartition("/")[2] for _, path in requests.sent if "/dt=" in path]

    assert listed_by_a_clean() == [f"dt={partition}" for partition in "abcde"]
    _commit(directory, 5, "commit", [])
    assert listed_by_a_clean() == ["dt=d"]
    directory.file(RECORD_FILE, b"not JSON")
    assert len(listed_by_a_clean()) == 5
    # A directory stands where the record would be: nothing can be recorded, and nothing fails.
    (directory.path / RECORD_FILE).unlink()
    (directory.path / RECORD_FILE).mkdir()
    assert len(listed_by_a_clean()) == 5
    (directory.path / RECORD_FILE).rmdir()
    # With another savepoint, other files may be superfluous.
    _savepoint(directory, 0)
    assert len(listed_by_a_clean()) == 5


def test_the_first_clean_of_a_bootstrapped_table_looks_at_the_later_commits(make_table: MakeTable) -> None:
    directory = make_table()
    for partition in "abc":
        directory.partition(f"dt={partition}")
        directory.base_file(f"dt={partition}", "f", METADATA_BOOTSTRAP_INSTANT_TIME)
    names = [f"dt={partition}/f_0-0-0_{METADATA_BOOTSTRAP_INSTANT_TIME}.parquet" for partition in "abc"]
    directory.commit(METADATA_BOOTSTRAP_INSTANT_TIME, written=tuple(names))
    for number in range(1, 5):
        directory.base_file("dt=b", "f", _time(number))
        _commit(directory, number, "commit", [f"dt=b/f_0-0-0_{_time(number)}.parquet"])
    with counted_requests(directory.path) as requests:
        plan = plan_clean(_open(directory), KEEP_TWO, NOON)
    assert plan is not None
    assert [len(files) for files in plan.files.values()] == [2]
    assert {path.rpartition("/")[2] for _, path in requests.sent if "/dt=" in path} == {"dt=b"}


GROUPS = ("f", "g", "h")
Histories = some.lists(some.tuples(some.sets(some.sampled_from(GROUPS)), some.integers(0, 3)), min_size=1)


@given(history=Histories, retained=some.integers(1, 5), incremental=some.booleans())
def test_every_state_since_the_earliest_retained_commit_stays_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[tuple[set[str], int]],
    retained: int,
    incremental: bool,
) -> None:
    directory = TableDirectory(tmp_path_factory.mktemp("table"), {})
    directory.partition("dt=a")
    options = CleanOptions(commits_retained=retained, incremental=incremental)
    replaced: set[str] = set()
    for number, (changed, kind) in enumerate(history):
        ended = {min(changed)} if changed and kind == 0 else set()
        names = []
        for group in sorted(changed - ended - replaced):
            directory.base_file("dt=a", group, _time(number))
            names.append(f"dt=a/{group}_0-0-0_{_time(number)}.parquet")
        replaced |= ended
        action = "replacecommit" if ended else "commit"
        _commit(directory, number, action, names, ended)
        if kind != 1:
            continue
        table = _open(directory)
        earliest = earliest_commit_to_retain(table.timeline, options, NOON)
        # As in Hudi, the state before the earliest commit stays as well, for readers that are at work.
        times = [each.timestamp for each in table.timeline.commits]
        first = 0 if earliest is None else max(times.index(earliest.timestamp) - 1, 0)
        states = _states(table, times[first:])
        clean_table(table, options, SINGLE_WRITER)
        assert _states(_open(directory), times[first:]) == states
        if earliest is not None:
            left = {path.name for path in (directory.path / "dt=a").glob("*.parquet")}
            needed = set().union(*states.values())
            assert {name for name in left - needed if name[0] not in replaced} == set()


def _commit(
    directory: TableDirectory,
    number: int,
    action: str,
    written: list[str],
    ended: Collection[str] = (),
) -> None:
    replaced = {"dt=a": tuple(ended)} if ended else None
    directory.commit(_time(number), action, written=tuple(written), replaced=replaced)


def _states(table: HudiTable, times: list[str]) -> dict[str, set[str]]:
    # A clean deletes the directory of a partition that holds nothing any more.
    partitions = ["dt=a"] if Path(table.base_path, "dt=a").exists() else []
    return {
        time: {
            Path(each.base_file.path).name
            for each in list_file_slices(table, partitions, time)
            if each.base_file is not None
        }
        for time in times
    }
