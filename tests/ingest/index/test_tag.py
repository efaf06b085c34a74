"""Tagging by hashes that many keys share: each key keeps one file group, whatever happens to the groups."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some

from hudisql.errors import NoSuchStateError
from hudisql.format.keys.key_hashes import xxhash64
from hudisql.ingest.index.key_index import KeyIndex
from hudisql.ingest.index.partition_index import PartitionIndex, PendingKeys
from hudisql.ingest.index.rocksdb_index import RocksDbIndex
from hudisql.ingest.index.sorted_index import SortedIndex
from hudisql.ingest.index.tag import find_in_partition, tag_keys
from tests.ingest.small_tables import SmallTable

KEYS = [f"k{number}" for number in range(40)]
ACTIONS = some.one_of(
    some.tuples(
        some.sampled_from(["flush", "flush", "failed flush"]),
        some.lists(some.sampled_from(KEYS), unique=True, min_size=1, max_size=25),
        some.integers(1, 3),
    ),
    some.tuples(some.just("cluster"), some.integers(0, 2), some.integers(1, 2)),
    some.tuples(some.just("delete"), some.lists(some.sampled_from(KEYS), unique=True), some.just(0)),
)


class Partition:
    """File groups as dicts: what a table holds, by file id and key, and the service that writes it."""

    def __init__(self, keys: KeyIndex) -> None:
        self.groups: dict[str, dict[str, int]] = {}
        self.index = PartitionIndex("p", keys)
        self.made = 0

    def find(self, file_id: str, keys: pa.StringArray) -> list[pa.Array]:
        return [pa.array([key for key in keys.to_pylist() if key in self.groups[file_id]], pa.string())]

    def new_group(self) -> str:
        self.made += 1
        return f"g{self.made}"

    def flush(self, keys: list[str], value: int, new_groups: int, *, commits: bool) -> None:
        """Known keys go to their groups, new ones to new groups, the index learns after the commit."""
        tagged = tag_keys(self.index, pa.array(keys), self.find)
        made = [self.new_group() for _ in range(new_groups)]
        old = tagged.file_ids.to_pylist()
        placed = [each or made[number % new_groups] for number, each in enumerate(old)]
        pending = PendingKeys(self.index)
        is_new = pa.array([each is None for each in old])
        pending.add(tagged.hashes[is_new.to_numpy(zero_copy_only=False)], pa.array(placed).filter(is_new))
        if not commits:
            return
        for key, file_id in zip(keys, placed, strict=True):
            self.groups.setdefault(file_id, {})[key] = value
        pending.publish()

    def delete(self, keys: list[str]) -> None:
        tagged = tag_keys(self.index, pa.array(keys, pa.string()), self.find)
        for key, file_id in zip(keys, tagged.file_ids.to_pylist(), strict=True):
            if file_id is not None:
                self.groups[file_id].pop(key, None)

    def cluster(self, left: int, count: int) -> None:
        """Move the rows of all groups but some to new ones."""
        moved = sorted(self.groups)[left:]
        rows = {key: value for file_id in moved for key, value in self.groups.pop(file_id).items()}
        self.index.drop_groups(moved)
        made = [self.new_group() for _ in range(count)]
        for number, (key, value) in enumerate(rows.items()):
            self.groups.setdefault(made[number % count], {})[key] = value
        for file_id in made:
            if file_id in self.groups:
                self.index.add(xxhash64(pa.array(list(self.groups[file_id]))), file_id)

    def rows(self) -> dict[str, list[int]]:
        found = defaultdict(list)
        for rows in self.groups.values():
            for key, value in rows.items():
                found[key].append(value)
        return dict(found)


def _live(partition: Partition, actions) -> None:
    model: dict[str, int] = {}
    for value, (action, what, count) in enumerate(actions):
        if action == "cluster":
            partition.cluster(what, count)
        elif action == "delete":
            partition.delete(what)
            for key in what:
                model.pop(key, None)
        else:
            partition.flush(what, value, count, commits=action == "flush")
            model |= dict.fromkeys(what, value) if action == "flush" else {}
        assert partition.rows() == {key: [value] for key, value in model.items()}


@given(bits=some.sampled_from([1, 3, 5, 48]), actions=some.lists(ACTIONS, max_size=12))
def test_no_row_is_lost_or_doubled_where_hashes_collide(bits: int, actions) -> None:
    _live(Partition(SortedIndex(bits)), actions)


def test_the_index_on_disk_tags_as_well() -> None:
    keys = RocksDbIndex(hash_bits=3)
    flush, again = ("flush", KEYS[:30], 3), ("flush", KEYS[10:], 2)
    _live(Partition(keys), [flush, again, ("delete", KEYS[:5], 0), ("cluster", 2, 2), again, flush])
    keys.close()


def test_only_doubtful_keys_are_looked_up() -> None:
    partition = Partition(SortedIndex())
    partition.flush(KEYS[:30], 1, 3, commits=True)
    asked: list[str] = []

    def find(file_id: str, keys: pa.StringArray) -> list[pa.Array]:
        asked.extend(keys.to_pylist())
        return partition.find(file_id, keys)

    tagged = tag_keys(partition.index, pa.array(KEYS), find)
    assert asked == []
    assert tagged.file_ids.null_count == 10
    assert tagged.file_ids.slice(0, 3).to_pylist() == ["g1", "g2", "g3"]
    # The same key in two groups, as after a race of writers: the stored keys decide.
    partition.index.add(xxhash64(pa.array(["k0"])), "g2")
    assert tag_keys(partition.index, pa.array(["k0", "k1"]), find).file_ids.to_pylist() == ["g1", "g2"]
    assert asked == ["k0"]


def test_keys_of_one_flush_with_one_hash_are_told_apart() -> None:
    partition = Partition(SortedIndex(1))
    same = [key for key in KEYS if xxhash64(pa.array([key]))[0] >> np.uint64(63)][:3]
    partition.flush(same[:1], 1, 1, commits=True)
    # Alone a key with a known hash goes to that group, where later look-ups find it.
    assert tag_keys(partition.index, pa.array(same[1:2]), partition.find).file_ids.to_pylist() == ["g1"]
    tagged = tag_keys(partition.index, pa.array(same), partition.find)
    assert tagged.file_ids.to_pylist() == ["g1", None, None]


def test_an_empty_index_and_no_keys() -> None:
    partition = Partition(SortedIndex())
    assert tag_keys(partition.index, pa.array(["a"]), partition.find).file_ids.to_pylist() == [None]
    assert len(tag_keys(partition.index, pa.array([], pa.string()), partition.find).file_ids) == 0


def test_an_index_of_groups_that_are_gone_must_be_refreshed(tmp_path: Path) -> None:
    partition = Partition(SortedIndex())
    for file_id in ("g1", "g2"):
        partition.index.add(xxhash64(pa.array(["a"])), file_id)
    find = find_in_partition(SmallTable(tmp_path).open(), "p")
    with pytest.raises(
        NoSuchStateError, match=r"of partition 'p' names the file group g1[^\n]*\n.*refresh the index"
    ):
        tag_keys(partition.index, pa.array(["a"]), find)
