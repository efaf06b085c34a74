"""Avro rows as Arrow columns, and back: whole blocks at once, without a Python object per row.

Rows are in Avro's binary form, as Hudi's `HoodieAvroDataBlock` frames them. The types are those of
`format.schema`; readers convert a writer's columns to the table's schema.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import CorruptTableError, InvalidArgumentError
from hudisql.format.avro.avro_column_parts import Bytes, ColumnParts, Integers, take_apart
from hudisql.format.avro.avro_program import (
    BOOLEAN,
    BYTES,
    BYTES_DECIMAL,
    DONE,
    FIXED,
    FIXED_DECIMAL,
    FLOAT,
    LOOP,
    RECORD,
    UNION,
    AvroNode,
    AvroProgram,
    program_of,
)

_MOST_BYTES = 2**31 - 1


def decode_framed_rows(
    content: memoryview | bytes, count: int, schema_text: str, names: Collection[str] | None = None
) -> pa.RecordBatch:
    """The rows of `content`, each behind its length (int32, big endian), as columns.

    `names` are the fields wanted (those that the schema lacks are left out); None means all.
    Raises CorruptTableError if the bytes are not `count` rows of the schema.
    """
    from hudisql.format.avro import avro_decode_kernels

    data = np.frombuffer(content, np.uint8)
    if not 0 <= count <= len(data) // 4:
        raise CorruptTableError(f"a log block of {len(data)} bytes cannot hold {count} rows")
    starts, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    if avro_decode_kernels.row_spans(data, 0, count, starts, ends) < 0:
        raise CorruptTableError(f"a log block ends before its {count} rows do")
    return decode_rows(data, starts, ends, schema_text, names)


def decode_rows(
    data: Bytes, starts: Integers, ends: Integers, schema_text: str, names: Collection[str] | None = None
) -> pa.RecordBatch:
    """The rows at [starts, ends) of `data` as columns; see `decode_framed_rows`."""
    program = program_of(schema_text)
    stored = program.stored(names)
    arenas = _Arenas(len(program.nodes))
    for fill in (False, True):
        failed = _walk(data, starts, ends, program, stored, arenas, fill=fill)
        if failed != DONE:
            raise CorruptTableError(f"row {failed} of a log block does not match the block's schema")
        if not fill:
            arenas.allocate()
    fields = [field for field in program.fields if stored[field.position]]
    arrays = [_array_of(field, arenas) for field in fields]
    schema = pa.schema([pa.field(field.name, field.arrow_type) for field in fields])
    if not fields:
        return pa.RecordBatch.from_struct_array(
            pa.StructArray.from_buffers(pa.struct([]), len(starts), [None])
        )
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def undecodable_rows(data: Bytes, starts: Integers, ends: Integers, schema_text: str) -> Integers:
    """The numbers of the rows at [starts, ends) of `data` that do not match the schema."""
    program = program_of(schema_text)
    stored = np.zeros(len(program.nodes), np.bool_)
    found: list[int] = []
    first = 0
    while True:
        arenas = _Arenas(len(program.nodes))
        failed = _walk(data, starts[first:], ends[first:], program, stored, arenas, fill=False)
        if failed == DONE:
            return np.array(found, np.int64)
        found.append(first + failed)
        first += failed + 1


def _walk(
    data: Bytes,
    starts: Integers,
    ends: Integers,
    program: AvroProgram,
    stored: npt.NDArray[np.bool_],
    arenas: _Arenas,
    *,
    fill: bool,
) -> int:
    from hudisql.format.avro import avro_decode_kernels

    failed = avro_decode_kernels.decode(
        data.ctypes.data,
        starts,
        ends,
        program.kind,
        program.null_branch,
        program.branch,
        program.end,
        program.following,
        program.width,
        stored,
        fill,
        arenas.base,
        arenas.bytes_base,
        arenas.valid,
        arenas.values,
        arenas.wide,
        arenas.offsets,
        arenas.text.ctypes.data,
        arenas.counts,
        arenas.used,
    )
    return int(failed)


def encode_rows(batch: pa.RecordBatch, schema_text: str, *, framed: bool = True) -> bytes:
    """The rows in Avro's binary form, each behind its length (int32, big endian) if `framed`.

    The batch has the fields of the schema in its order, in the types of `format.schema`. Raises
    InvalidArgumentError if it does not, or for a null in a field that is not nullable.
    """
    from hudisql.format.avro import avro_encode_kernels

    program = program_of(schema_text)
    names = [field.name for field in program.fields]
    if batch.schema.names != names:
        raise InvalidArgumentError(f"the rows have the columns {batch.schema.names}, their schema {names}")
    arenas = _Arenas(len(program.nodes))
    parts = ColumnParts()
    for field, column in zip(program.fields, batch.columns, strict=True):
        take_apart(field, column, parts)
    longest = arenas.load(program, parts) + (4 * batch.num_rows if framed else 0)
    out = np.empty(longest, np.uint8)
    row_ends = np.zeros(batch.num_rows, np.int64)
    failed = avro_encode_kernels.encode(
        batch.num_rows,
        framed,
        program.kind,
        program.null_branch,
        program.branch,
        program.end,
        program.following,
        program.loop,
        program.width,
        arenas.base,
        arenas.bytes_base,
        arenas.valid,
        arenas.values,
        arenas.wide,
        arenas.offsets,
        arenas.text,
        out,
        row_ends,
    )
    if failed != DONE:
        raise InvalidArgumentError(
            f"row {failed} has a null, or a value of another length, against its schema"
        )
    return out[: row_ends[-1]].tobytes() if batch.num_rows else b""


class _Arenas:
    """The long arrays that a walk reads or writes, and each node's range in them."""

    def __init__(self, nodes: int) -> None:
        self.counts = np.zeros(nodes, np.int64)
        self.used = np.zeros(nodes, np.int64)
        self._place(0, 0)

    def allocate(self) -> None:
        """Allocate space for the counts of the first walk, and start again."""
        if len(self.used) and int(self.used.max()) > _MOST_BYTES:
            raise CorruptTableError("a column of a log block has more than 2 GiB of text")
        slots, text_bytes = int(self.counts.sum()), int(self.used.sum())
        self._place(slots, text_bytes)
        self.counts[:] = 0
        self.used[:] = 0

    def load(self, program: AvroProgram, parts: ColumnParts) -> int:
        """Fill the arenas with columns to encode; returns how many bytes their rows take at most."""
        for node in program.nodes:
            part = parts.of(node)
            self.counts[node.position] = len(part.valid)
            self.used[node.position] = len(part.text)
        slots, text_bytes = int(self.counts.sum()), int(self.used.sum())
        self._place(slots, text_bytes)
        for node in program.nodes:
            part = parts.of(node)
            first = self.base[node.position]
            last = first + len(part.valid)
            self.valid[first:last] = part.valid
            if part.values is not None:
                self.values[first:last] = part.values
            if part.wide is not None:
                self.wide[first:last] = part.wide
            if part.offsets is not None:
                at = first + node.position
                self.offsets[at : at + len(part.offsets)] = part.offsets
            start = self.bytes_base[node.position]
            self.text[start : start + len(part.text)] = part.text
        # The size of a slot: its branch and its value or count (at most ten bytes each), and its text or
        # width.
        return text_bytes + slots * 32 + int((self.counts * program.width).sum())

    def _place(self, slots: int, text_bytes: int) -> None:
        nodes = len(self.counts)
        self.base = np.cumsum(self.counts) - self.counts
        self.bytes_base = np.cumsum(self.used) - self.used
        self.valid = np.empty(slots, np.uint8)
        self.values = np.empty(slots, np.int64)
        self.wide = np.empty(slots, np.int64)
        self.offsets = np.empty(slots + nodes, np.int64)
        self.offsets[self.base + np.arange(nodes)] = 0
        self.text = np.empty(text_bytes, np.uint8)


