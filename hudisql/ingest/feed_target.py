"""The table of a feed as it is now, and what depends on it: the parser and the partition paths.

The partitions are kept between the commits of the feed and listed again after commits of other writers. A new
partition needs a commit: if the timeline has only known commits, there are no other partitions. The marker
file shows whether a clean has deleted the directory of a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import pyarrow as pa

from hudisql.format.paths.partition_metadata import PARTITION_METADATA_FILE
from hudisql.format.timeline.instant import COMMIT, DELTA_COMMIT, Instant, InstantState
from hudisql.ingest.flush import IngestTarget
from hudisql.ingest.parse.parsed_batch import ParsedBatch, RecordParser
from hudisql.storage import FileInfo, join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import partition_of
from hudisql.write.keygen.partition_paths import PartitionPaths

OpenTarget = Callable[[], IngestTarget]
AddColumns = Callable[[pa.Schema], None]


class FeedTarget:
    """Opens the table by `open_target`; `add_columns` gives it the columns that only the events have."""

    def __init__(
        self,
        open_target: OpenTarget,
        make_parser: Callable[[HudiTable], RecordParser],
        add_columns: AddColumns | None,
    ) -> None:
        self._open_target = open_target
        self._make_parser = make_parser
        self._add_columns = add_columns
        self._tried_columns: set[str] = set()
        self._partitions = KnownPartitions()
        self.current = self._open()
        self._parser = make_parser(self.table)
        self.paths = self._partitions.paths(self.current, ())

    @property
    def table(self) -> HudiTable:
        """The table as it was opened last."""
        return self.current.table

    def reopen(self, used: Sequence[str] = ()) -> None:
        """Open the table as it is now; `used` are the partitions of the rows that follow."""
        schema = self.table.schema
        self.current = self._open()
        if not schema.equals(self.table.schema):
            self._parser = self._make_parser(self.table)
        self.paths = self._partitions.paths(self.current, used)

    def parse(self, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> ParsedBatch:
        """Parse events; the table gets their new columns first."""
        parsed = self._parser.parse(values, keys)
        new = pa.schema([column for column in parsed.new_columns if column.name not in self._tried_columns])
        if self._add_columns is None or not len(new):
            return parsed
        self._add_columns(new)
        self._tried_columns |= set(new.names)
        self.reopen()
        return self._parser.parse(values, keys)

    def committed(self, paths: Sequence[str], instant_time: str) -> None:
        """The feed has committed rows of these partitions at this instant."""
        self._partitions.committed(self.table, paths, instant_time)

    def _open(self) -> IngestTarget:
        target = self._open_target()
        return replace(target, table=target.table.listed_once())


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
        new = [path for path in used if not self._paths.is_known(path)]
        for path, mark in zip(new, _marks(table, new), strict=True):
            # Deletes of rows that are not there make no partition.
            if mark is not None:
                self._paths.add(partition_of(table, path))
        action = DELTA_COMMIT if table.is_merge_on_read else COMMIT
        self._commits |= {Instant(instant_time, action, InstantState.COMPLETED)}

    def _are_there(self, table: HudiTable, used: Collection[str]) -> bool:
        assert self._paths is not None
        known = [path for path in used if self._paths.is_known(path)]
        return all(mark is not None for mark in _marks(table, known))


def _marks(table: HudiTable, paths: Sequence[str]) -> list[FileInfo | None]:
    """The marker file of each partition, None where it has none."""
    return table.storage.infos([join(table.base_path, path, PARTITION_METADATA_FILE) for path in paths])
