"""Compiled loops of the hash of Hudi's consistent hashing index over Arrow's string buffers (numba).

Importing this module loads numba: only `hash_ring` does, when keys are hashed.
"""

from __future__ import annotations

import numpy as np

from hudisql.format.encoding.numba_compiled import compiled
from hudisql.format.keys.bucket_kernels import is_one_of, parts_of, parts_of_1x

_P1, _P2, _P3 = np.uint32(2654435761), np.uint32(2246822519), np.uint32(3266489917)
_P4, _P5 = np.uint32(668265263), np.uint32(374761393)


@compiled
def _rotated(number, bits):  # type: ignore[no-untyped-def]
    return np.uint32(np.uint32(number << np.uint32(bits)) | np.uint32(number >> np.uint32(32 - bits)))


@compiled
def _word(data, at):  # type: ignore[no-untyped-def]
    return np.uint32(
        np.uint32(data[at])
        | (np.uint32(data[at + 1]) << np.uint32(8))
        | (np.uint32(data[at + 2]) << np.uint32(16))
        | (np.uint32(data[at + 3]) << np.uint32(24))
    )


@compiled
def _round(lane, word):  # type: ignore[no-untyped-def]
    return np.uint32(_rotated(np.uint32(lane + np.uint32(word * _P2)), 13) * _P1)


@compiled
def xxhash32(data, start, stop):  # type: ignore[no-untyped-def]
    """XXH32 of the bytes, with the seed 0."""
    at = start
    if stop - start >= 16:
        first, second = np.uint32(_P1 + _P2), _P2
        third, fourth = np.uint32(0), np.uint32(np.uint32(0) - _P1)
        while at + 16 <= stop:
            first = _round(first, _word(data, at))
            second = _round(second, _word(data, at + 4))
            third = _round(third, _word(data, at + 8))
            fourth = _round(fourth, _word(data, at + 12))
            at += 16
        hashed = np.uint32(
            np.uint32(_rotated(first, 1) + _rotated(second, 7))
            + np.uint32(_rotated(third, 12) + _rotated(fourth, 18))
        )
    else:
        hashed = _P5
    hashed = np.uint32(hashed + np.uint32(stop - start))
    while at + 4 <= stop:
        hashed = np.uint32(_rotated(np.uint32(hashed + np.uint32(_word(data, at) * _P3)), 17) * _P4)
        at += 4
    while at < stop:
        hashed = np.uint32(_rotated(np.uint32(hashed + np.uint32(np.uint32(data[at]) * _P5)), 11) * _P1)
        at += 1
    hashed = np.uint32(np.uint32(hashed ^ np.uint32(hashed >> np.uint32(15))) * _P2)
    hashed = np.uint32(np.uint32(hashed ^ np.uint32(hashed >> np.uint32(13))) * _P3)
    return np.uint32(hashed ^ np.uint32(hashed >> np.uint32(16)))


@compiled
def _copy(data, start, stop, joined, to):  # type: ignore[no-untyped-def]
    for at in range(start, stop):
        joined[to + at - start] = data[at]
    return to + stop - start


@compiled
def joined_hashes(  # type: ignore[no-untyped-def]
    offsets, data, fields, names, none, nones, is_1x, places, is_whole, joined, hashes
):
    """For each key the hash of the parts that Hudi hashes, joined without a separator.

    As `bucket_kernels.list_hashes`, but the placeholder of null is hashed as `null`, that of the empty text
    as nothing. `joined` has room for the longest key.
    """
    for key in range(len(offsets) - 1):
        found = (data, offsets[key], offsets[key + 1], fields, names, places[0], places[1], is_whole)
        count = parts_of_1x(*found) if is_1x else parts_of(*found)
        length = 0
        for number in range(count):
            first, end = places[0][number], places[1][number]
            if is_whole[number] or not is_one_of(data, first, end, none, nones):
                length = _copy(data, first, end, joined, length)
            elif is_one_of(data, first, end, none[:2], nones):
                length = _copy(nones, none[0] + 2, none[0] + 6, joined, length)
        hashes[key] = xxhash32(joined, 0, length)
