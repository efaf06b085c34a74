"""The active timeline of a table: which instants exist, in which state, and what is visible.

Follows `HoodieActiveTimeline` and the visibility rule of `AbstractTableFileSystemView` in Hudi 0.15: a file
counts if its instant is completed, or older than the active timeline (archived means committed). Does not
read the instants' files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from hudisql.format.timeline.instant import (
    COMMIT_ACTIONS,
    COMPACTION,
    SAVEPOINT,
    WRITE_ACTIONS,
    Instant,
)
from hudisql.format.timeline.timeline_layout import LAYOUT_V1, TimelineLayout
from hudisql.storage import Storage

# The size of the cache of timelines by their files' names: a commit lists its table's several times.
_MOST_TIMELINES: Final = 64


@dataclass(frozen=True)
class Timeline:
    """The active instants of a table, oldest first; each action stands once, in its latest state."""

    instants: tuple[Instant, ...]
    layout: TimelineLayout = LAYOUT_V1

    @cached_property
    def completed(self) -> tuple[Instant, ...]:
        """All completed instants of any action."""
        return tuple(instant for instant in self.instants if instant.is_completed)

    @cached_property
    def pending(self) -> tuple[Instant, ...]:
        """All instants that are requested or inflight."""
        return tuple(instant for instant in self.instants if not instant.is_completed)

    @cached_property
    def commits(self) -> tuple[Instant, ...]:
        """Completed instants that carry commit metadata (commit, deltacommit, replacecommit)."""
        return tuple(instant for instant in self.completed if instant.action in COMMIT_ACTIONS)

    @cached_property
    def pending_compactions(self) -> frozenset[str]:
        """Instant times of compactions that are scheduled and not completed."""
        return frozenset(instant.timestamp for instant in self.pending if instant.action == COMPACTION)

    @cached_property
    def savepoints(self) -> frozenset[str]:
        """Instant times that a completed savepoint protects."""
        return frozenset(instant.timestamp for instant in self.completed if instant.action == SAVEPOINT)

    @property
    def latest_commit(self) -> Instant | None:
        """The newest completed commit of any kind."""
        return self.commits[-1] if self.commits else None

    @cached_property
    def latest_time(self) -> str | None:
        """The greatest instant or completion time, with pending instants: a new instant comes after it."""
        return max(
            (max(instant.timestamp, instant.completion_time) for instant in self.instants), default=None
        )

    @cached_property
    def first_active_time(self) -> str | None:
        """Where the active timeline begins: its first write whose commit is not savepointed, if any.

        Archiving leaves a savepointed commit where it is, so its neighbours may be archived. If all writes
        are savepointed, as after a restore, the timeline begins with the last one, and instants that are
        missing before it are archived. Cleans and rollbacks are archived separately and don't count.
        """
        writes = [instant.timestamp for instant in self.instants if instant.action in WRITE_ACTIONS]
        last = writes[-1] if writes else None
        return next((write for write in writes if write not in self.savepoints), last)

    def is_visible(self, instant_time: str) -> bool:
        """True if files of this instant count: completed, or archived (older than the active timeline)."""
        if instant_time in self._committed_times:
            return True
        first = self.first_active_time
        return first is not None and instant_time < first

    def commits_until(self, as_of: str | None) -> tuple[Instant, ...]:
        """Completed commits up to and with instant time `as_of`; all of them for None."""
        if as_of is None:
            return self.commits
        return tuple(commit for commit in self.commits if commit.timestamp <= as_of)

    @cached_property
    def _committed_times(self) -> frozenset[str]:
        return frozenset(commit.timestamp for commit in self.commits)


def timeline_of(instants: Iterable[Instant], layout: TimelineLayout = LAYOUT_V1) -> Timeline:
    """The timeline of these state files; each action has only its latest state."""
    latest: dict[tuple[str, str], Instant] = {}
    for instant in instants:
        key = (instant.timestamp, instant.completed_action)
        known = latest.get(key)
        if known is None or instant.state > known.state:
            latest[key] = instant
    return Timeline(tuple(sorted(latest.values(), key=layout.sort_key)), layout)


def load_timeline(storage: Storage, base_path: str, layout: TimelineLayout = LAYOUT_V1) -> Timeline:
    """List the active timeline of the table at `base_path`. Raises NoSuchPathError, StorageError."""
    return timeline_of_names(timeline_file_names(storage, base_path, layout), layout)


def timeline_file_names(storage: Storage, base_path: str, layout: TimelineLayout) -> tuple[str, ...]:
    """The names of the files in the timeline's directory. Raises NoSuchPathError, StorageError."""
    return tuple(storage.list_file_names(layout.timeline_directory(base_path)))


def timeline_file_times(storage: Storage, base_path: str, layout: TimelineLayout) -> dict[str, int]:
    """The modification times (ms since the epoch) of the files in the timeline's directory, by name.

    Raises NoSuchPathError, StorageError.
    """
    entries = storage.list_directory(layout.timeline_directory(base_path))
    return {entry.name: entry.modification_time_ms for entry in entries if not entry.is_directory}


@lru_cache(_MOST_TIMELINES)
def timeline_of_names(names: tuple[str, ...], layout: TimelineLayout) -> Timeline:
    """The timeline whose directory has files with these names, of which it ignores those of no instant."""
    parsed = (layout.parse_file_name(name) for name in names)
    return timeline_of((instant for instant in parsed if instant is not None), layout)
