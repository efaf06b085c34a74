"""Debezium's envelope as rows: which image of a change counts, and the columns that Hudi adds to it.

Follows Hudi's `DebeziumConstants` and `MysqlDebeziumSource`: a table that has columns of these names gets
the envelope's data on the change. Operations c, u and r are the row after, d is the row before as a
delete, t (truncate) and m (message) have no row. A column that Debezium left out because it did not change
keeps the text that it sends instead (`__debezium_unavailable_value`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.schema.meta_columns import IS_DELETED
from hudisql.ingest.parse.parsed_batch import BadRecord

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

META_COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    "_change_operation_type": ("", "op"),
    "_upstream_event_processed_ts_ms": ("", "ts_ms"),
    "db_shard_source_partition": ("source", "name"),
    "db_schema_source_partition": ("source", "schema"),
    "_event_origin_ts_ms": ("source", "ts_ms"),
    "_event_tx_id": ("source", "txId"),
    "_event_lsn": ("source", "lsn"),
    "_event_xmin": ("source", "xmin"),
    "_event_bin_file": ("source", "file"),
    "_event_pos": ("source", "pos"),
    "_event_row": ("source", "row"),
}
"""Column: where in the envelope its value is."""

SEQUENCE_COLUMN: Final = "_event_seq"
"""MySQL's ordering: the number of the binary log's file, a dot, and the place in it."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of a batch: rows, which of them are deletes, and the number of messages without a row."""

    is_row: Mask
    is_delete: Mask
    ignored: int
    bad: list[BadRecord]


def changes_of(operations: pa.Array, positions: Integers) -> Changes:
    """The changes of envelopes by their `op`, which stand at `positions` of the batch."""
    is_delete = _equals(operations, "d")
    is_ignored = _equals(operations, "t") | _equals(operations, "m")
    is_row = is_delete | _equals(operations, "c") | _equals(operations, "u") | _equals(operations, "r")
    bad = [
        BadRecord(int(positions[row]), f"op {operations[row].as_py()!r} is none of Debezium's")
        for row in np.flatnonzero(~is_row & ~is_ignored)
    ]
    return Changes(is_row, is_delete, int(is_ignored.sum()), bad)


def _equals(operations: pa.Array, letter: str) -> Mask:
    found: Mask = pc.fill_null(pc.equal(operations, letter), False).to_numpy(zero_copy_only=False)
    return found


def source_fields(schema: pa.Schema) -> list[pa.Field]:
    """The fields of `source` that the table has columns for, in the columns' types."""
    wanted = {
        name: schema.field(column).type
        for column, (part, name) in META_COLUMNS.items()
        if part == "source" and column in schema.names
    }
    if SEQUENCE_COLUMN in schema.names:
        wanted.setdefault("file", pa.string())
        wanted.setdefault("pos", pa.int64())
    return [pa.field(name, kind) for name, kind in wanted.items()]


def with_meta_columns(rows: pa.RecordBatch, envelope: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """The rows with the columns that the envelope fills (`op`, `ts_ms`, `source.lsn` …), row for row."""
    for number, name in enumerate(rows.schema.names):
        if name == SEQUENCE_COLUMN:
            file, place = envelope["source.file"], pc.cast(envelope["source.pos"], pa.string())
            suffix = pc.replace_substring_regex(file, r"^.*\.", "")
            rows = rows.set_column(
                number, rows.schema.field(number), pc.binary_join_element_wise(suffix, place, ".")
            )
        elif name in META_COLUMNS:
            part, field = META_COLUMNS[name]
            found = envelope.get(f"{part}.{field}" if part else field)
            if found is not None:
                rows = rows.set_column(
                    number, rows.schema.field(number), pc.cast(found, rows.schema.field(number).type)
                )
    return rows


def with_deletes(rows: pa.RecordBatch, is_delete: Mask) -> pa.RecordBatch:
    """The rows with the delete field true where the change is a delete, else as the source has it."""
    number = rows.schema.get_field_index(IS_DELETED)
    marked = pc.if_else(pa.array(is_delete), True, rows.column(number))
    return rows.set_column(number, rows.schema.field(number), marked)
