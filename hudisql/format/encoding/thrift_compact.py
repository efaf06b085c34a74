"""Structs of Thrift's compact protocol as values, without the types that an IDL file declares.

Supports the part of the protocol that parquet uses, which has no maps. A struct that is parsed and encoded
again has the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from hudisql.format.encoding.varints import (
    decode_protobuf_varint,
    encode_protobuf_varint,
    encode_zigzag_varint,
)

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
"""The protocol's numbers of types."""
_LONG_LIST: Final = 15
_DOUBLE_BYTES: Final = 8

ThriftStruct = dict[int, tuple[int, Any]]
"""Type and value of each field by its number, ascending. Values are int, bytes (doubles too), bool,
`ThriftList` and `ThriftStruct`."""


@dataclass(slots=True)
class ThriftList:
    """Elements of one type."""

    kind: int
    elements: list[Any]


def parse_struct(data: bytes | bytearray, position: int) -> tuple[ThriftStruct, int]:
    """The struct at `position` and the position after it. Raises ValueError, IndexError if there is
    none."""
    fields: ThriftStruct = {}
    number = 0
    while head := data[position]:
        position += 1
        kind, step = head & 15, head >> 4
        if step:
            number += step
        else:
            encoded, position = decode_protobuf_varint(data, position)
            number = _from_zigzag(encoded)
        if kind in (TRUE, FALSE):
            value: Any = kind == TRUE
        else:
            value, position = _parse_value(data, position, kind)
        fields[number] = (kind, value)
    return fields, position + 1


def encode_struct(fields: ThriftStruct) -> bytes:
    """The struct's bytes; the types of booleans follow their values."""
    parts: list[bytes] = []
    before = 0
    for number, (declared, value) in fields.items():
        kind = (TRUE if value else FALSE) if declared in (TRUE, FALSE) else declared
        step = number - before
        if 0 < step <= 15:
            parts.append(bytes([step << 4 | kind]))
        else:
            parts.append(bytes([kind]) + encode_zigzag_varint(number))
        if kind not in (TRUE, FALSE):
            parts.append(_encode_value(kind, value))
        before = number
    return b"".join((*parts, b"\0"))


def _parse_value(data: bytes | bytearray, position: int, kind: int) -> tuple[Any, int]:
    if kind in (I16, I32, I64):
        encoded, position = decode_protobuf_varint(data, position)
        return _from_zigzag(encoded), position
    if kind == BINARY:
        length, position = decode_protobuf_varint(data, position)
        return _bytes_at(data, position, length), position + length
    if kind == STRUCT:
        return parse_struct(data, position)
    if kind in (LIST, SET):
        return _parse_list(data, position)
    if kind in (TRUE, FALSE, BYTE):
        return data[position], position + 1
    if kind == DOUBLE:
        return _bytes_at(data, position, _DOUBLE_BYTES), position + _DOUBLE_BYTES
    raise ValueError(f"type {kind} of Thrift's compact protocol is not expected at byte {position}")


def _parse_list(data: bytes | bytearray, position: int) -> tuple[ThriftList, int]:
    head = data[position]
    position += 1
    count, kind = head >> 4, head & 15
    if count == _LONG_LIST:
        count, position = decode_protobuf_varint(data, position)
    elements = []
    for _ in range(count):
        element, position = _parse_value(data, position, kind)
        elements.append(element)
    return ThriftList(kind, elements), position


def _encode_value(kind: int, value: Any) -> bytes:
    if kind in (I16, I32, I64):
        return encode_zigzag_varint(value)
    if kind == BINARY:
        return encode_protobuf_varint(len(value)) + bytes(value)
    if kind == STRUCT:
        return encode_struct(value)
    if kind in (LIST, SET):
        count = len(value.elements)
        long = encode_protobuf_varint(count) if count >= _LONG_LIST else b""
        head = bytes([min(count, _LONG_LIST) << 4 | value.kind])
        return head + long + b"".join(_encode_value(value.kind, element) for element in value.elements)
    return bytes(value) if kind == DOUBLE else bytes([value])


def _bytes_at(data: bytes | bytearray, position: int, length: int) -> bytes:
    found = bytes(data[position : position + length])
    if len(found) < length:
        raise ValueError(f"{length} bytes are declared at byte {position}, {len(found)} are there")
    return found


def _from_zigzag(encoded: int) -> int:
    return (encoded >> 1) ^ -(encoded & 1)
