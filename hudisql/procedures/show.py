"""Procedures that show what a table's own files say: bootstrap index, properties, commits, timeline.

Names, parameters and output columns are those of Hudi's procedures (1.2, which has all that 0.15 has).
`filter` is a SQL predicate over the output columns, evaluated by Spark. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from hudisql.bootstrap.type_safety import TYPE_HAZARDS
from hudisql.errors import InvalidArgumentError, UnsupportedTableError
from hudisql.format.avro_container import load_codec
from hudisql.format.bootstrap_index import (
    BootstrapMapping,
    read_bootstrap_index_info,
    read_bootstrap_mappings,
)
from hudisql.format.commit_metadata import CommitMetadata, read_commit_metadata
from hudisql.format.instant import ROLLBACK, Instant, InstantState
from hudisql.format.timeline_layout import archive_directory
from hudisql.procedures.registry import Arguments, Column, Parameter, procedure
from hudisql.procedures.table_argument import find_table
from hudisql.spark.task_errors import without_internal_names
from hudisql.storage import FileInfo
from hudisql.table.hudi_table import HudiTable

if TYPE_CHECKING:
    from hudisql.context import Context

Rows = list[tuple[object, ...]]

_TABLE: Final = Parameter("table", "string", None, "table of the metastore, database.name")
_PATH: Final = Parameter("path", "string", None, "the table's directory, instead of table")
_FILTER: Final = Parameter("filter", "string", "", "SQL predicate over the output columns")


def _limit(default: int) -> Parameter:
    return Parameter("limit", "int", default, "most rows")


_MAPPING_OUTPUT: Final = (
    Column("partition"),
    Column("file_id"),
    Column("source_base_path"),
    Column("source_partition"),
    Column("source_file"),
)


@procedure(
    name="show_bootstrap_mapping",
    summary="Shows which source file holds the data columns of which bootstrapped file group.",
    parameters=(
        _TABLE,
        _PATH,
        Parameter("partition_path", "string", "", "only this partition"),
        Parameter("file_ids", "string", "", "only these file ids, separated by commas"),
        _limit(10),
        Parameter("sort_by", "string", "partition", "output column to sort by"),
        Parameter("desc", "boolean", False, "sort downwards"),
        _FILTER,
    ),
    output=_MAPPING_OUTPUT,
)
def show_bootstrap_mapping(context: Context, arguments: Arguments) -> Iterable[Sequence[object]]:
    """A row per file group of the bootstrap index."""
    table = find_table(context, arguments.table, arguments.path)
    info = read_bootstrap_index_info(table.storage, table.base_path)
    base_path = "" if info is None else info.bootstrap_base_path
    partitions = [arguments.partition_path] if arguments.partition_path else None
    wanted = {part.strip() for part in arguments.file_ids.split(",") if part.strip()}
    rows = [
        _mapping_row(table, base_path, mapping)
        for mapping in read_bootstrap_mappings(table.storage, table.base_path, partitions)
        if not wanted or mapping.file_id in wanted
    ]
    rows = _filtered(context, rows, _MAPPING_OUTPUT, arguments.filter)
    position = _position_of(arguments.sort_by, _MAPPING_OUTPUT)
    rows.sort(key=lambda row: (str(row[position]), str(row[1])), reverse=arguments.desc)
    return rows[: arguments.limit]


def _mapping_row(table: HudiTable, base_path: str, mapping: BootstrapMapping) -> tuple[object, ...]:
    return (
        mapping.partition_path,
        mapping.file_id,
        base_path,
        mapping.source_partition_path,
        table.storage.hadoop_uri(mapping.external_file.path),
    )


def _position_of(name: str, output: Sequence[Column]) -> int:
    names = [column.name for column in output]
    if name.lower() not in names:
        raise InvalidArgumentError(f"cannot sort by '{name}'", hint=f"one of {', '.join(names)}")
    return names.index(name.lower())


_PARTITIONS_OUTPUT: Final = (Column("indexed_partitions"),)


@procedure(
    name="show_bootstrap_partitions",
    summary="Shows the partitions that the bootstrap index knows.",
    parameters=(_TABLE, _PATH, _FILTER),
    output=_PARTITIONS_OUTPUT,
)
def show_bootstrap_partitions(context: Context, arguments: Arguments) -> Iterable[Sequence[object]]:
    """A row per partition of the bootstrap index."""
    table = find_table(context, arguments.table, arguments.path)
    mappings = read_bootstrap_mappings(table.storage, table.base_path)
    rows: Rows = [(partition,) for partition in sorted({mapping.partition_path for mapping in mappings})]
    return _filtered(context, rows, _PARTITIONS_OUTPUT, arguments.filter)


_PROPERTIES_OUTPUT: Final = (Column("key"), Column("value"))


@procedure(
    name="show_table_properties",
    summary="Shows the table's own configuration (hoodie.properties), unsafe types first if there are any.",
    parameters=(_TABLE, _PATH, _limit(10), _FILTER),
    output=_PROPERTIES_OUTPUT,
)
def show_table_properties(context: Context, arguments: Arguments) -> Iterable[Sequence[object]]:
    """A row per column that is stored in a way that somebody breaks on, then one per property by key."""
    table = find_table(context, arguments.table, arguments.path)
    rows: Rows = [*_unsafe_types(table), *sorted(table.properties.values.items())]
    return _filtered(context, rows, _PROPERTIES_OUTPUT, arguments.filter)[: arguments.limit]


def _unsafe_types(table: HudiTable) -> Iterator[tuple[object, ...]]:
    """What the bootstrap took with `on_unsafe_type => 'warn'`, in words."""
    for column, names in table.properties.unsafe_types.items():
        for name in names:
            incompatibility = TYPE_HAZARDS.get(name)
            text = (
                name
                if incompatibility is None
                else f"{incompatibility.stored}: {'; '.join(incompatibility.breaks)}"
            )
            yield f"unsafe type of column {column}", text


@procedure(
    name="show_commits",
    summary="Shows the completed commits, newest first, with what each wrote.",
    parameters=(Parameter("table", "string", help="table of the metastore, database.name"), _limit(10)),
    output=(
        Column("commit_time"),
        Column("state_transition_time"),
        Column("action"),
        Column("total_bytes_written", "bigint"),
        Column("total_files_added", "bigint"),
        Column("total_files_updated", "bigint"),
        Column("total_partitions_written", "bigint"),
        Column("total_records_written", "bigint"),
        Column("total_update_records_written", "bigint"),
        Column("total_errors", "bigint"),
    ),
)
def show_commits(context: Context, arguments: Arguments) -> Iterable[Sequence[object]]:
    """A row per completed commit, deltacommit and replacecommit of the active timeline."""
    table = find_table(context, arguments.table)
    commits = sorted(table.timeline.commits, reverse=True)[: arguments.limit]
    return [_commit_row(table, instant) for instant in commits]


def _commit_row(table: HudiTable, instant: Instant) -> tuple[object, ...]:
    metadata: CommitMetadata = read_commit_metadata(table.storage, table.instant_path(instant))
    stats = list(metadata.write_stats)
    info = table.storage.info(table.instant_path(instant))
    return (
        instant.timestamp,
        None if info is None else _as_time(info, "%Y%m%d%H%M%S%f")[:17],
        instant.completed_action,
        sum(stat.total_write_bytes for stat in stats),
        sum(stat.prev_commit == "null" for stat in stats),
        sum(stat.prev_commit != "null" for stat in stats),
        len(metadata.partition_to_write_stats),
        sum(stat.num_writes for stat in stats),
        sum(stat.num_update_writes for stat in stats),
        sum(stat.total_write_errors for stat in stats),
    )


def _as_time(info: FileInfo, form: str) -> str:
    return datetime.fromtimestamp(info.modification_time_ms / 1000, UTC).strftime(form)


_TIMELINE_OUTPUT: Final = (
    Column("instant_time"),
    Column("action"),
    Column("state"),
    Column("requested_time"),
    Column("inflight_time"),
    Column("completed_time"),
    Column("timeline_type"),
    Column("rollback_info"),
)


@procedure(
    name="show_timeline",
    summary="Shows every action of the table's timeline, newest first, and when it reached each state (UTC).",
    parameters=(
        _TABLE,
        _PATH,
        _limit(20),
        Parameter("showArchived", "boolean", False, "archived instants too"),
        _FILTER,
        Parameter("startTime", "string", "", "only instants from this one on"),
        Parameter("endTime", "string", "", "only instants up to this one"),
    ),
    output=_TIMELINE_OUTPUT,
)
def show_timeline(context: Context, arguments: Arguments) -> Iterable[Sequence[object]]:
    """A row per instant of the active timeline.

    Raises UnsupportedTableError if archived instants are asked for and there are some.
    """
    table = find_table(context, arguments.table, arguments.path)
    if arguments.showArchived:
        _check_archive_is_empty(table)
    first, last = arguments.startTime, arguments.endTime
    rows = [
        row
        for row in _timeline_rows(table)
        if (not first or str(row[0]) >= first) and (not last or str(row[0]) <= last)
    ]
    return _filtered(context, rows, _TIMELINE_OUTPUT, arguments.filter)[: arguments.limit]


def _check_archive_is_empty(table: HudiTable) -> None:
    directory = archive_directory(table.base_path, table.properties.archive_directory)
    if table.storage.exists(directory) and table.storage.list_files(directory):
        raise UnsupportedTableError(
            f"the archived timeline in {directory} cannot be shown",
            hint="leave showArchived out: the active timeline is shown then",
        )


def _timeline_rows(table: HudiTable) -> Iterator[tuple[object, ...]]:
    """Rows of the active timeline, newest first; times are those of the instants' files."""
    reached: dict[tuple[str, str], dict[InstantState, FileInfo]] = {}
    layout = table.timeline.layout
    for entry in table.storage.list_directory(layout.timeline_directory(table.base_path)):
        instant = layout.parse_file_name(entry.name)
        if instant is not None:
            states = reached.setdefault((instant.timestamp, instant.completed_action), {})
            states[instant.state] = entry
    for instant in sorted(table.timeline.instants, reverse=True):
        states = reached.get((instant.timestamp, instant.completed_action), {})
        times = [
            _as_time(states[state], "%Y-%m-%d %H:%M:%S") if state in states else None
            for state in InstantState
        ]
        yield (
            instant.timestamp,
            instant.action,
            instant.state.name,
            *times,
            "ACTIVE",
            _rollback_info(table, instant),
        )


