"""The timeline files that writers create, by layout: the contents of commits, and the completion of actions.

Follows `HoodieActiveTimeline` of Hudi 0.15 for layout 1, and `ActiveTimelineV2`, `CommitMetadataSerDeV2` and
`SkewAdjustingTimeGenerator` of Hudi 1.2 for layout 2. `timeline_files` returns the class of a table's layout;
no other module of the writers depends on versions or layouts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

from hudisql.errors import PathExistsError
from hudisql.format.timeline.active_timeline import load_timeline
from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.format.timeline.instant import Instant, InstantState, new_instant_time
from hudisql.format.timeline.timeline_layout import TimelineLayout, instant_path
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.timeline_clock import now_on_timeline

CLOCK_SKEW_SECONDS: Final = 0.2
"""The maximal clock skew between writers: Hudi's `hoodie.time.generator.max_expected_clock_skew_ms`."""
# For writers that, like hudisql, request an instant after all instants on the timeline.
_LEAST_SECONDS: Final = 0.001


@dataclass(frozen=True, slots=True)
class InstantStates:
    """The files of an action: `is_inflight`, and its `completed` instant, or None."""

    is_inflight: bool
    completed: Instant | None


@dataclass(frozen=True, slots=True)
class TimelineFiles:
    """The timeline files of layout 1, and the base of later ones.

    Commits are JSON as Jackson prints it; the name of a completed file is known in advance.
    """

    layout: TimelineLayout

    def workload_profile(self, profile: CommitMetadata) -> bytes:
        """The content of an inflight commit: the metadata without files."""
        return profile.to_json()

    def commit_content(self, metadata: CommitMetadata) -> bytes:
        """The content of a completed commit."""
        return metadata.to_json()

    def complete(
        self,
        table: HudiTable,
        instant: Instant,
        content: bytes,
        *,
        awaits_clocks: bool,  # noqa: ARG002
    ) -> Instant:
        """Create the completed file of a pending action, which makes it visible; returns its instant.

        `awaits_clocks` is true if other writers may request instants only by their clock, as Apache Hudi's
        do. Raises PathExistsError if it is complete, StorageError.
        """
        completed = instant.in_state(InstantState.COMPLETED)
        table.storage.create(table.instant_path(completed), content)
        return completed

    def states(self, storage: Storage, base_path: str, instant: Instant) -> InstantStates:
        """Whether the action is inflight, and completed. Raises StorageError."""
        states = [instant.in_state(each) for each in (InstantState.INFLIGHT, InstantState.COMPLETED)]
        inflight, done = storage.infos([instant_path(base_path, self.layout, state) for state in states])
        return InstantStates(inflight is not None, None if done is None else states[1])


@dataclass(frozen=True, slots=True)
class TimelineFilesV2(TimelineFiles):
    """Avro commits; a completed file's name has the completion time."""

    def workload_profile(self, profile: CommitMetadata) -> bytes:  # noqa: ARG002
        """Empty: nobody reads Hudi's profile."""
        return b""

    def commit_content(self, metadata: CommitMetadata) -> bytes:
        """An Avro container."""
        # Tasks that write skeletons load no Avro writer.
        from hudisql.format.timeline.commit_metadata_avro import render_commit_metadata

        return render_commit_metadata(metadata)

    def complete(self, table: HudiTable, instant: Instant, content: bytes, *, awaits_clocks: bool) -> Instant:
        """Take a completion time after all times on the timeline, let clocks catch up, then create the file.

        A writer whose clock is behind by less than the wait then requests a later instant.
        """
        storage, base_path = table.storage, table.base_path
        timeline = load_timeline(storage, base_path, self.layout)
        own = (instant.timestamp, instant.completed_action)
        if any((each.timestamp, each.completed_action) == own for each in timeline.completed):
            raise PathExistsError(f"{instant.action} {instant.timestamp} of {base_path} is complete already")
        completion_time = new_instant_time(timeline.latest_time, now_on_timeline(table))
        time.sleep(CLOCK_SKEW_SECONDS if awaits_clocks else _LEAST_SECONDS)
        completed = replace(instant.in_state(InstantState.COMPLETED), completion_time=completion_time)
        storage.create(table.instant_path(completed), content)
        return completed

    def states(self, storage: Storage, base_path: str, instant: Instant) -> InstantStates:
        """List the timeline: the name of a completed file is not known."""
        entries = storage.list_directory(self.layout.timeline_directory(base_path))
        parsed = (self.layout.parse_file_name(entry.name) for entry in entries if not entry.is_directory)
        own = [
            each
            for each in parsed
            if each is not None
            and (each.timestamp, each.completed_action) == (instant.timestamp, instant.completed_action)
        ]
        is_inflight = any(each.state is InstantState.INFLIGHT for each in own)
        return InstantStates(is_inflight, next((each for each in own if each.is_completed), None))


def timeline_files(layout: TimelineLayout) -> TimelineFiles:
    """The files of this layout."""
    return TimelineFilesV2(layout) if layout.has_completion_times else TimelineFiles(layout)


def completed_instant(table: HudiTable, instant: Instant) -> Instant | None:
    """The action as it is completed, or None if it is not. Raises StorageError."""
    return timeline_files(table.timeline.layout).states(table.storage, table.base_path, instant).completed


def completed_path(table: HudiTable, instant: Instant) -> str | None:
    """The path of the action's completed file, or None if it is not complete. Raises StorageError."""
    completed = completed_instant(table, instant)
    return None if completed is None else table.instant_path(completed)
