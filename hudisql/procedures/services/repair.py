"""Procedures that repair a table's files; with `dry_run => true` they only report.

Names, parameters, their defaults and columns are those of Hudi 0.15 (`RepairAddpartitionmetaProcedure`,
`RepairCorruptedCleanFilesProcedure`, `RepairOverwriteHoodiePropsProcedure`); the first one only reports by
default, and the others have the parameter `dry_run` here alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from hudisql.errors import CorruptTableError, InvalidArgumentError, NoSuchPathError
from hudisql.options.table_call import open_table_call
from hudisql.procedures.registry import NamedTableArguments, parameter, procedure
from hudisql.storage import join

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.format.timeline.instant import Instant
    from hudisql.table.hudi_table import HudiTable

# Properties on which files, meta columns and directories depend.
_FOLLOWED_BY_FILES: Final = (
    "version",
    "table_type",
    "record_key_fields",
    "partition_fields",
    "base_file_format",
    "populate_meta_fields",
    "hive_style_partitioning",
    "url_encode_partitioning",
    "drop_partition_columns",
    "partition_metafile_use_base_format",
    "archive_directory",
    "bootstrap_base_path",
)


def _dry_run_parameter(default: bool) -> Any:
    return parameter(default, help="only show what would be repaired")


@dataclass(frozen=True, kw_only=True)
class RepairPartitionsArguments(NamedTableArguments):
    """The parameters of `repair_add_partition_meta`."""

    dry_run: bool = _dry_run_parameter(True)


@dataclass(frozen=True, kw_only=True)
class RepairCleanFilesArguments(NamedTableArguments):
    """The parameters of `repair_corrupted_clean_files`."""

    dry_run: bool = _dry_run_parameter(False)


@dataclass(frozen=True)
class RepairPartitionRow:
    """A directory with data files, whether it is marked as a partition, and what was done."""

    partition_path: str
    metadata_is_present: str
    action: str


@procedure("Marks directories with data files as partitions where the marker file is missing.")
def repair_add_partition_meta(
    context: Context, arguments: RepairPartitionsArguments
) -> Iterable[RepairPartitionRow]:
    """A row for each directory; one that cannot be a partition stays unchanged. Raises NoSuchTableError,
    UnsupportedTableError, InvalidArgumentError for a table without commits, TableLockedError, StorageError.
    """
    from hudisql.table.partitions.listed_partitions import list_data_directories, list_partition_paths
    from hudisql.table.properties.written_versions import ANY_CHANGE
    from hudisql.write.transaction.writable_tables import check_writable

    call = open_table_call(context, arguments.table)
    table = call.table
    marked = set(list_partition_paths(table))
    unmarked = sorted(set(list_data_directories(table)) - marked)
    partitions = _choose_partitions(table, marked, unmarked)
    if partitions and not arguments.dry_run:
        check_writable(table, ANY_CHANGE)
        with call.concurrency().hold():
            _mark(table, partitions)
    actions = dict.fromkeys(marked, "None") | dict.fromkeys(unmarked, "Not a partition")
    actions |= dict.fromkeys(partitions, "None" if arguments.dry_run else "Repaired")
    return [
        RepairPartitionRow(path, "Yes" if path in marked else "No", action)
        for path, action in sorted(actions.items())
    ]


def _choose_partitions(table: HudiTable, marked: Collection[str], unmarked: Iterable[str]) -> list[str]:
    """The sorted paths that can be partitions beside the marked ones.

    There are no partitions below a partition: one in the base path would hide all others.
    """
    around_marked = {above for path in marked for above in _above(path)}
    chosen = set(marked)
    for path in unmarked:
        is_nested = path in around_marked or any(above in chosen for above in _above(path))
        if not is_nested and _names_partition(table, path):
            chosen.add(path)
    return sorted(chosen - set(marked))


def _above(path: str) -> list[str]:
    """The paths of the parent directories of a path, the base path first."""
    parts = path.split("/") if path else []
    return ["/".join(parts[:count]) for count in range(len(parts))]


def _names_partition(table: HudiTable, path: str) -> bool:
    """True if the path has values of the table's partition columns."""
    from hudisql.table.partitions.listed_partitions import partition_of

    fields = table.properties.partition_fields
    if not fields or not path:
        return not fields and not path
    if table.properties.hive_style_partitioning and not path.lower().startswith(f"{fields[0].lower()}="):
        return False
    try:
        partition_of(table, path)
    except CorruptTableError:
        return False
    return True


def _mark(table: HudiTable, paths: Iterable[str]) -> None:
    from hudisql.format.paths.partition_metadata import (
        PARTITION_METADATA_FILE,
        PartitionMetadata,
        render_partition_metadata,
    )

    latest = table.timeline.latest_commit
    if latest is None:
        raise InvalidArgumentError(
            f"the Hudi table at {table.base_path} has no commit to name in the markers"
        )
    for path in paths:
        metadata = PartitionMetadata(latest.timestamp, path.count("/") + 1 if path else 0)
        content = render_partition_metadata(metadata, datetime.now(UTC))
        table.storage.write(join(table.base_path, path, PARTITION_METADATA_FILE), content)


