"""The number of rows that arrived in each partition on each day after its first write, from the timeline.

Reads the write statistics of commits, also of archived ones, each commit once. Compactions and clusterings
only move rows and do not count. A bootstrapped partition has rows of unknown days, so it is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

from hudisql.errors import NoSuchPathError
from hudisql.format.paths.file_names import parse_log_file_name
from hudisql.format.timeline.commit_metadata import CommitMetadata, WriteStat
from hudisql.format.timeline.instant import BOOTSTRAP_INSTANT_TIMES, COMMIT_ACTIONS, second_of
from hudisql.ingest.split.estimate import INCREMENTS
from hudisql.table.history.timeline_window import MOVING_OPERATIONS
from hudisql.table.hudi_table import HudiTable
from hudisql.table.listed_again import read_listed_again
from hudisql.table.timeline.archived_timeline import read_archived_entries
from hudisql.table.timeline.instant_files import read_commits

_SECONDS_A_DAY = 24 * 60 * 60


@dataclass(slots=True)
class Arrivals:
    """Rows by partition and second of their commit; `commits` are the instant times of these commits.

    Rows of a commit that is rolled back later stay. Memory: some hundred bytes for each commit and partition
    that it wrote.
    """

    commits: set[str] = field(default_factory=set)
    rows: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    bootstrapped: set[str] = field(default_factory=set)

    def increments(self) -> pa.Table:
        """The columns of `INCREMENTS`, a row for each partition and day with rows."""
        found: dict[tuple[str, int], int] = defaultdict(int)
        for path, seconds in self._known():
            first = min(seconds)
            for second, rows in seconds.items():
                found[path, (second - first) // _SECONDS_A_DAY] += rows
        paths, days = [key[0] for key in found], [key[1] for key in found]
        return pa.table([paths, days, list(found.values())], schema=INCREMENTS)

    def ages(self, now: datetime) -> dict[str, int]:
        """Whole days since each partition's first write; `now` is in the time zone of the timeline."""
        second = int(now.replace(tzinfo=UTC).timestamp())
        return {path: max(0, second - min(seconds)) // _SECONDS_A_DAY for path, seconds in self._known()}

    def _known(self) -> Iterator[tuple[str, dict[int, int]]]:
        return ((path, some) for path, some in self.rows.items() if path not in self.bootstrapped)


def read_arrivals(table: HudiTable, known: Arrivals | None = None) -> Arrivals:
    """The arrivals so far; with `known`, which is extended, only commits that are not in it are read.

    Archived commits are read the first time, and if others archive while the timeline is read. Raises
    CorruptTableError, UnsupportedTableError, StorageError.
    """
    arrivals = Arrivals() if known is None else known
    if known is not None:
        with suppress(NoSuchPathError):
            return _read_active(table, arrivals)
        table = table.reopened()
    return read_listed_again(table, lambda current: _read_active(current, _read_archived(current, arrivals)))


def _read_archived(table: HudiTable, arrivals: Arrivals) -> Arrivals:
    for entry in read_archived_entries(table):
        instant, metadata = entry.instant, entry.commit_metadata
        if instant.is_completed and instant.action in COMMIT_ACTIONS and metadata is not None:
            _add(arrivals, instant.timestamp, metadata)
    return arrivals


def _read_active(table: HudiTable, arrivals: Arrivals) -> Arrivals:
    new = [commit for commit in table.timeline.commits if commit.timestamp not in arrivals.commits]
    for instant, metadata in zip(new, read_commits(table, new), strict=True):
        _add(arrivals, instant.timestamp, metadata)
    return arrivals


def _add(arrivals: Arrivals, instant_time: str, metadata: CommitMetadata) -> None:
    if instant_time in arrivals.commits:
        return
    arrivals.commits.add(instant_time)
    if instant_time in BOOTSTRAP_INSTANT_TIMES:
        arrivals.bootstrapped.update(metadata.partition_to_write_stats)
        return
    if metadata.compacted or metadata.operation_type in MOVING_OPERATIONS:
        return
    second = int(second_of(instant_time).timestamp())
    for path, stats in metadata.partition_to_write_stats.items():
        rows = sum(map(_arrived, stats))
        if rows:
            seconds = arrivals.rows[path]
            seconds[second] = seconds.get(second, 0) + rows


def _arrived(stat: WriteStat) -> int:
    """The rows that came with the commit: `num_writes` of a base file counts those it had before, too."""
    # Archives of some writers have nulls.
    counted = (stat.num_inserts or 0) + (stat.num_update_writes or 0) + (stat.num_deletes or 0)
    is_log = parse_log_file_name((stat.path or "").rpartition("/")[2]) is not None
    return counted or (stat.num_writes if is_log else 0) or 0
