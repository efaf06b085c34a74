"""An index lives with a table of real files: own flushes, failed ones, and commits of others in any order."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as some

from hudisql.format.timeline.instant import Instant, InstantState
from hudisql.ingest.index.partition_index import PendingKeys
from hudisql.ingest.index.partition_indexes import PartitionIndexes
from hudisql.ingest.index.sorted_index import SortedIndex
from hudisql.ingest.index.tag import find_in_partition, tag_keys
from hudisql.storage import Storage
from hudisql.write.index.slice_key_lookup import read_keys
from tests.ingest.index.test_rebuild import lookups_of
from tests.ingest.small_tables import SmallTable, instant_time

PATH = "dt=a"
NOW = datetime(2026, 11, 22, tzinfo=UTC)
KEYS = [f"k{number}" for number in range(24)]
NUMBERS = {instant_time(number): number for number in range(100)}
ACTIONS = some.sampled_from(["flush", "flush", "failed flush", "insert", "delete", "cluster", "compact"])
STEPS = some.lists(
    some.tuples(ACTIONS, some.lists(some.sampled_from(KEYS), unique=True, min_size=1, max_size=12)),
    min_size=3,
    max_size=10,
)


class Life:
    """The table, its indexes, and after each step whether each key is stored once."""

    def __init__(self, directory: Path, bits: int) -> None:
        self.table = SmallTable(directory)
        self.indexes = PartitionIndexes(in_memory=lambda: SortedIndex(bits))
        self.number = 0
        self.model: set[str] = set()

    def step(self, action: str, keys: list[str]) -> None:
        self.number += 1
        match action:
            case "flush" | "failed flush":
                self._flush(keys, commits=action == "flush")
            case "insert":
                new = [key for key in keys if key not in self.model]
                # Writers with other indexes put new keys into logs.
                place = min(self._stored(), default=None) if self.number % 2 else None
                stat = (
                    self._base_file(f"o{self.number}", new)
                    if place is None
                    else self._log_file(place, new, [])
                )
                self.table.commit(self.number, [stat])
                self.model.update(new)
            case "delete":
                self._delete(set(keys))
            case "cluster":
                self._cluster()
            case "compact":
                self._compact()
        stored = [key for held in self._stored().values() for key in held]
        assert sorted(stored) == sorted(self.model)

    def _stored(self) -> dict[str, list[str]]:
        return {
            file_id: [key for batch in read_keys(Storage(), lookup) for key in batch.column(0).to_pylist()]
            for file_id, lookup in lookups_of(self.table.open(), PATH).items()
        }

    def _base_file(self, file_id: str, keys: list[str]):
        return self.table.base_file(PATH, file_id, self.number, keys)

    def _log_file(self, file_id: str, keys: list[str], deleted: list[str]):
        lookup = lookups_of(self.table.open(), PATH)[file_id]
        base = NUMBERS[lookup.file_slice.base_instant_time]
        return self.table.log_file(PATH, file_id, base, self.number, keys, deleted)

    def _flush(self, keys: list[str], *, commits: bool) -> None:
        table = self.table.open()
        index = self.indexes.get(table, PATH, NOW)
        assert index is not None
        tagged = tag_keys(index, pa.array(keys), find_in_partition(table, PATH))
        places = tagged.file_ids.to_pylist()
        self.table.begin(self.number)
        stats = [
            self._log_file(
                file_id, [key for key, place in zip(keys, places, strict=True) if place == file_id], []
            )
            for file_id in sorted({each for each in places if each is not None})
        ]
        new = pa.array([place is None for place in places])
        stats.append(self._base_file(f"n{self.number}", pa.array(keys).filter(new).to_pylist()))
        pending = PendingKeys(index)
        hashes = tagged.hashes[new.to_numpy(zero_copy_only=False)]
        pending.add(hashes, pa.array([f"n{self.number}"] * len(hashes), pa.string()))
        if commits:
            self.table.commit(self.number, stats)
            instant = Instant(instant_time(self.number), "deltacommit", InstantState.COMPLETED)
            self.indexes.publish([pending], instant)
            self.model.update(keys)

    def _delete(self, keys: set[str]) -> None:
        stats = [
            self._log_file(file_id, [], sorted(keys & set(held)))
            for file_id, held in self._stored().items()
            if keys & set(held)
        ]
        self.table.commit(self.number, stats)
        self.model -= keys

    def _cluster(self) -> None:
        stored = self._stored()
        rows = [key for held in stored.values() for key in held]
        stats = [
            self._base_file(f"c{self.number}-{part}", rows[part::2]) for part in range(2) if rows[part::2]
        ]
        self.table.commit(
            self.number,
            stats,
            action="replacecommit",
            operation="CLUSTER",
            replaced={PATH: tuple(stored)},
        )

    def _compact(self) -> None:
        lookups = lookups_of(self.table.open(), PATH)
        stored = self._stored()
        stats = [
            self._base_file(file_id, stored[file_id])
            for file_id, lookup in lookups.items()
            if lookup.file_slice.has_log_files
        ]
        self.table.commit(self.number, stats, action="commit", operation="COMPACT")


@settings(max_examples=settings().max_examples // 3)
@given(bits=some.sampled_from([1, 4, 48]), steps=STEPS)
@example(
    bits=1,
    steps=[*[("flush", ["k1"])] * 4, ("insert", ["k0"]), ("compact", ["k0"]), ("flush", ["k0"])],
)
def test_each_key_is_stored_once_whatever_writers_do(bits: int, steps: list[tuple[str, list[str]]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        life = Life(Path(directory), bits)
        for action, keys in steps:
            life.step(action, keys)
