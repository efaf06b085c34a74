"""Hudi's internal schema: a table's columns with ids, by which old files are read after a schema change.

Follows `InternalSchema`, `SerDeHelper` and `InternalSchemaUtils` of Hudi 0.15 (schema-on-read). Commits carry
the latest one as `latest_schema`, and `.hoodie/.schema` has all versions. A version's id is the instant time
of the commit that made it, 0 for the schema before the first change. Knows values only: it reads no files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from hudisql.errors import CorruptTableError, UnsupportedTableError
from hudisql.format.schema.avro_schema import LOCAL_TIMESTAMP, TIMESTAMP, commented_field
from hudisql.format.schema.internal_columns import internal_column
from hudisql.format.schema.meta_columns import is_meta_column

LATEST_SCHEMA_KEY: Final = "latest_schema"
"""Key of a commit's extra metadata that holds its internal schema as JSON text."""

Fields = Sequence[Mapping[str, Any]]
"""The fields of a record in Hudi's JSON: id, name, optional, type, doc."""

_PRIMITIVES: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp-millis": TIMESTAMP,
    "local-timestamp-millis": LOCAL_TIMESTAMP,
    "local-timestamp-micros": LOCAL_TIMESTAMP,
    "string": pa.string(),
    "binary": pa.binary(),
}
# Hudi 1.2 says how the values are stored: decimal_fixed(10, 2)[5].
_DECIMAL: Final = re.compile(r"decimal(?:_fixed|_bytes)?\((\d+), ?(\d+)\)(?:\[\d+\])?")


@dataclass(frozen=True)
class InternalSchema:
    """One version of a table's schema; `fields` are those of Hudi's JSON, meta columns included."""

    version_id: int
    max_column_id: int
    fields: Fields

    def document(self) -> dict[str, Any]:
        """Hudi's JSON of this version."""
        return {
            "max_column_id": self.max_column_id,
            "version_id": self.version_id,
            "type": "record",
            "fields": list(self.fields),
        }

    def to_json(self) -> str:
        """The text of `latest_schema`."""
        return _compact(self.document())


def parse_internal_schema(text: str) -> InternalSchema:
    """The internal schema of a commit. Raises CorruptTableError."""
    return _version_of(_parsed(text))


def parse_schema_history(text: str) -> tuple[InternalSchema, ...]:
    """The versions that a file of `.hoodie/.schema` holds, newest first. Raises CorruptTableError."""
    found = _parsed(text).get("schemas")
    if not isinstance(found, list):
        raise CorruptTableError("a schema history has no list of schemas")
    return tuple(sorted(map(_version_of, found), key=lambda internal_schema: -internal_schema.version_id))


def render_schema_history(versions: Iterable[InternalSchema]) -> str:
    """The content of a file of `.hoodie/.schema`."""
    return _compact({"schemas": [version.document() for version in versions]})


