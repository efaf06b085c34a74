"""Doubles and texts as decimals, and texts as dates, as Apache Hudi reads them after a change of type.

Follows `BigDecimal(text).setScale(scale, HALF_UP)` and `java.sql.Date.valueOf` of `HoodieAvroUtils` and
`SparkInternalSchemaConverter` of Hudi 0.15 and 1.2. Values for which these fail, or differ from each other,
raise an error. Whole columns by Arrow kernels.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import UnsupportedTableError
from hudisql.format.encoding.java_text import render_floating
from hudisql.format.schema.spark_schema import spark_type_name

_WIDE: Final = 76
_MORE_DIGITS: Final = 18
_NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_DAY: Final = r"^(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})$"
# Earlier days are other days in the calendar of java.sql.Date.
_FIRST_DAY: Final = "1582-10-15"


def decimals_of_doubles(array: pa.Array, wanted: pa.Decimal128Type, name: str) -> pa.Array:
    """The shortest text of each double, rounded half up; `name` is the column's for errors.

    Raises UnsupportedTableError for NaN, infinity and numbers that are too large.
    """
    largest = 10.0 ** (wanted.precision - wanted.scale)
    _check(array, pc.less(pc.abs(array), largest), wanted, name)
    # Half of the last digit is more than these: they are 0 as a decimal.
    is_small = pc.less(pc.abs(array), 10.0 ** -(wanted.scale + 1))
    text = render_floating(pc.if_else(is_small, 0.0, array))
    return _rounded(array, text, wanted, name)


def decimals_of_texts(array: pa.Array, wanted: pa.Decimal128Type, name: str) -> pa.Array:
    """The number of each text, rounded half up.

    Raises UnsupportedTableError for texts other than numbers, also for blanks around it, and for numbers
    that are too large.
    """
    _check(array, pc.match_substring_regex(array, _NUMBER), wanted, name)
    # Half up looks at one digit more.
    cut = rf"(\.[0-9]{{{wanted.scale + 1}}})[0-9]+$"
    return _rounded(array, pc.replace_substring_regex(array, pattern=cut, replacement=r"\1"), wanted, name)


def _rounded(array: pa.Array, text: pa.Array, wanted: pa.Decimal128Type, name: str) -> pa.Array:
    try:
        exact = pc.cast(text, pa.decimal256(_WIDE, wanted.scale + _MORE_DIGITS))
        rounded = pc.round(exact, ndigits=wanted.scale, round_mode="half_towards_infinity")
        return pc.cast(rounded, wanted)
    except pa.ArrowInvalid as error:
        raise _unconverted(array.type, wanted, name, "a number of more digits") from error


def dates_of_texts(array: pa.Array, name: str) -> pa.Array:
    """The day of each text `yyyy-m-d`; the 30th of February is the day after the 29th, as in Java.

    Raises UnsupportedTableError for other texts and for days before 1582-10-15.
    """
    parts = pc.extract_regex(array, pattern=_DAY)
    _check(array, pc.is_valid(parts), pa.date32(), name)
    month = pc.utf8_lpad(pc.struct_field(parts, "month"), 2, "0")
    day = pc.cast(pc.struct_field(parts, "day"), pa.int32())
    in_month = pc.and_(pc.greater_equal(day, 1), pc.less_equal(day, 31))
    in_year = pc.and_(pc.greater_equal(month, "01"), pc.less_equal(month, "12"))
    _check(array, pc.and_(in_month, in_year), pa.date32(), name)
    first = pc.cast(
        pc.binary_join_element_wise(pc.struct_field(parts, "year"), month, "01", "-"), pa.date32()
    )
    days = pc.cast(
        pc.add(pc.cast(first, pa.int32()), pc.subtract(day, pa.scalar(1, pa.int32()))), pa.date32()
    )
    earliest = pc.cast(pa.scalar(_FIRST_DAY), pa.date32())
    _check(array, pc.greater_equal(days, earliest), pa.date32(), name)
    return days


def _check(array: pa.Array, is_taken: pa.Array, wanted: pa.DataType, name: str) -> None:
    """Raise UnsupportedTableError with the first value that is not NULL and not taken."""
    refused = pc.and_(pc.is_valid(array), pc.invert(pc.fill_null(is_taken, False)))
    if pc.any(refused, min_count=0).as_py():
        first = array[pc.index(refused, True).as_py()].as_py()
        raise _unconverted(array.type, wanted, name, repr(first))


def _unconverted(stored: pa.DataType, wanted: pa.DataType, name: str, what: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"the column {name} is {spark_type_name(stored)} in older files and {spark_type_name(wanted)} now, "
        f"and holds {what}: no value of that type",
        hint=f"ALTER TABLE … ALTER COLUMN {name} TYPE {spark_type_name(stored)} makes it readable again; "
        "correct the value, then change the type again",
    )
