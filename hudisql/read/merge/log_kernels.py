"""Compiled loops over log records (numba): the latest record of each key, and the base rows of each key.

Importing this module loads numba: only `log_records` and `key_table` do, when a slice has log files.
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


@compiled
def _word_at(data, at):  # type: ignore[no-untyped-def]
    """Eight bytes as one number; LLVM compiles this to one load."""
    word = np.uint64(data[at])
    word |= np.uint64(data[at + 1]) << np.uint64(8)
    word |= np.uint64(data[at + 2]) << np.uint64(16)
    word |= np.uint64(data[at + 3]) << np.uint64(24)
    word |= np.uint64(data[at + 4]) << np.uint64(32)
    word |= np.uint64(data[at + 5]) << np.uint64(40)
    word |= np.uint64(data[at + 6]) << np.uint64(48)
    return word | np.uint64(data[at + 7]) << np.uint64(56)


@compiled
def _hash_of(data, start, stop):  # type: ignore[no-untyped-def]
    # FNV-1a over words of eight bytes, then MurmurHash3's 64-bit finalizer. The table uses the low bits of
    # the hash; without the finalizer they depend only on the text's low bits, which are often equal in
    # numbered keys.
    hashed = np.uint64(14695981039346656037) ^ np.uint64(stop - start)
    at = start
    while at + 8 <= stop:
        hashed = (hashed ^ _word_at(data, at)) * np.uint64(0x9E3779B97F4A7C15)
        hashed ^= hashed >> np.uint64(32)
        at += 8
    if at < stop and stop - start >= 8:
        # The last eight bytes, some of which were hashed before.
        hashed = (hashed ^ _word_at(data, stop - 8)) * np.uint64(0x9E3779B97F4A7C15)
        at = stop
    while at < stop:
        hashed = (hashed ^ np.uint64(data[at])) * np.uint64(1099511628211)
        at += 1
    hashed = (hashed ^ (hashed >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    hashed = (hashed ^ (hashed >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return hashed ^ (hashed >> np.uint64(33))


@compiled
def fill_table(offsets, data, hashes, table):  # type: ignore[no-untyped-def]
    """Enter each key's number into the table (open addressing; its length is a power of two; -1 is free)."""
    mask = np.uint64(len(table) - 1)
    for key in range(len(offsets) - 1):
        hashed = _hash_of(data, offsets[key], offsets[key + 1])
        hashes[key] = hashed
        slot = hashed & mask
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = key


@compiled
def look_up(  # type: ignore[no-untyped-def]
    offsets, data, hashes, table, wanted_offsets, wanted_data, found
):
    """For each wanted key its number in the table, or -1."""
    mask = np.uint64(len(table) - 1)
    for row in range(len(wanted_offsets) - 1):
        start, stop = wanted_offsets[row], wanted_offsets[row + 1]
        hashed = _hash_of(wanted_data, start, stop)
        slot = hashed & mask
        found[row] = -1
        while table[slot] >= 0:
            key = table[slot]
            first = offsets[key]
            if hashes[key] == hashed and offsets[key + 1] - first == stop - start:
                same = True
                for at in range(stop - start):
                    if data[first + at] != wanted_data[start + at]:
                        same = False
                        break
                if same:
                    found[row] = key
                    break
            slot = (slot + np.uint64(1)) & mask
