"""Settings that hudisql refuses, because ignoring them would give different rows.

The names and defaults are those of `HoodieWriteConfig`, `HoodieTableConfig` and `DataSourceReadOptions` of
Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow as pa

from hudisql.config.config_key import ConfigKey, HudiConfig
from hudisql.config.hudi_config import HOLLOW_COMMITS, INDEX_TYPE
from hudisql.errors import InvalidArgumentError, SettingsError
from hudisql.format.payload_classes import EVENT_TIME_PAYLOAD, LATEST_PAYLOAD
from hudisql.format.table_properties import (
    CDC_ENABLED,
    CDC_MODE,
    DROP_PARTITION_COLUMNS,
    LEGACY_PAYLOAD_CLASS,
    POPULATE_META_FIELDS,
    RECORD_MERGE_MODE,
    WRITE_VERSION,
    TableProperties,
)
from hudisql.table.hudi_table import WRITTEN_VERSION

QUERY_TYPE: Final = "hoodie.datasource.query.type"
_SNAPSHOT: Final = "snapshot"
INCREMENTAL: Final = "incremental"
AS_OF_INSTANT: Final = "as.of.instant"
BEGIN_INSTANT: Final = "hoodie.datasource.read.begin.instanttime"
END_INSTANT: Final = "hoodie.datasource.read.end.instanttime"
PATH_GLOB: Final = "hoodie.datasource.read.incr.path.glob"
INCREMENTAL_FORMAT: Final = "hoodie.datasource.query.incremental.format"
_INCREMENTAL_FILTERS: Final = "hoodie.datasource.read.incr.filters"
_LATEST_STATE: Final = "latest_state"
_CDC: Final = "cdc"
_INCREMENTAL: Final = (BEGIN_INSTANT, END_INSTANT, PATH_GLOB, INCREMENTAL_FORMAT, _INCREMENTAL_FILTERS)
# With the values that change nothing, the default first.
_WRITES: Final[Mapping[str, tuple[str, ...]]] = {
    DROP_PARTITION_COLUMNS: ("false",),
    "hoodie.datasource.write.keygenerator.type": (
        *("simple", "complex", "non_partition", "simple_avro", "complex_avro", "non_partition_avro"),
    ),
    "hoodie.datasource.write.slash.separated.date.partitioning": ("false",),
    # Hudi then writes a sixth meta column, _hoodie_operation.
    "hoodie.allow.operation.metadata.field": ("false",),
    # Hudi 0.15 and 1.2 write no row by another layout than these, of which BUCKET goes with its index.
    "hoodie.storage.layout.type": ("default", "bucket"),
    "hoodie.table.storage.layout": ("default",),
    "hoodie.datasource.write.record.merger.impls": (
        "org.apache.hudi.common.model.hoodieavrorecordmerger",
        "org.apache.hudi.hoodiesparkrecordmerger",
        "org.apache.hudi.defaultsparkrecordmerger",
    ),
    "hoodie.datasource.write.record.merger.strategy": ("eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",),
}
_COMBINE_BEFORE_UPSERT: Final = "hoodie.combine.before.upsert"
_LOGICAL_TIMESTAMPS: Final = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
_OF_STORED_KEYS: Final = (
    *("BLOOM", "GLOBAL_BLOOM"),
    *("RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX", "RECORD_LEVEL_INDEX"),
)
_INDEXES_OF_STORED_KEYS: Final = (
    "hoodie.metadata.record.index.enable",
    "hoodie.metadata.global.record.level.index.enable",
    "hoodie.metadata.record.level.index.enable",
    "hoodie.metadata.index.bloom.filter.enable",
    "hoodie.metadata.index.secondary.enable",
)
_RECORD_KEY: Final = "hoodie.datasource.write.recordkey.field"
_ORDERING: Final = "hoodie.datasource.write.precombine.field"
_PAYLOAD: Final = "hoodie.datasource.write.payload.class"
SAID_BY_THE_TABLE: Final = frozenset({_RECORD_KEY, _ORDERING, _PAYLOAD})
"""Settings of a write that must agree with `hoodie.properties`."""


def refuse_unserved_writes(config: HudiConfig, properties: TableProperties) -> None:
    """Raise SettingsError for a setting that asks for an unsupported way to write rows.

    A write never changes the table version: 6, which is for writers of Hudi 1.x, is accepted, others are
    refused.
    """
    version = config.lookup(WRITE_VERSION, str(WRITTEN_VERSION))
    # Hudi's own change of the version leaves the table's property as it is.
    if version not in (str(WRITTEN_VERSION), str(properties.version), properties.get(WRITE_VERSION)):
        raise SettingsError(
            f"{WRITE_VERSION} = {version} is not supported: the table has version {properties.version}, and "
            "no write changes it",
            hint=f"RESET {WRITE_VERSION}, or leave the option out",
        )
    for key, harmless in _WRITES.items():
        text = config.lookup(key, harmless[0]).lower()
        is_of_table = properties.values.get(key, "").lower() == text
        if text not in harmless and not (is_of_table and key == DROP_PARTITION_COLUMNS):
            raise SettingsError(
                f"{key} = {text} is not supported: hudisql writes with {harmless[0]}",
                hint="it is a property of the table: write to it with Apache Hudi"
                if is_of_table
                else f"RESET {key}, or leave the option out",
            )
    _refuse_other_meta_columns(config, properties)
    _refuse_other_change_logs(config, properties)
    _refuse_other_columns(config, _RECORD_KEY, properties.record_key_fields)
    _refuse_other_columns(config, _ORDERING, properties.ordering_fields)
    _refuse_other_payload(config, properties)
    _refuse_other_merge_mode(config, properties)


def refuse_unserved_inserts(config: HudiConfig, operation: str) -> None:
    """Raise SettingsError if an upsert is to keep several rows of one key.

    Other operations do not follow the setting in Hudi.
    """
    text = config.lookup(_COMBINE_BEFORE_UPSERT, "true")
    if operation == "upsert" and text.strip().lower() != "true":
        raise SettingsError(
            f"{_COMBINE_BEFORE_UPSERT} = {text} is not supported for the operation {operation}: hudisql "
            "writes with true",
            hint=f"RESET {_COMBINE_BEFORE_UPSERT}, or leave the option out; SET "
            "hoodie.spark.sql.insert.into.operation = insert adds all rows",
        )


def refuse_logical_timestamps(config: HudiConfig, properties: TableProperties, schema: pa.Schema) -> None:
    """Raise SettingsError if a setting asks for record keys or directories with timestamps as texts.

    `KeyGenUtils` of Hudi then writes `2024-03-01 00:00:00.0` in place of the number of microseconds. Tables
    whose record key and partition columns hold no timestamp are not concerned.
    """
    text = config.lookup(_LOGICAL_TIMESTAMPS, "false").strip().lower()
    if text == "false":
        return
    roots = {
        name.split(".")[0].lower() for name in (*properties.record_key_fields, *properties.partition_fields)
    }
    named = [field.name for field in schema if field.name.lower() in roots and "timestamp" in str(field.type)]
    if named:
        raise SettingsError(
            f"{_LOGICAL_TIMESTAMPS} = {text} is not supported: the column {named[0]} of the record key or "
            "partitions holds timestamps, which hudisql writes as numbers",
            hint=f"RESET {_LOGICAL_TIMESTAMPS}, or leave the option out",
        )


def _refuse_other_meta_columns(config: HudiConfig, properties: TableProperties) -> None:
    """Raise SettingsError if a setting asks for other meta columns than the table has, or for an index of
    record keys that the files of a table without meta columns do not have.
    """
    own = str(properties.populate_meta_fields).lower()
    text = config.lookup(POPULATE_META_FIELDS, own)
    if text.strip().lower() != own:
        raise SettingsError(
            f"{POPULATE_META_FIELDS} = {text} contradicts the table, whose value is {own}",
            hint=f"RESET {POPULATE_META_FIELDS}: it is chosen when a table is made",
        )
    if properties.populate_meta_fields:
        return
    index = config.lookup(INDEX_TYPE.name, "").strip().upper()
    if index in _OF_STORED_KEYS:
        raise SettingsError(
            f"{INDEX_TYPE.name} = {index} is not possible: the table's files have no record keys "
            f"({POPULATE_META_FIELDS}=false)",
            hint=f"SET {INDEX_TYPE.name} = SIMPLE",
        )
    for key in _INDEXES_OF_STORED_KEYS:
        if config.lookup(key, "false").strip().lower() == "true":
            raise SettingsError(
                f"{key} = true is not possible: the table's files have no record keys "
                f"({POPULATE_META_FIELDS}=false)",
                hint=f"RESET {key}",
            )


def _refuse_other_change_logs(config: HudiConfig, properties: TableProperties) -> None:
    """Raise SettingsError if a setting asks for other change logs than the table has."""
    mode = properties.change_log_mode
    own = {CDC_ENABLED: str(mode is not None).lower(), CDC_MODE: "none" if mode is None else mode.lower()}
    for key, value in own.items():
        text = config.lookup(key, value)
        if text.strip().lower() != value:
            raise SettingsError(
                f"{key} = {text} contradicts the table, whose value is {value}",
                hint=f"RESET {key}: change logs are chosen when a table is made",
            )


def _refuse_other_columns(config: HudiConfig, key: str, own: Sequence[str]) -> None:
    """Raise SettingsError if a setting names other columns than `own`, those of the table."""
    text = config.lookup(key, "")
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    if names and names != [name.lower() for name in own]:
        raise SettingsError(
            f"{key} = {text} contradicts the table, which has {', '.join(own) or 'none'}",
            hint=f"RESET {key}",
        )


def _refuse_other_payload(config: HudiConfig, properties: TableProperties) -> None:
    """Raise SettingsError if a setting names another payload class than that of the table.

    Hudi 0.15 merges the rows of that write by it.
    """
    text = config.lookup(_PAYLOAD, "")
    by_mode = EVENT_TIME_PAYLOAD if properties.keeps_later_event_times else LATEST_PAYLOAD
    own = properties.payload_class or properties.get(LEGACY_PAYLOAD_CLASS) or by_mode
    if text and text.rpartition(".")[2].lower() != own.rpartition(".")[2].lower():
        raise SettingsError(
            f"{_PAYLOAD} = {text} contradicts the table, which has {own}", hint=f"RESET {_PAYLOAD}"
        )


def _refuse_other_merge_mode(config: HudiConfig, properties: TableProperties) -> None:
    """Raise SettingsError if a setting of Hudi 1.x names another merge mode than the table's rows have."""
    own = properties.effective_merge_mode
    for key in (RECORD_MERGE_MODE, "hoodie.write.record.merge.mode"):
        text = config.lookup(key, own)
        if text.strip().upper() not in (own, properties.record_merge_mode):
            raise SettingsError(
                f"{key} = {text} contradicts the table, which has {own}",
                hint=f"RESET {key}, or ALTER TABLE … UNSET TBLPROPERTIES: the mode is chosen when a table is "
                "made",
            )


