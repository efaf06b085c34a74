"""The values of the expressions that expression indexes have of a column, as ranges.

Follows `ExpressionIndexSparkFunctions` of Hudi 1.2, whose functions are Spark's. Ranges may be wider than the
values, never narrower. Those of functions of dates and moments follow from the range of the column, for all
time zones: a filter is evaluated in that of its session. Those of texts follow from the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.metadata_table.column_bounds import GREATEST_TEXT

ANY_TEXT: Final = ("", GREATEST_TEXT)
"""A range of all texts."""
_ANY_NUMBER: Final = (-(2**31), 2**31 - 1)
_FORMAT: Final = "format"
_DAYS: Final = "days"
_POSITION, _LENGTH = "pos", "len"
_OPTIONS_OF: Final[Mapping[str, frozenset[str]]] = {
    "date_format": frozenset({_FORMAT}),
    "from_unixtime": frozenset({_FORMAT}),
    "date_add": frozenset({_DAYS}),
    "date_sub": frozenset({_DAYS}),
    "substring": frozenset({_POSITION, _LENGTH}),
}
_DEFAULT_FORMAT: Final = "yyyy-MM-dd HH:mm:ss"
_PATTERN: Final = re.compile(r"yyyy(?:([-/.]?)MM(?:\1dd(?: HH(?::mm(?::ss)?)?)?)?)?")
"""Patterns of `DateTimeFormatter` whose texts have the order of the moments."""
_DIRECTIVES: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_FIRST_YEAR: Final = 1600
"""Before it texts depend on the calendar that Spark formats by."""
_MOST_OFFSET: Final = 18 * 3600
"""The seconds between UTC and any time zone of Spark, at most."""
_UNITS: Final = {"ms": 1000, "us": 1_000_000}
"""How many units of timestamps a second has."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,9}")
Range = tuple[int | str, int | str]


def expression_type(function: str, options: Mapping[str, str], kind: pa.DataType) -> pa.DataType | None:
    """The type of the expression's values for a column of this type; None for expressions not known here.

    `options` are those of the index without `expr`.
    """
    if not {*options} <= _OPTIONS_OF.get(function, frozenset()):
        return None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _type_of_text(function, options)
    if pa.types.is_integer(kind):
        is_known = function == "from_unixtime" and kind in (pa.int32(), pa.int64()) and _is_ordered(options)
        return pa.string() if is_known else None
    if not (pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.unit in _UNITS)):
        return None
    if function == "date_format":
        return pa.string() if _FORMAT in options and _is_ordered(options) else None
    if function in ("date_add", "date_sub"):
        return pa.date32() if pa.types.is_date32(kind) and _is_number(options.get(_DAYS)) else None
    if function == "to_date":
        return pa.date32()
    is_whole = function in _PARTS and not (function == "hour" and pa.types.is_date32(kind))
    return pa.int32() if is_whole else None


