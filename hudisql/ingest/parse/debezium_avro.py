"""Debezium envelopes in Avro with Confluent's framing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.ingest.parse.avro_records import (
    AvroParser,
    AvroRows,
    WriterRows,
    bad_values,
    batch_of_parts,
    decode_framed,
    delete_rows,
    with_new_columns,
)
from hudisql.ingest.parse.avro_resolution import (
    UnresolvableError,
    record_fields,
    resolve_rows,
    semantic_types,
)
from hudisql.ingest.parse.debezium import changes_of, source_fields, with_deletes, with_meta_columns
from hudisql.ingest.parse.parsed_batch import BadRecord, ParsedBatch, with_delete_field

_NO_COLUMNS: Final = pa.schema([])
_FIELDS: Final = frozenset({"before", "after", "op"})
_WITH_SOURCE: Final = _FIELDS | {"source", "ts_ms"}


@dataclass(frozen=True)
class DebeziumAvroParser(AvroParser):
    """Parses Debezium's Avro; for `key_column` see `DebeziumJsonParser`.

    `parse` raises SchemaRegistryError if it cannot get a writer schema.
    """

    def parse(
        self, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
    ) -> ParsedBatch:
        """The rows and bad records of a batch."""
        has_source = (
            bool(source_fields(self.schema)) or "_upstream_event_processed_ts_ms" in self.schema.names
        )
        framed = decode_framed(values, self.registry, _WITH_SOURCE if has_source else _FIELDS)
        parts, bad, by_key, ignored, new = [], list(framed.bad), [], 0, _NO_COLUMNS
        for writer in framed.writers:
            try:
                rows, wrong, without_row, skipped, new = self._rows(writer, new)
            except UnresolvableError as error:
                bad += writer.unresolved(error)
                continue
            parts.append(rows)
            bad += wrong
            by_key += without_row
            ignored += skipped
        by_key += [
            int(position)
            for position in framed.empty
            if self.key_column and keys is not None and keys[position]
        ]
        ignored += len(framed.empty) - len(set(by_key) & set(framed.empty.tolist()))
        positions = np.array(sorted(by_key), np.int64)
        columns = with_delete_field(self.schema)
        deletes, without = delete_rows(positions, keys, columns, self.key_column, self.registry)
        return batch_of_parts(self.schema, [*parts, deletes], bad + without, new, ignored)

    def _rows(
        self, writer: WriterRows, new: pa.Schema
    ) -> tuple[AvroRows, list[BadRecord], list[int], int, pa.Schema]:
        names = writer.columns.schema.names
        if not {"before", "after", "op"} <= set(names):
            raise UnresolvableError("no Debezium envelope: it has no before, after and op")
        changes = changes_of(writer.columns.column("op"), writer.positions)
        before, after = writer.columns.column("before"), writer.columns.column("after")
        image = after
        if changes.is_delete.any():
            image = pc.if_else(pa.array(changes.is_delete), before, after)
        has_image = np.asarray(image.is_valid())
        lacks = changes.is_row & ~has_image
        by_key = [int(position) for position in writer.positions[lacks & changes.is_delete]]
        bad = [
            BadRecord(int(position), "no row after")
            for position in writer.positions[lacks & ~changes.is_delete]
        ]
        rows = np.flatnonzero(changes.is_row & has_image)
        taken = image if len(rows) == len(image) else image.take(pa.array(rows))
        inner = pa.RecordBatch.from_arrays(taken.flatten(), names=[field.name for field in taken.type])
        semantic = semantic_types(_image_fields(writer.schema_text))
        if self.take_new_columns:
            new = with_new_columns(new, inner.schema, self.schema, semantic)
        columns, kept, reasons = resolve_rows(inner, with_delete_field(self.schema), semantic)
        bad += bad_values(writer.number, writer.positions[rows], reasons)
        rows = rows[kept]
        columns = with_meta_columns(columns, _meta(writer.columns, rows))
        columns = with_deletes(columns, changes.is_delete[rows])
        avro_rows = AvroRows(columns, writer.positions[rows])
        return avro_rows, [*changes.bad, *bad], by_key, changes.ignored, new


def _image_fields(schema_text: str) -> list[Any]:
    """The fields of the row in an envelope's schema: of `before`, which stands first and defines the type."""
    for field in record_fields(schema_text):
        branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
        for branch in branches:
            if field["name"] in ("before", "after") and isinstance(branch, dict) and "fields" in branch:
                return list(branch["fields"])
    return []


def _meta(columns: pa.RecordBatch, rows: np.ndarray[Any, Any]) -> dict[str, pa.Array]:
    indices = pa.array(rows)
    meta_columns = {}
    for name in ("op", "ts_ms"):
        if name in columns.schema.names:
            meta_columns[name] = columns.column(name).take(indices)
    if "source" in columns.schema.names:
        source = columns.column("source").take(indices)
        for field, values in zip(source.type, source.flatten(), strict=True):
            meta_columns[f"source.{field.name}"] = values
    return meta_columns
