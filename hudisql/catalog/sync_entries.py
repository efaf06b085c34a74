"""The metastore entries that a Hudi table should have, as values.

Follows the sync of Hudi 0.15 (`HiveSyncTool`, `HMSDDLExecutor`, `SparkDataSourceTableUtils`), so that Hive,
Spark and Hudi itself can read the entries. Does not access a metastore.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from hudisql.catalog.client import ADD_BATCH
from hudisql.catalog.connection import user_name
from hudisql.catalog.hive_types import hive_type_name
from hudisql.catalog.metastore_table import (
    HUDI_INPUT_FORMAT,
    HUDI_REALTIME_INPUT_FORMAT,
    PARQUET_INPUT_FORMAT,
    PARQUET_OUTPUT_FORMAT,
    PARQUET_SERDE,
    PROVIDER_PROPERTY,
    READ_OPTIMIZED_PROPERTY,
    READ_OPTIMIZED_SUFFIX,
    REALTIME_SUFFIX,
    SOURCE_DIRECTORIES_PROPERTY,
    MetastoreColumn,
    MetastorePartition,
    MetastoreTable,
)
from hudisql.catalog.sync_changes import commit_properties
from hudisql.catalog.sync_settings import SYNC_PREFIX, check_sync_settings, parse_properties
from hudisql.errors import CorruptTableError, InvalidArgumentError, UnsupportedTableError
from hudisql.format.paths.partition_path import HIVE_DEFAULT_PARTITION, render_partition_value
from hudisql.format.schema.avro_schema import comment_of
from hudisql.format.schema.spark_schema import spark_json_from_arrow
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition, directory_columns, directory_values
from hudisql.table.partitions.registered_partitions import registered_partitions

CREATE_VERSION_PROPERTY = "spark.sql.create.version"
SCHEMA_PROPERTY_PREFIX = "spark.sql.sources.schema"
_STRATEGIES = ("ALL", "RO", "RT")

# Hudi's own option names, for `options =>` of procedures.
STRATEGY_OPTION = f"{SYNC_PREFIX}table.strategy"
INCREMENTAL_OPTION = "hoodie.meta.sync.incremental"
OMIT_META_COLUMNS_OPTION: Final = f"{SYNC_PREFIX}omit_metadata_fields"
TIMESTAMP_OPTION: Final = f"{SYNC_PREFIX}support_timestamp"
_SETTINGS: Final[Mapping[str, str]] = {
    "strategy": STRATEGY_OPTION,
    "skip_ro_suffix": f"{SYNC_PREFIX}skip_ro_suffix",
    "snapshot_with_table_name": "hoodie.meta.sync.sync_snapshot_with_table_name",
    "support_timestamp": TIMESTAMP_OPTION,
    "sync_comments": f"{SYNC_PREFIX}sync_comment",
    "schema_part_length": f"{SYNC_PREFIX}schema_string_length_thresh",
    "incremental": INCREMENTAL_OPTION,
    "table_properties": f"{SYNC_PREFIX}table_properties",
    "serde_properties": f"{SYNC_PREFIX}serde_properties",
    "creates_database": f"{SYNC_PREFIX}auto_create_database",
    "batch_size": f"{SYNC_PREFIX}batch_num",
    "ignore_failures": f"{SYNC_PREFIX}ignore_exceptions",
    "omits_meta_columns": OMIT_META_COLUMNS_OPTION,
}
"""The setting of each field of `SyncOptions`."""


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """How a table is shown in the metastore; the defaults are Hudi's.

    `strategy` ALL, RO or RT and `skip_ro_suffix` select the entries of a merge-on-read table; with
    `snapshot_with_table_name` its plain name is one (the merged rows). `support_timestamp` declares
    timestamps to Hive as such and not as bigints of microseconds: Hudi's input formats then need a newer
    parquet library than Hive 2.3 has, and every query of such a column fails there. Spark has the real type
    from its own property either way. `schema_part_length` is in characters. `incremental` looks only at
    partitions written since the last sync. Entries get `table_properties` and `serde_properties`, pairs;
    `batch_size` partitions go in one call; with `ignore_failures` a failed sync is a warning. With
    `omits_meta_columns` entries have only the table's own columns; None leaves an entry as an earlier sync
    made it, and a new one has all columns.
    """

    strategy: str = "ALL"
    skip_ro_suffix: bool = False
    snapshot_with_table_name: bool = True
    support_timestamp: bool = False
    sync_comments: bool = True
    schema_part_length: int = 4000
    incremental: bool = False
    table_properties: tuple[tuple[str, str], ...] = ()
    serde_properties: tuple[tuple[str, str], ...] = ()
    creates_database: bool = True
    batch_size: int = ADD_BATCH
    ignore_failures: bool = False
    omits_meta_columns: bool | None = None

    def __post_init__(self) -> None:
        if self.strategy not in _STRATEGIES:
            raise InvalidArgumentError(
                f"unknown sync strategy '{self.strategy}'", hint=f"use one of {', '.join(_STRATEGIES)}"
            )
        if self.schema_part_length < 1:
            raise InvalidArgumentError(f"{_SETTINGS['schema_part_length']} must be positive")
        if self.batch_size < 1:
            raise InvalidArgumentError(f"{_SETTINGS['batch_size']} must be positive")


def sync_options_from(settings: Mapping[str, str]) -> SyncOptions:
    """The options from Hudi's own `hoodie.*` settings. Raises InvalidArgumentError for bad values."""
    check_sync_settings(settings)
    usual = SyncOptions()
    values = {
        name: _parsed(key, settings[key], getattr(usual, name))
        for name, key in _SETTINGS.items()
        if key in settings
    }
    return replace(usual, **values)


