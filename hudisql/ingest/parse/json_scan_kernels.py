"""The compiled walk over JSON records (numba): from bytes into slots, one walk for all columns.

Follows a `json_program` by position, with a stack of open objects and arrays. A record that is not of the
schema leaves its code, its node and the byte, and none of its slots. Importing this module loads numba.
"""

from __future__ import annotations

import numpy as np

from hudisql.format.encoding.byte_kernels import byte_at, copy_bytes, set_byte, word_at
from hudisql.format.encoding.numba_compiled import compiled
from hudisql.ingest.parse.json_program import (
    BASE64_DECIMAL,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INTEGER,
    LIST,
    MAP,
    RAW,
    RECORD,
    STRING,
    TIMESTAMP,
)
from hudisql.ingest.parse.json_text_kernels import (
    literal_end,
    number_end,
    read_name,
    skip_space,
    skip_value,
    string_end,
    unescape,
)
from hudisql.ingest.parse.json_value_kernels import (
    BAD_NAME,
    BAD_TEXT,
    FULL,
    HARD,
    NESTED,
    NOT_JSON,
    OK,
    OUT_OF_RANGE,
    PRESENT,
    REPEATED,
    WRONG_TYPE,
    base64_length,
    decode_base64,
    read_base64_decimal,
    read_date,
    read_decimal,
    read_double,
    read_integer,
    read_timestamp,
    scaled_epoch,
)

NEW_INTEGER, NEW_NUMBER, NEW_BOOLEAN, NEW_STRING = 1, 2, 4, 8
"""Bits for the kinds of values that an unknown field has."""

_MOST_FLOAT = 3.4028235677973366e38


@compiled
def _read_text_leaf(start, end, what, low, high, scale, scratch):  # type: ignore[no-untyped-def]
    # Code and two words of what a string holds: a decimal, date or timestamp.
    if what == DECIMAL:
        code, value, wide, at = read_decimal(start, low, high)
        return (BAD_TEXT if code == NOT_JSON or at != end else code), value, wide
    if what == BASE64_DECIMAL:
        return read_base64_decimal(start, end, scratch, low, high, scale)
    if what == DATE:
        value, fine = read_date(start, end)
        return (OK if fine and end == start + 10 else BAD_TEXT), np.int64(value), np.int64(0)
    value, fine = read_timestamp(start, end, high != 0)
    return (OK if fine else BAD_TEXT), np.int64(value), np.int64(0)


@compiled
def _read_string(at, what, low, high, scale, scratch):  # type: ignore[no-untyped-def]
    # A value that begins with a quote: code, first word, second word, end.
    start = at + 1
    end, escaped = string_end(start)
    if end < 0:
        return NOT_JSON, np.int64(0), np.int64(0), at
    length = end - start
    if what == STRING:
        return OK, np.int64(start), np.int64(~length if escaped else length), end + 1
    if what == BINARY:
        # The text of escapes is longer than what it stands for, so that the scratch is long enough.
        if escaped:
            fine = base64_length(scratch, unescape(start, end, scratch)) >= 0
            return (OK if fine else BAD_TEXT), np.int64(start), np.int64(~(end - start)), end + 1
        fine = base64_length(start, end) >= 0
        return (OK if fine else BAD_TEXT), np.int64(start), np.int64(length), end + 1
    if what != DECIMAL and what != BASE64_DECIMAL and what != DATE and what != TIMESTAMP:
        return WRONG_TYPE, np.int64(0), np.int64(0), end + 1
    if escaped:
        used = unescape(start, end, scratch)
        set_byte(used, 0)
        # Bytes of base64 may be written over its text: they are fewer.
        code, value, wide = _read_text_leaf(scratch, used, what, low, high, scale, scratch)
    else:
        code, value, wide = _read_text_leaf(start, end, what, low, high, scale, scratch)
    return code, value, wide, end + 1


