"""Compiled readers of single JSON tokens (numba): strings, numbers, and whole values that are skipped.

Positions are addresses of bytes. In the text a zero byte follows each record: it ends every token, so that no
reader asks for a limit. Follows RFC 8259: no NaN, no lone surrogates, UTF-8 only. -1 means "not JSON".
"""

from __future__ import annotations

import numpy as np

from hudisql.format.encoding.byte_kernels import byte_at, plain_bytes, set_byte
from hudisql.format.encoding.numba_compiled import compiled

DEEPEST = 256
"""How deep arrays and objects may lie in one another."""


@compiled
def skip_space(at):  # type: ignore[no-untyped-def]
    """The position of the next byte that is not white space."""
    while True:
        byte = byte_at(at)
        if byte > 32 or (byte != 32 and byte != 10 and byte != 13 and byte != 9):
            return at
        at += 1


@compiled
def _hex_value(at):  # type: ignore[no-untyped-def]
    # The number of four hexadecimal digits, or -1.
    value = 0
    for number in range(4):
        byte = byte_at(at + number)
        if 48 <= byte <= 57:
            value = value * 16 + byte - 48
        elif 97 <= (byte | 32) <= 102:
            value = value * 16 + (byte | 32) - 87
        else:
            return -1
    return value


@compiled
def _escape_end(at):  # type: ignore[no-untyped-def]
    # The position after the escape at `at`, or -1.
    byte = byte_at(at + 1)
    if byte != 117:
        known = byte == 34 or byte == 92 or byte == 47 or byte == 98
        known = known or byte == 102 or byte == 110 or byte == 114 or byte == 116
        return at + 2 if known else -1
    value = _hex_value(at + 2)
    if value < 0 or 0xDC00 <= value < 0xE000:
        return -1
    if 0xD800 <= value < 0xDC00:
        if byte_at(at + 6) != 92 or byte_at(at + 7) != 117:
            return -1
        low = _hex_value(at + 8)
        return at + 12 if 0xDC00 <= low < 0xE000 else -1
    return at + 6


@compiled
def utf8_end(at):  # type: ignore[no-untyped-def]
    """The position after the UTF-8 sequence of two to four bytes at `at`, or -1."""
    first = byte_at(at)
    second = byte_at(at + 1)
    if first < 0xC2 or first > 0xF4 or (second & 0xC0) != 0x80:
        return -1
    if first < 0xE0:
        return at + 2
    if (byte_at(at + 2) & 0xC0) != 0x80:
        return -1
    if first < 0xF0:
        wrong = (first == 0xE0 and second < 0xA0) or (first == 0xED and second >= 0xA0)
        return -1 if wrong else at + 3
    wrong = (first == 0xF0 and second < 0x90) or (first == 0xF4 and second >= 0x90)
    return -1 if wrong or (byte_at(at + 3) & 0xC0) != 0x80 else at + 4


@compiled
def string_end(at):  # type: ignore[no-untyped-def]
    """Where the string whose text begins at `at` has its closing quote, or -1; and whether it has escapes."""
    escaped = False
    while True:
        plain = plain_bytes(at)
        at += plain
        if plain == 16:
            continue
        byte = byte_at(at)
        if byte == 34:
            return at, escaped
        if byte == 92:
            escaped = True
            at = _escape_end(at)
        elif byte >= 128:
            at = utf8_end(at)
        else:
            at = -1
        if at < 0:
            return -1, escaped


@compiled
def _write_utf8(code, used):  # type: ignore[no-untyped-def]
    if code < 0x80:
        set_byte(used, code)
        return used + 1
    if code < 0x800:
        set_byte(used, 0xC0 | (code >> 6))
        set_byte(used + 1, 0x80 | (code & 63))
        return used + 2
    if code < 0x10000:
        set_byte(used, 0xE0 | (code >> 12))
        set_byte(used + 1, 0x80 | ((code >> 6) & 63))
        set_byte(used + 2, 0x80 | (code & 63))
        return used + 3
    set_byte(used, 0xF0 | (code >> 18))
    set_byte(used + 1, 0x80 | ((code >> 12) & 63))
    set_byte(used + 2, 0x80 | ((code >> 6) & 63))
    set_byte(used + 3, 0x80 | (code & 63))
    return used + 4