def changed_settings(options: SyncOptions) -> dict[str, str]:
    """The `hoodie.*` settings in which these options differ from the defaults."""
    usual = SyncOptions()
    return {
        key: _text(value)
        for name, key in _SETTINGS.items()
        if (value := getattr(options, name)) != getattr(usual, name)
    }


@dataclass(frozen=True, slots=True)
class EntryKind:
    """One name that a table gets: `realtime` shows merged rows, `read_optimized` base files only."""

    name: str
    realtime: bool = False
    read_optimized: bool = False


def entry_kinds(table: HudiTable, name: str, options: SyncOptions) -> tuple[EntryKind, ...]:
    """The names of a table: its own, for merge-on-read also `_ro` and `_rt`, depending on strategy and
    suffix.

    With `skip_ro_suffix` the plain name shows base files only (Apache Hudi 0.15 mixes both kinds).
    """
    name = name.lower()
    if not table.is_merge_on_read:
        return (EntryKind(name),)
    if options.strategy == "RO":
        return (EntryKind(name, read_optimized=True),)
    if options.strategy == "RT":
        return (EntryKind(name, realtime=True),)
    realtime = EntryKind(name + REALTIME_SUFFIX, realtime=True)
    if options.skip_ro_suffix:
        return (EntryKind(name, read_optimized=True), realtime)
    plain = (EntryKind(name, realtime=True),) if options.snapshot_with_table_name else ()
    return (*plain, EntryKind(name + READ_OPTIMIZED_SUFFIX, read_optimized=True), realtime)


