"""An Avro schema as a flat program, by which kernels walk rows without knowing the schema.

Each node of the schema (record, leaf, array …) is one instruction; the nodes below it follow it directly, in
the order of Avro's binary form. Types are those of `format.schema`. Reads no rows itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.errors import CorruptTableError, UnsupportedTableError
from hudisql.format.schema.avro_schema import arrow_from_avro

RECORD, VARINT, FLOAT, DOUBLE, BOOLEAN, BYTES, FIXED, FIXED_DECIMAL, BYTES_DECIMAL, LOOP, UNION = range(11)
"""Kinds of nodes. LOOP is an array (one child) or a map (key, value); UNION has several non-null branches."""

NO_NULL = -1

DONE = -1
"""The result of a walk over rows without errors; else the number of the row with the error."""


@dataclass(slots=True)
class AvroNode:
    """One node: the encoding of its values in a row, and their Arrow type.

    `null_branch` is the number of `null` in the node's union, NO_NULL without one; `branch` is the node's own
    number in it. `width` is a fixed's length in bytes, `factor` brings timestamps to micros.
    """

    name: str
    kind: int
    arrow_type: pa.DataType | None = None
    children: list[AvroNode] = field(default_factory=list)
    null_branch: int = NO_NULL
    branch: int = 0
    width: int = 0
    factor: int = 1
    symbols: tuple[str, ...] = ()
    position: int = -1


@dataclass(frozen=True)
class AvroProgram:
    """The flattened schema: one entry per node in each array.

    `end` is the position after the node and all below it, `following` where a walk continues (for a branch of
    a union behind the other branches), `loop` the innermost LOOP that holds the node (-1 without).
    """

    fields: tuple[AvroNode, ...]
    nodes: tuple[AvroNode, ...]
    kind: npt.NDArray[np.int64]
    null_branch: npt.NDArray[np.int64]
    branch: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    following: npt.NDArray[np.int64]
    loop: npt.NDArray[np.int64]
    width: npt.NDArray[np.int64]

    def stored(self, names: Collection[str] | None) -> npt.NDArray[np.bool_]:
        """For each node whether it belongs to one of the named fields; None means all fields."""
        stored = np.zeros(len(self.nodes), np.bool_)
        for avro_node in self.fields:
            if names is None or avro_node.name in names:
                stored[avro_node.position : self.end[avro_node.position]] = True
        return stored


@lru_cache(maxsize=256)
def program_of(schema_text: str) -> AvroProgram:
    """The program of a record schema. Raises CorruptTableError, UnsupportedTableError for unknown types."""
    try:
        document = json.loads(schema_text)
    except ValueError as error:
        raise CorruptTableError(f"the schema of a log block is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("type") != "record":
        raise CorruptTableError("the schema of a log block is not an Avro record")
    fields = _Compiler().fields(document, document.get("namespace", ""))
    nodes: list[AvroNode] = []
    loops: list[int] = []
    for avro_node in fields:
        _flatten(avro_node, -1, nodes, loops)
    end = np.array([node.position + _size(node) for node in nodes], np.int64)
    following = end.copy()
    for node in nodes:
        if node.kind == UNION:
            stop = following[node.position]
            for child in node.children:
                last = end[child.position]
                for at in range(child.position, last):
                    # After the last node inside an array or map the walk continues with the next item.
                    if following[at] == last and loops[at] == loops[node.position]:
                        following[at] = stop
    return AvroProgram(
        tuple(fields),
        tuple(nodes),
        np.array([node.kind for node in nodes], np.int64),
        np.array([node.null_branch for node in nodes], np.int64),
        np.array([node.branch for node in nodes], np.int64),
        end,
        following,
        np.array(loops, np.int64),
        np.array([node.width for node in nodes], np.int64),
    )


def _flatten(node: AvroNode, loop: int, nodes: list[AvroNode], loops: list[int]) -> None:
    node.position = len(nodes)
    nodes.append(node)
    loops.append(loop)
    for child in node.children:
        _flatten(child, node.position if node.kind == LOOP else loop, nodes, loops)


def _size(node: AvroNode) -> int:
    return 1 + sum(_size(child) for child in node.children)


_PRIMITIVES = {
    "int": VARINT,
    "long": VARINT,
    "float": FLOAT,
    "double": DOUBLE,
    "boolean": BOOLEAN,
    "string": BYTES,
    "bytes": BYTES,
}
_LOGICAL_FACTORS = {"timestamp-millis": 1000, "local-timestamp-millis": 1000}


class _Compiler:
    """Turns one schema into nodes; remembers named types, which Avro lets later fields refer to."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[Mapping[str, Any], str]] = {}

    def fields(self, record: Mapping[str, Any], namespace: str) -> list[AvroNode]:
        return [
            self.node(record_field["name"], record_field["type"], namespace)
            for record_field in record["fields"]
        ]

    def node(self, name: str, schema: Any, namespace: str) -> AvroNode:
        if isinstance(schema, list):
            return self._union(name, schema, namespace)
        if isinstance(schema, str):
            return self._named_or_primitive(name, schema, {"type": schema}, namespace)
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.node(name, kind, namespace)
        if kind == "array":
            item = self.node("element", schema["items"], namespace)
            return AvroNode(name, LOOP, pa.list_(pa.field("element", _arrow(item))), [item])
        if kind == "map":
            value = self.node("value", schema["values"], namespace)
            key = AvroNode("key", BYTES, pa.string())
            return AvroNode(name, LOOP, pa.map_(pa.string(), _arrow(value)), [key, value])
        return self._named_or_primitive(name, kind, schema, namespace)

    def _union(self, name: str, branches: list[Any], namespace: str) -> AvroNode:
        null_branch = branches.index("null") if "null" in branches else NO_NULL
        others = [number for number in range(len(branches)) if number != null_branch]
        if not others:
            raise UnsupportedTableError(
                f"column {name} of a log block has the type null, which no column holds"
            )
        nodes = []
        for number in others:
            node = self.node(name if len(others) == 1 else str(number), branches[number], namespace)
            node.branch = number
            nodes.append(node)
        if len(nodes) == 1:
            nodes[0].null_branch = null_branch
            return nodes[0]
        arrow_type = pa.struct([pa.field(node.name, _arrow(node)) for node in nodes])
        return AvroNode(name, UNION, _united(branches) or arrow_type, nodes, null_branch)

    def _named_or_primitive(
        self, name: str, kind: str, schema: Mapping[str, Any], namespace: str
    ) -> AvroNode:
        if kind in _PRIMITIVES:
            return _leaf(name, _PRIMITIVES[kind], schema)
        if kind in ("record", "enum", "fixed"):
            full_name, own_namespace = _full_name(schema, namespace)
            node = self._named_type(name, schema, own_namespace)
            self._named[full_name] = (schema, own_namespace)
            return node
        known = self._named.get(kind) or self._named.get(f"{namespace}.{kind}")
        if known is None:
            raise UnsupportedTableError(
                f"column {name} of a log block has the Avro type '{kind}', which no column type holds"
            )
        return self._named_type(name, *known)

    def _named_type(self, name: str, schema: Mapping[str, Any], namespace: str) -> AvroNode:
        if schema["type"] == "record":
            children = self.fields(schema, namespace)
            arrow_type = pa.struct([pa.field(child.name, _arrow(child)) for child in children])
            return AvroNode(name, RECORD, arrow_type, children)
        if schema["type"] == "enum":
            return AvroNode(name, VARINT, pa.string(), symbols=tuple(schema["symbols"]))
        return _leaf(name, FIXED, schema)


