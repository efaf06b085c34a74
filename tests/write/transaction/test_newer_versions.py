"""The commit protocol on a table of version 9: completion times in names, Avro contents, and the gate."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudisql.errors import UnsupportedTableError, WriteConflictError
from hudisql.format.avro.avro_container import CONTAINER_MAGIC, load_codec
from hudisql.format.paths.file_names import log_file_name
from hudisql.format.timeline.commit_metadata import (
    CommitMetadata,
    LogWriteStat,
    WriteStat,
    parse_commit_metadata,
    read_commit_metadata,
)
from hudisql.format.timeline.commit_metadata_avro import render_commit_metadata
from hudisql.format.timeline.instant import ROLLBACK
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.properties.table_configuration import update_table_properties
from hudisql.write.changes import FILE_GROUP, OPERATION, PARTITION, RECORD_KEY, RowOperation, change_schema
from hudisql.write.execution.commit_files import WriteResult, commit_files
from hudisql.write.execution.driver_apply import profile_few_changes, write_few_changes
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.keygen.partition_paths import PartitionPaths
from hudisql.write.transaction.commit import begin_commit, complete_commit, rollback_commit
from hudisql.write.transaction.concurrency import Concurrency, FailedWrites
from hudisql.write.transaction.failed_writes import roll_back_failed_writes
from hudisql.write.transaction.lock import FileSystemLock, LockRetryPolicy
from hudisql.write.transaction.markers import Marker, MarkerKind, create_marker, list_markers
from hudisql.write.transaction.writable_tables import check_writable
from tests.oracle.comparison import our_rows

STORAGE = Storage()
STAT = WriteStat(file_id="f-0", path="dt=1/f-0_0-1-0_1.parquet", partition_path="dt=1", num_writes=3)
EMPTY = CommitMetadata(partition_to_write_stats={}, operation_type="UPSERT")


@pytest.fixture
def table(golden: Callable[[str], Any], tmp_path: Path) -> HudiTable:
    shutil.copytree(golden("v9_cow_upsert_delete").table, tmp_path / "table")
    return open_table(STORAGE, str(tmp_path / "table"))


def _names(table: HudiTable, instant_time: str) -> list[str]:
    directory = Path(table.base_path, ".hoodie", "timeline")
    return sorted(path.name for path in directory.iterdir() if path.name.startswith(instant_time))


def _marked_file(table: HudiTable, instant_time: str) -> Path:
    create_marker(
        STORAGE, table.base_path, instant_time, Marker("dt=2024-03-01", "a.parquet", MarkerKind.CREATE)
    )
    path = Path(table.base_path, "dt=2024-03-01", "a.parquet")
    path.write_bytes(b"data")
    return path


def test_a_commit_completes_by_a_time_after_all_others(table: HudiTable) -> None:
    commit = begin_commit(table, "UPSERT")
    requested = commit.instant_time
    assert requested > max(each.completion_time for each in table.timeline.completed)
    assert _names(table, requested) == [f"{requested}.commit.requested", f"{requested}.inflight"]
    stray = _marked_file(table, requested)
    committed = complete_commit(commit, replace(EMPTY, partition_to_write_stats={"dt=1": (STAT,)}))
    assert committed is not None
    completed = committed.timeline.instants[-1]
    assert completed.completion_time > requested
    assert f"{requested}_{completed.completion_time}.commit" in _names(table, requested)
    path = table.instant_path(completed)
    assert Path(path).read_bytes().startswith(CONTAINER_MAGIC)
    assert read_commit_metadata(STORAGE, path).partition_to_write_stats == {"dt=1": (STAT,)}
    assert not stray.exists()
    assert list_markers(STORAGE, table.base_path, requested) == []
    rollback_commit(commit)
    assert table.reopened().timeline.instants[-1] == completed
    assert begin_commit(table.reopened(), "UPSERT").instant_time > completed.completion_time


def test_a_completion_under_a_lock_waits_for_clocks_that_are_behind(table: HudiTable) -> None:
    lock = FileSystemLock(STORAGE, f"{table.base_path}/.hoodie")
    shared = Concurrency(True, FailedWrites.LAZY, lock, LockRetryPolicy(retries=2, wait_ms=10))
    commit = begin_commit(table, "UPSERT", concurrency=shared)
    started = time.monotonic()
    complete_commit(commit, EMPTY)
    assert time.monotonic() - started >= 0.2


def test_the_next_writer_rolls_a_failed_commit_back(table: HudiTable) -> None:
    failed = begin_commit(table, "UPSERT")
    written = _marked_file(table, failed.instant_time)
    following = begin_commit(table, "UPSERT")
    assert not written.exists()
    assert _names(table, failed.instant_time) == []
    (rollback,) = [each for each in following.table.timeline.completed if each.action == ROLLBACK]
    assert failed.instant_time < rollback.timestamp < rollback.completion_time < following.instant_time
    content = load_codec("HoodieRollbackMetadata").decode(STORAGE.read(table.instant_path(rollback)))
    assert content["commitsRollback"] == [failed.instant_time]
    with pytest.raises(WriteConflictError, match="rolled back"):
        complete_commit(failed, EMPTY)


def test_a_commit_on_a_table_of_another_version_by_now_is_refused(table: HudiTable) -> None:
    commit = begin_commit(table, "UPSERT")
    update_table_properties(STORAGE, table.base_path, {"hoodie.table.version": "8"})
    with pytest.raises(WriteConflictError, match=f"{commit.instant_time}.*has table version 8 now"):
        complete_commit(commit, EMPTY)
    rollback_commit(commit)
    assert _names(table, commit.instant_time) == []


@pytest.mark.parametrize("operation", ["CLUSTER", "LOG_COMPACT"])
def test_what_is_not_tested_in_the_version_is_refused_by_name(table: HudiTable, operation: str) -> None:
    with pytest.raises(
        UnsupportedTableError, match=f"version 9, in which hudisql does not write {operation}"
    ):
        begin_commit(table, operation)
    assert table.reopened().timeline == table.timeline


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hoodie.record.merge.mode": "CUSTOM"}, "CUSTOM"),
        ({"hoodie.table.partial.update.mode": "FILL_DEFAULTS"}, "FILL_DEFAULTS"),
    ],
)
def test_rules_that_writes_do_not_follow_are_refused(
    table: HudiTable, changes: dict[str, str], named: str
) -> None:
    update_table_properties(STORAGE, table.base_path, changes)
    with pytest.raises(UnsupportedTableError, match=named):
        check_writable(open_table(STORAGE, table.base_path), "UPSERT")


def test_avro_metadata_of_commits_is_read_as_written() -> None:
    log = LogWriteStat(log_version=1, log_offset=0, base_file="", log_files=(".f.log.1_0-1-0",))
    metadata = CommitMetadata(
        partition_to_write_stats={"dt=1": (STAT, replace(STAT, log_write=log, runtime_stats=None))},
        extra_metadata={"schema": "{}", "empty": ""},
        operation_type="INSERT_OVERWRITE",
        partition_to_replace_file_ids={"dt=1": ("f-1",)},
    )
    assert parse_commit_metadata(render_commit_metadata(metadata)) == metadata
    absent = replace(metadata, extra_metadata={**metadata.extra_metadata, "absent": None})
    assert parse_commit_metadata(render_commit_metadata(absent)) == metadata


@pytest.fixture
def merge_on_read(golden: Callable[[str], Any], tmp_path: Path) -> HudiTable:
    shutil.copytree(golden("v9_mor_commit_time").table, tmp_path / "table")
    return open_table(STORAGE, str(tmp_path / "table"))


def _delete(table: HudiTable, file_slice: FileSlice, keys: list[str]) -> WriteResult:
    """Delete keys of one slice, by one process."""
    rows = [dict.fromkeys(change_schema(table.schema).names) for _ in keys]
    for row, key in zip(rows, keys, strict=True):
        row |= {OPERATION: int(RowOperation.DELETE), PARTITION: file_slice.partition_path}
        row |= {FILE_GROUP: file_slice.file_id, RECORD_KEY: key}
    changes = pa.Table.from_pylist(rows, change_schema(table.schema))
    options, paths = WriteOptions(), PartitionPaths(table)
    few = profile_few_changes(table, changes, table.schema, options, paths)
    return commit_files(
        table,
        "DELETE",
        table.schema,
        lambda commit: write_few_changes(commit, few, table.schema, options, paths, DEFAULT_CALENDARS),
        changed=few.changed,
    )


def test_deletes_go_to_a_log_file_of_the_commit_itself(merge_on_read: HudiTable) -> None:
    table = merge_on_read
    before = our_rows(table)
    file_slice = load_file_slices(table)[0]
    keys = before.filter(pc.equal(before["_hoodie_partition_path"], file_slice.partition_path))
    key = keys["_hoodie_record_key"][0].as_py()
    result = _delete(table, file_slice, [key])
    assert (result.deleted, result.files) == (1, 1)
    now = table.reopened()
    commit = now.timeline.commits[-1]
    (stat,) = read_commit_metadata(STORAGE, now.instant_path(commit)).write_stats
    assert stat.path is not None
    assert stat.log_write is not None
    name = stat.path.rpartition("/")[2]
    assert name.startswith(f".{file_slice.file_id}_{commit.timestamp}.log.1_")
    assert (stat.prev_commit, stat.log_write.base_file) == (commit.timestamp, "")
    assert stat.log_write.log_files == (name,)
    assert sorted(our_rows(now)["_hoodie_record_key"].to_pylist()) == sorted(
        each for each in before["_hoodie_record_key"].to_pylist() if each != key
    )


def test_a_failed_delta_commit_leaves_no_log_file(merge_on_read: HudiTable) -> None:
    table = merge_on_read
    before = our_rows(table)
    failed = begin_commit(table, "DELETE")
    file_slice = load_file_slices(table)[0]
    name = log_file_name(file_slice.file_id, failed.instant_time, 1, "0-1-0")
    marker = Marker(file_slice.partition_path, name, MarkerKind.CREATE)
    create_marker(STORAGE, table.base_path, failed.instant_time, marker)
    written = Path(table.base_path, file_slice.partition_path, name)
    written.write_bytes(b"cut off")
    assert our_rows(table.reopened()).equals(before)
    roll_back_failed_writes(table.reopened())
    assert not written.exists()
    (rollback,) = [each for each in table.reopened().timeline.completed if each.action == ROLLBACK][-1:]
    content = load_codec("HoodieRollbackMetadata").decode(STORAGE.read(table.instant_path(rollback)))
    (partition,) = content["partitionMetadata"].values()
    assert [each.rpartition("/")[2] for each in partition["successDeleteFiles"]] == [name]
    assert partition["rollbackLogFiles"] == {}
