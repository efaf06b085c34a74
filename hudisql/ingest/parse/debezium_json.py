"""Debezium envelopes in JSON, with and without the `schema` and `payload` of Kafka Connect's converter.

The envelope is walked first, with the images of the row left as places in the text; then the image that
counts is read by the table's schema. How columns are sent follows from the `schema`, where there is one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.ingest.parse.avro_records import AvroRows, batch_of_parts, scan_deletes, with_new_columns
from hudisql.ingest.parse.avro_resolution import EPOCHS
from hudisql.ingest.parse.debezium import (
    META_COLUMNS,
    Changes,
    changes_of,
    source_fields,
    with_deletes,
    with_meta_columns,
)
from hudisql.ingest.parse.json_program import (
    DEFAULT_ENCODING,
    RAW_TYPE,
    Encoding,
    JsonProgram,
    compile_program,
)
from hudisql.ingest.parse.json_records import RecordTexts, ScannedRecords, delete_record, scan_texts, text_at
from hudisql.ingest.parse.parsed_batch import BadRecord, ParsedBatch, check_key_column, with_delete_field

Integers = npt.NDArray[np.int64]
_NO_COLUMNS: Final = pa.schema([])

_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"


@dataclass(frozen=True)
class DebeziumJsonParser:
    """Parses Debezium's JSON.

    `encoding` and `encodings` (by column) describe times and decimals of messages without a schema.
    With `key_column` a delete without its row, and a message without a value, delete the message's key.
    Without it the latter are ignored: Debezium sends them after the delete.
    """

    schema: pa.Schema
    key_column: str | None = None
    encoding: Encoding = DEFAULT_ENCODING
    encodings: Mapping[str, Encoding] = field(default_factory=dict)
    take_new_columns: bool = False
    _programs: dict[bytes, JsonProgram] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_key_column(self.schema, self.key_column)

    def parse(
        self, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
    ) -> ParsedBatch:
        """The rows and bad records of a batch."""
        whole = [value or b"" for value in values]
        texts = RecordTexts(whole)
        filled = np.flatnonzero(texts.starts < texts.ends)
        scanned = scan_texts(self._envelope, texts.starts[filled], texts.ends[filled])
        envelope = _Envelope(scanned, filled[scanned.positions])
        changes = changes_of(envelope.column("op"), envelope.positions)
        bad = [
            BadRecord(int(filled[bad_record.position]), bad_record.reason) for bad_record in scanned.bad
        ] + changes.bad
        records = {
            int(position): delete_record(_key(keys, int(position)), self.schema, self.key_column)
            for position in self._deletes_by_key(
                envelope, changes, np.flatnonzero(texts.starts == texts.ends)
            )
        }
        by_key = {position: record for position, record in records.items() if record}
        parts, wrong, new = self._images(envelope, changes, by_key)
        of_keys = np.array(list(by_key), np.int64)
        deletes, key_errors = scan_deletes(self._program(b""), list(by_key.values()), of_keys)
        empty = sum(1 for position in records if position not in by_key and not whole[position])
        batch_bad = bad + wrong + key_errors
        return batch_of_parts(self.schema, [*parts, deletes], batch_bad, new, changes.ignored + empty)

    @cached_property
    def _envelope(self) -> JsonProgram:
        ts_kind = self._type_of("_upstream_event_processed_ts_ms")
        fields = [pa.field("before", RAW_TYPE), pa.field("after", RAW_TYPE), pa.field("op", pa.string())]
        if ts_kind is not None:
            fields.append(pa.field("ts_ms", ts_kind))
        if source := source_fields(self.schema):
            fields.append(pa.field("source", pa.struct(source)))
        wrapper = [pa.field("schema", RAW_TYPE), pa.field("payload", pa.struct(fields))]
        return compile_program(pa.schema([*wrapper, *fields]), DEFAULT_ENCODING)

    def _type_of(self, column: str) -> pa.DataType | None:
        return self.schema.field(column).type if column in self.schema.names else None

    @staticmethod
    def _deletes_by_key(envelope: _Envelope, changes: Changes, empty: Integers) -> Integers:
        starts, _ = envelope.places("before")
        return np.concatenate([envelope.positions[changes.is_delete & (starts == 0)], empty])

    def _images(
        self, envelope: _Envelope, changes: Changes, by_key: Mapping[int, bytes]
    ) -> tuple[list[AvroRows], list[BadRecord], pa.Schema]:
        before, after = envelope.places("before"), envelope.places("after")
        starts = np.where(changes.is_delete, before[0], after[0])
        ends = np.where(changes.is_delete, before[1], after[1])
        bad = [
            BadRecord(int(position), "neither the row nor a key to delete by" if deleted else "no row after")
            for position, deleted in zip(
                envelope.positions[changes.is_row & (starts == 0)],
                changes.is_delete[changes.is_row & (starts == 0)],
                strict=True,
            )
            if int(position) not in by_key
        ]
        parts, new = [], _NO_COLUMNS
        for schema_text, rows in envelope.rows_by_schema(changes.is_row & (starts != 0)):
            program, more = self._program(schema_text), self.take_new_columns
            scanned = scan_texts(program, starts[rows], ends[rows], take_new_columns=more)
            new = with_new_columns(new, scanned.new_columns, self.schema, {})
            bad += [
                BadRecord(int(envelope.positions[rows[bad_record.position]]), bad_record.reason)
                for bad_record in scanned.bad
            ]
            good = rows[scanned.positions]
            columns = with_meta_columns(scanned.columns, envelope.taken(good))
            parts.append(AvroRows(with_deletes(columns, changes.is_delete[good]), envelope.positions[good]))
        return parts, bad, new

    def _program(self, schema_text: bytes) -> JsonProgram:
        if schema_text not in self._programs:
            encodings = {**column_encodings(schema_text, self.encoding), **self.encodings}
            columns = with_delete_field(self.schema)
            self._programs[schema_text] = compile_program(columns, self.encoding, encodings)
        return self._programs[schema_text]


def _key(keys: Sequence[bytes | None] | None, position: int) -> bytes | None:
    return None if keys is None else keys[position]


class _Envelope:
    """The columns of envelopes: of the payload where there is one, else of the message itself."""

    def __init__(self, scanned: ScannedRecords, positions: Integers) -> None:
        self.positions = positions
        self._columns = scanned.columns
        self._payload = scanned.columns.column("payload")
        self._is_wrapped = self._payload.is_valid()

    def column(self, name: str) -> pa.Array:
        """A field of the envelope; `source.lsn` is a field of its source."""
        head, _, rest = name.partition(".")
        inner = pa.compute.struct_field(self._payload, head.split())
        found = inner if self._payload.null_count == 0 else self._chosen(inner, self._columns.column(head))
        return pa.compute.struct_field(found, [rest]) if rest else found

    def _chosen(self, inner: pa.Array, outer: pa.Array) -> pa.Array:
        return (
            outer if not self._is_wrapped.true_count else pa.compute.if_else(self._is_wrapped, inner, outer)
        )

    def places(self, name: str) -> tuple[Integers, Integers]:
        """Start and end of each row's text of a field, 0 where it is null."""
        return _places(self.column(name))

    def rows_by_schema(self, wanted: npt.NDArray[np.bool_]) -> list[tuple[bytes, Integers]]:
        """The wanted rows by the text of their schema, empty without one."""
        starts, ends = _places(self._columns.column("schema"))
        if not self._is_wrapped.true_count or not starts.any():
            return [(b"", np.flatnonzero(wanted))] if wanted.any() else []
        from hudisql.ingest.parse.json_scan_kernels import same_as_before

        same = np.empty(len(starts), np.bool_)
        same_as_before(starts, ends, same)
        firsts = np.flatnonzero(~same)
        texts = [text_at(int(starts[row]), int(ends[row])) if starts[row] else b"" for row in firsts]
        number_of: dict[bytes, int] = {}
        numbers = np.array([number_of.setdefault(text, len(number_of)) for text in texts], np.int64)
        of_row = numbers[np.cumsum(~same) - 1]
        found = [(text, np.flatnonzero(wanted & (of_row == number))) for text, number in number_of.items()]
        return [(text, rows) for text, rows in found if len(rows)]

    def taken(self, rows: Integers) -> dict[str, pa.Array]:
        """The fields of META_COLUMNS that the envelope was read for, of some rows."""
        indices = pa.array(rows)
        found = {}
        for part, name in META_COLUMNS.values():
            kind = self._payload.type
            if part and kind.get_field_index(part) >= 0:
                kind = kind.field(part).type
            elif part:
                continue
            if kind.get_field_index(name) >= 0:
                where = f"{part}.{name}" if part else name
                found[where] = self.column(where).take(indices)
        return found