def refuse_unserved_queries(setting: Callable[[str], str | None]) -> None:
    """Raise SettingsError if the session's settings ask for anything but the latest snapshot.

    `setting` gives the session's value of a key, or None.
    """
    text = setting(QUERY_TYPE)
    if text is not None and text.strip().lower() != _SNAPSHOT:
        raise SettingsError(
            f"{QUERY_TYPE} = {text} is not supported: hudisql's queries read the latest snapshot",
            hint=f"RESET {QUERY_TYPE}; <table>_ro is its base files alone, TIMESTAMP AS OF reads an "
            "earlier snapshot, hudi_table_changes('<table>', 'latest_state', <begin>) what has changed since",
        )


def policy_of_places(setting: Callable[[ConfigKey[str]], str], who: str) -> str:
    """The policy for pending commits of a reader that stores an instant time as its place.

    `who` begins the message. Raises InvalidArgumentError for the policy that uses completion times, with
    which such a reader would miss commits.
    """
    policy = setting(HOLLOW_COMMITS)
    if policy == "USE_TRANSITION_TIME":
        raise InvalidArgumentError(
            f"{who} instant times, and {HOLLOW_COMMITS} is USE_TRANSITION_TIME",
            hint=f"SET {HOLLOW_COMMITS} = BLOCK: the read then ends before a pending commit",
        )
    return policy


