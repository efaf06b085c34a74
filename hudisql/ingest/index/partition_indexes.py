"""The indexes of one table: which partitions have one, for how long, and within which memory.

An index is built when a partition's first events come, follows the table, and is dropped when the partition
is older than `index_days`, at its split, or when memory is short (the one that was used least recently; or
its successor is on disk). Partitions without an index are named with the reason: their events go by bloom
filters.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial

from hudisql.errors import UnsupportedTableError
from hudisql.format.timeline.instant import Instant
from hudisql.ingest.index.index_refresh import TimelinePosition, apply_changes, changes_since, position_of
from hudisql.ingest.index.key_index import KeyIndex
from hudisql.ingest.index.partition_index import PartitionIndex, PendingKeys
from hudisql.ingest.index.partition_time import partition_time
from hudisql.ingest.index.rebuild import build_partition_index
from hudisql.ingest.index.sorted_index import SortedIndex
from hudisql.table.hudi_table import HudiTable


class NoIndexReason(StrEnum):
    """Why a partition has no index."""

    EXPIRED = "older than index_days"
    SPLIT = "split into hash buckets"
    MEMORY = "no memory left for its index"
    UNSUPPORTED = "cannot be indexed"


@dataclass(frozen=True, slots=True)
class IndexLimits:
    """`memory_bytes` of all indexes of the table together; `index_days` None keeps indexes of any age.

    `on_disk` makes an index on disk: with it partitions beyond the memory get such an index, else none.
    """

    memory_bytes: int = 1 << 30
    index_days: int | None = None
    on_disk: Callable[[], KeyIndex] | None = None


class PartitionIndexes:
    """The indexes of one table, all up to date with the same commits. Not for several threads at once."""

    def __init__(
        self, limits: IndexLimits | None = None, in_memory: Callable[[], KeyIndex] = SortedIndex
    ) -> None:
        self._limits = limits or IndexLimits()
        self._in_memory = in_memory
        # The one that was used last is the last one.
        self._indexes: OrderedDict[str, PartitionIndex] = OrderedDict()
        self._on_disk: set[str] = set()
        self._without: dict[str, NoIndexReason] = {}
        self._times: dict[str, datetime] = {}
        self._bytes_dropped: dict[str, int] = {}
        self._position = TimelinePosition()

    @property
    def nbytes(self) -> int:
        """Bytes that all indexes take in memory."""
        return sum(index.nbytes for index in self._indexes.values())

    @property
    def without_index(self) -> Mapping[str, NoIndexReason]:
        """The partitions that had events and have no index, and why."""
        return self._without

    def sizes(self) -> dict[str, int]:
        """Bytes in memory of each index, by partition path."""
        return {path: index.nbytes for path, index in self._indexes.items()}

    def get(
        self, table: HudiTable, path: str, now: datetime, *, is_large: bool = False
    ) -> PartitionIndex | None:
        """The partition's index, built if it has none; None if it is to have none (see `without_index`).

        That of a partition that `is_large` is built on disk, if there are such indexes. `now` is
        timezone-aware. Raises CorruptTableError, StorageError.
        """
        if position_of(table.timeline) != self._position:
            self.refresh(table, now)
        needed = self.nbytes + self._bytes_dropped.get(path, 0)
        if self._without.get(path) is NoIndexReason.MEMORY and needed <= self._limits.memory_bytes:
            del self._without[path]
        if path in self._without:
            return None
        if self._is_expired(table, path, now):
            self.drop(path, NoIndexReason.EXPIRED)
            return None
        if path not in self._indexes:
            self._build(table, path, self._limits.on_disk if is_large else None)
        if path in self._indexes:
            self._indexes.move_to_end(path)
            self._limit_memory(table)
        return self._indexes.get(path)

    def refresh(self, table: HudiTable, now: datetime) -> None:
        """Bring all indexes up to date with the table, and drop those of old partitions.

        Raises CorruptTableError, StorageError; an index that could not be changed is built again when it is
        next asked for.
        """
        for path in [index for index in self._indexes if self._is_expired(table, index, now)]:
            self.drop(path, NoIndexReason.EXPIRED)
        changes = changes_since(table, self._position) if self._indexes else {}
        self._position = position_of(table.timeline)
        left = (
            list(self._indexes) if changes is None else [index for index in self._indexes if index in changes]
        )
        try:
            while left:
                path = left.pop()
                if changes is None:
                    self._rebuild(table, path)
                else:
                    self._change(path, partial(apply_changes, table, self._indexes[path], changes[path]))
        finally:
            for path in left:
                self._close(path)

    def publish(self, pending: Iterable[PendingKeys], commit: Instant) -> None:
        """Let the indexes know the keys of a flush after its commit."""
        for instant in pending:
            path = instant.index.path
            if self._indexes.get(path) is instant.index:
                self._change(path, instant.publish)
            else:
                # Built again since the keys were tagged, without those of this commit.
                self._close(path)
        self._position = self._position.after(commit)

    def drop(self, path: str, reason: NoIndexReason) -> None:
        """Drop a partition's index; it gets no other one, unless it was dropped for lack of memory."""
        self._close(path)
        self._without[path] = reason

    def forget(self, path: str) -> None:
        """Drop a partition's index, if it has one; it is built again when it is next asked for."""
        self._close(path)

    def close(self) -> None:
        """Drop all indexes."""
        for path in list(self._indexes):
            self._close(path)

    def _build(self, table: HudiTable, path: str, on_disk: Callable[[], KeyIndex] | None) -> None:
        keys = (on_disk or self._in_memory)()
        try:
            self._indexes[path] = build_partition_index(table, path, keys)
            if on_disk is not None:
                self._on_disk.add(path)
        except UnsupportedTableError:
            keys.close()
            self._without[path] = NoIndexReason.UNSUPPORTED
        except BaseException:
            keys.close()
            raise

    def _rebuild(self, table: HudiTable, path: str) -> None:
        on_disk = self._limits.on_disk if path in self._on_disk else None
        self._close(path)
        self._build(table, path, on_disk)

    def _change(self, path: str, change: Callable[[], None]) -> None:
        try:
            change()
        except UnsupportedTableError:
            self.drop(path, NoIndexReason.UNSUPPORTED)
        except BaseException:
            self._close(path)
            raise

    def _limit_memory(self, table: HudiTable) -> None:
        while self.nbytes > self._limits.memory_bytes:
            path = next((index for index in self._indexes if index not in self._on_disk), None)
            if path is None:
                return
            self._bytes_dropped[path] = self._indexes[path].nbytes
            if self._limits.on_disk is None:
                self.drop(path, NoIndexReason.MEMORY)
                continue
            self._on_disk.add(path)
            self._rebuild(table, path)

    def _is_expired(self, table: HudiTable, path: str, now: datetime) -> bool:
        if self._limits.index_days is None:
            return False
        begins = self._times.get(path) or partition_time(table, path)
        if begins is None:
            return False
        self._times[path] = begins
        return now - begins > timedelta(days=self._limits.index_days)

    def _close(self, path: str) -> None:
        self._on_disk.discard(path)
        index = self._indexes.pop(path, None)
        if index is not None:
            index.keys.close()
