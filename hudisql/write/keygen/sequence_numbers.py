"""Commit sequence numbers as text: `<instant>_<task>_<row>` for each row of a batch.

Follows Hudi's `HoodieRecord.generateSequenceId`. Compiled code writes Arrow's buffers; without numba Arrow's
own functions give the same. The kernel is a separate module, since importing it loads numba. New keys and
meta columns both use the numbers. Knows no files.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def sequence_numbers(instant_time: str, task: int, first_row: int, rows: int) -> pa.StringArray:
    """The sequence numbers of `rows` rows from `first_row` (from 0) on, in order."""
    prefix = f"{instant_time}_{task}_"
    kernel = _kernel()
    if kernel is None:
        numbers = pc.cast(pa.array(np.arange(first_row, first_row + rows)), pa.string())
        return pc.binary_join_element_wise(prefix, numbers, "")
    offsets = np.empty(rows + 1, dtype=np.int32)
    text = np.empty(rows * (len(prefix) + len(str(first_row + rows))), dtype=np.uint8)
    kernel(np.frombuffer(prefix.encode(), dtype=np.uint8), first_row, offsets, text)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(text))


@cache
def _kernel() -> Any:
    try:
        from hudisql.write.keygen.sequence_kernels import write_numbered
    except (ImportError, OSError):
        return None
    return write_numbered
