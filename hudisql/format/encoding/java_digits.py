"""The decimal digits that Java prints of one floating-point number.

Follows `FloatingDecimal.BinaryToASCIIBuffer.dtoa` of Java 8 to 18, whose digits are not always the shortest
ones: the smallest double is `4.9E-324`, not `5.0E-324`. Meant for the rare numbers for which the two differ;
`java_text` renders whole columns.
"""

from __future__ import annotations

import math

_TABLED_POWERS_OF_FIVE = 27


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
