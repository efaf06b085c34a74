"""Directory names from timestamps, as Hudi's timestamp-based key generator makes them.

Follows `TimestampBasedAvroKeyGenerator` and `HoodieDateTimeParser` of Hudi 0.15 for the letters of Joda's
patterns that name numbers. Whole columns; knows no tables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import UnsupportedTableError, WriteRefusedError

UNITS: Final = {
    "NANOSECONDS": (1, 1_000_000),
    "MICROSECONDS": (1, 1_000),
    "MILLISECONDS": (1, 1),
    "SECONDS": (1_000, 1),
    "MINUTES": (60_000, 1),
    "HOURS": (3_600_000, 1),
    "DAYS": (86_400_000, 1),
}
"""Hudi's names of units, each with the factor and the divisor that convert a number to milliseconds."""
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_OFFSET = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2})(?::?(\d{2}))?", re.ASCII)
# For each pattern letter the Arrow function that gives its number, and the expression that reads it.
_PARTS: Final[dict[str, Any]] = {
    "y": pc.year,
    "Y": pc.year,
    "M": pc.month,
    "d": pc.day,
    "D": pc.day_of_year,
    "H": pc.hour,
    "m": pc.minute,
    "s": pc.second,
    "S": pc.millisecond,
}
_READ: Final = {"y": r"\d{4}", "Y": r"\d{4}", "S": r"\d{1,9}", "Z": r"[+-]\d{2}:?\d{2}|Z"}
_DEFAULT_NUMBER: Final = 1


@dataclass(frozen=True, slots=True)
class TimestampBasedKeyGenerator:
    """How points in time become directory names.

    `unit` is that of numbers, None where the values are texts in one of `input_formats`. Without an
    `output_zone` the text's time of day is used. Patterns are Joda's.
    """

    output_format: str
    output_zone: str | None
    unit: str | None = None
    input_formats: tuple[str, ...] = ()
    input_zone: str | None = None

    def names(self, values: pa.Array) -> pa.StringArray:
        """The directory name of each value; null is the first moment after the epoch, as in Hudi.

        Raises WriteRefusedError for texts that fit no pattern, UnsupportedTableError for unsupported patterns
        and types.
        """
        encoded = values.dictionary_encode() if pa.types.is_string(values.type) else None
        if encoded is None:
            return format_times(self._local_of_numbers(values), self.output_format)
        names = format_times(self._local_of_texts(encoded.dictionary), self.output_format)
        of_null = format_times(_naive(np.array([_DEFAULT_NUMBER])), self.output_format)[0]
        return pc.fill_null(names.take(encoded.indices), of_null)

    def _local_of_numbers(self, values: pa.Array) -> pa.Array:
        if self.unit is None:
            raise UnsupportedTableError(
                f"values of type {values.type} are not text, which the input format needs"
            )
        factor, divisor = UNITS[self.unit]
        numbers = pc.fill_null(_whole_numbers(values), _DEFAULT_NUMBER).to_numpy(zero_copy_only=False)
        # Java divides towards zero.
        millis = np.sign(numbers) * (np.abs(numbers) // divisor) * factor
        return _in_zone(millis, self.output_zone or "UTC")

    def _local_of_texts(self, texts: pa.StringArray) -> pa.Array:
        if not self.input_formats:
            raise UnsupportedTableError("values are texts, and no pattern says how to read them")
        millis = np.zeros(len(texts), np.int64)
        offsets = np.zeros(len(texts), np.int64)
        has_offset, is_read = np.zeros((2, len(texts)), np.bool_)
        for pattern in self.input_formats:
            read_times = _read_times(texts, pattern)
            new = read_times.is_read & ~is_read
            for mine, theirs in (
                (millis, read_times.millis),
                (offsets, read_times.offsets),
                (has_offset, read_times.has_offset),
            ):
                mine[new] = theirs[new]
            is_read |= new
        if not is_read.all():
            text = texts[int(np.flatnonzero(~is_read)[0])].as_py()
            raise WriteRefusedError(
                f"'{text}' cannot be read by the pattern {' or '.join(self.input_formats)}, which makes the "
                "partition's directory",
                hint="write values of that form, or set hoodie.keygen.timebased.input.dateformat",
            )
        if self.output_zone is None:
            return _naive(millis)
        local = pc.assume_timezone(
            _naive(millis), timezone=self.input_zone or "UTC", ambiguous="earliest", nonexistent="earliest"
        )
        instants = pc.cast(pc.cast(local, pa.timestamp("ms", "UTC")), pa.int64()).to_numpy()
        return _in_zone(np.where(has_offset, millis - offsets, instants), self.output_zone)


def zone_id(name: str) -> str:
    """Java's id of a time zone as Arrow takes it. Raises UnsupportedTableError for an unknown one."""
    matched = _OFFSET.fullmatch(name)
    if matched:
        return f"{matched[1]}{int(matched[2]):02d}:{matched[3] or '00'}"
    if name in ("GMT", "UTC", "Z"):
        return "UTC"
    try:
        return ZoneInfo(name).key
    except (ValueError, OSError, KeyError) as error:
        raise UnsupportedTableError(f"the time zone '{name}' of a key generator is not known") from error


def format_times(local: pa.Array, pattern: str) -> pa.StringArray:
    """Local times as texts by a Joda pattern. Raises UnsupportedTableError for unsupported letters."""
    pieces: list[Any] = []
    for literal, letter, count in _tokens(pattern):
        if letter is None:
            pieces.append(pa.scalar(literal))
            continue
        if letter not in _PARTS or (letter == "M" and count > 2):
            raise UnsupportedTableError(
                f"the pattern '{pattern}' of a key generator has '{letter * count}', which is not supported"
            )
        text = pc.cast(_PARTS[letter](local), pa.string())
        if letter in "yY" and count == 2:
            text = pc.utf8_slice_codeunits(pc.utf8_lpad(text, 4, "0"), 2)
        elif letter == "S":
            text = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.utf8_lpad(text, 3, "0"), count, "0"), 0, count)
        pieces.append(pc.utf8_lpad(text, count, "0"))
    return pc.binary_join_element_wise(*pieces, "")


