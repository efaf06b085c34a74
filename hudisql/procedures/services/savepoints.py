"""The procedures of savepoints: create, delete, show, and restore a table to one.

Names, parameters and columns are those of Hudi's `CreateSavepointProcedure`, `DeleteSavepointProcedure`,
`ShowSavepointsProcedure` and `RollbackToSavepointProcedure`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.options.table_call import find_table, open_table_call
from hudisql.procedures.registry import (
    Arguments,
    TableArguments,
    parameter,
    path_parameter,
    procedure,
    table_parameter,
)

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True, kw_only=True)
class CreateSavepointArguments(Arguments):
    """The parameters of `create_savepoint`."""

    table: str | None = table_parameter()
    commit_time: str = parameter("", help="instant time of the commit; by default the latest one")
    user: str = parameter("", help="who creates it, for readers of the timeline")
    comments: str = parameter("", help="why, for readers of the timeline")
    path: str | None = path_parameter()


@dataclass(frozen=True)
class CreateSavepointRow:
    """True if the savepoint was made."""

    create_savepoint_result: bool


@procedure(
    "Creates a savepoint of a commit: cleans keep its files, and the table can be restored to it.",
    name="create_savepoint",
)
def create_savepoint_procedure(
    context: Context, arguments: CreateSavepointArguments
) -> Iterable[CreateSavepointRow]:
    """One row. Raises NoSuchTableError and the errors of `create_savepoint`."""
    from hudisql.services.rollback.savepoint import create_savepoint

    call = open_table_call(context, arguments.table, arguments.path)
    create_savepoint(
        call.table, arguments.commit_time or None, arguments.user, arguments.comments, call.concurrency()
    )
    return [CreateSavepointRow(True)]


@dataclass(frozen=True, kw_only=True)
class SavepointArguments(Arguments):
    """The parameters of `delete_savepoint` and `rollback_to_savepoint`."""

    table: str | None = table_parameter()
    instant_time: str = parameter("", help="instant time of the savepoint; by default the latest one")
    path: str | None = path_parameter()


@dataclass(frozen=True)
class DeleteSavepointRow:
    """True if the savepoint was deleted."""

    delete_savepoint_result: bool


@procedure(
    "Deletes a savepoint; its commit stays, and cleans may delete its files from then on.",
    name="delete_savepoint",
)
def delete_savepoint_procedure(
    context: Context, arguments: SavepointArguments
) -> Iterable[DeleteSavepointRow]:
    """One row. Raises NoSuchTableError, NoSuchInstantError, StorageError."""
    from hudisql.services.rollback.savepoint import delete_savepoint

    call = open_table_call(context, arguments.table, arguments.path)
    delete_savepoint(call.table, arguments.instant_time or None, call.concurrency())
    return [DeleteSavepointRow(True)]


@dataclass(frozen=True)
class RollbackToSavepointRow:
    """True if the table was restored."""

    rollback_savepoint_result: bool


@procedure("Restores the table to a savepoint: all commits after it are rolled back, the latest one first.")
def rollback_to_savepoint(
    context: Context, arguments: SavepointArguments
) -> Iterable[RollbackToSavepointRow]:
    """One row. Raises NoSuchTableError, NoSuchInstantError, RollbackRefusedError, WriteConflictError,
    CorruptTableError, UnsupportedTableError, SettingsError, StorageError, SyncFailedError.
    """
    from hudisql.services.rollback.restore import restore_to_savepoint

    call = open_table_call(context, arguments.table, arguments.path)
    restore_to_savepoint(call.table, arguments.instant_time or None, call.concurrency())
    call.warn_if_metadata_table_dropped()
    call.sync()
    return [RollbackToSavepointRow(True)]


@dataclass(frozen=True)
class SavepointRow:
    """A savepoint."""

    savepoint_time: str


@procedure("Shows the savepoints of a table, the latest first.")
def show_savepoints(context: Context, arguments: TableArguments) -> Iterable[SavepointRow]:
    """A row for each savepoint. Raises NoSuchTableError, InvalidArgumentError, StorageError."""
    table = find_table(context, arguments.table, arguments.path)
    return [SavepointRow(savepoint) for savepoint in sorted(table.timeline.savepoints, reverse=True)]
