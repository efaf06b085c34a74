"""The compiled encoder of Avro rows (numba): from column buffers into bytes.

The mirror of `avro_decode_kernels`, by the same program and over the same arenas. Importing this module loads
numba: only `avro_rows` does, when it first encodes.
"""

from __future__ import annotations

import numpy as np

from hudisql.format.avro.avro_program import (
    BOOLEAN,
    BYTES,
    BYTES_DECIMAL,
    DONE,
    DOUBLE,
    FIXED,
    FIXED_DECIMAL,
    FLOAT,
    LOOP,
    RECORD,
    UNION,
    VARINT,
)
from hudisql.format.encoding.numba_compiled import compiled


@compiled
def _write_varint(out, position, value):  # type: ignore[no-untyped-def]
    bits = (np.uint64(value) << np.uint64(1)) ^ np.uint64(value >> np.int64(63))
    while bits >= np.uint64(0x80):
        out[position] = np.uint8((bits & np.uint64(0x7F)) | np.uint64(0x80))
        bits >>= np.uint64(7)
        position += 1
    out[position] = np.uint8(bits)
    return position + 1


@compiled
def _write_number(out, position, what, value, high, width):  # type: ignore[no-untyped-def]
    if what == VARINT:
        return _write_varint(out, position, value)
    if what in (DOUBLE, FLOAT, BOOLEAN):
        bits = np.uint64(value)
        for _ in range(8 if what == DOUBLE else (4 if what == FLOAT else 1)):
            out[position] = np.uint8(bits & np.uint64(0xFF))
            bits >>= np.uint64(8)
            position += 1
    elif what in (FIXED_DECIMAL, BYTES_DECIMAL):
        size = width if what == FIXED_DECIMAL else 16
        if what == BYTES_DECIMAL:
            position = _write_varint(out, position, np.int64(size))
        low, top = np.uint64(value), np.uint64(high)
        sign = np.uint8(255) if high < 0 else np.uint8(0)
        for byte in range(size - 1, -1, -1):
            if size - byte > 16:
                out[position + byte] = sign
            else:
                out[position + byte] = np.uint8(low & np.uint64(0xFF))
                low = (low >> np.uint64(8)) | (top << np.uint64(56))
                top = np.uint64(np.int64(top) >> np.int64(8))
        position += size
    return position


@compiled
def encode(  # type: ignore[no-untyped-def]
    rows, framed, kind, null_branch, branch, end, following, loop_of, width,
    base, bytes_base, valid, values, wide, offsets, text, out, row_ends,
):  # fmt: skip
    """Write all rows to `out`, each behind its length if `framed`; `row_ends` notes where each one ends.

    `out` is long enough for the longest form of every value. Returns DONE, or the number of a row with a null
    in a field that is not nullable.
    """
    nodes = len(kind)
    open_loops = np.zeros(nodes + 1, np.int64)
    # The slot of each LOOP's current item; the last entry is the row itself.
    slot_in = np.zeros(nodes + 1, np.int64)
    stop_in = np.zeros(nodes + 1, np.int64)
    position = 0
    for row in range(rows):
        row_start = position
        if framed:
            position += 4
        slot_in[nodes] = row
        depth = 0
        node = 0
        while True:
            while depth > 0 and node == end[open_loops[depth - 1]]:
                loop = open_loops[depth - 1]
                slot_in[loop] += 1
                if slot_in[loop] < stop_in[loop]:
                    node = loop + 1
                    break
                out[position] = 0
                position += 1
                depth -= 1
                node = following[loop]
            if node == nodes:
                break
            inner = slot_in[loop_of[node]] if loop_of[node] >= 0 else slot_in[nodes]
            slot = base[node] + inner
            what = kind[node]
            if what == UNION:
                child = node + 1
                while child < end[node] and not (valid[slot] and valid[base[child] + inner]):
                    child = end[child]
                if child < end[node]:
                    position = _write_varint(out, position, branch[child])
                    node = child
                    continue
                if null_branch[node] < 0:
                    return row
                position = _write_varint(out, position, null_branch[node])
                node = following[node]
                continue
            if not valid[slot]:
                if null_branch[node] < 0:
                    return row
                position = _write_varint(out, position, null_branch[node])
                node = following[node]
                continue
            if null_branch[node] >= 0:
                position = _write_varint(out, position, branch[node])
            if what in (BYTES, FIXED):
                start = bytes_base[node] + offsets[slot + node]
                length = offsets[slot + node + 1] - offsets[slot + node]
                if what == BYTES:
                    position = _write_varint(out, position, length)
                elif length != width[node]:
                    return row
                for byte in range(length):
                    out[position + byte] = text[start + byte]
                position += length
            else:
                position = _write_number(out, position, what, values[slot], wide[slot], width[node])
            if what == LOOP:
                first, last = offsets[slot + node], offsets[slot + node + 1]
                if first == last:
                    out[position] = 0
                    position += 1
                    node = following[node]
                else:
                    position = _write_varint(out, position, last - first)
                    slot_in[node] = first
                    stop_in[node] = last
                    open_loops[depth] = node
                    depth += 1
                    node += 1
            elif what == RECORD and end[node] > node + 1:
                node += 1
            else:
                node = following[node]
        if framed:
            length = position - row_start - 4
            for byte in range(4):
                out[row_start + byte] = np.uint8((length >> (24 - 8 * byte)) & 0xFF)
        row_ends[row] = position
    return DONE
