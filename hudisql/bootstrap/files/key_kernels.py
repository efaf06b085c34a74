"""Compiled loops over whole columns of record keys (numba): the range that they span.

Importing this module loads numba: only `key_ranges` does, when a key check first needs it. Arguments are
Arrow's string buffers; knows no files and no Spark.
"""

from __future__ import annotations

import numpy as np

from hudisql.format.encoding.numba_compiled import compiled

_ONE = np.uint64(1)
_ZERO_BYTE = np.uint8(0x30)
_ZERO = 0x30
_NINE = 0x39


@compiled
def _end_of_digits(data, at, end):  # type: ignore[no-untyped-def]
    while at < end and _ZERO <= data[at] <= _NINE:
        at += _ONE
    return at


@compiled
def _skip_zeros(data, at, end):  # type: ignore[no-untyped-def]
    while at < end and data[at] == _ZERO:
        at += _ONE
    return at


@compiled
def _has_nonzero_digit_before(data, start, at):  # type: ignore[no-untyped-def]
    while at > start and _ZERO <= data[at - _ONE] <= _NINE:
        at -= _ONE
        if data[at] != _ZERO:
            return True
    return False


@compiled
def _compare_bytes(data, one, one_end, other, other_end):  # type: ignore[no-untyped-def]
    if one == one_end or other == other_end:
        return 1 if other == other_end else -1
    return 1 if data[one] > data[other] else -1


@compiled
def compare_keys(data, one, one_end, other, other_end):  # type: ignore[no-untyped-def]
    """Negative, zero or positive if the one key comes before, ties with or comes after the other.

    The order is that of `key_ranges.key_order`. Positions are unsigned (uint64), so that numba need not check
    for negative ones: that halves the time.
    """
    while True:
        start = one
        while one < one_end and other < other_end and data[one] == data[other]:
            one += _ONE
            other += _ONE
        if one == one_end and other == other_end:
            return 0
        one_is_digit = one < one_end and _ZERO <= data[one] <= _NINE
        other_is_digit = other < other_end and _ZERO <= data[other] <= _NINE
        if not (one_is_digit and other_is_digit):
            has_equal_digit = one > start and _ZERO <= data[one - _ONE] <= _NINE
            if not has_equal_digit or one_is_digit == other_is_digit:
                return _compare_bytes(data, one, one_end, other, other_end)
        one_after = _end_of_digits(data, one, one_end)
        other_after = _end_of_digits(data, other, other_end)
        if one_after - one == other_after - other:
            # Of numbers with equally many digits the first different digit decides.
            return 1 if data[one] > data[other] else -1
        if not _has_nonzero_digit_before(data, start, one):
            one = _skip_zeros(data, one, one_after)
            other = _skip_zeros(data, other, other_after)
        if one_after - one != other_after - other:
            return 1 if one_after - one > other_after - other else -1
        while one < one_after:
            if data[one] != data[other]:
                return 1 if data[one] > data[other] else -1
            one += _ONE
            other += _ONE


@compiled
def find_range(offsets, data):  # type: ignore[no-untyped-def]
    """The rows of the least and the greatest key, and whether each key comes after all before it.

    `offsets` are those of at least one key, as uint64. The simple cases of `compare_keys` are inlined: a call
    for each row would take several times as long as this whole loop.
    """
    lowest = 0
    highest = 0
    is_ascending = True
    for row in range(1, len(offsets) - 1):
        for turn in range(2):  # highest < row? If not: row < lowest?
            one = offsets[highest] if turn == 0 else offsets[row]
            one_end = offsets[highest + 1] if turn == 0 else offsets[row + 1]
            other = offsets[row] if turn == 0 else offsets[lowest]
            other_end = offsets[row + 1] if turn == 0 else offsets[lowest + 1]
            one_start = one
            while one < one_end and other < other_end and data[one] == data[other]:
                one += _ONE
                other += _ONE
            comes_before = False
            one_is_digit = np.uint8(data[one] - _ZERO_BYTE) < 10 if one < one_end else False
            other_is_digit = np.uint8(data[other] - _ZERO_BYTE) < 10 if other < other_end else False
            is_plain = True
            if one_is_digit and other_is_digit:
                one_at = one + _ONE
                other_at = other + _ONE
                while True:
                    one_goes_on = one_at < one_end and np.uint8(data[one_at] - _ZERO_BYTE) < 10
                    other_goes_on = other_at < other_end and np.uint8(data[other_at] - _ZERO_BYTE) < 10
                    if not (one_goes_on and other_goes_on):
                        break
                    one_at += _ONE
                    other_at += _ONE
                is_plain = one_goes_on == other_goes_on
                comes_before = data[one] < data[other]
            elif (one_is_digit or other_is_digit) and one > one_start:
                is_plain = False
            elif one == one_end or other == other_end:
                comes_before = other < other_end
            else:
                comes_before = data[one] < data[other]
            if not is_plain:
                same = one - one_start
                comes_before = compare_keys(data, one_start, one_end, other - same, other_end) < 0
            if turn == 0:
                if comes_before:
                    highest = row
                    break
                is_ascending = False
            elif comes_before:
                lowest = row
    return lowest, highest, is_ascending
