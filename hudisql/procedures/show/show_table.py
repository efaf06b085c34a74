"""Procedures that show a table's own files: bootstrap index, properties, commits, timeline.

Names, parameters and output columns are those of Hudi's procedures (1.2, which has all of 0.15). `filter` is
a SQL predicate over the output columns, evaluated by Spark. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hudisql.config.config_key import split_names
from hudisql.errors import InvalidArgumentError
from hudisql.format.timeline.instant import ROLLBACK, Instant, InstantState, second_of
from hudisql.options.table_call import find_table
from hudisql.procedures.registry import (
    TableArguments,
    columns_of,
    parameter,
    procedure,
)
from hudisql.procedures.show.shown_rows import (
    LimitedTableArguments,
    completion_text,
    filter_parameter,
    filter_rows,
    limit_parameter,
    read_rollback,
)

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.format.timeline.archived_log_files import ArchivedEntry
    from hudisql.format.timeline.commit_metadata import CommitMetadata
    from hudisql.table.hudi_table import HudiTable


@dataclass(frozen=True, kw_only=True)
class ShowBootstrapMappingArguments(TableArguments):
    """The parameters of `show_bootstrap_mapping`."""

    partition_path: str = parameter("", help="only this partition")
    file_ids: str = parameter("", help="only these file ids, separated by commas")
    limit: int = limit_parameter(10)
    sort_by: str = parameter("partition", help="output column to sort by")
    desc: bool = parameter(False, help="sort downwards")
    filter: str = filter_parameter()


@dataclass(frozen=True)
class BootstrapMappingRow:
    """A file group of the bootstrap index and its source file."""

    partition: str
    file_id: str
    source_base_path: str
    source_partition: str
    source_file: str


@procedure("Shows the source file of each bootstrapped file group.")
def show_bootstrap_mapping(
    context: Context, arguments: ShowBootstrapMappingArguments
) -> Iterable[BootstrapMappingRow]:
    """A row per file group of the bootstrap index."""
    from hudisql.format.hfile.bootstrap_index import read_bootstrap_index_info, read_bootstrap_mappings

    table = find_table(context, arguments.table, arguments.path)
    info = read_bootstrap_index_info(table.storage, table.base_path)
    base_path = "" if info is None else info.bootstrap_base_path
    partitions = [arguments.partition_path] if arguments.partition_path else None
    wanted = {*split_names(arguments.file_ids)}
    rows = [
        BootstrapMappingRow(
            mapping.partition_path,
            mapping.file_id,
            base_path,
            mapping.source_partition_path,
            table.storage.hadoop_uri(mapping.external_file.path),
        )
        for mapping in read_bootstrap_mappings(table.storage, table.base_path, partitions)
        if not wanted or mapping.file_id in wanted
    ]
    rows = filter_rows(context, rows, BootstrapMappingRow, arguments.filter)
    column = _sort_column(arguments.sort_by)
    rows.sort(key=lambda row: (str(getattr(row, column)), row.file_id), reverse=arguments.desc)
    return rows[: arguments.limit]


def _sort_column(name: str) -> str:
    names = [column.name for column in columns_of(BootstrapMappingRow)]
    if name.lower() not in names:
        raise InvalidArgumentError(f"cannot sort by '{name}'", hint=f"one of {', '.join(names)}")
    return name.lower()


@dataclass(frozen=True, kw_only=True)
class ShowBootstrapPartitionsArguments(TableArguments):
    """The parameters of `show_bootstrap_partitions`."""

    filter: str = filter_parameter()


@dataclass(frozen=True)
class BootstrapPartitionRow:
    """A partition of the bootstrap index."""

    indexed_partitions: str


@procedure("Shows the partitions of the bootstrap index.")
def show_bootstrap_partitions(
    context: Context, arguments: ShowBootstrapPartitionsArguments
) -> Iterable[BootstrapPartitionRow]:
    """A row per partition of the bootstrap index."""
    from hudisql.format.hfile.bootstrap_index import read_bootstrap_mappings

    table = find_table(context, arguments.table, arguments.path)
    mappings = read_bootstrap_mappings(table.storage, table.base_path)
    partitions = sorted({mapping.partition_path for mapping in mappings})
    rows = [BootstrapPartitionRow(partition) for partition in partitions]
    return filter_rows(context, rows, BootstrapPartitionRow, arguments.filter)


@dataclass(frozen=True, kw_only=True)
class ShowTablePropertiesArguments(TableArguments):
    """The parameters of `show_table_properties`."""

    limit: int = limit_parameter(10)
    filter: str = filter_parameter()


@dataclass(frozen=True)
class TablePropertyRow:
    """A property, or an unsafe type of a column."""

    key: str
    value: str


@procedure("Shows the table's own configuration (hoodie.properties), unsafe types first if there are any.")
def show_table_properties(
    context: Context, arguments: ShowTablePropertiesArguments
) -> Iterable[TablePropertyRow]:
    """A row per column stored in a type that a reader is incompatible with, then one per property by key."""
    table = find_table(context, arguments.table, arguments.path)
    properties = sorted(table.properties.values.items())
    rows = [*_unsafe_types(table), *(TablePropertyRow(key, value) for key, value in properties)]
    return filter_rows(context, rows, TablePropertyRow, arguments.filter)[: arguments.limit]


def _unsafe_types(table: HudiTable) -> Iterator[TablePropertyRow]:
    """The types that the bootstrap accepted with `on_unsafe_type => 'warn'`, in words."""
    from hudisql.bootstrap.type_safety import TYPE_INCOMPATIBILITIES

    for column, names in table.properties.unsafe_types.items():
        for name in names:
            incompatibility = TYPE_INCOMPATIBILITIES.get(name)
            text = (
                name
                if incompatibility is None
                else f"{incompatibility.stored}: {'; '.join(incompatibility.consequences)}"
            )
            yield TablePropertyRow(f"unsafe type of column {column}", text)


@dataclass(frozen=True)
class CommitRow:
    """A completed commit and what it wrote."""

    commit_time: str
    state_transition_time: str | None
    action: str
    total_bytes_written: int
    total_files_added: int
    total_files_updated: int
    total_partitions_written: int
    total_records_written: int
    total_update_records_written: int
    total_errors: int


@procedure("Shows the completed commits, newest first, with what each wrote.")
def show_commits(context: Context, arguments: LimitedTableArguments) -> Iterable[CommitRow]:
    """A row per completed commit, deltacommit and replacecommit of the active timeline."""
    table = find_table(context, arguments.table)
    commits = sorted(table.timeline.commits, reverse=True)[: arguments.limit]
    return [_commit_row(table, instant) for instant in commits]


def _commit_row(table: HudiTable, instant: Instant) -> CommitRow:
    from hudisql.table.timeline.instant_files import read_commit

    metadata = read_commit(table, instant)
    time = completion_text(table, instant)
    return CommitRow(instant.timestamp, time, instant.completed_action, *commit_totals(metadata))


def commit_totals(metadata: CommitMetadata) -> tuple[int, int, int, int, int, int, int]:
    """Bytes, files added and updated, partitions, rows, updated rows and errors of a commit."""
    stats = list(metadata.write_stats)
    return (
        sum(stat.total_write_bytes for stat in stats),
        sum(stat.prev_commit == "null" for stat in stats),
        sum(stat.prev_commit != "null" for stat in stats),
        len(metadata.partition_to_write_stats),
        sum(stat.num_writes for stat in stats),
        sum(stat.num_update_writes for stat in stats),
        sum(stat.total_write_errors for stat in stats),
    )


@dataclass(frozen=True, kw_only=True)
class ShowTimelineArguments(TableArguments):
    """The parameters of `show_timeline`."""

    limit: int = limit_parameter(20)
    showArchived: bool = parameter(False, help="include archived instants")  # noqa: N815 (Hudi's name)
    filter: str = filter_parameter()
    startTime: str = parameter("", help="only instants from this one on")  # noqa: N815
    endTime: str = parameter("", help="only instants up to this one")  # noqa: N815


@dataclass(frozen=True)
class TimelineRow:
    """An instant of the timeline and the times at which it reached its states."""

    instant_time: str
    action: str
    state: str
    requested_time: str | None
    inflight_time: str | None
    completed_time: str | None
    timeline_type: str
    rollback_info: str | None


@procedure("Shows every action of the table's timeline, newest first, and when it reached each state (UTC).")
def show_timeline(context: Context, arguments: ShowTimelineArguments) -> Iterable[TimelineRow]:
    """A row per instant of the active timeline, then of the archived one on request."""
    table = find_table(context, arguments.table, arguments.path)
    found = [*_timeline_rows(table), *(_archived_rows(table) if arguments.showArchived else ())]
    first, last = arguments.startTime, arguments.endTime
    rows = [
        row
        for row in found
        if (not first or row.instant_time >= first) and (not last or row.instant_time <= last)
    ]
    return filter_rows(context, rows, TimelineRow, arguments.filter)[: arguments.limit]


def _archived_rows(table: HudiTable) -> list[TimelineRow]:
    """Rows of the archived timeline, newest first; their times are as Hudi archives them."""
    from hudisql.table.timeline.archived_timeline import read_archived_entries

    states: dict[tuple[str, str], dict[InstantState, ArchivedEntry]] = {}
    for entry in read_archived_entries(table):
        instant = entry.instant
        states.setdefault((instant.timestamp, instant.completed_action), {})[instant.state] = entry
    rows = []
    for reached in states.values():
        last = reached[max(reached)]
        times = {
            state: None if entry.transition_time is None else second_of(entry.transition_time)
            for state, entry in reached.items()
        }
        rolled_back = (last.record.get("hoodieRollbackMetadata") or {}).get("commitsRollback")
        rows.append(_timeline_row(last.instant, times, "ARCHIVED", rolled_back))
    return rows[::-1]


def _timeline_row(
    instant: Instant,
    times: Mapping[InstantState, datetime | None],
    timeline_type: str,
    rolled_back: Sequence[str] | None,
) -> TimelineRow:
    """The row of an instant that reached its states at these times and rolled back these commits."""
    requested, inflight, completed = (
        None if (time := times.get(state)) is None else f"{time:%Y-%m-%d %H:%M:%S}"
        for state in (InstantState.REQUESTED, InstantState.INFLIGHT, InstantState.COMPLETED)
    )
    return TimelineRow(
        instant_time=instant.timestamp,
        action=instant.action,
        state=instant.state.name,
        requested_time=requested,
        inflight_time=inflight,
        completed_time=completed,
        timeline_type=timeline_type,
        rollback_info=f"Rolled back {', '.join(rolled_back)}" if rolled_back else None,
    )


def _timeline_rows(table: HudiTable) -> Iterator[TimelineRow]:
    """Rows of the active timeline, newest first; times are those of the instants' files."""
    reached: dict[tuple[str, str], dict[InstantState, datetime | None]] = {}
    layout = table.timeline.layout
    for entry in table.storage.list_directory(layout.timeline_directory(table.base_path)):
        instant = layout.parse_file_name(entry.name)
        if instant is not None:
            states = reached.setdefault((instant.timestamp, instant.completed_action), {})
            states[instant.state] = datetime.fromtimestamp(entry.modification_time_ms / 1000, UTC)
    for instant in sorted(table.timeline.instants, reverse=True):
        states = reached.get((instant.timestamp, instant.completed_action), {})
        is_rollback = instant.action == ROLLBACK and instant.is_completed
        rolled_back = read_rollback(table, instant)["commitsRollback"] if is_rollback else None
        yield _timeline_row(instant, states, "ACTIVE", rolled_back)
