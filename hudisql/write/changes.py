"""Changes: rows that a statement writes, each with its operation and the location of the stored row.

The form in which SQL statements and the DataFrame writer hand their rows over, and in which rows travel to
the tasks that write file slices. Values only.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import pyarrow as pa

from hudisql.format.schema.internal_columns import internal_column

OPERATION: Final = internal_column("operation")
"""tinyint, a `RowOperation`."""
PARTITION: Final = internal_column("partition")
"""The partition path of the row that is changed; NULL for a new row, whose partition its columns say."""
FILE_GROUP: Final = internal_column("file_group")
"""The id of the file group that holds the row that is changed; NULL for a new row."""
RECORD_KEY: Final = internal_column("record_key")
"""The record key of the row that is changed. NULL for a new row, whose key is made of its columns or
generated; a row that moves keeps a generated key."""
SEQUENCE_NUMBER: Final = internal_column("sequence_number")
"""The commit sequence number of the row that is changed ('' if it has none); NULL: all rows of the key."""
CHANGE_COLUMNS: Final = (OPERATION, PARTITION, FILE_GROUP, RECORD_KEY, SEQUENCE_NUMBER)
COMBINED: Final = internal_column("combined")
"""bigint, beside the columns of some incoming rows: how many others of its key the row replaced."""
LOCATION_COLUMNS: Final = (PARTITION, FILE_GROUP, RECORD_KEY, SEQUENCE_NUMBER)
"""The location of a stored row: NULL for new rows, except generated keys of rows that move."""


class RowOperation(IntEnum):
    """What is done with a row."""

    INSERT = 0
    UPDATE = 1
    """Replaces the stored row, whatever its ordering value is."""
    DELETE = 2
    UPSERT = 3
    """Replaces the stored row unless the table's payload says that the stored one is newer."""
    MOVE_OUT = 4
    """Deletes the stored row, whose new form is inserted elsewhere."""
    MOVE_IN = 5

    @property
    def is_new_row(self) -> bool:
        """True if the row goes where its own key and partition columns say."""
        return self in (RowOperation.INSERT, RowOperation.MOVE_IN)

    @property
    def removes(self) -> bool:
        """True if the stored row goes."""
        return self in (RowOperation.DELETE, RowOperation.MOVE_OUT)


NEW_ROWS: Final = tuple(int(each) for each in RowOperation if each.is_new_row)
"""The operations of rows that go where their own key and partition columns say."""


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
