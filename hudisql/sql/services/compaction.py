"""`run_compaction` and `show_compaction`, with the names, parameters and columns of Hudi's procedures.

Follows `RunCompactionProcedure` and `ShowCompactionProcedure` of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

from hudisql.errors import InvalidArgumentError, NoSuchPathError, SettingsError
from hudisql.format.instant import COMMIT, COMPACTION
from hudisql.hudi_config import (
    COMPACTION_STRATEGY,
    COMPACTION_TARGET_IO,
    COMPACTION_TRIGGER,
    MAX_DELTA_COMMITS,
    MAX_DELTA_SECONDS,
    HudiConfig,
)
from hudisql.procedures.registry import parameter, procedure
from hudisql.procedures.table_argument import TableArguments, find_table

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.services.compaction import CompactionOptions
    from hudisql.services.compaction_plan import Strategy
    from hudisql.table.hudi_table import HudiTable

_PACKAGE: Final = "org.apache.hudi.table.action.compact.strategy."
_STRATEGIES: Final[Mapping[str, Strategy]] = {
    "LogFileSizeBasedCompactionStrategy": "log_file_size",
    "LogFileNumBasedCompactionStrategy": "log_file_count",
    "BoundedIOCompactionStrategy": "bounded_io",
    "UnBoundedCompactionStrategy": "unbounded",
}


@dataclass(frozen=True, kw_only=True)
class RunCompactionArguments(TableArguments):
    """The parameters of `run_compaction`."""

    op: str = parameter(help="schedule, run or scheduleandexecute")
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
    name="run_compaction",
    summary="Schedules or runs compactions: log files of a merge-on-read table are merged into base files.",
    arguments=RunCompactionArguments,
    row=CompactionRow,
)
def run_compaction_procedure(context: Context, arguments: RunCompactionArguments) -> Iterable[CompactionRow]:
    """A row for each compaction that was scheduled or run; none if there was nothing to do.

    Raises InvalidArgumentError, NoSuchTableError, NoSuchInstantError, UnsupportedTableError,
    WriteConflictError, SettingsError, StorageError.
    """
    from hudisql.services.compaction import run_compaction, schedule_compaction
    from hudisql.sql.config.table_settings import syncs_after_commit
    from hudisql.sql.config.writer_settings import write_options

    operation = str(arguments.op).lower()
    if operation not in ("schedule", "run", "scheduleandexecute"):
        raise InvalidArgumentError(f"op must be schedule, run or scheduleandexecute, not '{arguments.op}'")
    table = find_table(context, arguments.table, arguments.path)
    config = _config(context, table, arguments)
    options = write_options(context, table, config)
    times: list[str] = []
    if operation != "run":
        scheduled = schedule_compaction(table, compaction_options(config), options.concurrency)
        times = [] if scheduled is None else [scheduled.timestamp]
        if operation == "schedule":
            return list(_compactions(table.reopened(), times))
    else:
        times = _chosen(table, arguments)
    for instant_time in times:
        run_compaction(context.spark, table, instant_time, options)
    if times and arguments.table is not None and syncs_after_commit(config):
        _sync(context, table, arguments.table)
    return [*_compactions(table.reopened(), times)][::-1]


@procedure(
    name="show_compaction",
    summary="Shows the compactions of a merge-on-read table, pending and completed ones, newest first.",
    arguments=ShowCompactionArguments,
    row=CompactionRow,
)
def show_compaction(context: Context, arguments: ShowCompactionArguments) -> Iterable[CompactionRow]:
    """A row for each compaction. Raises NoSuchTableError, InvalidArgumentError, StorageError."""
    table = find_table(context, arguments.table, arguments.path)
    return islice(_compactions(table), max(arguments.limit, 0))


def compaction_options(config: HudiConfig) -> CompactionOptions:
    """The options that Hudi's settings name. Raises SettingsError."""
    from hudisql.services.compaction import CompactionOptions, CompactionTrigger

    name = config.get(COMPACTION_STRATEGY)
    strategy = _STRATEGIES.get(name.removeprefix(_PACKAGE))
    if strategy is None:
        raise SettingsError(
            f"{COMPACTION_STRATEGY} = {name} is not supported",
            hint=f"use {', '.join(f'{_PACKAGE}{each}' for each in _STRATEGIES)}",
        )
    return CompactionOptions(
        trigger=CompactionTrigger(config.get(COMPACTION_TRIGGER)),
        max_delta_commits=config.get(MAX_DELTA_COMMITS),
        max_delta_seconds=config.get(MAX_DELTA_SECONDS),
        strategy=strategy,
        target_io_megabytes=config.get(COMPACTION_TARGET_IO),
    )


def _config(context: Context, table: HudiTable, arguments: RunCompactionArguments) -> HudiConfig:
    """The call's own options over the session's and the table's settings."""
    from hudisql.sql.config.table_settings import settings_of

    given: dict[str, str] = {}
    for part in (arguments.options or "").split(","):
        key, separator, value = part.partition("=")
        if part.strip():
            if not separator:
                raise InvalidArgumentError(f"options takes key=value pairs, not '{part.strip()}'")
            given[key.strip()] = value.strip()
    entry = None
    if arguments.table is not None:
        entry = context.metastore.get_table(*context.qualify_table_name(arguments.table))
    settings = settings_of(context, table, entry.parameters if entry else {})
    return HudiConfig(lambda key, default: given.get(key) or settings.lookup(key, default))


def _chosen(table: HudiTable, arguments: RunCompactionArguments) -> list[str]:
    """The pending compactions to run, oldest first."""
    named = [str(arguments.timestamp)] if arguments.timestamp is not None else []
    named += [each.strip() for each in (arguments.instants or "").split(",") if each.strip()]
    times = sorted(named or table.timeline.pending_compactions)
    return times if arguments.limit is None else times[: arguments.limit]


def _compactions(table: HudiTable, times: Collection[str] | None = None) -> Iterator[CompactionRow]:
    """Pending compactions, and commits that a plan precedes, newest first; only those of `times` if given."""
    from hudisql.services.compaction_plan import read_compaction_plan

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


def _sync(context: Context, table: HudiTable, name: str) -> None:
    from hudisql.catalog.sync import sync_registered

    database, short = context.qualify_table_name(name)
    sync_registered(context.metastore, table.reopened(), database, short, incremental=True)
