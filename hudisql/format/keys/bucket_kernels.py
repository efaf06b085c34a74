"""Compiled loops of Hudi's bucket hash over Arrow's string buffers (numba).

Importing this module loads numba: only `bucket_id` does, when keys are hashed.
"""

from __future__ import annotations

import numpy as np

from hudisql.format.encoding.numba_compiled import compiled

COMMA, COLON = 0x2C, 0x3A


@compiled
def _java_hash(data, start, stop):  # type: ignore[no-untyped-def]
    # `String.hashCode` goes over UTF-16 units; the bytes are UTF-8.
    hashed = np.uint32(0)
    at = start
    while at < stop:
        first = np.uint32(data[at])
        if first < 0x80:
            point, length = first, 1
        elif first < 0xE0:
            point, length = first & np.uint32(0x1F), 2
        elif first < 0xF0:
            point, length = first & np.uint32(0x0F), 3
        else:
            point, length = first & np.uint32(0x07), 4
        for more in range(1, length):
            point = np.uint32((point << np.uint32(6)) | (np.uint32(data[at + more]) & np.uint32(0x3F)))
        at += length
        if point >= 0x10000:
            above = np.uint32(point - np.uint32(0x10000))
            high = np.uint32(np.uint32(0xD800) + (above >> np.uint32(10)))
            hashed = np.uint32(np.uint32(hashed * np.uint32(31)) + high)
            point = np.uint32(np.uint32(0xDC00) + (above & np.uint32(0x3FF)))
        hashed = np.uint32(np.uint32(hashed * np.uint32(31)) + np.uint32(point))
    return hashed


@compiled
def text_hashes(offsets, data, hashes):  # type: ignore[no-untyped-def]
    """Java's `String.hashCode` of each text."""
    for key in range(len(hashes)):
        hashes[key] = _java_hash(data, offsets[key], offsets[key + 1])


@compiled
def is_one_of(data, start, stop, offsets, texts):  # type: ignore[no-untyped-def]
    """True if the text is one of `texts` (at `offsets`)."""
    for number in range(len(offsets) - 1):
        first = offsets[number]
        if offsets[number + 1] - first != stop - start:
            continue
        same = True
        for at in range(stop - start):
            if texts[first + at] != data[start + at]:
                same = False
                break
        if same:
            return True
    return False


@compiled
def index_of(data, start, stop, byte):  # type: ignore[no-untyped-def]
    """The place of the first such byte; `stop` without one."""
    for at in range(start, stop):
        if data[at] == byte:
            return at
    return stop


@compiled
def list_hashes(offsets, data, fields, names, none, nones, hashes):  # type: ignore[no-untyped-def]
    """For each key the `List.hashCode` of the parts that Hudi hashes.

    A key without a colon is hashed as a whole. In other keys the parts between commas are hashed: of
    `name:value` the value if the name is one of `names` (at `fields`), and parts without a colon;
    placeholders (`nones` at `none`) have the hash 0 of null and of the empty text.
    """
    for key in range(len(offsets) - 1):
        start, stop = offsets[key], offsets[key + 1]
        hashed = np.uint32(1)
        if index_of(data, start, stop, COLON) == stop:
            hashes[key] = np.uint32(np.uint32(31) + _java_hash(data, start, stop))
            continue
        # Java leaves out empty parts at the end.
        while stop > start and data[stop - 1] == COMMA:
            stop -= 1
        while start <= stop:
            end = index_of(data, start, stop, COMMA)
            colon = index_of(data, start, end, COLON)
            first = start if colon == end else colon + 1
            if colon == end or is_one_of(data, start, colon, fields, names):
                part = np.uint32(0)
                if colon == end or not is_one_of(data, first, end, none, nones):
                    part = _java_hash(data, first, end)
                hashed = np.uint32(np.uint32(hashed * np.uint32(31)) + part)
            start = end + 1
        hashes[key] = hashed
