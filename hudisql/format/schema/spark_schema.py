"""Arrow schemas as Spark's schema JSON and type names, and back.

Follows `StructType.json` of Spark 3.5 and 4, which the metastore stores in table properties and Hudi's sync
writes too. Pure Python, so that it runs without Spark.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

from hudisql.errors import UnsupportedTableError
from hudisql.format.schema.avro_schema import (
    LOCAL_TIMESTAMP,
    TIMESTAMP,
    canonical_type,
    comment_of,
    commented_field,
)

_TO_SPARK: dict[pa.DataType, str] = {
    pa.string(): "string",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    pa.date32(): "date",
    TIMESTAMP: "timestamp",
    LOCAL_TIMESTAMP: "timestamp_ntz",
}
_FROM_SPARK = {name: arrow for arrow, name in _TO_SPARK.items()} | {"byte": pa.int32(), "short": pa.int32()}
_SQL_NAMES = {"integer": "int", "long": "bigint"}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)", re.ASCII)
# The type itself, not a struct member with the name of a type.
_TIMESTAMP = re.compile(r"(?<![\w`])timestamp(?![\w`]|\s*:)", re.IGNORECASE)
_CHARACTERS = re.compile(r"(?:var)?char\(\d+\)", re.ASCII)


def spark_json_from_arrow(schema: pa.Schema) -> str:
    """Spark's JSON of a schema, compact as Spark prints it. Raises UnsupportedTableError for other types."""
    return json.dumps(_struct_to_json(list(schema)), separators=(",", ":"), ensure_ascii=False)


def arrow_from_spark_json(text: str) -> pa.Schema:
    """The Arrow schema of Spark's schema JSON, every field nullable. Raises UnsupportedTableError."""
    return pa.schema(_fields_from_json(json.loads(text)))


def spark_type_name(field_type: pa.DataType) -> str:
    """The type as Spark SQL names it: `int`, `decimal(12,2)`, `array<struct<a:bigint>>`, `timestamp`."""
    field_type = canonical_type(field_type, "")
    if field_type in _TO_SPARK:
        name = _TO_SPARK[field_type]
        return _SQL_NAMES.get(name, name)
    if pa.types.is_decimal(field_type):
        return f"decimal({field_type.precision},{field_type.scale})"
    if pa.types.is_struct(field_type):
        members = (f"{_member_name(field.name)}:{spark_type_name(field.type)}" for field in field_type)
        return f"struct<{','.join(members)}>"
    if pa.types.is_list(field_type):
        return f"array<{spark_type_name(field_type.value_type)}>"
    return f"map<{spark_type_name(field_type.key_type)},{spark_type_name(field_type.item_type)}>"


def with_local_zone(type_name: str) -> str:
    """A type's text in which `timestamp` cannot mean TIMESTAMP_NTZ, whatever `spark.sql.timestampType` is."""
    return _TIMESTAMP.sub("timestamp_ltz", type_name)


def _member_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_]+", name, re.ASCII) else quote_name(name)


def quote_name(name: str) -> str:
    """`name` in backticks, as Spark's SQL takes any name."""
    return "`" + name.replace("`", "``") + "`"


def quote_path(path: str) -> str:
    """A column's name, or `a.b` for a member of a struct, each part in backticks."""
    return ".".join(quote_name(part) for part in path.split("."))


def _struct_to_json(fields: list[pa.Field]) -> dict[str, Any]:
    return {"type": "struct", "fields": [_field_to_json(field) for field in fields]}


def _field_to_json(field: pa.Field) -> dict[str, Any]:
    comment = comment_of(field)
    return {
        "name": field.name,
        "type": _type_to_json(canonical_type(field.type, field.name)),
        "nullable": True,
        "metadata": {"comment": comment} if comment else {},
    }


def _type_to_json(field_type: pa.DataType) -> Any:
    if field_type in _TO_SPARK:
        return _TO_SPARK[field_type]
    if pa.types.is_decimal(field_type):
        return f"decimal({field_type.precision},{field_type.scale})"
    if pa.types.is_struct(field_type):
        return _struct_to_json(list(field_type))
    if pa.types.is_list(field_type):
        element = _type_to_json(field_type.value_type)
        return {"type": "array", "elementType": element, "containsNull": True}
    return {
        "type": "map",
        "keyType": _type_to_json(field_type.key_type),
        "valueType": _type_to_json(field_type.item_type),
        "valueContainsNull": True,
    }


def _fields_from_json(document: dict[str, Any], where: str = "") -> list[pa.Field]:
    return [
        commented_field(
            field["name"],
            _type_from_json(field["type"], f"{where}.{field['name']}" if where else field["name"]),
            (field.get("metadata") or {}).get("comment"),
        )
        for field in document["fields"]
    ]


def _type_from_json(document: Any, where: str) -> pa.DataType:
    if isinstance(document, str):
        return _type_from_name(document, where)
    kind = document["type"]
    if kind == "struct":
        return pa.struct(_fields_from_json(document, where))
    if kind == "array":
        return pa.list_(pa.field("element", _type_from_json(document["elementType"], where)))
    if kind == "map":
        key, value = document["keyType"], document["valueType"]
        return pa.map_(_type_from_json(key, where), _type_from_json(value, where))
    raise UnsupportedTableError(f"column {where} has the Spark type '{kind}', which a Hudi table can't hold")


def _type_from_name(name: str, where: str) -> pa.DataType:
    if name in _FROM_SPARK:
        return _FROM_SPARK[name]
    if matched := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(matched[1]), int(matched[2]))
    if name == "decimal":
        return pa.decimal128(10, 0)
    if _CHARACTERS.fullmatch(name):
        return pa.string()
    raise UnsupportedTableError(f"column {where} has the Spark type '{name}', which a Hudi table can't hold")
