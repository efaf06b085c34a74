"""Slots that the JSON kernels have filled, as Arrow columns."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.ingest.parse.json_program import (
    BASE64_DECIMAL,
    BINARY,
    BOOLEAN,
    DECIMAL,
    DOUBLE,
    FLOAT,
    LIST,
    MAP,
    RAW,
    RECORD,
    STRING,
    JsonNode,
    JsonProgram,
)

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
_HARD: Final = 2
_ITEMS: Final = 4


class Slots(NamedTuple):
    """Where the kernels put values: node n's slot i is at `base[n] + i`.

    `valid` is 0 for null, 2 for a double whose text is still to be read. `values` and `wide` are a leaf's
    words (a text's address and length), `wide` of a list or map its end among the items.
    """

    base: Integers
    capacity: Integers
    counts: Integers
    valid: Bytes
    values: Integers
    wide: Integers


def make_slots(program: JsonProgram, records: int, growth: int) -> Slots:
    """Room for `records` records, and for `growth` times as many list and map items as is guessed."""
    capacity = np.array(
        [records * _ITEMS * growth + 1024 if node.in_loop else records + 1 for node in program.nodes],
        np.int64,
    )
    total = int(capacity.sum())
    return Slots(
        np.cumsum(capacity) - capacity,
        capacity,
        np.zeros(len(capacity), np.int64),
        np.empty(total, np.uint8),
        np.empty(total, np.int64),
        np.empty(total, np.int64),
    )


class JsonColumns:
    """Builds the columns of one batch, while its text is in memory."""

    def __init__(self, slots: Slots, scratch: Bytes) -> None:
        self._slots, self._scratch = slots, scratch

    def array(self, node: JsonNode) -> pa.Array:
        """The column of a node."""
        first = int(self._slots.base[node.position])
        count = int(self._slots.counts[node.position])
        part = slice(first, first + count)
        valid = self._slots.valid[part]
        nulls = count - int(np.count_nonzero(valid))
        validity = pa.py_buffer(np.packbits(valid != 0, bitorder="little")) if nulls else None
        if node.kind == RECORD:
            children = [self.array(child) for child in node.children]
            return pa.Array.from_buffers(node.arrow_type, count, [validity], nulls, children=children)
        if node.kind in (LIST, MAP):
            return self._list_array(node, part, validity, nulls)
        if node.kind in (STRING, BINARY):
            return self._text_array(node, part, validity, nulls)
        return self._number_array(node, part, validity, nulls)

    def _list_array(self, node: JsonNode, part: slice, validity: Any, nulls: int) -> pa.Array:
        count = part.stop - part.start
        offsets = np.zeros(count + 1, np.int32)
        offsets[1:] = self._slots.wide[part]
        children = [self.array(child) for child in node.children]
        if node.kind == MAP:
            kind = node.arrow_type
            children = [pa.StructArray.from_arrays(children, fields=[kind.key_field, kind.item_field])]
        buffers = [validity, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(node.arrow_type, count, buffers, nulls, children=children)

    def _text_array(self, node: JsonNode, part: slice, validity: Any, nulls: int) -> pa.Array:
        starts, lengths = self._slots.values[part], self._slots.wide[part]
        text, offsets = self._gathered(starts, lengths, is_base64=node.kind == BINARY)
        buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(text)]
        return pa.Array.from_buffers(node.arrow_type, len(starts), buffers, nulls)

    def _gathered(
        self, starts: Integers, lengths: Integers, *, is_base64: bool
    ) -> tuple[Bytes, npt.NDArray[np.int32]]:
        from hudisql.ingest.parse.json_scan_kernels import gather_text

        text = np.empty(int(np.where(lengths < 0, ~lengths, lengths).sum()), np.uint8)
        offsets = np.empty(len(starts) + 1, np.int32)
        used = gather_text(starts, lengths, text.ctypes.data, offsets, is_base64, self._scratch.ctypes.data)
        return text[:used], offsets

    def _number_array(self, node: JsonNode, part: slice, validity: Any, nulls: int) -> pa.Array:
        values = self._slots.values[part]
        count = len(values)
        physical: Any
        if node.kind in (DOUBLE, FLOAT):
            physical = self._doubles(part)
            if node.kind == FLOAT:
                with np.errstate(over="ignore"):
                    physical = physical.astype(np.float32)
        elif node.kind in (DECIMAL, BASE64_DECIMAL, RAW):
            physical = np.empty((count, 2), np.int64)
            physical[:, 0] = values
            physical[:, 1] = self._slots.wide[part]
        elif node.kind == BOOLEAN:
            physical = np.packbits(values != 0, bitorder="little")
        else:
            physical = values.astype(np.dtype(f"i{node.arrow_type.bit_width // 8}"))
        return pa.Array.from_buffers(node.arrow_type, count, [validity, pa.py_buffer(physical)], nulls)

    def _doubles(self, part: slice) -> npt.NDArray[np.float64]:
        values = self._slots.values[part].copy()
        doubles = values.view(np.float64)
        hard = np.flatnonzero(self._slots.valid[part] == _HARD)
        if len(hard):
            lengths = self._slots.wide[part][hard]
            text, offsets = self._gathered(values[hard], lengths, is_base64=False)
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
            texts = pa.Array.from_buffers(pa.string(), len(hard), buffers)
            doubles[hard] = pc.cast(texts, pa.float64()).to_numpy()
        return doubles
