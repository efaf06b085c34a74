"""Avro records in Confluent's framing: a zero byte, the schema's number in the registry, the record.

Whole batches are decoded by column, one writer schema after the other, and brought to the table's schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.errors import CorruptTableError, UnsupportedTableError
from hudisql.format.avro.avro_rows import decode_rows, undecodable_rows
from hudisql.format.schema.avro_schema import canonical_type
from hudisql.format.schema.meta_columns import IS_DELETED
from hudisql.ingest.parse.avro_resolution import (
    UnresolvableError,
    record_fields,
    resolve_rows,
    semantic_types,
    type_of_semantic,
)
from hudisql.ingest.parse.json_program import DEFAULT_ENCODING, JsonProgram, compile_program
from hudisql.ingest.parse.json_records import delete_record, scan_values
from hudisql.ingest.parse.parsed_batch import BadRecord, ParsedBatch, check_key_column, with_delete_field

Integers = npt.NDArray[np.int64]
_HEADER: Final = 5
_NO_COLUMNS: Final = pa.schema([])


class Schemas(Protocol):
    """A source of writer schemas (`SchemaRegistry`)."""

    def schema_text(self, number: int) -> str | None:
        """The schema of that number as JSON text; None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class AvroRows:
    """Rows of one writer schema or of deleted keys: columns with the delete field, and positions."""

    columns: pa.RecordBatch
    positions: Integers


@dataclass(frozen=True)
class AvroParser:
    """Parses Avro records in Confluent's framing.

    With `key_column` a value that is null or empty deletes the row of the message's key (framed Avro, JSON or
    plain text). With `take_new_columns` the writers' other fields are returned as `new_columns`. `parse`
    raises SchemaRegistryError if it cannot get a writer schema.
    """

    schema: pa.Schema
    registry: Schemas
    key_column: str | None = None
    take_new_columns: bool = False

    def __post_init__(self) -> None:
        check_key_column(self.schema, self.key_column)

    def parse(
        self, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
    ) -> ParsedBatch:
        """The rows and bad records of a batch."""
        framed = decode_framed(values, self.registry, None)
        parts, bad, new = [], framed.bad, _NO_COLUMNS
        for writer in framed.writers:
            semantic = semantic_types(record_fields(writer.schema_text))
            try:
                rows = resolve_rows(writer.columns, with_delete_field(self.schema), semantic)
            except UnresolvableError as error:
                bad += writer.unresolved(error)
                continue
            parts.append(AvroRows(rows[0], writer.positions[rows[1]]))
            bad += bad_values(writer.number, writer.positions, rows[2])
            if self.take_new_columns:
                new = with_new_columns(new, writer.columns.schema, self.schema, semantic)
        deletes, without_key = delete_rows(
            framed.empty, keys, with_delete_field(self.schema), self.key_column, self.registry
        )
        return batch_of_parts(self.schema, [*parts, deletes], [*bad, *without_key], new)


@dataclass(frozen=True, slots=True)
class WriterRows:
    """The decoded records of one writer schema."""

    number: int
    schema_text: str
    columns: pa.RecordBatch
    positions: Integers

    def unresolved(self, error: UnresolvableError) -> list[BadRecord]:
        """All the records as bad ones: their schema is not one of the table's rows."""
        return [BadRecord(int(position), f"schema {self.number}: {error}") for position in self.positions]


@dataclass(frozen=True, slots=True)
class FramedRows:
    """A decoded batch: rows by writer schema, bad records, and the positions of empty values."""

    writers: list[WriterRows]
    bad: list[BadRecord]
    empty: Integers


def decode_framed(
    values: Sequence[bytes | None], registry: Schemas, names: frozenset[str] | None
) -> FramedRows:
    """The records of all values by writer schema; of the fields in `names` only, if given."""
    whole = [value or b"" for value in values]
    lengths = np.fromiter(map(len, whole), np.int64, len(whole))
    ends = np.cumsum(lengths)
    starts = ends - lengths
    data = np.frombuffer(b"".join([*whole, bytes(_HEADER)]), np.uint8)
    numbers = np.zeros(len(whole), np.int64)
    for byte in range(1, _HEADER):
        numbers = (numbers << 8) | data[starts + byte]
    empty = lengths == 0
    framed = (lengths >= _HEADER) & (data[starts] == 0)
    bad = [
        BadRecord(int(position), "not in Confluent's framing: no zero byte and schema number")
        for position in np.flatnonzero(~framed & ~empty)
    ]
    writers = []
    for number in np.unique(numbers[framed]):
        positions = np.flatnonzero(framed & (numbers == number))
        writer_rows, wrong = _decode(data, starts + _HEADER, ends, positions, int(number), registry, names)
        bad += wrong
        writers += [writer_rows] if writer_rows else []
    return FramedRows(writers, bad, np.flatnonzero(empty))


