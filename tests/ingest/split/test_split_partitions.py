"""Partitions that are split into hash buckets: what a feed writes before, at and after the split."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.errors import CorruptTableError, HudisqlError, InvalidArgumentError, WriteConflictError
from hudisql.format import table_properties as keys
from hudisql.ingest.declaration import IngestDeclaration
from hudisql.ingest.split import due_splits
from hudisql.ingest.split.due_splits import SplitLimits
from hudisql.ingest.split.partition_split import PartitionSplit, find_split
from hudisql.ingest.split.table_splits import SPLITS_KEY, SeenCommits, TableSplits, read_seen_commits
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS
from hudisql.service_process.ingest.declared_table import check_splittable
from hudisql.services.compaction.compaction_action import CompactionOptions, schedule_compaction
from hudisql.storage import Storage
from hudisql.table.files.snapshot import list_file_slices
from hudisql.table.properties.table_configuration import update_table_properties
from hudisql.write.changes import change_schema
from hudisql.write.execution.commit_files import commit_files
from hudisql.write.execution.driver_apply import profile_few_changes, write_few_changes
from hudisql.write.execution.write_context import WrittenFile
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.record_index import HashBuckets, IndexKind, RecordIndex
from hudisql.write.keygen.partition_paths import PartitionPaths
from hudisql.write.transaction.commit import OpenCommit
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.ingest.test_table_feed import KINDS, TODAY, Fed, event, events
from tests.opened import open_at

PARTITION = f"dt={TODAY}"
SMALL = SplitLimits(bucket_bytes=20_000, resplit_seconds=0.0)


def split_of(fed: Fed) -> PartitionSplit | None:
    table = open_at(fed.path)
    return find_split(PARTITION, list_file_slices(table, [PARTITION], None))


def split_all(fed: Fed) -> int:
    count = 0
    while fed.feed.wants_split:
        count += fed.feed.split_next() is not None
    return count


def model_of(fed: Fed) -> dict[int, int]:
    from tests.oracle.comparison import our_rows

    rows = our_rows(open_at(fed.path)).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["ts"] for row in rows}


@KINDS
def test_events_go_by_hash_after_the_split_and_rows_stay_as_they_were(tmp_path: Path, kind: str) -> None:
    fed = Fed(tmp_path, kind, split_limits=SMALL, split="rows:3000")
    fed.flush(*events(range(2_000), 1))
    assert not fed.feed.wants_split
    fed.flush(*events(range(1_000, 3_000), 2))
    model = {each: 1 + (each >= 1_000) for each in range(3_000)}
    assert fed.feed.wants_split
    assert split_all(fed) == 1
    split = split_of(fed)
    assert split is not None
    assert split.buckets > 2
    assert not split.foreign
    assert model_of(fed) == model
    assert fed.feed._index.indexed() == []
    # Known keys, new ones, deletes of both, and a key that comes again.
    fed.flush(*events(range(2_900, 3_100), 5), event(5, 3, _hoodie_is_deleted=True))
    fed.flush(event(3_050, 6, _hoodie_is_deleted=True), event(9_999, 1, _hoodie_is_deleted=True))
    fed.flush(event(5, 7))
    model.update(dict.fromkeys(range(2_900, 3_100), 5))
    del model[3_050]
    model[5] = 7
    if kind == keys.MERGE_ON_READ:
        assert fed.feed._index.indexed() == []
    assert model_of(fed) == model
    after = split_of(fed)
    assert after is not None
    assert after.file_ids == split.file_ids
    assert not after.foreign
    # A worker that starts anew knows it.
    fed.take_over(split="rows:3000")
    fed.flush(*events(range(3_000, 3_200), 8))
    model.update(dict.fromkeys(range(3_000, 3_200), 8))
    assert model_of(fed) == model
    after = split_of(fed)
    assert after is not None
    assert after.file_ids == split.file_ids
    assert not after.foreign


@KINDS
def test_a_partition_that_outgrows_its_buckets_is_split_into_more(tmp_path: Path, kind: str) -> None:
    fed = Fed(tmp_path, kind, split_limits=SMALL, split="now")
    fed.flush(*events(range(300), 1))
    split_all(fed)
    first = split_of(fed)
    assert first is not None
    fed.flush(*events(range(200, 3_000), 2))
    assert split_all(fed) == 1
    second = split_of(fed)
    assert second is not None
    assert second.buckets > 2 * first.buckets
    assert second.instant_time > first.instant_time
    assert not second.foreign
    assert model_of(fed) == {**dict.fromkeys(range(200), 1), **dict.fromkeys(range(200, 3_000), 2)}
    fed.flush(event(1, 3))
    assert not fed.feed.wants_split
    assert fed.rows(1) == [3]


def test_a_worker_that_lost_the_table_does_not_split_it(tmp_path: Path) -> None:
    fed = Fed(tmp_path, keys.MERGE_ON_READ, split_limits=SMALL, split="now")
    fed.flush(event(1, 1))
    stale = fed.feed
    assert stale.wants_split
    fed.take_over(split="never")
    fed.flush(event(2, 1))
    with pytest.raises(WriteConflictError, match="has lost it"):
        stale.split_next()
    assert split_of(fed) is None
    assert not open_at(fed.path).timeline.pending


def test_a_table_that_is_declared_to_split_now_is_split_without_events(tmp_path: Path) -> None:
    fed = Fed(tmp_path, keys.MERGE_ON_READ, split_limits=SMALL)
    fed.flush(event(1, 1), event(2, 1, dt="2020-01-01"))
    assert not fed.feed.wants_split
    fed.take_over(split="now")
    assert split_all(fed) == 2
    assert split_of(fed) is not None
    fed.flush(event(1, 2), event(2, 2, dt="2020-01-01"))
    assert fed.rows() == [2, 2]


def test_a_partition_with_a_pending_compaction_waits(tmp_path: Path) -> None:
    fed = Fed(tmp_path, keys.MERGE_ON_READ, split_limits=SMALL, split="now")
    fed.flush(*events(range(10), 1))
    fed.flush(*events(range(10), 2))
    table = open_at(fed.path)
    options = CompactionOptions(max_delta_commits=1)
    assert schedule_compaction(table, options, SINGLE_WRITER) is not None
    assert split_all(fed) == 0
    fed.flush(*events(range(10), 3))
    assert split_of(fed) is None
    assert fed.rows() == [3] * 10


@KINDS
def test_keys_that_others_put_into_any_bucket_are_looked_up_until_the_next_split(
    tmp_path: Path, kind: str
) -> None:
    limits = SplitLimits(bucket_bytes=20_000, resplit_seconds=3600.0)
    fed = Fed(tmp_path, kind, split_limits=limits, split="now")
    fed.flush(*events(range(2_000), 1))
    split_all(fed)
    put_into_bucket(fed, 5_000, bucket=0)
    put_into_bucket(fed, 5_001, bucket=1)
    assert sorted(fed.rows()) == [1] * 2_002
    for worker in range(3):
        # As the worker learns of the commit, and as a worker that starts finds it.
        fed.flush(event(5_000, 2 + worker), event(5_001, 2 + worker), event(6_000 + worker, 1))
        assert fed.rows(5_000) == fed.rows(5_001) == [2 + worker]
        assert not fed.feed.wants_split
        if worker:
            fed.take_over(split="now")
    fed.split_limits = SMALL
    fed.take_over(split="now")
    fed.flush(event(5_000, 8))
    assert split_all(fed) == 1
    fed.flush(event(5_000, 9), event(6_001, 9))
    after = split_of(fed)
    assert after is not None
    assert not after.foreign
    assert fed.rows(5_000) == fed.rows(6_001) == [9]
    assert len(fed.rows()) == 2_005


def put_into_bucket(fed: Fed, number: int, *, bucket: int) -> None:
    """As another writer that fills up small files puts a new key into one."""
    split, table = split_of(fed), open_at(fed.path)
    assert split is not None
    slices = list_file_slices(table, [PARTITION], None)
    chosen = next(each for each in slices if each.file_id == split.file_ids[bucket])
    columns = [[0], [PARTITION], [chosen.file_id], [str(number)], [None]]
    columns += [[number], ["other"], [1], [TODAY]]
    schema = change_schema(table.schema)
    values = [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)]
    changes = pa.Table.from_arrays(values, schema=schema)
    options = WriteOptions()

    def write(commit: OpenCommit) -> list[WrittenFile]:
        paths = PartitionPaths(commit.table)
        few = profile_few_changes(commit.table, changes, table.schema, options, paths)
        return write_few_changes(commit, few, table.schema, options, paths, DEFAULT_CALENDARS)

    commit_files(table, "UPSERT", table.schema, write)


@pytest.mark.parametrize(("option", "is_due"), [("auto", True), ("days:1", False), ("never", False)])
def test_a_new_partition_is_split_as_the_table_is_declared(tmp_path: Path, option: str, is_due: bool) -> None:
    fed = Fed(tmp_path, keys.MERGE_ON_READ, split=option)
    fed.flush(event(1, 1))
    assert fed.feed.wants_split == is_due


def test_keys_are_looked_up_if_no_commit_tells_what_others_wrote(tmp_path: Path) -> None:
    limits = SplitLimits(bucket_bytes=20_000, resplit_seconds=3600.0)
    fed = Fed(tmp_path, keys.MERGE_ON_READ, split_limits=limits, split="now")
    fed.flush(*events(range(1_000), 1))
    split_all(fed)
    for commit in Path(fed.path, ".hoodie").glob("*commit"):
        commit.write_text(commit.read_text().replace(SPLITS_KEY, "something"))
    fed.take_over(split="now")
    table = open_at(fed.path)
    splits, split = TableSplits(), split_of(fed)
    assert split is not None
    assert splits.split_of(table, PARTITION) == split
    assert splits.is_mixed(split)
    fed.flush(event(1, 2), event(2_000, 2))
    fed.flush(event(2_000, 3))
    assert fed.rows(1) == [2]
    assert fed.rows(2_000) == [3]
    assert len(fed.rows()) == 1_001


def test_a_commit_that_tells_nothing_readable_of_splits_is_an_error() -> None:
    seen = SeenCommits(frozenset({"1"}), {"dt=1": "2"}, "3")
    assert read_seen_commits(seen.to_text(), "/t") == seen
    for text in ("", "{}", "[]", '{"pending": 1, "mixed": {}, "unknown": ""}'):
        with pytest.raises(CorruptTableError, match="split metadata"):
            read_seen_commits(text, "/t")


def test_tables_that_cannot_be_split_are_refused(tmp_path: Path) -> None:
    fed = Fed(tmp_path, keys.MERGE_ON_READ)
    table = open_at(fed.path)
    declared = IngestDeclaration(topic="t", bootstrap_servers="s:1", split="now")
    index = RecordIndex(IndexKind.BUCKET, buckets=HashBuckets(4, ("id",)))
    with pytest.raises(InvalidArgumentError, match="has a bucket index"):
        check_splittable(table, WriteOptions(index=index), declared)
    check_splittable(table, WriteOptions(index=index), replace(declared, split="never"))
    check_splittable(table, WriteOptions(), declared)
    update_table_properties(Storage(), fed.path, {"hoodie.populate.meta.fields": "false"})
    with pytest.raises(InvalidArgumentError, match="no meta columns"):
        check_splittable(open_at(fed.path), WriteOptions(), declared)


def test_a_partition_that_cannot_be_read_is_put_off_and_the_feed_goes_on(tmp_path: Path) -> None:
    fed = Fed(tmp_path, keys.MERGE_ON_READ, split_limits=SMALL)
    fed.flush(*events(range(10), 1))
    (base_file,) = (tmp_path / PARTITION).glob("*.parquet")
    content = base_file.read_bytes()
    base_file.write_bytes(b"PAR1 and nothing else PAR1")
    fed.take_over(split="now", index_days=0)
    with pytest.raises(HudisqlError):
        fed.feed.split_next()
    base_file.write_bytes(content)
    fed.flush(*events(range(5, 15), 2))
    assert not fed.feed.wants_split
    assert model_of(fed) == {**dict.fromkeys(range(5), 1), **dict.fromkeys(range(5, 15), 2)}
    fed.take_over(split="now")
    assert split_all(fed) == 1


def test_a_table_without_events_costs_no_look_at_its_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = Fed(tmp_path, keys.MERGE_ON_READ)
    monkeypatch.setattr(due_splits, "read_arrivals", lambda *_: pytest.fail("arrivals were read"))
    fed.take_over(split="auto")
