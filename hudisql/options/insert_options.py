"""Settings of inserts: the operation, the overwrite mode, and how missing and new columns are handled.

Follows Hudi's `ProvidesHoodieConfig` for `hoodie.datasource.write.operation`,
`hoodie.spark.sql.insert.into.operation` and the settings it replaces. Unknown values are errors that name the
setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, cast

from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import (
    COLUMN_DROP,
    INSERT_OPERATION,
    NULL_FOR_MISSING,
    OVERWRITE_MODE,
    RECONCILE_SCHEMA,
    WRITE_OPERATION,
)
from hudisql.errors import SettingsError
from hudisql.table.hudi_table import HudiTable
from hudisql.write.keygen.new_row_keys import effective_operation
from hudisql.write.overwrite import Overwrite

_BULK_INSERT: Final = "hoodie.sql.bulk.insert.enable"
_INSERT_MODE: Final = "hoodie.sql.insert.mode"
_SPARK_OVERWRITE_MODE: Final = "spark.sql.sources.partitionOverwriteMode"
# The settings for existing keys of an INSERT, with the values that change nothing.
_KNOWN_KEYS: Final = {
    "hoodie.datasource.write.insert.drop.duplicates": ("false",),
    "hoodie.datasource.insert.dup.policy": ("none",),
    _INSERT_MODE: ("upsert", "non-strict"),
}
InsertOperation = Literal["insert", "upsert", "bulk_insert"]
_INSERT_OPERATIONS: Final = ("upsert", "insert", "bulk_insert")
_OVERWRITES: Final[Mapping[str, Overwrite]] = {
    "insert_overwrite": Overwrite("touched"),
    "insert_overwrite_table": Overwrite("table"),
}


def insert_operation(config: HudiConfig, session: HudiConfig, table: HudiTable) -> InsertOperation:
    """The operation of INSERT INTO for existing keys: insert, upsert or bulk_insert.

    `session` has the session's settings alone, `config` also the table's. Unless set, a table with an
    ordering column takes upserts, if it has a record key. Raises SettingsError, also for Hudi's older
    setting.
    """
    if config.lookup(_BULK_INSERT, "false").lower() == "true":
        raise SettingsError(
            f"{_BULK_INSERT} = true is not supported", hint=f"SET {INSERT_OPERATION} = bulk_insert"
        )
    operation = session.get(WRITE_OPERATION) if session.is_set(WRITE_OPERATION) else None
    if operation in _INSERT_OPERATIONS:
        return cast(InsertOperation, operation)
    upserts = table.properties.ordering_fields and config.lookup(_INSERT_MODE, "").lower() != "non-strict"
    default = effective_operation(table, "upsert" if upserts else "insert")
    return cast(InsertOperation, config.get(INSERT_OPERATION, default))


def overwrite_by_setting(session: HudiConfig) -> Overwrite | None:
    """The overwrite by the session's `hoodie.datasource.write.operation` in an INSERT; None without one.

    Raises SettingsError for operations that an INSERT does not support.
    """
    if not session.is_set(WRITE_OPERATION):
        return None
    return _OVERWRITES.get(session.get(WRITE_OPERATION))


def overwrite_of_statement(session: HudiConfig, stated: Overwrite, table_label: str) -> Overwrite:
    """The effective overwrite of an INSERT OVERWRITE whose text says `stated`.

    Follows `ProvidesHoodieConfig.deduceOverwriteConfig` of Hudi: `insert_overwrite` and
    `insert_overwrite_table` take precedence. Raises SettingsError if the operation contradicts the statement:
    Hudi then overwrites nothing, or partitions that the statement does not name.
    """
    by_setting = overwrite_by_setting(session)
    if by_setting is None and (stated.scope == "table" or not session.is_set(WRITE_OPERATION)):
        return stated
    if by_setting is not None and not (stated.scope == "matching" and by_setting.scope == "table"):
        return by_setting
    operation = session.get(WRITE_OPERATION)
    effect = "replaces no rows in Apache Hudi" if by_setting is None else "replaces all partitions"
    raise SettingsError(
        f"INSERT OVERWRITE of partitions of {table_label}: {WRITE_OPERATION} = {operation} {effect}",
        hint=f"RESET {WRITE_OPERATION}, or SET it to insert_overwrite",
    )


def check_load_operation(session: HudiConfig) -> None:
    """Raise SettingsError if `hoodie.datasource.write.operation` would change the rows of CREATE TABLE AS."""
    if session.is_set(WRITE_OPERATION) and session.get(WRITE_OPERATION) == "upsert":
        raise SettingsError(
            f"{WRITE_OPERATION} = upsert combines rows of one key, and CREATE TABLE … AS SELECT adds all",
            hint=f"RESET {WRITE_OPERATION}, or CREATE TABLE first and INSERT INTO it then",
        )


def check_insert_dup_policy(config: HudiConfig) -> None:
    """Raise SettingsError if settings want an INSERT to skip, or to fail on, existing keys.

    These are Hudi's `insert.drop.duplicates`, `insert.dup.policy` and its older `hoodie.sql.insert.mode`.
    """
    for key, harmless in _KNOWN_KEYS.items():
        text = config.lookup(key, harmless[0]).lower()
        if text not in harmless:
            raise SettingsError(
                f"{key} = {text} is not supported: INSERT adds rows, or replaces those of the same key",
                hint="MERGE with only WHEN NOT MATCHED THEN INSERT skips existing keys",
            )


def overwrites_touched_partitions(config: HudiConfig) -> bool:
    """True if INSERT OVERWRITE replaces only the partitions that get rows (dynamic mode)."""
    by_spark = config.lookup(_SPARK_OVERWRITE_MODE, "STATIC")
    return config.get(OVERWRITE_MODE, by_spark) == "DYNAMIC"


def evolves_schema(config: HudiConfig) -> bool:
    """True if INSERT … BY NAME and `*` in MERGE may add columns and widen types."""
    return config.get(RECONCILE_SCHEMA)


def missing_columns(config: HudiConfig) -> Literal["null", "drop", "refuse"]:
    """The treatment of a table's column that a DataFrame lacks: null in its rows, dropped, or an error.

    As in Hudi, but Hudi's default (refused) applies only if it is set. `reconcile.schema` keeps columns.
    """
    if config.get(COLUMN_DROP) and not evolves_schema(config):
        return "drop"
    return "null" if config.get(NULL_FOR_MISSING) or evolves_schema(config) else "refuse"
