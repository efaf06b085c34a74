"""`new_columns => 'add'`: adds columns of events that the table lacks, as ALTER TABLE does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.write.transaction.concurrency import Concurrency
from hudisql.write.transaction.schema_change import commit_schema, with_added_columns

if TYPE_CHECKING:
    from hudisql.options.table_call import TableCall

MOST_COLUMNS: Final = 1_000
"""The most columns of a table: events with data as field names would add a column for each."""
_META_PREFIX: Final = "_hoodie_"


def add_new_columns(call: TableCall, found: pa.Schema, concurrency: Concurrency) -> list[str]:
    """Add the columns that can be added in one commit, and sync the metastore.

    Returns the names of the others: meta columns, those that differ from another column's name only by case,
    and those beyond MOST_COLUMNS. Raises WriteConflictError, TableLockedError, UnsupportedTableError,
    StorageError; SyncFailedError if only the sync failed.
    """
    table = call.table
    known = {name.lower() for name in table.schema.names}
    known |= {column.name.lower() for column in table.partition_columns}
    added: list[pa.Field] = []
    left: list[str] = []
    for column in found:
        name = column.name.lower()
        has_room = len(table.schema) + len(added) < MOST_COLUMNS
        if name in known or name.startswith(_META_PREFIX) or not name or not has_room:
            if column.name not in table.schema.names:
                left.append(column.name)
            continue
        known.add(name)
        added.append(pa.field(column.name, column.type))
    if added:
        label = table.base_path if call.entry is None else call.entry.full_name
        commit_schema(table, with_added_columns(table, pa.schema(added), label), concurrency)
        call.sync()
    return left
