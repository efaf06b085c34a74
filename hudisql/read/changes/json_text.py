"""Arrow columns as JSON texts, whole columns at a time, for processes that have no Spark expressions.

Follows `JacksonGenerator` of Spark (`to_json` with `ignoreNullFields=false`), with time stamps in UTC.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.encoding.java_text import render_floating

_NULL: Final = "null"
_ESCAPED: Final = {
    "\\": "\\\\",
    '"': '\\"',
    **{chr(code): f"\\u{code:04X}" for code in range(32)},
    **{"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"},
}
_NEEDS_ESCAPE: Final = '["\\\\\\x00-\\x1f]'
_BASE64: Final = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8
)


def render_json(values: pa.Array) -> pa.StringArray:
    """One JSON text for each value; nulls stay null, and are `null` inside structs, lists and maps.

    Time stamps have three digits of a second and end with Z, without a time zone of their type they have no
    Z; binary values are Base64. Raises NotImplementedError for types that Hudi tables do not have.
    """
    return pc.if_else(values.is_valid(), _render(values), pa.scalar(None, pa.string()))


def _render(values: pa.Array) -> pa.Array:
    """The texts; `null` for nulls."""
    return pc.fill_null(_RENDERERS[_kind(values.type)](values), _NULL)


def _kind(data_type: pa.DataType) -> str:
    for kind, is_of_kind in _KINDS.items():
        if is_of_kind(data_type):
            return kind
    raise NotImplementedError(f"JSON text of the type {data_type}")


def _render_struct(values: pa.StructArray) -> pa.Array:
    parts: list[pa.Array | str] = []
    for position, field in enumerate(values.type):
        name = json.dumps(field.name, ensure_ascii=False)
        parts += [f"{',' if position else ''}{name}:", _render(values.field(position))]
    opening = pc.if_else(values.is_valid(), "{", pa.scalar(None, pa.string()))
    return pc.binary_join_element_wise(opening, *parts, "}", "")


def _render_list(values: pa.ListArray) -> pa.Array:
    return _joined(values, _render(_in_use(values, values.values)), "[", "]")


def _render_map(values: pa.MapArray) -> pa.Array:
    keys = _quoted(pc.cast(_in_use(values, values.keys), pa.string()))
    items = _render(_in_use(values, values.items))
    return _joined(values, pc.binary_join_element_wise(keys, items, ":"), "{", "}")


def _in_use(values: pa.Array, elements: pa.Array) -> pa.Array:
    """Only the elements of these lists or maps: a slice of an array shares those of the whole array."""
    first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
    return elements.slice(first, last - first)


def _joined(values: pa.Array, elements: pa.Array, opening: str, closing: str) -> pa.Array:
    """One text for each list or map, joined from the texts of its elements."""
    offsets = pc.subtract(values.offsets, values.offsets[0])
    texts = pc.binary_join(pa.ListArray.from_arrays(offsets, elements), ",")
    opened = pc.if_else(values.is_valid(), opening, pa.scalar(None, pa.string()))
    return pc.binary_join_element_wise(opened, texts, closing, "")


def _render_floating(values: pa.Array) -> pa.Array:
    texts = render_floating(values)
    return pc.if_else(pc.is_finite(values), texts, pc.binary_join_element_wise('"', texts, '"', ""))


def _render_timestamp(values: pa.Array) -> pa.Array:
    milliseconds = pc.floor_temporal(values, unit="millisecond").cast(pa.timestamp("ms", values.type.tz))
    ending = "Z" if values.type.tz else ""
    return pc.strftime(milliseconds, format=f'"%Y-%m-%dT%H:%M:%S{ending}"', locale="C")


def _quoted(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(texts, _NEEDS_ESCAPE), min_count=0).as_py():
        for character, escaped in _ESCAPED.items():
            texts = pc.replace_substring(texts, character, escaped)
    return pc.binary_join_element_wise('"', texts, '"', "")


def _render_binary(values: pa.Array) -> pa.Array:
    plain = pc.fill_null(values.cast(pa.binary()), b"")
    _, offsets_buffer, data_buffer = plain.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[plain.offset : plain.offset + len(plain) + 1]
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
    lengths = np.diff(offsets)
    triples = np.concatenate(([0], np.cumsum(-(-lengths // 3))))
    padded = np.zeros(triples[-1] * 3, dtype=np.uint8)
    padded[np.repeat(triples[:-1] * 3 - (offsets[:-1] - offsets[0]), lengths) + np.arange(len(data))] = data
    first, second, third = padded.reshape(-1, 3).T
    sextets = (first >> 2, (first & 3) << 4 | second >> 4, (second & 15) << 2 | third >> 6, third & 63)
    encoded = _BASE64[np.stack(sextets, axis=1)].ravel()
    encoded[triples[1:][lengths % 3 > 0] * 4 - 1] = ord("=")
    encoded[triples[1:][lengths % 3 == 1] * 4 - 2] = ord("=")
    text_offsets = pa.py_buffer((triples * 4).astype(np.int32))
    texts = pa.StringArray.from_buffers(len(plain), text_offsets, pa.py_buffer(encoded))
    quoted = pc.binary_join_element_wise('"', texts, '"', "")
    return pc.if_else(values.is_valid(), quoted, pa.scalar(None, pa.string()))


def _is_binary(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_binary(data_type) or pa.types.is_fixed_size_binary(data_type))


_KINDS: Final[Mapping[str, Callable[[pa.DataType], bool]]] = {
    "struct": pa.types.is_struct,
    "map": pa.types.is_map,
    "list": pa.types.is_list,
    "floating": pa.types.is_floating,
    "timestamp": pa.types.is_timestamp,
    "date": pa.types.is_date,
    "text": pa.types.is_string,
    "binary": _is_binary,
    "plain": lambda each: pa.types.is_integer(each) or pa.types.is_boolean(each) or pa.types.is_decimal(each),
}
_RENDERERS: Final[Mapping[str, Callable[[pa.Array], pa.Array]]] = {
    "struct": _render_struct,
    "map": _render_map,
    "list": _render_list,
    "floating": _render_floating,
    "timestamp": _render_timestamp,
    "date": lambda values: _quoted(values.cast(pa.string())),
    "text": _quoted,
    "binary": _render_binary,
    "plain": lambda values: values.cast(pa.string()),
}
