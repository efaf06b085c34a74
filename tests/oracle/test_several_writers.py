"""Apache Hudi 0.15 and hudisql write one table at the same time, sharing it under Hudi's file-system
lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudisql.errors import TableLockedError, WriteConflictError
from hudisql.format.paths.file_names import parse_base_file_name
from hudisql.format.timeline.commit_metadata import CommitMetadata, WriteStat
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.execution import commit_files
from hudisql.write.transaction.commit import OpenCommit, begin_commit, complete_commit, rollback_commit
from hudisql.write.transaction.concurrency import FILE_SYSTEM_PROVIDER, Concurrency, FailedWrites
from hudisql.write.transaction.lock import FileSystemLock, LockRetryPolicy, hold_lock
from hudisql.write.transaction.markers import Marker, MarkerKind, create_marker
from tests.oracle.client import HudiOracle, OracleError
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import SHAPES, Shape, noted_rows
from tests.processes import wait_for
from tests.soak import parameters

pytestmark = pytest.mark.oracle

SHAPE = SHAPES[0]
MERGE_ON_READ = next(shape for shape in SHAPES if shape.table_type == "MERGE_ON_READ")
STORAGE = Storage()
NAME = "several_writers"
WAIT_SECONDS = 900
OPTIONS = SHAPE.write_options() | {"hoodie.table.name": NAME}
SHARED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": FILE_SYSTEM_PROVIDER,
    "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
    "hoodie.write.lock.client.num_retries": "3000",
}
AGAIN = {"hoodie.write.num.retries.on.conflict.failures": "5"}


@pytest.fixture(scope="module")
def path(oracle_015: HudiOracle, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table that Apache Hudi has made: sixty rows in three partitions."""
    directory = str(tmp_path_factory.mktemp("writers") / "table")
    oracle_015.upsert(_rows(0, 60), directory, OPTIONS)
    return directory


def _rows(start: int, stop: int, note: str = "first", partition: int | None = None) -> pa.Table:
    rows = noted_rows(SHAPE, start, stop, note)
    return rows if partition is None else rows.filter(pc.equal(rows["dt"], f"2024-03-0{partition}"))


def _begin(path: str, retries: int = 3000) -> OpenCommit:
    lock = FileSystemLock(STORAGE, f"{path}/.hoodie")
    lock_retry_policy = LockRetryPolicy(retries=retries, wait_ms=100)
    concurrency = Concurrency(True, FailedWrites.LAZY, lock, lock_retry_policy)
    return begin_commit(open_table(STORAGE, path), "UPSERT", concurrency=concurrency)


def _metadata(table: HudiTable, partition: int) -> CommitMetadata:
    """As if the one file group of the partition had been written; its rows stay as they are."""
    (found,) = [each for each in load_file_slices(table) if each.partition_path.endswith(str(partition))]
    place = found.partition_path
    assert found.base_file is not None
    stat = WriteStat(
        file_id=found.file_id, path=f"{place}/{Path(found.base_file.path).name}", partition_path=place
    )
    return CommitMetadata(partition_to_write_stats={place: (stat,)}, operation_type="UPSERT")


def _new_instant(path: str, known: HudiTable) -> Callable[[], object]:
    """A question: is there an inflight instant that `known` does not have?"""
    times = {each.timestamp for each in known.timeline.instants}
    return lambda: [
        each for each in Path(path, ".hoodie").glob("*.inflight") if each.name.split(".")[0] not in times
    ]


def _orphans(path: str) -> list[str]:
    done = {each.timestamp for each in open_table(STORAGE, path).timeline.completed}
    names = [file.name for file in Path(path).rglob("*.parquet")]
    parsed = [(name, parse_base_file_name(name)) for name in names]
    return [name for name, found in parsed if found is None or found.instant_time not in done]


def _notes(oracle: HudiOracle, path: str, note: str) -> list[int]:
    rows = oracle.read(path, columns=["seq", "note"])
    return sorted(rows.filter(pc.equal(rows["note"], note))["seq"].to_pylist())


