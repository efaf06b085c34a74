"""The compiled loop that lets log records of one key follow each other (numba).

Importing this module loads numba: only `log_records` does, when a slice has log files.
"""

from __future__ import annotations

import numpy as np

from hudisql.format.bloom_kernels import compiled

DATA, DELETE, ORDERED_DELETE = 0, 1, 2
"""Kinds of events: a row, a delete that always holds, a delete with an ordering value."""
DELETED = -1


@compiled
def latest_events(keys, kinds, ranks, key_count):  # type: ignore[no-untyped-def]
    """For each key the number of the event that holds in the end, or DELETED.

    Follows `HoodieMergedLogRecordScanner`: a row gives way to one whose rank is not lower; a delete holds
    over a row unless it has a lower rank; after a delete every row holds.
    """
    latest = np.full(key_count, DELETED, np.int64)
    for event in range(len(keys)):
        key = keys[event]
        before = latest[key]
        if before != DELETED and kinds[event] != DELETE and ranks[before] > ranks[event]:
            continue
        latest[key] = event if kinds[event] == DATA else DELETED
    return latest
