"""Compiled loops over the cells of HFile blocks (numba): finding, copying and writing them, and checksums.

Importing this module loads numba: only `hfile_cells` does, when cells are first read or written as columns.
"""

from __future__ import annotations

import numpy as np

from hudisql.format.encoding.byte_kernels import copy_bytes
from hudisql.format.encoding.numba_compiled import compiled


@compiled
def _int_at(data, at):  # type: ignore[no-untyped-def]
    number = np.int64(0)
    for byte in range(4):
        number = number << 8 | np.int64(data[at + byte])
    return number - (np.int64(1) << 32) if number >= np.int64(1) << 31 else number


@compiled
def _varint_bytes(data, at):  # type: ignore[no-untyped-def]
    # Hadoop's variable-length number: a small one is one byte, otherwise the first byte tells the length.
    first = np.int64(data[at])
    if first < 128 or first >= 144:
        return 1
    return 137 - first if first < 136 else 145 - first


@compiled
def _varint(data, at):  # type: ignore[no-untyped-def]
    length = _varint_bytes(data, at)
    first = np.int64(data[at])
    if length == 1:
        return first if first < 128 else first - 256
    number = np.int64(0)
    for byte in range(1, length):
        number = number << 8 | np.int64(data[at + byte])
    return ~number if first < 136 else number


@compiled
def count_cells(data, stop):  # type: ignore[no-untyped-def]
    """Cells, bytes of keys and bytes of values of a block; -1 cells if one goes beyond the end."""
    at, cells = 0, 0
    key_bytes = value_bytes = np.int64(0)
    while at < stop:
        if at + 10 > stop:
            return -1, 0, 0
        of_key, of_value = _int_at(data, at), _int_at(data, at + 4)
        row = np.int64(data[at + 8]) << 8 | np.int64(data[at + 9])
        if of_value < 0 or row + 2 > of_key or at + 8 + of_key + of_value >= stop:
            return -1, 0, 0
        at += 8 + of_key + of_value
        at += _varint_bytes(data, at)
        cells += 1
        key_bytes += row
        value_bytes += of_value
    return cells, key_bytes, value_bytes


@compiled
def copy_cells(  # type: ignore[no-untyped-def]
    data, stop, first, key_offsets, keys, value_offsets, values
):
    """Append a block's keys and values behind the first `first` ones."""
    at, cell = 0, first
    while at < stop:
        of_key, of_value = _int_at(data, at), _int_at(data, at + 4)
        row = np.int64(data[at + 8]) << 8 | np.int64(data[at + 9])
        start = key_offsets[cell]
        copy_bytes(keys.ctypes.data + start, data.ctypes.data + at + 10, row)
        key_offsets[cell + 1] = start + row
        at += 8 + of_key
        start = value_offsets[cell]
        copy_bytes(values.ctypes.data + start, data.ctypes.data + at, of_value)
        value_offsets[cell + 1] = start + of_value
        at += of_value
        at += _varint_bytes(data, at)
        cell += 1


@compiled
def _compare(left, left_start, left_stop, right, right_start, right_stop):  # type: ignore[no-untyped-def]
    length = min(left_stop - left_start, right_stop - right_start)
    for at in range(length):
        difference = np.int64(left[left_start + at]) - np.int64(right[right_start + at])
        if difference:
            return difference
    return (left_stop - left_start) - (right_stop - right_start)


@compiled
def numbers_of_blocks(  # type: ignore[no-untyped-def]
    first_offsets, firsts, offsets, data, numbers
):
    """For each key the number of the last block whose first key is not above it; -1 if there is none."""
    for key in range(len(offsets) - 1):
        low, high = 0, len(first_offsets) - 1
        while low < high:
            middle = (low + high) >> 1
            above = _compare(
                firsts,
                first_offsets[middle],
                first_offsets[middle + 1],
                data,
                offsets[key],
                offsets[key + 1],
            )
            if above > 0:
                high = middle
            else:
                low = middle + 1
        numbers[key] = low - 1


@compiled
def read_root_index(data, key_offsets, keys, offsets, stops):  # type: ignore[no-untyped-def]
    """The entries of a root index: the first key of each block and its place; false if it is cut off."""
    at, key = 0, np.int64(0)
    for block in range(len(offsets)):
        if at + 13 > len(data) or at + 12 + _varint_bytes(data, at + 12) + 2 > len(data):
            return False
        start = np.int64(_int_at(data, at)) << 32 | np.int64(_int_at(data, at + 4)) & 0xFFFFFFFF
        offsets[block], stops[block] = start, start + _int_at(data, at + 8)
        at += 12
        of_key = _varint(data, at)
        at += _varint_bytes(data, at)
        row = np.int64(data[at]) << 8 | np.int64(data[at + 1])
        if of_key < row + 2 or at + of_key > len(data):
            return False
        copy_bytes(keys.ctypes.data + key, data.ctypes.data + at + 2, row)
        key += row
        key_offsets[block + 1] = key
        at += of_key
    return True