def _parsed(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise CorruptTableError(f"an internal schema is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise CorruptTableError("an internal schema is not a JSON object")
    return document


def _version_of(document: Mapping[str, Any]) -> InternalSchema:
    try:
        return InternalSchema(
            int(document["version_id"]), int(document["max_column_id"]), tuple(document["fields"])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptTableError(f"an internal schema lacks or misuses a field: {error!r}") from error


def _compact(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def arrow_schema(schema: InternalSchema) -> pa.Schema:
    """The data and partition columns of the internal schema, without meta columns.

    Raises UnsupportedTableError for a type that is not read.
    """
    return pa.schema([field for field in _arrow_fields(schema.fields) if not is_meta_column(field.name)])


def _arrow_fields(fields: Fields) -> list[pa.Field]:
    return [
        commented_field(field["name"], _arrow_type(field["type"], field["name"]), field.get("doc"))
        for field in fields
    ]


def _arrow_type(kind: Any, name: str) -> pa.DataType:
    if isinstance(kind, str):
        return primitive_type(kind, name)
    if kind["type"] == "record":
        return pa.struct(_arrow_fields(kind["fields"]))
    if kind["type"] == "array":
        return pa.list_(pa.field("element", _arrow_type(kind["element"], name)))
    return pa.map_(pa.string(), _arrow_type(kind["value"], name))


@dataclass(frozen=True)
class FileColumns:
    """How the columns of the schema that is read are found in files of each version, by their ids.

    `current` is the schema that is read, `versions` are all known ones, newest first.
    """

    current: InternalSchema
    versions: tuple[InternalSchema, ...]

    def keeps_columns_of(self, earlier: FileColumns | None) -> bool:
        """True if each column of the earlier schema still has its name; without ids it is not known."""
        if earlier is None:
            return False
        now = {field["name"]: field["id"] for field in self.current.fields}
        return all(now.get(field["name"]) == field["id"] for field in earlier.current.fields)

    def version_at(self, instant_time: str) -> InternalSchema | None:
        """The schema of files that the instant has written; None if it is older than all versions."""
        return next((version for version in self.versions if version.version_id <= int(instant_time)), None)

    def in_file(self, schema: pa.Schema, instant_time: str) -> pa.Schema:
        """The columns of `schema`, one by one, with the names and types of the instant's files.

        A column that these files do not have, though they may have one of its name, gets a name that no
        file has. Meta columns are as they are. Raises UnsupportedTableError for a type that is not read.
        """
        stored = self.version_at(instant_time)
        if stored is None or stored.version_id == self.current.version_id:
            return schema
        return pa.schema(_fields_in_file(schema, self.current.fields, stored.fields))


def _fields_in_file(wanted: Iterable[pa.Field], current: Fields, stored: Fields) -> list[pa.Field]:
    ids = {field["name"].lower(): field for field in current}
    known = {field["id"]: field for field in stored}
    names = {field["name"].lower() for field in stored}
    found = []
    for field in wanted:
        own = ids.get(field.name.lower())
        match = None if own is None else known.get(own["id"])
        if is_meta_column(field.name):
            found.append(field)
        elif own is None or match is None:
            is_taken = field.name.lower() in names
            found.append(field.with_name(internal_column(f"not {field.name}")) if is_taken else field)
        else:
            kind = _type_in_file(field.type, own["type"], match["type"], field.name)
            found.append(field.with_name(_name_of(match, field)).with_type(kind))
    return found


def _name_of(stored: Mapping[str, Any], field: pa.Field) -> str:
    name = str(stored["name"])
    return str(field.name) if name.lower() == field.name.lower() else name


def _type_in_file(wanted: pa.DataType, current: Any, stored: Any, name: str) -> pa.DataType:
    """The type of the file's values for a column, in the shape of `wanted`."""
    if current == stored:
        return wanted
    if isinstance(current, Mapping) and isinstance(stored, Mapping) and current["type"] == stored["type"]:
        if current["type"] == "record":
            return pa.struct(_fields_in_file(wanted, current["fields"], stored["fields"]))
        if current["type"] == "array":
            element = _type_in_file(wanted.value_type, current["element"], stored["element"], name)
            return pa.list_(wanted.value_field.with_type(element))
        item = _type_in_file(wanted.item_type, current["value"], stored["value"], name)
        return pa.map_(wanted.key_field, wanted.item_field.with_type(item))
    if isinstance(current, str) and isinstance(stored, str):
        return primitive_type(stored, name)
    raise UnsupportedTableError(
        f"the column {name} was of the type {stored} in older files, which is not read as {current}"
    )


def primitive_type(text: str, name: str) -> pa.DataType:
    """The Arrow type of Hudi's name of a type; `name` is the column's for errors.

    Raises UnsupportedTableError for a type that is not read.
    """
    if text in _PRIMITIVES:
        return _PRIMITIVES[text]
    if (decimal := _DECIMAL.fullmatch(text)) is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    raise UnsupportedTableError(
        f"the column {name} has the type {text} in an internal schema, which is not read"
    )
