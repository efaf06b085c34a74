"""Which slice a log file of timeline layout 2 belongs to: names and times of completion alone decide."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.errors import CorruptTableError, NoSuchStateError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.format.timeline.commit_metadata_avro import render_commit_metadata
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.history.taken_changes import Place, check_not_undone
from hudisql.table.history.timeline_window import timeline_window
from hudisql.table.timeline.archived_timeline import ArchiveReader
from hudisql.table.timeline.completion_times import history_files
from tests.opened import open_at
from tests.table.conftest import SCHEMA, TableDirectory

MakeTable = Callable[..., TableDirectory]


def _time(minute: int) -> str:
    return f"202601010000{minute:02d}000"


@pytest.fixture
def directory(make_table: MakeTable) -> TableDirectory:
    found = make_table(
        hoodie__table__version="9",
        hoodie__table__type="MERGE_ON_READ",
        hoodie__table__create__schema=SCHEMA,
    )
    found.partition("dt=a")
    return found


def _complete(directory: TableDirectory, requested: int, completed: int, action: str = "deltacommit") -> None:
    directory.instant(f"timeline/{_time(requested)}.{action}.requested")
    directory.instant(f"timeline/{_time(requested)}_{_time(completed)}.{action}")


def _plan_compaction(directory: TableDirectory, minute: int, file_id: str) -> None:
    operation: dict[str, Any] = {
        "baseInstantTime": None,
        "deltaFilePaths": [],
        "dataFilePath": None,
        "fileId": file_id,
        "partitionPath": "dt=a",
        "metrics": {},
        "bootstrapFilePath": None,
    }
    record: dict[str, Any] = {"operations": [operation], "extraMetadata": None, "version": 2}
    content = load_codec("HoodieCompactionPlan").encode(record)
    directory.instant(f"timeline/{_time(minute)}.compaction.requested", content)


def _slices(directory: TableDirectory) -> list[tuple[str, bool, list[str]]]:
    """Base instant, whether there is a base file, and the instants of the log files in their order."""
    table = open_at(directory.path)
    return [
        (
            each.base_instant_time,
            each.base_file is not None,
            [log.base_instant_time for log in each.log_files],
        )
        for each in load_file_slices(table)
    ]


def test_a_log_goes_to_the_newest_base_requested_before_its_completion(directory: TableDirectory) -> None:
    _complete(directory, 1, 2)
    _complete(directory, 3, 8)
    _complete(directory, 4, 5)
    _complete(directory, 6, 7, "commit")
    directory.base_file("dt=a", "f-0", _time(1))
    directory.base_file("dt=a", "f-0", _time(6))
    directory.log_file("dt=a", "f-0", _time(3), 1)
    directory.log_file("dt=a", "f-0", _time(4), 1)
    # The log of 4 is compacted; that of 3 was completed after the compaction was requested.
    assert _slices(directory) == [(_time(6), True, [_time(3)])]


def test_logs_merge_in_the_order_of_their_requests(directory: TableDirectory) -> None:
    for requested, completed in ((1, 2), (3, 9), (4, 5), (6, 8)):
        _complete(directory, requested, completed)
    _plan_compaction(directory, 7, "f-0")
    directory.base_file("dt=a", "f-0", _time(1))
    # What a compaction that failed has left is not seen.
    directory.base_file("dt=a", "f-0", _time(7))
    for minute in (6, 3, 4):
        directory.log_file("dt=a", "f-0", _time(minute), 1)
    assert _slices(directory) == [(_time(1), True, [_time(3), _time(4), _time(6)])]


def test_a_group_of_logs_alone_begins_with_its_first_one(directory: TableDirectory) -> None:
    _complete(directory, 1, 2)
    _complete(directory, 3, 4)
    directory.log_file("dt=a", "f-0", _time(3), 1)
    directory.log_file("dt=a", "f-0", _time(1), 1)
    assert _slices(directory) == [(_time(1), False, [_time(1), _time(3)])]


def test_logs_and_bases_of_pending_commits_are_not_seen(directory: TableDirectory) -> None:
    _complete(directory, 1, 2)
    _complete(directory, 5, 6)
    directory.instant(f"timeline/{_time(3)}.deltacommit.inflight")
    directory.base_file("dt=a", "f-0", _time(1))
    directory.base_file("dt=a", "f-0", _time(3))
    directory.log_file("dt=a", "f-0", _time(3), 1)
    directory.log_file("dt=a", "f-0", _time(5), 1)
    assert _slices(directory) == [(_time(1), True, [_time(5)])]


def test_a_base_of_a_bootstrap_is_compared_with_the_request(directory: TableDirectory) -> None:
    _complete(directory, 3, 4)
    directory.instant("timeline/00000000000002_20260101000001000.commit")
    directory.base_file("dt=a", "f-0", "00000000000002")
    directory.log_file("dt=a", "f-0", _time(3), 1)
    assert _slices(directory) == [("00000000000002", True, [_time(3)])]


def _archive(directory: TableDirectory, requested: int, completed: int, version: int, name: str = "") -> None:
    name = name or f"{_time(requested)}_{_time(requested)}_0.parquet"
    rows = pa.table(
        {"instantTime": [_time(requested)], "completionTime": [_time(completed)], "action": ["deltacommit"]}
    )
    stream = io.BytesIO()
    pq.write_table(rows, stream)
    directory.file(f".hoodie/timeline/history/{name}", stream.getvalue())
    manifest = {"files": [{"fileName": name, "fileLen": len(stream.getvalue())}]}
    directory.file(f".hoodie/timeline/history/manifest_{version}", json.dumps(manifest).encode())
    directory.file(".hoodie/timeline/history/_version_", str(version).encode())


def test_completions_of_archived_commits_come_from_the_history(directory: TableDirectory) -> None:
    _complete(directory, 8, 9)
    _archive(directory, 3, 7, 1)
    for minute in (1, 5):
        directory.base_file("dt=a", "f-0", _time(minute))
    directory.log_file("dt=a", "f-0", _time(3), 1)
    assert _slices(directory) == [(_time(5), True, [_time(3)])]
    _archive(directory, 3, 4, 2, "20260101000003000_20260101000003000_1.parquet")
    assert _slices(directory) == [(_time(5), True, [])]


def test_commits_that_are_archived_beyond_a_savepoint_belong_to_windows(directory: TableDirectory) -> None:
    _complete(directory, 1, 2)
    directory.instant(f"timeline/{_time(1)}_{_time(8)}.savepoint")
    _archive(directory, 3, 4, 1)
    _complete(directory, 5, 6)
    table = open_at(directory.path)
    window = timeline_window(table, _time(2), _time(6))
    assert window.instant_times == {_time(3), _time(5)}
    assert window.is_open
    check_not_undone(table, Place(_time(4)))
    with pytest.raises(NoSuchStateError, match="was undone"):
        check_not_undone(table, Place(_time(7)))


def test_a_place_of_version_6_is_told_by_its_time_of_completion(directory: TableDirectory) -> None:
    _complete(directory, 1, 2)
    _complete(directory, 3, 4)
    table = open_at(directory.path)
    with pytest.raises(NoSuchStateError, match=rf"(?s)has been upgraded to version.*begin after {_time(4)}"):
        check_not_undone(table, Place(_time(3)))


def test_a_long_commit_that_is_archived_first_belongs_to_windows(directory: TableDirectory) -> None:
    _archive(directory, 1, 7, 1)
    _complete(directory, 2, 3)
    _complete(directory, 4, 5)
    table = open_at(directory.path)
    assert timeline_window(table, _time(4)).instant_times == {_time(1), _time(4)}
    check_not_undone(table, Place(_time(7)))
    with pytest.raises(NoSuchStateError, match="was undone"):
        check_not_undone(table, Place(_time(6)))


def test_files_of_superseded_versions_of_the_history_are_left_aside(directory: TableDirectory) -> None:
    _complete(directory, 8, 9)
    _archive(directory, 2, 3, 1)
    _archive(directory, 4, 5, 2)
    table = open_at(directory.path)
    assert [each.first for each in history_files(table)] == [_time(4)]
    # A writer deletes the version's file before it makes the new one.
    (directory.path / ".hoodie/timeline/history/_version_").unlink()
    assert [each.first for each in history_files(table)] == [_time(4)]
    (directory.path / ".hoodie/timeline/history/manifest_2").write_text("{")
    with pytest.raises(CorruptTableError, match="manifest_2"):
        history_files(table)


def test_no_file_of_an_instant_is_read_to_plan(directory: TableDirectory, monkeypatch: Any) -> None:
    for minute in range(1, 30):
        _complete(directory, minute, minute + 30)
    directory.base_file("dt=a", "f-0", _time(1))
    for minute in range(2, 30):
        directory.log_file("dt=a", "f-0", _time(minute), 1)
    read: list[str] = []
    opened = open_at(directory.path)
    assert len(opened.schema) == 2
    monkeypatch.setattr(Storage, "read", lambda _, path: read.append(path))
    (found,) = load_file_slices(opened)
    assert len(found.log_files) == 28
    assert read == []


def test_a_file_of_the_history_is_read_once_for_all_its_instants(
    directory: TableDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    _complete(directory, 30, 31)
    name = f"{_time(1)}_{_time(20)}_0.parquet"
    _archive(directory, 1, 1, 1, name)
    times = [_time(minute) for minute in range(1, 21)]
    contents = [
        render_commit_metadata(CommitMetadata(partition_to_write_stats={}, extra_metadata={"n": time}))
        for time in times
    ]
    rows = {
        "instantTime": times,
        "completionTime": times,
        "action": ["deltacommit"] * 20,
        "metadata": contents,
        "plan": pa.nulls(20, pa.binary()),
    }
    pq.write_table(pa.table(rows), directory.path / ".hoodie/timeline/history" / name)
    reader = ArchiveReader(open_at(directory.path))
    opened: list[str] = []
    open_input = Storage.open_input

    def counted(self: Storage, path: str) -> Any:
        opened.append(path)
        return open_input(self, path)

    monkeypatch.setattr(Storage, "open_input", counted)
    found = [
        reader.entry(instant, path, "hoodieCommitMetadata")
        for instant, path in reader.completed_instants().items()
    ]
    said = [each.record["hoodieCommitMetadata"]["extraMetadata"]["n"] for each in found if each is not None]
    assert said == times
    assert len(opened) == 2
