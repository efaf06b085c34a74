"""Changes of an internal schema: a column is added, dropped, renamed, moved or gets another type or comment.

Follows `TableChanges`, `AvroInternalSchemaConverter` and `AvroSchemaEvolutionUtils` of Hudi 0.15: new columns
get the next ids, those of a record as one block before those inside them. Columns are named by their path
from the outermost column; `element` and `value` stand for what is in lists and maps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from hudisql.errors import InvalidArgumentError, UnknownColumnError
from hudisql.format.schema.avro_schema import LOCAL_TIMESTAMP, TIMESTAMP, canonical_type, comment_of
from hudisql.format.schema.internal_schema import InternalSchema
from hudisql.format.schema.meta_columns import META_COLUMNS, is_meta_column

Document = dict[str, Any]
_NAMES: Final[Mapping[pa.DataType, str]] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    TIMESTAMP: "timestamp",
    LOCAL_TIMESTAMP: "local-timestamp-micros",
    pa.string(): "string",
    pa.binary(): "binary",
}


@dataclass(slots=True)
class _Ids:
    """The ids of new columns."""

    next: int

    def take(self, count: int) -> range:
        first, self.next = self.next, self.next + count
        return range(first, self.next)


def initial_schema(schema: pa.Schema) -> InternalSchema:
    """The internal schema of a table whose columns have no ids yet: version 0, meta columns first."""
    ids = _Ids(0)
    meta = [pa.field(name, pa.string()) for name in META_COLUMNS]
    fields = _new_fields([*meta, *schema], ids)
    for field in fields[: len(meta)]:
        field["doc"] = ""
    return InternalSchema(0, ids.next - 1, tuple(fields))


def _new_fields(fields: Iterable[pa.Field], ids: _Ids) -> list[Document]:
    fields = list(fields)
    return [
        _field_document(number, field, _new_type(field.type, ids, field.name))
        for number, field in zip(ids.take(len(fields)), fields, strict=True)
    ]


def _field_document(number: int, field: pa.Field, kind: Any) -> Document:
    document = {"id": number, "name": field.name, "optional": True, "type": kind}
    if (comment := comment_of(field)) is not None:
        document["doc"] = comment
    return document


def _new_type(kind: pa.DataType, ids: _Ids, name: str) -> Any:
    kind = canonical_type(kind, name)
    if pa.types.is_struct(kind):
        return {"type": "record", "fields": _new_fields(kind, ids)}
    if pa.types.is_list(kind):
        (number,) = ids.take(1)
        element = _new_type(kind.value_type, ids, name)
        return {"type": "array", "element_id": number, "element": element, "element_optional": True}
    if pa.types.is_map(kind):
        key, value = ids.take(2)
        return {
            "type": "map",
            "key_id": key,
            "key": "string",
            "value_id": value,
            "value": _new_type(kind.item_type, ids, name),
            "value_optional": True,
        }
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    return _NAMES[kind]


def reconciled(current: InternalSchema, schema: pa.Schema, version_id: int) -> InternalSchema:
    """The internal schema of a commit that leaves the table with `schema`; `current` itself if it fits.

    Columns are matched by name: others are new, and missing ones dropped. Meta columns stay.
    """
    ids = _Ids(current.max_column_id + 1)
    meta = [field for field in current.fields if is_meta_column(field["name"])]
    data = [field for field in schema if not is_meta_column(field.name)]
    fields = (*meta, *_reconciled_fields(current.fields, data, ids))
    if fields == tuple(current.fields):
        return current
    return InternalSchema(version_id, ids.next - 1, fields)


def _reconciled_fields(
    current: Sequence[Mapping[str, Any]], schema: Iterable[pa.Field], ids: _Ids
) -> list[Mapping[str, Any]]:
    known = {field["name"].lower(): field for field in current}
    found: list[Mapping[str, Any]] = []
    for field in schema:
        before = known.get(field.name.lower())
        if before is None:
            found += _new_fields([field], ids)
            continue
        after = {**before, "type": _reconciled_type(before["type"], field.type, ids, field.name)}
        if (comment := comment_of(field)) is not None:
            after["doc"] = comment
        found.append(after)
    return found


def _reconciled_type(before: Any, kind: pa.DataType, ids: _Ids, name: str) -> Any:
    if isinstance(before, Mapping):
        if before["type"] == "record" and pa.types.is_struct(kind):
            return {**before, "fields": _reconciled_fields(before["fields"], kind, ids)}
        if before["type"] == "array" and pa.types.is_list(kind):
            return {**before, "element": _reconciled_type(before["element"], kind.value_type, ids, name)}
        if before["type"] == "map" and pa.types.is_map(kind):
            return {**before, "value": _reconciled_type(before["value"], kind.item_type, ids, name)}
    if isinstance(before, str) and not pa.types.is_nested(kind) and same_primitive(before, kind):
        return before
    return _new_type(kind, ids, name)


def same_primitive(text: str, kind: pa.DataType) -> bool:
    """True if Hudi's name of a type stands for the Arrow type."""
    return bool(text == _new_type(kind, _Ids(0), text)) or (text, kind) in (
        ("timestamp-millis", TIMESTAMP),
        ("local-timestamp-millis", LOCAL_TIMESTAMP),
    )


# --- changes by ALTER TABLE ---------------------------------------------------------------------------------

FIRST: Final = ""
"""The place before all other members of a struct."""


