"""Metadata tables that hudisql's writes do not keep are dropped by them."""

from __future__ import annotations

from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.kept_metadata_table import find_kept
from hudisql.table.properties.table_configuration import drop_metadata_table, has_metadata_table


def drop_unless_kept(table: HudiTable) -> bool:
    """Drop a metadata table that is not kept; True if one was dropped.

    Raises UnsupportedTableError while another writer may be active, StorageError.
    """
    return find_kept(table) is None and drop_metadata_table(table)


def has_unkept(table: HudiTable) -> bool:
    """True if the table has a metadata table that a write drops. Raises StorageError."""
    return has_metadata_table(table) and find_kept(table) is None
