"""Hashes of record keys, the same in all processes.

Whole columns are hashed by compiled code over Arrow's buffers, which is loaded when it is first needed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.errors import InvalidArgumentError
from hudisql.format.keys.bloom_filter import string_buffers

Hashes = npt.NDArray[np.uint64]


def murmur_hash64(keys: pa.Array, seed: int = 0) -> Hashes:
    """The MurmurHash64A of each key; a null is hashed as an empty key. The fastest, for hashes in memory."""
    from hudisql.format.keys.key_hash_kernels import murmur_hashes

    offsets, data = string_buffers(keys)
    hashes = np.empty(len(keys), np.uint64)
    murmur_hashes(offsets, data, np.uint64(seed), hashes)
    return hashes


def xxhash64(keys: pa.Array, seed: int = 0) -> Hashes:
    """The XXH64 of each key; the ingest index stores those of seed 0, which must not change.

    Raises InvalidArgumentError for null keys.
    """
    from hudisql.format.keys.key_hash_kernels import xxhashes

    if keys.null_count:
        raise InvalidArgumentError(
            f"{keys.null_count} of {len(keys)} record keys are null", hint="rows without a key are refused"
        )
    offsets, data = string_buffers(keys)
    hashes = np.empty(len(keys), np.uint64)
    xxhashes(offsets, data, np.uint64(seed), hashes)
    return hashes


def java_hashes(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """Java's `String.hashCode` of each key."""
    from hudisql.format.keys.bucket_kernels import text_hashes

    hashes = np.empty(len(keys), np.uint32)
    text_hashes(*string_buffers(keys), hashes)
    return hashes


def repeated_hashes(sorted_hashes: Hashes) -> Hashes:
    """Those of the sorted hashes that occur more than once, each once."""
    return np.unique(sorted_hashes[1:][sorted_hashes[1:] == sorted_hashes[:-1]])