def query_type_of_options(options: Mapping[str, str]) -> str:
    """The query type of a read's options: `snapshot`, `read_optimized` or `incremental`.

    Raises InvalidArgumentError for other types, and for options that belong to another type.
    """
    given = options.get(QUERY_TYPE, _SNAPSHOT).strip().lower()
    if given not in (_SNAPSHOT, "read_optimized", INCREMENTAL):
        raise InvalidArgumentError(
            f"{QUERY_TYPE} is '{given}'; the hudi data source reads 'snapshot', 'read_optimized' and "
            "'incremental'"
        )
    if given == INCREMENTAL:
        _check_incremental_options(options)
        return given
    named = [key for key in _INCREMENTAL if options.get(key)]
    if named:
        raise InvalidArgumentError(
            f"{named[0]} is an option of incremental queries, and {QUERY_TYPE} is '{given}'",
            hint=f"set {QUERY_TYPE} to incremental; as.of.instant reads the table as it was at an instant",
        )
    return given


def is_cdc_query(options: Mapping[str, str]) -> bool:
    """True for options of an incremental query whose rows are captured changes."""
    is_incremental = options.get(QUERY_TYPE, _SNAPSHOT).strip().lower() == INCREMENTAL
    return is_incremental and options.get(INCREMENTAL_FORMAT, _LATEST_STATE).lower() == _CDC


def _check_incremental_options(options: Mapping[str, str]) -> None:
    if options.get(AS_OF_INSTANT):
        raise InvalidArgumentError(
            f"{AS_OF_INSTANT} and an incremental query exclude each other", hint=f"{END_INSTANT} ends a pull"
        )
    form = options.get(INCREMENTAL_FORMAT, _LATEST_STATE).lower()
    if form not in (_LATEST_STATE, _CDC):
        raise InvalidArgumentError(f"{INCREMENTAL_FORMAT} is '{form}'; it is {_LATEST_STATE} or {_CDC}")
    if form == _CDC and options.get(PATH_GLOB):
        raise InvalidArgumentError(
            f"{PATH_GLOB} bounds {_LATEST_STATE}, and {INCREMENTAL_FORMAT} is {_CDC}",
            hint="load a partition's path: .load('<location>/dt=2024-03-01')",
        )
    if options.get(_INCREMENTAL_FILTERS):
        raise InvalidArgumentError(
            f"{_INCREMENTAL_FILTERS} is not supported", hint="filter the DataFrame: df.where(…)"
        )
