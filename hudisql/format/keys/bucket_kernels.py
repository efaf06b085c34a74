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
def last_index_of(data, start, stop, byte):  # type: ignore[no-untyped-def]
    """The place of the last such byte; `start - 1` without one."""
    at = stop - 1
    while at >= start and data[at] != byte:
        at -= 1
    return at


@compiled
def parts_of(  # type: ignore[no-untyped-def]
    data, start, stop, fields, names, starts, stops, is_whole
):
    """The parts of a key that Hudi 0.15 hashes: how many, and where each begins and ends.

    A key without a colon is hashed as a whole. In other keys the parts between commas are hashed: of
    `name:value` the value if the name is one of `names` (at `fields`), and parts without a colon. `is_whole`
    parts may be no placeholder.
    """
    count = 0
    if index_of(data, start, stop, COLON) == stop:
        starts[0], stops[0], is_whole[0] = start, stop, True
        return 1
    # Java leaves out empty parts at the end.
    while stop > start and data[stop - 1] == COMMA:
        stop -= 1
    while start <= stop:
        end = index_of(data, start, stop, COMMA)
        colon = index_of(data, start, end, COLON)
        if colon == end or is_one_of(data, start, colon, fields, names):
            starts[count] = start if colon == end else colon + 1
            stops[count], is_whole[count] = end, colon == end
            count += 1
        start = end + 1
    return count


@compiled
def parts_of_1x(  # type: ignore[no-untyped-def]
    data, start, stop, fields, names, starts, stops, is_whole
):
    """`parts_of` as Hudi 1.x takes them: a value ends at the last comma before the colon of the next name.

    A key without a comma or without a colon, or without one of the names, is hashed as a whole.
    """
    count, at = 0, start
    has_comma = index_of(data, start, stop, COMMA) < stop
    while has_comma and at < stop:
        colon = index_of(data, at, stop, COLON)
        if colon == stop:
            break
        end, following = stop, index_of(data, colon + 1, stop, COLON)
        while following < stop:
            comma = last_index_of(data, colon + 1, following, COMMA)
            if comma > colon:
                end = comma
                break
            following = index_of(data, following + 1, stop, COLON)
        if is_one_of(data, at, colon, fields, names):
            starts[count], stops[count], is_whole[count] = colon + 1, end, False
            count += 1
        at = end + 1
    if count == 0:
        starts[0], stops[0], is_whole[0] = start, stop, True
        return 1
    return count


@compiled
def list_hashes(  # type: ignore[no-untyped-def]
    offsets, data, fields, names, none, nones, is_1x, places, is_whole, hashes
):
    """For each key the `List.hashCode` of the parts that Hudi hashes.

    Placeholders (`nones` at `none`) have the hash 0 of null and of the empty text. `places` (two rows) and
    `is_whole` have room for the parts of a key.
    """
    for key in range(len(offsets) - 1):
        found = (data, offsets[key], offsets[key + 1], fields, names, places[0], places[1], is_whole)
        count = parts_of_1x(*found) if is_1x else parts_of(*found)
        hashed = np.uint32(1)
        for number in range(count):
            first, end = places[0][number], places[1][number]
            part = np.uint32(0)
            if is_whole[number] or not is_one_of(data, first, end, none, nones):
                part = _java_hash(data, first, end)
            hashed = np.uint32(np.uint32(hashed * np.uint32(31)) + part)
        hashes[key] = hashed
