"""`CALL rollback_bootstrap`: takes a bootstrapped table, or what a killed bootstrap left, away again.

hudisql's own; Hudi has no such procedure. The work is in `hudisql.bootstrap.rollback.rollback_plan`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hudisql.catalog.metastore_table import NAME_SUFFIXES, hudi_base_path
from hudisql.errors import InvalidArgumentError, NoSuchTableError
from hudisql.procedures.registry import (
    FAIL_ON_ERROR,
    Arguments,
    CheckedRows,
    Column,
    Parameter,
    procedure,
)

if TYPE_CHECKING:
    from hudisql.bootstrap.rollback.rollback_plan import BootstrapRollbackPlan
    from hudisql.context import Context


@procedure(
    name="rollback_bootstrap",
    summary="Removes what a bootstrap made, table and metastore entries; never a file of the source.",
    parameters=(
        Parameter("table", "string", None, "the table, database.name"),
        Parameter("force", "boolean", False, "also if rows would be lost, or a run may be at work"),
        Parameter("dry_run", "boolean", False, "only show what would be removed and lost"),
        replace(FAIL_ON_ERROR, help=f"a dry run of what would be refused: {FAIL_ON_ERROR.help}"),
        Parameter("path", "string", None, "the table's directory, where the metastore does not know it"),
    ),
    output=(
        Column("action", "string"),
        Column("kind", "string"),
        Column("name", "string"),
        Column("files", "bigint"),
        Column("bytes", "bigint"),
    ),
)
def rollback_bootstrap(context: Context, arguments: Arguments) -> Iterable[Sequence[object]]:
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
    return list(_rows(plan, lost="lost", removed="removed", kept="kept"))


def _checked_plan(context: Context, plan: BootstrapRollbackPlan, *, fails: bool) -> CheckedRows:
    rows = list(_rows(plan, lost="would lose", removed="would remove", kept="would keep"))
    if fails:
        return CheckedRows(rows, plan.blocking_error("to roll back anyway: force => true"))
    if plan.blocked_reason is not None:
        context.console.warning(f"{plan.blocked_reason}; it needs force => true")
    return CheckedRows(rows, None)


def _locate(context: Context, arguments: Arguments) -> tuple[tuple[str, str] | None, str]:
    """The name, if one was given, and the directory: as given, as the metastore says, or the default one."""
    from hudisql.bootstrap.plan.bootstrap_plan import default_target_path

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
    return (database, name), default_target_path(context, database, name)


def _rows(plan: BootstrapRollbackPlan, *, lost: str, removed: str, kept: str) -> Iterator[Sequence[object]]:
    for commit in plan.lost_commits:
        yield (lost, "commit", str(commit), None, None)
    for removal in plan.removal.removals:
        yield (removed, "files", removal.directory or "(table)", len(removal.files), removal.bytes)
        for path in removal.kept:
            yield (kept, "file", path, None, None)
    for database, name in plan.removal.entries:
        yield (removed, "metastore entry", f"{database}.{name}", None, None)
    yield (
        removed,
        plan.removal.state.value,
        plan.removal.base_path,
        sum(len(removal.files) for removal in plan.removal.removals),
        sum(removal.bytes for removal in plan.removal.removals),
    )
