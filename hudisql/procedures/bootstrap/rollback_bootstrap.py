"""`CALL rollback_bootstrap`: removes a bootstrapped table, or the files of a killed bootstrap.

A procedure of hudisql; Hudi has none. `hudisql.bootstrap.rollback.rollback_plan` does the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.catalog.metastore_table import NAME_SUFFIXES, hudi_base_path
from hudisql.catalog.table_location import default_table_location
from hudisql.errors import InvalidArgumentError, NoSuchTableError
from hudisql.procedures.registry import (
    Arguments,
    CheckedRows,
    fail_on_error_parameter,
    parameter,
    procedure,
)

if TYPE_CHECKING:
    from hudisql.bootstrap.rollback.rollback_plan import BootstrapRollbackPlan
    from hudisql.context import Context


@dataclass(frozen=True, kw_only=True)
class RollbackBootstrapArguments(Arguments):
    """The parameters of `rollback_bootstrap`."""

    table: str | None = parameter(None, help="the table, database.name")
    force: bool = parameter(False, help="also if rows would be lost, or a bootstrap may still be running")
    dry_run: bool = parameter(False, help="only show what would be removed and lost")
    fail_on_error: bool = fail_on_error_parameter("a dry run of what would be refused")
    path: str | None = parameter(None, help="the table's directory, if the metastore does not know it")


@dataclass(frozen=True)
class RollbackBootstrapRow:
    """A commit that is lost, a directory or an entry that is removed, or a file that is kept."""

    action: str
    kind: str
    name: str
    files: int | None = None
    bytes: int | None = None


@procedure("Removes a bootstrapped table and its metastore entries; never a file of the source.")
def rollback_bootstrap(
    context: Context, arguments: RollbackBootstrapArguments
) -> CheckedRows[RollbackBootstrapRow]:
    """A row for each commit lost, directory removed, file kept and metastore entry dropped.

    Raises RollbackRefusedError unless forced, which a dry run gives as the error of its rows;
    NoSuchTableError if there is nothing to remove.
    """
    from hudisql.bootstrap.rollback.rollback_plan import plan_rollback
    from hudisql.bootstrap.rollback.table_removal import run_removal

    name, base_path = _locate(context, arguments)
    plan = plan_rollback(context, base_path, name)
    if arguments.dry_run:
        return _checked_plan(context, plan, fails=arguments.fail_on_error and not arguments.force)
    if not arguments.force:
        plan.raise_if_blocked()
    elif plan.blocked_reason is not None:
        context.console.warning(plan.blocked_reason)
    run_removal(context, plan.removal)
    return CheckedRows(list(_rows(plan, lost="lost", removed="removed", kept="kept")), None)


def _checked_plan(
    context: Context, plan: BootstrapRollbackPlan, *, fails: bool
) -> CheckedRows[RollbackBootstrapRow]:
    rows = list(_rows(plan, lost="would lose", removed="would remove", kept="would keep"))
    if fails:
        return CheckedRows(rows, plan.blocking_error("to roll back anyway: force => true"))
    if plan.blocked_reason is not None:
        context.console.warning(f"{plan.blocked_reason}; it needs force => true")
    return CheckedRows(rows, None)


def _locate(context: Context, arguments: RollbackBootstrapArguments) -> tuple[tuple[str, str] | None, str]:
    """The given name, and the directory: the given one, that of the metastore, or the default one."""
    if arguments.table is None:
        if arguments.path is None:
            raise InvalidArgumentError(
                "give table or path", hint="table => 'db.name' or path => '/directory'"
            )
        return None, context.storage.qualify(arguments.path)
    database, name = context.qualify_table_name(arguments.table)
    if arguments.path is not None:
        return (database, name), context.storage.qualify(arguments.path)
    for suffix in NAME_SUFFIXES:
        entry = context.metastore.get_table(database, name + suffix)
        if entry is None:
            continue
        location = hudi_base_path(entry)
        if location is not None:
            return (database, name), context.storage.qualify(location)
        if not suffix:
            raise NoSuchTableError(f"{database}.{name} is not a Hudi table")
    path = default_table_location(context.storage, context.metastore, context.warehouse, database, name)
    return (database, name), path


def _rows(
    plan: BootstrapRollbackPlan, *, lost: str, removed: str, kept: str
) -> Iterator[RollbackBootstrapRow]:
    for commit in plan.lost_commits:
        yield RollbackBootstrapRow(lost, "commit", str(commit))
    for removal in plan.removal.removals:
        yield RollbackBootstrapRow(
            removed, "files", removal.directory or "(table)", len(removal.files), removal.bytes
        )
        for path in removal.kept:
            yield RollbackBootstrapRow(kept, "file", path)
    for database, name in plan.removal.entries:
        yield RollbackBootstrapRow(removed, "metastore entry", f"{database}.{name}")
    yield RollbackBootstrapRow(
        removed,
        plan.removal.state.value,
        plan.removal.base_path,
        sum(len(removal.files) for removal in plan.removal.removals),
        sum(removal.bytes for removal in plan.removal.removals),
    )
