"""Avro schemas of commits as Arrow schemas, and back.

Follows Spark's Avro `SchemaConverters` and `AvroConversionUtils` as Hudi 0.15 uses them: records, fixed
decimals and namespaces get the same names, so that the text equals what Hudi writes. Arrow types take one
form each (`canonical_type`), which all readers and writers of hudisql share. Knows nothing of files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from hudisql.errors import CorruptTableError, UnsupportedTableError

TIMESTAMP = pa.timestamp("us", tz="UTC")
LOCAL_TIMESTAMP = pa.timestamp("us")
COMMENT_KEY = b"comment"
"""Key of an Arrow field's metadata that holds the column's comment."""

# The size of the cache: each commit of a table has its schema as text.
_MOST_SCHEMAS: Final = 1024

_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def is_avro_name(name: str) -> bool:
    """True if all libraries of Avro, and therefore Hudi, allow `name`."""
    return _AVRO_NAME.fullmatch(name) is not None


def is_column_name(name: str) -> bool:
    """True if Hudi allows `name` as the name of a column outside of structs.

    Avro's Java library takes letters of all scripts (`Schema.validateName`). Members of structs also have
    names in Hive's types, where Spark reads ASCII letters alone: for these `is_avro_name` counts.
    """
    begins = name[:1] == "_" or name[:1].isalpha()
    return begins and all(sign == "_" or sign.isalpha() or sign.isdecimal() for sign in name)


def sanitize_avro_name(name: str) -> str:
    """A table's name as Hudi writes it to Avro: each character that Avro refuses becomes two underscores."""
    masked = re.sub(r"[^A-Za-z0-9_]", "__", name)
    return masked if not masked or is_avro_name(masked[0]) else f"__{masked[1:]}"


def commented_field(name: str, field_type: pa.DataType, comment: str | None) -> pa.Field:
    """A nullable field that carries a column's comment."""
    return pa.field(name, field_type, metadata={COMMENT_KEY: comment.encode()} if comment else None)


def comment_of(field: pa.Field) -> str | None:
    """The comment a field carries, if any."""
    text = (field.metadata or {}).get(COMMENT_KEY)
    return text.decode() if text else None


def decimal_bytes(precision: int) -> int:
    """How many bytes hold every unscaled value of that precision (12 → 6, 20 → 9)."""
    unscaled: int = 10**precision - 1
    return (unscaled.bit_length() + 8) // 8


# --- Avro → Arrow -------------------------------------------------------------------------------------------

_FROM_AVRO = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "bytes": pa.binary(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_UNREAD_TYPES = frozenset({"variant", "blob", "vector"})
_FROM_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): TIMESTAMP,
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-millis"): LOCAL_TIMESTAMP,
    ("long", "local-timestamp-micros"): LOCAL_TIMESTAMP,
}


@lru_cache(_MOST_SCHEMAS)
def arrow_from_avro(json_text: str) -> pa.Schema:
    """The Arrow schema of an Avro record schema; every field nullable, `doc` kept as comment.

    Raises CorruptTableError if the text is not an Avro record schema, UnsupportedTableError for types without
    a Spark type (unions of several types, `null` alone).
    """
    try:
        document = json.loads(json_text)
    except ValueError as error:
        raise CorruptTableError(f"the table's schema is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("type") != "record":
        raise CorruptTableError("the table's schema is not an Avro record")
    return pa.schema(_AvroReader().fields(document, document.get("namespace", "")))


class _AvroReader:
    """Reads one Avro schema; remembers named types, which Avro lets later fields refer to."""

    def __init__(self) -> None:
        self._named: dict[str, pa.DataType] = {}

    def fields(self, record: Mapping[str, Any], namespace: str) -> list[pa.Field]:
        return [
            commented_field(
                field["name"], self.type(field["type"], namespace, field["name"]), field.get("doc")
            )
            for field in record["fields"]
        ]

    def type(self, schema: Any, namespace: str, where: str) -> pa.DataType:
        if isinstance(schema, list):
            return self._union(schema, namespace, where)
        if isinstance(schema, str):
            return self._reference(schema, namespace, where)
        kind = schema["type"]
        if schema.get("logicalType") in _UNREAD_TYPES:
            raise UnsupportedTableError(
                f"the column {where} is of the type {schema['logicalType'].upper()} of Hudi 1.2, which is "
                "not read"
            )
        if isinstance(kind, (dict, list)):
            return self.type(kind, namespace, where)
        if kind == "array":
            return pa.list_(pa.field("element", self.type(schema["items"], namespace, where)))
        if kind == "map":
            return pa.map_(pa.string(), self.type(schema["values"], namespace, where))
        if kind in ("record", "enum", "fixed"):
            return self._named_type(kind, schema, namespace)
        return _logical_type(kind, schema) or self._reference(kind, namespace, where)

    def _union(self, branches: list[Any], namespace: str, where: str) -> pa.DataType:
        branches = [branch for branch in branches if branch != "null"]
        if len(branches) == 1:
            return self.type(branches[0], namespace, where)
        if branches and all(branch in ("int", "long") for branch in branches):
            return pa.int64()
        if branches and all(branch in ("float", "double") for branch in branches):
            return pa.float64()
        raise UnsupportedTableError(f"column {where} is a union of several types, which no column type holds")

    def _reference(self, name: str, namespace: str, where: str) -> pa.DataType:
        known = _FROM_AVRO.get(name)
        if known is None:
            known = self._named.get(name) or self._named.get(f"{namespace}.{name}")
        if known is None:
            raise UnsupportedTableError(
                f"column {where} has the Avro type '{name}', which no column type holds"
            )
        return known

    def _named_type(self, kind: str, schema: Mapping[str, Any], namespace: str) -> pa.DataType:
        name = schema["name"]
        own_namespace, _, name = name.rpartition(".") if "." in name else (schema.get("namespace"), "", name)
        own_namespace = namespace if own_namespace is None else own_namespace
        if kind == "record":
            found = pa.struct(self.fields(schema, own_namespace))
        else:
            found = _logical_type(kind, schema) or _FROM_AVRO[kind]
        self._named[f"{own_namespace}.{name}" if own_namespace else name] = found
        return found


def _logical_type(kind: str, schema: Mapping[str, Any]) -> pa.DataType | None:
    logical = schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        if schema["precision"] > 38:
            raise UnsupportedTableError(
                f"decimals of more than 38 digits have no column type: {dict(schema)}"
            )
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    return _FROM_LOGICAL.get((kind, logical)) if logical else None


# --- Arrow → Avro -------------------------------------------------------------------------------------------


def avro_from_arrow(schema: pa.Schema, table_name: str) -> str:
    """The Avro schema that Hudi's commits carry, as JSON text, for data and partition columns.

    Record `<table>_record` in namespace `hoodie.<table>`; every field is a union with null and defaults to
    null. Raises UnsupportedTableError for types Spark can't hold and names that Avro refuses.
    """
    _check_names(schema, is_column_name, "letters")
    name = sanitize_avro_name(table_name)
    record = _avro_record(f"{name}_record", f"hoodie.{name}", list(schema))
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False)


