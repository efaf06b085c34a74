"""A metadata table for a table that has none: its properties, one base file a file group, its first instant.

Follows `HoodieBackedTableMetadataWriter.initializeFromFilesystem` of Hudi 1.2, for table version 6 of Hudi
0.15. The table's properties name it last: until then readers do not use it, and the next write drops what a
killed process has left.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from hudisql.errors import InvalidArgumentError, UnsupportedTableError, WriteConflictError
from hudisql.format.hfile.hfile_cells import EncodedCells, cells_of
from hudisql.format.metadata_table.metadata_records import (
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    RECORD_LEVEL_INDEX,
)
from hudisql.format.metadata_table.value_types import digest_of_types
from hudisql.format.paths.file_names import parse_base_file_name, parse_log_file_name
from hudisql.format.schema.meta_columns import META_COLUMNS, META_SCHEMA, RECORD_KEY
from hudisql.format.table_properties import (
    INDEX_DEFINITIONS_PATH,
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
    NAME,
    PROPERTIES_FILE,
    render_table_properties,
)
from hudisql.format.timeline.commit_metadata import INDEXED_COMMITS, CommitMetadata, WriteStat
from hudisql.format.timeline.instant import DELTA_COMMIT, Instant, InstantState, new_instant_time
from hudisql.format.timeline.timeline_layout import (
    METADATA_DIRECTORY,
    instant_path,
    metadata_table_directory,
    new_table_directories,
)
from hudisql.read.merge.merge_mode import log_merge_config_for
from hudisql.spark.task_runner import SILENT
from hudisql.storage import join
from hudisql.table.file_slice import FileSlice, has_lost_its_rows
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.incomplete_groups import indexed_commits
from hudisql.table.metadata_table.index_definitions import IndexDefinition, render_index_definitions
from hudisql.table.metadata_table.kept_metadata_table import (
    IS_PARTITIONED,
    RECORD_INDEX_VERSION,
    STATISTICS_VERSIONS,
    has_first_form,
)
from hudisql.table.metadata_table.metadata_table import STATISTICS_INSTANT, STATISTICS_OF_SOURCES
from hudisql.table.metadata_table.statistics_columns import measured_fields
from hudisql.table.metadata_table.statistics_types import OTHER_COLUMNS
from hudisql.table.partitions.listed_partitions import list_partition_paths
from hudisql.table.properties.table_configuration import (
    check_nothing_begun,
    drop_metadata_table,
    statistics_properties,
    update_table_properties,
)
from hudisql.table.properties.timeline_clock import now_on_timeline
from hudisql.write.metadata_table.column_ranges import MeasuredFile, MeasureWithOthers
from hudisql.write.metadata_table.commit_statistics import fit_first_form, statistics_updates
from hudisql.write.metadata_table.deltacommit_files import commit_content
from hudisql.write.metadata_table.expression_index_files import records_to_index
from hudisql.write.metadata_table.files_of_commit import partition_values
from hudisql.write.metadata_table.measured_files import Measured, measure, measure_by
from hudisql.write.metadata_table.metadata_commit import file_records
from hudisql.write.metadata_table.new_index_files import (
    first_instant,
    has_old_layout,
    write_index,
    write_key_index,
)
from hudisql.write.metadata_table.record_index_files import RECORD_KEYS
from hudisql.write.metadata_table.secondary_index_files import keys_to_index

_OPERATION_TYPE: Final = "BULK_INSERT_PREPPED"
_DEFINITIONS_FILE: Final = ".hoodie/.index_defs/index.json"
ALWAYS_MADE: Final = (FILES, COLUMN_STATS, PARTITION_STATS)
"""The indexes that every metadata table gets, the last one if the table has partitions."""


@dataclass(frozen=True, slots=True)
class NewMetadataTable:
    """What was made: the names of the indexes, the number of files, and of records with statistics, and the
    bytes of the base files. `refusal` says why there is no record index although it was asked for.
    """

    indexes: tuple[str, ...]
    files: int
    statistics: int
    bytes: int
    refusal: UnsupportedTableError | None = None


def parse_indexes(indexes: str) -> frozenset[str]:
    """The indexes in the comma list.

    Raises InvalidArgumentError for one that hudisql does not make, and for record indexes of both kinds.
    """
    named = frozenset(name.strip().lower() for name in indexes.split(",") if name.strip())
    known = (*ALWAYS_MADE, RECORD_INDEX, RECORD_LEVEL_INDEX)
    unknown = sorted(named.difference(known))
    if unknown:
        raise InvalidArgumentError(
            f"hudisql makes no index '{unknown[0]}'", hint=f"indexes is a list of {', '.join(known)}"
        )
    if {RECORD_INDEX, RECORD_LEVEL_INDEX} <= named:
        raise InvalidArgumentError(
            f"indexes names {RECORD_INDEX} and {RECORD_LEVEL_INDEX}, and a table has one record index",
            hint=f"{RECORD_INDEX} is of the whole table, {RECORD_LEVEL_INDEX} of each partition",
        )
    return named


def create_metadata_table(
    table: HudiTable,
    *,
    with_record_index: bool = False,
    by_partition: bool = False,
    secondary: Sequence[IndexDefinition] = (),
    expressions: Sequence[IndexDefinition] = (),
    spark: Callable[[], Any] | None = None,
    console: Any = SILENT,
) -> NewMetadataTable:
    """Make the metadata table of a table of version 6, 8 or 9 in place of one that it has, under the lock.

    With `by_partition` there is a partitioned record index, for versions 8 and 9 without `secondary`. Many
    files and keys are read in tasks of `spark`, which is called for the session. There is no record
    index of keys that are too long or that several rows have (`refusal`), and without it none of the indexes
    `secondary`. Definitions are checked ones. In version 6 there are no statistics if a column is of a type,
    or has values, that they cannot hold: Hudi 0.15 expects those of all columns. Raises UnsupportedTableError
    for other tables and while another writer may be active, WriteConflictError if one changes the table
    meanwhile, SourceChangedError if an external file is missing or another one, CorruptTableError,
    StorageError.
    """
    _check_served(table)
    if by_partition:
        _check_served_by_partition(table, secondary)
    check_nothing_begun(table, "its metadata table cannot be made")
    if drop_metadata_table(table):
        table = table.reopened()
    sizes = _listed_files(table)
    updates: dict[str, EncodedCells] = {FILES: cells_of(file_records(sizes))}
    fields = measured_fields(table, table.schema)
    measured: Measured = {}
    others: frozenset[str] = frozenset()
    if fields:
        measured, others = _measure_with_others(table, fields, spark, console)
    if has_old_layout(table) and not fit_first_form(measured):
        fields = ()
    if fields:
        of_statistics = statistics_updates(
            measured,
            # Also of partitions whose values are not in their paths: Hudi 1.2 would make that index itself.
            with_partitions=bool(table.properties.partition_fields) and not has_old_layout(table),
            in_first_form=has_first_form(table),
        )
        updates |= {index: update.records for index, update in of_statistics.items()}
    for definition in expressions:
        files_to_measure = _measured_files(table, ())
        updates[definition.name] = records_to_index(table, definition, files_to_measure, spark, console)
    stats: dict[str, tuple[WriteStat, ...]] = {}
    refusal = None
    if with_record_index or by_partition:
        if not measured:
            measured = measure(table, _measured_files(table, _KEY), spark, console)
        indexes = [RECORD_KEYS, *(keys_to_index(table, definition) for definition in secondary)]
        keys = _counts_of_keys(measured)
        for index in indexes:
            made = write_key_index(table, index, keys, spark, console, by_partition=by_partition)
            if isinstance(made, UnsupportedTableError):
                refusal = made
                break
            stats[index.name] = made
    stats |= {index: tuple(write_index(table, index, records)) for index, records in updates.items()}
    if table.reopened().timeline != table.timeline:
        raise WriteConflictError(
            f"another writer has changed {table.base_path} while its metadata table was made",
            hint="run the statement again; it has no metadata table until then",
        )
    definitions = [definition for definition in (*secondary, *expressions) if definition.name in stats]
    names = tuple(field.name for field in fields)
    definitions = [*_definitions(table, stats, names, by_partition=by_partition), *definitions]
    written = _write(table, stats, names, definitions, others)
    files = sum(map(len, sizes.values()))
    statistics = len(updates[COLUMN_STATS]) if fields else 0
    return NewMetadataTable(tuple(sorted(stats)), files, statistics, written, refusal)


_KEY: Final = (META_SCHEMA.field(RECORD_KEY),)


def _measure_with_others(
    table: HudiTable, fields: tuple[pa.Field, ...], spark: Callable[[], Any] | None, console: Any
) -> tuple[Measured, frozenset[str]]:
    """The ranges of all files' columns, and the other columns that files have beside those of the table."""
    known = frozenset(name.lower() for name in (*META_COLUMNS, *table.schema.names))
    files = _measured_files(table, fields)
    found = measure_by(MeasureWithOthers(known), table, files, spark, console)
    measured = {path: [(name, ranges) for name, (ranges, _) in of_path] for path, of_path in found.items()}
    return measured, frozenset().union(*(others for each in found.values() for _, (_, others) in each))