@compiled
def unescape(start, end, used):  # type: ignore[no-untyped-def]
    """Write the text of a checked string to the address `used`; returns the address after it."""
    at = start
    while at < end:
        byte = byte_at(at)
        if byte != 92:
            set_byte(used, byte)
            used += 1
            at += 1
            continue
        letter = byte_at(at + 1)
        if letter == 117:
            code = _hex_value(at + 2)
            at += 6
            if 0xD800 <= code < 0xDC00:
                code = 0x10000 + ((code - 0xD800) << 10) + _hex_value(at + 2) - 0xDC00
                at += 6
            used = _write_utf8(code, used)
            continue
        at += 2
        if letter == 98:
            letter = np.uint8(8)
        elif letter == 102:
            letter = np.uint8(12)
        elif letter == 110:
            letter = np.uint8(10)
        elif letter == 114:
            letter = np.uint8(13)
        elif letter == 116:
            letter = np.uint8(9)
        set_byte(used, letter)
        used += 1
    return used


@compiled
def _digits_end(at):  # type: ignore[no-untyped-def]
    while 48 <= byte_at(at) <= 57:
        at += 1
    return at


@compiled
def number_end(at):  # type: ignore[no-untyped-def]
    """The position after the number at `at`, or -1."""
    if byte_at(at) == 45:
        at += 1
    start = at
    at = _digits_end(at)
    if at == start or (byte_at(start) == 48 and at > start + 1):
        return -1
    if byte_at(at) == 46:
        start = at + 1
        at = _digits_end(start)
        if at == start:
            return -1
    if (byte_at(at) | 32) == 101:
        at += 1
        if byte_at(at) == 43 or byte_at(at) == 45:
            at += 1
        start = at
        at = _digits_end(start)
        if at == start:
            return -1
    return at


@compiled
def literal_end(at):  # type: ignore[no-untyped-def]
    """The position after `true`, `false` or `null`, or -1."""
    if byte_at(at) == 116 and byte_at(at + 1) == 114 and byte_at(at + 2) == 117 and byte_at(at + 3) == 101:
        return at + 4
    if byte_at(at) == 110 and byte_at(at + 1) == 117 and byte_at(at + 2) == 108 and byte_at(at + 3) == 108:
        return at + 4
    if byte_at(at) == 102 and byte_at(at + 1) == 97 and byte_at(at + 2) == 108 and byte_at(at + 3) == 115:
        return at + 5 if byte_at(at + 4) == 101 else -1
    return -1


@compiled
def read_name(at):  # type: ignore[no-untyped-def]
    """The name of a member: start and end of its text, has escapes, where its value begins (or -1)."""
    at = skip_space(at)
    if byte_at(at) != 34:
        return at, at, False, -1
    end, escaped = string_end(at + 1)
    if end < 0:
        return at, at, False, -1
    after = skip_space(end + 1)
    return at + 1, end, escaped, after + 1 if byte_at(after) == 58 else -1


@compiled
def skip_value(at, opened):  # type: ignore[no-untyped-def]
    """The position after the value at `at`, or -1. `opened` is room for DEEPEST bytes."""
    depth = 0
    while True:
        at = skip_space(at)
        byte = byte_at(at)
        if byte == 34:
            at, _ = string_end(at + 1)
            at = at + 1 if at >= 0 else -1
        elif byte == 123 or byte == 91:
            if depth == DEEPEST:
                return -1
            after = skip_space(at + 1)
            if byte_at(after) == byte + 2:
                at = after + 1
            else:
                opened[depth] = byte
                depth += 1
                at += 1
                if byte == 123:
                    _, _, _, at = read_name(at)
                    if at < 0:
                        return -1
                continue
        elif byte == 45 or 48 <= byte <= 57:
            at = number_end(at)
        else:
            at = literal_end(at)
        if at < 0:
            return -1
        while True:
            if depth == 0:
                return at
            at = skip_space(at)
            if byte_at(at) == 44:
                at += 1
                if opened[depth - 1] == 123:
                    _, _, _, at = read_name(at)
                    if at < 0:
                        return -1
                break
            if byte_at(at) != opened[depth - 1] + 2:
                return -1
            depth -= 1
            at += 1
