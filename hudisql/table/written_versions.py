"""The one gate for writes by table version: what hudisql writes in tables of versions 8 and 9.

Tables of version 6 are written by everything. Of the others only what was tested with Apache Hudi 1.2 both
ways (`tests/oracle/test_newer_versions.py`) is let through; the rest is refused by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hudisql.errors import UnsupportedTableError
from hudisql.format.table_properties import COPY_ON_WRITE, MERGE_ON_READ
from hudisql.table.hudi_table import WRITTEN_VERSION, HudiTable, check_written_version

ANY_CHANGE: Final = "rows"
"""Stands for a statement that changes rows, while its operation is not known yet."""
COMMITS: Final = frozenset(
    {
        *(ANY_CHANGE, "INSERT", "UPSERT", "DELETE", "BULK_INSERT"),
        *("INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE", "DELETE_PARTITION", "ALTER_SCHEMA"),
    }
)
"""The operations of statements that change rows, partitions or columns."""
_TESTED_VERSIONS: Final = frozenset({8, 9})
_TESTED: Final[Mapping[str, frozenset[str]]] = {COPY_ON_WRITE: COMMITS, MERGE_ON_READ: COMMITS}


def is_written(table: HudiTable, operation: str | None) -> bool:
    """True if hudisql writes to tables of this version by the operation.

    `operation` is Hudi's `WriteOperationType`, or a table service's name; None is what no version but 6 has.
    """
    if table.version == WRITTEN_VERSION:
        return True
    return operation in _tested(table)


def check_written(table: HudiTable, operation: str | None) -> None:
    """Raise UnsupportedTableError if `is_written` says no."""
    if is_written(table, operation):
        return
    tested = sorted(_tested(table) - {ANY_CHANGE})
    if operation is None or operation == ANY_CHANGE or not tested:
        check_written_version(table.version, table.base_path)
    raise UnsupportedTableError(
        f"the Hudi table at {table.base_path} has table version {table.version}, in which hudisql does not "
        f"write {operation}; it writes {', '.join(tested)}",
        hint="do this with Apache Hudi 1.x",
    )


def _tested(table: HudiTable) -> frozenset[str]:
    if table.version not in _TESTED_VERSIONS:
        return frozenset()
    return _TESTED.get(table.properties.table_type, frozenset())


def unwritten_rule(table: HudiTable) -> str | None:
    """Why rows of a table of version 8 or 9 would be merged wrongly by a write, or None."""
    properties = table.properties
    if table.version == WRITTEN_VERSION:
        return None
    if properties.record_merge_mode == "CUSTOM":
        return "it merges rows by rules of its own (hoodie.record.merge.mode=CUSTOM)"
    if properties.partial_update_mode is not None:
        return (
            f"it updates rows partially (hoodie.table.partial.update.mode={properties.partial_update_mode})"
        )
    if len(properties.ordering_fields) > 1:
        return f"it orders rows by several columns ({', '.join(properties.ordering_fields)})"
    return None
