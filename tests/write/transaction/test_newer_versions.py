"""The commit protocol on a table of version 9: completion times in names, Avro contents, and the gate."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import UnsupportedTableError, WriteConflictError
from hudisql.format.avro_container import CONTAINER_MAGIC, load_codec
from hudisql.format.commit_metadata import (
    CommitMetadata,
    LogWriteStat,
    WriteStat,
    parse_commit_metadata,
    read_commit_metadata,
)
from hudisql.format.commit_metadata_avro import render_commit_metadata
from hudisql.format.instant import ROLLBACK
from hudisql.format.table_properties import COPY_ON_WRITE
from hudisql.storage import Storage
from hudisql.table import written_versions
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.table_configuration import update_table_properties
from hudisql.write.transaction.commit import (
    begin_commit,
    check_writable,
    complete_commit,
    rollback_commit,
)
from hudisql.write.transaction.concurrency import Concurrency, FailedWrites
from hudisql.write.transaction.lock import FileSystemLock, LockRetryPolicy
from hudisql.write.transaction.markers import Marker, MarkerKind, create_marker, list_markers

STORAGE = Storage()
STAT = WriteStat(file_id="f-0", path="dt=1/f-0_0-1-0_1.parquet", partition_path="dt=1", num_writes=3)
EMPTY = CommitMetadata(partition_to_write_stats={}, operation_type="UPSERT")


@pytest.fixture
def table(golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HudiTable:
    monkeypatch.setattr(written_versions, "_TESTED", {COPY_ON_WRITE: written_versions.COMMITS})
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
    completed = complete_commit(commit, replace(EMPTY, partition_to_write_stats={"dt=1": (STAT,)}))
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
    with pytest.raises(UnsupportedTableError, match=f"{commit.instant_time}.*table version 8"):
        complete_commit(commit, EMPTY)
    rollback_commit(commit)
    assert _names(table, commit.instant_time) == []


@pytest.mark.parametrize("operation", ["INSERT_OVERWRITE", "DELETE_PARTITION", "ALTER_SCHEMA"])
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
        ({"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}, "IGNORE_DEFAULTS"),
        ({"hoodie.table.ordering.fields": "seq,id"}, "several columns"),
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
