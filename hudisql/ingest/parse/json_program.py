"""A table's schema as a flat program, by which the JSON kernels walk records without knowing the schema.

Each node (record, list, map, leaf) is one instruction; the nodes below it follow it directly. Reads no text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.errors import InvalidArgumentError, UnsupportedTableError

(
    RECORD,
    LIST,
    MAP,
    INTEGER,
    DOUBLE,
    FLOAT,
    BOOLEAN,
    STRING,
    BINARY,
    DATE,
    TIMESTAMP,
    DECIMAL,
    BASE64_DECIMAL,
    RAW,
) = range(14)
"""Kinds of nodes; the first three hold others. RAW is any value, of which only the place is kept."""

EPOCH_UNITS: Final[Mapping[str, int]] = {"seconds": 1_000_000, "millis": 1_000, "micros": 1, "nanos": -1_000}
"""Units of timestamps that are sent as integers: how many microseconds one is, or, negative, how many of them
one microsecond is."""

_ZONED, _LOCAL = 0, 1


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a source encodes values for which JSON has no type.

    `epoch_unit` is the unit of timestamps that are integers (a key of EPOCH_UNITS). `decimal_scale` is the
    scale of decimals that are base64 of big-endian bytes (Kafka Connect's); None means numbers or their text.
    """

    epoch_unit: str = "micros"
    decimal_scale: int | None = None

    def __post_init__(self) -> None:
        if self.epoch_unit not in EPOCH_UNITS:
            raise InvalidArgumentError(
                f"'{self.epoch_unit}' is not a unit of timestamps",
                hint=f"use one of {', '.join(EPOCH_UNITS)}",
            )


DEFAULT_ENCODING: Final = Encoding()
RAW_TYPE: Final = pa.binary(16)
"""The type of a column of places: address and length of each value's text, as two words."""


@dataclass(slots=True)
class JsonNode:
    """One node. `low` and `high` are bounds (integers), precision and scale (decimals), or unit and zone."""

    name: str
    kind: int
    arrow_type: pa.DataType
    children: list[JsonNode] = field(default_factory=list)
    low: int = 0
    high: int = 0
    scale: int = 0
    position: int = -1
    in_loop: bool = False


class ProgramArrays(NamedTuple):
    """The program as the kernels read it: one entry per node; `end` is the position after all below it.

    Names are addresses in the program's `names`.
    """

    kind: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    scale: npt.NDArray[np.int64]
    name_start: npt.NDArray[np.int64]
    name_end: npt.NDArray[np.int64]


@dataclass(frozen=True)
class JsonProgram:
    """The flattened schema; `paths` names each node for people (`place.b`)."""

    root: JsonNode
    nodes: tuple[JsonNode, ...]
    paths: tuple[str, ...]
    arrays: ProgramArrays
    names: npt.NDArray[np.uint8]


def compile_program(
    schema: pa.Schema, default: Encoding, encodings: Mapping[str, Encoding] | None = None
) -> JsonProgram:
    """The program of a schema; `encodings` are those of single columns, by name.

    Raises UnsupportedTableError for types that a Hudi table has none for.
    """
    by_name = encodings or {}
    children = [_node(column.name, column.type, by_name.get(column.name, default)) for column in schema]
    root = JsonNode("", RECORD, pa.struct(list(schema)), children)
    nodes: list[JsonNode] = []
    paths: list[str] = []
    _flatten(root, "", False, nodes, paths)
    names = [node.name.encode() for node in nodes]
    text = np.frombuffer(b"".join(names) + bytes(16), np.uint8)
    ends = text.ctypes.data + np.cumsum([len(name) for name in names], dtype=np.int64)
    arrays = ProgramArrays(
        np.array([node.kind for node in nodes], np.int64),
        np.array([node.position + _size(node) for node in nodes], np.int64),
        np.array([node.low for node in nodes], np.int64),
        np.array([node.high for node in nodes], np.int64),
        np.array([node.scale for node in nodes], np.int64),
        ends - np.array([len(name) for name in names], np.int64),
        ends,
    )
    return JsonProgram(root, tuple(nodes), tuple(paths), arrays, text)


def _flatten(node: JsonNode, path: str, in_loop: bool, nodes: list[JsonNode], paths: list[str]) -> None:
    node.position = len(nodes)
    node.in_loop = in_loop
    nodes.append(node)
    paths.append(path)
    for child in node.children:
        inner = f"{path}.{child.name}" if path else child.name
        _flatten(child, inner, in_loop or node.kind in (LIST, MAP), nodes, paths)


def _size(node: JsonNode) -> int:
    return 1 + sum(_size(child) for child in node.children)


_LEAVES: Final = {
    pa.float64(): DOUBLE,
    pa.float32(): FLOAT,
    pa.bool_(): BOOLEAN,
    pa.string(): STRING,
    pa.binary(): BINARY,
    pa.date32(): DATE,
}


def _node(name: str, kind: pa.DataType, encoding: Encoding) -> JsonNode:
    types = pa.types
    if kind == RAW_TYPE:
        return JsonNode(name, RAW, kind)
    if kind in _LEAVES:
        return JsonNode(name, _LEAVES[kind], kind)
    if types.is_signed_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        return JsonNode(name, INTEGER, kind, low=-most, high=most - 1)
    if types.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC"):
        zone = _ZONED if kind.tz else _LOCAL
        return JsonNode(name, TIMESTAMP, kind, low=EPOCH_UNITS[encoding.epoch_unit], high=zone)
    if types.is_decimal128(kind):
        sent = encoding.decimal_scale
        decimal = DECIMAL if sent is None else BASE64_DECIMAL
        return JsonNode(name, decimal, kind, low=kind.precision, high=kind.scale, scale=sent or 0)
    if types.is_struct(kind):
        return JsonNode(name, RECORD, kind, [_node(member.name, member.type, encoding) for member in kind])
    if types.is_list(kind):
        return JsonNode(name, LIST, kind, [_node("element", kind.value_type, encoding)])
    if types.is_map(kind) and kind.key_type == pa.string():
        key, value = JsonNode("key", STRING, pa.string()), _node("value", kind.item_type, encoding)
        return JsonNode(name, MAP, kind, [key, value])
    raise UnsupportedTableError(f"column {name} is of type {kind}, which no JSON value is read as")
