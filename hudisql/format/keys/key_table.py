"""A hash table of record keys for look-ups from many batches; Arrow would hash the keys for each batch.

Knows text columns only, neither logs nor base files.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.keys.bloom_filter import string_buffers
from hudisql.format.keys.key_hashes import murmur_hash64

_NOT_FOUND = -1


class KeyTable:
    """Looks up the values of a column among `keys` (not null); of equal keys the first one is found."""

    def __init__(self, keys: pa.StringArray) -> None:
        from hudisql.format.keys import key_table_kernels

        self._offsets, self._data = string_buffers(keys)
        self._hashes = murmur_hash64(keys)
        self._table = np.full(1 << max(4, (2 * len(keys)).bit_length()), _NOT_FOUND, np.int32)
        key_table_kernels.fill_table(self._hashes, self._table)

    def find(self, column: pa.StringArray) -> npt.NDArray[np.int64]:
        """For each row the number of its key, -1 if there is none."""
        from hudisql.format.keys import key_table_kernels

        found = np.empty(len(column), np.int64)
        wanted = *string_buffers(column), murmur_hash64(column)
        key_table_kernels.look_up(self._offsets, self._data, self._hashes, self._table, *wanted, found)
        if column.null_count:
            found[pc.is_null(column).to_numpy(zero_copy_only=False)] = _NOT_FOUND
        return found
