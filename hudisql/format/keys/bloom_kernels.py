"""Compiled loops of the bloom filter over Arrow's string buffers (numba).

Importing this module loads numba: only `bloom_filter` does, when a filter is first used.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hudisql.format.encoding.numba_compiled import compiled

_LANES = 8
"""The number of keys that are hashed in parallel: the 32-bit words of a common vector register."""


def _largest_word_count(offsets: npt.NDArray[np.int64]) -> int:
    return max(int(np.diff(offsets).max()) >> 2, 1) if len(offsets) > 1 else 1


@compiled
def _mix_words(  # type: ignore[no-untyped-def]
    data, start, length, words
):
    # Mixing a word does not depend on the seed, so it is done once for each key and not for each hash.
    # Returns the tail.
    multiplier = np.uint32(0x5BD1E995)
    for number in range(length >> 2):
        at = start + (number << 2)
        word = np.uint32(
            np.uint32(data[at])
            | (np.uint32(data[at + 1]) << np.uint32(8))
            | (np.uint32(data[at + 2]) << np.uint32(16))
            | (np.uint32(data[at + 3]) << np.uint32(24))
        )
        word = np.uint32(word * multiplier)
        word = np.uint32(word ^ (word >> np.uint32(24)))
        words[number] = np.uint32(word * multiplier)
    tail = np.uint32(0)
    for back in range(length & 3):
        # Java sign-extends each tail byte before it shifts.
        byte = np.uint32(np.int32(np.int8(data[start + length - 1 - back])))
        tail = np.uint32(tail ^ np.uint32(byte << np.uint32(8 * back)))
    return tail


@compiled
def _next_hash(seed, length, words, tail):  # type: ignore[no-untyped-def]
    multiplier = np.uint32(0x5BD1E995)
    hashed = np.uint32(seed ^ np.uint32(length))
    for number in range(length >> 2):
        hashed = np.uint32(np.uint32(hashed * multiplier) ^ words[number])
    if length & 3:
        hashed = np.uint32(np.uint32(hashed ^ tail) * multiplier)
    hashed = np.uint32(hashed ^ (hashed >> np.uint32(13)))
    hashed = np.uint32(hashed * multiplier)
    return np.uint32(hashed ^ (hashed >> np.uint32(15)))


@compiled
def _mix_lanes(  # type: ignore[no-untyped-def]
    offsets, data, first, lanes, words, lengths, tails
):
    # Returns how many words the shortest and the longest key have. Lanes without a key keep the previous one.
    fewest = most = (offsets[first + 1] - offsets[first]) >> 2
    for lane in range(lanes):
        start = offsets[first + lane]
        length = offsets[first + lane + 1] - start
        lengths[lane] = np.uint32(length)
        tails[lane] = _mix_words(data, start, length, words[:, lane])
        fewest = min(fewest, length >> 2)
        most = max(most, length >> 2)
    return fewest, most


@compiled
def _set_bits(offsets, data, row, vector_size, hash_count, words):  # type: ignore[no-untyped-def]
    # A hash is one long chain of multiplications, so several keys are hashed in parallel. A lane whose key
    # has ended keeps its hash.
    multiplier = np.uint32(0x5BD1E995)
    lengths = np.zeros(_LANES, dtype=np.uint32)
    tails = np.zeros(_LANES, dtype=np.uint32)
    hashed = np.zeros(_LANES, dtype=np.uint32)
    keys = len(offsets) - 1
    for first in range(0, keys, _LANES):
        lanes = min(_LANES, keys - first)
        fewest, most = _mix_lanes(offsets, data, first, lanes, words, lengths, tails)
        hashed[:] = np.uint32(0)
        for _ in range(hash_count):
            for lane in range(_LANES):
                hashed[lane] = np.uint32(hashed[lane] ^ lengths[lane])
            for number in range(fewest):
                for lane in range(_LANES):
                    hashed[lane] = np.uint32(np.uint32(hashed[lane] * multiplier) ^ words[number, lane])
            for number in range(fewest, most):
                for lane in range(_LANES):
                    one = np.uint32(np.uint32(hashed[lane] * multiplier) ^ words[number, lane])
                    hashed[lane] = one if number < lengths[lane] >> np.uint32(2) else hashed[lane]
            for lane in range(_LANES):
                one = np.uint32(np.uint32(hashed[lane] ^ tails[lane]) * multiplier)
                one = one if lengths[lane] & np.uint32(3) else hashed[lane]
                one = np.uint32(one ^ (one >> np.uint32(13)))
                one = np.uint32(one * multiplier)
                hashed[lane] = np.uint32(one ^ (one >> np.uint32(15)))
            for lane in range(lanes):
                position = np.uint32(abs(np.int64(np.int32(hashed[lane])))) % np.uint32(vector_size)
                row[position >> np.uint32(3)] |= np.uint8(1 << (position & np.uint32(7)))


@compiled
def _test_bits(offsets, data, row, vector_size, hash_count, words, answer):  # type: ignore[no-untyped-def]
    for key in range(len(offsets) - 1):
        start = offsets[key]
        length = offsets[key + 1] - start
        tail = _mix_words(data, start, length, words)
        hashed = np.uint32(0)
        answer[key] = True
        for _ in range(hash_count):
            hashed = _next_hash(hashed, length, words, tail)
            position = np.uint32(abs(np.int64(np.int32(hashed)))) % np.uint32(vector_size)
            if not (row[position >> np.uint32(3)] >> np.uint8(position & np.uint32(7))) & 1:
                answer[key] = False
                break


def set_bits(
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    row: npt.NDArray[np.uint8],
    vector_size: int,
    hash_count: int,
) -> None:
    """Set the bits of all keys in `row`."""
    words = np.zeros((_largest_word_count(offsets), _LANES), dtype=np.uint32)
    _set_bits(offsets, data, row, vector_size, hash_count, words)


def test_bits(
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    row: npt.NDArray[np.uint8],
    vector_size: int,
    hash_count: int,
) -> npt.NDArray[np.bool_]:
    """For each key whether all its bits are set in `row`."""
    words = np.empty(_largest_word_count(offsets), dtype=np.uint32)
    answer = np.zeros(len(offsets) - 1, dtype=np.bool_)
    _test_bits(offsets, data, row, vector_size, hash_count, words, answer)
    return answer
