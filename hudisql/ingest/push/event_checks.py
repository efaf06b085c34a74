"""Checks of rows before they are acknowledged, so that a client learns at once which of its rows are bad.

They are made with the parser by which the worker turns the same bytes into rows later: what is acknowledged
can be written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from hudisql.errors import PushRefusedError
from hudisql.ingest.parse.json_records import JsonParser
from hudisql.ingest.parse.parsed_batch import BadRecord, ParsedBatch, with_delete_field
from hudisql.ingest.push.pushed_rows import rows_of_batch

NAMED_BAD_ROWS: Final = 20
"""So many bad lines are named."""
Refuse = Callable[[ParsedBatch], Sequence[BadRecord]]
"""The rows that the table cannot have, such as those without a key."""


@dataclass(frozen=True)
class CheckedRows:
    """How many rows a batch has, and the bad ones: line numbers, counted from 1, with what is wrong.

    At most `NAMED_BAD_ROWS` bad ones are named.
    """

    rows: int
    bad_rows: tuple[tuple[int, str], ...] = ()


class RowCheck:
    """Checks rows of a table: strict types, no unknown columns, and what `refuse` finds. Any thread may call.

    With `takes_bad_rows` bad JSON rows are acknowledged with the others, for the dead-letter table. Raises
    UnsupportedTableError for columns that JSON has no values for.
    """

    def __init__(
        self, schema: pa.Schema, refuse: Refuse = lambda _parsed: (), *, takes_bad_rows: bool = False
    ) -> None:
        self.table_schema = schema
        self.schema = with_delete_field(schema)
        self.takes_bad_rows = takes_bad_rows
        self._refuse = refuse
        self._parser = JsonParser(schema, take_new_columns=True)

    def is_of(self, schema: pa.Schema, *, takes_bad_rows: bool) -> bool:
        """True if it is a check of these columns and of this answer to bad rows."""
        return self.takes_bad_rows == takes_bad_rows and bool(self.table_schema.equals(schema))

    def check_ndjson(self, payload: bytes) -> CheckedRows:
        """The rows of a body of JSON objects, one a line; blank lines are skipped, but counted in numbers."""
        lines = payload.split(b"\n")
        if not lines[-1]:
            lines.pop()
        rows = [line for line in lines if line.strip()]
        if not rows:
            return CheckedRows(0)
        bad = self._bad_rows(rows)
        if not bad:
            return CheckedRows(len(rows))
        numbers = [number for number, line in enumerate(lines, start=1) if line.strip()]
        named = tuple(
            (numbers[bad_record.position], bad_record.reason) for bad_record in bad[:NAMED_BAD_ROWS]
        )
        return CheckedRows(len(rows), named)

    def check_batch(self, batch: pa.RecordBatch) -> CheckedRows:
        """The rows of a batch whose schema fits."""
        parsed = rows_of_batch(batch, self.table_schema, np.arange(batch.num_rows))
        bad = sorted(self._refuse(parsed), key=lambda bad_record: bad_record.position)
        named = tuple((bad_record.position + 1, bad_record.reason) for bad_record in bad[:NAMED_BAD_ROWS])
        return CheckedRows(batch.num_rows, named)

    def _bad_rows(self, rows: Sequence[bytes]) -> list[BadRecord]:
        """The bad ones, in order."""
        parsed = self._parser.parse(rows)
        bad = [*parsed.bad, *self._refuse(parsed)]
        if parsed.new_columns.names:
            self._find_unknown_columns(rows, 0, bad)
        return sorted(
            {bad_record.position: bad_record for bad_record in bad}.values(),
            key=lambda bad_record: bad_record.position,
        )

    def _find_unknown_columns(self, rows: Sequence[bytes], first: int, found: list[BadRecord]) -> None:
        """Find rows with unknown columns by bisection."""
        names = self._parser.parse(rows).new_columns.names
        if not names or len(found) > NAMED_BAD_ROWS:
            return
        if len(rows) == 1:
            found.append(BadRecord(first, f"the table has no column {', '.join(names)}"))
            return
        half = len(rows) // 2
        self._find_unknown_columns(rows[:half], first, found)
        self._find_unknown_columns(rows[half:], first + half, found)


FindCheck = Callable[[str], RowCheck | PushRefusedError | None]
"""None for tables that are unknown or take no pushes, a refusal for those that take none here or now."""


def schema_problems(sent: pa.Schema, table: pa.Schema) -> list[str]:
    """The reasons why batches of one schema do not fit a table of another."""
    problems = []
    for name in sorted({name for name in sent.names if sent.names.count(name) > 1}):
        problems.append(f"column {name} is there twice")
    for field in sent:
        index = table.get_field_index(field.name)
        if index < 0:
            problems.append(f"the table has no column {field.name}")
        elif _plain(field.type) != _plain(table.field(index).type):
            problems.append(f"column {field.name} is {field.type}, the table's is {table.field(index).type}")
    return problems


def _plain(type_: pa.DataType) -> pa.DataType:
    """One type for all layouts of texts and bytes."""
    if pa.types.is_large_string(type_) or type_ == pa.string_view():
        return pa.string()
    if pa.types.is_large_binary(type_) or type_ == pa.binary_view():
        return pa.binary()
    return type_
