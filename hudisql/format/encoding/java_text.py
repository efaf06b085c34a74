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

from hudisql.format.encoding.java_digits import java_digits

_PLAIN_FROM = 1e-3
_PLAIN_BELOW = 1e7
_SHORTEST = r"^(?P<sign>-?)(?P<whole>[0-9]+)(?:\.(?P<fraction>[0-9]+))?(?:e(?P<exponent>[-+]?[0-9]+))?$"


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
