"""The record keys of new rows: rendered from the table's key columns, or generated if it has none.

Follows `AutoRecordGenWrapperKeyGenerator` of Hudi 0.14 and 0.15: a generated key is `<instant>_<task
partition id>_<row>`, as a sequence number, and stays with its row from then on. Two attempts of one task
generate the same keys, but only one attempt's files become visible. Incoming rows have no generated keys, so
they cannot be looked up by key. Works on whole Arrow columns; knows no files.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import WriteRefusedError
from hudisql.format.keys.record_keys import render_record_keys
from hudisql.table.hudi_table import HudiTable
from hudisql.write.keygen.sequence_numbers import sequence_numbers


@dataclass(slots=True)
class NewRowKeys:
    """Makes the keys of the new rows that one task of a commit writes.

    `fields` are the record key's columns, empty if keys are generated; `task` is a number that is unique in
    the commit. All writers of a task share one instance, which counts the rows.
    """

    fields: tuple[str, ...]
    complex_keys: bool
    instant_time: str
    task: int
    generated: int = field(default=0, init=False)

    def of(
        self, rows: pa.RecordBatch | pa.Table, partition_path: str, kept: pa.StringArray | None = None
    ) -> pa.StringArray:
        """The keys of the rows, in their order.

        `kept` has the keys of rows from other files, and null for the others; they are used only if keys are
        generated. Raises WriteRefusedError for rows whose key columns are null or empty.
        """
        if self.fields:
            rendered = render_record_keys(rows, self.fields, complex_keys=self.complex_keys)
            if rendered.null_keys.count:
                raise null_key_error(self.fields, partition_path, rendered.null_keys.count)
            return rendered.keys
        keys = generated_keys(self.instant_time, self.task, self.generated, rows.num_rows)
        self.generated += rows.num_rows
        return keys if kept is None or kept.null_count == len(kept) else pc.coalesce(kept, keys)


def generated_keys(instant_time: str, task: int, first_row: int, rows: int) -> pa.StringArray:
    """The generated keys of `rows` rows from `first_row` (from 0) on of the task with this number."""
    return sequence_numbers(instant_time, task, first_row, rows)


def null_key_error(fields: tuple[str, ...], partition_path: str, count: int) -> WriteRefusedError:
    """The error for new rows without a record key."""
    where = f" of partition '{partition_path}'" if partition_path else ""
    return WriteRefusedError(
        f"{count} new row(s){where} have no record key: {', '.join(fields)} is null or empty",
        hint="give every row a value in the record key columns, or filter such rows out; nothing was written",
    )


def effective_operation(table: HudiTable, operation: str) -> str:
    """The effective write operation of `operation` ("upsert", "delete", "insert" …) on the table.

    With generated record keys an upsert is an insert, as in Hudi, which generates new keys for its rows.
    Raises WriteRefusedError for a delete by key on such a table.
    """
    if not table.properties.generates_record_keys:
        return operation
    if operation == "delete":
        check_has_record_key(table)
    return "insert" if operation == "upsert" else operation


def check_has_record_key(table: HudiTable) -> None:
    """Raise WriteRefusedError if the record keys are generated, so that incoming rows match no stored row."""
    if table.properties.generates_record_keys:
        raise WriteRefusedError(
            f"the record keys of {table.base_path} are generated: incoming rows cannot be matched with "
            "stored rows by key",
            hint="MERGE INTO … ON <condition>, UPDATE and DELETE find stored rows by their values",
        )
