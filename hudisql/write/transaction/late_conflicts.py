"""The check after a commit's completion: has another writer completed a conflicting one at the same time?

Writers check for conflicts, then complete. Without a lock, or if the lock was removed meanwhile, two writers
may both check before either completes. So each checks again once its own commit is on the timeline: the later
one finds the other's commit and withdraws. Possibly both withdraw, but never do both commits stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from hudisql.errors import (
    CorruptTableError,
    RegisterOnlyError,
    StorageError,
    UnsupportedTableError,
    WriteConflictError,
)
from hudisql.format.timeline.active_timeline import (
    Timeline,
    timeline_file_times,
    timeline_of,
    timeline_of_names,
)
from hudisql.format.timeline.instant import WRITE_ACTIONS, Instant, new_instant_time
from hudisql.table.files.committed_slices import TIMELINE_FILE_TIMES
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.timeline_clock import now_on_timeline
from hudisql.write.transaction.pending_rollbacks import pending_rollbacks
from hudisql.write.transaction.timeline_files import CLOCK_SKEW_SECONDS

Check = Callable[[HudiTable], None]


def withdraw_if_in_conflict(
    seen: HudiTable, instant: Instant, completed: Instant, check: Check, *, is_locked: bool
) -> HudiTable | None:
    """Delete the completed instant and raise if another writer has committed concurrently.

    `seen` is the table as it was when `check` accepted the inflight `instant`. If the timeline has changed,
    `check` is called again with the table without the completed instant. Commits that were requested after
    the completion are ignored: their writers have seen it. Returns `seen` with the timeline after the
    completion and TIMELINE_FILE_TIMES as its `listing`, None if these could not be listed. Raises
    WriteConflictError; without a lock also StorageError and CorruptTableError: the commit then stands, since
    it is unknown whether another one is in conflict with it.
    """
    # Before the check: writers that request an instant later find the completed instant.
    after_completion = new_instant_time(None, now_on_timeline(seen) + timedelta(seconds=CLOCK_SKEW_SECONDS))
    try:
        return _look(seen, instant, completed, check, after_completion)
    except (WriteConflictError, UnsupportedTableError, RegisterOnlyError):
        # Before StorageError: TimelineChangedError is a WriteConflictError and a StorageError.
        seen.storage.delete_file(seen.instant_path(completed))
        raise
    except (StorageError, CorruptTableError) as error:
        if not is_locked:
            raise type(error)(
                f"the commit {instant.timestamp} of {seen.base_path} is complete, but it could not be "
                f"checked for concurrent commits: {error.message}",
                hint="look at the rows before running the statement again: it has changed them",
            ) from error
        return None


def _look(
    seen: HudiTable, instant: Instant, completed: Instant, check: Check, after_completion: str
) -> HudiTable:
    layout = seen.timeline.layout
    modified_ms = timeline_file_times(seen.storage, seen.base_path, layout)
    timeline = timeline_of_names(tuple(modified_ms), layout)
    being_rolled_back = {rollback.target.timestamp for rollback in pending_rollbacks(seen, timeline)}
    undone = sorted(being_rolled_back & {commit.timestamp for commit in seen.timeline.commits})
    if undone:
        raise WriteConflictError(
            f"another writer is rolling back the commit {undone[0]} of {seen.base_path}",
            hint="run the statement again: this one had read that commit's rows",
        )
    stands = any(_key(each) == _key(completed) for each in timeline.completed)
    is_pending_file_there = layout.file_name(instant) in modified_ms
    if instant.timestamp in being_rolled_back or not stands or not is_pending_file_there:
        raise rolled_back_error(seen.base_path, instant.timestamp)
    others = _others(timeline, instant)
    if others != _others(seen.timeline, instant):
        relevant = [
            other
            for other in others
            if other.action not in WRITE_ACTIONS or other.timestamp <= after_completion
        ]
        now = timeline_of([*relevant, instant], timeline.layout)
        check(replace(seen.reopened(), timeline=now, listing=None))
    return replace(seen, timeline=timeline, listing={TIMELINE_FILE_TIMES: modified_ms})


def _others(timeline: Timeline, own: Instant) -> list[Instant]:
    return [instant for instant in timeline.instants if _key(instant) != _key(own)]


def _key(instant: Instant) -> tuple[str, str]:
    return instant.timestamp, instant.completed_action


def rolled_back_error(base_path: str, instant_time: str) -> WriteConflictError:
    """The error of a writer whose pending commit was rolled back by another writer."""
    return WriteConflictError(
        f"another writer has rolled back the commit {instant_time} on {base_path}",
        hint="run the statement again when no other writer is active, or let all writers of the table use "
        "one lock: docs/changing-rows.md, Several writers",
    )
