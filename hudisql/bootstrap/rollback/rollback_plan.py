"""Plans the rollback of a bootstrap: what would be removed and lost, and why it needs force.

The source is never touched. The files of a killed bootstrap are rolled back in the same way. `table_removal`
runs the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.bootstrap.blockers import name_some
from hudisql.bootstrap.lease.protected_sources import refuse_touching_sources
from hudisql.bootstrap.lease.target_state import TargetState, read_lease, read_target_state
from hudisql.bootstrap.rollback.table_removal import (
    TableRemovalPlan,
    check_source_is_outside,
    names_of_interrupted_removal,
    names_of_table,
    plan_removal,
)
from hudisql.bootstrap.rollback.table_sources import TableSources, describe_lost_sources, read_table_sources
from hudisql.errors import (
    CorruptTableError,
    InvalidArgumentError,
    NoSuchTableError,
    RollbackRefusedError,
)
from hudisql.format.timeline.instant import BOOTSTRAP_INSTANT_TIMES, WRITE_ACTIONS, Instant
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.timeline.instant_files import read_commit

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True, slots=True)
class LostCommit:
    """A later commit that a rollback would lose; row counts are None where its metadata has none."""

    instant_time: str
    action: str
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None

    def __str__(self) -> str:
        if self.inserted is None:
            return f"{self.action} {self.instant_time}".strip()
        return (
            f"{self.action} {self.instant_time} ({self.inserted:,} rows inserted,"
            f" {self.updated or 0:,} updated, {self.deleted or 0:,} deleted)"
        )


@dataclass(frozen=True)
class BootstrapRollbackPlan:
    """A rollback of a bootstrap: the removal, the later commits it loses, and why it needs force."""

    removal: TableRemovalPlan
    lost_commits: tuple[LostCommit, ...] = ()
    blocked_reason: str | None = None

    def raise_if_blocked(self) -> None:
        """Raise RollbackRefusedError if the plan needs force."""
        error = self.blocking_error("to roll back anyway: force => true; dry_run => true shows the plan")
        if error is not None:
            raise error

    def blocking_error(self, hint: str) -> RollbackRefusedError | None:
        """The error that says why the plan needs force; None if it does not."""
        return None if self.blocked_reason is None else RollbackRefusedError(self.blocked_reason, hint=hint)


def plan_rollback(context: Context, base_path: str, name: tuple[str, str] | None) -> BootstrapRollbackPlan:
    """Plan the rollback of the table at `base_path` and of the metastore entry `name` (database, table).

    Raises NoSuchTableError if there are no files of a bootstrap, InvalidArgumentError if the table there was
    not bootstrapped, RollbackRefusedError if source files lie inside, SourceProtectedError if those of
    another table do, CorruptTableError, StorageError.
    """
    storage = context.storage
    state = read_target_state(storage, base_path)
    names = {name} if name is not None else set()
    refuse_touching_sources(context, [base_path], "a rollback would delete files", except_of=base_path)
    lost_commits: tuple[LostCommit, ...] = ()
    blocked_reason: str | None = None
    if state is TargetState.NOTHING:
        raise NoSuchTableError(
            f"there is no bootstrapped table at {base_path}, and nothing that a killed bootstrap left",
            hint="if the table lies elsewhere, give path => '<its directory>'",
        )
    if state is TargetState.TABLE:
        table = open_table(storage, base_path)
        _check_is_bootstrapped(table)
        sources = read_table_sources(table)
        check_source_is_outside(table, sources)
        names |= names_of_table(table)
        lost_commits = tuple(_later_commits(table))
        blocked_reason = _reason_against_losing_rows(table, sources, lost_commits)
    elif state is TargetState.ROLLBACK:
        names |= names_of_interrupted_removal(storage, base_path)
    else:
        lease = read_lease(storage, base_path)
        names |= _split_name(lease.table) if lease is not None else set()
        if lease is not None and not lease.is_expired:
            blocked_reason = (
                f"the bootstrap that holds the lease on {base_path} may still be running: {lease}"
            )
    return BootstrapRollbackPlan(plan_removal(context, base_path, state, names), lost_commits, blocked_reason)


def _check_is_bootstrapped(table: HudiTable) -> None:
    if not table.is_bootstrapped:
        raise InvalidArgumentError(
            f"the Hudi table at {table.base_path} was not bootstrapped: it holds the only copy of its rows",
            hint="DROP TABLE removes its metastore entry",
        )


def _reason_against_losing_rows(
    table: HudiTable, sources: TableSources, lost_commits: Sequence[LostCommit]
) -> str | None:
    """Why a rollback would lose rows; None if it would not."""
    reasons = []
    if lost_commits:
        commits = name_some([str(lost_commit) for lost_commit in lost_commits], "commit")
        reasons.append(f"was written to after its bootstrap, and a rollback would lose {commits}")
    if gone := describe_lost_sources(table.storage, sources):
        reasons.append(f"may hold the only copy of its rows: {gone}")
    return f"the table at {table.base_path} {'; and it '.join(reasons)}" if reasons else None


def _split_name(full_name: str | None) -> set[tuple[str, str]]:
    database, dot, name = (full_name or "").partition(".")
    return {(database, name)} if dot else set()


def _later_commits(table: HudiTable) -> Iterator[LostCommit]:
    timeline = table.timeline
    times = {commit.timestamp for commit in timeline.commits}
    if not times & BOOTSTRAP_INSTANT_TIMES:
        yield LostCommit("", "commits that were archived together with the bootstrap's own")
    for instant in timeline.instants:
        if instant.timestamp in BOOTSTRAP_INSTANT_TIMES or instant.action not in WRITE_ACTIONS:
            continue
        if instant.is_completed:
            yield _with_row_counts(table, instant)
        else:
            yield LostCommit(instant.timestamp, f"unfinished {instant.action}")


def _with_row_counts(table: HudiTable, instant: Instant) -> LostCommit:
    try:
        stats = list(read_commit(table, instant).write_stats)
    except CorruptTableError:
        return LostCommit(instant.timestamp, instant.action)
    return LostCommit(
        instant.timestamp,
        instant.action,
        sum(stat.num_inserts for stat in stats),
        sum(stat.num_update_writes for stat in stats),
        sum(stat.num_deletes for stat in stats),
    )
