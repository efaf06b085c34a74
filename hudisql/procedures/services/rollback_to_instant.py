"""Procedures that roll back a commit or a pending table service, or show rollbacks, as Hudi's of these names.

Follows `RollbackToInstantTimeProcedure` and `ShowRollbacksProcedure` of Hudi 0.15. Despite its name
`rollback_to_instant` rolls the named commit back; it must be the latest one. Only Hudi 1.x has
`run_rollback_inflight_tableservice`; in 0.15 the command line's `compaction unschedule` deletes a plan.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from hudisql.errors import NoSuchInstantError
from hudisql.format.timeline.instant import ROLLBACK
from hudisql.options.table_call import find_table, open_table_call
from hudisql.procedures.registry import NamedTableArguments, TableArguments, parameter, procedure
from hudisql.procedures.show.shown_rows import LimitedTableArguments, read_rollback

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.table.hudi_table import HudiTable


@dataclass(frozen=True, kw_only=True)
class RollbackToInstantArguments(NamedTableArguments):
    """The parameters of `rollback_to_instant`."""

    instant_time: str = parameter(help="the latest commit, which is rolled back")


@dataclass(frozen=True)
class RollbackResultRow:
    """True if the commit was rolled back."""

    rollback_result: bool


@procedure("Rolls the latest commit back: its files and its instant are deleted.")
def rollback_to_instant(
    context: Context, arguments: RollbackToInstantArguments
) -> Iterable[RollbackResultRow]:
    """One row. Raises NoSuchTableError, NoSuchInstantError, RollbackRefusedError, WriteConflictError,
    UnsupportedTableError, SettingsError, StorageError, SyncFailedError.
    """
    from hudisql.services.rollback.rollback_action import roll_back_commit

    call = open_table_call(context, arguments.table)
    roll_back_commit(call.table, arguments.instant_time, call.concurrency())
    call.warn_if_metadata_table_dropped()
    call.sync()
    return [RollbackResultRow(True)]


@dataclass(frozen=True)
class RollbackRow:
    """A rollback (`instant`) and the instant that it rolled back."""

    instant: str
    rollback_instant: str
    total_files_deleted: Annotated[int, "int"]
    time_taken_in_millis: int
    total_partitions: Annotated[int, "int"]


@procedure("Shows the completed rollbacks, newest first.")
def show_rollbacks(context: Context, arguments: LimitedTableArguments) -> Iterable[RollbackRow]:
    """A row for each instant that was rolled back. Raises NoSuchTableError, CorruptTableError."""
    table = find_table(context, arguments.table)
    return islice(_rollback_rows(table), max(arguments.limit, 0))


def _rollback_rows(table: HudiTable) -> Iterator[RollbackRow]:
    for instant in reversed(table.timeline.completed):
        if instant.action == ROLLBACK:
            rollback = read_rollback(table, instant)
            for rolled_back in rollback["commitsRollback"]:
                yield RollbackRow(
                    str(rollback["startRollbackTime"]),
                    str(rolled_back),
                    int(rollback["totalFilesDeleted"]),
                    int(rollback["timeTakenInMillis"]),
                    len(rollback["partitionMetadata"]),
                )


@dataclass(frozen=True, kw_only=True)
class ShowRollbackDetailArguments(LimitedTableArguments):
    """The parameters of `show_rollback_detail`."""

    instant_time: str = parameter(help="instant time of the rollback itself")


@dataclass(frozen=True)
class RollbackDetailRow:
    """A file that a rollback has deleted, or could not delete."""

    instant: str
    rollback_instant: str
    partition: str
    deleted_file: str
    succeeded: bool


@procedure("Shows the files that one rollback has deleted.")
def show_rollback_detail(
    context: Context, arguments: ShowRollbackDetailArguments
) -> Iterable[RollbackDetailRow]:
    """A row for each file. Raises NoSuchTableError, NoSuchInstantError, CorruptTableError."""
    table = find_table(context, arguments.table)
    return islice(rollback_details(table, arguments.instant_time), max(arguments.limit, 0))


def rollback_details(table: HudiTable, instant_time: str) -> Iterator[RollbackDetailRow]:
    """The files of a completed rollback. Raises NoSuchInstantError, CorruptTableError, StorageError."""
    for instant in table.timeline.completed:
        if (instant.timestamp, instant.action) == (instant_time, ROLLBACK):
            return _detail_rows(read_rollback(table, instant))
    raise NoSuchInstantError(
        f"{instant_time} is not a completed rollback on the active timeline of {table.base_path}",
        hint="CALL show_rollbacks(table => '…') lists them in its column instant",
    )


def _detail_rows(found: Mapping[str, Any]) -> Iterator[RollbackDetailRow]:
    rolled_back = f"[{', '.join(str(each) for each in found['commitsRollback'])}]"
    for partition, each in found["partitionMetadata"].items():
        for field, succeeded in (("successDeleteFiles", True), ("failedDeleteFiles", False)):
            for path in each[field]:
                yield RollbackDetailRow(
                    str(found["startRollbackTime"]), rolled_back, str(partition), str(path), succeeded
                )


@dataclass(frozen=True, kw_only=True)
class RollbackTableServiceArguments(TableArguments):
    """The parameters of `run_rollback_inflight_tableservice`."""

    pending_instant: str = parameter(help="instant time of the pending compaction or clustering")
    delete_request_instant_file: bool = parameter(
        False, help="delete the plan as well; without it the plan stays, and can be run again"
    )


@dataclass(frozen=True)
class RollbackTableServiceRow:
    """The compaction or clustering that was rolled back; `time_cost` in milliseconds."""

    instant: str
    time_cost: str


@procedure("Rolls back a pending compaction or clustering: the files of its run, and its plan on request.")
def run_rollback_inflight_tableservice(
    context: Context, arguments: RollbackTableServiceArguments
) -> Iterable[RollbackTableServiceRow]:
    """One row. Raises NoSuchTableError, NoSuchInstantError, RollbackRefusedError, WriteConflictError,
    UnsupportedTableError, SettingsError, StorageError.
    """
    from hudisql.services.rollback.rollback_action import undo_service

    started = time.monotonic()
    call = open_table_call(context, arguments.table, arguments.path)
    undo_service(
        call.table,
        arguments.pending_instant,
        call.concurrency(),
        deletes_plan=arguments.delete_request_instant_file,
    )
    milliseconds = round((time.monotonic() - started) * 1000)
    return [RollbackTableServiceRow(arguments.pending_instant, str(milliseconds))]