def _rollback_info(table: HudiTable, instant: Instant) -> str | None:
    """Which commits a completed rollback undid."""
    if instant.action != ROLLBACK or not instant.is_completed:
        return None
    path = table.instant_path(instant)
    metadata = load_codec("HoodieRollbackMetadata").decode(table.storage.read(path), path)
    return f"Rolled back {', '.join(metadata['commitsRollback'])}"


def _filtered(context: Context, rows: Rows, output: Sequence[Column], predicate: str) -> Rows:
    """The rows for which the predicate holds, in their order."""
    if not predicate.strip() or not rows:
        return rows
    return _evaluate(context, rows, output, predicate)


def _evaluate(context: Context, rows: Rows, output: Sequence[Column], predicate: str) -> Rows:
    from pyspark.errors import PySparkException

    position = "__hudisql_position"
    declared = ", ".join([f"{position} int", *(f"`{column.name}` {column.type}" for column in output)])
    numbered = [(number, *row) for number, row in enumerate(rows)]
    try:
        kept = context.spark.createDataFrame(numbered, declared).where(predicate).select(position).collect()
    except PySparkException as error:
        raise InvalidArgumentError(
            f"filter '{predicate}' cannot be evaluated: {without_internal_names(str(error).splitlines()[0])}",
            hint=f"it may use the output columns: {', '.join(column.name for column in output)}",
        ) from error
    chosen = {row[0] for row in kept}
    return [row for number, row in enumerate(rows) if number in chosen]
