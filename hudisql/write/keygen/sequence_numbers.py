"""Commit sequence numbers as text: `<instant>_<task>_<row>` for each row of a batch.

Follows Hudi's `HoodieRecord.generateSequenceId`. Compiled code writes Arrow's buffers at once; it stands in a
module of its own, since importing it loads numba. New keys and meta columns both use the numbers. Knows no
files.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def sequence_numbers(instant_time: str, task: int, first_row: int, rows: int) -> pa.StringArray:
    """The sequence numbers of `rows` rows from `first_row` (from 0) on, in order."""
    from hudisql.write.keygen.sequence_kernels import write_numbered

    prefix = f"{instant_time}_{task}_"
    offsets = np.empty(rows + 1, dtype=np.int32)
    text = np.empty(rows * (len(prefix) + len(str(first_row + rows))), dtype=np.uint8)
    write_numbered(np.frombuffer(prefix.encode(), dtype=np.uint8), first_row, offsets, text)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(text))
