"""Which partitions of a table are split, and into which of them other writers have put keys against the hash.

Worker commits and splits write each key to its bucket. Another writer, which knows file ids only, may put a
new key into any small file group: only a look-up finds it then, until the partition is split again. Each
commit of a worker stores which commits it has seen, so that a restart need not read the whole timeline.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hudisql.errors import CorruptTableError
from hudisql.format.paths.split_file_id import split_bucket_of
from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.format.timeline.instant import WRITE_ACTIONS
from hudisql.ingest.offsets import OFFSETS_KEY
from hudisql.ingest.split.partition_split import PartitionSplit, find_split
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import file_slices_at
from hudisql.table.history.timeline_window import MOVING_OPERATIONS
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.instant_files import read_commits

SPLITS_KEY: Final = "hudisql.ingest.splits"
"""Key of the extra metadata."""


@dataclass(frozen=True, slots=True)
class SeenCommits:
    """What a worker knew when a commit began.

    A partition is mixed if it was split at or before the instant in `mixed`: that of a commit of another
    writer which put new keys into its buckets. So is every partition that was split until `unknown`.
    `pending` were the writes that had not completed.
    """

    pending: frozenset[str] = frozenset()
    mixed: Mapping[str, str] = field(default_factory=dict)
    unknown: str = ""

    def to_text(self) -> str:
        """The value of SPLITS_KEY."""
        values = {"pending": sorted(self.pending), "mixed": dict(self.mixed), "unknown": self.unknown}
        return json.dumps(values, sort_keys=True)


def read_seen_commits(text: str, base_path: str) -> SeenCommits:
    """The value of SPLITS_KEY. Raises CorruptTableError."""
    try:
        values: dict[str, Any] = json.loads(text)
        return SeenCommits(frozenset(values["pending"]), dict(values["mixed"]), str(values["unknown"]))
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptTableError(
            f"a commit of {base_path} has split metadata '{text}' that cannot be read: {error}"
        ) from error


class TableSplits:
    """The splits of one table, as of its last opening. Not for several threads at once."""

    def __init__(self) -> None:
        self._known: dict[str, PartitionSplit | None] = {}
        self._commits: frozenset[str] | None = None
        self._seen = SeenCommits()

    def split_of(self, table: HudiTable, path: str) -> PartitionSplit | None:
        """The split of a partition, None if it has none. Raises CorruptTableError, StorageError."""
        self.look_at(table, [path])
        partition_split = self._known[path]
        if partition_split is not None:
            self.look_back(table)
        return partition_split

    def look_at(self, table: HudiTable, paths: Iterable[str]) -> None:
        """List the partitions that are not known yet, together. Raises CorruptTableError, StorageError."""
        unknown = [path for path in paths if path not in self._known]
        if not unknown:
            return
        slices: dict[str, list[FileSlice]] = {path: [] for path in unknown}
        for file_slice in file_slices_at(table, unknown):
            slices[file_slice.partition_path].append(file_slice)
        self._known.update((path, find_split(path, found)) for path, found in slices.items())

    def is_mixed(self, split: PartitionSplit) -> bool:
        """True if keys of the partition may be in other buckets than their own."""
        until = max(self._seen.unknown, self._seen.mixed.get(split.path, ""))
        return split.instant_time <= until

    def refresh(self, table: HudiTable) -> None:
        """Read the commits of other writers. Raises CorruptTableError, StorageError."""
        timeline = table.timeline
        commits = {commit.timestamp: commit for commit in timeline.commits}
        if self._commits is None:
            self._known.clear()
            return
        first = timeline.first_active_time
        gone = any(
            first is not None and first <= commit and commit not in commits for commit in self._commits
        )
        new = [commits[commit] for commit in sorted(set(commits) - self._commits)]
        if new or gone:
            self._known.clear()
        self._note(
            dict(
                zip(
                    (instant.timestamp for instant in new),
                    read_commits(table, new),
                    strict=True,
                )
            )
        )
        self._remember(table)

    def extra_metadata(self) -> Mapping[str, str]:
        """The extra metadata of the next commit; empty for a table without splits."""
        return {} if self._commits is None else {SPLITS_KEY: self._seen.to_text()}

    def grow(self, instant_time: str, written: Mapping[str, int]) -> None:
        """A commit of this worker: its instant time, and the bytes that it appended to each partition."""
        if self._commits is not None:
            self._commits |= {instant_time}
        for path, size in written.items():
            partition_split = self._known.get(path)
            if partition_split is not None:
                self._known[path] = replace(partition_split, bytes=partition_split.bytes + size)

    def forget(self, path: str) -> None:
        """Look at the partition again at its next use."""
        self._known.pop(path, None)

    def look_back(self, table: HudiTable) -> None:
        """Read the active timeline once: what the newest commit of a worker knew, and all commits since.

        Call it before a split. Raises CorruptTableError, StorageError.
        """
        if self._commits is not None:
            return
        commits = table.timeline.commits
        times = [commit.timestamp for commit in commits]
        metadata = dict(zip(times, read_commits(table, commits), strict=True))
        seen = [extra for time in times if (extra := metadata[time].extra_metadata.get(SPLITS_KEY))]
        latest = times[-1] if times else ""
        if seen:
            self._seen = read_seen_commits(seen[-1], table.base_path)
            first = table.timeline.first_active_time or ""
            active = {instant.timestamp for instant in table.timeline.instants}
            # What was archived before a worker saw it is not known.
            if any(instant < first and instant not in active for instant in self._seen.pending):
                self._seen = replace(self._seen, unknown=latest)
        else:
            self._seen = SeenCommits(unknown=latest)
        self._note(metadata)
        self._remember(table)

    def _note(self, metadata: Mapping[str, CommitMetadata]) -> None:
        mixed = dict(self._seen.mixed)
        for time, commit in metadata.items():
            for path in _mixed_partitions(commit):
                mixed[path] = max(mixed.get(path, ""), time)
        self._seen = replace(self._seen, mixed=mixed)

    def _remember(self, table: HudiTable) -> None:
        timeline = table.timeline
        self._commits = frozenset(commit.timestamp for commit in timeline.commits)
        pending = frozenset(
            instant.timestamp for instant in timeline.pending if instant.action in WRITE_ACTIONS
        )
        self._seen = replace(self._seen, pending=pending)


def _mixed_partitions(metadata: CommitMetadata) -> Iterable[str]:
    """The partitions in whose buckets the commit of another writer has put new keys."""
    is_own = OFFSETS_KEY in metadata.extra_metadata or SPLITS_KEY in metadata.extra_metadata
    if is_own or metadata.compacted or metadata.operation_type in MOVING_OPERATIONS:
        return
    for path, stats in metadata.partition_to_write_stats.items():
        if any(stat.num_inserts and split_bucket_of(stat.file_id) is not None for stat in stats):
            yield path
