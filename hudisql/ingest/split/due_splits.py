"""The partitions of one table that are due for their first or another split.

A partition is split at its split point, and again when its buckets are too large or other writers have put
keys elsewhere. Partitions are checked when events arrive for them; with `split => 'now'` all of them once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from hudisql.format.timeline.instant import second_of
from hudisql.ingest.split.arrivals import Arrivals, read_arrivals
from hudisql.ingest.split.estimate import SMALL_TABLE_BYTES, SplitPoint, choose_split_point
from hudisql.ingest.split.partition_split import BUCKET_BYTES, PartitionSplit
from hudisql.ingest.split.split_option import SplitKind, SplitOption
from hudisql.ingest.split.table_splits import TableSplits
from hudisql.table.files.snapshot import list_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import list_partitions
from hudisql.table.properties.timeline_clock import now_on_timeline

_MOST_LISTED: Final = 1_000
_ESTIMATE_SECONDS: Final = 600.0
_PUT_OFF_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class SplitLimits:
    """`bucket_bytes` is the approximate size of a bucket.

    A partition with foreign file groups of more than `foreign_share`, or with keys in wrong buckets, is split
    again, `resplit_seconds` after its last split.
    """

    bucket_bytes: int = BUCKET_BYTES
    foreign_share: float = 0.1
    resplit_seconds: float = 600.0


@dataclass
class DueSplits:
    """The due partitions of one table, in the order in which they became due."""

    option: SplitOption
    clock: Callable[[], float]
    limits: SplitLimits = field(default_factory=SplitLimits)
    _wanted: dict[str, None] = field(default_factory=dict)
    _arrivals: Arrivals | None = None
    _point: SplitPoint | None = None
    _estimated_at: float = 0.0
    _has_looked: bool = False
    _put_off: dict[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def next(self) -> str:
        """Remove the first partition and return it."""
        path = next(iter(self._wanted))
        del self._wanted[path]
        return path

    def put_off(self, path: str) -> None:
        """The split of the partition has failed: it is not due again for ten minutes."""
        self._put_off[path] = self.clock() + _PUT_OFF_SECONDS

    def look(self, table: HudiTable, splits: TableSplits, paths: Iterable[str]) -> None:
        """Find out which of the partitions are due. Raises CorruptTableError, StorageError."""
        if self.option.kind is SplitKind.NEVER or not table.properties.populate_meta_fields:
            return
        candidates = dict.fromkeys(paths)
        if self.option.kind is SplitKind.NOW and not self._has_looked:
            candidates.update(dict.fromkeys(partition.path for partition in list_partitions(table)))
        self._has_looked = True
        clock = self.clock()
        candidates = {path: None for path in candidates if self._put_off.get(path, clock) <= clock}
        if not candidates:
            # Reading all commits is left for when rows come: most tables of a worker are idle.
            return
        now = now_on_timeline(table)
        if self.option.kind is not SplitKind.NOW:
            self._arrivals = read_arrivals(table, self._arrivals)
        ages = {} if self._arrivals is None else self._arrivals.ages(now)
        point = self._split_point(table, ages)
        splits.look_at(table, candidates)
        for path in candidates:
            split = splits.split_of(table, path)
            if split is not None:
                is_due = self._is_due_again(split, splits.is_mixed(split), now)
            else:
                rows = 0 if self._arrivals is None else sum(self._arrivals.rows.get(path, {}).values())
                is_due = point.is_due(ages.get(path, 0), rows)
            if is_due:
                self._wanted[path] = None

    def _is_due_again(self, split: PartitionSplit, is_mixed: bool, now: datetime) -> bool:
        if split.is_outgrown(self.limits.bucket_bytes):
            return True
        is_foreign = split.foreign_bytes > self.limits.foreign_share * split.bytes
        if not is_mixed and not is_foreign:
            return False
        last = second_of(split.instant_time)
        return (now.replace(tzinfo=UTC) - last).total_seconds() >= self.limits.resplit_seconds

    def _split_point(self, table: HudiTable, ages: dict[str, int]) -> SplitPoint:
        """The split point, estimated again every ten minutes."""
        clock = self.clock()
        is_estimated = self.option.kind is SplitKind.AUTO
        if self._point is None or (is_estimated and clock - self._estimated_at >= _ESTIMATE_SECONDS):
            arrivals = self._arrivals or Arrivals()
            size = _table_bytes(table) if is_estimated else 0
            self._point = choose_split_point(self.option, arrivals.increments(), ages, size)
            self._estimated_at = clock
        return self._point


def _table_bytes(table: HudiTable) -> int:
    """The bytes of the table's files; listing stops once the table is known not to be small."""
    most, found = SMALL_TABLE_BYTES, 0
    for number, partition in enumerate(list_partitions(table)):
        found += sum(file_slice.length for file_slice in list_file_slices(table, [partition.path], None))
        if found >= most or number >= _MOST_LISTED:
            return max(found, most)
    return found
