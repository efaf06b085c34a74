"""The check of writes by table version: the operations that hudisql supports in versions 8 and 9.

All operations write to tables of version 6. In other versions only operations tested with Apache Hudi 1.2
both ways (`tests/oracle/test_newer_versions.py`, `test_newer_services.py`) are allowed; all others are
refused by name.
"""

from __future__ import annotations

from typing import Final

from hudisql.errors import UnsupportedTableError
from hudisql.format.table_properties import FILL_UNAVAILABLE, IGNORE_DEFAULTS
from hudisql.format.timeline.instant import CLEAN, CLUSTERING, COMPACTION, RESTORE, ROLLBACK, SAVEPOINT
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
ARCHIVE: Final = "archive"
"""Archiving, which puts no action on the timeline."""
SERVICES: Final = frozenset({COMPACTION, CLEAN, ARCHIVE, CLUSTERING, ROLLBACK, SAVEPOINT, RESTORE})
"""The table services, by the actions that they put on the timeline."""
_TESTED_VERSIONS: Final = frozenset({8, 9})
_TESTED: Final = COMMITS | SERVICES


def check_written(table: HudiTable, operation: str | None) -> None:
    """Raise UnsupportedTableError unless hudisql writes to tables of this version by the operation.

    `operation` is Hudi's `WriteOperationType`, or a table service's action; None is an operation that only
    version 6 has.
    """
    if table.version == WRITTEN_VERSION or (table.version in _TESTED_VERSIONS and operation in _TESTED):
        return
    if operation is None or table.version not in _TESTED_VERSIONS:
        check_written_version(table.version, table.base_path)
    raise UnsupportedTableError(
        f"the Hudi table at {table.base_path} has table version {table.version}, in which hudisql does not "
        f"write {operation}; it writes {', '.join(sorted(_TESTED - {ANY_CHANGE}))}",
        hint="do this with Apache Hudi 1.x",
    )


def unwritten_rule(table: HudiTable) -> str | None:
    """Why rows of the table would be merged wrongly by a write, or None."""
    properties = table.properties
    if table.version == WRITTEN_VERSION:
        several = len(properties.ordering_fields) > 1
        return f"it orders rows by several columns ({properties.precombine_field})" if several else None
    fields = properties.ordering_fields
    if len(fields) > 1 and not set(fields) <= set(table.schema.names):
        return f"it orders rows by several columns, of which some are nested ({', '.join(fields)})"
    if properties.record_merge_mode == "CUSTOM":
        return "it merges rows by its own rules (hoodie.record.merge.mode=CUSTOM)"
    mode = properties.partial_update_mode
    if mode not in (None, IGNORE_DEFAULTS, FILL_UNAVAILABLE):
        return f"it updates rows partially (hoodie.table.partial.update.mode={mode})"
    return None
