"""The hash by which the index knows record keys: xxHash64, the same in all versions and processes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.errors import InvalidArgumentError
from hudisql.format.keys.bloom_filter import string_buffers

Hashes = npt.NDArray[np.uint64]


def key_hashes(keys: pa.Array) -> Hashes:
    """The XXH64 (seed 0) of each key's UTF-8 bytes. Raises InvalidArgumentError for null keys."""
    from hudisql.ingest.index import key_hash_kernels

    if keys.null_count:
        raise InvalidArgumentError(
            f"{keys.null_count} of {len(keys)} record keys are null", hint="rows without a key are refused"
        )
    offsets, data = string_buffers(keys)
    hashes = np.empty(len(keys), np.uint64)
    key_hash_kernels.hash_texts(offsets, data, hashes)
    return hashes
