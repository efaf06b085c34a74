"""Finds Hudi tables among a statement's tables: by the metastore's entry, as Spark would resolve the name.

A merge-on-read table has further entries, `_ro` and `_rt`.

A temporary view hides a table of its name; names in other catalogs are never Hudi tables of hudisql.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudisql.catalog.iceberg_entry import find_iceberg_entry
from hudisql.catalog.metastore_table import (
    FURTHER_SUFFIXES,
    MetastoreTable,
    hudi_base_path,
    is_hudi_table,
)
from hudisql.errors import StorageError, UnsupportedStatementError
from hudisql.options.table_call import base_path_of, open_session_table, refuse_iceberg_entry
from hudisql.spark.jvm import session_state
from hudisql.sql.text.statements import TableName
from hudisql.table.hudi_table import HudiTable, find_table_root

if TYPE_CHECKING:
    from hudisql.context import Context


def find_hudi_entry(context: Context, name: TableName) -> MetastoreTable | None:
    """The metastore entry of a Hudi table of that name; None for a missing or non-Hudi table.

    Raises UnsupportedTableError for the Iceberg entry of a Hudi table.
    """
    entry = find_entry(context, name)
    if entry is None:
        return None
    refuse_iceberg_entry(entry)
    return entry if is_hudi_table(entry) else None


def find_entry(context: Context, name: TableName) -> MetastoreTable | None:
    """The metastore entry that Spark would use for a name; None for temporary views and other catalogs."""
    parts = list(name.parts)
    if len(parts) == 3 and parts[0].lower() == "spark_catalog":
        parts = parts[1:]
    if len(parts) > 2:
        return None
    if len(parts) == 1:
        if is_temporary_view(context, parts[0]):
            return None
        parts = [context.current_database, *parts]
    return context.metastore.get_table(parts[0].lower(), parts[1].lower())


def open_hudi_entry(context: Context, entry: MetastoreTable) -> HudiTable:
    """Open the table of a metastore entry. Raises CorruptTableError, NoSuchTableError."""
    return open_session_table(context, base_path_of(context, entry, None))


def find_hudi_root(context: Context, path: str) -> str | None:
    """The base path of the Hudi table at or above a path; None if there is none, or the store is unknown."""
    try:
        return find_table_root(context.storage, context.storage.qualify(path))
    except StorageError:
        return None


def is_temporary_view(context: Context, name: str) -> bool:
    """True if Spark has a temporary view of that name."""
    return context.has_catalog and bool(session_state(context.spark).catalog().getTempView(name).isDefined())


def check_is_main_name(context: Context, entry: MetastoreTable, verb: str) -> None:
    """Raise UnsupportedStatementError for a `_ro` or `_rt` entry of a table that also has a plain one."""
    for suffix in FURTHER_SUFFIXES:
        stem = entry.name.removesuffix(suffix)
        if stem == entry.name:
            continue
        main = context.metastore.get_table(entry.database, stem)
        if main is not None and _is_same_table(context, main, entry):
            raise UnsupportedStatementError(
                f"{verb} is not possible on {entry.full_name}, which is one of the names of {main.full_name}",
                hint=f"name the table itself: {main.full_name}",
            )


def entries_of_table(context: Context, entry: MetastoreTable) -> tuple[MetastoreTable, ...]:
    """The given entry and the other entries of the same table."""
    others = [context.metastore.get_table(entry.database, entry.name + suffix) for suffix in FURTHER_SUFFIXES]
    return (
        entry,
        *(other for other in others if other is not None and _is_same_table(context, other, entry)),
    )


def iceberg_entry_of(context: Context, entry: MetastoreTable) -> MetastoreTable | None:
    """The entry of the Iceberg table of the given entry's table, if it is registered."""
    base_path = hudi_base_path(entry)
    if base_path is None:
        return None
    return find_iceberg_entry(context.metastore, context.storage, base_path, entry.database, entry.name)


def _is_same_table(context: Context, one: MetastoreTable, other: MetastoreTable) -> bool:
    locations = [hudi_base_path(entry) for entry in (one, other)]
    first, second = (
        None if location is None else context.storage.qualify(location) for location in locations
    )
    return first is not None and first == second