def _check_served(table: HudiTable) -> None:
    reason = None
    if table.version not in STATISTICS_VERSIONS:
        versions = ", ".join(map(str, STATISTICS_VERSIONS))
        reason = f"it has table version {table.version}; hudisql makes metadata tables of versions {versions}"
    elif table.properties.has_register_only_partitions:
        reason = "rows of its register-only partitions are in no file of Hudi's"
    elif table.file_columns is not None:
        reason = "its columns have ids (hoodie.schema.on.read.enable)"
    if reason is not None:
        raise UnsupportedTableError(
            f"hudisql makes no metadata table for the Hudi table at {table.base_path}: {reason}",
            hint="a writer of Apache Hudi with hoodie.metadata.enable=true makes one",
        )


def _check_served_by_partition(table: HudiTable, secondary: Sequence[IndexDefinition]) -> None:
    problem = f"hudisql makes no partitioned record index for the Hudi table at {table.base_path}: "
    if has_old_layout(table):
        raise UnsupportedTableError(
            f"{problem}it has table version {table.version}, and those of versions 8 and 9 are kept",
            hint=f"indexes => '{RECORD_INDEX}', or CREATE INDEX {RECORD_INDEX} without the option "
            f"{IS_PARTITIONED}, makes one of the whole table",
        )
    if secondary:
        raise UnsupportedTableError(
            f"{problem}its index {secondary[0].name} needs a record index of the whole table",
            hint=f"drop the index with DROP INDEX, or use indexes => '{RECORD_INDEX}'",
        )


