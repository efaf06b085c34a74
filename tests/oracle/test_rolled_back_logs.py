"""Commits of ours that are rolled back while Apache Hudi has their log files in a plan."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.format.paths.file_names import log_file_name
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import open_table
from hudisql.write.handle.base_file import base_file_avro_schema
from hudisql.write.handle.log_file import delete_block, next_log_version, write_log_file
from hudisql.write.transaction.commit import OpenCommit, begin_commit, rollback_commit
from hudisql.write.transaction.concurrency import FILE_SYSTEM_PROVIDER, Concurrency, FailedWrites
from hudisql.write.transaction.lock import FileSystemLock, LockRetryPolicy
from hudisql.write.transaction.markers import Marker, MarkerKind, create_marker
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import our_rows
from tests.oracle.shapes import SHAPES, noted_rows

pytestmark = pytest.mark.oracle

SHAPE = next(shape for shape in SHAPES if shape.table_type == "MERGE_ON_READ")
STORAGE = Storage()
SHARED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": FILE_SYSTEM_PROVIDER,
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
}
OPTIONS = SHAPE.write_options() | {"hoodie.table.name": "rolled_back_logs"} | SHARED
PARTITION = "dt=2024-03-01"
EAGER_COMPACTION = {"hoodie.compact.inline.max.delta.commits": "1"}
FIRST = dict.fromkeys(range(30), "second") | dict.fromkeys(range(30, 60), "first")


@pytest.fixture
def path(oracle_015: HudiOracle, tmp_path: Path) -> str:
    """A merge-on-read table of Apache Hudi, with log files in each partition."""
    directory = str(tmp_path / "table")
    oracle_015.upsert(noted_rows(SHAPE, 0, 60, "first"), directory, OPTIONS)
    oracle_015.upsert(noted_rows(SHAPE, 0, 30, "second"), directory, OPTIONS)
    return directory


def _notes(oracle: HudiOracle, path: str) -> dict[int, str]:
    rows = oracle.read(path, columns=["seq", "note"])
    return dict(zip(rows["seq"].to_pylist(), rows["note"].to_pylist(), strict=True))


def _file_slice(path: str) -> FileSlice:
    (found,) = [
        each for each in load_file_slices(open_table(STORAGE, path)) if each.partition_path == PARTITION
    ]
    return found


def _delete_all_but_do_not_commit(path: str) -> tuple[OpenCommit, Path]:
    """An inflight commit whose log file deletes every row of the partition."""
    lock = FileSystemLock(STORAGE, f"{path}/.hoodie")
    commit = begin_commit(
        open_table(STORAGE, path),
        "DELETE",
        concurrency=Concurrency(True, FailedWrites.LAZY, lock, LockRetryPolicy(retries=9, wait_ms=100)),
    )
    found = _file_slice(path)
    version = next_log_version(found, found.base_instant_time)
    place = (found.file_id, found.base_instant_time, version, "0-165000001-7")
    marker = Marker(PARTITION, log_file_name(*place), MarkerKind.APPEND)
    create_marker(STORAGE, path, commit.instant_time, marker)
    keys = pa.array([SHAPE.record_key_of(number) for number in range(60)])
    schema = base_file_avro_schema(commit.table.schema, commit.table.name)
    block = delete_block(keys, PARTITION, schema, commit.instant_time)
    return commit, Path(write_log_file(STORAGE, f"{path}/{PARTITION}", *place, [block]).path)


def _told() -> str:
    return ",".join(f"{key}={value}" for key, value in (SHARED | EAGER_COMPACTION).items())


def test_hudi_015_runs_a_compaction_that_it_planned_with_a_log_file_that_we_then_rolled_back(
    oracle_015: HudiOracle, oracle_120: HudiOracle, path: str
) -> None:
    commit, log_file = _delete_all_but_do_not_commit(path)
    oracle_015.upsert(noted_rows(SHAPE, 30, 40, "third"), path, OPTIONS)
    oracle_015.sql(f"call run_compaction(op=>'schedule', path=>'{path}', options=>'{_told()}')")
    (plan,) = Path(path, ".hoodie").glob("*.compaction.requested")
    assert log_file.name.encode() in plan.read_bytes()
    rollback_commit(commit)
    expected = FIRST | dict.fromkeys(range(30, 40), "third")
    assert _notes(oracle_015, path) == _notes(oracle_120, path) == expected
    oracle_015.sql(f"call run_compaction(op=>'run', path=>'{path}', options=>'{_told()}')")
    assert open_table(STORAGE, path).timeline.pending == ()
    assert _notes(oracle_015, path) == expected


def test_hudi_015_ends_a_rollback_of_ours_that_was_interrupted(oracle_015: HudiOracle, path: str) -> None:
    commit, log_file = _delete_all_but_do_not_commit(path)
    base_file = Path(path, PARTITION, f"f_0-0-0_{commit.instant_time}.parquet")
    create_marker(STORAGE, path, commit.instant_time, Marker(PARTITION, base_file.name, MarkerKind.CREATE))
    base_file.write_bytes(b"half a file")
    before = log_file.read_bytes()
    timeline = Path(path, ".hoodie")
    kept = {each: each.read_bytes() for each in timeline.glob(f"{commit.instant_time}.*")}
    rollback_commit(commit)
    # As if the writer had died right after it had planned its rollback.
    (completed,) = timeline.glob("*.rollback")
    completed.unlink()
    log_file.write_bytes(before)
    base_file.write_bytes(b"half a file")
    for each, content in kept.items():
        each.write_bytes(content)
    old = time.time() - 600
    for each in timeline.glob("*.rollback.*"):
        os.utime(each, (old, old))
    oracle_015.upsert(noted_rows(SHAPE, 30, 40, "third"), path, OPTIONS)
    assert open_table(STORAGE, path).timeline.pending == ()
    assert not base_file.exists()
    assert log_file.read_bytes() == before
    expected = FIRST | dict.fromkeys(range(30, 40), "third")
    assert _notes(oracle_015, path) == expected
    rows = our_rows(open_table(STORAGE, path))
    assert dict(zip(rows["seq"].to_pylist(), rows["note"].to_pylist(), strict=True)) == expected
