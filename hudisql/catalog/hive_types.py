"""Hive's type texts (`struct<a:bigint,b:array<string>>`) and Arrow types.

Follows Hive's `TypeInfoUtils` and Hudi's `HiveSchemaUtil`. Names in Hive are case-insensitive, so struct
fields are lower-cased for Hive; Spark's schema property keeps the case.
"""

from __future__ import annotations

import re
from typing import NoReturn

import pyarrow as pa

from hudisql.errors import UnsupportedTableError
from hudisql.format.schema.avro_schema import LOCAL_TIMESTAMP, TIMESTAMP, canonical_type

_TO_HIVE: dict[pa.DataType, str] = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    pa.date32(): "date",
    TIMESTAMP: "timestamp",
    LOCAL_TIMESTAMP: "timestamp",
}
_FROM_HIVE: dict[str, pa.DataType] = {
    "string": pa.string(),
    "char": pa.string(),
    "varchar": pa.string(),
    "tinyint": pa.int32(),
    "smallint": pa.int32(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "double precision": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp with local time zone": TIMESTAMP,
}
# Hive writes field names without quotes, Spark quotes special ones with backticks.
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|[<>(),:]|[^<>(),:`]+)")


def hive_type_name(field_type: pa.DataType, *, support_timestamp: bool = True) -> str:
    """The type as Hive writes it. Without `support_timestamp`, timestamps are bigints of microseconds.

    Raises UnsupportedTableError for types that hudisql's tables can't hold.
    """
    field_type = canonical_type(field_type, "")
    if pa.types.is_timestamp(field_type) and not support_timestamp:
        return "bigint"
    if field_type in _TO_HIVE:
        return _TO_HIVE[field_type]
    if pa.types.is_decimal(field_type):
        return f"decimal({field_type.precision},{field_type.scale})"
    if pa.types.is_struct(field_type):
        fields = (
            f"{field.name.lower()}:{hive_type_name(field.type, support_timestamp=support_timestamp)}"
            for field in field_type
        )
        return f"struct<{','.join(fields)}>"
    if pa.types.is_map(field_type):
        key = hive_type_name(field_type.key_type, support_timestamp=support_timestamp)
        value = hive_type_name(field_type.item_type, support_timestamp=support_timestamp)
        return f"map<{key},{value}>"
    return f"array<{hive_type_name(field_type.value_type, support_timestamp=support_timestamp)}>"


def arrow_from_hive_type(text: str) -> pa.DataType:
    """The Arrow type of a Hive type text; `tinyint` and `smallint` are int32, as in Hudi's schemas.

    Raises UnsupportedTableError for texts that are not types, and for types that Hudi does not have
    (uniontype …).
    """
    reader = _TypeReader(text)
    found = reader.read_type()
    reader.expect_end()
    return found


class _TypeReader:
    """Reads one type text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [token.strip() for token in _TOKEN.findall(text)]
        self._position = 0

    def read_type(self) -> pa.DataType:
        name = self._next().lower()
        if name == "array":
            self._expect("<")
            element = self.read_type()
            self._expect(">")
            return pa.list_(pa.field("element", element))
        if name == "map":
            self._expect("<")
            key = self.read_type()
            self._expect(",")
            value = self.read_type()
            self._expect(">")
            return pa.map_(key, value)
        if name == "struct":
            return self._read_struct()
        arguments = self._read_arguments()
        if name in ("decimal", "numeric"):
            precision, scale = (*arguments, 0)[:2] if arguments else (10, 0)
            return pa.decimal128(precision, scale)
        if name not in _FROM_HIVE:
            self._refuse()
        return _FROM_HIVE[name]

    def expect_end(self) -> None:
        if self._position != len(self._tokens):
            self._refuse()

    def _read_struct(self) -> pa.DataType:
        self._expect("<")
        fields: list[pa.Field] = []
        while True:
            name = self._next()
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            self._expect(":")
            fields.append(pa.field(name, self.read_type()))
            if self._next_is(">"):
                return pa.struct(fields)
            self._expect(",")

    def _read_arguments(self) -> list[int]:
        if not self._next_is("("):
            return []
        arguments: list[int] = []
        while True:
            text = self._next()
            if not text.isdecimal():
                self._refuse()
            arguments.append(int(text))
            if self._next_is(")"):
                return arguments
            self._expect(",")

    def _next(self) -> str:
        if self._position >= len(self._tokens):
            self._refuse()
        self._position += 1
        return str(self._tokens[self._position - 1])

    def _next_is(self, token: str) -> bool:
        if self._position < len(self._tokens) and self._tokens[self._position] == token:
            self._position += 1
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._next_is(token):
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise UnsupportedTableError(f"'{self._text}' is not a Hive type that hudisql supports")


def is_taken_change(before: str, after: str) -> bool:
    """True if every metastore takes this change of a column's type in its place."""
    return (
        after in (before, "string")
        or (before, after) in (("int", "bigint"), ("int", "double"), ("float", "double"))
        or (before[:8], after[:8]) == ("decimal(", "decimal(")
    )
