"""The compiled loops of a hash table of keys in Arrow's string buffers (numba).

Importing this module loads numba: only `key_table` does, when keys are first looked up.
"""

from __future__ import annotations

import numpy as np

from hudisql.format.encoding.numba_compiled import compiled


@compiled
def fill_table(hashes, table):  # type: ignore[no-untyped-def]
    """Enter each key's number into the table (open addressing; its length is a power of two; -1 is free)."""
    mask = np.uint64(len(table) - 1)
    for key in range(len(hashes)):
        slot = hashes[key] & mask
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = key


@compiled
def look_up(  # type: ignore[no-untyped-def]
    offsets, data, hashes, table, wanted_offsets, wanted_data, wanted_hashes, found
):
    """For each wanted key its number in the table, or -1."""
    mask = np.uint64(len(table) - 1)
    for row in range(len(wanted_hashes)):
        start, length = wanted_offsets[row], wanted_offsets[row + 1] - wanted_offsets[row]
        hashed = wanted_hashes[row]
        slot = hashed & mask
        found[row] = -1
        while table[slot] >= 0:
            key = table[slot]
            first = offsets[key]
            if hashes[key] == hashed and offsets[key + 1] - first == length:
                same = True
                for at in range(length):
                    if data[first + at] != wanted_data[start + at]:
                        same = False
                        break
                if same:
                    found[row] = key
                    break
            slot = (slot + np.uint64(1)) & mask