@compiled
def _read_number(at, what, low, high):  # type: ignore[no-untyped-def]
    # A value that begins like a number: code, validity, the words, end.
    if what in (INTEGER, DATE, TIMESTAMP):
        code, value, end = read_integer(at)
        if code == OK:
            if what == INTEGER:
                code = OK if low <= value <= high else OUT_OF_RANGE
            elif what == DATE:
                code = OK if -(2**31) <= value < 2**31 else OUT_OF_RANGE
            else:
                value, fine = scaled_epoch(value, low)
                code = OK if fine else OUT_OF_RANGE
        return code, PRESENT, np.int64(value), np.int64(0), end
    if what in (DOUBLE, FLOAT):
        code, validity, number, end = read_double(at)
        if code == OK and what == FLOAT and abs(number) >= _MOST_FLOAT:
            code = OUT_OF_RANGE
        if validity == HARD:
            return code, HARD, np.int64(at), np.int64(end - at), end
        return code, PRESENT, np.float64(number).view(np.int64), np.int64(0), end
    if what == DECIMAL:
        code, value, wide, end = read_decimal(at, low, high)
        return code, PRESENT, value, wide, end
    end = number_end(at)
    return (WRONG_TYPE if end >= 0 else NOT_JSON), PRESENT, np.int64(0), np.int64(0), end


@compiled
def _read_leaf(at, what, low, high, scale, scratch):  # type: ignore[no-untyped-def]
    # The leaf at `at`, which is not null: code, validity, its two words, and the position after it.
    byte = byte_at(at)
    if byte == 34:
        code, value, wide, end = _read_string(at, what, low, high, scale, scratch)
        return code, PRESENT, value, wide, end
    if byte == 45 or 48 <= byte <= 57:
        return _read_number(at, what, low, high)
    if byte == 123 or byte == 91:
        return WRONG_TYPE, PRESENT, np.int64(0), np.int64(0), at
    end = literal_end(at)
    if end < 0:
        return NOT_JSON, PRESENT, np.int64(0), np.int64(0), at
    code = OK if what == BOOLEAN else WRONG_TYPE
    return code, PRESENT, np.int64(byte == 116), np.int64(0), end


@compiled
def _append_null(node, kind, end_of, base, capacity, counts, valid, values, wide):  # type: ignore[no-untyped-def]
    # One null for the node, and for all of a record; returns whether there was room.
    at = node
    stop = end_of[node]
    while at < stop:
        if counts[at] >= capacity[at]:
            return False
        slot = base[at] + counts[at]
        valid[slot] = 0
        values[slot] = 0
        what = kind[at]
        wide[slot] = counts[at + 1] if what in (LIST, MAP) else 0
        counts[at] += 1
        at = end_of[at] if what in (LIST, MAP) else at + 1
    return True


@compiled
def _is_name(start, end, name_start, name_end, node):  # type: ignore[no-untyped-def]
    first = name_start[node]
    if name_end[node] - first != end - start:
        return False
    length = end - start
    at = 0
    while at < length:
        differs = word_at(start + at) ^ word_at(first + at)
        if length - at < 8:
            differs &= (np.uint64(1) << np.uint64(8 * (length - at))) - np.uint64(1)
        if differs != 0:
            return False
        at += 8
    return True


@compiled
def _find_child(start, end, name_start, name_end, end_of, holder, expected):  # type: ignore[no-untyped-def]
    # The child of that name, or -1; records mostly have their fields in the order of the last one.
    stop = end_of[holder]
    if expected < stop and _is_name(start, end, name_start, name_end, expected):
        return expected
    child = holder + 1
    while child < stop:
        if _is_name(start, end, name_start, name_end, child):
            return child
        child = end_of[child]
    return -1


