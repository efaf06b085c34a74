"""The partitions of a table between the commits of its feed: listed again after commits of other writers.

A new partition needs a commit: if the timeline has only known commits, there are no other partitions. The
marker file shows whether a clean has deleted the directory of a partition.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hudisql.format.paths.partition_metadata import PARTITION_METADATA_FILE
from hudisql.format.timeline.instant import COMMIT, DELTA_COMMIT, Instant, InstantState
from hudisql.ingest.flush import IngestTarget
from hudisql.storage import FileInfo, join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import partition_of
from hudisql.write.keygen.partition_paths import PartitionPaths


class KnownPartitions:
    """The partition paths of one table, as of its last opening."""

    def __init__(self) -> None:
        self._paths: PartitionPaths | None = None
        self._made_for: tuple[object, ...] = ()
        self._commits: frozenset[Instant] = frozenset()

    def paths(self, target: IngestTarget, used: Collection[str]) -> PartitionPaths:
        """The partition paths of the target's table; `used` are those of the rows to write."""
        table = target.table
        made_for = (table.properties, table.schema, target.options.key_generator)
        commits = frozenset(table.timeline.commits)
        is_known = self._made_for == made_for and commits <= self._commits
        if self._paths is None or not is_known or not self._are_there(table, used):
            self._paths = PartitionPaths(table, target.options.key_generator)
            self._made_for = made_for
        self._commits = commits
        return self._paths

    def committed(self, table: HudiTable, used: Collection[str], instant_time: str) -> None:
        """A commit of the feed at this instant has written to the partitions `used`."""
        if self._paths is None:
            return
        new = [each for each in used if each not in self._paths.existing]
        for path, mark in zip(new, _marks(table, new), strict=True):
            # Deletes of rows that are not there make no partition.
            if mark is not None:
                self._paths.add(partition_of(table, path))
        action = DELTA_COMMIT if table.is_merge_on_read else COMMIT
        self._commits |= {Instant(instant_time, action, InstantState.COMPLETED)}

    def _are_there(self, table: HudiTable, used: Collection[str]) -> bool:
        assert self._paths is not None
        known = [each for each in used if each in self._paths.existing]
        return all(mark is not None for mark in _marks(table, known))


def _marks(table: HudiTable, paths: Sequence[str]) -> list[FileInfo | None]:
    """The marker file of each partition, None where it has none."""
    return table.storage.infos([join(table.base_path, path, PARTITION_METADATA_FILE) for path in paths])