def wanted_table(
    table: HudiTable,
    database: str,
    kind: EntryKind,
    options: SyncOptions,
    found: MetastoreTable | None = None,
) -> MetastoreTable:
    """The entry as it should be; `found` is the one that exists: no metastore changes partition columns.

    Raises UnsupportedTableError for schemas that Hive does not support.
    """
    declared = {} if found is None else {column.name: column.type for column in found.partition_columns}
    location = table.storage.hadoop_uri(table.base_path)
    partition_fields = directory_columns(table)
    partition_names = {column.name.lower() for column in partition_fields}
    schema = table.schema if options.omits_meta_columns else table.full_schema
    data_fields = [column for column in schema if column.name.lower() not in partition_names]
    _check_names([*data_fields, *partition_fields], table.base_path)
    return MetastoreTable(
        database=database.lower(),
        name=kind.name,
        table_type="EXTERNAL_TABLE",
        location=location,
        columns=tuple(_column(column, options) for column in data_fields),
        partition_columns=tuple(
            _partition_column(column, options, declared.get(column.name.lower()))
            for column in partition_fields
        ),
        owner=user_name(),
        input_format=HUDI_REALTIME_INPUT_FORMAT if kind.realtime else HUDI_INPUT_FORMAT,
        output_format=PARQUET_OUTPUT_FORMAT,
        serde=PARQUET_SERDE,
        serde_properties={
            **dict(options.serde_properties),
            "serialization.format": "1",
            "path": location,
            READ_OPTIMIZED_PROPERTY: "true" if kind.read_optimized else "false",
        },
        parameters={
            **dict(options.table_properties),
            "EXTERNAL": "TRUE",
            CREATE_VERSION_PROPERTY: importlib.metadata.version("pyspark"),
            **commit_properties(table),
            **_source_properties(table),
            **_meta_column_properties(options),
            **_timestamp_properties(data_fields, options, found),
            **_spark_properties(data_fields, _typed(table, partition_fields), options),
        },
    )


def wanted_partition(
    table: HudiTable, entry: MetastoreTable, partition: TablePartition
) -> MetastorePartition:
    """A partition of `entry` as it should be."""
    texts = [
        render_partition_value(value, column.type)
        for value, column in zip(directory_values(table, partition), directory_columns(table), strict=True)
    ]
    registered = registered_partitions(table).by_path.get(partition.path)
    directory = join(table.base_path, partition.path) if registered is None else registered.directory
    return MetastorePartition(
        values=tuple(HIVE_DEFAULT_PARTITION if text is None else text for text in texts),
        location=table.storage.hadoop_uri(directory),
        columns=entry.columns,
        # Hudi's input format reads only files of Hudi tables.
        input_format=entry.input_format if registered is None else PARQUET_INPUT_FORMAT,
        output_format=entry.output_format if registered is None else PARQUET_OUTPUT_FORMAT,
        serde=entry.serde,
        serde_properties=entry.serde_properties,
    )


def _source_properties(table: HudiTable) -> dict[str, str]:
    """The properties that `bootstrap.lease.protected_sources` searches."""
    directories = [table.storage.qualify(directory) for directory in table.properties.source_directories]
    return {SOURCE_DIRECTORIES_PROPERTY: json.dumps(directories)} if directories else {}


def _timestamp_properties(
    data_fields: Sequence[pa.Field], options: SyncOptions, found: MetastoreTable | None
) -> dict[str, str]:
    """The property by which syncs of Hudi's own SQL declare timestamps as the entry does.

    By default they declare them as such, and the metastore refuses to make a timestamp of a bigint.
    """
    shown = {
        column.name.lower(): as_timestamp
        for column in data_fields
        if (as_timestamp := hive_type_name(column.type, support_timestamp=True))
        != hive_type_name(column.type, support_timestamp=False)
    }
    if not shown:
        return {}
    declared = [
        column.type == shown[column.name.lower()]
        for column in (() if found is None else found.columns)
        if column.name.lower() in shown
    ]
    return {TIMESTAMP_OPTION: _text(any(declared) if declared else options.support_timestamp)}


def _meta_column_properties(options: SyncOptions) -> dict[str, str]:
    """The property by which later syncs and queries know whether the entry shows the meta columns."""
    omits = options.omits_meta_columns
    return {} if omits is None else {OMIT_META_COLUMNS_OPTION: _text(omits)}


def check_omitted_columns(options: SyncOptions, *, is_merge_on_read: bool) -> None:
    """Raise UnsupportedTableError for a merge-on-read table whose entries are to omit the meta columns.

    Hive's reader of merged rows finds the record key at the third column, and else gives no rows.
    """
    if options.omits_meta_columns and is_merge_on_read:
        raise UnsupportedTableError(
            f"{OMIT_META_COLUMNS_OPTION} is for copy-on-write tables: of a merge-on-read table without the "
            "meta columns Hive would give no rows",
            hint="leave it out",
        )


