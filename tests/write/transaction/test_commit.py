"""The commit protocol on a real table's files: states, markers, rollbacks, and whom it yields to."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import (
    CorruptTableError,
    StorageError,
    TableLockedError,
    UnsupportedTableError,
    WriteConflictError,
)
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.log_file.log_block import (
    LOG_WITHOUT_ROWS,
    HeaderKey,
    LogBlock,
    encode_log_block,
    parse_log_blocks,
    rollback_block,
)
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.timeline.commit_metadata import CommitMetadata, WriteStat
from hudisql.format.timeline.instant import Instant, InstantState
from hudisql.storage import Storage
from hudisql.storage.paths import staged_path
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.properties.table_configuration import record_statistics, reopened_with_entries
from hudisql.write.transaction.commit import (
    OpenCommit,
    begin_commit,
    complete_commit,
    discard_empty_commit,
    rollback_commit,
)
from hudisql.write.transaction.concurrency import SINGLE_WRITER, Concurrency, FailedWrites, default_lock
from hudisql.write.transaction.dead_writers import delete_stale_files
from hudisql.write.transaction.failed_writes import roll_back_failed_writes
from hudisql.write.transaction.heartbeat import heartbeat_path, is_alive, start_heartbeat
from hudisql.write.transaction.lock import FileSystemLock, LockRetryPolicy
from hudisql.write.transaction.markers import Marker, MarkerKind, create_marker, list_markers
from hudisql.write.transaction.pending_table_services import exclude_pending_clustering
from hudisql.write.transaction.process_identity import this_process
from hudisql.write.transaction.timeline_payloads import RollbackFiles, render_rollback_plan

STORAGE = Storage()
EMPTY = CommitMetadata(partition_to_write_stats={}, operation_type="UPSERT")


@pytest.fixture
def table(golden: Callable[[str], Any], tmp_path: Path) -> HudiTable:
    shutil.copytree(golden("cow_bootstrap_then_upsert_delete").table, tmp_path / "table")
    return open_table(STORAGE, str(tmp_path / "table"))


def _states(table: HudiTable, instant_time: str) -> set[str]:
    return {path.name for path in Path(table.base_path, ".hoodie").iterdir() if instant_time in path.name}


def _marked_file(table: HudiTable, instant_time: str, name: str, kind: MarkerKind) -> Path:
    marker = Marker("dt=2024-03-01", name, kind)
    create_marker(STORAGE, table.base_path, instant_time, marker)
    path = Path(table.base_path, "dt=2024-03-01", name)
    path.write_bytes(b"data")
    return path


def test_a_commit_goes_through_its_states_and_drops_its_markers(table: HudiTable) -> None:
    commit = begin_commit(table, "UPSERT")
    instant = commit.instant_time
    assert _states(table, instant) == {f"{instant}.commit.requested", f"{instant}.inflight"}
    assert instant > (table.timeline.latest_time or "")
    stray = _marked_file(table, instant, "stray.parquet", MarkerKind.CREATE)
    complete_commit(commit, EMPTY)
    assert not stray.exists()
    assert f"{instant}.commit" in _states(table, instant)
    assert list_markers(STORAGE, table.base_path, instant) == []
    # A completed commit is not rolled back, whatever its writer meets afterwards.
    rollback_commit(commit)
    assert f"{instant}.commit" in _states(table, instant)


def test_an_abandoned_commit_leaves_a_rollback_and_nothing_else(table: HudiTable) -> None:
    before = {path for path in Path(table.base_path).rglob("*") if ".hoodie" not in str(path)}
    commit = begin_commit(table, "UPSERT")
    _marked_file(table, commit.instant_time, "a.parquet", MarkerKind.CREATE)
    _marked_file(table, commit.instant_time, "b.parquet", MarkerKind.MERGE)
    _marked_file(table, commit.instant_time, f".b_{commit.instant_time}.log.1_0-0-0.cdc", MarkerKind.APPEND)
    rollback_commit(commit)
    assert _states(table, commit.instant_time) == set()
    assert {path for path in Path(table.base_path).rglob("*") if ".hoodie" not in str(path)} == before
    [rollback] = [each for each in open_table(STORAGE, table.base_path).timeline.completed
                  if each.action == "rollback"]  # fmt: skip
    content = Path(table.instant_path(rollback)).read_bytes()
    said = load_codec("HoodieRollbackMetadata").decode(content)
    assert said["commitsRollback"] == [commit.instant_time]
    assert said["totalFilesDeleted"] == 3


def test_files_that_a_late_task_finishes_during_the_rollback_are_deleted_too(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = begin_commit(table, "UPSERT")
    inflight = str(Path(table.instant_path(commit.instant)))
    delete_file, late = Storage.delete_file, []

    def finish_first(self: Storage, path: str) -> None:
        if path == inflight:
            late.append(_marked_file(table, commit.instant_time, "late.parquet", MarkerKind.CREATE))
        delete_file(self, path)

    monkeypatch.setattr(Storage, "delete_file", finish_first)
    rollback_commit(commit)
    assert late
    assert not late[0].exists()
    assert list_markers(STORAGE, table.base_path, commit.instant_time) == []


def _begin_rollback(table: HudiTable, target: Instant) -> None:
    """What another writer, who holds no lock meanwhile, does first."""
    rollback = Instant("20990101000000000", "rollback", InstantState.REQUESTED)
    STORAGE.create(table.instant_path(rollback), render_rollback_plan(target, {}))


def test_a_commit_that_is_being_rolled_back_does_not_complete(table: HudiTable) -> None:
    commit = begin_commit(table, "UPSERT")
    _begin_rollback(table, commit.instant)
    with pytest.raises(WriteConflictError, match="rolled back"):
        complete_commit(commit, EMPTY)
    assert f"{commit.instant_time}.commit" not in _states(table, commit.instant_time)


def _run_before(monkeypatch: pytest.MonkeyPatch, suffix: str, action: Callable[[], object]) -> None:
    """Let another writer do something just before the next creation of a path that ends so."""
    create, waiting = Storage.create, [action]

    def other_first(self: Storage, path: str, content: bytes) -> None:
        if path.endswith(suffix) and waiting:
            waiting.pop()()
        create(self, path, content)

    monkeypatch.setattr(Storage, "create", other_first)


def test_a_commit_that_is_rolled_back_after_its_last_look_withdraws(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, fast = begin_commit(table, "UPSERT"), []
    file = _marked_file(table, slow.instant_time, "a.parquet", MarkerKind.CREATE)
    _run_before(
        monkeypatch,
        f"{slow.instant_time}.commit",
        lambda: fast.append(begin_commit(open_table(STORAGE, table.base_path), "UPSERT")),
    )
    with pytest.raises(WriteConflictError, match="rolled back"):
        complete_commit(slow, EMPTY)
    rollback_commit(slow)
    assert _states(table, slow.instant_time) == set()
    assert not file.exists()
    complete_commit(fast[0], EMPTY)
    assert open_table(STORAGE, table.base_path).timeline.pending == ()


def test_a_rollback_that_was_only_begun_when_the_commit_completed_wins(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = begin_commit(table, "UPSERT")
    _run_before(monkeypatch, f"{commit.instant_time}.commit", lambda: _begin_rollback(table, commit.instant))
    with pytest.raises(WriteConflictError, match="rolled back"):
        complete_commit(commit, EMPTY)
    # The abandoned commit ends that rollback.
    rollback_commit(commit)
    assert _states(table, commit.instant_time) == set()
    assert open_table(STORAGE, table.base_path).timeline.pending == ()


def test_a_commit_that_completes_while_its_rollback_begins_stands(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = begin_commit(table, "UPSERT")
    file = _marked_file(table, slow.instant_time, "a.parquet", MarkerKind.CREATE)
    stat = WriteStat(file_id="a", path="dt=2024-03-01/a.parquet", partition_path="dt=2024-03-01")
    metadata = CommitMetadata(partition_to_write_stats={"dt=2024-03-01": (stat,)}, operation_type="UPSERT")
    other = open_table(STORAGE, table.base_path)
    _run_before(monkeypatch, ".rollback.requested", lambda: complete_commit(slow, metadata))
    with pytest.raises(WriteConflictError, match=slow.instant_time):
        begin_commit(other, "UPSERT")
    assert f"{slow.instant_time}.commit" in _states(table, slow.instant_time)
    assert file.exists()
    assert open_table(STORAGE, table.base_path).timeline.pending == ()


@pytest.mark.parametrize("replaces", [False, True])
def test_two_writes_never_have_one_instant_time(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch, replaces: bool
) -> None:
    action = "replacecommit" if replaces else "commit"
    others: list[Path] = []

    def create_first(self: Storage, path: str, content: bytes) -> None:
        if path.endswith(f".{action}.requested") and not others:
            other = "commit" if replaces else "deltacommit"
            others.append(Path(path.replace(f".{action}.", f".{other}.")))
            others[0].touch()
            beat = Path(table.base_path, ".hoodie", ".heartbeat", others[0].name.partition(".")[0])
            others.append(beat)
        create(self, path, content)

    create = Storage.create
    monkeypatch.setattr(Storage, "create", create_first)
    lazy = Concurrency(failed_writes=FailedWrites.LAZY)
    commit = begin_commit(table, "UPSERT", replaces=replaces, concurrency=lazy)
    requested, heartbeat = others
    assert commit.instant_time > heartbeat.name
    assert _states(table, heartbeat.name) == {requested.name}
    # It is that of both.
    assert heartbeat.exists()
    rollback_commit(commit)


def test_a_table_that_is_upgraded_meanwhile_takes_no_commit(table: HudiTable) -> None:
    record_statistics(table, are_right=False)
    root = Path(table.base_path)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    commit = begin_commit(table, "UPSERT")
    _marked_file(table, commit.instant_time, "a.parquet", MarkerKind.CREATE)
    _marked_file(table, commit.instant_time, "b.parquet", MarkerKind.MERGE)
    properties = root / ".hoodie" / "hoodie.properties"
    upgraded = properties.read_text().replace("hoodie.table.version=6", "hoodie.table.version=9")
    properties.write_text(upgraded)
    with pytest.raises(UnsupportedTableError, match=f"{commit.instant_time}.* rolled back.* version 9"):
        complete_commit(commit, EMPTY)
    rollback_commit(commit)
    after = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert after == before | {properties: upgraded.encode()}


HOSTILE = ["../x", "dt=2024-03-01/../../x", ".hoodie/hoodie.properties", "./dt=2024-03-01/x"]


@pytest.mark.parametrize("path", HOSTILE)
@pytest.mark.parametrize("recorded_in", ["marker", "plan"])
def test_recorded_paths_that_lead_out_of_the_tables_data_are_refused(
    table: HudiTable, recorded_in: str, path: str
) -> None:
    failed = begin_commit(table, "UPSERT")
    properties = Path(table.base_path, ".hoodie", "hoodie.properties")
    outside = Path(table.base_path).parent / "x"
    outside.touch()
    if recorded_in == "marker":
        directory = properties.parent / ".temp" / failed.instant_time
        directory.mkdir(parents=True)
        (directory / "MARKERS0").write_text(f"{path}.marker.CREATE\n")
    else:
        partition, _, name = path.rpartition("/")
        rollback = Instant("20990101000000000", "rollback", InstantState.REQUESTED)
        plan = render_rollback_plan(failed.instant, {partition: RollbackFiles([f"file:/{name}"])})
        STORAGE.create(table.instant_path(rollback), plan)
    calls: list[Callable[[], object]] = [lambda: begin_commit(open_table(STORAGE, table.base_path), "UPSERT")]
    if recorded_in == "marker":
        # The failed commit is over: its markers are left.
        calls.append(lambda: delete_stale_files(table, None, reopened_with_entries(table)[1]))
    for call in calls:
        with pytest.raises(CorruptTableError, match="not a data file of the Hudi table"):
            call()
        for state in ("inflight", "commit.requested"):
            Path(properties.parent, f"{failed.instant_time}.{state}").unlink(missing_ok=True)
    assert properties.exists()
    assert outside.exists()


def test_a_rollback_plan_of_no_instant_is_refused(table: HudiTable) -> None:
    target = Instant("../../../x", "commit", InstantState.INFLIGHT)
    rollback = Instant("20990101000000000", "rollback", InstantState.REQUESTED)
    STORAGE.create(table.instant_path(rollback), render_rollback_plan(target, {}))
    outside = Path(table.base_path).parent / "x"
    outside.mkdir()
    with pytest.raises(CorruptTableError, match=r"'../../../x', which is not an instant time"):
        begin_commit(open_table(STORAGE, table.base_path), "UPSERT")
    assert outside.exists()


def test_markers_stay_until_the_rollback_that_needs_them_is_over(table: HudiTable) -> None:
    crashed = Instant("20980101000000000", "commit", InstantState.INFLIGHT)
    marker = Marker("", "f.parquet", MarkerKind.CREATE)
    for instant_time in (crashed.timestamp, "20970101000000000"):
        create_marker(STORAGE, table.base_path, instant_time, marker)
    _begin_rollback(table, crashed)
    delete_stale_files(table, None, reopened_with_entries(table)[1])
    assert list_markers(STORAGE, table.base_path, crashed.timestamp) == [marker]
    assert list_markers(STORAGE, table.base_path, "20970101000000000") == []


def test_what_a_killed_writer_has_staged_goes_when_it_is_old(table: HudiTable) -> None:
    timeline = Path(table.base_path, ".hoodie")
    old, new = (Path(staged_path(str(timeline / name))) for name in ("1.commit", "2.commit"))
    for each in (old, new):
        each.write_text("half")
    os.utime(old, (0, 0))
    delete_stale_files(table, None, reopened_with_entries(table)[1])
    assert not old.exists()
    assert new.exists()


def test_who_was_silent_for_too_long_gives_no_sign_of_life_again(table: HudiTable) -> None:
    heartbeat = start_heartbeat(
        STORAGE, heartbeat_path(table.base_path, "20300101000000000"), 3_600_000, 1_000_000
    )
    heartbeat.check()
    heartbeat._last -= 2_000
    heartbeat.beat()
    with pytest.raises(WriteConflictError, match="heartbeat of this writer expired"):
        heartbeat.check()
    heartbeat.stop()


def test_markers_in_a_file_of_hudis_timeline_server_are_read(table: HudiTable) -> None:
    directory = Path(table.base_path, ".hoodie", ".temp", "20300101000000000")
    directory.mkdir(parents=True)
    (directory / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (directory / "MARKERS0").write_text("dt=1/a.parquet.marker.CREATE\ndt=2/b.parquet.marker.MERGE\n")
    (directory / "MARKERS7").write_text("c.parquet.marker.CREATE\n")
    assert list_markers(STORAGE, table.base_path, "20300101000000000") == [
        Marker("", "c.parquet", MarkerKind.CREATE),
        Marker("dt=1", "a.parquet", MarkerKind.CREATE),
        Marker("dt=2", "b.parquet", MarkerKind.MERGE),
    ]


def test_a_writer_with_a_fresh_heartbeat_is_left_alone(table: HudiTable) -> None:
    alive = begin_commit(table, "UPSERT")
    beat = Path(table.base_path, ".hoodie", ".heartbeat", alive.instant_time)
    beat.parent.mkdir()
    beat.touch()
    with pytest.raises(WriteConflictError, match="heartbeat has not expired"):
        begin_commit(open_table(STORAGE, table.base_path), "UPSERT")
    old = time.time() - 600
    os.utime(beat, (old, old))
    begin_commit(open_table(STORAGE, table.base_path), "UPSERT")
    assert _states(table, alive.instant_time) == set()


def test_a_log_file_loses_its_rows_unless_others_wrote_to_it(table: HudiTable) -> None:
    pending = begin_commit(table, "UPSERT")
    other = encode_log_block(rollback_block("20200101000000000", "1"))
    own = encode_log_block(rollback_block(pending.instant_time, "1"))
    files = {
        "e": other,
        "f": own + b"#HUDI#torn",
        "g": other + own,
    }
    logs = {
        name: _marked_file(
            table, pending.instant_time, f".{name}_20200101000000000.log.7_0-0-0", MarkerKind.APPEND
        )
        for name in files
    }
    for name, content in files.items():
        logs[name].write_bytes(content)
    roll_back_failed_writes(open_table(STORAGE, table.base_path))
    # A plan or a reader may name it.
    assert [logs[name].read_bytes() for name in "efg"] == [other, LOG_WITHOUT_ROWS, other + own]
    assert open_table(STORAGE, table.base_path).timeline.pending == ()
    (added,) = (each for each in logs["g"].parent.glob(".g_*") if each != logs["g"])
    assert added.name == ".g_20200101000000000.log.8_1-0-1"
    (block,) = parse_log_blocks(added.read_bytes(), "")
    assert isinstance(block, LogBlock)
    assert block.is_rollback
    assert block.header[HeaderKey.TARGET_INSTANT_TIME] == pending.instant_time


def test_a_commit_that_another_commit_overtook_or_removed_is_refused(table: HudiTable) -> None:
    stat = WriteStat(file_id="f", path="dt=2024-03-01/f.parquet", partition_path="dt=2024-03-01")
    metadata = CommitMetadata(partition_to_write_stats={"dt=2024-03-01": (stat,)}, operation_type="UPSERT")
    slow = begin_commit(table, "UPSERT")
    fast = begin_commit(open_table(STORAGE, table.base_path), "UPSERT")
    complete_commit(fast, metadata)
    with pytest.raises(WriteConflictError, match="rolled back"):
        complete_commit(slow, EMPTY)
    with pytest.raises(WriteConflictError, match=fast.instant_time):
        begin_commit(table, "UPSERT")


def _stat(partition: str, file_id: str) -> CommitMetadata:
    stat = WriteStat(file_id=file_id, path=f"{partition}/{file_id}.parquet", partition_path=partition)
    return CommitMetadata(partition_to_write_stats={partition: (stat,)}, operation_type="UPSERT")


def _shared(table: HudiTable, **more: Any) -> Concurrency:
    lock = FileSystemLock(STORAGE, f"{table.base_path}/.hoodie")
    lock_retry_policy = LockRetryPolicy(retries=2, wait_ms=20)
    return Concurrency(True, FailedWrites.LAZY, lock, lock_retry_policy, **more)


def _begin(table: HudiTable, **more: Any) -> OpenCommit:
    return begin_commit(table, "UPSERT", concurrency=_shared(table), **more)


def test_commits_under_a_lock_stand_beside_each_other_if_they_touch_other_file_groups(
    table: HudiTable,
) -> None:
    slow = _begin(table)
    fast = _begin(table, changed=[("dt=1", "f")])
    assert slow.instant_time < fast.instant_time
    complete_commit(fast, _stat("dt=1", "f"))
    complete_commit(slow, _stat("dt=1", "g"))
    timeline = open_table(STORAGE, table.base_path).timeline
    assert {fast.instant, slow.instant}.isdisjoint(timeline.pending)
    assert {each.timestamp for each in timeline.commits} >= {slow.instant_time, fast.instant_time}
    hidden = Path(table.base_path, ".hoodie")
    assert not (hidden / "lock").exists()
    assert list((hidden / ".heartbeat").iterdir()) == []


@pytest.mark.parametrize("replaces", [False, True])
def test_commits_that_touch_the_same_file_group_conflict_and_the_later_is_rolled_back(
    table: HudiTable, replaces: bool
) -> None:
    metadata = _stat("dt=1", "f")
    if replaces:
        groups = {"dt=1": ("f", "g")}
        metadata = CommitMetadata(partition_to_write_stats={}, partition_to_replace_file_ids=groups)
    slow = _begin(table)
    other = begin_commit(table, "UPSERT", replaces=replaces, concurrency=_shared(table))
    complete_commit(other, metadata)
    with pytest.raises(WriteConflictError, match=f"{other.instant_time}.*dt=1/f") as raised:
        complete_commit(slow, _stat("dt=1", "f"))
    assert "num.retries.on.conflict.failures" in str(raised.value)
    rollback_commit(slow)
    assert _states(table, slow.instant_time) == set()
    # Who has read those rows before is told as soon as it begins; who has not, goes on.
    with pytest.raises(WriteConflictError, match="dt=1/f"):
        _begin(table, changed=[("dt=1", "f")])
    rollback_commit(_begin(table, changed=[("dt=2", "f")]))


def test_a_planned_compaction_that_came_between_is_a_conflict_for_its_file_groups(table: HudiTable) -> None:
    operation = {"fileId": "f", "partitionPath": "dt=1", "baseInstantTime": "1"}
    content = load_codec("HoodieCompactionPlan").encode({"operations": [operation], "version": 2})
    commits = [_begin(table), _begin(table)]
    Path(table.base_path, ".hoodie", "20400101000000000.compaction.requested").write_bytes(content)
    with pytest.raises(WriteConflictError, match=r"planned compaction 20400101000000000.*dt=1/f"):
        complete_commit(commits[0], _stat("dt=1", "f"))
    complete_commit(commits[1], _stat("dt=1", "g"))


def test_a_commit_never_takes_back_a_schema_that_came_between(table: HudiTable) -> None:
    wider = pa.schema([*table.schema, pa.field("more", pa.int32())])
    slow, alters = _begin(table), _begin(table)
    text = avro_from_arrow(wider, table.name)
    altered = CommitMetadata(partition_to_write_stats={}, extra_metadata={"schema": text})
    complete_commit(alters, altered)
    with pytest.raises(WriteConflictError, match="changed the schema"):
        complete_commit(slow, _stat("dt=1", "f"))
    open_rollbacks = _begin(open_table(STORAGE, table.base_path))
    alters = _begin(open_rollbacks.table)
    complete_commit(open_rollbacks, _stat("dt=1", "f"))
    with pytest.raises(WriteConflictError, match="schema was being changed"):
        complete_commit(alters, replace(altered, extra_metadata={"schema": _schema_of(table)}))


def _schema_of(table: HudiTable) -> str:
    return avro_from_arrow(table.schema, table.name)


def test_a_commit_that_was_read_and_then_rolled_back_is_a_conflict(table: HudiTable) -> None:
    complete_commit(_begin(table), _stat("dt=1", "f"))
    table = open_table(STORAGE, table.base_path)
    commit = _begin(table)
    last = table.timeline.commits[-1]
    Path(table.instant_path(last)).unlink()
    with pytest.raises(WriteConflictError, match=f"rolled back the commit {last.timestamp}"):
        complete_commit(commit, _stat("dt=1", "g"))


def test_nothing_is_begun_or_completed_without_the_lock(table: HudiTable) -> None:
    lock = Path(table.base_path, ".hoodie", "lock")
    commit = _begin(table)
    _marked_file(table, commit.instant_time, "a.parquet", MarkerKind.CREATE)
    lock.touch()
    for call in (lambda: _begin(table), lambda: complete_commit(commit, EMPTY)):
        with pytest.raises(TableLockedError, match=str(lock)):
            call()
    # The loser cannot take its files back now: the next writer does, as it finds no heartbeat.
    rollback_commit(commit)
    assert len(_states(table, commit.instant_time)) == 2
    lock.unlink()
    _begin(table)
    assert _states(table, commit.instant_time) == set()
    assert not Path(table.base_path, "dt=2024-03-01", "a.parquet").exists()


def test_a_lock_that_others_take_away_stops_the_commit(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = _begin(table)
    with monkeypatch.context() as patched:
        patched.setattr(FileSystemLock, "is_held", lambda _: False)
        with pytest.raises(WriteConflictError, match="was removed while"):
            complete_commit(commit, EMPTY)
    assert f"{commit.instant_time}.commit" not in _states(table, commit.instant_time)


def test_a_commit_that_could_not_begin_gives_no_heartbeat(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = Storage.create

    def fail(self: Storage, path: str, content: bytes) -> None:
        if path.endswith(".inflight"):
            raise StorageError("the store is gone")
        create(self, path, content)

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "create", fail)
        with pytest.raises(StorageError, match="is gone"):
            _begin(table)
    assert list(Path(table.base_path, ".hoodie", ".heartbeat").iterdir()) == []
    _begin(table)
    assert len(open_table(STORAGE, table.base_path).timeline.pending) == 1


def test_heartbeats_go_on_while_a_commit_is_open(table: HudiTable) -> None:
    # Beats follow each other quickly, and a writer counts as gone after minutes without one.
    concurrency = _shared(table, heartbeat_interval_ms=20, tolerable_misses=15_000)
    commit = begin_commit(table, "UPSERT", concurrency=concurrency)
    assert commit.heartbeat is not None
    beat = Path(commit.heartbeat.path)
    for _ in range(2):
        os.utime(beat, (time.time() - 600, time.time() - 600))
        while not is_alive(STORAGE, table.base_path, commit.instant_time, 300_000):
            time.sleep(0.005)
    other = begin_commit(table, "UPSERT", concurrency=concurrency)
    assert commit.instant in other.table.timeline.pending
    commit.heartbeat.stop()
    commit.heartbeat.tolerance_ms = -1
    with pytest.raises(WriteConflictError, match="heartbeat of this writer expired"):
        complete_commit(commit, EMPTY)
    third = begin_commit(table, "UPSERT", concurrency=concurrency)
    assert _states(table, commit.instant_time) == set()
    assert other.instant in open_table(STORAGE, table.base_path).timeline.pending
    for each in (other, third):
        rollback_commit(each)


def _alone(table: HudiTable) -> Concurrency:
    """What a table without settings gives."""
    return Concurrency(lock=default_lock(STORAGE, table.base_path))


def test_without_settings_a_commit_that_is_being_written_is_not_rolled_back(table: HudiTable) -> None:
    commit = begin_commit(table, "UPSERT", concurrency=_alone(table))
    for opened in (table, open_table(STORAGE, table.base_path)):
        with pytest.raises(WriteConflictError, match=f"another writer is active.*{commit.instant_time}"):
            begin_commit(opened, "UPSERT", concurrency=_alone(table))
    complete_commit(commit, EMPTY)
    assert list(Path(table.base_path, ".hoodie", ".heartbeat").iterdir()) == []
    begin_commit(table.reopened(), "UPSERT", concurrency=_alone(table))


@pytest.mark.parametrize("change", [{"start": "1"}, {"process": 2**22 + 1}])
def test_without_settings_the_commit_of_a_process_that_has_ended_is_rolled_back_at_once(
    table: HudiTable, change: dict[str, Any]
) -> None:
    commit = begin_commit(table, "UPSERT", concurrency=_alone(table))
    assert commit.heartbeat is not None
    commit.heartbeat.stop(keeps_file=True)
    writer = replace(this_process(), **change)
    Path(commit.heartbeat.path).write_text(json.dumps(writer.to_json()))
    # With optimistic writers it may be one of Apache Hudi, whose heartbeat is all there is.
    discard_empty_commit(_begin(table))
    assert _states(table, commit.instant_time) != set()
    begin_commit(table.reopened(), "UPSERT", concurrency=SINGLE_WRITER)
    assert _states(table, commit.instant_time) == set()


def test_a_commit_of_this_process_is_live_by_whatever_path_the_table_is_opened(
    table: HudiTable, tmp_path: Path
) -> None:
    commit = begin_commit(table, "UPSERT", concurrency=_alone(table))
    (tmp_path / "link").symlink_to(table.base_path)
    other = open_table(STORAGE, str(tmp_path / "link"))
    assert other.base_path != table.base_path
    with pytest.raises(WriteConflictError, match=f"another writer is active.*{commit.instant_time}"):
        begin_commit(other, "UPSERT", concurrency=_alone(other))
    complete_commit(commit, EMPTY)


def test_a_heartbeat_that_its_process_has_stopped_counts_no_more(table: HudiTable) -> None:
    commit = begin_commit(table, "UPSERT", concurrency=_alone(table))
    assert commit.heartbeat is not None
    commit.heartbeat.stop(keeps_file=True)
    begin_commit(table.reopened(), "UPSERT", concurrency=_alone(table))
    assert _states(table, commit.instant_time) == set()


def test_failed_writes_are_left_if_that_is_the_policy(table: HudiTable) -> None:
    pending = begin_commit(table, "UPSERT")
    begin_commit(table, "UPSERT", concurrency=Concurrency(failed_writes=FailedWrites.NEVER))
    assert pending.instant in open_table(STORAGE, table.base_path).timeline.pending


def test_file_groups_that_are_to_be_clustered_are_neither_changed_nor_replaced(table: HudiTable) -> None:
    group = {"slices": [{"fileId": "f", "partitionPath": "dt=1"}, {"fileId": "g", "partitionPath": "dt=1"}]}
    plan = {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": [group]}}
    content = load_codec("HoodieRequestedReplaceMetadata").encode(plan)
    Path(table.base_path, ".hoodie", "20300101000000000.replacecommit.requested").write_bytes(content)
    table = open_table(STORAGE, table.base_path)
    with pytest.raises(UnsupportedTableError, match=r"clustering \(20300101000000000\).*: dt=1/f\n"):
        begin_commit(table, "UPSERT", changed=[("dt=1", "f"), ("dt=2", "f")])
    commit = begin_commit(table, "INSERT_OVERWRITE", replaces=True)
    replaced = CommitMetadata(
        partition_to_write_stats={}, partition_to_replace_file_ids={"dt=1": ("g",), "dt=2": ("f",)}
    )
    with pytest.raises(UnsupportedTableError, match="dt=1/g"):
        complete_commit(commit, replaced)
    complete_commit(commit, replace(replaced, partition_to_replace_file_ids={"dt=2": ("f",)}))
    # An overwrite that is pending is no clustering: it is rolled back like any commit.
    pending = begin_commit(open_table(STORAGE, table.base_path), "INSERT_OVERWRITE", replaces=True)
    begin_commit(open_table(STORAGE, table.base_path), "UPSERT")
    assert _states(table, pending.instant_time) == set()


def test_a_compaction_that_was_planned_may_be_done_meanwhile(table: HudiTable) -> None:
    operation = {"fileId": "f", "partitionPath": "dt=1", "baseInstantTime": "1"}
    content = load_codec("HoodieCompactionPlan").encode({"operations": [operation], "version": 2})
    requested = Path(table.base_path, ".hoodie", "20300101000000000.compaction.requested")
    requested.write_bytes(content)
    table = open_table(STORAGE, table.base_path)
    slices = [
        FileSlice("dt=1", "f", "20200101000000000", None),
        FileSlice("dt=1", "f", "20310101000000000", None),
        FileSlice("dt=2", "f", "20200101000000000", None),
    ]
    bases = [each.log_base_instant for each in exclude_pending_clustering(table, slices)]
    assert bases == ["20300101000000000", "20310101000000000", "20200101000000000"]
    lazy = Concurrency(failed_writes=FailedWrites.LAZY)
    commit, other = begin_commit(table, "UPSERT", concurrency=lazy), _begin(table)
    assert commit.instant_time > "20300101000000000"
    compacted = replace(_stat("dt=1", "f"), operation_type="COMPACT")
    requested.with_name("20300101000000000.commit").write_bytes(compacted.to_json())
    complete_commit(commit, _stat("dt=1", "f"))
    with pytest.raises(WriteConflictError, match=commit.instant_time):
        complete_commit(other, _stat("dt=1", "f"))
    complete_commit(other, _stat("dt=2", "f"))


def test_tables_that_others_alone_can_write_are_refused_by_name(table: HudiTable) -> None:
    properties = Path(table.base_path, ".hoodie", "hoodie.properties")
    text = properties.read_text()
    for line, said in (
        ("hoodie.table.cdc.enabled=true", "is bootstrapped and logs changes"),
        ("hoodie.table.cdc.enabled=true\nhoodie.table.cdc.supplemental.logging.mode=no", "no is unknown"),
        ("hoodie.populate.meta.fields=false", "no meta columns .*, and it is bootstrapped"),
        ("hoodie.compaction.payload.class=org.example.Own", "org.example.Own"),
    ):
        properties.write_text(f"{text}\n{line}\n")
        with pytest.raises(UnsupportedTableError, match=said):
            begin_commit(open_table(STORAGE, table.base_path), "UPSERT")