def _decode(
    data: npt.NDArray[np.uint8],
    starts: Integers,
    ends: Integers,
    positions: Integers,
    number: int,
    registry: Schemas,
    names: frozenset[str] | None,
) -> tuple[WriterRows | None, list[BadRecord]]:
    text = registry.schema_text(number)
    if text is None:
        return None, [
            BadRecord(int(position), f"the registry has no schema {number}") for position in positions
        ]
    failed = np.empty(0, np.int64)
    try:
        try:
            columns = decode_rows(data, starts[positions], ends[positions], text, names)
        except CorruptTableError:
            failed = undecodable_rows(data, starts[positions], ends[positions], text)
            good = np.delete(positions, failed)
            columns = decode_rows(data, starts[good], ends[good], text, names)
    except (CorruptTableError, UnsupportedTableError) as error:
        return None, [BadRecord(int(position), f"schema {number}: {error.message}") for position in positions]
    bad = [BadRecord(int(position), f"not Avro of schema {number}") for position in positions[failed]]
    good = np.delete(positions, failed)
    columns, good, wrong = _with_valid_text(columns, good, number)
    return WriterRows(number, text, columns, good), bad + wrong


def _with_valid_text(
    columns: pa.RecordBatch, positions: Integers, number: int
) -> tuple[pa.RecordBatch, Integers, list[BadRecord]]:
    try:
        columns.validate(full=True)
        return columns, positions, []
    except pa.ArrowInvalid:
        valid = np.array([_is_valid(columns.slice(row, 1)) for row in range(columns.num_rows)])
    bad = [BadRecord(int(position), f"a value that schema {number} does not allow (text that is not UTF-8?)")
           for position in positions[~valid]]  # fmt: skip
    return columns.filter(pa.array(valid)), positions[valid], bad


def _is_valid(row: pa.RecordBatch) -> bool:
    try:
        row.take(pa.array([0])).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def bad_values(number: int, positions: Integers, reasons: Mapping[int, str]) -> list[BadRecord]:
    """The records of the writer schema `number` with values that the table's columns do not hold."""
    return [BadRecord(int(positions[row]), f"schema {number}: {reason}") for row, reason in reasons.items()]


def with_new_columns(
    new: pa.Schema, found: pa.Schema, known: pa.Schema, semantic: Mapping[str, str]
) -> pa.Schema:
    """The new columns with those of a writer that are neither known nor among them."""
    for field in found:
        if field.name not in known.names and field.name not in new.names and field.name != IS_DELETED:
            kind = type_of_semantic(semantic.get(field.name)) or canonical_type(field.type, field.name)
            new = new.append(pa.field(field.name, kind))
    return new


def delete_rows(
    positions: Integers,
    keys: Sequence[bytes | None] | None,
    schema: pa.Schema,
    key_column: str | None,
    registry: Schemas | None,
) -> tuple[AvroRows, list[BadRecord]]:
    """The rows that delete the keys of the messages at `positions`, and the messages without such a key."""
    records = []
    for position in positions:
        key = keys[position] if keys is not None else None
        if key and key[0] == 0 and len(key) >= _HEADER and registry is not None:
            records.append(_framed_key_record(key, schema, key_column, registry))
        else:
            records.append(delete_record(key, schema, key_column))
    return scan_deletes(compile_program(schema, DEFAULT_ENCODING), records, positions)


def scan_deletes(
    program: JsonProgram, records: Sequence[bytes], positions: Integers
) -> tuple[AvroRows, list[BadRecord]]:
    """The rows of `delete_record`s, and the bad ones of them, by the positions of their messages."""
    scanned = scan_values(program, records)
    bad = [BadRecord(int(positions[bad_record.position]), bad_record.reason) for bad_record in scanned.bad]
    return AvroRows(scanned.columns, positions[scanned.positions]), bad


def _framed_key_record(key: bytes, schema: pa.Schema, key_column: str | None, registry: Schemas) -> bytes:
    import io
    import json

    import fastavro

    text = registry.schema_text(int.from_bytes(key[1:_HEADER], "big"))
    if text is None:
        return b""
    try:
        found = fastavro.schemaless_reader(io.BytesIO(key[_HEADER:]), json.loads(text), None)
        return delete_record(json.dumps(found, default=str).encode(), schema, key_column)
    except (EOFError, ValueError, IndexError, KeyError, TypeError):
        return b""


def batch_of_parts(
    schema: pa.Schema, parts: list[AvroRows], bad: list[BadRecord], new: pa.Schema, ignored: int = 0
) -> ParsedBatch:
    """The rows of all parts in the order of their positions."""
    positions = np.concatenate([part.positions for part in parts])
    order = np.argsort(positions, kind="stable")
    table = pa.Table.from_batches([part.columns for part in parts])
    if not np.array_equal(order, np.arange(len(order))):
        table = table.take(pa.array(order))
    deleted = table.column(IS_DELETED).fill_null(False).to_numpy()
    return ParsedBatch(
        table.select(schema.names),
        positions[order],
        deleted if deleted.any() else None,
        tuple(sorted(bad, key=lambda bad_record: bad_record.position)),
        new,
        ignored,
    )
