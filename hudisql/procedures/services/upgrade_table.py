"""`upgrade_table` and `downgrade_table`, as Hudi's procedures of these names, and `dry_run`.

Follows `UpgradeOrDowngradeProcedure` of Hudi 1.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hudisql.errors import InvalidArgumentError
from hudisql.options.table_call import open_table_call
from hudisql.procedures.registry import NamedTableArguments, parameter, procedure

if TYPE_CHECKING:
    from hudisql.context import Context

_VERSIONS: Final = {"SIX": 6, "EIGHT": 8, "NINE": 9}


@dataclass(frozen=True, kw_only=True)
class UpgradeTableArguments(NamedTableArguments):
    """The parameters of `upgrade_table`."""

    to_version: str = parameter(help="'NINE', or 9")
    dry_run: bool = parameter(False, help="only show what would be done")


@dataclass(frozen=True, kw_only=True)
class DowngradeTableArguments(UpgradeTableArguments):
    """The parameters of `downgrade_table`."""

    to_version: str = parameter(help="'SIX', or 6")


@dataclass(frozen=True)
class VersionChangeRow:
    """A step, and whether it was done: false in a dry run."""

    result: bool
    step: str


@procedure("Upgrades a table to version 9, which Hudi 1.1 and later write by default.")
def upgrade_table(context: Context, arguments: UpgradeTableArguments) -> Iterable[VersionChangeRow]:
    """A row for each step. Raises NoSuchTableError, InvalidArgumentError, UnsupportedTableError,
    WriteConflictError, TableLockedError, CorruptTableError, StorageError, SyncFailedError.
    """
    return _change(context, arguments.table, arguments.to_version, is_upgrade=True, dry_run=arguments.dry_run)


@procedure("Downgrades a table of version 8 or 9 to version 6, which Hudi 0.14 and 0.15 read.")
def downgrade_table(context: Context, arguments: DowngradeTableArguments) -> Iterable[VersionChangeRow]:
    """A row for each step."""
    return _change(
        context, arguments.table, arguments.to_version, is_upgrade=False, dry_run=arguments.dry_run
    )


def _change(
    context: Context, name: str, to_version: str, *, is_upgrade: bool, dry_run: bool
) -> list[VersionChangeRow]:
    from hudisql.services.version.version_change import plan_version_change, run_version_change

    version = _version_of(to_version)
    call = open_table_call(context, name)
    if (version < call.table.version) if is_upgrade else (version > call.table.version):
        raise InvalidArgumentError(
            f"{name} has table version {call.table.version}, which is {'above' if is_upgrade else 'below'} "
            f"{version}",
            hint=f"CALL {'downgrade_table' if is_upgrade else 'upgrade_table'} does that",
        )
    plan = plan_version_change(call.table, version)
    if not dry_run:
        changed = run_version_change(plan, call.write_options(), lambda: context.spark)
        replace(call, table=changed).sync()
    steps = list(plan.steps()) or [f"nothing: the table has version {version}"]
    return [VersionChangeRow(not dry_run, step) for step in steps]


def _version_of(text: str) -> int:
    """The number of a version, from the number or Hudi's name."""
    given = text.strip().upper()
    found = _VERSIONS.get(given, int(given) if given.isdigit() else None)
    if found is None:
        raise InvalidArgumentError(
            f"to_version '{text}' is not a table version", hint=f"it is {', '.join(_VERSIONS)} or a number"
        )
    return found