def _counts_of_keys(measured: Measured) -> dict[str, int]:
    """How many keys there are by partition path, about: those of log files count again."""
    return {
        path: sum(each.values for _, found in files for each in found if each.column == RECORD_KEY)
        for path, files in measured.items()
    }


def _listed_files(table: HudiTable) -> dict[str, dict[str, int]]:
    """The bytes of all committed files by partition path and name, but for those without rows."""
    paths = list_partition_paths(table)
    listings = table.storage.list_directories([join(table.base_path, path) for path in paths])
    return {
        path: {
            entry.name: entry.length
            for entry in entries
            if entry.length
            and not entry.is_directory
            and _is_committed(table, entry.name)
            and not has_lost_its_rows(entry)
        }
        for path, entries in zip(paths, listings, strict=True)
    }


def _is_committed(table: HudiTable, name: str) -> bool:
    base, log = parse_base_file_name(name), parse_log_file_name(name)
    if base is not None:
        return table.timeline.is_visible(base.instant_time)
    return log is not None and table.timeline.is_visible(log.base_instant_time)


def _measured_files(table: HudiTable, fields: tuple[pa.Field, ...]) -> dict[str, list[MeasuredFile]]:
    """The files of the latest slices by partition path, each as a slice of its own."""
    slices = load_file_slices(table)
    config = log_merge_config_for(table, slices)
    measured: dict[str, list[MeasuredFile]] = defaultdict(list)
    for file_slice in slices:
        values = partition_values(table, file_slice.partition_path)
        for alone in _files_of(file_slice):
            file = alone.base_file or alone.log_files[0]
            name = file.path.rpartition("/")[2]
            measured[file_slice.partition_path].append(
                MeasuredFile(name, alone, fields, values, log_merge_config=config)
            )
    return measured


def _files_of(found: FileSlice) -> list[FileSlice]:
    base = [replace(found, log_files=())] if found.base_file is not None else []
    logs = [
        replace(found, base_file=None, external_file=None, log_files=(log_file,))
        for log_file in found.log_files
        if log_file.holds_rows
    ]
    return [*base, *logs]


