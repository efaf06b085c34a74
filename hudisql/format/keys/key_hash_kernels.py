"""Compiled hashes of texts in Arrow's string buffers (numba): MurmurHash64A and xxHash64.

Follows Austin Appleby's public MurmurHash64A and the xxHash specification (XXH64). Importing this
module loads numba: only `key_hashes` does, when keys are first hashed.
"""

from __future__ import annotations

import numpy as np

from hudisql.format.encoding.numba_compiled import compiled

_MURMUR = np.uint64(0xC6A4A7935BD1E995)
_MURMUR_SHIFT = np.uint64(47)
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


@compiled
def _word(data, at):  # type: ignore[no-untyped-def]
    # The compiler makes one load of it.
    word = np.uint64(data[at])
    for byte in range(1, 8):
        word |= np.uint64(data[at + byte]) << np.uint64(8 * byte)
    return word


@compiled
def murmur_hashes(offsets, data, seed, hashes):  # type: ignore[no-untyped-def]
    """The MurmurHash64A of each text; there is one offset more than texts."""
    for row in range(len(hashes)):
        start = offsets[row]
        length = offsets[row + 1] - start
        hashed = seed ^ (np.uint64(length) * _MURMUR)
        for number in range(length >> 3):
            word = _word(data, start + (number << 3)) * _MURMUR
            word ^= word >> _MURMUR_SHIFT
            hashed = (hashed ^ (word * _MURMUR)) * _MURMUR
        if length & 7:
            tail = np.uint64(0)
            first = start + (length & ~7)
            for number in range(length & 7):
                tail |= np.uint64(data[first + number]) << np.uint64(8 * number)
            hashed = (hashed ^ tail) * _MURMUR
        hashed = (hashed ^ (hashed >> _MURMUR_SHIFT)) * _MURMUR
        hashes[row] = hashed ^ (hashed >> _MURMUR_SHIFT)


@compiled
def _rotated(value, bits):  # type: ignore[no-untyped-def]
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@compiled
def _round(lane, word):  # type: ignore[no-untyped-def]
    return _rotated(lane + word * _P2, 31) * _P1


@compiled
def _stripes(data, start, stop, seed):  # type: ignore[no-untyped-def]
    # The whole stripes of 32 bytes: four lanes side by side, merged in the end.
    one, two, three, four = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
    at = start
    while at + 32 <= stop:
        one = _round(one, _word(data, at))
        two = _round(two, _word(data, at + 8))
        three = _round(three, _word(data, at + 16))
        four = _round(four, _word(data, at + 24))
        at += 32
    hashed = _rotated(one, 1) + _rotated(two, 7) + _rotated(three, 12) + _rotated(four, 18)
    for lane in (one, two, three, four):
        hashed = (hashed ^ _round(np.uint64(0), lane)) * _P1 + _P4
    return hashed


@compiled
def _tail(data, at, stop, hashed):  # type: ignore[no-untyped-def]
    while at + 8 <= stop:
        hashed = _rotated(hashed ^ _round(np.uint64(0), _word(data, at)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= stop:
        word = np.uint64(data[at])
        for byte in range(1, 4):
            word |= np.uint64(data[at + byte]) << np.uint64(8 * byte)
        hashed = _rotated(hashed ^ (word * _P1), 23) * _P2 + _P3
        at += 4
    while at < stop:
        hashed = _rotated(hashed ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    return hashed


@compiled
def xxhashes(offsets, data, seed, hashes):  # type: ignore[no-untyped-def]
    """The XXH64 of each text; there is one offset more than texts."""
    for row in range(len(hashes)):
        start, stop = np.int64(offsets[row]), np.int64(offsets[row + 1])
        length = stop - start
        hashed = seed + _P5
        at = start
        if length >= 32:
            hashed = _stripes(data, start, stop, seed)
            at = start + (length & ~31)
        hashed = _tail(data, at, stop, hashed + np.uint64(length))
        hashed = (hashed ^ (hashed >> np.uint64(33))) * _P2
        hashed = (hashed ^ (hashed >> np.uint64(29))) * _P3
        hashes[row] = hashed ^ (hashed >> np.uint64(32))
