"""Settings of inserts: the operation, the overwrite mode, and how missing and new columns are handled.

Follows Hudi's `ProvidesHoodieConfig` for `hoodie.spark.sql.insert.into.operation` and the settings it
replaces. Unknown values are errors that name the setting.
"""

from __future__ import annotations

from typing import Final, Literal

from hudisql.errors import SettingsError
from hudisql.table.hudi_table import HudiTable
from hudisql.write.keygen.new_row_keys import effective_operation
from hudisql.write.setting_lookup import Lookup, read_flag

INSERT_OPERATION: Final = "hoodie.spark.sql.insert.into.operation"
OVERWRITE_MODE: Final = "hoodie.datasource.overwrite.mode"
RECONCILE_SCHEMA: Final = "hoodie.datasource.write.reconcile.schema"
NULL_FOR_MISSING: Final = "hoodie.write.set.null.for.missing.columns"
COLUMN_DROP: Final = "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"
_BULK_INSERT: Final = "hoodie.sql.bulk.insert.enable"
_SPARK_OVERWRITE_MODE: Final = "spark.sql.sources.partitionOverwriteMode"
# What says how an INSERT meets keys that are there already, with the values that change nothing.
_KNOWN_KEYS: Final = {
    "hoodie.datasource.write.insert.drop.duplicates": ("false",),
    "hoodie.datasource.insert.dup.policy": ("none",),
    "hoodie.sql.insert.mode": ("upsert", "non-strict"),
}
InsertOperation = Literal["insert", "upsert", "bulk_insert"]
_OPERATIONS: Final[tuple[InsertOperation, ...]] = ("insert", "upsert", "bulk_insert")


def insert_operation(lookup: Lookup, table: HudiTable) -> InsertOperation:
    """What INSERT INTO does with keys that the table has already: insert, upsert or bulk_insert.

    Unless set, a table with an ordering column takes upserts, if it has a record key. Raises SettingsError,
    also for Hudi's older setting.
    """
    if read_flag(lookup, _BULK_INSERT, False):
        raise SettingsError(
            f"{_BULK_INSERT} = true is not supported", hint=f"SET {INSERT_OPERATION} = bulk_insert"
        )
    has_ordering = table.properties.precombine_field is not None
    default = effective_operation(table, "upsert" if has_ordering else "insert")
    text = lookup(INSERT_OPERATION, default).lower()
    found = next((each for each in _OPERATIONS if each == text), None)
    if found is None:
        raise SettingsError(f"{INSERT_OPERATION} must be one of {', '.join(_OPERATIONS)}, not '{text}'")
    return found


def check_insert_dup_policy(lookup: Lookup) -> None:
    """Raise SettingsError if settings want an INSERT to leave out, or stop at, keys that are there already.

    These are Hudi's `insert.drop.duplicates`, `insert.dup.policy` and its older `hoodie.sql.insert.mode`.
    """
    for key, harmless in _KNOWN_KEYS.items():
        text = lookup(key, harmless[0]).lower()
        if text not in harmless:
            raise SettingsError(
                f"{key} = {text} is not supported: INSERT adds rows, or replaces those of the same key",
                hint="MERGE with WHEN NOT MATCHED THEN INSERT alone leaves out what is there already",
            )


def overwrites_touched_partitions(lookup: Lookup) -> bool:
    """True if INSERT OVERWRITE replaces only the partitions that get rows (dynamic mode)."""
    mode = lookup(OVERWRITE_MODE, lookup(_SPARK_OVERWRITE_MODE, "STATIC")).upper()
    if mode not in ("STATIC", "DYNAMIC"):
        raise SettingsError(f"{OVERWRITE_MODE} must be STATIC or DYNAMIC, not '{mode}'")
    return mode == "DYNAMIC"


def evolves_schema(lookup: Lookup) -> bool:
    """True if INSERT … BY NAME and `*` in MERGE may add columns and widen types."""
    return read_flag(lookup, RECONCILE_SCHEMA, False)


def missing_columns(lookup: Lookup) -> Literal["null", "drop", "refuse"]:
    """What happens to a table's column that a DataFrame lacks: null in its rows, dropped, or an error.

    As in Hudi, whose default (refused) holds here only if it is set. `reconcile.schema` keeps columns.
    """
    if read_flag(lookup, COLUMN_DROP, False) and not evolves_schema(lookup):
        return "drop"
    return "null" if read_flag(lookup, NULL_FOR_MISSING, True) or evolves_schema(lookup) else "refuse"
