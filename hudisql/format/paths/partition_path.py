"""Partition paths: directory names from column values and back.

Follows `PartitionPathEncodeUtils` and `KeyGenUtils` of Hudi 0.15, whose escaping is Hive's
(`FileUtils.escapePathName`). Numbers are spelled as Java does. Pure text and values; no listing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation

import pyarrow as pa

from hudisql.errors import CorruptTableError
from hudisql.format.encoding.java_text import render_floating
from hudisql.format.encoding.java_time_zone import in_machine_zone, local_time

HIVE_DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Directory name that stands for a NULL (or empty) partition value."""

_ESCAPED_CHARACTERS = re.compile("[\x00-\x1f\"#%'*/:=?\\\\\x7f{\\[\\]^]")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_INFINITIES = {"infinity": math.inf, "-infinity": -math.inf}


def escape_partition_value(value: str) -> str:
    """A value as part of a directory name, escaped as Hive and Hudi's `urlencode` do."""
    return _ESCAPED_CHARACTERS.sub(lambda matched: f"%{ord(matched[0]):02X}", value)


def unescape_partition_value(text: str) -> str:
    """The value of an escaped part of a directory name; a `%` without two hex digits stays."""
    return _ESCAPE.sub(lambda matched: chr(int(matched[1], 16)), text)


def partition_path(
    fields: Sequence[str], values: Sequence[str | None], *, hive_style: bool, url_encode: bool
) -> str:
    """The path of a partition relative to the base path, from rendered values; "" without fields.

    NULL and empty values become `__HIVE_DEFAULT_PARTITION__`, as in Hudi's key generators.
    """
    directories = []
    for name, value in zip(fields, values, strict=True):
        text = value or HIVE_DEFAULT_PARTITION
        text = escape_partition_value(text) if url_encode else text
        directories.append(f"{name}={text}" if hive_style else text)
    return "/".join(directories)


def split_partition_path(
    path: str, fields: Sequence[str], *, url_encode: bool = True
) -> tuple[str | None, ...]:
    """The text of each partition column's value in a partition path, None for the NULL partition.

    `dt=` prefixes are taken off where they stand, since a bootstrap keeps the source's directory names even
    without Hive style. A table with one partition column may spread it over several directories
    (`2024/03/01`). With `url_encode` values are unescaped. Raises CorruptTableError if path and columns
    don't fit.
    """
    if not fields:
        return ()
    directories = path.split("/")
    if len(directories) != len(fields):
        if len(fields) > 1:
            raise CorruptTableError(
                f"partition path '{path}' has {len(directories)} directories for the columns "
                f"{', '.join(fields)}"
            )
        directories = [path]
    return tuple(
        _value_of_directory(directory, name, url_encode)
        for directory, name in zip(directories, fields, strict=True)
    )


def parse_partition_value(text: str | None, value_type: pa.DataType) -> object:
    """The value that a partition's text stands for, as a Python object of the column's Arrow type.

    Dates are ISO dates (also over several directories, `2024/03/01`) or days since the epoch, timestamps ISO
    (without a zone in that of this machine) or epoch microseconds: Hudi's key generators write either.
    Raises ValueError if the text is not a value of the type.
    """
    if text is None or pa.types.is_string(value_type) or pa.types.is_large_string(value_type):
        return text
    if pa.types.is_boolean(value_type):
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise ValueError(f"not a boolean: '{text}'")
        return lowered == "true"
    if pa.types.is_integer(value_type):
        if not _INTEGER.fullmatch(text):
            raise ValueError(f"not an integer: '{text}'")
        return pa.scalar(int(text), value_type).as_py()
    if pa.types.is_floating(value_type):
        return _parse_floating(text, value_type)
    if pa.types.is_decimal(value_type):
        return _parse_decimal(text, value_type)
    if pa.types.is_date(value_type):
        return _parse_date(text)
    if pa.types.is_timestamp(value_type):
        return _parse_timestamp(text, value_type)
    if pa.types.is_binary(value_type) or pa.types.is_large_binary(value_type):
        return text.encode()
    raise ValueError(f"a partition column can't be of type {value_type}")


