"""Repeats changes after a conflict with another writer, as Hudi's `HoodieSparkSqlWriter` does."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final, TypeVar

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import PendingCleanError, RegisterOnlyError, TableLockedError, WriteConflictError
from hudisql.sql.dml.statement_scope import StatementScope, open_scope

if TYPE_CHECKING:
    from hudisql.context import Context

T = TypeVar("T")
_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 5.0


def retry_on_conflict(
    context: Context,
    entry: MetastoreTable,
    change: Callable[[StatementScope], T],
    retries: int | None = None,
) -> T:
    """Run `change` on the current table, and repeat it after a conflict with another writer.

    At most `retries` times, by default `hoodie.write.num.retries.on.conflict.failures`, after growing pauses.
    What hinders the change is done first, once: register-only partitions are lifted, and the only writer of a
    table completes a pending clean that deletes a partition to which the change has written.

    Raises UnsupportedTableError.
    """
    conflicts = 0
    lifted: set[str] = set()
    has_cleaned = False
    context = context.with_distinct_warnings()
    while True:
        to_lift: Collection[str] | None = None
        with open_scope(context, entry) as scope:
            try:
                return change(scope)
            except TableLockedError:
                raise
            except RegisterOnlyError as error:
                to_lift = error.partitions
                if lifted.issuperset(to_lift):  # the lift found no rows
                    raise
            except WriteConflictError as error:
                if isinstance(error, PendingCleanError) and not has_cleaned:
                    has_cleaned = _complete_cleans(scope)
                    if has_cleaned:
                        continue
                conflicts += 1
                if conflicts > (scope.concurrency.conflict_retries if retries is None else retries):
                    raise
                context.console.info(f"{entry.full_name}: {error.message}; attempt {conflicts + 1}")
        if to_lift is None:
            _pause(conflicts)
            continue
        _lift(context, entry, to_lift)
        lifted.update(to_lift)


def _pause(conflicts: int) -> None:
    """Pause, since the other writer may still be at work."""
    longest = min(_FIRST_PAUSE_SECONDS * 2**conflicts, _LONGEST_PAUSE_SECONDS)
    time.sleep(random.uniform(0.5, 1) * longest)


def _complete_cleans(scope: StatementScope) -> bool:
    """Complete the pending cleans, unless other writers may be running them."""
    from hudisql.services.clean.clean_action import run_pending_cleans

    concurrency = scope.concurrency
    if concurrency.optimistic:
        return False
    scope.context.console.info(f"{scope.table_label}: completing a pending clean first")
    run_pending_cleans(scope.table.reopened(), concurrency)
    return True


def _lift(context: Context, entry: MetastoreTable, partitions: Collection[str]) -> None:
    """Lift register-only partitions, by one commit, for the following write."""
    from hudisql.sql.dml.commit_resync import lift_partitions

    context.console.info(f"{entry.full_name}: lifting {len(partitions):,} register-only partitions first")
    retry_on_conflict(context, entry, lambda scope: lift_partitions(scope, partitions))
