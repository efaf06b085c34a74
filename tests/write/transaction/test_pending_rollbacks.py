"""Rollbacks and restores that another writer has not ended: which are ended, left alone, refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import UnsupportedTableError, WriteConflictError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.commit_metadata import CommitMetadata, read_commit_metadata
from hudisql.format.timeline.instant import Instant, InstantState
from hudisql.storage import Storage, join
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.transaction.commit import begin_commit, complete_commit, rollback_commit
from hudisql.write.transaction.timeline_payloads import RollbackFiles, render_rollback_plan
from tests.oracle.comparison import our_rows

STORAGE = Storage()
EMPTY = CommitMetadata(partition_to_write_stats={}, operation_type="UPSERT")
ROLLBACK_TIME = "20980101000000000"

Copy = Callable[[str], HudiTable]


@pytest.fixture
def copy(golden: Callable[[str], Any], tmp_path: Path) -> Copy:
    def make(name: str) -> HudiTable:
        shutil.copytree(golden(name).table, tmp_path / "table")
        return open_table(STORAGE, str(tmp_path / "table"))

    return make


@pytest.fixture
def table(copy: Copy) -> HudiTable:
    return copy("cow_bootstrap_then_upsert_delete")


def _again(table: HudiTable) -> HudiTable:
    return open_table(STORAGE, table.base_path)


def _begin_rollback(table: HudiTable, plan: bytes) -> None:
    rollback = Instant(ROLLBACK_TIME, "rollback", InstantState.REQUESTED)
    STORAGE.create(table.instant_path(rollback), plan)
    STORAGE.create(table.instant_path(rollback.in_state(InstantState.INFLIGHT)), b"")


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.sort_by("_hoodie_record_key")


def _files_of(table: HudiTable, commit: Instant) -> dict[str, RollbackFiles]:
    metadata = read_commit_metadata(STORAGE, table.instant_path(commit))
    return {
        partition: RollbackFiles([join(table.base_path, str(stat.path)) for stat in stats])
        for partition, stats in metadata.partition_to_write_stats.items()
    }


def test_the_rollback_of_a_compaction_is_left_to_who_runs_the_compaction(copy: Copy) -> None:
    table = copy("mor_compaction_scheduled")
    (planned,) = [each for each in table.timeline.pending if each.action == "compaction"]
    before = _sorted(our_rows(table))
    inflight = planned.in_state(InstantState.INFLIGHT)
    STORAGE.create(table.instant_path(inflight), b"")
    _begin_rollback(table, render_rollback_plan(inflight, {}))
    rollback_commit(begin_commit(_again(table), "UPSERT"))
    pending = {(each.timestamp, each.action) for each in _again(table).timeline.pending}
    assert pending == {(planned.timestamp, "compaction"), (ROLLBACK_TIME, "rollback")}
    assert _sorted(our_rows(_again(table))).equals(before)


def test_the_rollback_of_the_latest_commit_is_completed_and_conflicts_with_who_has_read_it(
    table: HudiTable,
) -> None:
    commit = table.timeline.commits[-1]
    files = _files_of(table, commit)
    _begin_rollback(table, render_rollback_plan(commit, files))
    with pytest.raises(WriteConflictError, match=f"rolled back the commit {commit.timestamp}"):
        begin_commit(_again(table), "UPSERT")
    timeline = _again(table).timeline
    assert timeline.pending == ()
    assert commit.timestamp not in {each.timestamp for each in timeline.instants}
    assert not any(Path(path).exists() for failed in files.values() for path in failed.deleted)


def test_a_rollback_that_apache_hudi_has_refused_is_not_completed(table: HudiTable) -> None:
    commit = table.timeline.commits[-2]
    files = _files_of(table, commit)
    _begin_rollback(table, render_rollback_plan(commit, files))
    with pytest.raises(
        UnsupportedTableError, match=f"{ROLLBACK_TIME}.*{commit.timestamp}.*still stands"
    ) as e:
        begin_commit(_again(table), "UPSERT")
    assert f"delete {table.base_path}/.hoodie/{ROLLBACK_TIME}.rollback.inflight" in str(e.value)
    assert commit in _again(table).timeline.commits
    assert all(Path(path).exists() for failed in files.values() for path in failed.deleted)


def test_files_that_only_the_plan_of_an_interrupted_rollback_names_are_deleted(table: HudiTable) -> None:
    commit = table.timeline.commits[-1]
    files = _files_of(table, commit)
    _begin_rollback(table, render_rollback_plan(commit, files))
    # Apache Hudi first makes a complete commit inflight again; its markers are gone for long.
    Path(table.instant_path(commit)).unlink()
    rollback_commit(begin_commit(_again(table), "UPSERT"))
    timeline = _again(table).timeline
    assert timeline.pending == ()
    assert commit.timestamp not in {each.timestamp for each in timeline.instants}
    assert ROLLBACK_TIME in {each.timestamp for each in timeline.completed}
    paths = [path for failed in files.values() for path in failed.deleted]
    assert paths
    assert [path for path in paths if Path(path).exists()] == []


def test_a_rollback_that_does_not_place_the_log_blocks_is_not_ours_to_end(table: HudiTable) -> None:
    failed = begin_commit(table, "UPSERT").instant
    codec = load_codec("HoodieRollbackPlan")
    plan = codec.decode(render_rollback_plan(failed, {"": RollbackFiles(["f.parquet"])}), "")
    plan["RollbackRequests"][0] |= {"fileId": "f", "filesToBeDeleted": []}
    _begin_rollback(table, codec.encode(plan))
    with pytest.raises(UnsupportedTableError, match="not in the rollback's plan"):
        begin_commit(_again(table), "UPSERT")


def test_nothing_is_written_while_a_restore_is_not_done(table: HudiTable) -> None:
    commit = begin_commit(table, "UPSERT")
    restore = Instant("20990101000000000", "restore", InstantState.INFLIGHT)
    STORAGE.create(table.instant_path(restore), b"")
    for write in (lambda: complete_commit(commit, EMPTY), lambda: begin_commit(_again(table), "UPSERT")):
        with pytest.raises(UnsupportedTableError, match="being restored"):
            write()
