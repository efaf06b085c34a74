"""Update `hoodie.properties` of an existing table, and drop its metadata table.

Follows `HoodieTableConfig.modify` of Hudi 0.15 (a backup is written first, so that readers find whole
properties at any moment) and `HoodieTableMetadataUtil.deleteMetadataTable`. Knows nothing of commits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final

from hudisql.errors import UnsupportedTableError
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS
from hudisql.format.table_properties import (
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
    PROPERTIES_BACKUP_FILE,
    PROPERTIES_FILE,
    WRITE_VERSION,
    TableProperties,
    read_table_properties,
    read_whole_file,
    render_table_properties,
)
from hudisql.format.timeline.instant import (
    CLEAN,
    CLUSTERING,
    COMPACTION,
    LOG_COMPACTION,
    Instant,
    InstantState,
)
from hudisql.format.timeline.timeline_layout import metadata_directory, metadata_table_directory
from hudisql.storage import FileInfo, Storage, join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.index_definitions import remove_index_definitions
from hudisql.table.metadata_table.kept_metadata_table import NEWEST_VERSION
from hudisql.table.metadata_table.metadata_table import STATISTICS_OF_SOURCES

COLUMN_STATS_ENABLE: Final = "hoodie.metadata.index.column.stats.enable"
"""A setting that writers of Hudi's data source and SQL also take from the table's properties.

Bootstrapped tables have it: false if hudisql has not made the statistics, since Hudi takes those of a
skeleton from its own footer, which lacks the data columns, and then leaves out its rows in filtered reads.
"""
_PLANNED: Final = frozenset({COMPACTION, LOG_COMPACTION, CLUSTERING, CLEAN})


def update_table_properties(storage: Storage, base_path: str, changes: Mapping[str, str | None]) -> None:
    """Set the given properties (None: remove) and keep all others. Raises NoSuchTableError, StorageError."""
    values = dict(read_table_properties(storage, base_path).values)
    for key, value in changes.items():
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
    content = render_table_properties(values, datetime.now(UTC))
    properties, backup = (join(base_path, name) for name in (PROPERTIES_FILE, PROPERTIES_BACKUP_FILE))
    # If an earlier update was cut short, the backup holds the properties and must not be overwritten.
    whole = read_whole_file(storage, properties)
    if whole is not None:
        storage.delete_file(backup)
        storage.write(backup, whole)
    storage.delete_file(properties)
    storage.write(properties, content)
    storage.delete_file(backup)


def reopened_with_entries(table: HudiTable) -> tuple[HudiTable, Mapping[str, FileInfo]]:
    """The table as it is now, and the files and directories in `.hoodie` by name.

    In layout 1 of the timeline one listing has both. Raises as `HudiTable.reopened`.
    """
    entries = table.storage.list_directory(metadata_directory(table.base_path))
    return table.reopened(entries), {entry.name: entry for entry in entries}


def has_metadata_table(table: HudiTable) -> bool:
    """True if readers of Apache Hudi might trust a metadata table that hudisql does not keep."""
    return names_metadata_table(table) or table.storage.exists(metadata_table_directory(table.base_path))


def names_metadata_table(table: HudiTable) -> bool:
    """True if the table's properties name a metadata table, or one that is being made."""
    inflight = table.properties.get(METADATA_PARTITIONS_INFLIGHT)
    return bool(table.properties.metadata_partitions or inflight)


def drop_metadata_table(table: HudiTable) -> bool:
    """Drop the metadata table before data that it lacks becomes visible; True if there was one.

    The properties go first: from then on readers list directories. Apache Hudi creates a new one if its
    writers are configured to. Raises UnsupportedTableError while another writer may be active, StorageError.
    With timeline layout 2 plans that nobody runs are ignored.
    """
    if not has_metadata_table(table):
        record_statistics(table, are_right=False)
        return False
    check_nothing_begun(table, "its metadata table cannot be dropped")
    forget_metadata_table(table)
    return True


def forget_metadata_table(table: HudiTable) -> None:
    """Drop the metadata table while the caller's own action is pending. Raises StorageError."""
    properties = read_table_properties(table.storage, table.base_path)
    without = statistics_properties(properties, are_right=False)
    changes = {METADATA_PARTITIONS: "", METADATA_PARTITIONS_INFLIGHT: "", **without}
    update_table_properties(table.storage, table.base_path, changes)
    table.storage.delete_directory(metadata_table_directory(table.base_path))


def drop_indexes(table: HudiTable, names: Collection[str]) -> None:
    """Drop indexes of the metadata table, as `forget_metadata_table` does all, and their definitions.

    Raises CorruptTableError, StorageError.
    """
    properties = read_table_properties(table.storage, table.base_path)
    left = [name for name in properties.metadata_partitions if name not in names]
    without = {} if COLUMN_STATS in left else statistics_properties(properties, are_right=False)
    changes = {METADATA_PARTITIONS: ",".join(left), **without}
    update_table_properties(table.storage, table.base_path, changes)
    own_path = metadata_table_directory(table.base_path)
    for name in names:
        table.storage.delete_directory(join(own_path, name))
    if COLUMN_STATS in names and properties.bootstrap_base_path is None:
        # Those that Apache Hudi makes again are its own.
        update_table_properties(table.storage, own_path, {STATISTICS_OF_SOURCES: None})
    remove_index_definitions(table, names)


def record_statistics(table: HudiTable, *, are_right: bool) -> None:
    """Let Hudi's writers keep the statistics of a bootstrapped table, or make none if none `are_right`.

    Nothing is written if the properties say so already. Called under the table's lock. Raises StorageError.
    """
    properties = table.properties
    wanted = statistics_properties(properties, are_right=are_right)
    changes = {key: value for key, value in wanted.items() if properties.get(key) != value}
    if changes:
        update_table_properties(table.storage, table.base_path, changes)


def statistics_properties(properties: TableProperties, *, are_right: bool) -> dict[str, str | None]:
    """The properties of a bootstrapped table by which `record_statistics` tells Hudi's writers what to do.

    With statistics an older table keeps its version: an upgrade by Hudi 1.x adds wrong ones of partitions.
    """
    if properties.bootstrap_base_path is None:
        return {}
    if are_right:
        keeps_version = properties.version < NEWEST_VERSION
        version = str(properties.version) if keeps_version else None
        return {COLUMN_STATS_ENABLE: "true", WRITE_VERSION: version}
    were_right = properties.get(COLUMN_STATS_ENABLE) == "true"
    return {COLUMN_STATS_ENABLE: "false", **({WRITE_VERSION: None} if were_right else {})}


def check_nothing_begun(table: HudiTable, what: str) -> None:
    """Raise UnsupportedTableError, which says what cannot be done, while another writer may be active.

    What it began without an index, or with one, it completes so.
    """
    begun = begun_action(table)
    if begun is not None:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} has an unfinished {begun.action} {begun.timestamp}: "
            f"{what} now",
            hint="let the other writer finish, or roll it back, then run the statement again",
        )


def begun_action(table: HudiTable) -> Instant | None:
    """The last action that another writer may be working on; None if there is none."""
    begun = [instant for instant in table.timeline.pending if not _is_only_planned(table, instant)]
    return begun[-1] if begun else None


def _is_only_planned(table: HudiTable, pending: Instant) -> bool:
    is_plan = pending.action in _PLANNED and pending.state is InstantState.REQUESTED
    return is_plan and table.timeline.layout.has_completion_times
