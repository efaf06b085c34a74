"""Pending rollbacks, and which of them a writer may complete.

Follows `BaseHoodieTableServiceClient.getPendingRollbackInfos` of Hudi 0.15. A rollback of a compaction or
clustering keeps the plan; the writer that runs the plan completes it. Nothing is written while a restore is
pending: a second call of the restore completes it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hudisql.errors import UnsupportedTableError
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.format.timeline.instant import (
    BOOTSTRAP_INSTANT_TIMES,
    COMMIT_ACTIONS,
    RESTORE,
    ROLLBACK,
    Instant,
    InstantState,
)
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.archived_timeline import archived_commits
from hudisql.table.timeline.requested_plans import is_clustering
from hudisql.write.transaction.concurrency import Concurrency
from hudisql.write.transaction.lock import HeldLock
from hudisql.write.transaction.timeline_payloads import RequestedRollback, parse_requested_rollback


@dataclass(frozen=True, slots=True)
class PendingRollback:
    """A rollback, requested or inflight, with its plan."""

    instant: Instant
    plan: RequestedRollback

    @property
    def target(self) -> Instant:
        """The instant that is rolled back, in state inflight."""
        return self.plan.target


def pending_rollbacks(table: HudiTable, timeline: Timeline) -> list[PendingRollback]:
    """The pending rollbacks on the timeline. Raises CorruptTableError, StorageError."""
    found = [
        (instant, _plan_of(table, instant)) for instant in timeline.pending if instant.action == ROLLBACK
    ]
    return [PendingRollback(each, plan) for each, plan in found if plan is not None]


def rollbacks_of_failed_writes(
    table: HudiTable, tolerance_ms: int | None
) -> tuple[list[Instant], list[Instant]]:
    """The failed writes whose rollbacks may be running, and those whose rollbacks were interrupted.

    A rollback that began within the tolerance may be running; without a tolerance none is. Raises
    UnsupportedTableError for a rollback that hudisql cannot complete, CorruptTableError, StorageError.
    """
    under_way: list[Instant] = []
    interrupted: list[Instant] = []
    completed = {commit.timestamp for commit in table.timeline.commits}
    for rollback in pending_rollbacks(table, table.timeline):
        target = rollback.target
        keeps_plan = target.timestamp not in completed and is_clustering(table, target)
        if target.action not in COMMIT_ACTIONS or keeps_plan:
            continue
        _check_ours_to_end(table, rollback)
        is_young = tolerance_ms is not None and _was_begun_within(table, rollback.instant, tolerance_ms)
        (under_way if is_young else interrupted).append(rollback.target)
    return under_way, interrupted


def commits_being_undone(table: HudiTable) -> frozenset[str]:
    """The instant times of completed commits that a pending rollback undoes.

    Raises CorruptTableError, StorageError.
    """
    rolled_back = {rollback.target.timestamp for rollback in pending_rollbacks(table, table.timeline)}
    return frozenset(rolled_back & {commit.timestamp for commit in table.timeline.commits})


def check_not_restored(table: HudiTable, timeline: Timeline) -> None:
    """Raise UnsupportedTableError while a restore is pending."""
    for pending in timeline.pending:
        if pending.action == RESTORE:
            raise UnsupportedTableError(
                f"the Hudi table at {table.base_path} is being restored ({pending.timestamp}), which is not "
                "complete",
                hint="run CALL rollback_to_savepoint again, which completes it, then run this again",
            )


@contextmanager
def reopened_under_lock(table: HudiTable, concurrency: Concurrency) -> Iterator[tuple[HudiTable, HeldLock]]:
    """The table as it is now, and the lock, which is held while the block runs.

    Raises UnsupportedTableError while a restore is pending, TableLockedError, StorageError.
    """
    with concurrency.hold() as held:
        table = table.reopened()
        check_not_restored(table, table.timeline)
        yield table, held


def _check_ours_to_end(table: HudiTable, rollback: PendingRollback) -> None:
    target, path = rollback.target, table.instant_path(rollback.instant)
    hint = "complete the rollback with Apache Hudi (any write of its own does so), then run this again"
    later = [commit for commit in table.timeline.commits if commit.timestamp > target.timestamp]
    reason = None
    if target.timestamp in BOOTSTRAP_INSTANT_TIMES:
        reason = "is the table's bootstrap"
    elif later and any(commit.timestamp == target.timestamp for commit in table.timeline.commits):
        # When Apache Hudi refuses a rollback, it leaves such a request, and then refuses all writes.
        reason = f"still stands, with the later commit {later[-1].timestamp} on top of it"
        hint = f"nothing was deleted yet: to cancel the rollback, delete {path} and its .requested file"
    elif _is_archived(table, target):
        reason = "is archived: its files count as committed, and the rollback would delete them"
        hint = f"to cancel the rollback, delete {path} and its .requested file"
    elif not rollback.plan.names_all:
        reason = "has written log blocks that are not in the rollback's plan"
    if reason is not None:
        raise UnsupportedTableError(
            f"a rollback ({rollback.instant.timestamp}) of the {target.action} {target.timestamp} on "
            f"{table.base_path} is not complete, and that {target.action} {reason}",
            hint=hint,
        )


def _is_archived(table: HudiTable, target: Instant) -> bool:
    """True if the target was committed and archived. A killed rollback may also have removed it."""
    timeline = table.timeline
    is_active = any(instant.timestamp == target.timestamp for instant in timeline.instants)
    if is_active or not timeline.is_visible(target.timestamp):
        return False
    return target.timestamp in archived_commits(table, timeline)


def _was_begun_within(table: HudiTable, rollback: Instant, milliseconds: int) -> bool:
    info = table.storage.info(table.instant_path(rollback))
    return info is not None and time.time() * 1000 - info.modification_time_ms <= milliseconds


def _plan_of(table: HudiTable, rollback: Instant) -> RequestedRollback | None:
    path = table.instant_path(rollback.in_state(InstantState.REQUESTED))
    if not table.storage.exists(path):
        return None
    content = table.storage.read(path)
    return parse_requested_rollback(content, path) if content else None
