"""Arrow columns as arrays of numbers, offsets and text, which the Avro encoder reads.

One part for each node of the schema's program. Knows nothing of Avro's bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import InvalidArgumentError
from hudisql.format.avro.avro_program import (
    BOOLEAN,
    BYTES,
    BYTES_DECIMAL,
    DOUBLE,
    FIXED,
    FIXED_DECIMAL,
    FLOAT,
    LOOP,
    RECORD,
    UNION,
    AvroNode,
)

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]


@dataclass(slots=True)
class ColumnPart:
    """One node's column, taken apart; slot i is row i of the array or map around it."""

    valid: Bytes
    values: npt.NDArray[Any] | None = None
    wide: Integers | None = None
    offsets: Integers | None = None
    text: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))


class ColumnParts:
    """The parts of all nodes of a program."""

    def __init__(self) -> None:
        self._of: dict[int, ColumnPart] = {}

    def of(self, node: AvroNode) -> ColumnPart:
        """The part of a node."""
        return self._of[node.position]

    def put(self, node: AvroNode, part: ColumnPart) -> None:
        """Note a node's part."""
        self._of[node.position] = part


def take_apart(node: AvroNode, array: pa.Array, parts: ColumnParts) -> None:
    """Put the column and all below it into `parts`. Raises InvalidArgumentError if it is of another type."""
    count = len(array)
    valid = np.ones(count, np.uint8) if not array.null_count else _bytes_of(pc.is_valid(array))
    part = ColumnPart(valid)
    parts.put(node, part)
    if node.kind == UNION:
        for number, child in enumerate(node.children):
            take_apart(child, _struct_child(array, number), parts)
        return
    if array.type != node.arrow_type:
        raise InvalidArgumentError(f"column {node.name} is {array.type}, its schema says {node.arrow_type}")
    if node.kind == RECORD:
        for number, child in enumerate(node.children):
            take_apart(child, _struct_child(array, number), parts)
    elif node.kind == LOOP:
        _take_list_apart(node, array, part, parts)
    elif node.kind in (BYTES, FIXED):
        offsets = _raw(array, np.int32, count + 1).astype(np.int64)
        text = array.buffers()[2]
        if text is not None:
            part.text = np.frombuffer(text, np.uint8)[offsets[0] : offsets[-1]]
        part.offsets = offsets - offsets[0]
    elif node.symbols:
        indices = pc.index_in(array, value_set=pa.array(node.symbols, pa.string()))
        part.values = pc.fill_null(indices, 0).to_numpy(zero_copy_only=False)
    elif node.kind in (FIXED_DECIMAL, BYTES_DECIMAL):
        pairs = _raw(array, np.int64, 2 * count, per_slot=2)
        part.values, part.wide = pairs[0::2], pairs[1::2]
    elif node.kind == BOOLEAN:
        part.values = _bytes_of(pc.fill_null(array, False))
    elif node.kind == FLOAT:
        part.values = _raw(array, np.uint32, count)
    elif node.kind == DOUBLE:
        part.values = _raw(array, np.int64, count)
    else:
        narrow = pa.types.is_int32(array.type) or pa.types.is_date32(array.type)
        part.values = _raw(array, np.int32 if narrow else np.int64, count)
        if node.factor != 1:
            part.values = part.values // node.factor


def _take_list_apart(node: AvroNode, array: pa.Array, part: ColumnPart, parts: ColumnParts) -> None:
    offsets = _raw(array, np.int32, len(array) + 1).astype(np.int64)
    first, items = int(offsets[0]), int(offsets[-1] - offsets[0])
    part.offsets = offsets - first
    # The items of null lists are never walked, so they may stay.
    children = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
    for child, values in zip(node.children, children, strict=True):
        take_apart(child, values.slice(first, items), parts)


def _struct_child(array: pa.StructArray, number: int) -> pa.Array:
    return array.field(number)


def _raw(array: pa.Array, kind: Any, count: int, per_slot: int = 1) -> npt.NDArray[Any]:
    """The second buffer of the array as numbers, from the array's own first slot on."""
    buffer = array.buffers()[1]
    if buffer is None or not buffer.size:
        return np.zeros(count, kind)
    first = array.offset * per_slot
    return np.frombuffer(buffer, kind, first + count)[first:]


def _bytes_of(mask: pa.BooleanArray) -> Bytes:
    return np.asarray(mask.to_numpy(zero_copy_only=False)).view(np.uint8)
