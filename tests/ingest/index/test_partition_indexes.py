"""The indexes of a table: built, kept up to date, and dropped by age, memory or for what they cannot hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from hudisql.errors import StorageError
from hudisql.format.keys.key_hashes import xxhash64
from hudisql.format.timeline.instant import Instant, InstantState
from hudisql.ingest.index import partition_index, partition_indexes
from hudisql.ingest.index.partition_index import PendingKeys
from hudisql.ingest.index.partition_indexes import IndexLimits, NoIndexReason, PartitionIndexes
from hudisql.ingest.index.rocksdb_index import RocksDbIndex
from tests.ingest.index.test_rebuild import KEYS, groups_of
from tests.ingest.small_tables import SmallTable, instant_time

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
A, B, C = "dt=2026-11-20", "dt=2026-11-21", "dt=2026-11-22"


@pytest.fixture
def table(tmp_path: Path) -> SmallTable:
    table = SmallTable(tmp_path / "table")
    stats = [table.base_file(path, f"f{path[-1]}", 1, KEYS[:10]) for path in (A, B, C)]
    table.commit(1, stats)
    return table


def _commit(table: SmallTable, number: int, path: str, keys: list[str]) -> Instant:
    table.commit(number, [table.base_file(path, f"new{number}", number, keys)])
    return Instant(instant_time(number), "deltacommit", InstantState.COMPLETED)


def test_indexes_follow_the_table(table: SmallTable) -> None:
    indexes = PartitionIndexes()
    index = indexes.get(table.open(), A, NOW)
    assert index is not None
    assert groups_of(index, KEYS[8:12]) == ["f0", "f0", None, None]
    _commit(table, 2, A, [KEYS[10]])
    assert indexes.get(table.open(), A, NOW) is index
    assert groups_of(index, KEYS[8:12]) == ["f0", "f0", "new2", None]
    # A commit that the index has is undone: it is built again.
    (table.path / ".hoodie" / f"{instant_time(2)}.deltacommit").unlink()
    again = indexes.get(table.open(), A, NOW)
    assert again is not None
    assert again is not index
    assert groups_of(again, KEYS[8:12]) == ["f0", "f0", None, None]


def test_new_keys_are_known_after_their_commit_only(table: SmallTable) -> None:
    indexes = PartitionIndexes()
    index = indexes.get(table.open(), A, NOW)
    assert index is not None
    for number, is_committed in ((2, False), (3, True)):
        pending = PendingKeys(index)
        pending.add(xxhash64(pa.array(KEYS[10:12])), pa.array([f"new{number}"] * 2))
        assert len(pending) == 2
        assert groups_of(index, KEYS[10:12]) == [None, None]
        if is_committed:
            indexes.publish([pending], _commit(table, number, A, KEYS[10:12]))
    assert groups_of(index, KEYS[9:13]) == ["f0", "new3", "new3", None]
    # Its own commit is no reason to read anything.
    for file in (table.path / A).glob("*.parquet"):
        file.write_bytes(b"not read")
    assert indexes.get(table.open(), A, NOW) is index


def test_keys_of_an_index_that_was_built_again_meanwhile_are_not_lost(table: SmallTable) -> None:
    indexes = PartitionIndexes()
    index = indexes.get(table.open(), A, NOW)
    assert index is not None
    pending = PendingKeys(index)
    pending.add(xxhash64(pa.array(KEYS[10:11])), pa.array(["new5"]))
    (table.path / ".hoodie" / f"{instant_time(1)}.deltacommit").rename(
        table.path / ".hoodie" / f"{instant_time(2)}.deltacommit"
    )
    assert indexes.get(table.open(), A, NOW) is not index
    indexes.publish([pending], _commit(table, 5, A, KEYS[10:11]))
    found = indexes.get(table.open(), A, NOW)
    assert found is not None
    assert groups_of(found, KEYS[10:11]) == ["new5"]


def test_partitions_that_are_too_old_have_none(table: SmallTable) -> None:
    indexes = PartitionIndexes(IndexLimits(index_days=2))
    opened = table.open()
    assert indexes.get(opened, A, NOW) is None
    assert indexes.get(opened, B, NOW) is not None
    assert indexes.without_index == {A: NoIndexReason.EXPIRED}
    indexes.refresh(opened, NOW + timedelta(days=1))
    assert indexes.without_index == {A: NoIndexReason.EXPIRED, B: NoIndexReason.EXPIRED}
    assert indexes.sizes() == {}
    indexes.drop(C, NoIndexReason.SPLIT)
    assert indexes.get(opened, C, NOW) is None


def test_the_least_recently_used_goes_when_memory_is_short(table: SmallTable) -> None:
    opened = table.open()
    indexes = PartitionIndexes(IndexLimits(memory_bytes=160))
    assert indexes.get(opened, A, NOW) is not None
    assert indexes.get(opened, B, NOW) is not None
    assert indexes.get(opened, A, NOW) is not None
    assert indexes.get(opened, C, NOW) is not None
    assert indexes.sizes() == {A: 80, C: 80}
    assert indexes.nbytes == 160
    assert indexes.get(opened, B, NOW) is None
    assert indexes.without_index == {B: NoIndexReason.MEMORY}
    # Once there is room again it comes back.
    indexes.drop(A, NoIndexReason.SPLIT)
    assert indexes.get(opened, B, NOW) is not None
    assert indexes.without_index == {A: NoIndexReason.SPLIT}


def test_or_it_goes_to_disk(table: SmallTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A database's write buffers are larger than indexes of ten keys.
    monkeypatch.setattr(RocksDbIndex, "nbytes", 0)
    disk = tmp_path / "disk"
    disk.mkdir()
    indexes = PartitionIndexes(IndexLimits(memory_bytes=159, on_disk=lambda: RocksDbIndex(str(disk))))
    assert indexes.get(table.open(), A, NOW) is not None
    assert indexes.get(table.open(), B, NOW) is not None
    assert len(list(disk.iterdir())) == 1
    _commit(table, 2, A, [KEYS[10]])
    index = indexes.get(table.open(), A, NOW)
    assert index is not None
    assert isinstance(index.keys, RocksDbIndex)
    assert groups_of(index, KEYS[9:12]) == ["f0", "new2", None]
    assert indexes.without_index == {}
    indexes.close()
    assert list(disk.iterdir()) == []


def test_a_partition_with_too_many_file_groups_has_none(
    table: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_index, "MOST_GROUPS", 1)
    indexes = PartitionIndexes()
    index = indexes.get(table.open(), A, NOW)
    assert index is not None
    pending = PendingKeys(index)
    pending.add(xxhash64(pa.array(KEYS[10:11])), pa.array(["new2"]))
    indexes.publish([pending], _commit(table, 2, A, KEYS[10:11]))
    assert indexes.get(table.open(), A, NOW) is None
    assert indexes.without_index == {A: NoIndexReason.UNSUPPORTED}


def test_an_index_that_could_not_follow_is_built_again(
    table: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes = PartitionIndexes()
    kept = indexes.get(table.open(), C, NOW)
    for path in (A, B):
        assert indexes.get(table.open(), path, NOW) is not None
    _commit(table, 2, A, [KEYS[10]])
    _commit(table, 3, B, [KEYS[10]])

    def fail(*_: object) -> None:
        raise StorageError("the store does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(partition_indexes, "apply_changes", fail)
        with pytest.raises(StorageError, match="does not answer"):
            indexes.refresh(table.open(), NOW)
    assert set(indexes.sizes()) == {C}
    for path, group in ((A, "new2"), (B, "new3")):
        index = indexes.get(table.open(), path, NOW)
        assert index is not None
        assert groups_of(index, [KEYS[10]]) == [group]
    assert indexes.get(table.open(), C, NOW) is kept
