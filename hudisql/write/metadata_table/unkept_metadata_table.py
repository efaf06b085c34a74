"""Metadata tables, and indexes of them, that hudisql's writes do not keep are dropped by them."""

from __future__ import annotations

from hudisql.format.metadata_table.metadata_records import COLUMN_STATS
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.kept_metadata_table import find_kept, unkept_indexes
from hudisql.table.properties.table_configuration import (
    check_nothing_begun,
    drop_indexes,
    drop_metadata_table,
    has_metadata_table,
    names_metadata_table,
    record_statistics,
)


def drop_unless_kept(table: HudiTable) -> bool:
    """Drop a metadata table that is not kept, or the indexes that are not; True if something was dropped.

    Raises UnsupportedTableError while another writer may be active, CorruptTableError, StorageError.
    """
    metadata = find_kept(table)
    if metadata is not None:
        record_statistics(table, are_right=COLUMN_STATS in metadata.indexes)
        return False
    dropped = unkept_indexes(table) if names_metadata_table(table) else None
    if dropped is None:
        return drop_metadata_table(table)
    if not dropped:
        # A metadata table that was made meanwhile.
        return False
    named = ", ".join(sorted(dropped))
    check_nothing_begun(table, f"the index {named} of its metadata table cannot be dropped")
    drop_indexes(table, dropped)
    return True


def has_unkept(table: HudiTable) -> bool:
    """True if the table has a metadata table, or indexes, that a write drops. Raises StorageError."""
    return has_metadata_table(table) and find_kept(table) is None
