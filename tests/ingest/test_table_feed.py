"""A feed without Kafka: events given by hand, flushes one by one, the table read after each."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudisql.errors import RegisterOnlyError, WriteConflictError
from hudisql.format import table_properties as keys
from hudisql.format.schema.avro_schema import avro_from_arrow
from hudisql.format.schema.internal_schema_changes import initial_schema, with_renamed
from hudisql.format.schema.meta_columns import RECORD_KEY
from hudisql.format.timeline.instant import CLEAN
from hudisql.ingest import table_feed
from hudisql.ingest.declaration import IngestDeclaration
from hudisql.ingest.flush import IngestTarget
from hudisql.ingest.index.rocksdb_index import RocksDbIndex
from hudisql.ingest.split.due_splits import SplitLimits
from hudisql.ingest.table_buffer import BadEvent, EventBatch
from hudisql.ingest.table_feed import TableFeed
from hudisql.service_process.ingest.declared_table import make_parser
from hudisql.services.clean.clean_plan import CleanPlan
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import (
    TablePartition,
    first_directories,
    list_partitions,
)
from hudisql.table.partitions.registered_partitions import RegisteredPartition, write_registered_partitions
from hudisql.table.properties.new_table import NewTable, publish_new_table
from hudisql.table.properties.table_configuration import update_table_properties
from hudisql.write.execution.commit_files import WriteResult, commit_files
from hudisql.write.execution.driver_upsert import upsert_on_driver, with_keys
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.keygen import partition_paths
from hudisql.write.keygen.partition_paths import PartitionPaths
from hudisql.write.transaction.instant_request import request_instant
from hudisql.write.transaction.schema_change import commit_internal_schema
from tests.opened import open_at
from tests.oracle.comparison import our_rows

SOURCE = ("events", 0)
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("ts", pa.int64()), ("dt", pa.string())])
TODAY = datetime.now(UTC).strftime("%Y-%m-%d")
KINDS = pytest.mark.parametrize("kind", [keys.COPY_ON_WRITE, keys.MERGE_ON_READ])


class Fed:
    """A table and its feed; an event is a row, or bytes for a key without a value."""

    def __init__(
        self,
        path: Path,
        kind: str,
        partitions: tuple[str, ...] = ("dt",),
        *,
        record_key: tuple[str, ...] = ("id",),
        split_limits: SplitLimits | None = None,
        **declared: Any,
    ) -> None:
        self.path, self.bad, self.sent = str(path), list[BadEvent](), 0
        schema = avro_from_arrow(SCHEMA, "t")
        new = NewTable("t", "d", kind, record_key, partitions, "ts", others={keys.CREATE_SCHEMA: schema})
        publish_new_table(Storage(), self.path, new, datetime.now(UTC))
        self.split_limits = split_limits or SplitLimits()
        self.take_over(**declared)

    def take_over(self, **declared: Any) -> None:
        """Another worker goes on with the table, which is declared so."""
        declaration = IngestDeclaration(topic="events", bootstrap_servers="nowhere:1", **declared)
        given = declaration, self._open, make_parser, self.bad.extend, "me"
        self.feed = TableFeed("d.t", *given, split_limits=self.split_limits).open()
        self.feed.begin_at({SOURCE: self.sent}, commits=False)

    def _open(self) -> IngestTarget:
        return IngestTarget(open_at(self.path), WriteOptions(), lambda: None)

    def take(self, *events: dict[str, Any] | bytes) -> None:
        values = [None if isinstance(each, bytes) else json.dumps(each).encode() for each in events]
        of_events = [each if isinstance(each, bytes) else None for each in events]
        offsets = np.arange(self.sent, self.sent + len(events))
        self.sent += len(events)
        zeros = np.zeros(len(events), np.int64)
        self.feed.take(EventBatch(SOURCE, values, of_events, offsets, zeros, self.sent), 0.0)

    def flush(self, *events: dict[str, Any] | bytes) -> WriteResult:
        self.take(*events)
        result = self.feed.flush()
        assert result is not None
        self.feed.look_for_splits()
        return result

    def rows(self, number: int | None = None) -> list[int]:
        """The `ts` of all rows, or of those with an id."""
        rows = our_rows(open_at(self.path)).to_pylist()
        return [row["ts"] for row in rows if number is None or row["id"] == number]


def event(number: int, ts: int, **more: object) -> dict[str, Any]:
    return {"id": number, "name": os.urandom(12).hex(), "ts": ts, "dt": TODAY, **more}


def events(numbers: Sequence[int], ts: int) -> list[dict[str, Any]]:
    return [event(each, ts) for each in numbers]


@KINDS
def test_a_deleted_key_that_comes_again_has_one_row_in_whichever_file_group(
    tmp_path: Path, kind: str
) -> None:
    # More bytes than are filled up: the key comes again in another file group.
    fed = Fed(tmp_path, kind)
    fed.flush(*events(range(30_000), 1))
    fed.flush(event(7, 2, _hoodie_is_deleted=True))
    assert fed.rows(7) == []
    for ts in (3, 4):
        fed.flush(event(7, ts))
        assert fed.rows(7) == [ts]
    fed.flush(event(7, 5, _hoodie_is_deleted=True))
    assert fed.rows(7) == []
    assert len(fed.rows()) == 29_999


@KINDS
def test_a_key_alone_deletes_the_row_that_came_before_it(tmp_path: Path, kind: str) -> None:
    fed = Fed(tmp_path, kind, ())
    fed.flush(event(1, 5), b"1", event(2, 5), b"3")
    assert fed.rows(1) == []
    assert fed.rows(2) == [5]
    fed.flush(event(2, 6), b"2", event(3, 1), b"3", event(3, 0))
    assert fed.rows(2) == []
    assert fed.rows(3) == [0]
    fed.flush(b"3")
    assert fed.rows() == []
    assert fed.bad == []


def test_a_delete_that_names_no_partition_is_a_bad_record(tmp_path: Path) -> None:
    fed = Fed(tmp_path, keys.MERGE_ON_READ)
    fed.flush(event(1, 1), b"1", event(1, 2, dt=None, _hoodie_is_deleted=True))
    assert fed.rows(1) == [1]
    assert [each.offset for each in fed.bad] == [1, 2]
    assert "no partition value" in fed.bad[0].reason


def test_rows_that_came_before_a_column_have_nulls_there(tmp_path: Path) -> None:
    fed = Fed(tmp_path, keys.COPY_ON_WRITE)
    fed.take(event(1, 1))
    wider = avro_from_arrow(SCHEMA.append(pa.field("extra", pa.string())), "t")
    update_table_properties(Storage(), fed.path, {keys.CREATE_SCHEMA: wider})
    fed.flush()
    fed.flush(event(2, 1, extra="x"))
    rows = our_rows(open_at(fed.path)).to_pylist()
    assert {row["id"]: row["extra"] for row in rows} == {1: None, 2: "x"}


def test_events_of_a_register_only_partition_are_refused(tmp_path: Path) -> None:
    fed = Fed(tmp_path, keys.COPY_ON_WRITE)
    fed.flush(event(1, 1))
    cold = tmp_path / "cold" / "part-0.parquet"
    cold.parent.mkdir()
    pq.write_table(pa.table({"id": pa.array([3], pa.int32())}), cold)
    recorded = [RegisteredPartition("2020-01-01", str(cold.parent))]
    write_registered_partitions(Storage(), fed.path, recorded)
    update_table_properties(Storage(), fed.path, {keys.REGISTER_ONLY: "true"})
    fed.flush(event(2, 1))
    # A delete would find no row, and be lost.
    fed.take(event(3, 1, dt="2020-01-01", _hoodie_is_deleted=True))
    with pytest.raises(RegisterOnlyError, match="resync_bootstrap"):
        fed.feed.flush()
    assert fed.rows() == [1, 1, None]


def test_bad_events_count_as_memory(tmp_path: Path) -> None:
    fed = Fed(tmp_path, keys.COPY_ON_WRITE)
    fed.take({"id": "x" * 100_000})
    assert fed.feed.memory >= 100_000


@KINDS
def test_events_of_a_table_without_a_record_key_are_appended(tmp_path: Path, kind: str) -> None:
    fed = Fed(tmp_path, kind, record_key=())
    fed.flush(*events(range(5), 1), event(1, 1))
    fed.flush(event(1, 2), event(2, 3, _hoodie_is_deleted=True), event(7, 4, dt="2024-01-01"))
    fed.take_over()
    fed.flush(event(1, 5))
    assert sorted(fed.rows()) == [1, 1, 1, 1, 1, 1, 2, 4, 5]
    assert sorted(fed.rows(1)) == [1, 1, 2, 5]
    rows = our_rows(open_at(fed.path))
    assert len(pc.unique(rows.column(RECORD_KEY))) == rows.num_rows == 9
    (bad,) = fed.bad
    assert "has no record key" in bad.reason


def write_as_another(fed: Fed, *rows: dict[str, Any]) -> None:
    """Upsert rows as a statement does."""
    table = open_at(fed.path)
    paths = PartitionPaths(table)
    keyed, _ = with_keys(pa.RecordBatch.from_pylist(list(rows), table.schema), table, WriteOptions(), paths)
    commit_files(
        table,
        "UPSERT",
        table.schema,
        lambda commit: upsert_on_driver(commit, WriteOptions(), paths, pa.Table.from_batches([keyed])),
    )


@KINDS
def test_partitions_are_listed_again_only_after_a_commit_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    fed = Fed(tmp_path, kind)
    listed: list[str] = []

    def list_and_count(table: HudiTable) -> list[TablePartition]:
        listed.append(table.base_path)
        return first_directories(table)

    monkeypatch.setattr(partition_paths, "first_directories", list_and_count)
    fed.flush(*events(range(5), 1))
    fed.flush(*events(range(3, 8), 2), event(50, 2, dt="2024-01-01"))
    fed.flush(event(50, 3, dt="2024-01-01"))
    assert listed == []
    assert sorted(fed.rows()) == [1, 1, 1, 2, 2, 2, 2, 2, 3]
    write_as_another(fed, event(60, 4, dt="2024-02-02"))
    listed.clear()
    fed.flush(event(60, 5, dt="2024-02-02"))
    fed.flush(event(60, 6, dt="2024-02-02"))
    assert len(listed) == 1
    assert fed.rows(60) == [6]


def test_a_partition_whose_directory_is_gone_is_made_again(tmp_path: Path) -> None:
    fed = Fed(tmp_path, keys.MERGE_ON_READ)
    fed.flush(event(1, 1, dt="2024-01-01"), event(2, 1))
    shutil.rmtree(tmp_path / "dt=2024-01-01")  # as a clean does after the partition was deleted
    fed.flush(event(3, 1, dt="2024-01-01"))
    assert fed.rows(3) == [1]
    assert [each.path for each in list_partitions(open_at(fed.path))] == [
        "dt=2024-01-01",
        f"dt={TODAY}",
    ]


def test_a_pending_clean_that_deletes_a_partition_of_events_is_completed_first(tmp_path: Path) -> None:
    fed = Fed(tmp_path, keys.COPY_ON_WRITE)
    fed.flush(event(1, 1))
    (commit,) = open_at(fed.path).timeline.commits
    plan = CleanPlan(commit, commit.timestamp, "KEEP_LATEST_COMMITS", {}, ("dt=2024-01-01",))
    request_instant(open_at(fed.path), CLEAN, plan.to_avro())
    fed.flush(event(2, 2, dt="2024-01-01"))
    assert sorted(fed.rows()) == [1, 2]
    assert not any(each.action == CLEAN for each in open_at(fed.path).timeline.pending)


@KINDS
def test_an_index_beyond_the_memory_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(table_feed, "INDEX_BYTES", 100)
    made: list[str] = []
    disk = tmp_path / "disk"
    disk.mkdir()

    def on_disk() -> RocksDbIndex:
        made.append("index")
        return RocksDbIndex(str(disk))

    monkeypatch.setattr(table_feed, "RocksDbIndex", on_disk)
    fed = Fed(tmp_path / "table", kind, index="rocksdb")
    fed.flush(*events(range(50), 1))
    fed.feed.close()
    fed.take_over(index="rocksdb")
    fed.flush(*events(range(25, 75), 2))
    fed.flush(event(1, 3), event(80, 3))
    assert made
    assert sorted(fed.rows()) == [*[1] * 24, *[2] * 50, 3, 3]
    assert list(disk.iterdir())
    fed.feed.close()
    assert list(disk.iterdir()) == []


@pytest.mark.parametrize("kind", [keys.COPY_ON_WRITE, keys.MERGE_ON_READ])
def test_events_in_memory_are_read_again_if_columns_get_other_names(tmp_path: Path, kind: str) -> None:
    fed = Fed(tmp_path / "t", kind)
    fed.flush({"id": 1, "name": "one", "ts": 1, "dt": TODAY})
    fed.take({"id": 2, "name": "two", "ts": 1, "dt": TODAY})
    table = open_at(tmp_path / "t")
    commit_internal_schema(table, with_renamed(initial_schema(table.schema), "name", "title"))
    with pytest.raises(WriteConflictError, match="renamed or dropped while events were in memory"):
        fed.feed.flush()
    assert our_rows(open_at(tmp_path / "t")).column("title").to_pylist() == ["one"]
