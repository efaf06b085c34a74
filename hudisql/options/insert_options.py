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
    ALLOW_DUPLICATES,
    COLUMN_DROP,
    INSERT_DROP_DUPLICATES,
    INSERT_DUP_POLICY,
    INSERT_MODE,
    INSERT_OPERATION,
    NULL_FOR_MISSING,
    OVERWRITE_MODE,
    RECONCILE_SCHEMA,
    SQL_BULK_INSERT,
    WRITE_OPERATION,
)
from hudisql.errors import SettingsError
from hudisql.table.hudi_table import HudiTable
from hudisql.write.keygen.new_row_keys import effective_operation
from hudisql.write.overwrite import Overwrite

_SPARK_OVERWRITE_MODE: Final = "spark.sql.sources.partitionOverwriteMode"
InsertOperation = Literal["insert", "upsert", "bulk_insert"]
InsertDupPolicy = Literal["none", "drop", "fail"]
INSERT_OPERATIONS: Final = ("upsert", "insert", "bulk_insert")
_OVERWRITES: Final[Mapping[str, Overwrite]] = {
    "insert_overwrite": Overwrite("touched"),
    "insert_overwrite_table": Overwrite("table"),
}


def insert_operation(config: HudiConfig, session: HudiConfig, table: HudiTable) -> InsertOperation:
    """The operation of INSERT INTO for existing keys: insert, upsert or bulk_insert.

    `session` has the session's settings alone, `config` also the table's. Unless set, a table with an
    ordering column takes upserts, if it has a record key; `hoodie.sql.bulk.insert.enable` makes bulk inserts
    of the others. Raises SettingsError.
    """
    operation = session.get(WRITE_OPERATION) if session.is_set(WRITE_OPERATION) else None
    if operation in INSERT_OPERATIONS:
        return cast(InsertOperation, operation)
    upserts = table.properties.ordering_fields and config.get(INSERT_MODE) != "non-strict"
    default = effective_operation(table, "upsert" if upserts else "insert")
    if default == "insert" and config.get(SQL_BULK_INSERT):
        default = "bulk_insert"
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


def insert_dup_policy(
    config: HudiConfig, table: HudiTable, operation: InsertOperation, *, is_sql: bool
) -> InsertDupPolicy:
    """The treatment of new rows whose record key is stored: none (as the operation says), drop or fail.

    Follows `hoodie.datasource.insert.dup.policy`, `hoodie.datasource.write.insert.drop.duplicates`, and for
    SQL the `strict` mode of Hudi 0.15, which holds for copy-on-write tables with an ordering column. Raises
    SettingsError for unknown values, for a bulk insert, which looks up no keys, and for generated keys.
    """
    policy = config.get(INSERT_DUP_POLICY)
    asked = f"{INSERT_DUP_POLICY} = {policy}"
    if policy == "none" and config.get(INSERT_DROP_DUPLICATES):
        policy, asked = "drop", f"{INSERT_DROP_DUPLICATES} = true"
    if is_sql and config.get(INSERT_MODE) == "strict" and not config.is_set(INSERT_OPERATION):
        if config.get(SQL_BULK_INSERT):
            raise SettingsError(
                f"{INSERT_MODE} = strict and {SQL_BULK_INSERT} = true contradict each other: a bulk insert "
                "looks up no keys",
                hint=f"RESET one of them, or SET {INSERT_DUP_POLICY} = fail",
            )
        if policy == "none" and table.properties.ordering_fields and not table.is_merge_on_read:
            policy, asked = "fail", f"{INSERT_MODE} = strict"
    if policy != "none" and table.properties.generates_record_keys:
        raise SettingsError(
            f"{asked} cannot be followed for {table.base_path}: its keys are generated",
            hint="leave it unset for tables without a record key",
        )
    if policy != "none" and operation == "bulk_insert":
        raise SettingsError(
            f"{asked} cannot be followed for {table.base_path}: a bulk insert looks up no keys",
            hint=f"SET {INSERT_OPERATION} = insert",
        )
    return cast(InsertDupPolicy, policy)


def merges_inserts(config: HudiConfig, table: HudiTable, operation: InsertOperation) -> bool:
    """True if new rows replace rows of their keys in the small files that take them.

    Generated keys never meet. Raises SettingsError.
    """
    allowed = config.get(ALLOW_DUPLICATES)
    return operation == "insert" and not allowed and not table.properties.generates_record_keys


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