def test_we_wait_for_the_lock_that_hudi_015_holds(
    oracle_015: HudiOracle, path: str, background: ThreadPoolExecutor
) -> None:
    assert oracle_015.request("lock", path=path)["locked"] is True
    with pytest.raises(TableLockedError, match=r"\.hoodie/lock"):
        _begin(path, retries=2)
    waiting: Future[OpenCommit] = background.submit(_begin, path)
    time.sleep(0.5)
    assert not waiting.done()
    oracle_015.request("unlock")
    rollback_commit(waiting.result(timeout=WAIT_SECONDS))


def test_hudi_015_waits_for_the_lock_that_we_hold(
    oracle_015: HudiOracle, path: str, background: ThreadPoolExecutor
) -> None:
    commits = open_table(STORAGE, path).timeline.commits
    lock = FileSystemLock(STORAGE, f"{path}/.hoodie")
    assert lock.try_lock(0)
    assert oracle_015.request("lock", path=path)["locked"] is False
    waiting = background.submit(oracle_015.upsert, _rows(0, 3, "waited"), path, OPTIONS | SHARED)
    time.sleep(4)
    assert not waiting.done()
    assert open_table(STORAGE, path).timeline.commits == commits
    assert lock.is_held()
    lock.unlock()
    waiting.result(timeout=WAIT_SECONDS)
    assert _notes(oracle_015, path, "waited") == [0, 1, 2]


def test_a_hudi_015_that_gives_up_waiting_takes_the_lock_away_and_we_notice(
    oracle_015: HudiOracle, path: str
) -> None:
    impatient = {"hoodie.write.lock.client.num_retries": "1"}
    lock = FileSystemLock(STORAGE, f"{path}/.hoodie")
    with hold_lock(lock, LockRetryPolicy()) as held:
        with pytest.raises(OracleError, match="HoodieLockException"):
            oracle_015.upsert(_rows(0, 3, "impatient"), path, OPTIONS | SHARED | impatient)
        with pytest.raises(WriteConflictError, match="was removed while"):
            held.check()


def test_hudi_015_commits_beside_our_open_commit_which_stands_unless_the_file_groups_are_the_same(
    oracle_015: HudiOracle, path: str
) -> None:
    apart, same = _begin(path), _begin(path)
    oracle_015.upsert(_rows(0, 60, "beside", partition=1), path, OPTIONS | SHARED)
    table = open_table(STORAGE, path)
    assert {apart.instant, same.instant} <= set(table.timeline.pending)
    with pytest.raises(WriteConflictError, match=table.timeline.commits[-1].timestamp):
        complete_commit(same, _metadata(same.table, 1))
    rollback_commit(same)
    complete_commit(apart, _metadata(apart.table, 2))
    assert _notes(oracle_015, path, "beside") == list(range(0, 60, 3))
    assert _orphans(path) == []


def test_hudi_015_gives_way_to_our_commit_on_its_file_groups_and_we_clear_up_after_it(
    oracle_015: HudiOracle, path: str, background: ThreadPoolExecutor
) -> None:
    rows = _rows(0, 60, "loser", partition=1)
    for _ in range(5):
        ours = _begin(path)
        metadata = _metadata(ours.table, 1)
        running = background.submit(oracle_015.upsert, rows, path, OPTIONS | SHARED)
        wait_for(_new_instant(path, open_table(STORAGE, path)), seconds=WAIT_SECONDS)
        try:
            complete_commit(ours, metadata)
            break
        except WriteConflictError:
            # It was faster: its rows are put back, and the two begin again.
            rollback_commit(ours)
            running.result(timeout=WAIT_SECONDS)
            oracle_015.upsert(_rows(0, 60, partition=1), path, OPTIONS | SHARED)
    with pytest.raises(OracleError, match="HoodieWriteConflictException"):
        running.result(timeout=WAIT_SECONDS)
    assert open_table(STORAGE, path).timeline.pending
    assert _orphans(path) != []
    for beat in Path(path, ".hoodie", ".heartbeat").iterdir():
        os.utime(beat, (time.time() - 600, time.time() - 600))
    rollback_commit(_begin(path))
    assert open_table(STORAGE, path).timeline.pending == ()
    assert _orphans(path) == []
    assert _notes(oracle_015, path, "loser") == []