def with_renamed(schema: InternalSchema, path: Sequence[str], name: str) -> InternalSchema:
    """The column has another name. Raises UnknownColumnError, InvalidArgumentError."""

    def rename(fields: list[Document], at: int) -> list[Document]:
        _check_free(fields, name, but=at)
        fields[at] = {**fields[at], "name": name}
        return fields

    return _changed(schema, path, rename)


def without_column(schema: InternalSchema, path: Sequence[str]) -> InternalSchema:
    """The column is gone; its id is never used again. Raises UnknownColumnError, InvalidArgumentError."""

    def drop(fields: list[Document], at: int) -> list[Document]:
        if len(fields) == 1:
            raise InvalidArgumentError(f"{'.'.join(path)} is the only member of its struct")
        return fields[:at] + fields[at + 1 :]

    return _changed(schema, path, drop)


def with_moved(schema: InternalSchema, path: Sequence[str], after: str) -> InternalSchema:
    """The column stands behind `after`, or first in its struct. Raises UnknownColumnError."""

    def move(fields: list[Document], at: int) -> list[Document]:
        moved = fields.pop(at)
        fields.insert(_place_after(fields, after), moved)
        return fields

    return _changed(schema, path, move)


def with_new_column(
    schema: InternalSchema, path: Sequence[str], field: pa.Field, after: str | None
) -> InternalSchema:
    """A new column, last in the struct `path` (of the table, if it is empty), or behind `after`, or first.

    Raises UnknownColumnError, InvalidArgumentError.
    """
    ids = _Ids(schema.max_column_id + 1)

    def add(fields: list[Document]) -> list[Document]:
        _check_free(fields, field.name)
        (new,) = _new_fields([field], ids)
        at = len(fields) if after is None else _place_after(fields, after)
        return [*fields[:at], new, *fields[at:]]

    changed = _in_struct(list(schema.fields), list(path), add)
    return replace(schema, fields=tuple(changed), max_column_id=ids.next - 1)


def with_type(schema: InternalSchema, path: Sequence[str], kind: pa.DataType) -> InternalSchema:
    """The column, a list's element or a map's value has another primitive type."""
    return _with_value(schema, path, lambda _: _new_type(kind, _Ids(0), path[-1]))


def with_comment(schema: InternalSchema, path: Sequence[str], comment: str) -> InternalSchema:
    """The column has this comment. Raises UnknownColumnError."""

    def describe(fields: list[Document], at: int) -> list[Document]:
        fields[at] = {**fields[at], "doc": comment}
        return fields

    return _changed(schema, path, describe)


def _changed(
    schema: InternalSchema, path: Sequence[str], change: Callable[[list[Document], int], list[Document]]
) -> InternalSchema:
    *struct, name = path

    def change_member(fields: list[Document]) -> list[Document]:
        return change(fields, place_of(fields, name))

    return replace(schema, fields=tuple(_in_struct(list(schema.fields), struct, change_member)))


def _with_value(schema: InternalSchema, path: Sequence[str], change: Callable[[Any], Any]) -> InternalSchema:
    first, *rest = path
    fields = [dict(field) for field in schema.fields]
    at = place_of(fields, first)
    fields[at] = {**fields[at], "type": _changed_type(fields[at]["type"], rest, change)}
    return replace(schema, fields=tuple(fields))


def _in_struct(
    fields: list[Any], path: list[str], change: Callable[[list[Document]], list[Document]]
) -> list[Document]:
    if not path:
        return change(list(fields))
    at = place_of(fields, path[0])

    def change_record(kind: Any) -> Any:
        if not isinstance(kind, Mapping) or kind["type"] != "record":
            raise UnknownColumnError(f"{'.'.join(path)} is not a struct")
        return {**kind, "fields": change(list(kind["fields"]))}

    changed = _changed_type(fields[at]["type"], path[1:], change_record)
    return [*fields[:at], {**fields[at], "type": changed}, *fields[at + 1 :]]


def _changed_type(kind: Any, path: list[str], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(kind)
    inner = kind["type"] if isinstance(kind, Mapping) else None
    if inner == "record":
        members = list(kind["fields"])
        at = place_of(members, path[0])
        members[at] = {**members[at], "type": _changed_type(members[at]["type"], path[1:], change)}
        return {**kind, "fields": members}
    part = {"array": "element", "map": "value"}.get(inner or "")
    if part is None or path[0].lower() != part:
        raise UnknownColumnError(f"there is no column or member '{path[0]}'")
    return {**kind, part: _changed_type(kind[part], path[1:], change)}


def place_of(fields: Sequence[Mapping[str, Any]], name: str) -> int:
    """The place of a column among the fields. Raises UnknownColumnError."""
    for at, field in enumerate(fields):
        if field["name"].lower() == name.lower():
            return at
    known = ", ".join(field["name"] for field in fields if not is_meta_column(field["name"]))
    raise UnknownColumnError(f"there is no column or member '{name}'", hint=f"there are {known}")


def _place_after(fields: Sequence[Mapping[str, Any]], after: str) -> int:
    return 0 if after == FIRST else place_of(fields, after) + 1


def _check_free(fields: Sequence[Mapping[str, Any]], name: str, but: int = -1) -> None:
    if any(field["name"].lower() == name.lower() and at != but for at, field in enumerate(fields)):
        raise InvalidArgumentError(f"there is a column or member {name} already")
