"""The types of columns as the statistics of a metadata table name them.

Follows `ValueType` of Hudi 1.2: the record that wraps a value, and the ordinal of its type.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import pyarrow as pa

from hudisql.format.schema.meta_columns import META_SCHEMA

DECIMAL_ORDINAL: Final = 10
DATE_ORDINAL: Final = 12
TEXT_WRAPPER: Final = "StringWrapper"
DECIMAL_WRAPPER: Final = "DecimalWrapper"
"""That of decimals in indexes of version V1."""
DATE_WRAPPER: Final = "DateWrapper"
"""That of dates in indexes of version V1."""
FIRST_DIGITS: Final = 15
"""The digits on either side of the point of decimals in indexes of version V1."""


@dataclass(frozen=True, slots=True)
class ValueKind:
    """The wrapper of the values of a type, the ordinal of the type, and its details as in `20,2`."""

    wrapper: str
    ordinal: int
    details: str | None = None


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """The decimal with these digits, exactly, whatever the precision of Python's context is."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def is_measured(kind: pa.DataType) -> bool:
    """True for the types of columns that have statistics: all but nested ones."""
    return value_kind(kind) is not None


def fits_first_form(kind: pa.DataType) -> bool:
    """True for measured types of which indexes of version V1 can hold values as Apache Hudi reads them.

    Decimals have up to 15 digits on either side of the point, and timestamps microseconds.
    """
    if pa.types.is_decimal(kind):
        return bool(kind.scale <= FIRST_DIGITS)
    return is_measured(kind) and not (pa.types.is_timestamp(kind) and kind.unit != "us")


def wrapper_in_first_form(ordinal: int | None, wrapper: str) -> str:
    """The wrapper in indexes of version V1, where it alone tells the type, of values that V2 wraps so."""
    return {DATE_ORDINAL: DATE_WRAPPER, DECIMAL_ORDINAL: DECIMAL_WRAPPER}.get(ordinal or 0, wrapper)


def digest_of_types(schema: pa.Schema, columns: Iterable[str]) -> str | None:
    """A text that is the same as long as the measured columns keep their types; None if one has no ranges.

    Columns that the schema lacks are left out. Fields of nested columns (`a.b`) have no ranges here.
    """
    types = {each.name: each.type for each in (*META_SCHEMA, *schema)}
    known = [name for name in columns if name in types or "." in name]
    kinds = {name: value_kind(types[name]) if name in types else None for name in known}
    texts = [f"({name!r}, {_text_of(kind)})" for name, kind in sorted(kinds.items()) if kind is not None]
    if len(texts) < len(kinds):
        return None
    return hashlib.md5(f"[{', '.join(texts)}]".encode(), usedforsecurity=False).hexdigest()


def _text_of(kind: ValueKind) -> str:
    # Tables have digests of these texts in their properties: they must not change.
    return f"_Kind(wrapper={kind.wrapper!r}, ordinal={kind.ordinal}, details={kind.details!r})"


_KINDS: Final = (
    (pa.types.is_boolean, ValueKind("BooleanWrapper", 2)),
    (lambda kind: pa.types.is_integer(kind) and kind.bit_width <= 32, ValueKind("IntWrapper", 3)),
    (pa.types.is_int64, ValueKind("LongWrapper", 4)),
    (pa.types.is_float32, ValueKind("FloatWrapper", 5)),
    (pa.types.is_float64, ValueKind("DoubleWrapper", 6)),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), ValueKind(TEXT_WRAPPER, 7)),
    (pa.types.is_binary, ValueKind("BytesWrapper", 8)),
    (pa.types.is_date32, ValueKind("IntWrapper", DATE_ORDINAL)),
)
_TIMESTAMPS: Final = {"ms": 15, "us": 16}
_LOCAL: Final = 3
"""The distance of the ordinals of timestamps without a time zone."""


def value_kind(kind: pa.DataType) -> ValueKind | None:
    """How values of the type are stored; None for types without statistics."""
    if pa.types.is_decimal(kind):
        return ValueKind("BytesWrapper", DECIMAL_ORDINAL, f"{kind.precision},{kind.scale}")
    if pa.types.is_timestamp(kind):
        ordinal = _TIMESTAMPS.get(kind.unit)
        return None if ordinal is None else ValueKind("LongWrapper", ordinal + (0 if kind.tz else _LOCAL))
    return next((found for is_kind, found in _KINDS if is_kind(kind)), None)
