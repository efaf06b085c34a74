"""The keys of secondary indexes in a metadata table: the value of a column, then the record key.

Follows `SecondaryIndexKeyUtils` and `SecondaryIndexRecordGenerationUtils` of Hudi 1.2, which takes the text
of the value as Spark holds it: days, and microseconds since 1970. Takes Arrow columns, whole; knows no files.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.encoding.java_text import epoch_micros, render_floating

SEPARATOR: Final = "$"
_ESCAPE: Final = "\\"
_NULL: Final = "\0"
# The value with its separator: characters that are no separator, or that are escaped.
_VALUE_PART: Final = r"(?s)^(?P<value>(?:[^\\$]|\\.)*\$)"


def has_secondary_keys(kind: pa.DataType) -> bool:
    """True for the types of columns of which Hudi makes secondary indexes."""
    types = pa.types
    return (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_signed_integer(kind)
        or types.is_float32(kind)
        or types.is_float64(kind)
        or types.is_date32(kind)
        or (types.is_timestamp(kind) and kind.tz is not None)
    )


def has_same_texts(old: pa.DataType, new: pa.DataType) -> bool:
    """True if the values of both types have the same texts: those of whole numbers of any width."""
    is_whole: bool = pa.types.is_signed_integer(old) and pa.types.is_signed_integer(new)
    return is_whole or old == new


def texts_of_values(values: pa.Array) -> pa.Array:
    """The texts of the values of a column of a type of `has_secondary_keys`, as large strings."""
    kind = values.type
    if pa.types.is_floating(kind):
        texts = render_floating(values)
    elif pa.types.is_date32(kind):
        texts = values.cast(pa.int32()).cast(pa.string())
    elif pa.types.is_timestamp(kind):
        texts = epoch_micros(values).cast(pa.string())
    else:
        texts = values
    return texts.cast(pa.large_string())


def value_parts(texts: pa.Array) -> pa.Array:
    """What the keys of these texts of values (nulls too) begin with: the text and the separator, escaped."""
    escaped = pc.coalesce(_escaped(texts), pa.scalar(_NULL, texts.type))
    return _joined(escaped, pa.scalar(SEPARATOR, texts.type))


def secondary_keys(texts: pa.Array, record_keys: pa.Array) -> pa.Array:
    """The keys of rows with these texts of values and record keys, both large strings."""
    return _joined(value_parts(texts), _escaped(record_keys))


def value_parts_of_keys(keys: pa.Array) -> pa.Array:
    """The beginnings of keys, as of `value_parts`; null for texts that are no keys."""
    return pc.struct_field(pc.extract_regex(keys, pattern=_VALUE_PART), "value")


def record_keys_of(keys: pa.Array) -> pa.Array:
    """The record keys in keys of the index."""
    escaped = pc.struct_field(pc.extract_regex(keys, pattern=_VALUE_PART + "(?P<key>.*)$"), "key")
    return pc.replace_substring_regex(escaped, pattern=r"(?s)\\(.)", replacement=r"\1")


def _joined(texts: pa.Array, others: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(texts, others, pa.scalar("", texts.type))


def _escaped(texts: pa.Array) -> pa.Array:
    for character in (_ESCAPE, SEPARATOR, _NULL):
        texts = pc.replace_substring(texts, pattern=character, replacement=_ESCAPE + character)
    return texts
