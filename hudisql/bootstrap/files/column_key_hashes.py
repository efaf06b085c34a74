"""64-bit hashes of record keys, and those that occur more than once.

The hash is Austin Appleby's public MurmurHash64A: by compiled code over Arrow's buffers, or by numpy where
numba cannot be loaded, with the same result, because executors must agree. Equal hashes are only candidates;
the keys themselves are then compared. Knows no files and no Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.format.keys.bloom_filter import string_buffers

Hashes = npt.NDArray[np.uint64]

_MULTIPLIER = np.uint64(0xC6A4A7935BD1E995)
_SHIFT = np.uint64(47)


def hash_keys(keys: pa.StringArray, seed: int = 0) -> Hashes:
    """The hash of each key; a null is hashed as an empty key."""
    offsets, data = string_buffers(keys)
    hashes = np.empty(len(keys), dtype=np.uint64)
    if len(keys):
        _kernel()(offsets, data, np.uint64(seed), hashes)
    return hashes


def at_most_two_of_each(sorted_hashes: Hashes) -> Hashes:
    """The sorted hashes without third and further copies, which do not matter for repetition."""
    if len(sorted_hashes) < 3:
        return sorted_hashes
    keep = np.ones(len(sorted_hashes), dtype=np.bool_)
    np.not_equal(sorted_hashes[2:], sorted_hashes[:-2], out=keep[2:])
    return sorted_hashes if keep.all() else sorted_hashes[keep]


def repeated_hashes(sorted_hashes: Hashes) -> Hashes:
    """The distinct hashes that occur more than once among the sorted hashes."""
    return np.unique(sorted_hashes[1:][sorted_hashes[1:] == sorted_hashes[:-1]])


@cache
def _kernel() -> Callable[..., Any]:
    try:
        from hudisql.bootstrap.files.key_kernels import hash_strings
    except ImportError:
        return hash_strings_by_numpy
    return hash_strings


def hash_strings_by_numpy(
    offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8], seed: np.uint64, hashes: Hashes
) -> None:
    """The numpy counterpart of the compiled kernel."""
    lengths = np.diff(offsets)
    starts = offsets[:-1]
    hashes[:] = seed ^ (lengths.astype(np.uint64) * _MULTIPLIER)
    for number in range(int(lengths.max()) >> 3):
        rows = np.flatnonzero(lengths >> 3 > number)
        word = _little_endian(data, starts[rows] + 8 * number, np.full(len(rows), 8)) * _MULTIPLIER
        word ^= word >> _SHIFT
        hashes[rows] = (hashes[rows] ^ (word * _MULTIPLIER)) * _MULTIPLIER
    rows = np.flatnonzero(lengths & 7)
    tail = _little_endian(data, (starts + (lengths & ~7))[rows], (lengths & 7)[rows])
    hashes[rows] = (hashes[rows] ^ tail) * _MULTIPLIER
    hashes[:] = (hashes ^ (hashes >> _SHIFT)) * _MULTIPLIER
    hashes ^= hashes >> _SHIFT


def _little_endian(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Hashes:
    words = np.zeros(len(starts), dtype=np.uint64)
    for number in range(8):
        has_byte = lengths > number
        words[has_byte] |= data[starts[has_byte] + number].astype(np.uint64) << np.uint64(8 * number)
    return words
