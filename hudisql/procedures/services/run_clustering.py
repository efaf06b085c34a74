"""`run_clustering` and `show_clustering`, with the names, parameters and columns of Hudi's procedures.

Follows `RunClusteringProcedure` and `ShowClusteringProcedure` of Hudi.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from hudisql.config.config_key import split_names
from hudisql.config.table_service_keys import (
    CLUSTERING_PARTITION_PATTERN,
    CLUSTERING_PARTITIONS,
    CLUSTERING_SORT_COLUMNS,
    LAYOUT_STRATEGY,
)
from hudisql.errors import InvalidArgumentError
from hudisql.format.timeline.instant import REPLACE_COMMIT
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
    from hudisql.options.table_call import TableCall
    from hudisql.table.hudi_table import HudiTable

_OPERATIONS = ("schedule", "execute", "scheduleandexecute")
_ALL_PARTITIONS = "*"


@dataclass(frozen=True, kw_only=True)
class RunClusteringArguments(Arguments):
    """The parameters of `run_clustering`."""

    table: str | None = table_parameter()
    path: str | None = path_parameter()
    predicate: str | None = parameter(
        None, help="SQL predicate over the partition columns: only these partitions"
    )
    order: str | None = parameter(None, help="columns to sort by, separated by commas")
    show_involved_partition: bool = parameter(False, help="name the partitions in the result")
    op: str | None = parameter(None, help="schedule, execute or scheduleAndExecute (the default)")
    order_strategy: str | None = parameter(None, help="linear, z-order or hilbert")
    options: str | None = parameter(None, help="settings for this call, as key=value, separated by commas")
    instants: str | None = parameter(
        None, help="instant times of the pending clusterings to execute, separated by commas"
    )
    selected_partitions: str | None = parameter(None, help="partition paths to cluster, separated by commas")
    partition_regex_pattern: str | None = parameter(
        None, help="regular expression of the partition paths to cluster"
    )
    limit: int | None = parameter(None, help="most pending clusterings to execute, oldest first")


@dataclass(frozen=True, kw_only=True)
class ShowClusteringArguments(TableArguments):
    """The parameters of `show_clustering`."""

    limit: int = parameter(20, help="most rows")
    show_involved_partition: bool = parameter(False, help="name the partitions in the result")


@dataclass(frozen=True)
class ClusteringRow:
    """A clustering: its instant time, its groups of input files, its state, its partitions (or `*`)."""

    timestamp: str
    input_group_size: Annotated[int, "int"]
    state: str
    involved_partitions: str


@procedure(
    "Schedules or runs clusterings: rewrites small files as larger ones, optionally sorted.",
    name="run_clustering",
)
def run_clustering_procedure(context: Context, arguments: RunClusteringArguments) -> Iterable[ClusteringRow]:
    """A row for each clustering that was scheduled or run; none if there was nothing to do.

    Raises InvalidArgumentError, NoSuchTableError, NoSuchInstantError, UnsupportedTableError,
    WriteConflictError, SettingsError, StorageError.
    """
    from hudisql.services.clustering.clustering_action import (
        clustering_options,
        run_clustering,
        schedule_clustering,
    )

    operation = _operation(arguments)
    call = open_table_call(
        context,
        arguments.table,
        arguments.path,
        arguments.options,
        {
            CLUSTERING_SORT_COLUMNS: arguments.order or None,
            LAYOUT_STRATEGY: arguments.order_strategy or None,
            CLUSTERING_PARTITIONS: arguments.selected_partitions or None,
            CLUSTERING_PARTITION_PATTERN: arguments.partition_regex_pattern or None,
        },
    )
    options = clustering_options(call.config)
    if arguments.predicate is not None:
        options = replace(options, selected=_where(call, arguments.predicate))
    table, write_options = call.table, call.write_options()
    times: list[str] = []
    if operation != "execute":
        scheduled = schedule_clustering(table, options, write_options)
        times = [] if scheduled is None else [scheduled.timestamp]
        if operation == "schedule":
            return _rows(table.reopened(), times, arguments.show_involved_partition)
    # As in Hudi, pending plans are executed if there is nothing to schedule.
    times = times or _chosen(table.reopened(), arguments)
    for instant_time in times:
        run_clustering(context.spark, table, instant_time, write_options, options.target_file_bytes)
    if times:
        call.sync()
    return [*_rows(table.reopened(), times, arguments.show_involved_partition)]


@procedure("Shows the clusterings of a table, pending and completed ones, newest first.")
def show_clustering(context: Context, arguments: ShowClusteringArguments) -> Iterable[ClusteringRow]:
    """A row for each clustering. Raises NoSuchTableError, InvalidArgumentError, StorageError."""
    table = find_table(context, arguments.table, arguments.path)
    rows = _rows(table, None, arguments.show_involved_partition)
    return islice(rows, max(arguments.limit, 0))


def _operation(arguments: RunClusteringArguments) -> str:
    """The operation in lower case; with instants the default is execute."""
    operation = (arguments.op or ("execute" if arguments.instants else "scheduleAndExecute")).lower()
    if operation not in _OPERATIONS:
        raise InvalidArgumentError(
            f"op must be schedule, execute or scheduleAndExecute, not '{arguments.op}'"
        )
    if arguments.instants and operation != "execute":
        raise InvalidArgumentError(f"instants are executed: op => '{arguments.op}' does not fit")
    return operation


def _where(call: TableCall, predicate: str) -> tuple[str, ...]:
    from hudisql.bootstrap.run.rewrite_candidates import partitions_where

    partitions = partitions_where(call.context, call.table, predicate, parameter="predicate")
    return tuple(partition.path for partition in partitions)


def _chosen(table: HudiTable, arguments: RunClusteringArguments) -> list[str]:
    """The pending clusterings to execute, oldest first."""
    from hudisql.services.clustering.clustering_action import pending_clusterings
    from hudisql.services.planned_run import not_pending

    pending = pending_clusterings(table)
    named = split_names(arguments.instants or "")
    if unknown := [each for each in named if each not in pending]:
        raise not_pending(table, "clustering", unknown[0])
    times = [instant for instant in pending if instant in named] if named else pending
    return times if arguments.limit is None else times[: arguments.limit]


def _rows(table: HudiTable, times: Collection[str] | None, shows_partitions: bool) -> Iterator[ClusteringRow]:
    """Pending clusterings, and completed ones whose plan exists, newest first."""
    from hudisql.services.clustering.clustering_plan import read_clustering_plan

    for instant in reversed(table.timeline.instants):
        if instant.completed_action != REPLACE_COMMIT or (
            times is not None and instant.timestamp not in times
        ):
            continue
        plan = read_clustering_plan(table, instant.timestamp)
        if plan is not None:
            partitions = ",".join(plan.partitions) if shows_partitions else _ALL_PARTITIONS
            yield ClusteringRow(instant.timestamp, len(plan.groups), instant.state.name, partitions)
