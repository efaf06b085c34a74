"""Compiled conversions of JSON leaves (numba): integers, doubles, decimals, dates, timestamps, base64."""

from __future__ import annotations

import numpy as np

from hudisql.format.encoding.byte_kernels import byte_at, set_byte
from hudisql.format.encoding.numba_compiled import compiled

OK, NOT_JSON, WRONG_TYPE, OUT_OF_RANGE, BAD_TEXT, REPEATED, NESTED, BAD_NAME, FULL = range(9)
"""What came of a value; FULL means that a node's slots are used up."""

PRESENT, HARD = 1, 2
"""A slot with a value; with a number whose text is still to be read (at `values`, `wide` bytes long)."""

_POWERS = np.array([10.0**number for number in range(23)])
_EXACT = np.uint64(2**53)
_MOST_EPOCH = 2**63 - 1
_BASE64 = np.full(256, -1, np.int64)
_BASE64[np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)] = range(
    64
)


@compiled
def read_integer(at):  # type: ignore[no-untyped-def]
    """Code, value and end of the integer at `at`."""
    negative = byte_at(at) == 45
    if negative:
        at += 1
    start = at
    value = np.uint64(0)
    while 48 <= byte_at(at) <= 57:
        value = value * np.uint64(10) + np.uint64(byte_at(at) - 48)
        at += 1
    if at == start or (byte_at(start) == 48 and at > start + 1):
        return NOT_JSON, np.int64(0), at
    if byte_at(at) == 46 or (byte_at(at) | 32) == 101:
        return WRONG_TYPE, np.int64(0), at
    most = np.uint64(2**63) if negative else np.uint64(2**63 - 1)
    if at - start > 19 or value > most:
        return OUT_OF_RANGE, np.int64(0), at
    if negative:
        # The least of all int64 is its own negative.
        return OK, np.int64(np.uint64(0) - value), at
    return OK, np.int64(value), at


