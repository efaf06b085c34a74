"""Compiled loops over log records (numba): the latest record of each key.

Importing this module loads numba: only `merged_log_scanner` does, when a slice has log files.
"""

from __future__ import annotations

import numpy as np

from hudisql.format.encoding.numba_compiled import compiled

DATA, DELETE, ORDERED_DELETE = 0, 1, 2
"""Kinds of events: a row, a delete that always holds, a delete with an ordering value."""


@compiled
def latest_events(keys, kinds, ranks, key_count, orders_deletes):  # type: ignore[no-untyped-def]
    """For each key the number of its final event; every key has one.

    Follows `HoodieMergedLogRecordScanner`: a row is replaced by a row whose rank is not lower; a delete
    replaces a row unless the delete has a lower rank; every row replaces a delete, unless `orders_deletes`
    and the delete's rank is higher.
    """
    latest = np.full(key_count, -1, np.int64)
    for event in range(len(keys)):
        key = keys[event]
        before = latest[key]
        if before >= 0 and kinds[event] != DELETE and ranks[before] > ranks[event]:
            compares = kinds[before] == DATA or (orders_deletes and kinds[before] == ORDERED_DELETE)
            if compares:
                continue
        latest[key] = event
    return latest


@compiled
def latest_columns(  # type: ignore[no-untyped-def]
    keys, kinds, ranks, deletes, lacks, key_count, orders_deletes
):
    """As `latest_events`, and for each key and column the number of the event with its value, or -1.

    The winner of two rows keeps its columns, except those that it `lacks`, which come from the other row.
    `deletes` marks deletes, also those written as rows: no value from before a delete remains.
    """
    latest = np.full(key_count, -1, np.int64)
    sources = np.full((key_count, lacks.shape[1]), -1, np.int64)
    for event in range(len(keys)):
        key = keys[event]
        before = latest[key]
        holds = True
        if before >= 0 and kinds[event] != DELETE and ranks[before] > ranks[event]:
            holds = not (kinds[before] == DATA or (orders_deletes and kinds[before] == ORDERED_DELETE))
        goes_on = before >= 0 and not deletes[before] and not deletes[event]
        if holds:
            latest[key] = event
            if not goes_on:
                sources[key, :] = -1
        elif not goes_on:
            continue
        if deletes[event]:
            continue
        for column in range(lacks.shape[1]):
            if not lacks[event, column] and (holds or sources[key, column] < 0):
                sources[key, column] = event
    return latest, sources
