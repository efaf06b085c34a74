"""A hash table of record keys for look-ups from many batches; Arrow would hash the keys for each batch.

Knows text columns only, neither logs nor base files.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_NOT_FOUND = -1


class KeyTable:
    """Looks up the values of a column among `keys` (distinct, not null)."""

    def __init__(self, keys: pa.StringArray) -> None:
        from hudisql.read.merge import log_kernels

        self._offsets, self._data = _text_of(keys)
        self._hashes = np.empty(len(keys), np.uint64)
        self._table = np.full(1 << max(4, (2 * len(keys)).bit_length()), _NOT_FOUND, np.int32)
        log_kernels.fill_table(self._offsets, self._data, self._hashes, self._table)

    def find(self, column: pa.StringArray) -> npt.NDArray[np.int64]:
        """For each row the number of its key, -1 if there is none."""
        from hudisql.read.merge import log_kernels

        found = np.empty(len(column), np.int64)
        log_kernels.look_up(self._offsets, self._data, self._hashes, self._table, *_text_of(column), found)
        if column.null_count:
            found[pc.is_null(column).to_numpy(zero_copy_only=False)] = _NOT_FOUND
        return found


def _text_of(column: pa.StringArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Offsets and bytes of a text column, from the column's first value on."""
    buffers: Any = column.buffers()
    if buffers[1] is None or not len(column):
        return np.zeros(len(column) + 1, np.int32), np.zeros(0, np.uint8)
    last = column.offset + len(column) + 1
    offsets = np.frombuffer(buffers[1], np.int32, last)[column.offset :]
    return offsets, np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None else np.zeros(0, np.uint8)