@compiled
def read_double(at):  # type: ignore[no-untyped-def]
    """Code, validity, value and end of the number at `at`; the value is rough if it is HARD."""
    negative = byte_at(at) == 45
    if negative:
        at += 1
    start = at
    mantissa = np.uint64(0)
    digits = 0
    exponent = 0
    while 48 <= byte_at(at) <= 57:
        if digits < 19:
            mantissa = mantissa * np.uint64(10) + np.uint64(byte_at(at) - 48)
            digits += mantissa != 0
        else:
            digits += 1
            exponent += 1
        at += 1
    if at == start or (byte_at(start) == 48 and at > start + 1):
        return NOT_JSON, PRESENT, 0.0, at
    if byte_at(at) == 46:
        at += 1
        start = at
        while 48 <= byte_at(at) <= 57:
            if digits < 19:
                mantissa = mantissa * np.uint64(10) + np.uint64(byte_at(at) - 48)
                digits += mantissa != 0
                exponent -= 1
            else:
                digits += 1
            at += 1
        if at == start:
            return NOT_JSON, PRESENT, 0.0, at
    if (byte_at(at) | 32) == 101:
        code, given, at = _read_exponent(at + 1)
        if code != OK:
            return code, PRESENT, 0.0, at
        exponent += given
    if mantissa == 0:
        return OK, PRESENT, -0.0 if negative else 0.0, at
    if digits <= 19 and mantissa <= _EXACT and -22 <= exponent <= 22:
        value = np.float64(mantissa)
        value = value / _POWERS[-exponent] if exponent < 0 else value * _POWERS[exponent]
        return OK, PRESENT, -value if negative else value, at
    while mantissa < np.uint64(1_000_000_000_000_000_000):
        mantissa *= np.uint64(10)
        exponent -= 1
    # Now of 19 digits: the greatest double is 1.7976931348623157e308.
    if exponent > 290 or (exponent == 290 and mantissa // np.uint64(100) > np.uint64(17976931348623157)):
        return OUT_OF_RANGE, PRESENT, 0.0, at
    return OK, HARD, np.float64(mantissa) * 10.0 ** np.float64(exponent), at


@compiled
def _read_exponent(at):  # type: ignore[no-untyped-def]
    negative = byte_at(at) == 45
    if negative or byte_at(at) == 43:
        at += 1
    start = at
    value = 0
    while 48 <= byte_at(at) <= 57:
        if value < 100_000:
            value = value * 10 + byte_at(at) - 48
        at += 1
    return (NOT_JSON if at == start else OK), (-value if negative else value), at


@compiled
def _times_ten_plus(low, high, digit):  # type: ignore[no-untyped-def]
    bottom = (low & np.uint64(0xFFFFFFFF)) * np.uint64(10) + digit
    top = (low >> np.uint64(32)) * np.uint64(10) + (bottom >> np.uint64(32))
    low = (top << np.uint64(32)) | (bottom & np.uint64(0xFFFFFFFF))
    return low, high * np.uint64(10) + (top >> np.uint64(32))


@compiled
def read_decimal(at, precision, scale):  # type: ignore[no-untyped-def]
    """Code, low and high word, and end of the number at `at`, exactly: digits beyond the scale must be 0."""
    negative = byte_at(at) == 45
    if negative:
        at += 1
    start = at
    significant, fraction, point = 0, 0, -1
    while 48 <= byte_at(at) <= 57 or (byte_at(at) == 46 and point < 0):
        if byte_at(at) == 46:
            point = at
        else:
            significant += significant > 0 or byte_at(at) != 48
            fraction += point >= 0
        at += 1
    end = at
    whole = (point if point >= 0 else end) - start
    if whole == 0 or (byte_at(start) == 48 and whole > 1) or (point >= 0 and fraction == 0):
        return NOT_JSON, np.int64(0), np.int64(0), at
    exponent = 0
    if (byte_at(at) | 32) == 101:
        code, exponent, at = _read_exponent(at + 1)
        if code != OK:
            return code, np.int64(0), np.int64(0), at
    shift = scale - fraction + exponent
    if significant == 0:
        return OK, np.int64(0), np.int64(0), at
    if significant + shift > precision:
        return OUT_OF_RANGE, np.int64(0), np.int64(0), at
    low, high, read = np.uint64(0), np.uint64(0), 0
    for place in range(start, end):
        if byte_at(place) == 46 or (read == 0 and byte_at(place) == 48):
            continue
        read += 1
        if shift >= 0 or read <= significant + shift:
            low, high = _times_ten_plus(low, high, np.uint64(byte_at(place) - 48))
        elif byte_at(place) != 48:
            return OUT_OF_RANGE, np.int64(0), np.int64(0), at
    for _ in range(shift):
        low, high = _times_ten_plus(low, high, np.uint64(0))
    if negative:
        low, high = _negated(low, high)
    return OK, np.int64(low), np.int64(high), at


@compiled
def _negated(low, high):  # type: ignore[no-untyped-def]
    low = np.uint64(0) - low
    high = ~high
    if low == 0:
        high += np.uint64(1)
    return low, high


@compiled
def _number_at(at, count, end):  # type: ignore[no-untyped-def]
    # The number of exactly `count` digits, or -1.
    if at + count > end:
        return -1
    value = 0
    for place in range(at, at + count):
        if byte_at(place) < 48 or byte_at(place) > 57:
            return -1
        value = value * 10 + byte_at(place) - 48
    return value


@compiled
def read_date(at, end):  # type: ignore[no-untyped-def]
    """Days since 1970 of `YYYY-MM-DD` at `at`, and whether it is a date."""
    year = _number_at(at, 4, end)
    month = _number_at(at + 5, 2, end)
    day = _number_at(at + 8, 2, end)
    if year < 1 or month < 1 or month > 12 or day < 1 or byte_at(at + 4) != 45 or byte_at(at + 7) != 45:
        return 0, False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = 30 + ((month + (month > 7)) & 1) if month != 2 else 28 + leap
    if day > longest:
        return 0, False
    # Days of the civil calendar, years beginning in March.
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468, True


@compiled
def read_timestamp(at, end, local):  # type: ignore[no-untyped-def]
    """Microseconds since 1970 of ISO text, and whether it is such; without a zone it is UTC.

    `YYYY-MM-DD`, then `T` or a space and `hh:mm[:ss[.f…]]`, then `Z`, `±hh`, `±hhmm` or `±hh:mm`, which
    `local` times must not have. Digits beyond microseconds are cut off.
    """
    days, fine = read_date(at, end)
    micros = days * 86_400_000_000
    at += 10
    if not fine or at == end:
        return micros, fine
    hour = _number_at(at + 1, 2, end)
    minute = _number_at(at + 4, 2, end)
    separator = byte_at(at) == 84 or byte_at(at) == 32
    if not separator or hour < 0 or hour > 23 or minute < 0 or minute > 59 or byte_at(at + 3) != 58:
        return 0, False
    micros += (hour * 60 + minute) * 60_000_000
    at += 6
    if at < end and byte_at(at) == 58:
        second = _number_at(at + 1, 2, end)
        if second < 0 or second > 59:
            return 0, False
        micros += second * 1_000_000
        at += 3
        if at < end and byte_at(at) == 46:
            start = at + 1
            at = start
            unit = 100_000
            while at < end and 48 <= byte_at(at) <= 57:
                micros += np.int64(byte_at(at) - 48) * unit
                unit //= 10
                at += 1
            if at == start or at - start > 9:
                return 0, False
    if at == end:
        return micros, True
    offset, fine = _read_offset(at, end)
    return micros - offset * 60_000_000, fine and not local


@compiled
def _read_offset(at, end):  # type: ignore[no-untyped-def]
    # Minutes that a zone is ahead of UTC.
    if byte_at(at) == 90 or byte_at(at) == 122:
        return 0, at + 1 == end
    sign = 1 if byte_at(at) == 43 else -1
    hours = _number_at(at + 1, 2, end)
    if (byte_at(at) != 43 and byte_at(at) != 45) or hours < 0 or hours > 18:
        return 0, False
    at += 3
    if at == end:
        return sign * hours * 60, True
    if byte_at(at) == 58:
        at += 1
    minutes = _number_at(at, 2, end)
    return sign * (hours * 60 + minutes), 0 <= minutes <= 59 and at + 2 == end


@compiled
def scaled_epoch(value, unit):  # type: ignore[no-untyped-def]
    """Microseconds of a time in a unit of EPOCH_UNITS, and whether they fit."""
    if unit < 0:
        return value // -unit, True
    most = _MOST_EPOCH // unit
    return value * unit, -most <= value <= most


@compiled
def base64_length(at, end):  # type: ignore[no-untyped-def]
    """How many bytes the base64 text stands for, or -1."""
    length = end - at
    if length == 0:
        return 0
    if length % 4:
        return -1
    padding = 0
    if byte_at(end - 1) == 61:
        padding = 2 if byte_at(end - 2) == 61 else 1
    for place in range(at, end - padding):
        if _BASE64[byte_at(place)] < 0:
            return -1
    return length // 4 * 3 - padding


@compiled
def decode_base64(at, end, used):  # type: ignore[no-untyped-def]
    """Write the bytes of checked base64 text to the address `used`; returns the address after them."""
    bits, count = 0, 0
    for place in range(at, end):
        if byte_at(place) == 61:
            break
        bits = ((bits << 6) | _BASE64[byte_at(place)]) & 0xFFFFFF
        count += 6
        if count >= 8:
            count -= 8
            set_byte(used, (bits >> count) & 255)
            used += 1
    return used


@compiled
def read_base64_decimal(at, end, scratch, precision, scale, sent_scale):  # type: ignore[no-untyped-def]
    """Code, low and high word of a decimal that is base64 of bytes (Kafka Connect's Decimal)."""
    length = base64_length(at, end)
    if length <= 0 or length > 16 or sent_scale > scale:
        return BAD_TEXT, np.int64(0), np.int64(0)
    decode_base64(at, end, scratch)
    low, high = np.uint64(0), np.uint64(0)
    negative = byte_at(scratch) >= 128
    if negative:
        low, high = ~low, ~high
    for number in range(length):
        high = (high << np.uint64(8)) | (low >> np.uint64(56))
        low = (low << np.uint64(8)) | np.uint64(byte_at(scratch + number))
    if negative:
        low, high = _negated(low, high)
    most_low, most_high = np.uint64(1), np.uint64(0)
    for _ in range(precision - scale + sent_scale):
        most_low, most_high = _times_ten_plus(most_low, most_high, np.uint64(0))
    if high > most_high or (high == most_high and low >= most_low):
        return OUT_OF_RANGE, np.int64(0), np.int64(0)
    for _ in range(scale - sent_scale):
        low, high = _times_ten_plus(low, high, np.uint64(0))
    if negative:
        low, high = _negated(low, high)
    return OK, np.int64(low), np.int64(high)