def _leaf(name: str, kind: int, schema: Mapping[str, Any]) -> AvroNode:
    wrapped = {"type": "record", "name": "leaf", "fields": [{"name": name, "type": dict(schema)}]}
    arrow_type = arrow_from_avro(json.dumps(wrapped)).field(0).type
    if pa.types.is_decimal(arrow_type):
        kind = FIXED_DECIMAL if kind == FIXED else BYTES_DECIMAL
    factor = _LOGICAL_FACTORS.get(schema.get("logicalType", ""), 1)
    return AvroNode(name, kind, arrow_type, width=int(schema.get("size", 0)), factor=factor)


def _united(branches: list[Any]) -> pa.DataType | None:
    # Older writers widened a column by a union; the value then has the wider type.
    kinds = {branch if isinstance(branch, str) else "" for branch in branches} - {"null"}
    if kinds <= {"int", "long"}:
        return pa.int64()
    return pa.float64() if kinds <= {"float", "double"} else None


def _arrow(node: AvroNode) -> pa.DataType:
    assert node.arrow_type is not None
    return node.arrow_type


def _full_name(schema: Mapping[str, Any], namespace: str) -> tuple[str, str]:
    own, _, short = str(schema["name"]).rpartition(".")
    space = own or str(schema.get("namespace", namespace))
    return (f"{space}.{short}" if space else short), space
