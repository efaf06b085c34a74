"""Settings of inserts: the operation, the overwrite mode, and how missing and new columns are handled.

Follows Hudi's `ProvidesHoodieConfig` for `hoodie.spark.sql.insert.into.operation` and the settings it
replaces. Unknown values are errors that name the setting.
"""

from __future__ import annotations

from typing import Final, Literal, cast

from hudisql.errors import SettingsError
from hudisql.hudi_config import (
    COLUMN_DROP,
    INSERT_OPERATION,
    NULL_FOR_MISSING,
    OVERWRITE_MODE,
    RECONCILE_SCHEMA,
    HudiConfig,
)
from hudisql.table.hudi_table import HudiTable
from hudisql.write.keygen.new_row_keys import effective_operation

_BULK_INSERT: Final = "hoodie.sql.bulk.insert.enable"
_SPARK_OVERWRITE_MODE: Final = "spark.sql.sources.partitionOverwriteMode"
# What says how an INSERT meets keys that are there already, with the values that change nothing.
_KNOWN_KEYS: Final = {
    "hoodie.datasource.write.insert.drop.duplicates": ("false",),
    "hoodie.datasource.insert.dup.policy": ("none",),
    "hoodie.sql.insert.mode": ("upsert", "non-strict"),
}
InsertOperation = Literal["insert", "upsert", "bulk_insert"]


def insert_operation(config: HudiConfig, table: HudiTable) -> InsertOperation:
    """What INSERT INTO does with keys that the table has already: insert, upsert or bulk_insert.

    Unless set, a table with an ordering column takes upserts, if it has a record key. Raises SettingsError,
    also for Hudi's older setting.
    """
    if config.lookup(_BULK_INSERT, "false").lower() == "true":
        raise SettingsError(
            f"{_BULK_INSERT} = true is not supported", hint=f"SET {INSERT_OPERATION} = bulk_insert"
        )
    default = effective_operation(table, "upsert" if table.properties.ordering_fields else "insert")
    return cast(InsertOperation, config.get(INSERT_OPERATION, default))


def check_insert_dup_policy(config: HudiConfig) -> None:
    """Raise SettingsError if settings want an INSERT to leave out, or stop at, keys that are there already.

    These are Hudi's `insert.drop.duplicates`, `insert.dup.policy` and its older `hoodie.sql.insert.mode`.
    """
    for key, harmless in _KNOWN_KEYS.items():
        text = config.lookup(key, harmless[0]).lower()
        if text not in harmless:
            raise SettingsError(
                f"{key} = {text} is not supported: INSERT adds rows, or replaces those of the same key",
                hint="MERGE with WHEN NOT MATCHED THEN INSERT alone leaves out what is there already",
            )


def overwrites_touched_partitions(config: HudiConfig) -> bool:
    """True if INSERT OVERWRITE replaces only the partitions that get rows (dynamic mode)."""
    by_spark = config.lookup(_SPARK_OVERWRITE_MODE, "STATIC")
    return config.get(OVERWRITE_MODE, by_spark) == "DYNAMIC"


def evolves_schema(config: HudiConfig) -> bool:
    """True if INSERT … BY NAME and `*` in MERGE may add columns and widen types."""
    return config.get(RECONCILE_SCHEMA)


def missing_columns(config: HudiConfig) -> Literal["null", "drop", "refuse"]:
    """What happens to a table's column that a DataFrame lacks: null in its rows, dropped, or an error.

    As in Hudi, whose default (refused) holds here only if it is set. `reconcile.schema` keeps columns.
    """
    if config.get(COLUMN_DROP) and not evolves_schema(config):
        return "drop"
    return "null" if config.get(NULL_FOR_MISSING) or evolves_schema(config) else "refuse"