@dataclass(frozen=True, slots=True)
class _ReadTimes:
    """Texts as local milliseconds, with the offset in the text."""

    millis: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    has_offset: npt.NDArray[np.bool_]
    is_read: npt.NDArray[np.bool_]


def _read_times(texts: pa.StringArray, pattern: str) -> _ReadTimes:
    expression = ""
    letters = []
    for literal, letter, count in _tokens(pattern):
        if letter is None:
            expression += re.escape(literal)
            continue
        known = letter in "yYMdHmsSZ" and not (letter == "M" and count > 2) and letter not in letters
        if not known or (letter in "yY" and count != 4):
            raise UnsupportedTableError(
                f"the pattern '{pattern}' of a key generator has '{letter * count}', which is not supported"
            )
        letters.append(letter)
        expression += f"(?P<{letter}>{_READ.get(letter, '[0-9]{1,2}')})"
    found = pc.extract_regex(texts, f"^{expression}$")
    is_read = found.is_valid().to_numpy(zero_copy_only=False)

    def numbers(letter: str, default: int) -> npt.NDArray[np.int64]:
        if letter not in letters:
            return np.full(len(texts), default, np.int64)
        part = pc.struct_field(found, letter)
        if letter == "S":
            part = pc.utf8_slice_codeunits(pc.utf8_rpad(part, 3, "0"), 0, 3)
        return np.asarray(pc.fill_null(pc.cast(part, pa.int64()), default).to_numpy(zero_copy_only=False))

    year = numbers("y", 1970) if "y" in letters else numbers("Y", 1970)
    months = (year - 1970) * 12 + numbers("M", 1) - 1
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + numbers("d", 1) - 1
    minutes = (days * 24 + numbers("H", 0)) * 60 + numbers("m", 0)
    millis = (minutes * 60 + numbers("s", 0)) * 1000 + numbers("S", 0)
    offsets = np.zeros(len(texts), np.int64)
    if "Z" in letters:
        text = pc.replace_substring_regex(pc.struct_field(found, "Z"), r"[+:]", "")
        number = pc.fill_null(pc.cast(pc.replace_substring(text, "Z", "0"), pa.int64()), 0).to_numpy(
            zero_copy_only=False
        )
        offsets = np.sign(number) * ((np.abs(number) // 100) * 60 + np.abs(number) % 100) * 60_000
    return _ReadTimes(millis, offsets, is_read & ("Z" in letters), is_read)


def _tokens(pattern: str) -> Sequence[tuple[str, str | None, int]]:
    """Literal text, or a letter with its count."""
    found: list[tuple[str, str | None, int]] = []
    for matched in _TOKEN.finditer(pattern):
        if matched[2] is not None:
            found.append(("", matched[2], len(matched[0])))
        elif matched[1] is not None:
            found.append((matched[1].replace("''", "'") or "'", None, 0))
        else:
            found.append((matched[0], None, 0))
    return found


def _whole_numbers(values: pa.Array) -> pa.Array:
    types = pa.types
    if types.is_integer(values.type) or types.is_date32(values.type):
        return pc.cast(values.view(pa.int32()) if types.is_date32(values.type) else values, pa.int64())
    if types.is_floating(values.type) or types.is_decimal(values.type):
        return pc.cast(pc.trunc(values), pa.int64())
    if types.is_timestamp(values.type):
        # Hudi treats the microseconds of its records as a number in the unit.
        return pc.cast(pc.cast(values, pa.timestamp("us", values.type.tz)), pa.int64())
    raise UnsupportedTableError(f"values of type {values.type} are not timestamps for a key generator")


def _naive(millis: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(millis.astype("datetime64[ms]"))


def _in_zone(millis: npt.NDArray[np.int64], zone: str) -> pa.Array:
    return pc.local_timestamp(pa.array(millis, pa.int64()).cast(pa.timestamp("ms", zone)))