def _write(
    table: HudiTable,
    stats: Mapping[str, tuple[WriteStat, ...]],
    columns: tuple[str, ...],
    definitions: Sequence[IndexDefinition],
    others: Collection[str],
) -> int:
    """Write the properties and the first instant of the metadata table whose files are there, then name it in
    the table's properties.

    Returns the bytes of its base files.
    """
    storage, base_path = table.storage, metadata_table_directory(table.base_path)
    layout, now, instant_time = table.timeline.layout, datetime.now(UTC), first_instant(table)
    for directory in new_table_directories(layout.version):
        storage.make_directories(join(base_path, METADATA_DIRECTORY, directory))
    storage.make_directories(layout.timeline_directory(base_path))
    properties = _properties(table, columns, instant_time)
    properties[OTHER_COLUMNS] = json.dumps(sorted(others))
    if RECORD_INDEX in stats:
        properties[INDEXED_COMMITS] = indexed_commits(table.timeline).render()
    storage.write(join(base_path, PROPERTIES_FILE), render_table_properties(properties, now))
    commit = CommitMetadata(partition_to_write_stats=stats, operation_type=_OPERATION_TYPE)
    requested = Instant(instant_time, DELTA_COMMIT, InstantState.REQUESTED)
    completed = requested.in_state(InstantState.COMPLETED)
    if layout.has_completion_times:
        completion_time = new_instant_time(table.timeline.latest_time, now_on_timeline(table))
        completed = replace(completed, completion_time=completion_time)
    for instant in (requested, requested.in_state(InstantState.INFLIGHT)):
        storage.write(instant_path(base_path, layout, instant), b"")
    storage.write(instant_path(base_path, layout, completed), commit_content(layout, commit))
    changes: dict[str, str | None] = {
        METADATA_PARTITIONS: ",".join(sorted(stats)),
        METADATA_PARTITIONS_INFLIGHT: "",
        **statistics_properties(table.properties, are_right=COLUMN_STATS in stats),
    }
    if definitions:
        storage.write(join(table.base_path, _DEFINITIONS_FILE), render_index_definitions(definitions))
        changes[INDEX_DEFINITIONS_PATH] = _DEFINITIONS_FILE
    update_table_properties(storage, table.base_path, changes)
    return sum(stat.file_size_in_bytes for stat in commit.write_stats)


def _definitions(
    table: HudiTable,
    stats: Mapping[str, tuple[WriteStat, ...]],
    columns: tuple[str, ...],
    *,
    by_partition: bool,
) -> list[IndexDefinition]:
    """The definitions of the indexes, which Hudi 1.2 has in version 6, too."""
    definitions = []
    if COLUMN_STATS in stats:
        version = STATISTICS_VERSIONS[table.version]
        definitions.append(IndexDefinition(COLUMN_STATS, COLUMN_STATS, columns, version))
    if RECORD_INDEX in stats:
        options = {IS_PARTITIONED: str(by_partition).lower()}
        definitions.append(IndexDefinition(RECORD_INDEX, RECORD_INDEX, (), RECORD_INDEX_VERSION, options))
    return definitions


def _properties(table: HudiTable, columns: tuple[str, ...], instant_time: str) -> dict[str, str]:
    """The properties of the metadata table itself, as Hudi writes them, and hudisql's own."""
    of_statistics = {STATISTICS_OF_SOURCES: digest_of_types(table.schema, columns) or ""}
    if has_old_layout(table):
        of_statistics[STATISTICS_INSTANT] = instant_time
    return {
        NAME: f"{table.name}_metadata",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": str(table.version),
        **(_OLD_PROPERTIES if has_old_layout(table) else _NEWER_PROPERTIES),
        **({} if has_old_layout(table) else {"hoodie.table.initial.version": str(table.version)}),
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.populate.meta.fields": "false",
        "hoodie.table.recordkey.fields": "key",
        "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
        "hoodie.datasource.write.drop.partition.columns": "false",
        **(of_statistics if columns else {}),
    }


_OLD_PROPERTIES: Final = {
    "hoodie.timeline.layout.version": "1",
    "hoodie.archivelog.folder": "archived",
    "hoodie.table.keygenerator.class": "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator",
    "hoodie.compaction.record.merger.strategy": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
}
_NEWER_PROPERTIES: Final = {
    "hoodie.timeline.layout.version": "2",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
    "hoodie.archivelog.folder": "history",
    "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
    "hoodie.record.merge.mode": "CUSTOM",
    "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
}
