"""The compiled loop that numbers rows in text (numba); `sequence_numbers` imports it on first use."""

from __future__ import annotations

import numpy as np

from hudisql.format.encoding.numba_compiled import compiled


@compiled
def write_numbered(prefix, first_number, offsets, text):  # type: ignore[no-untyped-def]
    """Fill `text` (bytes) and `offsets` with the prefix and a number that grows by one a row."""
    length = len(prefix)
    at = 0
    offsets[0] = 0
    digits = 1
    limit = np.int64(10)
    number = np.int64(first_number)
    while number >= limit:
        digits += 1
        limit *= 10
    for row in range(len(offsets) - 1):
        if number >= limit:
            digits += 1
            limit *= 10
        for position in range(length):
            text[at + position] = prefix[position]
        at += length + digits
        rest = number
        for back in range(1, digits + 1):
            text[at - back] = np.uint8(48 + rest % 10)
            rest //= 10
        offsets[row + 1] = at
        number += 1
