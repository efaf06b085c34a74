"""Exports of instants, comparisons of timelines, deletion of markers."""

from __future__ import annotations

import json
import shutil

import pytest

from hudisql.errors import InvalidArgumentError, SourceProtectedError, WriteConflictError
from hudisql.procedures.services.timeline_export import exported_instants
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from hudisql.table.timeline.archived_timeline import ArchiveReader
from hudisql.write.transaction.markers import Marker, MarkerKind, create_marker, marked_instants

pytestmark = [pytest.mark.spark, pytest.mark.hms]


def test_archived_instants_are_exported_before_the_active_ones(golden):
    table = open_table(Storage(), golden("cow_archived_bootstrap").table)
    active = [each.timestamp for each in table.timeline.completed if each.action == "commit"]
    names = [name for name, _ in exported_instants(table, {"commit"}, False)]
    assert names[-len(active) :] == [f"{each}.commit" for each in active]
    assert names[0] == "00000000000001.commit"
    assert names == sorted(names)
    newest_first = dict(exported_instants(table, {"commit"}, True))
    assert list(newest_first) == names[::-1]
    assert "partitionToWriteStats" in json.loads(newest_first[names[0]])


def test_an_instant_that_is_archived_and_still_active_is_exported_once(golden, tmp_path):
    path = tmp_path / "table"
    shutil.copytree(golden("cow_archived_bootstrap").table, path)
    before = [name for name, _ in exported_instants(open_table(Storage(), str(path)), {"commit"}, False)]
    shutil.copy(max((path / ".hoodie").glob("*.commit")), path / ".hoodie" / "00000000000001.commit")
    table = open_table(Storage(), str(path))
    assert [name for name, _ in exported_instants(table, {"commit"}, False)] == before
    assert [name for name, _ in exported_instants(table, {"commit"}, True)] == before[::-1]


def test_only_exported_instants_are_decoded(golden, monkeypatch):
    decoded = []
    entry = ArchiveReader.entry

    def count(*arguments):
        decoded.append(arguments[1].timestamp)
        return entry(*arguments)

    monkeypatch.setattr(ArchiveReader, "entry", count)
    table = open_table(Storage(), golden("cow_archived_bootstrap").table)
    name, _ = next(exported_instants(table, {"commit"}, False))
    assert decoded == [name.partition(".")[0]]
    next(exported_instants(table, {"commit"}, True))
    assert len(decoded) == 1


def test_instants_are_exported_to_a_directory_of_their_own(call, bootstrap, name, daily_orders, tmp_path):
    bootstrap()
    target = tmp_path / "exported"
    with pytest.raises(InvalidArgumentError, match="exported is not a directory"):
        call("export_instants", table=name, local_folder=target)
    target.mkdir()
    assert call("export_instants", table=name, local_folder=target, limit=0) == [
        {"export_detail": f"Exported 0 Instants to {target}"}
    ]
    call("export_instants", table=name, local_folder=target)
    assert [path.name for path in target.iterdir()] == ["00000000000001.commit"]
    with pytest.raises(SourceProtectedError):
        call("export_instants", table=name, local_folder=daily_orders)


def test_markers_are_deleted_of_instants_that_are_not_pending(call, bootstrap, name, tmp_path):
    bootstrap()
    path = str(tmp_path / "t")
    time = "20240101000000000"
    later = "20240102000000000"
    for each in (time, later):
        create_marker(Storage(), path, each, Marker("dt=2024-03-01", "a_0-0-0_1.parquet", MarkerKind.CREATE))
    requested = f"{path}/.hoodie/{time}.commit.requested"
    Storage().write(requested, b"")
    with pytest.raises(WriteConflictError, match=f"the instant {time} .* is not complete"):
        call("delete_marker", table=name, instant_time=f"{later},{time}")
    assert marked_instants(Storage(), path) == [time, later]
    Storage().delete_file(requested)
    assert call("delete_marker", table=name, instant_time=f"{time}, {later}") == [
        {"delete_marker_result": True}
    ]
    assert marked_instants(Storage(), path) == []
    with pytest.raises(InvalidArgumentError, match="must be an instant time"):
        call("delete_marker", table=name, instant_time="../..")


def test_a_copy_that_is_ahead_is_named_with_its_commits(call, bootstrap, name, golden):
    bootstrap()
    other = open_table(Storage(), golden("cow_bootstrap_then_upsert_delete").table)
    later = [each.timestamp for each in other.timeline.commits if each.timestamp != "00000000000001"]
    (row,) = call("commits_compare", table=name, path=other.base_path)
    assert row["compare_detail"].endswith(
        f" is behind by {len(later)} commits. Commits to catch up - [{', '.join(later)}]"
    )
