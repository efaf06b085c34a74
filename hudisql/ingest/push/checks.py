"""Checks of rows before they are acknowledged, so that a client learns at once which of its rows are bad.

The worker gives a check for each table that takes pushes; `SchemaCheck` knows nothing but the table's schema.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.json

# So many bad lines are named, the others are not looked for.
NAMED_BAD_ROWS: Final = 20


@dataclass(frozen=True)
class CheckedRows:
    """How many rows a batch has, and the bad ones: line numbers, counted from 1, with what is wrong.

    At most `NAMED_BAD_ROWS` bad ones are named.
    """

    rows: int
    bad_rows: tuple[tuple[int, str], ...] = ()


class TableCheck(Protocol):
    """What a table takes."""

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""

    def check_ndjson(self, payload: bytes) -> CheckedRows:
        """The rows of a body of JSON objects, one a line; blank lines are none."""


# None for tables that take no pushes.
FindCheck = Callable[[str], TableCheck | None]


class SchemaCheck:
    """Rows of a table's schema: strict types, no unknown columns, nulls where the schema has them."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
        self._required = [field.name for field in schema if not field.nullable]

    def check_ndjson(self, payload: bytes) -> CheckedRows:
        """The rows of a body; only a body with bad ones is cut into lines."""
        lines = payload.count(b"\n") + (not payload.endswith(b"\n") and bool(payload))
        rows, reason = self._parse(payload)
        if not reason and rows == lines:
            return CheckedRows(rows)
        numbered = [
            (number, line) for number, line in enumerate(payload.split(b"\n"), start=1) if line.strip()
        ]
        if not reason and rows == len(numbered):
            return CheckedRows(rows)
        bad: list[tuple[int, str]] = []
        self._find_bad(numbered, bad)
        return CheckedRows(len(numbered), tuple(bad))

    def _find_bad(self, lines: list[tuple[int, bytes]], bad: list[tuple[int, str]]) -> None:
        """Halve the lines until the bad ones stand alone."""
        if not lines or len(bad) >= NAMED_BAD_ROWS:
            return
        rows, reason = self._parse(b"\n".join(line for _, line in lines))
        if not reason and rows == len(lines):
            return
        if len(lines) == 1:
            bad.append((lines[0][0], reason or "the line has not exactly one object"))
            return
        middle = len(lines) // 2
        self._find_bad(lines[:middle], bad)
        self._find_bad(lines[middle:], bad)

    def _parse(self, payload: bytes) -> tuple[int, str]:
        """How many rows there are, and what is wrong with them."""
        if not payload.strip():
            return 0, ""
        try:
            payload.decode()
            table = pa.json.read_json(
                pa.BufferReader(payload),
                read_options=pa.json.ReadOptions(use_threads=False, block_size=len(payload) + 1),
                parse_options=self._options,
            )
        except UnicodeDecodeError:
            return 0, "the text is not UTF-8"
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            # Rows are counted from the piece that was parsed, not from the body.
            reason = str(error).removeprefix("JSON parse error: ")
            return 0, reason.rpartition(" in row ")[0] or reason
        for name in self._required:
            if table.num_rows and table.column(name).null_count:
                return 0, f"column {name} is null"
        return table.num_rows, ""


def schema_problems(sent: pa.Schema, table: pa.Schema) -> list[str]:
    """What keeps batches of one schema from going into a table of another."""
    problems = []
    for name in sorted({name for name in sent.names if sent.names.count(name) > 1}):
        problems.append(f"column {name} is there twice")
    for field in sent:
        index = table.get_field_index(field.name)
        if index < 0:
            problems.append(f"the table has no column {field.name}")
        elif _plain(field.type) != _plain(table.field(index).type):
            problems.append(f"column {field.name} is {field.type}, the table's is {table.field(index).type}")
    missing = [field.name for field in table if not field.nullable and field.name not in sent.names]
    return problems + [f"column {name} is missing" for name in missing]


def batch_problems(batch: pa.RecordBatch, table: pa.Schema) -> list[str]:
    """What keeps a batch, whose schema fits, from going into a table."""
    required = [field.name for field in table if not field.nullable]
    return [f"column {name} has nulls" for name in required if batch.column(name).null_count]


def _plain(type_: pa.DataType) -> pa.DataType:
    """One type for all layouts of texts and bytes."""
    if pa.types.is_large_string(type_) or type_ == pa.string_view():
        return pa.string()
    if pa.types.is_large_binary(type_) or type_ == pa.binary_view():
        return pa.binary()
    return type_