def _places(found: pa.Array) -> tuple[Integers, Integers]:
    words = np.frombuffer(found.buffers()[1], np.int64)[2 * found.offset : 2 * (found.offset + len(found))]
    starts = np.where(np.asarray(found.is_valid()), words[0::2], 0)
    return starts, np.where(starts == 0, 0, starts + words[1::2])


def column_encodings(schema_text: bytes, default: Encoding) -> Mapping[str, Encoding]:
    """The encodings of the row's columns, by the schema of an envelope's `after`; `default` for others."""
    try:
        document = json.loads(schema_text)
    except ValueError:
        return {}
    return {
        str(column["field"]): Encoding(
            EPOCHS.get(str(column.get("name")), default.epoch_unit), _decimal_scale(column, default)
        )
        for column in _row_fields(document)
        if isinstance(column, dict) and "field" in column
    }


def _row_fields(document: Any) -> list[Any]:
    fields = document.get("fields") if isinstance(document, dict) else None
    for image in fields or []:
        if isinstance(image, dict) and image.get("field") == "after":
            return list(image.get("fields") or [])
    return []


def _decimal_scale(column: Mapping[str, Any], default: Encoding) -> int | None:
    if column.get("name") != _DECIMAL:
        return None if column.get("type") in ("string", "double") else default.decimal_scale
    parameters = column.get("parameters") or {}
    return int(parameters.get("scale", 0))