def omits_meta_columns(entry: MetastoreTable) -> bool:
    """True if the entry was synced without the meta columns, and queries by its name do not show them."""
    return entry.parameters.get(OMIT_META_COLUMNS_OPTION, "").strip().lower() == "true"


def _typed(table: HudiTable, partition_fields: tuple[pa.Field, ...]) -> tuple[pa.Field, ...]:
    """The columns with the table's own types, which Spark uses."""
    by_name = {field.name.lower(): field for field in table.schema}
    return tuple(by_name.get(field.name.lower(), field) for field in partition_fields)


def check_distinct(partitions: list[MetastorePartition], base_path: str) -> None:
    """Raise CorruptTableError if two directories hold the same partition values (`m=3` and `m=03`)."""
    seen: dict[tuple[str, ...], str | None] = {}
    for partition in partitions:
        if partition.values in seen:
            raise CorruptTableError(
                f"two directories of {base_path} hold the same partition {partition.values}: "
                f"{seen[partition.values]} and {partition.location}",
                hint="the metastore can hold only one of them: move the rows of one into the other",
            )
        seen[partition.values] = partition.location


def _spark_properties(
    data_fields: list[pa.Field], partition_fields: tuple[pa.Field, ...], options: SyncOptions
) -> dict[str, str]:
    text = spark_json_from_arrow(pa.schema([*data_fields, *partition_fields]))
    length = options.schema_part_length
    parts = [text[start : start + length] for start in range(0, len(text), length)]
    properties = {PROVIDER_PROPERTY: "hudi", f"{SCHEMA_PROPERTY_PREFIX}.numParts": str(len(parts))}
    properties |= {f"{SCHEMA_PROPERTY_PREFIX}.part.{number}": part for number, part in enumerate(parts)}
    if partition_fields:
        properties[f"{SCHEMA_PROPERTY_PREFIX}.numPartCols"] = str(len(partition_fields))
        for number, column in enumerate(partition_fields):
            properties[f"{SCHEMA_PROPERTY_PREFIX}.partCol.{number}"] = column.name
    return properties


def _column(column: pa.Field, options: SyncOptions) -> MetastoreColumn:
    try:
        text = hive_type_name(column.type, support_timestamp=options.support_timestamp)
    except UnsupportedTableError as error:
        raise UnsupportedTableError(f"column {column.name}: {error.message}", hint=error.hint) from error
    return MetastoreColumn(
        column.name.lower(), text, (comment_of(column) if options.sync_comments else None) or ""
    )


def _partition_column(column: pa.Field, options: SyncOptions, declared: str | None) -> MetastoreColumn:
    """The column of directories, whose values are texts of the metastore: a timestamp is a string by default.

    Hive 2.3 cannot query a Hudi table with a timestamp, and no directory name is a bigint. An entry that has
    either keeps it.
    """
    if not pa.types.is_timestamp(column.type):
        return _column(column, options)
    is_time = declared == "timestamp" or (options.support_timestamp and declared != "string")
    shown = column if is_time else column.with_type(pa.string())
    return _column(shown, replace(options, support_timestamp=True))


def _check_names(fields: list[pa.Field], base_path: str) -> None:
    seen: dict[str, str] = {}
    for column in fields:
        other = seen.setdefault(column.name.lower(), column.name)
        if other != column.name:
            raise UnsupportedTableError(
                f"columns {other} and {column.name} of {base_path} differ only in case, which Hive ignores"
            )


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "\n".join(f"{key}={entry}" for key, entry in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parsed(key: str, text: str, default: object) -> Any:
    """The value of a setting, of the type of its default."""
    if isinstance(default, tuple):
        return parse_properties(key, text)
    if default is None or isinstance(default, bool):
        flag = text.strip().lower()
        if flag not in ("", "true", "false"):
            raise InvalidArgumentError(f"{key} is neither true nor false: '{flag}'")
        return flag == "true" if flag else default
    if isinstance(default, int):
        if not text.isdecimal():
            raise InvalidArgumentError(f"{key} is not a number: '{text}'")
        return int(text)
    return text.upper() or default
