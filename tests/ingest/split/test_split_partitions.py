"""Partitions that are split into hash buckets: what a feed writes before, at and after the split."""

from __future__ import annotations

from pathlib import Path

from hudisql.format import table_properties as keys
from hudisql.ingest.split.due_splits import SplitLimits
from hudisql.ingest.split.partition_split import PartitionSplit, find_split
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from hudisql.table.snapshot import list_file_slices
from tests.ingest.test_table_feed import KINDS, TODAY, Fed, event, events

PARTITION = f"dt={TODAY}"
SMALL = SplitLimits(bucket_bytes=20_000, mend_seconds=0.0)


def split_of(fed: Fed) -> PartitionSplit | None:
    table = open_table(Storage(), fed.path)
    return find_split(PARTITION, list_file_slices(table, [PARTITION], None))


def split_all(fed: Fed) -> int:
    count = 0
    while fed.feed.wants_split:
        count += fed.feed.split_next() is not None
    return count


def model_of(fed: Fed) -> dict[int, int]:
    from tests.oracle.comparison import our_rows

    rows = our_rows(open_table(Storage(), fed.path)).to_pylist()
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