@compiled
def _note_new_field(start, end, escaped, at, new):  # type: ignore[no-untyped-def]
    # Remember name and kind of an unknown field whose value begins at `at`; returns a code.
    at = skip_space(at)
    byte = byte_at(at)
    if byte == 110:
        return OK
    if byte == 123 or byte == 91:
        return NESTED
    known = end > start and not escaped and not 48 <= byte_at(start) <= 57
    for place in range(start, end):
        byte_of_name = byte_at(place)
        letter = 97 <= (byte_of_name | 32) <= 122 or 48 <= byte_of_name <= 57 or byte_of_name == 95
        known = known and letter
    if not known:
        return BAD_NAME
    kind = NEW_STRING
    if byte == 116 or byte == 102:
        kind = NEW_BOOLEAN
    elif byte != 34:
        last = number_end(at)
        kind = NEW_INTEGER
        for place in range(at, last):
            if byte_at(place) == 46 or (byte_at(place) | 32) == 101:
                kind = NEW_NUMBER
    count = new.used[0]
    for number in range(count):
        if new.end[number] - new.start[number] == end - start:
            same = True
            for place in range(end - start):
                same = same and byte_at(new.start[number] + place) == byte_at(start + place)
            if same:
                new.kinds[number] |= kind
                return OK
    if count == len(new.start):
        return NESTED
    new.start[count] = start
    new.end[count] = end
    new.kinds[count] = kind
    new.used[0] = count + 1
    return OK


@compiled
def _is_repeated_key(start, end, first, last, values, wide):  # type: ignore[no-untyped-def]
    for slot in range(first, last):
        length = wide[slot]
        if (~length if length < 0 else length) == end - start:
            same = True
            for place in range(end - start):
                if byte_at(values[slot] + place) != byte_at(start + place):
                    same = False
                    break
            if same:
                return True
    return False


@compiled
def _walk(  # type: ignore[no-untyped-def]
    at, kind, end_of, low, high, scale, name_start, name_end,
    base, capacity, counts, valid, values, wide, stack, seen, scratch, opened, new,
):  # fmt: skip
    """One record: code, node and position. `stack` has a row for each open object or array:

    its node, its slot or stamp, and the child expected next or its first item.
    """
    depth = 0
    node = 0
    while True:
        at = skip_space(at)
        byte = byte_at(at)
        what = kind[node]
        just_opened = False
        if byte == 110 and node > 0:
            if literal_end(at) < 0:
                return NOT_JSON, node, at
            if not _append_null(node, kind, end_of, base, capacity, counts, valid, values, wide):
                return FULL, node, at
            at += 4
        else:
            slot = base[node] + counts[node]
            if counts[node] >= capacity[node]:
                return FULL, node, at
            if what <= MAP:
                if byte != (91 if what == LIST else 123):
                    return WRONG_TYPE, node, at
                valid[slot] = PRESENT
                stack[depth, 0] = node
                if what == RECORD:
                    seen[0] += 1
                    stack[depth, 1] = seen[0]
                    stack[depth, 2] = node + 1
                else:
                    stack[depth, 1] = slot
                    stack[depth, 2] = counts[node + 1]
                depth += 1
                at += 1
                just_opened = True
            elif what == RAW:
                end = skip_value(at, opened)
                if end < 0:
                    return NOT_JSON, node, at
                valid[slot] = PRESENT
                values[slot] = at
                wide[slot] = end - at
                at = end
            else:
                code, validity, value, second, end = _read_leaf(
                    at, what, low[node], high[node], scale[node], scratch
                )
                if code != OK:
                    return code, node, at
                valid[slot] = validity
                values[slot] = value
                wide[slot] = second
                at = end
            counts[node] += 1
        # What follows: the next member of the innermost open object or array, or its end.
        while True:
            if depth == 0:
                return OK, 0, at
            holder = stack[depth - 1, 0]
            what = kind[holder]
            at = skip_space(at)
            if byte_at(at) == (93 if what == LIST else 125):
                if what == RECORD:
                    child = holder + 1
                    while child < end_of[holder]:
                        if seen[child] != stack[depth - 1, 1] and not _append_null(
                            child, kind, end_of, base, capacity, counts, valid, values, wide
                        ):
                            return FULL, child, at
                        child = end_of[child]
                else:
                    wide[stack[depth - 1, 1]] = counts[holder + 1]
                depth -= 1
                at += 1
                just_opened = False
                continue
            if not just_opened:
                if byte_at(at) != 44:
                    return NOT_JSON, holder, at
                at += 1
            just_opened = False
            node = holder + 1
            if what == LIST:
                break
            start, end, escaped, after = read_name(at)
            if after < 0:
                return NOT_JSON, holder, at
            at = after
            if what == MAP:
                count = counts[node]
                if count >= capacity[node]:
                    return FULL, node, at
                first = base[node]
                if _is_repeated_key(start, end, first + stack[depth - 1, 2], first + count, values, wide):
                    return REPEATED, holder, at
                valid[first + count] = PRESENT
                values[first + count] = start
                wide[first + count] = ~(end - start) if escaped else end - start
                counts[node] += 1
                node = end_of[node]
                break
            if escaped:
                used = unescape(start, end, scratch)
                child = _find_child(scratch, used, name_start, name_end, end_of, holder, stack[depth - 1, 2])
            else:
                child = _find_child(start, end, name_start, name_end, end_of, holder, stack[depth - 1, 2])
            if child < 0:
                if holder == 0 and len(new.start) > 0:
                    code = _note_new_field(start, end, escaped, at, new)
                    if code != OK:
                        return code, 0, start
                at = skip_value(at, opened)
                if at < 0:
                    return NOT_JSON, holder, start
                continue
            if seen[child] == stack[depth - 1, 1]:
                return REPEATED, child, start
            seen[child] = stack[depth - 1, 1]
            stack[depth - 1, 2] = end_of[child]
            node = child
            break


