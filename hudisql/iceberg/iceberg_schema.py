"""A table's columns as an Iceberg schema with stable ids, and the name mapping of files without ids.

Follows the Iceberg spec, "Schemas and Data Types" and "Name Mapping Serialization". A column keeps its id by
its path: names joined by dots, list elements `element`, map entries `key` and `value`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from hudisql.errors import UnsupportedTableError

_PRIMITIVES: Mapping[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
}
_PROMOTIONS = frozenset({("int", "long"), ("float", "double")})


def primitive_name(data_type: pa.DataType) -> str | None:
    """Iceberg's name of the type of version 2 that stores such a column; None if there is none."""
    if pa.types.is_dictionary(data_type):
        return primitive_name(data_type.value_type)
    if pa.types.is_timestamp(data_type) and data_type.unit == "us":
        return "timestamptz" if data_type.tz is not None else "timestamp"
    if pa.types.is_decimal128(data_type) and data_type.scale >= 0:
        return f"decimal({data_type.precision}, {data_type.scale})"
    if pa.types.is_fixed_size_binary(data_type):
        return f"fixed[{data_type.byte_width}]"
    return _PRIMITIVES.get(data_type)


def is_list(data_type: pa.DataType) -> bool:
    """True for the Arrow types of a parquet list."""
    return bool(pa.types.is_list(data_type) or pa.types.is_large_list(data_type))


def children(data_type: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """The columns directly inside a nested column, by Iceberg's names of them; none of a primitive."""
    if pa.types.is_struct(data_type):
        fields = [data_type.field(index) for index in range(data_type.num_fields)]
        return [(field.name, field.type) for field in fields]
    if is_list(data_type):
        return [("element", data_type.value_type)]
    if pa.types.is_map(data_type):
        return [("key", data_type.key_type), ("value", data_type.item_type)]
    return []


def column_paths(schema: pa.Schema) -> list[str]:
    """The paths of all columns and of what is inside them, outer before inner."""
    return [path for field in schema for path in _paths_at(field.name, field.type)]


def _paths_at(path: str, data_type: pa.DataType) -> Iterator[str]:
    yield path
    for name, child in children(data_type):
        yield from _paths_at(f"{path}.{name}", child)


def assign_ids(ids: Mapping[str, int], schemas: Sequence[pa.Schema]) -> dict[str, int]:
    """The ids with those of new paths, which follow the highest; no path ever loses its id."""
    assigned = dict(ids)
    following = max(assigned.values(), default=0) + 1
    for path in dict.fromkeys(path for schema in schemas for path in column_paths(schema)):
        if path not in assigned:
            assigned[path] = following
            following += 1
    return assigned


def iceberg_fields(schema: pa.Schema, ids: Mapping[str, int]) -> list[dict[str, Any]]:
    """The fields of the Iceberg schema, all optional. Raises UnsupportedTableError for other types."""
    return [_field(field.name, field.name, field.type, ids) for field in schema]


def _field(path: str, name: str, data_type: pa.DataType, ids: Mapping[str, int]) -> dict[str, Any]:
    return {"id": ids[path], "name": name, "required": False, "type": _type(path, data_type, ids)}


def _type(path: str, data_type: pa.DataType, ids: Mapping[str, int]) -> Any:
    inner = children(data_type)
    if pa.types.is_struct(data_type):
        fields = [_field(f"{path}.{name}", name, child, ids) for name, child in inner]
        return {"type": "struct", "fields": fields}
    parts = {name: (ids[f"{path}.{name}"], _type(f"{path}.{name}", child, ids)) for name, child in inner}
    if is_list(data_type):
        element_id, element = parts["element"]
        return {"type": "list", "element-id": element_id, "element": element, "element-required": False}
    if parts:
        (key_id, key), (value_id, value) = parts["key"], parts["value"]
        ends = {"value-id": value_id, "value": value, "value-required": False}
        return {"type": "map", "key-id": key_id, "key": key, **ends}
    name = primitive_name(data_type)
    if name is None:
        raise UnsupportedTableError(f"column {path} is {data_type}, for which Iceberg has no type")
    return name


def name_mapping(ids: Mapping[str, int]) -> list[dict[str, Any]]:
    """The name mapping of all paths with ids.

    A column that is in a file and not in the mapping makes DuckDB give NULL for the whole file, so ids are
    given also to the columns that are in no schema, such as Hudi's meta columns.
    """
    roots: list[dict[str, Any]] = []
    at: dict[str, dict[str, Any]] = {}
    for path in sorted(ids, key=lambda path: path.count(".")):
        outer, _, name = path.rpartition(".")
        at[path] = {"field-id": ids[path], "names": [name]}
        siblings = at[outer].setdefault("fields", []) if outer else roots
        siblings.append(at[path])
    return roots


def misfit(stored: pa.DataType, current: pa.DataType, path: str) -> str | None:
    """The reason why a stored column is not read as the table's column; None if it is.

    Allowed are the promotions of the spec ("Schema Evolution"): int to long, float to double, and a greater
    precision of a decimal.
    """
    inner, wanted = children(stored), dict(children(current))
    if bool(inner) != bool(wanted) or is_list(stored) != is_list(current):
        return f"column {path} is {stored} there and {current} in the table"
    if inner:
        problems = (misfit(kind, wanted[name], f"{path}.{name}") for name, kind in inner if name in wanted)
        return next((problem for problem in problems if problem), None)
    name, target = primitive_name(stored), primitive_name(current)
    if name is not None and (name == target or (name, target) in _PROMOTIONS):
        return None
    if pa.types.is_decimal128(stored) and pa.types.is_decimal128(current):
        fits = stored.scale == current.scale and stored.precision <= current.precision
        return None if fits else f"column {path} is {stored} there and {current} in the table"
    return f"column {path} is {stored} there, which Iceberg readers do not read as {current}"
