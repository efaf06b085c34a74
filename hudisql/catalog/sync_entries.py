"""The metastore entries that a Hudi table should have, as values.

Follows the sync of Hudi 0.15 (`HiveSyncTool`, `HMSDDLExecutor`, `SparkDataSourceTableUtils`), so that Hive,
Spark and Hudi itself can read the entries. Does not access a metastore.
"""

from __future__ import annotations

import getpass
import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from hudisql.catalog.client import ADD_BATCH
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
STRATEGY_OPTION = "hoodie.datasource.hive_sync.table.strategy"
_SKIP_SUFFIX_OPTION = "hoodie.datasource.hive_sync.skip_ro_suffix"
_TIMESTAMP_OPTION = "hoodie.datasource.hive_sync.support_timestamp"
_COMMENT_OPTION = "hoodie.datasource.hive_sync.sync_comment"
_SCHEMA_LENGTH_OPTION = "hoodie.datasource.hive_sync.schema_string_length_thresh"
_PLAIN_NAME_OPTION = "hoodie.meta.sync.sync_snapshot_with_table_name"
INCREMENTAL_OPTION = "hoodie.meta.sync.incremental"
_TABLE_PROPERTIES_OPTION = f"{SYNC_PREFIX}table_properties"
_SERDE_PROPERTIES_OPTION = f"{SYNC_PREFIX}serde_properties"
_CREATE_DATABASE_OPTION = f"{SYNC_PREFIX}auto_create_database"
_BATCH_OPTION = f"{SYNC_PREFIX}batch_num"
_IGNORE_OPTION = f"{SYNC_PREFIX}ignore_exceptions"


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """How a table is shown in the metastore; the defaults are Hudi's.

    `strategy` ALL, RO or RT and `skip_ro_suffix` select the entries of a merge-on-read table; with
    `snapshot_with_table_name` its plain name is one (the merged rows). `support_timestamp` declares
    timestamps to Hive as such and not as bigints of microseconds: Hudi's input formats then need a newer
    parquet library than Hive 2.3 has, and every query of such a column fails there. Spark has the real type
    from its own property either way. `schema_part_length` is in characters. `incremental` looks only at
    partitions written since the last sync. Entries get `table_properties` and `serde_properties`, pairs;
    `batch_size` partitions go in one call; with `ignore_failures` a failed sync is a warning.
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

    def __post_init__(self) -> None:
        if self.strategy not in _STRATEGIES:
            raise InvalidArgumentError(
                f"unknown sync strategy '{self.strategy}'", hint=f"use one of {', '.join(_STRATEGIES)}"
            )
        if self.schema_part_length < 1:
            raise InvalidArgumentError(f"{_SCHEMA_LENGTH_OPTION} must be positive")
        if self.batch_size < 1:
            raise InvalidArgumentError(f"{_BATCH_OPTION} must be positive")


def sync_options_from(settings: Mapping[str, str]) -> SyncOptions:
    """The options from Hudi's own `hoodie.*` settings. Raises InvalidArgumentError for bad values."""
    check_sync_settings(settings)
    return SyncOptions(
        strategy=settings.get(STRATEGY_OPTION, "ALL").upper() or "ALL",
        skip_ro_suffix=_flag(settings, _SKIP_SUFFIX_OPTION, False),
        snapshot_with_table_name=_flag(settings, _PLAIN_NAME_OPTION, True),
        support_timestamp=_flag(settings, _TIMESTAMP_OPTION, False),
        sync_comments=_flag(settings, _COMMENT_OPTION, True),
        schema_part_length=_number(settings, _SCHEMA_LENGTH_OPTION, 4000),
        incremental=_flag(settings, INCREMENTAL_OPTION, False),
        table_properties=parse_properties(
            _TABLE_PROPERTIES_OPTION, settings.get(_TABLE_PROPERTIES_OPTION, "")
        ),
        serde_properties=parse_properties(
            _SERDE_PROPERTIES_OPTION, settings.get(_SERDE_PROPERTIES_OPTION, "")
        ),
        creates_database=_flag(settings, _CREATE_DATABASE_OPTION, True),
        batch_size=_number(settings, _BATCH_OPTION, ADD_BATCH),
        ignore_failures=_flag(settings, _IGNORE_OPTION, False),
    )


def changed_settings(options: SyncOptions) -> dict[str, str]:
    """The `hoodie.*` settings in which these options differ from the defaults."""
    default = SyncOptions()
    pairs = (
        (STRATEGY_OPTION, options.strategy, default.strategy),
        (_SKIP_SUFFIX_OPTION, options.skip_ro_suffix, default.skip_ro_suffix),
        (_PLAIN_NAME_OPTION, options.snapshot_with_table_name, default.snapshot_with_table_name),
        (_TIMESTAMP_OPTION, options.support_timestamp, default.support_timestamp),
        (_COMMENT_OPTION, options.sync_comments, default.sync_comments),
        (_SCHEMA_LENGTH_OPTION, options.schema_part_length, default.schema_part_length),
        (INCREMENTAL_OPTION, options.incremental, default.incremental),
        (_TABLE_PROPERTIES_OPTION, _lines(options.table_properties), ""),
        (_SERDE_PROPERTIES_OPTION, _lines(options.serde_properties), ""),
        (_CREATE_DATABASE_OPTION, options.creates_database, default.creates_database),
        (_BATCH_OPTION, options.batch_size, default.batch_size),
        (_IGNORE_OPTION, options.ignore_failures, default.ignore_failures),
    )
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value, usual in pairs
        if value != usual
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


def wanted_table(table: HudiTable, database: str, kind: EntryKind, options: SyncOptions) -> MetastoreTable:
    """The entry as it should be. Raises UnsupportedTableError for schemas that Hive does not support."""
    location = table.storage.hadoop_uri(table.base_path)
    partition_fields = directory_columns(table)
    partition_names = {column.name.lower() for column in partition_fields}
    data_fields = [column for column in table.full_schema if column.name.lower() not in partition_names]
    _check_names([*data_fields, *partition_fields], table.base_path)
    return MetastoreTable(
        database=database.lower(),
        name=kind.name,
        table_type="EXTERNAL_TABLE",
        location=location,
        columns=tuple(_column(column, options) for column in data_fields),
        # Their values come from the metastore as texts and not from parquet files.
        partition_columns=tuple(
            _column(column, replace(options, support_timestamp=True)) for column in partition_fields
        ),
        owner=_owner(),
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


def _check_names(fields: list[pa.Field], base_path: str) -> None:
    seen: dict[str, str] = {}
    for column in fields:
        other = seen.setdefault(column.name.lower(), column.name)
        if other != column.name:
            raise UnsupportedTableError(
                f"columns {other} and {column.name} of {base_path} differ only in case, which Hive ignores"
            )


def _owner() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "hudisql"


def _lines(pairs: tuple[tuple[str, str], ...]) -> str:
    return "\n".join(f"{key}={value}" for key, value in pairs)


def _number(settings: Mapping[str, str], key: str, default: int) -> int:
    text = settings.get(key, str(default))
    if not text.isdecimal():
        raise InvalidArgumentError(f"{key} is not a number: '{text}'")
    return int(text)


def _flag(settings: Mapping[str, str], key: str, default: bool) -> bool:
    value = settings.get(key, "").strip().lower()
    if value not in ("", "true", "false"):
        raise InvalidArgumentError(f"{key} is neither true nor false: '{value}'")
    return value == "true" if value else default