def test_hudi_015_clears_up_after_us_once_our_heartbeat_has_stopped(
    oracle_015: HudiOracle, path: str
) -> None:
    dead, alive = _begin(path), _begin(path)
    marker = Marker("dt=2024-03-01", f"f_0-0-0_{dead.instant_time}.parquet", MarkerKind.CREATE)
    create_marker(STORAGE, path, dead.instant_time, marker)
    Path(path, marker.partition_path, marker.file_name).write_bytes(b"half a file")
    assert dead.heartbeat is not None
    dead.heartbeat.stop()
    oracle_015.upsert(_rows(0, 60, "cleaner", partition=1), path, OPTIONS | SHARED)
    timeline = open_table(STORAGE, path).timeline
    assert dead.instant_time not in {each.timestamp for each in timeline.instants}
    assert alive.instant in timeline.pending
    assert _orphans(path) == []
    complete_commit(alive, _metadata(alive.table, 3))


@pytest.mark.soak
@pytest.mark.parametrize("is_upgraded_first", [True, False], ids=["late file", "early file"])
def test_hudi_12_upgrades_a_table_under_an_open_commit(
    oracle_015: HudiOracle, oracle_120: HudiOracle, tmp_path: Path, is_upgraded_first: bool
) -> None:
    path = str(tmp_path / "table")
    oracle_015.upsert(_rows(0, 60), path, OPTIONS)
    commit = begin_commit(open_table(STORAGE, path), "UPSERT")
    metadata = _metadata(commit.table, 1)
    marker = Marker("dt=2024-03-01", f"f_0-0-0_{commit.instant_time}.parquet", MarkerKind.CREATE)
    file = Path(path, marker.partition_path, marker.file_name)

    def write_file() -> None:
        create_marker(STORAGE, path, commit.instant_time, marker)
        file.write_bytes(b"half a file")

    if not is_upgraded_first:
        write_file()
    upgrade = {"hoodie.write.table.version": "9", "hoodie.metadata.index.column.stats.enable": "false"}
    oracle_120.upsert(_rows(0, 60, "upgraded", partition=2), path, OPTIONS | upgrade)
    if is_upgraded_first:
        write_file()
    with pytest.raises(WriteConflictError, match=r"rolled back: .* has table version 9 now"):
        complete_commit(commit, metadata)
    before = set(Path(path, ".hoodie").iterdir())
    rollback_commit(commit)
    assert not file.exists()
    # Nothing is added to what is no timeline any more.
    assert set(Path(path, ".hoodie").iterdir()) <= before
    left = [
        each for each in Path(path, ".hoodie").rglob(f"{commit.instant_time}*") if "rollback" not in each.name
    ]
    assert left == []
    assert _notes(oracle_120, path, "upgraded") == [seq for seq in range(60) if seq % 3 == 1]
    oracle_120.upsert(_rows(0, 60, "again", partition=1), path, OPTIONS | upgrade)
    assert len(oracle_120.read(path)) == 60


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.parametrize(
    ("shape", "version"),
    parameters([(SHAPE, 6), (MERGE_ON_READ, 6), (SHAPE, 9), (MERGE_ON_READ, 9)], in_ci=[(MERGE_ON_READ, 6)]),
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_statements_and_hudi_write_at_the_same_time(
    request: pytest.FixtureRequest,
    session: Any,
    tmp_path: Path,
    background: ThreadPoolExecutor,
    shape: Shape,
    version: int,
) -> None:
    oracle: HudiOracle = request.getfixturevalue("oracle_015" if version == 6 else "oracle_120")
    path, name = str(tmp_path / "table"), f"{NAME}_{shape.name}_{version}"
    options = shape.write_options() | {"hoodie.table.name": name, "hoodie.write.table.version": str(version)}
    oracle.upsert(_rows(0, 60), path, options)
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(f"CALL hive_sync(table => 'oracle.{name}', path => '{path}')")
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in (SHARED | AGAIN).items())
    session.sql(f"ALTER TABLE oracle.{name} SET TBLPROPERTIES ({listed})")
    rows = _rows(0, 60, "theirs", partition=2)

    def upsert_twice() -> None:
        for _ in range(2):
            oracle.upsert(rows, path, options | SHARED)

    theirs = background.submit(upsert_twice)
    for number in range(2):
        session.sql(f"UPDATE oracle.{name} SET note = 'ours {number}' WHERE dt = '2024-03-03'")
    session.sql(f"DELETE FROM oracle.{name} WHERE dt = '2024-03-03' AND seq < 30")
    theirs.result(timeout=WAIT_SECONDS)
    seen = oracle.read(path)
    ours = session.sql(f"SELECT * FROM oracle.{name}").arrow()
    assert_same_rows(ours, seen, sort_by=["seq"])
    notes = dict(zip(seen["seq"].to_pylist(), seen["note"].to_pylist(), strict=True))
    expected = {seq: ("first", "theirs", "ours 1")[seq % 3] for seq in range(60)}
    assert notes == {seq: note for seq, note in expected.items() if seq % 3 != 2 or seq >= 30}
    assert open_table(STORAGE, path).timeline.pending == ()
    assert _orphans(path) == []


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.parametrize(
    ("shape", "is_shared"),
    parameters([(SHAPE, False), (SHAPE, True), (MERGE_ON_READ, False), (MERGE_ON_READ, True)], in_ci=[]),
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_hudi_12_upgrades_a_table_during_a_statement(
    oracle_120: HudiOracle,
    session: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shape: Shape,
    is_shared: bool,
) -> None:
    path, name = str(tmp_path / "table"), f"{NAME}_during_{shape.name}_{is_shared}".lower()
    options = shape.write_options() | {"hoodie.table.name": name}
    oracle_120.upsert(_rows(0, 60), path, options)
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    session.sql(f"CALL hive_sync(table => 'oracle.{name}', path => '{path}')")
    if is_shared:
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in (SHARED | AGAIN).items())
        session.sql(f"ALTER TABLE oracle.{name} SET TBLPROPERTIES ({listed})")
    # With the lock 1.2 waits for itself here: it rolls our pending commit back while it holds the lock.
    upgrade = options | {"hoodie.write.table.version": "9"}
    finish = commit_files.finish_commit
    upgraded: list[bool] = []

    def upgrade_and_finish(*arguments: Any, **named: Any) -> Any:
        if not upgraded:
            upgraded.append(True)
            oracle_120.upsert(_rows(0, 60, "theirs", partition=2), path, upgrade)
        return finish(*arguments, **named)

    monkeypatch.setattr(commit_files, "finish_commit", upgrade_and_finish)
    update = f"UPDATE oracle.{name} SET note = 'ours' WHERE dt = '2024-03-03'"
    if is_shared:
        session.sql(update)
    else:
        with pytest.raises(WriteConflictError, match="has table version 9 now"):
            session.sql(update)
    assert upgraded
    assert open_table(STORAGE, path).version == 9
    assert _orphans(path) == []
    notes = {"2024-03-02": "theirs", "2024-03-03": "ours" if is_shared else "first"}
    for _ in range(2):
        seen = oracle_120.read(path)
        assert_same_rows(session.sql(f"SELECT * FROM oracle.{name}").arrow(), seen, sort_by=["seq"])
        found = zip(seen["dt"].to_pylist(), seen["note"].to_pylist(), strict=True)
        assert all(note == notes.get(day, "first") for day, note in found)
        session.sql(update)
        notes["2024-03-03"] = "ours"
