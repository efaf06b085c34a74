"""Rows that a reader gave, written back by their record keys, of a table whose record keys are generated.

Follows the prepped writes of Hudi 0.14 and 0.15: an upsert or delete of rows with Hudi's meta columns finds
the stored rows by them. Unlike Hudi it refuses rows that name no stored row.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import WriteRefusedError
from hudisql.format.schema.meta_columns import PARTITION_PATH, RECORD_KEY
from hudisql.write.changes import PARTITION
from hudisql.write.changes import RECORD_KEY as ROW_KEY
from hudisql.write.execution.write_context import WrittenFile


def with_stored_keys(keyed: pa.RecordBatch, read: pa.RecordBatch, table_label: str) -> pa.RecordBatch:
    """The rows with the record keys of the rows as they were read (`read`, row by row the same).

    Raises WriteRefusedError for rows without a key, and for those that would change their partition.
    """
    keys = read.column(RECORD_KEY).cast(pa.string())
    if keys.null_count:
        raise WriteRefusedError(
            f"{keys.null_count} row(s) for {table_label} have no {RECORD_KEY}",
            hint="write new rows by themselves, without Hudi's meta columns: their keys are generated",
        )
    stays = pc.equal(keyed.column(PARTITION), read.column(PARTITION_PATH).cast(pa.string()))
    if not pc.all(pc.fill_null(stays, False)).as_py():
        raise WriteRefusedError(
            f"rows for {table_label} would leave their partition, which {PARTITION_PATH} names",
            hint="hudisql's UPDATE moves rows; or delete them, and insert them without Hudi's meta columns",
        )
    return keyed.set_column(keyed.schema.get_field_index(ROW_KEY), ROW_KEY, keys)


def refuse_unknown_rows(files: Sequence[WrittenFile], table_label: str) -> None:
    """Raise WriteRefusedError if rows were inserted, because no stored row has their key."""
    unknown = sum(file.inserted for file in files)
    if unknown:
        raise WriteRefusedError(
            f"{unknown} row(s) for {table_label} have a {RECORD_KEY} that no stored row has",
            hint="read the rows again, if others have deleted them meanwhile; write rows of another table "
            "without Hudi's meta columns",
        )