# --- decoded buffers → Arrow --------------------------------------------------------------------------------


def _array_of(node: AvroNode, arenas: _Arenas) -> pa.Array:
    at = node.position
    count = int(arenas.counts[at])
    slots = slice(arenas.base[at], arenas.base[at] + count)
    valid = arenas.valid[slots]
    nulls = count - int(np.count_nonzero(valid))
    validity = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
    data_type: Any = node.arrow_type
    if node.kind == RECORD:
        children = [_array_of(child, arenas) for child in node.children]
        return pa.Array.from_buffers(data_type, count, [validity], nulls, children=children)
    if node.kind == UNION:
        return _union_array(node, arenas, count, validity, nulls)
    if node.kind == LOOP:
        offsets = pa.py_buffer(_offsets(arenas, at, count))
        children = [_array_of(child, arenas) for child in node.children]
        if pa.types.is_map(data_type):
            entries = pa.StructArray.from_arrays(children, fields=[data_type.key_field, data_type.item_field])
            children = [entries]
        return pa.Array.from_buffers(data_type, count, [validity, offsets], nulls, children=children)
    if node.kind in (BYTES, FIXED):
        text = arenas.text[arenas.bytes_base[at] : arenas.bytes_base[at] + arenas.used[at]]
        buffers = [validity, pa.py_buffer(_offsets(arenas, at, count)), pa.py_buffer(text)]
        return pa.Array.from_buffers(data_type, count, buffers, nulls)
    return _number_array(node, arenas, slots, validity, nulls)


def _number_array(
    node: AvroNode, arenas: _Arenas, slots: slice, validity: pa.Buffer | None, nulls: int
) -> pa.Array:
    values = arenas.values[slots]
    count = len(values)
    data_type = node.arrow_type
    physical: Any
    if node.symbols:
        indices = pa.Array.from_buffers(pa.int64(), count, [validity, pa.py_buffer(values)], nulls)
        try:
            return pa.array(node.symbols, pa.string()).take(indices)
        except pa.ArrowIndexError as error:
            raise CorruptTableError(f"a log block holds no symbol of the enum {node.name}") from error
    if node.kind in (FIXED_DECIMAL, BYTES_DECIMAL):
        physical = np.empty((count, 2), np.int64)
        physical[:, 0] = values
        physical[:, 1] = arenas.wide[slots]
    elif node.kind == BOOLEAN:
        physical = np.packbits(values != 0, bitorder="little")
    elif node.kind == FLOAT:
        physical = values.astype(np.uint32)
    elif pa.types.is_int32(data_type) or pa.types.is_date32(data_type):
        physical = values.astype(np.int32)
    else:
        physical = values * node.factor if node.factor != 1 else values.copy()
    return pa.Array.from_buffers(data_type, count, [validity, pa.py_buffer(physical)], nulls)


def _union_array(
    node: AvroNode, arenas: _Arenas, count: int, validity: pa.Buffer | None, nulls: int
) -> pa.Array:
    children = [_array_of(child, arenas) for child in node.children]
    if pa.types.is_struct(node.arrow_type):
        return pa.Array.from_buffers(node.arrow_type, count, [validity], nulls, children=children)
    return pc.coalesce(*(pc.cast(child, node.arrow_type) for child in children))


def _offsets(arenas: _Arenas, at: int, count: int) -> npt.NDArray[np.int32]:
    first = arenas.base[at] + at
    return arenas.offsets[first : first + count + 1].astype(np.int32)
