"""Changes of an internal schema: a column is added, dropped, renamed, moved or gets another type or comment.

Follows `TableChanges`, `AvroInternalSchemaConverter` and `AvroSchemaEvolutionUtils` of Hudi 0.15: new columns
get the next ids, those of a record as one block before those inside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from hudisql.errors import InvalidArgumentError, UnknownColumnError
from hudisql.format.schema.avro_schema import LOCAL_TIMESTAMP, TIMESTAMP, canonical_type, comment_of
from hudisql.format.schema.internal_schema import InternalSchema, primitive_type
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
    if isinstance(before, str) and not pa.types.is_nested(kind) and primitive_type(before, name) == kind:
        return before
    return _new_type(kind, ids, name)


# --- changes of top-level columns by ALTER TABLE ------------------------------------------------------------


def with_renamed(schema: InternalSchema, name: str, new_name: str) -> InternalSchema:
    """The column has another name. Raises UnknownColumnError, InvalidArgumentError."""
    at = place_of(schema, name)
    if any(field["name"].lower() == new_name.lower() for field in _without(schema, at)):
        raise InvalidArgumentError(f"there is a column {new_name} already")
    return _with_field(schema, at, name=new_name)


def without_column(schema: InternalSchema, name: str) -> InternalSchema:
    """The column is gone; its id is never used again. Raises UnknownColumnError."""
    return replace(schema, fields=tuple(_without(schema, place_of(schema, name))))


def with_moved(schema: InternalSchema, name: str, after: str) -> InternalSchema:
    """The column stands behind `after`. Raises UnknownColumnError."""
    at = place_of(schema, name)
    left = replace(schema, fields=tuple(_without(schema, at)))
    place = place_of(left, after) + 1
    return replace(schema, fields=(*left.fields[:place], schema.fields[at], *left.fields[place:]))


def with_new_column(
    schema: InternalSchema, field: pa.Field, after: str | None, parents: Sequence[str] = ()
) -> InternalSchema:
    """A new column behind `after`, or the last; `parents` are the structs that it becomes a member of.

    Raises UnknownColumnError, InvalidArgumentError.
    """
    ids = _Ids(schema.max_column_id + 1)
    fields = _with_new_field(schema.fields, field, after, parents, ids)
    return replace(schema, fields=tuple(fields), max_column_id=ids.next - 1)


def _with_new_field(
    fields: Sequence[Mapping[str, Any]], field: pa.Field, after: str | None, parents: Sequence[str], ids: _Ids
) -> list[Mapping[str, Any]]:
    if parents:
        at = _place_in(fields, parents[0])
        kind = fields[at]["type"]
        if not isinstance(kind, Mapping) or kind["type"] != "record":
            raise InvalidArgumentError(f"{parents[0]} is not a struct", hint="only structs have members")
        members = _with_new_field(kind["fields"], field, after, parents[1:], ids)
        changed = {**fields[at], "type": {**kind, "fields": members}}
        return [*fields[:at], changed, *fields[at + 1 :]]
    if any(known["name"].lower() == field.name.lower() for known in fields):
        raise InvalidArgumentError(f"there is a column {field.name} already")
    place = len(fields) if after is None else _place_in(fields, after) + 1
    return [*fields[:place], *_new_fields([field], ids), *fields[place:]]


def with_type(schema: InternalSchema, name: str, kind: pa.DataType) -> InternalSchema:
    """The column has another type, which is not nested. Raises UnknownColumnError."""
    return _with_field(schema, place_of(schema, name), type=_new_type(kind, _Ids(0), name))


def with_comment(schema: InternalSchema, name: str, comment: str) -> InternalSchema:
    """The column has this comment. Raises UnknownColumnError."""
    return _with_field(schema, place_of(schema, name), doc=comment)


def place_of(schema: InternalSchema, name: str) -> int:
    """The place of a column among the fields, meta columns included. Raises UnknownColumnError."""
    return _place_in(schema.fields, name)


def _place_in(fields: Sequence[Mapping[str, Any]], name: str) -> int:
    for at, field in enumerate(fields):
        if field["name"].lower() == name.lower():
            return at
    known = ", ".join(field["name"] for field in fields if not is_meta_column(field["name"]))
    raise UnknownColumnError(f"there is no column '{name}'", hint=f"the columns are {known}")


def _without(schema: InternalSchema, at: int) -> list[Mapping[str, Any]]:
    return [*schema.fields[:at], *schema.fields[at + 1 :]]


def _with_field(schema: InternalSchema, at: int, **changes: Any) -> InternalSchema:
    changed = {**schema.fields[at], **changes}
    return replace(schema, fields=(*schema.fields[:at], changed, *schema.fields[at + 1 :]))
