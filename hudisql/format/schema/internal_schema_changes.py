"""Changes of an internal schema: a column is added, dropped, renamed, moved or gets another type or comment.

Follows `TableChanges`, `AvroInternalSchemaConverter` and `AvroSchemaEvolutionUtils` of Hudi 0.15: new columns
get the next ids, those of a record as one block before those inside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from hudisql.errors import InvalidArgumentError, UnknownColumnError
from hudisql.format.schema.avro_schema import LOCAL_TIMESTAMP, TIMESTAMP, canonical_type, comment_of
from hudisql.format.schema.internal_schema import Fields, InternalSchema, primitive_type
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


# --- changes of columns by ALTER TABLE ----------------------------------------------------------------------
# Names of struct members are paths such as `car.color`.


def with_renamed(schema: InternalSchema, name: str, new_name: str) -> InternalSchema:
    """The column has another name. Raises UnknownColumnError, InvalidArgumentError."""
    at = place_of(schema, name)
    if any(field["name"].lower() == new_name.lower() for field in _without(schema.fields, at)):
        raise InvalidArgumentError(f"there is a column {new_name} already")
    return _with_field(schema, at, name=new_name)


def has_column(schema: InternalSchema, name: str) -> bool:
    """True if there is a column or struct member of this name."""
    try:
        id_of(schema, name.split("."))
    except UnknownColumnError:
        return False
    return True


def had_member(versions: Iterable[InternalSchema], struct_id: int, name: str) -> bool:
    """True if the struct with this id has a member of the name in one of the versions."""
    return any(
        field["id"] == struct_id and any(member["name"].lower() == name.lower() for member in _members(field))
        for version in versions
        for field in _with_all_members(version.fields)
    )


def id_of(schema: InternalSchema, path: Sequence[str]) -> int:
    """The id of a column or member. Raises UnknownColumnError."""
    fields: Fields = schema.fields
    field: Mapping[str, Any] = {}
    for name in path:
        field = fields[_place_in(fields, name)]
        fields = _members(field)
    return int(field["id"])


def _members(field: Mapping[str, Any]) -> Fields:
    kind = field["type"]
    return kind["fields"] if isinstance(kind, Mapping) and kind["type"] == "record" else ()


def _with_all_members(fields: Fields) -> Iterator[Mapping[str, Any]]:
    for field in fields:
        yield field
        yield from _with_all_members(_members(field))


def without_column(schema: InternalSchema, name: str) -> InternalSchema:
    """The column or member is gone; its id is never used again.

    Raises UnknownColumnError, InvalidArgumentError for the only member of a struct.
    """
    *parents, own = name.split(".")

    def dropped(fields: Fields) -> Fields:
        left = _without(fields, _place_in(fields, own))
        if parents and not left:
            raise InvalidArgumentError(
                f"{name} is the only member of its struct", hint=f"DROP COLUMN {'.'.join(parents)}"
            )
        return left

    return replace(schema, fields=tuple(_with_members(schema.fields, parents, dropped)))


def with_moved(schema: InternalSchema, name: str, after: str | None) -> InternalSchema:
    """The column or member stands behind `after`, or first for None.

    Raises UnknownColumnError, InvalidArgumentError.
    """
    *parents, own = name.split(".")

    def moved(fields: Fields) -> Fields:
        at = _place_in(fields, own)
        left = _without(fields, at)
        place = 0 if after is None else _place_in(left, after) + 1
        return [*left[:place], fields[at], *left[place:]]

    return replace(schema, fields=tuple(_with_members(schema.fields, parents, moved)))


def with_new_column(
    schema: InternalSchema, field: pa.Field, after: str | None, parents: Sequence[str] = ()
) -> InternalSchema:
    """A new column behind `after`, or the last; `parents` are the structs that it becomes a member of.

    Raises UnknownColumnError, InvalidArgumentError.
    """
    ids = _Ids(schema.max_column_id + 1)

    def added(fields: Fields) -> Fields:
        if any(known["name"].lower() == field.name.lower() for known in fields):
            raise InvalidArgumentError(f"there is a column {field.name} already")
        place = len(fields) if after is None else _place_in(fields, after) + 1
        return [*fields[:place], *_new_fields([field], ids), *fields[place:]]

    fields = _with_members(schema.fields, parents, added)
    return replace(schema, fields=tuple(fields), max_column_id=ids.next - 1)


def _with_members(fields: Fields, parents: Sequence[str], change: Callable[[Fields], Fields]) -> Fields:
    """The fields with the change in the struct below `parents`, or in themselves."""
    if not parents:
        return change(fields)
    at = _place_in(fields, parents[0])
    kind = fields[at]["type"]
    if not isinstance(kind, Mapping) or kind["type"] != "record":
        raise InvalidArgumentError(f"{parents[0]} is not a struct", hint="only structs have members")
    members = list(_with_members(kind["fields"], parents[1:], change))
    return [*fields[:at], {**fields[at], "type": {**kind, "fields": members}}, *fields[at + 1 :]]


def with_type(schema: InternalSchema, name: str, kind: pa.DataType) -> InternalSchema:
    """The column has another type, which is not nested. Raises UnknownColumnError."""
    return _with_field(schema, place_of(schema, name), type=_new_type(kind, _Ids(0), name))


def with_comment(schema: InternalSchema, name: str, comment: str) -> InternalSchema:
    """The column has this comment. Raises UnknownColumnError."""
    return _with_field(schema, place_of(schema, name), doc=comment)


def place_of(schema: InternalSchema, name: str) -> int:
    """The place of a column among the fields, meta columns included. Raises UnknownColumnError."""
    return _place_in(schema.fields, name)


def _place_in(fields: Fields, name: str) -> int:
    for at, field in enumerate(fields):
        if field["name"].lower() == name.lower():
            return at
    known = ", ".join(field["name"] for field in fields if not is_meta_column(field["name"]))
    raise UnknownColumnError(f"there is no column '{name}'", hint=f"the columns are {known}")


def _without(fields: Fields, at: int) -> list[Mapping[str, Any]]:
    return [*fields[:at], *fields[at + 1 :]]


def _with_field(schema: InternalSchema, at: int, **changes: Any) -> InternalSchema:
    changed = {**schema.fields[at], **changes}
    return replace(schema, fields=(*schema.fields[:at], changed, *schema.fields[at + 1 :]))
