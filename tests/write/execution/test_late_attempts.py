"""Attempts of a task that outlive their commit, and rows that end early: neither adds a file to the table."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.errors import WriteConflictError
from hudisql.format.timeline.instant import InstantState
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.changes import OPERATION, PARTITION, RECORD_KEY, RowOperation, change_schema
from hudisql.write.execution.bulk_insert import bulk_insert_partition
from hudisql.write.execution.commit_files import commit_files, finish_commit
from hudisql.write.execution.write_context import (
    WriteContext,
    WrittenFile,
    make_write_context,
    make_write_task,
)
from hudisql.write.execution.write_tasks import BUCKET, write_buckets
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.keygen.partition_paths import PartitionPaths
from hudisql.write.transaction.commit import OpenCommit, begin_commit
from hudisql.write.transaction.instant_rollback import roll_back_instant
from hudisql.write.transaction.markers import Marker, MarkerKind, create_marker, list_markers
from tests.file_slices import has_lost_its_rows

_before_opening: list[Callable[[], None]] = []


@dataclass(frozen=True)
class HookedStorage(Storage):
    """Calls what is in `_before_opening`, once, when the next data file is about to be made."""

    def open_output(self, path: str) -> Any:
        _run_hook(path)
        return super().open_output(path)

    def write(self, path: str, content: bytes) -> None:
        _run_hook(path)
        super().write(path, content)


def _run_hook(path: str) -> None:
    if _before_opening and ".hoodie" not in path:
        _before_opening.pop()()


STORAGE = HookedStorage()
KINDS = ["load", "merge", "append"]


@dataclass
class Job:
    """One commit with one task, which may be tried several times."""

    kind: str
    commit: OpenCommit
    write_context: WriteContext

    @property
    def table(self) -> HudiTable:
        return self.commit.table

    def attempt(self, number: int, write_context: WriteContext | None = None) -> list[WrittenFile]:
        """What an attempt at the task writes."""
        write_context = write_context or self.write_context
        if self.kind == "load":
            rows = pa.RecordBatch.from_pylist(
                [{"id": f"new{each}", "dt": "2024-03-01"} for each in range(5)], schema=self.table.schema
            )
            return list(bulk_insert_partition(write_context, PartitionPaths(self.table), 0, number, [rows]))
        [changed, *_] = [each for each in load_file_slices(self.table) if not each.is_bootstrapped]
        assert changed.base_file is not None
        stored = pq.read_table(changed.base_file.path).slice(0, 2)
        operation = RowOperation.UPDATE if self.kind == "merge" else RowOperation.DELETE
        values = {
            OPERATION: [int(operation)] * 2,
            PARTITION: [changed.partition_path] * 2,
            RECORD_KEY: stored["_hoodie_record_key"].to_pylist(),
            "id": stored["id"].to_pylist(),
        }
        schema = change_schema(self.table.schema)
        columns = [pa.array(values.get(field.name, [None] * 2), field.type) for field in schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        batch = batch.append_column(BUCKET, pa.array([0, 0], pa.int32()))
        dt = changed.partition_path.removeprefix("dt=")
        task = make_write_task(
            write_context, 0, changed.partition_path, {"dt": dt}, is_new_partition=False, file_slice=changed
        )
        return list(write_buckets(write_context, {0: task}, number, [batch]))

    def complete(self, files: list[WrittenFile]) -> None:
        finish_commit(self.commit, files, self.table.schema, None)

    def contents(self) -> dict[str, int]:
        """The table's data files with their lengths, log files that lost their rows left out."""
        root = Path(self.table.base_path)
        files = [path for path in root.rglob("*") if path.is_file() and ".hoodie" not in path.parts]
        return {str(path): path.stat().st_size for path in files if not has_lost_its_rows(path)}


