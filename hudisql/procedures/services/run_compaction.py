"""`run_compaction` and `show_compaction`, with the names, parameters and columns of Hudi's procedures.

Follows `RunCompactionProcedure` and `ShowCompactionProcedure` of Hudi 0.15 and 1.2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from hudisql.config.config_key import split_names
from hudisql.errors import InvalidArgumentError, NoSuchPathError
from hudisql.format.timeline.instant import COMMIT, COMPACTION
from hudisql.options.table_call import find_table, open_table_call
from hudisql.procedures.registry import (
    Arguments,
    Int,
    Long,
    TableArguments,
    parameter,
    path_parameter,
    procedure,
    table_parameter,
)

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.table.hudi_table import HudiTable

_SCHEDULE: Final = "schedule"
_EXECUTE: Final = "execute"
_SCHEDULE_AND_EXECUTE: Final = "scheduleandexecute"


@dataclass(frozen=True, kw_only=True)
class RunCompactionArguments(Arguments):
    """The parameters of `run_compaction`."""

    op: str = parameter(help="schedule, execute, or scheduleAndExecute, of which run is the older name")
    table: str | None = table_parameter()
    path: str | None = path_parameter()
    timestamp: Long | None = parameter(
        None, help="instant time of the one pending compaction to execute, whatever op says"
    )
    options: str | None = parameter(None, help="settings for this call, as key=value, separated by commas")
    instants: str | None = parameter(
        None, help="instant times of the pending compactions to execute, separated by commas"
    )
    limit: int | None = parameter(None, help="most pending compactions to execute, oldest first")


@dataclass(frozen=True, kw_only=True)
class ShowCompactionArguments(TableArguments):
    """The parameters of `show_compaction`."""

    limit: int = parameter(20, help="most rows")


@dataclass(frozen=True)
class CompactionRow:
    """A compaction: its instant time, how many file slices it merges, and its state."""

    timestamp: str
    operation_size: Int
    state: str


@procedure(
    "Schedules or runs compactions: log files of a merge-on-read table are merged into base files.",
    name="run_compaction",
)
def run_compaction_procedure(context: Context, arguments: RunCompactionArguments) -> Iterable[CompactionRow]:
    """A row for each compaction that was scheduled or run; none if there was nothing to do.

    Raises InvalidArgumentError, NoSuchTableError, NoSuchInstantError, UnsupportedTableError,
    WriteConflictError, SettingsError, StorageError.
    """
    from hudisql.services.compaction.compaction_action import (
        compaction_options,
        run_compaction,
        schedule_compaction,
    )

    operation, named = _operation(arguments)
    call = open_table_call(context, arguments.table, arguments.path, arguments.options)
    table, options = call.table, call.write_options()
    times: list[str] = []
    if operation != _EXECUTE:
        scheduled = schedule_compaction(table, compaction_options(call.config), options.concurrency)
        times = [] if scheduled is None else [scheduled.timestamp]
        if operation == _SCHEDULE:
            return list(_compactions(table.reopened(), times))
    # As in Hudi, pending plans are executed if there is nothing to schedule.
    times = times or _chosen(table, named, arguments.limit)
    for instant_time in times:
        run_compaction(context.spark, table, instant_time, options)
    if times:
        call.sync()
    return [*_compactions(table.reopened(), times)][::-1]


@procedure("Shows the compactions of a merge-on-read table, pending and completed ones, newest first.")
def show_compaction(context: Context, arguments: ShowCompactionArguments) -> Iterable[CompactionRow]:
    """A row for each compaction. Raises NoSuchTableError, InvalidArgumentError, StorageError."""
    table = find_table(context, arguments.table, arguments.path)
    return islice(_compactions(table), max(arguments.limit, 0))


def _operation(arguments: RunCompactionArguments) -> tuple[str, list[str]]:
    """The operation in lower case, and the instant times to execute."""
    operation = str(arguments.op).lower()
    named = [*split_names(arguments.instants or "")]
    if operation == "run":
        operation = _SCHEDULE_AND_EXECUTE
    if arguments.timestamp is not None and not named:
        operation, named = _EXECUTE, [str(arguments.timestamp)]
    if operation not in (_SCHEDULE, _EXECUTE, _SCHEDULE_AND_EXECUTE):
        raise InvalidArgumentError(
            f"op must be schedule, execute, scheduleAndExecute or run, not '{arguments.op}'"
        )
    if named and operation != _EXECUTE:
        raise InvalidArgumentError(f"instants are executed: op => '{arguments.op}' does not fit")
    return operation, sorted(named)


def _chosen(table: HudiTable, named: Sequence[str], limit: int | None) -> list[str]:
    """The pending compactions to execute, oldest first."""
    from hudisql.services.planned_run import not_pending

    pending = table.timeline.pending_compactions
    if unknown := [instant for instant in named if instant not in pending]:
        raise not_pending(table, "compaction", unknown[0])
    return list(named) or sorted(pending)[:limit]


def _compactions(table: HudiTable, times: Collection[str] | None = None) -> Iterator[CompactionRow]:
    """Pending compactions, and commits with a plan, newest first; only those of `times` if given."""
    from hudisql.services.compaction.compaction_plan import read_compaction_plan

    for instant in reversed(table.timeline.instants):
        may_have_no_plan = instant.action == COMMIT and instant.is_completed
        if not (instant.action == COMPACTION or may_have_no_plan):
            continue
        if times is not None and instant.timestamp not in times:
            continue
        try:
            plan = read_compaction_plan(table, instant.timestamp)
        except NoSuchPathError:
            if may_have_no_plan:
                continue
            raise
        yield CompactionRow(instant.timestamp, len(plan.operations), instant.state.name)
