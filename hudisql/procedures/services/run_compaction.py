"""`run_compaction` and `show_compaction`, with the names, parameters and columns of Hudi's procedures.

Follows `RunCompactionProcedure` and `ShowCompactionProcedure` of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

from hudisql.errors import InvalidArgumentError, NoSuchPathError
from hudisql.format.timeline.instant import COMMIT, COMPACTION
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
    from hudisql.table.hudi_table import HudiTable

_OF_PENDING: Final = ("execute", "run")


@dataclass(frozen=True, kw_only=True)
class RunCompactionArguments(Arguments):
    """The parameters of `run_compaction`."""

    op: str = parameter(help="schedule, execute (or run) or scheduleandexecute")
    table: str | None = table_parameter()
    path: str | None = path_parameter()
    timestamp: Annotated[int, "long"] | None = parameter(
        None, help="instant time of the one compaction to run"
    )
    options: str | None = parameter(None, help="settings for this call, as key=value, separated by commas")
    instants: str | None = parameter(
        None, help="instant times of the compactions to run, separated by commas"
    )
    limit: int | None = parameter(None, help="most compactions to run, oldest first")


@dataclass(frozen=True, kw_only=True)
class ShowCompactionArguments(TableArguments):
    """The parameters of `show_compaction`."""

    limit: int = parameter(20, help="most rows")


@dataclass(frozen=True)
class CompactionRow:
    """A compaction: its instant time, how many file slices it merges, and its state."""

    timestamp: str
    operation_size: Annotated[int, "int"]
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

    operation = str(arguments.op).lower()
    if operation not in ("schedule", *_OF_PENDING, "scheduleandexecute"):
        raise InvalidArgumentError(
            f"op must be schedule, execute, run or scheduleandexecute, not '{arguments.op}'"
        )
    call = open_table_call(context, arguments.table, arguments.path, arguments.options)
    table, options = call.table, call.write_options()
    times: list[str] = []
    if operation not in _OF_PENDING:
        scheduled = schedule_compaction(table, compaction_options(call.config), options.concurrency)
        times = [] if scheduled is None else [scheduled.timestamp]
        if operation == "schedule":
            return list(_compactions(table.reopened(), times))
    else:
        times = _chosen(table, arguments)
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


def _chosen(table: HudiTable, arguments: RunCompactionArguments) -> list[str]:
    """The pending compactions to run, oldest first."""
    named = [str(arguments.timestamp)] if arguments.timestamp is not None else []
    named += [each.strip() for each in (arguments.instants or "").split(",") if each.strip()]
    times = sorted(named or table.timeline.pending_compactions)
    return times if arguments.limit is None else times[: arguments.limit]


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
