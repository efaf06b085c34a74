"""Restores the plain table that a migration has replaced, and removes the Hudi table.

The names are restored first, then the Hudi table's files are deleted, by the removal of `rollback_bootstrap`.
A call after a kill continues from the current state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.bootstrap.lease.target_state import TargetState, read_target_state
from hudisql.bootstrap.migrate_table.exchange_names import (
    complete_exchange,
    restore_source,
    unmark_source,
    withdraw_hudi_table,
)
from hudisql.bootstrap.migrate_table.migration_lock import MigrationLock, hold_migration_lock
from hudisql.bootstrap.migrate_table.migration_state import (
    MIGRATION_PROPERTY,
    MigrationNames,
    MigrationState,
    MigrationStep,
    SourceMark,
    read_mark,
    read_migration_state,
)
from hudisql.bootstrap.rollback.rollback_plan import BootstrapRollbackPlan, plan_rollback
from hudisql.bootstrap.rollback.table_removal import run_removal
from hudisql.errors import NoSuchTableError

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True)
class RevertPlan:
    """The current state, and the removal of the Hudi table; None if there is none to remove."""

    state: MigrationState
    mark: SourceMark
    rollback: BootstrapRollbackPlan | None

    @property
    def blocked_reason(self) -> str | None:
        """Why it needs force: changes that would be lost."""
        return None if self.rollback is None else self.rollback.blocked_reason


def plan_revert(context: Context, names: MigrationNames) -> RevertPlan:
    """What a revert would remove and lose; writes nothing.

    Raises NoSuchTableError if the table was not migrated and there are no parts of a migration.
    """
    state = read_migration_state(context.metastore, names)
    mark = read_mark(state.source)
    if mark is None:
        raise NoSuchTableError(
            f"{names.full_name} was not migrated: it is still the plain table",
            hint="CALL migrate_table migrates it",
        )
    if read_target_state(context.storage, mark.target_path) is TargetState.NOTHING:
        return RevertPlan(state, mark, None)
    rollback = plan_rollback(context, mark.target_path, (names.database, names.staged))
    return RevertPlan(state, mark, rollback)


def revert_migration(context: Context, names: MigrationNames, *, force: bool = False) -> RevertPlan:
    """Give the plain table its name back and remove the Hudi table; returns what was done.

    Raises RollbackRefusedError if rows were changed since the migration, unless `force`; the Hudi table then
    keeps the name. Raises TableLockedError if another run works on this table.
    """
    metastore = context.metastore
    with hold_migration_lock(context, names) as lock:
        plan = plan_revert(context, names)
        _check(context, plan, lock, force=force)
        if plan.state.step is MigrationStep.MIGRATED:
            withdraw_hudi_table(metastore, names, lock)
            # Writers by name have lost the table by now: the changes until here are complete.
            _check(context, plan_revert(context, names), lock, force=force)
        if plan.state.step in (MigrationStep.MIGRATED, MigrationStep.BETWEEN):
            restore_source(metastore, names, lock)
        _remove(context, plan_revert(context, names))
        unmark_source(metastore, names)
    return plan


def _check(context: Context, plan: RevertPlan, lock: MigrationLock, *, force: bool) -> None:
    """Refuse a revert that loses changes; the Hudi table keeps its name, or gets it."""
    if force or plan.rollback is None or plan.blocked_reason is None:
        return
    if plan.state.step is MigrationStep.BETWEEN and plan.state.hudi is not None:
        complete_exchange(context.metastore, plan.state.names, lock)
    error = plan.rollback.blocking_error("to lose these changes: force => true; dry_run => true shows them")
    assert error is not None
    raise error


def _remove(context: Context, plan: RevertPlan) -> None:
    names = plan.state.names
    if plan.rollback is not None:
        run_removal(context, plan.rollback.removal)
    staged = context.metastore.get_table(names.database, names.staged)
    if staged is not None and MIGRATION_PROPERTY in staged.parameters:
        context.metastore.drop_table(names.database, names.staged)