def _avro_record(name: str, namespace: str, fields: list[pa.Field]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": [_avro_field(field, f"{namespace}.{name}") for field in fields],
    }


def _check_names(fields: Iterable[pa.Field], is_allowed: Callable[[str], bool], letters: str) -> None:
    for field in fields:
        if not is_allowed(field.name):
            raise UnsupportedTableError(
                f"column name '{field.name}' is not valid in Avro",
                hint=f"Hudi stores schemas as Avro: names are {letters}, digits and _, no digit first",
            )


def _avro_field(field: pa.Field, namespace: str) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": field.name,
        "type": ["null", _avro_type(field.type, field.name, namespace)],
    }
    if (comment := comment_of(field)) is not None:
        document["doc"] = comment
    document["default"] = None
    return document


def _avro_type(field_type: pa.DataType, name: str, namespace: str) -> Any:
    field_type = canonical_type(field_type, name)
    if field_type in _TO_AVRO:
        return _TO_AVRO[field_type]
    if pa.types.is_decimal(field_type):
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{namespace}.{name}",
            "size": decimal_bytes(field_type.precision),
            "logicalType": "decimal",
            "precision": field_type.precision,
            "scale": field_type.scale,
        }
    if pa.types.is_struct(field_type):
        _check_names(field_type, is_avro_name, "ASCII letters in a struct")
        return _avro_record(name, namespace, list(field_type))
    if pa.types.is_list(field_type):
        return {"type": "array", "items": ["null", _avro_type(field_type.value_type, name, namespace)]}
    return {"type": "map", "values": ["null", _avro_type(field_type.item_type, name, namespace)]}


_TO_AVRO: dict[pa.DataType, Any] = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    TIMESTAMP: {"type": "long", "logicalType": "timestamp-micros"},
    LOCAL_TIMESTAMP: {"type": "long", "logicalType": "local-timestamp-micros"},
}


# --- one form per type --------------------------------------------------------------------------------------

_CANONICAL: dict[pa.DataType, pa.DataType] = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
} | {known: known for known in _TO_AVRO}


def canonical_type(field_type: pa.DataType, where: str) -> pa.DataType:
    """The one Arrow form of a type; `where` names the column in errors.

    Raises UnsupportedTableError for types that Avro schemas and Spark can't hold (time of day, uint64 …).
    """
    known = _CANONICAL.get(field_type)
    if known is not None:
        return known
    types = pa.types
    if types.is_dictionary(field_type) or types.is_run_end_encoded(field_type):
        return canonical_type(field_type.value_type, where)
    if types.is_timestamp(field_type):
        return TIMESTAMP if field_type.tz else LOCAL_TIMESTAMP
    if types.is_decimal(field_type) and field_type.precision <= 38 and field_type.scale >= 0:
        return pa.decimal128(field_type.precision, field_type.scale)
    if types.is_fixed_size_binary(field_type):
        return pa.binary()
    if types.is_struct(field_type):
        return pa.struct([_canonical_field(field) for field in field_type])
    if types.is_list(field_type) or types.is_large_list(field_type) or types.is_fixed_size_list(field_type):
        return pa.list_(pa.field("element", canonical_type(field_type.value_type, where)))
    if types.is_map(field_type) and canonical_type(field_type.key_type, where) == pa.string():
        return pa.map_(pa.string(), canonical_type(field_type.item_type, where))
    raise UnsupportedTableError(
        f"column {where} is of type {field_type}, which a Hudi table can't hold",
        hint="leave the column out or store it as another type",
    )


def _canonical_field(field: pa.Field) -> pa.Field:
    return commented_field(field.name, canonical_type(field.type, field.name), comment_of(field))