def is_of_texts(kind: pa.DataType) -> bool:
    """True for types of columns of which `range_of_texts` gives the range, not `range_of_bounds`."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def range_of_bounds(
    function: str, options: Mapping[str, str], kind: pa.DataType, least: int, greatest: int
) -> Range:
    """The range of an expression by the least and greatest value of a column that is not of texts.

    Values are days of dates, the unit of timestamps, and whole numbers; so are those of the result.
    """
    if pa.types.is_date32(kind):
        if function in ("date_add", "date_sub"):
            return _moved(least, greatest, int(options[_DAYS]) * (1 if function == "date_add" else -1))
        # Days begin later where the clocks are set forward at midnight.
        seconds = (least * 86400, greatest * 86400 + (86400 if function == "date_format" else 0))
    else:
        units = _UNITS[kind.unit] if pa.types.is_timestamp(kind) else 1
        seconds = (least // units - _MOST_OFFSET, greatest // units + _MOST_OFFSET)
    if function in ("date_format", "from_unixtime"):
        return _texts(seconds, options.get(_FORMAT, _DEFAULT_FORMAT))
    if function == "to_date":
        return (seconds[0] // 86400, seconds[1] // 86400)
    return _PARTS[function](*(np.datetime64(found // 3600, "h") for found in seconds))


def range_of_texts(function: str, options: Mapping[str, str], texts: pa.Array) -> Range | None:
    """The range of an expression of these texts; None if all are null."""
    known = texts.drop_null().cast(pa.large_string())
    if not len(known):
        return None
    try:
        least, greatest = _OF_TEXTS[function](known, options)
        return pc.min(least).as_py(), pc.max(greatest).as_py()
    except (pa.ArrowInvalid, UnicodeDecodeError):
        # Bytes that are no text.
        return (0, _ANY_NUMBER[1]) if function == "length" else ANY_TEXT


def _type_of_text(function: str, options: Mapping[str, str]) -> pa.DataType | None:
    if function == "substring":
        position, length = options.get(_POSITION), options.get(_LENGTH)
        is_known = _is_number(position) and _is_number(length) and int(position or 0) > 0
        return pa.string() if is_known and int(length or 0) >= 0 else None
    if function not in _OF_TEXTS:
        return None
    return pa.int32() if function == "length" else pa.string()


def _is_ordered(options: Mapping[str, str]) -> bool:
    return _PATTERN.fullmatch(options.get(_FORMAT, _DEFAULT_FORMAT)) is not None


def _is_number(text: str | None) -> bool:
    return text is not None and _NUMBER.fullmatch(text) is not None


def _moved(least: int, greatest: int, days: int) -> Range:
    moved = (least + days, greatest + days)
    return moved if _ANY_NUMBER[0] <= moved[0] and moved[1] <= _ANY_NUMBER[1] else _ANY_NUMBER


def _texts(seconds: tuple[int, int], pattern: str) -> Range:
    try:
        moments = [_EPOCH + timedelta(seconds=found) for found in seconds]
    except OverflowError:
        return ANY_TEXT
    if moments[0].year < _FIRST_YEAR:
        return ANY_TEXT
    directives = re.sub("|".join(_DIRECTIVES), lambda found: _DIRECTIVES[found[0]], pattern)
    return moments[0].strftime(directives), moments[1].strftime(directives)


def _part(unit: str, within: str | None, first: int, last: int) -> Callable[..., Range]:
    """The range of a part of moments: that of all of them, if they are not in one next larger unit."""

    def of_moments(least: np.datetime64, greatest: np.datetime64) -> Range:
        if within is None:
            return _number(least, unit, within), _number(greatest, unit, within)
        if least.astype(f"M8[{within}]") != greatest.astype(f"M8[{within}]"):
            return first, last
        return first + _number(least, unit, within), first + _number(greatest, unit, within)

    return of_moments


def _number(moment: np.datetime64, unit: str, within: str | None) -> int:
    """How many units a moment is after the beginning of its larger unit, or its year."""
    count = moment.astype(f"M8[{unit}]")
    if within is None:
        return int(count.astype(np.int64)) + 1970
    return int((count - moment.astype(f"M8[{within}]").astype(f"M8[{unit}]")).astype(np.int64))


_PARTS: Final[Mapping[str, Callable[..., Range]]] = {
    "year": _part("Y", None, 0, 0),
    "month": _part("M", "Y", 1, 12),
    "day": _part("D", "M", 1, 31),
    "hour": _part("h", "D", 0, 23),
}


def _changed_case(change: Callable[[pa.Array], pa.Array]) -> Callable[..., tuple[pa.Array, pa.Array]]:
    """Other characters than those of ASCII may become any: a text counts up to the first of them."""

    def of_texts(texts: pa.Array, _options: Mapping[str, str]) -> tuple[pa.Array, pa.Array]:
        changed = change(texts)
        beginnings = pc.replace_substring_regex(changed, r"(?s)[^\x00-\x7f].*", "")
        is_whole = pc.equal(pc.binary_length(beginnings), pc.binary_length(changed))
        end = pa.scalar(GREATEST_TEXT, changed.type)
        above = pc.binary_join_element_wise(beginnings, end, pa.scalar("", changed.type))
        return beginnings, pc.if_else(is_whole, changed, above)

    return of_texts


def _whole(function: Callable[..., pa.Array]) -> Callable[..., tuple[pa.Array, pa.Array]]:
    def of_texts(texts: pa.Array, options: Mapping[str, str]) -> tuple[pa.Array, pa.Array]:
        values = function(texts, options)
        return values, values

    return of_texts


def _substring(texts: pa.Array, options: Mapping[str, str]) -> pa.Array:
    start = int(options[_POSITION]) - 1
    return pc.utf8_slice_codeunits(texts, start, start + int(options[_LENGTH]))


_OF_TEXTS: Final[Mapping[str, Callable[..., tuple[pa.Array, pa.Array]]]] = {
    "upper": _changed_case(pc.ascii_upper),
    "lower": _changed_case(pc.ascii_lower),
    "trim": _whole(lambda texts, _: pc.utf8_trim(texts, " ")),
    "ltrim": _whole(lambda texts, _: pc.utf8_ltrim(texts, " ")),
    "rtrim": _whole(lambda texts, _: pc.utf8_rtrim(texts, " ")),
    "length": _whole(lambda texts, _: pc.utf8_length(texts)),
    "substring": _whole(_substring),
}