@compiled
def copy_values_of_keys(  # type: ignore[no-untyped-def]
    data, offsets, keys, first, stop, lengths, out
):
    """Copy the values of a block's cells with the keys from `first` to `stop`, which ascend, as the cells do.

    Gives the length of each value found. Returns how many bytes were copied; -1 if a cell goes beyond the
    end.
    """
    at, key, copied = 0, first, 0
    while at < len(data) and key < stop:
        if at + 10 > len(data):
            return -1
        of_key, of_value = _int_at(data, at), _int_at(data, at + 4)
        row = np.int64(data[at + 8]) << 8 | np.int64(data[at + 9])
        if of_value < 0 or row + 2 > of_key or at + 8 + of_key + of_value >= len(data):
            return -1
        compared = np.int64(1)
        while key < stop:
            compared = _compare(data, at + 10, at + 10 + row, keys, offsets[key], offsets[key + 1])
            if compared <= 0:
                break
            key += 1
        at += 8 + of_key
        if key < stop and compared == 0:
            copy_bytes(out.ctypes.data + copied, data.ctypes.data + at, of_value)
            lengths[key] = of_value
            copied += of_value
            key += 1
        at += of_value
        at += _varint_bytes(data, at)
    return copied


@compiled
def words_of(offsets, data, skipped, words):  # type: ignore[no-untyped-def]
    """The eight bytes of each key behind the first `skipped` ones as a number, with zeros behind the key."""
    for key in range(len(words)):
        start, stop = offsets[key] + skipped, offsets[key + 1]
        word = np.uint64(0)
        for byte in range(8):
            word = word << np.uint64(8)
            if start + byte < stop:
                word |= np.uint64(data[start + byte])
        words[key] = word


@compiled
def common_start(offsets, data):  # type: ignore[no-untyped-def]
    """How many bytes all keys begin with alike."""
    first, length = offsets[0], offsets[1] - offsets[0]
    for key in range(1, len(offsets) - 1):
        start = offsets[key]
        length = min(length, offsets[key + 1] - start)
        at = 0
        while at < length and data[start + at] == data[first + at]:
            at += 1
        length = at
    return length


@compiled
def rises_strictly(offsets, data, order):  # type: ignore[no-untyped-def]
    """True if the keys in this order ascend, none twice."""
    for at in range(1, len(order)):
        left, right = order[at - 1], order[at]
        compared = _compare(data, offsets[left], offsets[left + 1], data, offsets[right], offsets[right + 1])
        if compared >= 0:
            return False
    return True


@compiled
def _put_int(out, at, number):  # type: ignore[no-untyped-def]
    for byte in range(4):
        out[at + byte] = np.uint8((number >> (24 - 8 * byte)) & 0xFF)


@compiled
def write_cells(offsets, data, order, numbers, tail_offsets, tails, suffix_bytes, out):  # type: ignore[no-untyped-def]
    """The cells of the keys in this order, with the tails of these numbers; the bytes that they take.

    A tail is what follows the key in the cell: the suffix of keys, the value, and a byte.
    """
    at, keys, ends, cells = 0, data.ctypes.data, tails.ctypes.data, out.ctypes.data
    for row in range(len(order)):
        key = order[row]
        start = offsets[key]
        length = offsets[key + 1] - start
        tail = tail_offsets[numbers[key]]
        tail_bytes = tail_offsets[numbers[key] + 1] - tail
        _put_int(out, at, length + 2 + suffix_bytes)
        _put_int(out, at + 4, tail_bytes - suffix_bytes - 1)
        out[at + 8] = np.uint8(length >> 8)
        out[at + 9] = np.uint8(length & 0xFF)
        at += 10
        copy_bytes(cells + at, keys + start, length)
        at += length
        copy_bytes(cells + at, ends + tail, tail_bytes)
        at += tail_bytes
    return at


@compiled
def checksum_tables():  # type: ignore[no-untyped-def]
    """The tables of CRC-32C by eight bytes at once."""
    tables = np.empty((8, 256), np.uint32)
    for byte in range(256):
        register = np.uint32(byte)
        for _ in range(8):
            register = (register >> np.uint32(1)) ^ (np.uint32(0x82F63B78) * (register & np.uint32(1)))
        tables[0, byte] = register
    for byte in range(256):
        for level in range(1, 8):
            below = tables[level - 1, byte]
            tables[level, byte] = (below >> np.uint32(8)) ^ tables[0, below & np.uint32(0xFF)]
    return tables


@compiled
def checksums(data, per_checksum, tables, found):  # type: ignore[no-untyped-def]
    """The CRC-32C of each piece of so many bytes."""
    for piece in range(len(found)):
        at, stop = piece * per_checksum, min(len(data), (piece + 1) * per_checksum)
        register = np.uint32(0xFFFFFFFF)
        while at + 8 <= stop:
            low = register
            low ^= np.uint32(data[at]) | np.uint32(data[at + 1]) << np.uint32(8)
            low ^= np.uint32(data[at + 2]) << np.uint32(16) | np.uint32(data[at + 3]) << np.uint32(24)
            register = (
                tables[7, low & np.uint32(0xFF)]
                ^ tables[6, (low >> np.uint32(8)) & np.uint32(0xFF)]
                ^ tables[5, (low >> np.uint32(16)) & np.uint32(0xFF)]
                ^ tables[4, low >> np.uint32(24)]
                ^ tables[3, data[at + 4]]
                ^ tables[2, data[at + 5]]
                ^ tables[1, data[at + 6]]
                ^ tables[0, data[at + 7]]
            )
            at += 8
        while at < stop:
            register = (register >> np.uint32(8)) ^ tables[
                0, (register ^ np.uint32(data[at])) & np.uint32(0xFF)
            ]
            at += 1
        found[piece] = register ^ np.uint32(0xFFFFFFFF)