def same_value(one: object, other: object) -> bool:
    """True if two partition values are equal in SQL, where NaN equals NaN and NULL is one value."""
    return one == other or (_is_nan(one) and _is_nan(other))


def unique_values(values: Sequence[object]) -> tuple[object, ...]:
    """Partition values as the key of a dictionary: equal for values that are equal in SQL.

    Every NaN becomes the same text, which no column of numbers holds. 0.0 equals -0.0 in Python, too.
    """
    return tuple("NaN" if _is_nan(value) else value for value in values)


def render_partition_value(value: object, value_type: pa.DataType) -> str | None:
    """The text of a typed partition value as the metastore, Hive and Spark have it (not escaped).

    Floating-point numbers have the text of Java's `Float.toString` and `Double.toString`; -0.0 is 0.0, which
    it equals in SQL.
    """
    if value is None:
        return None
    if pa.types.is_floating(value_type):
        text: str = render_floating(pa.array([value or 0.0], value_type))[0].as_py()
        return text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        moment = in_machine_zone(value) if value.tzinfo else value
        text = moment.replace(tzinfo=None).isoformat(" ", "seconds")
        return f"{text}.{moment.microsecond:06d}".rstrip("0") if moment.microsecond else text
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{_of_scale(value, value_type):f}"
    if isinstance(value, bytes):
        return value.decode()
    return str(value)


def render_directory_value(value: object, value_type: pa.DataType) -> str | None:
    """The text by which Hudi's key generators name the directory of a value (not escaped).

    As `render_partition_value`, except for decimals, which have the text of Java's `BigDecimal.toString`
    (1E-7).
    """
    if isinstance(value, Decimal):
        return str(_of_scale(value, value_type))
    return render_partition_value(value, value_type)


def _value_of_directory(directory: str, name: str, url_encode: bool) -> str | None:
    prefix, separator, rest = directory.partition("=")
    if separator and (prefix == name or unescape_partition_value(prefix).lower() == name.lower()):
        directory = rest
    if directory == HIVE_DEFAULT_PARTITION:
        return None
    return unescape_partition_value(directory) if url_encode else directory


def _parse_floating(text: str, value_type: pa.DataType) -> float:
    """The nearest float (or double) to the text, as Java's `Float.parseFloat`, in a Python float."""
    infinity = _INFINITIES.get(text.lower())
    if infinity is not None:
        return infinity
    value: float = pa.scalar(text.removeprefix("+")).cast(value_type).as_py()
    return value


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _of_scale(value: Decimal, value_type: pa.DataType) -> Decimal:
    """The number in the scale of its type: PySpark pickles 1E-8 as 10E-9, which has one more digit."""
    return value.quantize(Decimal(1).scaleb(-value_type.scale), context=Context(prec=40))


def _parse_decimal(text: str, value_type: pa.DataType) -> Decimal:
    try:
        value = Decimal(text)
        rounded = _of_scale(value, value_type)
    except InvalidOperation as error:
        raise ValueError(f"not a {value_type}: '{text}'") from error
    if (
        not value.is_finite()
        or rounded != value
        or rounded.adjusted() >= value_type.precision - value_type.scale
    ):
        raise ValueError(f"not a {value_type}: '{text}'")
    return rounded


def _parse_date(text: str) -> date:
    if _INTEGER.fullmatch(text):
        return date(1970, 1, 1) + timedelta(days=int(text))
    return date.fromisoformat(text.replace("/", "-"))


def _parse_timestamp(text: str, value_type: pa.DataType) -> datetime:
    if _INTEGER.fullmatch(text):
        moment = _EPOCH + timedelta(microseconds=int(text))
    else:
        moment = datetime.fromisoformat(text)
        if value_type.tz is None and moment.tzinfo is None:
            return moment
        moment = (moment if moment.tzinfo else local_time(moment)).astimezone(UTC)
    return moment if value_type.tz else moment.replace(tzinfo=None)
