"""The loop that writes texts as Thrift has them, each behind its length."""

from __future__ import annotations

from hudisql.format.encoding.byte_kernels import copy_bytes
from hudisql.format.encoding.numba_compiled import compiled


@compiled
def write_texts(offsets, data, out, out_address):  # type: ignore[no-untyped-def]
    """Write each text of an Arrow column behind its length in four bytes, big-endian, into `out`.

    `offsets` are those of the column, one more than texts; `data` is the address that they count from and
    `out_address` that of `out` (bytes), which has room for all.
    """
    position = 0
    for row in range(len(offsets) - 1):
        start = offsets[row]
        length = offsets[row + 1] - start
        out[position] = length >> 24
        out[position + 1] = (length >> 16) & 255
        out[position + 2] = (length >> 8) & 255
        out[position + 3] = length & 255
        copy_bytes(out_address + position + 4, data + start, length)
        position += 4 + length
