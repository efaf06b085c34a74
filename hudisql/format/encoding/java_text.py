"""Columns of numbers and dates as Java prints them: Hudi makes record keys and partition paths of that text.

Follows `Double.toString` and `Float.toString` of Java 8 to 18, which Apache Hudi runs on (Java 19 prints
fewer digits for some numbers beyond 2^53, floats 2^24, and for subnormal ones), `LocalDate.toString` and
`Timestamp.toString`. Whole columns by Arrow kernels; knows no record keys.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_PLAIN_FROM = 1e-3
_PLAIN_BELOW = 1e7
_SHORTEST = r"^(?P<sign>-?)(?P<whole>[0-9]+)(?:\.(?P<fraction>[0-9]+))?(?:e(?P<exponent>[-+]?[0-9]+))?$"

_TABLED_POWERS_OF_FIVE = 27


def render_floating(values: pa.Array) -> pa.StringArray:
    """Doubles or floats as `Double.toString` / `Float.toString` print them; nulls stay null."""
    text = pc.cast(values, pa.string())
    magnitude = pc.abs(values)
    in_plain_range = pc.or_(
        pc.and_(pc.greater_equal(magnitude, _PLAIN_FROM), pc.less(magnitude, _PLAIN_BELOW)),
        pc.equal(magnitude, 0.0),
    )
    with_point = pc.if_else(pc.match_substring(text, "."), text, pc.binary_join_element_wise(text, ".0", ""))
    if pc.all(in_plain_range, min_count=0).as_py():
        return with_point
    finite = pc.is_finite(values)
    special = pc.if_else(
        pc.is_nan(values), "NaN", pc.if_else(pc.greater(values, 0.0), "Infinity", "-Infinity")
    )
    rendered = pc.if_else(finite, with_point, special)
    needs_exponent = pc.fill_null(pc.and_not(finite, in_plain_range), False)
    if not pc.any(needs_exponent, min_count=0).as_py():
        return rendered
    scientific = _render_scientific(values.filter(needs_exponent), text.filter(needs_exponent))
    return pc.replace_with_mask(rendered, needs_exponent, scientific)


def _render_scientific(values: pa.Array, shortest: pa.Array) -> pa.Array:
    parts = pc.extract_regex(_digits_of_java(values, shortest), pattern=_SHORTEST)
    sign, whole, fraction, exponent = (
        pc.struct_field(parts, name) for name in ("sign", "whole", "fraction", "exponent")
    )
    digits = pc.binary_join_element_wise(whole, fraction, "")
    significant = pc.ascii_ltrim(digits, "0")
    leading_zeros = pc.subtract(pc.binary_length(digits), pc.binary_length(significant))
    written_exponent = pc.cast(
        pc.if_else(pc.equal(exponent, ""), "0", pc.replace_substring(exponent, "+", "")), pa.int32()
    )
    decimal_exponent = pc.subtract(
        pc.add(written_exponent, pc.subtract(pc.binary_length(whole), 1)), leading_zeros
    )
    trimmed = pc.ascii_rtrim(significant, "0")
    tail = pc.utf8_slice_codeunits(trimmed, 1)
    return pc.binary_join_element_wise(
        sign,
        pc.utf8_slice_codeunits(trimmed, 0, 1),
        ".",
        pc.if_else(pc.equal(tail, ""), "0", tail),
        "E",
        pc.cast(decimal_exponent, pa.string()),
        "",
    )


def _digits_of_java(values: pa.Array, shortest: pa.Array) -> pa.Array:
    """The shortest text of each number, except where Java before 19 prints other digits."""
    numbers = values.to_numpy(zero_copy_only=False)
    magnitude = np.abs(numbers.astype(np.float64))
    significant_bits = 24 if pa.types.is_float32(values.type) else 53
    replaced = shortest

    # Whole numbers below 2^63: all digits within the binary precision.
    is_whole = (magnitude >= 2.0**significant_bits) & (magnitude < 2.0**63)
    if is_whole.any():
        whole = magnitude[is_whole].astype(np.uint64)
        spare_bits = np.frexp(magnitude[is_whole])[1] - 2 - significant_bits
        unknown_digits = np.floor(np.maximum(spare_bits, 0) * math.log10(2)).astype(np.uint64)
        unit = np.uint64(10) ** unknown_digits
        rounded = (whole + np.where(unknown_digits > 0, unit // np.uint64(2), np.uint64(0))) // unit * unit
        text = pc.cast(pa.array(rounded), pa.string())
        negative = pa.array(numbers[is_whole] < 0)
        text = pc.if_else(negative, pc.binary_join_element_wise("-", text, ""), text)
        replaced = pc.replace_with_mask(replaced, pa.array(is_whole), text)

    # Beyond 2^63, for subnormal numbers and powers of two Java's digits are not always the shortest.
    is_subnormal = magnitude < float(np.finfo(numbers.dtype).smallest_normal)
    is_power_of_two = np.frexp(magnitude)[0] == 0.5
    is_odd = ~is_whole & ((magnitude >= 2.0**63) | is_subnormal | is_power_of_two)
    if is_odd.any():
        texts = [_spelled_by_java(float(number), significant_bits) for number in numbers[is_odd]]
        replaced = pc.replace_with_mask(replaced, pa.array(is_odd), pa.array(texts, pa.string()))
    return replaced


def _spelled_by_java(number: float, significant_bits: int) -> str:
    digits, power = java_digits(number, significant_bits)
    return f"{'-' if number < 0 else ''}{digits}e{power - len(digits) + 1}"


def render_date(values: pa.Array) -> pa.StringArray:
    """Days as `LocalDate.toString` prints them: ISO, with a sign where the year has not four digits."""
    text = pc.cast(pc.cast(values, pa.date32()), pa.string())
    is_late = pc.greater(pc.cast(pc.cast(values, pa.date32()), pa.int32()), 2_932_896)  # after 9999-12-31
    if not pc.any(is_late, min_count=0).as_py():
        return text
    return pc.if_else(is_late, pc.binary_join_element_wise("+", text, ""), text)


def epoch_micros(values: pa.Array) -> pa.Int64Array:
    """Timestamps of any unit as microseconds since 1970, rounded down."""
    unit = values.type.unit
    ticks = pc.cast(values, pa.int64())
    if unit == "ns":
        return pc.divide(pc.if_else(pc.less(ticks, 0), pc.subtract(ticks, 999), ticks), 1000)
    return pc.multiply_checked(ticks, {"s": 1_000_000, "ms": 1_000, "us": 1}[unit])


def render_sql_timestamp(values: pa.Array) -> pa.StringArray:
    """Timestamps as `java.sql.Timestamp.toString` prints their milliseconds in a JVM that runs in UTC."""
    millis = pc.divide(epoch_micros(values), 1000)
    text = pc.cast(pc.cast(millis, pa.timestamp("ms")), pa.string())
    return pc.replace_substring_regex(text, pattern=r"(\.[0-9]+?)0+$", replacement=r"\1")


def java_digits(value: float, significant_bits: int) -> tuple[str, int]:
    """The digits of a finite number other than 0, and the power of ten of the first one.

    `significant_bits` is 53 for a double and 24 for a float. The sign is left out.
    """
    fraction, exponent = math.frexp(abs(value))
    exponent -= 1
    smallest = -1074 if significant_bits == 53 else -149
    significant_bits = min(significant_bits, exponent - smallest + 1)  # subnormal numbers have fewer
    mantissa = int(math.ldexp(fraction, 53))
    trailing_zeros = (mantissa & -mantissa).bit_length() - 1
    mantissa >>= trailing_zeros
    mantissa_bits = 53 - trailing_zeros
    bits_after_point = max(0, mantissa_bits - exponent - 1)

    # Java's own estimate of floor(log10(value)), which may be one too high.
    power = math.floor((fraction * 2 - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)
    fives, fives_below = max(0, -power), max(0, power)
    twos = fives + bits_after_point + exponent
    twos_of_margin = twos - significant_bits - (1 if mantissa_bits == 1 else 0)
    twos -= mantissa_bits - 1
    twos_below = fives_below + bits_after_point
    common = min(twos, twos_below, twos_of_margin)
    twos, twos_below, twos_of_margin = twos - common, twos_below - common, twos_of_margin - common
    bits = max(mantissa_bits + twos + _bits_of_five(fives), twos_below + 1 + _bits_of_five(fives_below + 1))
    return _divide(
        mantissa * 5**fives << twos,
        5**fives_below << twos_below,
        5**fives << twos_of_margin,
        power,
        32 if bits < 32 else 64 if bits < 64 else None,
    )


def _bits_of_five(power: int) -> int:
    """How many bits Java counts for a power of five."""
    if power >= _TABLED_POWERS_OF_FIVE:
        return 3 * power
    return int(5**power).bit_length() if power else 0


def _divide(remainder: int, divisor: int, margin: int, power: int, width: int | None) -> tuple[str, int]:
    """The digits of remainder / divisor up to the margin, the last one rounded.

    `width` is the width of Java's integers, which overflow; None if nothing can overflow.
    """
    tens = 10 * divisor
    digits = ""
    is_first = True
    is_low = is_high = False
    while not (is_low or is_high):
        digit, remainder = divmod(remainder, divisor)
        remainder *= 10
        margin = _wrapped(10 * margin, width)
        is_low = remainder < margin
        is_high = _wrapped(remainder + margin, width) > tens
        if width is None:
            is_high = is_high or remainder + margin == tens
        elif margin <= 0 and not is_first:
            is_low = is_high = True
        if is_first and digit == 0 and not is_high:
            power -= 1  # the estimate was too high
        else:
            digits += str(digit)
        if is_first and not -3 <= power < 8:
            is_low = is_high = False  # Java prints at least one digit after the point
        is_first = False
    rest = _wrapped(_wrapped(2 * remainder, width) - tens, width)
    is_odd = int(digits[-1]) % 2 == 1
    if is_high and (not is_low or rest > 0 or (rest == 0 and is_odd)):
        rounded = str(int(digits) + 1)
        return rounded, power + len(rounded) - len(digits)
    return digits, power


def _wrapped(number: int, width: int | None) -> int:
    """A number as a Java integer of this many bits."""
    if width is None:
        return number
    half = 1 << (width - 1)
    return (number + half) % (2 * half) - half
