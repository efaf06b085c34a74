"""The commit protocol on a real table's files: states, markers, rollbacks, and whom it yields to."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import UnsupportedTableError, WriteConflictError
from hudisql.format.avro_container import load_codec
from hudisql.format.commit_metadata import CommitMetadata, WriteStat
from hudisql.format.log_block import encode_log_block
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.commit import abandon_commit, begin_commit, complete_commit, roll_back_failed_writes
from hudisql.write.log_file import rollback_block
from hudisql.write.markers import Marker, MarkerKind, create_marker, list_markers

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
    create_marker(STORAGE, table.base_path, instant, Marker("", "f.parquet", MarkerKind.CREATE))
    complete_commit(commit, EMPTY)
    assert f"{instant}.commit" in _states(table, instant)
    assert list_markers(STORAGE, table.base_path, instant) == []
    # What stands is not taken back, whatever its writer meets afterwards.
    abandon_commit(commit)
    assert f"{instant}.commit" in _states(table, instant)


def test_an_abandoned_commit_leaves_a_rollback_and_nothing_else(table: HudiTable) -> None:
    before = {path for path in Path(table.base_path).rglob("*") if ".hoodie" not in str(path)}
    commit = begin_commit(table, "UPSERT")
    _marked_file(table, commit.instant_time, "a.parquet", MarkerKind.CREATE)
    _marked_file(table, commit.instant_time, "b.parquet", MarkerKind.MERGE)
    abandon_commit(commit)
    assert _states(table, commit.instant_time) == set()
    assert {path for path in Path(table.base_path).rglob("*") if ".hoodie" not in str(path)} == before
    [rollback] = [each for each in open_table(STORAGE, table.base_path).timeline.completed
                  if each.action == "rollback"]  # fmt: skip
    content = Path(table.base_path, ".hoodie", rollback.file_name).read_bytes()
    said = load_codec("HoodieRollbackMetadata").decode(content)
    assert said["commitsRollback"] == [commit.instant_time]
    assert said["totalFilesDeleted"] == 2


def test_markers_in_a_file_of_hudis_timeline_server_are_read(table: HudiTable) -> None:
    folder = Path(table.base_path, ".hoodie", ".temp", "20300101000000000")
    folder.mkdir(parents=True)
    (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (folder / "MARKERS0").write_text("dt=1/a.parquet.marker.CREATE\ndt=2/b.parquet.marker.MERGE\n")
    (folder / "MARKERS7").write_text("c.parquet.marker.CREATE\n")
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
    with pytest.raises(WriteConflictError, match="heartbeat is fresh"):
        begin_commit(open_table(STORAGE, table.base_path), "UPSERT")
    old = time.time() - 600
    os.utime(beat, (old, old))
    begin_commit(open_table(STORAGE, table.base_path), "UPSERT")
    assert _states(table, alive.instant_time) == set()


def test_a_log_file_is_taken_back_unless_others_wrote_to_it(table: HudiTable) -> None:
    pending = begin_commit(table, "UPSERT")
    own = _marked_file(table, pending.instant_time, ".f_1.log.1_0-0-0", MarkerKind.APPEND)
    own.write_bytes(encode_log_block(rollback_block(pending.instant_time, "1")) + b"#HUDI#torn")
    shared = _marked_file(table, pending.instant_time, ".g_1.log.1_0-0-0", MarkerKind.APPEND)
    shared.write_bytes(encode_log_block(rollback_block("20200101000000000", "1")))
    with pytest.raises(UnsupportedTableError, match="rows of other commits"):
        roll_back_failed_writes(open_table(STORAGE, table.base_path))
    shared.unlink()
    roll_back_failed_writes(open_table(STORAGE, table.base_path))
    assert not own.exists()
    assert open_table(STORAGE, table.base_path).timeline.pending == ()


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


def test_a_planned_compaction_is_not_written_past(table: HudiTable) -> None:
    Path(table.base_path, ".hoodie", "20300101000000000.compaction.requested").write_bytes(b"")
    with pytest.raises(UnsupportedTableError, match="compaction"):
        begin_commit(open_table(STORAGE, table.base_path), "UPSERT")


def test_tables_that_others_alone_can_write_are_refused_by_name(table: HudiTable) -> None:
    properties = Path(table.base_path, ".hoodie", "hoodie.properties")
    text = properties.read_text()
    for line, said in (
        ("hoodie.table.cdc.enabled=true", "logs its changes"),
        ("hoodie.populate.meta.fields=false", "meta columns"),
        ("hoodie.compaction.payload.class=org.example.Own", "org.example.Own"),
        ("hoodie.table.recordkey.fields=", "record key"),
    ):
        properties.write_text(f"{text}\n{line}\n")
        with pytest.raises(UnsupportedTableError, match=said):
            begin_commit(open_table(STORAGE, table.base_path), "UPSERT")