@pytest.fixture
def begin(golden: Callable[[str], Any], tmp_path: Path) -> Iterator[Callable[[str], Job]]:
    def make(kind: str) -> Job:
        name = "mor_rollback" if kind == "append" else "cow_bootstrap_then_upsert_delete"
        shutil.copytree(golden(name).table, tmp_path / "table")
        commit = begin_commit(open_table(STORAGE, str(tmp_path / "table")), "UPSERT")
        write_context = make_write_context(commit, WriteOptions(), commit.table.schema, DEFAULT_CALENDARS)
        return Job(kind, commit, write_context)

    yield make
    _before_opening.clear()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [0, 1])
def test_an_attempt_that_begins_after_the_commit_writes_nothing(
    begin: Callable[[str], Job], kind: str, number: int
) -> None:
    job = begin(kind)
    job.complete(job.attempt(0))
    committed = job.contents()
    with pytest.raises(WriteConflictError, match="completed without this task attempt"):
        job.attempt(number)
    assert job.contents() == committed


@pytest.mark.parametrize("kind", KINDS)
def test_an_attempt_that_ends_after_the_commit_deletes_its_files(
    begin: Callable[[str], Job], kind: str
) -> None:
    job = begin(kind)
    winner = job.attempt(0)
    committed = job.contents()
    _before_opening.append(lambda: job.complete(winner))
    with pytest.raises(WriteConflictError, match="completed without this task attempt"):
        job.attempt(1)
    assert job.contents() == committed


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_this_process_alone_writes_go_if_their_commit_is_rolled_back_meanwhile(
    begin: Callable[[str], Job], kind: str
) -> None:
    job = begin(kind)
    roll_back_instant(job.table, job.commit.instant)
    before = job.contents()
    table = job.table.reopened()

    def write(commit: OpenCommit) -> list[WrittenFile]:
        context = make_write_context(commit, WriteOptions(), table.schema, DEFAULT_CALENDARS)
        _before_opening.append(lambda: roll_back_instant(table, commit.instant))
        files = Job(kind, commit, context).attempt(0)
        assert job.contents() != before
        return files

    with pytest.raises(WriteConflictError, match="rolled back"):
        commit_files(table, "UPSERT", table.schema, write, has_task_attempts=False)
    assert job.contents() == before


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_an_attempt_finishes_beside_the_commit_are_deleted_before_the_markers(
    begin: Callable[[str], Job], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = begin(kind)
    winner = job.attempt(0)
    committed = job.contents()
    completed = job.table.instant_path(job.commit.instant.in_state(InstantState.COMPLETED))
    create = Storage.create

    def finish_first(self: Storage, path: str, content: bytes) -> None:
        if path == completed:
            assert job.attempt(1)
        create(self, path, content)

    monkeypatch.setattr(Storage, "create", finish_first)
    job.complete(winner)
    assert job.contents() == committed
    assert list_markers(STORAGE, job.table.base_path, job.commit.instant_time) == []


def test_files_of_attempts_that_were_killed_after_the_commit_go_with_the_next_commit(
    begin: Callable[[str], Job],
) -> None:
    job = begin("load")
    winner = job.attempt(0)
    # Its marker is made, its file not yet.
    marker = Marker("dt=2024-03-01", f"late-0_0-0-9_{job.commit.instant_time}.parquet", MarkerKind.CREATE)
    create_marker(STORAGE, job.table.base_path, job.commit.instant_time, marker)
    job.complete(winner)
    assert marker in list_markers(STORAGE, job.table.base_path, job.commit.instant_time)
    committed = job.contents()
    late = Path(job.table.base_path, marker.partition_path, marker.file_name)
    late.write_bytes(b"PAR1 half a file")
    following = begin_commit(open_table(STORAGE, job.table.base_path), "UPSERT")
    assert job.contents() == committed
    assert list_markers(STORAGE, job.table.base_path, job.commit.instant_time) == []
    # One of a commit that was rolled back since.
    create_marker(STORAGE, job.table.base_path, "29990101000000000", marker)
    late.write_bytes(b"PAR1 half a file")
    begin_commit(replace(following.table), "UPSERT")
    assert job.contents() == committed