@compiled
def scan(starts, ends, program, slots, scratch, opened, new, codes, failed_nodes, places):  # type: ignore[no-untyped-def]
    """Walk all records; returns -1, or the node whose slots are used up (the walk is then to be repeated).

    A record that is not of the schema has its code in `codes`, with `failed_nodes` and `places`.
    """
    # Arrays out of a tuple are counted references: taking them once is much cheaper than once a value.
    kind, end_of, low, high, scale, name_start, name_end = program
    base, capacity, counts, valid, values, wide = slots
    nodes = len(kind)
    stack = np.zeros((nodes + 1, 3), np.int64)
    # seen[0] numbers the objects; seen[node] is the object in which the node stood last.
    seen = np.zeros(nodes, np.int64)
    before = np.zeros(nodes, np.int64)
    for row in range(len(starts)):
        before[:] = counts
        code, node, at = _walk(
            starts[row], kind, end_of, low, high, scale, name_start, name_end,
            base, capacity, counts, valid, values, wide, stack, seen, scratch, opened, new,
        )  # fmt: skip
        if code == FULL:
            return node
        if code == OK:
            at = skip_space(at)
            if at < ends[row]:
                code = NOT_JSON
        elif code != NOT_JSON:
            # Whatever else is wrong, text that is no JSON is called that.
            last = skip_value(starts[row], opened)
            if last < 0 or skip_space(last) < ends[row]:
                code = NOT_JSON
        if code != OK:
            counts[:] = before
        codes[row] = code
        failed_nodes[row] = node
        places[row] = at - starts[row]
    return -1


@compiled
def gather_text(starts, lengths, out, offsets, is_base64, scratch):  # type: ignore[no-untyped-def]
    """Copy the texts (of negative length: with escapes) to the address `out`; `offsets` are Arrow's."""
    used = out
    offsets[0] = 0
    for slot in range(len(starts)):
        start = starts[slot]
        length = lengths[slot]
        if is_base64:
            if length < 0:
                last = unescape(start, start + ~length, scratch)
                used = decode_base64(scratch, last, used)
            else:
                used = decode_base64(start, start + length, used)
        elif length < 0:
            used = unescape(start, start + ~length, used)
        else:
            copy_bytes(used, start, length)
            used += length
        offsets[slot + 1] = used - out
    return used - out


@compiled
def same_as_before(starts, ends, same):  # type: ignore[no-untyped-def]
    """For each text whether its bytes are those of the text before it."""
    for row in range(len(starts)):
        length = ends[row] - starts[row]
        equal = row > 0 and ends[row - 1] - starts[row - 1] == length
        at = 0
        while equal and at < length:
            differs = word_at(starts[row] + at) ^ word_at(starts[row - 1] + at)
            if length - at < 8:
                differs &= (np.uint64(1) << np.uint64(8 * (length - at))) - np.uint64(1)
            equal = differs == 0
            at += 8
        same[row] = equal
