"""Changes: rows that a statement writes, each with its operation and the location of the stored row.

SQL statements and the DataFrame writer pass their rows in this form, and tasks that write file slices receive
them in it. Values only.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import pyarrow as pa

from hudisql.format.schema.internal_columns import internal_column

OPERATION: Final = internal_column("operation")
"""tinyint, a `RowOperation`."""
PARTITION: Final = internal_column("partition")
"""The partition path of the changed row; NULL for a new row whose file group is not chosen: its columns
determine it.
"""
FILE_GROUP: Final = internal_column("file_group")
"""The id of the changed row's file group; NULL for a new row, unless an index or its deleted key has one."""
RECORD_KEY: Final = internal_column("record_key")
"""The record key of the changed row. NULL for a new row, whose key is rendered from its columns or generated;
a row that moves keeps a generated key, and a row whose file group is chosen has its key.
"""
SEQUENCE_NUMBER: Final = internal_column("sequence_number")
"""The commit sequence number of the changed row ('' if it has none); NULL: all rows of the key."""
CHANGE_COLUMNS: Final = (OPERATION, PARTITION, FILE_GROUP, RECORD_KEY, SEQUENCE_NUMBER)
COMBINED: Final = internal_column("combined")
"""bigint, an optional column of incoming rows: the number of other rows of its key that the row replaced."""
LOCATION_COLUMNS: Final = (PARTITION, FILE_GROUP, RECORD_KEY, SEQUENCE_NUMBER)
"""The location of a stored row: NULL for new rows, except generated keys of rows that move, and the places of
keys that were deleted.
"""


class RowOperation(IntEnum):
    """The operation on one row."""

    INSERT = 0
    UPDATE = 1
    """Replaces the stored row regardless of ordering values."""
    DELETE = 2
    UPSERT = 3
    """Replaces the stored row unless the table's payload says that the stored one is newer."""
    MOVE_OUT = 4
    """Deletes the stored row, whose new form is inserted elsewhere."""
    MOVE_IN = 5

    @property
    def is_new_row(self) -> bool:
        """True if the row's own key and partition columns determine its place."""
        return self in (RowOperation.INSERT, RowOperation.MOVE_IN)

    @property
    def removes(self) -> bool:
        """True if the stored row is removed."""
        return self in (RowOperation.DELETE, RowOperation.MOVE_OUT)


NEW_ROWS: Final = tuple(int(row_operation) for row_operation in RowOperation if row_operation.is_new_row)
"""The operations of rows whose own key and partition columns determine their place."""
REMOVALS: Final = tuple(int(row_operation) for row_operation in RowOperation if row_operation.removes)
"""The operations that remove the stored row."""


def change_schema(schema: pa.Schema) -> pa.Schema:
    """The Arrow schema of changes to a table with data and partition columns `schema`."""
    return pa.schema(
        [
            pa.field(OPERATION, pa.int8()),
            pa.field(PARTITION, pa.string()),
            pa.field(FILE_GROUP, pa.string()),
            pa.field(RECORD_KEY, pa.string()),
            pa.field(SEQUENCE_NUMBER, pa.string()),
            *schema,
        ]
    )
