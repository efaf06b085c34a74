"""The compiled decoder of Avro rows (numba): from bytes into column buffers.

A walk follows the program of `avro_program` by position, with a stack of open arrays and maps. All columns
share a few long arrays ("arenas"), in which each node has its own range. Importing this module loads numba:
only `avro_rows` does, when it first decodes.
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
from hudisql.format.encoding.byte_kernels import byte_at, copy_bytes
from hudisql.format.encoding.numba_compiled import compiled


@compiled
def row_spans(data, start, count, starts, ends):  # type: ignore[no-untyped-def]
    """Find `count` rows, each behind its length (int32, big endian). Returns where they end, or -1."""
    position = start
    for row in range(count):
        if position + 4 > len(data):
            return -1
        length = (
            (np.int64(data[position]) << 24)
            | (np.int64(data[position + 1]) << 16)
            | (np.int64(data[position + 2]) << 8)
            | np.int64(data[position + 3])
        )
        position += 4
        if position + length > len(data):
            return -1
        starts[row] = position
        position += length
        ends[row] = position
    return position


@compiled
def _read_varint(data, position, limit):  # type: ignore[no-untyped-def]
    # Zigzag; a position beyond the limit means that the bytes have run out.
    value = np.uint64(0)
    shift = np.uint64(0)
    while position < limit and shift < np.uint64(70):
        byte = byte_at(data + position)
        position += 1
        value |= np.uint64(byte & np.uint8(0x7F)) << shift
        if byte < 0x80:
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), position
        shift += np.uint64(7)
    return np.int64(0), limit + 1


@compiled
def _append_null(node, kind, end, stored, fill, base, valid, values, wide, offsets, counts, used):  # type: ignore[no-untyped-def]
    at = node
    while at < end[node]:
        if stored[at]:
            if fill:
                slot = base[at] + counts[at]
                valid[slot] = 0
                values[slot] = 0
                wide[slot] = 0
                if kind[at] == LOOP:
                    offsets[slot + at + 1] = counts[at + 1]
                else:
                    offsets[slot + at + 1] = used[at]
            counts[at] += 1
        at = end[at] if kind[at] == LOOP else at + 1


@compiled
def _read_block_count(data, position, limit):  # type: ignore[no-untyped-def]
    count, position = _read_varint(data, position, limit)
    if count < 0:
        _, position = _read_varint(data, position, limit)
        count = -count
    return count, position


@compiled
def _read_leaf(data, position, limit, what, width):  # type: ignore[no-untyped-def]
    # The value as one or two words, or (text, from the returned position on) its length, which else is -1.
    value = np.int64(0)
    high = np.int64(0)
    length = np.int64(-1)
    if what == VARINT:
        value, position = _read_varint(data, position, limit)
    elif what in (BYTES, BYTES_DECIMAL):
        length, position = _read_varint(data, position, limit)
        if length < 0:
            return value, high, length, limit + 1
    elif what in (FIXED, FIXED_DECIMAL):
        length = width
    elif what in (DOUBLE, FLOAT, BOOLEAN):
        size = 8 if what == DOUBLE else (4 if what == FLOAT else 1)
        if position + size > limit:
            return value, high, length, limit + 1
        bits = np.uint64(0)
        for byte in range(size):
            bits |= np.uint64(byte_at(data + position + byte)) << np.uint64(8 * byte)
        value = np.int64(bits)
        position += size
    if length >= 0 and length > limit - position:
        return value, high, length, limit + 1
    if what in (FIXED_DECIMAL, BYTES_DECIMAL):
        low = np.uint64(0)
        top = np.uint64(0)
        if length > 0 and byte_at(data + position) >= 128:
            low = ~low
            top = ~top
        for byte in range(length):
            top = (top << np.uint64(8)) | (low >> np.uint64(56))
            low = (low << np.uint64(8)) | np.uint64(byte_at(data + position + byte))
        return np.int64(low), np.int64(top), np.int64(-1), position + length
    return value, high, length, position


@compiled
def decode(  # type: ignore[no-untyped-def]
    data, starts, ends, kind, null_branch, branch, end, following, width,
    stored, fill, base, bytes_base, valid, values, wide, offsets, text, counts, used,
):  # fmt: skip
    """Walk all rows; count slots and bytes of each node, and with `fill` write them into the arenas.

    A node's slot i is at `base + i` of `valid`, `values` and `wide`, its end offset at `base + node + i + 1`
    of `offsets`; its bytes begin at `bytes_base` of `text`. `data` and `text` are addresses.
    """
    nodes = len(kind)
    open_loops = np.zeros(nodes + 1, np.int64)
    remaining = np.zeros(nodes + 1, np.int64)
    for row in range(len(starts)):
        position, limit = starts[row], ends[row]
        depth = 0
        node = 0
        while True:
            # Close arrays and maps whose items end here, or begin their next item.
            while depth > 0 and node == end[open_loops[depth - 1]]:
                loop = open_loops[depth - 1]
                remaining[depth - 1] -= 1
                if remaining[depth - 1] == 0:
                    remaining[depth - 1], position = _read_block_count(data, position, limit)
                    if position > limit or remaining[depth - 1] > limit - position:
                        return row
                if remaining[depth - 1] > 0:
                    node = loop + 1
                    break
                if stored[loop] and fill:
                    offsets[base[loop] + loop + counts[loop]] = counts[loop + 1]
                depth -= 1
                node = following[loop]
            if node == nodes:
                break
            if null_branch[node] >= 0 and kind[node] != UNION:
                chosen, position = _read_varint(data, position, limit)
                if position > limit:
                    return row
                if chosen == null_branch[node]:
                    _append_null(
                        node, kind, end, stored, fill, base, valid, values, wide, offsets, counts, used
                    )
                    node = following[node]
                    continue
            if position > limit:
                return row
            keep = stored[node]
            slot = base[node] + counts[node]
            what = kind[node]
            value, high, length, position = _read_leaf(data, position, limit, what, width[node])
            if position > limit:
                return row
            if length >= 0:
                if keep:
                    if fill:
                        target = bytes_base[node] + used[node]
                        copy_bytes(text + target, data + position, length)
                    used[node] += length
                position += length
            if keep:
                if fill:
                    valid[slot] = 1
                    values[slot] = value
                    wide[slot] = high
                    offsets[slot + node + 1] = used[node]
                counts[node] += 1
            if what == LOOP:
                count, position = _read_block_count(data, position, limit)
                # An item takes at least one byte: a larger count would make the walk nearly endless.
                if position > limit or count > limit - position:
                    return row
                if count == 0:
                    if keep and fill:
                        offsets[slot + node + 1] = counts[node + 1]
                    node = following[node]
                    continue
                open_loops[depth] = node
                remaining[depth] = count
                depth += 1
                node += 1
            elif what == UNION:
                chosen, position = _read_varint(data, position, limit)
                if position > limit:
                    return row
                child = node + 1
                target_node = following[node]
                while child < end[node]:
                    if branch[child] == chosen:
                        target_node = child
                    else:
                        _append_null(
                            child, kind, end, stored, fill, base, valid, values, wide, offsets, counts, used
                        )
                    child = end[child]
                if target_node == following[node]:
                    if chosen != null_branch[node]:
                        return row
                    if keep and fill:
                        valid[slot] = 0
                node = target_node
            elif what == RECORD and end[node] > node + 1:
                node += 1
            else:
                node = following[node]
        if position != limit:
            return row
    return DONE
