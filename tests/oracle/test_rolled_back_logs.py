"""Commits of ours that are rolled back while Apache Hudi has their log files in a plan."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.format.paths.file_names import log_file_name
from hudisql.services.rollback.rollback_action import roll_back_commit
from hudisql.services.version.version_change import plan_version_change, run_version_change
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import open_table
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.handle.base_file import base_file_avro_schema
from hudisql.write.handle.log_file import delete_block, next_log_version, write_log_file
from hudisql.write.transaction.commit import OpenCommit, begin_commit, rollback_commit
from hudisql.write.transaction.concurrency import FILE_SYSTEM_PROVIDER, Concurrency, FailedWrites
from hudisql.write.transaction.lock import FileSystemLock, LockRetryPolicy
from hudisql.write.transaction.markers import Marker, MarkerKind, create_marker
from tests.oracle.client import BY_METADATA, HudiOracle
from tests.oracle.comparison import our_rows
from tests.oracle.shapes import SHAPES, noted_rows
from tests.soak import parameters

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


def _our_notes(path: str) -> dict[int, str]:
    rows = our_rows(open_table(STORAGE, path))
    return dict(zip(rows["seq"].to_pylist(), rows["note"].to_pylist(), strict=True))


def _file_slice(path: str) -> FileSlice:
    (found,) = [
        each for each in load_file_slices(open_table(STORAGE, path)) if each.partition_path == PARTITION
    ]
    return found


def _delete_all_but_do_not_commit(path: str, token: str | None = None) -> tuple[OpenCommit, Path]:
    """An inflight commit whose log file deletes every row of the partition.

    With a `token` it has the version of the slice's latest log file.
    """
    lock = FileSystemLock(STORAGE, f"{path}/.hoodie")
    commit = begin_commit(
        open_table(STORAGE, path),
        "DELETE",
        concurrency=Concurrency(True, FailedWrites.LAZY, lock, LockRetryPolicy(retries=9, wait_ms=100)),
    )
    found = _file_slice(path)
    version = next_log_version(found, found.base_instant_time) - (token is not None)
    place = (found.file_id, found.base_instant_time, version, token or "0-165000001-7")
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


def test_a_log_file_that_we_rolled_back_hides_no_rows_of_an_earlier_commit_behind_it(
    oracle_015: HudiOracle, oracle_120: HudiOracle, path: str
) -> None:
    commit, log_file = _delete_all_but_do_not_commit(path, token="0-0-0")
    rollback_commit(commit)
    # Hudi merges the files of one version in the order of their tokens.
    logs = sorted(Path(each.path).name for each in _file_slice(path).log_files)
    assert len(logs) == 2
    assert logs[0] == log_file.name
    assert _notes(oracle_015, path) == _notes(oracle_120, path) == FIRST
    assert _our_notes(path) == FIRST


@pytest.mark.parametrize("compaction", parameters(["none", "planned", "run"], in_ci=["planned"]))
def test_a_table_with_a_log_file_that_we_rolled_back_is_upgraded(
    oracle_015: HudiOracle, oracle_120: HudiOracle, path: str, compaction: str
) -> None:
    compacting = OPTIONS | {"hoodie.compact.inline": "true"} | EAGER_COMPACTION
    oracle_015.upsert(noted_rows(SHAPE, 0, 60, "third"), path, compacting)
    commit, log_file = _delete_all_but_do_not_commit(path)
    if compaction != "none":
        oracle_015.sql(f"call run_compaction(op=>'schedule', path=>'{path}', options=>'{_told()}')")
        (planned,) = open_table(STORAGE, path).timeline.pending_compactions
    rollback_commit(commit)
    if compaction == "run":
        oracle_015.sql(f"call run_compaction(op=>'run', path=>'{path}', options=>'{_told()}')")
        assert _file_slice(path).base_instant_time == planned
    plan = plan_version_change(open_table(STORAGE, path), 9)
    assert (plan.planned_compactions, plan.compacted_slices) == (int(compaction == "planned"), 0)
    run_version_change(plan, WriteOptions(), lambda: None)
    assert log_file.exists()
    expected = dict.fromkeys(range(60), "third")
    assert _notes(oracle_120, path) == expected
    newer = {"hoodie.metadata.enable": "true", "hoodie.write.table.version": "9"}
    oracle_120.upsert(noted_rows(SHAPE, 30, 40, "fourth"), path, OPTIONS | newer)
    expected |= dict.fromkeys(range(30, 40), "fourth")
    with oracle_120.settings(BY_METADATA):
        assert _notes(oracle_120, path) == expected
    oracle_120.upsert(noted_rows(SHAPE, 40, 50, "fifth"), path, compacting | newer)
    expected |= dict.fromkeys(range(40, 50), "fifth")
    assert _notes(oracle_120, path) == expected
    assert _our_notes(path) == expected


def _roll_back_a_failed_write(path: str, _oracle: HudiOracle) -> Path:
    commit, log_file = _delete_all_but_do_not_commit(path)
    rollback_commit(commit)
    return log_file


def _roll_back_a_completed_write(path: str, oracle: HudiOracle) -> Path:
    known = set(_file_slice(path).log_files)
    oracle.upsert(noted_rows(SHAPE, 0, 60, "undone"), path, OPTIONS)
    (added,) = set(_file_slice(path).log_files) - known
    table = open_table(STORAGE, path)
    roll_back_commit(table, table.timeline.completed[-1].timestamp)
    return Path(added.path)


@pytest.mark.parametrize(
    ("roll_back", "version"),
    parameters(
        product([_roll_back_a_failed_write, _roll_back_a_completed_write], ["0.15.0", "1.2.0"]),
        in_ci=[(_roll_back_a_failed_write, "0.15.0"), (_roll_back_a_completed_write, "1.2.0")],
    ),
)
def test_hudi_makes_its_metadata_table_beside_a_log_file_that_we_rolled_back(
    oracle_015: HudiOracle,
    oracle_120: HudiOracle,
    path: str,
    roll_back: Callable[[str, HudiOracle], Path],
    version: str,
) -> None:
    oracle = oracle_015 if version == "0.15.0" else oracle_120
    log_file = roll_back(path, oracle)
    assert log_file.exists()
    assert not next(each for each in _file_slice(path).log_files if each.path == str(log_file)).holds_rows
    with_metadata = OPTIONS | {"hoodie.metadata.enable": "true"}
    oracle.upsert(noted_rows(SHAPE, 30, 40, "third"), path, with_metadata)
    assert Path(path, ".hoodie/metadata/files").is_dir()
    expected = FIRST | dict.fromkeys(range(30, 40), "third")
    with oracle.settings(BY_METADATA):
        assert _notes(oracle, path) == expected
    assert _notes(oracle_015, path) == _notes(oracle_120, path) == expected
    compacting = with_metadata | {"hoodie.compact.inline": "true"} | EAGER_COMPACTION
    oracle.upsert(noted_rows(SHAPE, 40, 50, "fourth"), path, compacting)
    expected |= dict.fromkeys(range(40, 50), "fourth")
    assert _notes(oracle_015, path) == _notes(oracle_120, path) == expected
    assert _our_notes(path) == expected


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
    assert _our_notes(path) == expected
