"""`run_rollback_inflight_tableservice`, with the name, parameters and columns of Hudi 1.x's procedure.

Hudi 0.15 has no such procedure: there the command line's `compaction unschedule` deletes a plan.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.options.table_call import open_table_call
from hudisql.procedures.registry import TableArguments, parameter, procedure

if TYPE_CHECKING:
    from hudisql.context import Context


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
    from hudisql.services.rollback.unschedule import undo_service

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
