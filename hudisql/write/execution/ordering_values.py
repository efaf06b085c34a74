"""The check of values in several ordering columns.

Apache Hudi 1.2 replaces a NULL in one of them by the integer 0 or keeps it. Comparing that with another value
fails, also when log files are read, and then the table cannot be read.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import WriteRefusedError
from hudisql.write.changes import OPERATION, RowOperation

_WITHOUT_VALUES = (int(RowOperation.DELETE), int(RowOperation.MOVE_OUT))


def check_ordering_values(rows: pa.RecordBatch, event_time_fields: Sequence[str]) -> None:
    """Raise WriteRefusedError if rows have no value in one of several ordering columns.

    Changes that delete a row are ignored.
    """
    if len(event_time_fields) < 2:
        return
    if OPERATION in rows.schema.names:
        # Not made on import: the first pyarrow.array of a process imports pandas.
        without_values = pa.array(_WITHOUT_VALUES, pa.int8())
        rows = rows.filter(pc.invert(pc.is_in(rows.column(OPERATION), value_set=without_values)))
    for field in event_time_fields:
        count = rows.column(field).null_count
        if count:
            raise WriteRefusedError(
                f"{count} row(s) have NULL in {field}, one of the ordering columns "
                f"{', '.join(event_time_fields)}: Apache Hudi cannot compare it with other values",
                hint=f"give every row a value in {field}; nothing was written",
            )