@dataclass(frozen=True)
class RepairCleanFilesRow:
    """True if no pending clean has a corrupt plan (after the repair)."""

    result: bool


@procedure("Deletes pending cleans whose plan cannot be read.")
def repair_corrupted_clean_files(
    context: Context, arguments: RepairCleanFilesArguments
) -> Iterable[RepairCleanFilesRow]:
    """One row. Raises NoSuchTableError, UnsupportedTableError, TableLockedError, StorageError."""
    from hudisql.write.transaction.instant_rollback import remove_pending
    from hudisql.write.transaction.writable_tables import check_writable

    call = open_table_call(context, arguments.table)
    if arguments.dry_run:
        return [RepairCleanFilesRow(not _corrupt_cleans(call.table))]
    check_writable(call.table)
    with call.concurrency().hold():
        table = call.table.reopened()
        for clean in _corrupt_cleans(table):
            remove_pending(table, clean)
    return [RepairCleanFilesRow(True)]


def _corrupt_cleans(table: HudiTable) -> list[Instant]:
    from hudisql.format.timeline.instant import CLEAN
    from hudisql.services.clean.clean_plan import read_clean_plan

    instants = []
    for instant in table.timeline.pending:
        if instant.action == CLEAN:
            try:
                read_clean_plan(table, instant)
            except (CorruptTableError, NoSuchPathError):
                instants.append(instant)
    return instants


@dataclass(frozen=True, kw_only=True)
class OverwritePropertiesArguments(NamedTableArguments):
    """The parameters of `repair_overwrite_hoodie_props`."""

    new_props_file_path: str = parameter(help="file with all the new properties of hoodie.properties")
    dry_run: bool = _dry_run_parameter(False)


@dataclass(frozen=True)
class OverwrittenPropertyRow:
    """A property before and after; `null` where it is not set."""

    property: str
    old_value: str
    new_value: str


@procedure("Replaces the table's own configuration (hoodie.properties) by that of a file.")
def repair_overwrite_hoodie_props(
    context: Context, arguments: OverwritePropertiesArguments
) -> Iterable[OverwrittenPropertyRow]:
    """A row for each property, by name. Raises NoSuchTableError, NoSuchPathError, InvalidArgumentError for a
    file that describes another table, UnsupportedTableError, WriteConflictError, TableLockedError,
    StorageError.
    """
    from hudisql.format.table_properties import (
        CHECKSUM,
        DATABASE_NAME,
        NAME,
        parse_properties,
        table_checksum,
    )

    call = open_table_call(context, arguments.table)
    content = context.storage.read(context.storage.qualify(arguments.new_props_file_path))
    new = parse_properties(content)
    _check_same_table(call.table, new, arguments.new_props_file_path)
    new[CHECKSUM] = str(table_checksum(new.get(DATABASE_NAME), new[NAME]))
    old = dict(call.table.properties.values)
    if not arguments.dry_run:
        with call.concurrency().hold():
            _replace_properties(call.table, new)
    return [
        OverwrittenPropertyRow(key, old.get(key, "null"), new.get(key, "null"))
        for key in sorted({*old, *new})
    ]


def _check_same_table(table: HudiTable, new: Mapping[str, str], path: str) -> None:
    """Raise InvalidArgumentError unless the properties describe a table with the same files."""
    from hudisql.format.table_properties import NAME, TableProperties
    from hudisql.table.hudi_table import check_readable

    if NAME not in new:
        raise InvalidArgumentError(
            f"{path} lacks {NAME}: it is not a table's configuration",
            hint="CALL show_table_properties(table => '…', limit => 1000) shows what the table has",
        )
    properties, old = TableProperties(new), table.properties
    check_readable(properties, table.base_path)
    for what in _FOLLOWED_BY_FILES:
        before, after = getattr(old, what), getattr(properties, what)
        if before != after:
            raise InvalidArgumentError(
                f"{path} changes the {what.replace('_', ' ')} of the Hudi table at {table.base_path} from "
                f"{before!r} to {after!r}, which its files do not follow"
            )


def _replace_properties(table: HudiTable, new: Mapping[str, str]) -> None:
    from hudisql.format.metadata_table.metadata_records import COLUMN_STATS
    from hudisql.format.table_properties import read_table_properties
    from hudisql.services.rollback.rollback_action import check_nobody_writes
    from hudisql.table.metadata_table.kept_metadata_table import find_kept
    from hudisql.table.properties.table_configuration import record_statistics, update_table_properties
    from hudisql.write.transaction.writable_tables import check_writable

    table = table.reopened()
    check_writable(table)
    check_nobody_writes(table)
    old = read_table_properties(table.storage, table.base_path).values
    update_table_properties(table.storage, table.base_path, {**dict.fromkeys(old), **new})
    replaced = table.reopened()
    kept = find_kept(replaced)
    record_statistics(replaced, are_right=kept is not None and COLUMN_STATS in kept.indexes)
