"""The loop that writes texts in Thrift's encoding, each with its length in front."""

from __future__ import annotations

from hudisql.format.encoding.byte_kernels import copy_bytes
from hudisql.format.encoding.numba_compiled import compiled


@compiled
def write_texts(offsets, data, out, out_address):  # type: ignore[no-untyped-def]
    """Write each text of an Arrow column into `out`, with its length in four bytes, big-endian, in front.

    `offsets` are those of the column, one more than texts; they count from the address `data`. `out_address`
    is the address of `out` (bytes), which must be large enough.
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
