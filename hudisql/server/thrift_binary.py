"""Thrift's binary protocol, read within limits and written from nested values.

Follows the Thrift specification of the strict binary protocol. A struct that is read becomes a mapping of
field number to value; one that is written is a sequence of (field number, type, value). Lengths and counts
are checked against the bytes that a message may still have, before anything is allocated for them. Knows no
service.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from hudisql.errors import ProtocolError

STOP: Final = 0
BOOL: Final = 2
BYTE: Final = 3
DOUBLE: Final = 4
I16: Final = 6
I32: Final = 8
I64: Final = 10
STRING: Final = 11
STRUCT: Final = 12
MAP: Final = 13
SET: Final = 14
LIST: Final = 15

CALL: Final = 1
REPLY: Final = 2
EXCEPTION: Final = 3

_VERSION_1: Final = 0x8001_0000
_VERSION_MASK: Final = 0xFFFF_0000
_LONGEST_NAME: Final = 128
_DEEPEST: Final = 16
# A value takes a hundred times its encoded bytes; requests have some dozens of values.
_MOST_VALUES: Final = 100_000
_NUMBERS: Final = {
    BYTE: struct.Struct(">b"),
    DOUBLE: struct.Struct(">d"),
    I16: struct.Struct(">h"),
    I32: struct.Struct(">i"),
    I64: struct.Struct(">q"),
}
# The least encoded bytes of a value of each type.
_LEAST: Final = {
    **{BOOL: 1, BYTE: 1, DOUBLE: 8, I16: 2, I32: 4, I64: 8},
    **{STRING: 4, STRUCT: 1, MAP: 6, SET: 5, LIST: 5},
}
_I32: Final = _NUMBERS[I32]

Fields = dict[int, Any]
Field = tuple[int, int, Any]
StructValue = Sequence[Field]


class ByteSource(Protocol):
    """Source of a message's bytes."""

    def take(self, count: int) -> bytes:
        """The next `count` bytes. Raises ProtocolError if the message ends before."""


@dataclass(frozen=True)
class Message:
    """A request: its method, its number, its arguments by field number."""

    method: str
    kind: int
    number: int
    arguments: Fields


@dataclass(frozen=True)
class ListOf:
    """A list to write: the type of its elements, and the elements, or `count` elements already encoded."""

    kind: int
    items: Sequence[Any] = ()
    encoded: bytes | None = None
    count: int = 0


@dataclass(frozen=True)
class MapOf:
    """A map to write."""

    key_kind: int
    value_kind: int
    items: Sequence[tuple[Any, Any]]


class _Budget:
    """Limits the source to the bytes that one message may have."""

    def __init__(self, source: ByteSource, most: int) -> None:
        self._source = source
        self._most = most
        self.left = most
        self.values_left = _MOST_VALUES

    def take(self, count: int) -> bytes:
        self.check(count)
        self.left -= count
        return self._source.take(count)

    def check(self, count: int) -> None:
        if count < 0:
            raise ProtocolError(f"a length in the message is negative: {count}")
        if count > self.left:
            raise ProtocolError(f"the message is longer than {self._most} bytes, or damaged")


def read_message(source: ByteSource, most_bytes: int) -> Message:
    """Read one message of at most `most_bytes`. Raises ProtocolError for malformed or larger ones."""
    budget = _Budget(source, most_bytes)
    head = _read_i32(budget) & 0xFFFF_FFFF
    if head & _VERSION_MASK != _VERSION_1:
        raise ProtocolError("the message does not begin as one of Thrift's binary protocol")
    kind = head & 0xFF
    length = _read_i32(budget)
    if not 0 < length <= _LONGEST_NAME:
        raise ProtocolError(f"the name of the method has {length} bytes")
    name = budget.take(length)
    number = _read_i32(budget)
    if kind != CALL:
        raise ProtocolError(f"the message is not a call: type {kind}")
    if not name.isascii():
        raise ProtocolError("the name of the method is not ASCII text")
    return Message(name.decode("ascii"), kind, number, _read_struct(budget, 0))


def _read_i32(budget: _Budget) -> int:
    value: int = _I32.unpack(budget.take(4))[0]
    return value


def _read_struct(budget: _Budget, depth: int) -> Fields:
    if depth > _DEEPEST:
        raise ProtocolError(f"the message has more than {_DEEPEST} structs within each other")
    fields: Fields = {}
    while (kind := budget.take(1)[0]) != STOP:
        number: int = _NUMBERS[I16].unpack(budget.take(2))[0]
        fields[number] = _read_value(budget, kind, depth)
    return fields


def _read_value(budget: _Budget, kind: int, depth: int) -> Any:
    if kind == STRING:
        return budget.take(_read_i32(budget))
    if kind == BOOL:
        return budget.take(1) != b"\x00"
    number = _NUMBERS.get(kind)
    if number is not None:
        return number.unpack(budget.take(number.size))[0]
    if kind == STRUCT:
        return _read_struct(budget, depth + 1)
    if depth > _DEEPEST:
        raise ProtocolError(f"the message has more than {_DEEPEST} values within each other")
    if kind in (LIST, SET):
        inner = budget.take(1)[0]
        count = _read_count(budget, inner)
        return [_read_value(budget, inner, depth + 1) for _ in range(count)]
    if kind == MAP:
        key_kind, value_kind = budget.take(2)
        count = _read_count(budget, key_kind, value_kind)
        pairs = [
            (_read_value(budget, key_kind, depth + 1), _read_value(budget, value_kind, depth + 1))
            for _ in range(count)
        ]
        if key_kind != STRING and count:
            raise ProtocolError("the keys of a map are not texts")
        return dict(pairs)
    raise ProtocolError(f"the message has a value of the unknown type {kind}")


def _read_count(budget: _Budget, *kinds: int) -> int:
    count = _read_i32(budget)
    if count == 0:
        return 0
    if count < 0 or not all(kind in _LEAST for kind in kinds):
        raise ProtocolError("the message has a list or map of unknown values")
    budget.check(count * sum(_LEAST[kind] for kind in kinds))
    budget.values_left -= count
    if budget.values_left < 0:
        raise ProtocolError(f"the message has more than {_MOST_VALUES} values")
    return count


def write_message(method: str, kind: int, number: int, body: StructValue) -> bytes:
    """Write one message, without the fields whose value is None."""
    name = method.encode()
    out = [_I32.pack((_VERSION_1 | kind) - (1 << 32)), _I32.pack(len(name)), name, _I32.pack(number)]
    _write_struct(out, body)
    return b"".join(out)


def _write_struct(out: list[bytes], fields: StructValue) -> None:
    for number, kind, value in fields:
        if value is not None:
            out.append(struct.pack(">bh", kind, number))
            _write_value(out, kind, value)
    out.append(b"\x00")


def _write_value(out: list[bytes], kind: int, value: Any) -> None:
    if kind == STRING:
        content = value.encode(errors="replace") if isinstance(value, str) else value
        out.extend((_I32.pack(len(content)), content))
    elif kind == BOOL:
        out.append(b"\x01" if value else b"\x00")
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind == LIST:
        encoded = value.encoded
        count = value.count if encoded is not None else len(value.items)
        out.append(struct.pack(">bi", value.kind, count))
        if encoded is not None:
            out.append(encoded)
        for item in value.items:
            _write_value(out, value.kind, item)
    elif kind == MAP:
        out.append(struct.pack(">bbi", value.key_kind, value.value_kind, len(value.items)))
        for key, item in value.items:
            _write_value(out, value.key_kind, key)
            _write_value(out, value.value_kind, item)
    else:
        out.append(_NUMBERS[kind].pack(value))
