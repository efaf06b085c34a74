"""Type names of result columns in HiveServer2's protocol, and the encoding of their values.

As in Hive from protocol V6 on, decimals, dates, timestamps and intervals are sent as text and named by their
own type; arrays, maps and structs are JSON text, but numeric keys of maps have no quotes. Spark makes the
texts in its tasks, so that a value looks as `CAST(… AS STRING)` shows it, timestamps in the session's time
zone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hudisql.server.column_bytes import WireType
from hudisql.server.thrift_binary import I32, LIST, MAP, STRING, STRUCT, ListOf, MapOf, StructValue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

STRING_TYPE: Final = 7
# TTypeId of Hive's TCLIService.
_TYPE_IDS: Final = {
    "boolean": 0,
    "tinyint": 1,
    "smallint": 2,
    "int": 3,
    "bigint": 4,
    "float": 5,
    "double": 6,
    "string": STRING_TYPE,
    "timestamp": 8,
    "timestamp_ntz": 8,
    "binary": 9,
    "array": 10,
    "map": 11,
    "struct": 12,
    "decimal": 15,
    "void": 16,
    "date": 17,
    "varchar": 18,
    "char": 19,
    "interval year": 20,
    "interval month": 20,
    "interval day": 21,
    "interval hour": 21,
    "interval minute": 21,
    "interval second": 21,
}
_WIRE_TYPES: Final = {
    "boolean": WireType.BOOLEAN,
    "tinyint": WireType.TINYINT,
    "smallint": WireType.SMALLINT,
    "int": WireType.INT,
    "bigint": WireType.BIGINT,
    "float": WireType.DOUBLE,
    "double": WireType.DOUBLE,
    "string": WireType.STRING,
    "binary": WireType.BINARY,
}
_WHOLE_INTERVALS: Final = {
    **dict.fromkeys(("year", "month"), "interval year to month"),
    **dict.fromkeys(("day", "hour", "minute", "second"), "interval day to second"),
}
_NESTED: Final = ("array", "map", "struct")
_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
# Types of map keys without quotes.
_BARE_KEYS: Final = frozenset((*_NESTED, *_NUMBERS, "boolean"))
_JSON_OPTIONS: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd HH:mm:ss[.SSSSSS]",
    "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss[.SSSSSS]",
}


@dataclass(frozen=True)
class ResultColumn:
    """A column: its name, TTypeId, wire type, and type qualifiers (precision, length)."""

    name: str
    type_id: int = STRING_TYPE
    wire: WireType = WireType.STRING
    qualifiers: tuple[tuple[str, int], ...] = ()
    comment: str = ""

    def description(self, position: int) -> StructValue:
        """The `TColumnDesc`; `position` counts from 1."""
        entry: list[tuple[int, int, Any]] = [(1, I32, self.type_id)]
        if self.qualifiers:
            values = [(name, ((1, I32, value),)) for name, value in self.qualifiers]
            entry.append((2, STRUCT, ((1, MAP, MapOf(STRING, STRUCT, values)),)))
        types = ListOf(STRUCT, [((1, STRUCT, entry),)])
        return (
            (1, STRING, self.name),
            (2, STRUCT, ((1, LIST, types),)),
            (3, I32, position),
            (4, STRING, self.comment or None),
        )


def result_columns(schema: StructType) -> tuple[ResultColumn, ...]:
    """The columns of a result."""
    return tuple(
        ResultColumn(
            field.name,
            type_id(field.dataType),
            _WIRE_TYPES.get(type_name(field.dataType), WireType.STRING),
            _qualifiers(field.dataType),
            str(field.metadata.get("comment", "")),
        )
        for field in schema.fields
    )


def type_name(kind: DataType) -> str:
    """The type's name without qualifiers: `decimal`, `array`, `interval day`."""
    name = kind.simpleString().split("<")[0].split("(")[0].split(" collate ")[0]
    return " ".join(name.split()[:2]) if name.startswith("interval") else name


def type_id(kind: DataType) -> int:
    """The TTypeId; types that Hive does not have are sent as text."""
    return _TYPE_IDS.get(type_name(kind), STRING_TYPE)


def _qualifiers(kind: DataType) -> tuple[tuple[str, int], ...]:
    from pyspark.sql import types

    if isinstance(kind, types.DecimalType):
        return (("precision", kind.precision), ("scale", kind.scale))
    if isinstance(kind, types.CharType | types.VarcharType):
        return (("characterMaximumLength", kind.length),)
    return ()


def travels_as_it_is(kind: DataType) -> bool:
    """True if values are sent without conversion to text."""
    return type_name(kind) in _WIRE_TYPES


def wire_frame(frame: DataFrame) -> DataFrame:
    """The rows with all columns as they are sent: named by position, since names may repeat."""
    from pyspark.sql import functions as sf

    kinds = [field.dataType for field in frame.schema]
    positional = frame.toDF(*(f"c{position}" for position in range(len(kinds))))
    if all(travels_as_it_is(kind) for kind in kinds):
        return positional
    return positional.select(
        *(
            _travelling(sf.col(f"c{position}"), kind).alias(f"c{position}")
            for position, kind in enumerate(kinds)
        )
    )


def _travelling(column: Any, kind: DataType) -> Any:
    from pyspark.sql import functions as sf

    if travels_as_it_is(kind):
        return column
    if type_name(kind) in _NESTED:
        return _nested_text(column, kind)
    whole = _WHOLE_INTERVALS.get(type_name(kind).removeprefix("interval "))
    if whole is not None:
        # Hive's text, which its JDBC driver parses, is the part of Spark's text between the quotes.
        return sf.regexp_extract(column.cast(whole).cast("string"), "'(.*)'", 1)
    return column.cast("string")


def _nested_text(column: Any, kind: DataType) -> Any:
    """JSON, but non-text keys of maps have no quotes, as in Hive and Spark's Thrift server.

    Hive's `SerDeUtils.buildJSONString`, Spark's `ToHiveString`.
    """
    from pyspark.sql import functions as sf
    from pyspark.sql import types

    if not _has_bare_keys(kind):
        return sf.to_json(_json_ready(column, kind), dict(_JSON_OPTIONS))
    if isinstance(kind, types.ArrayType):
        element = kind.elementType
        members = sf.transform(column, lambda item: _member_text(item, element))
        return sf.concat(sf.lit("["), sf.array_join(members, ","), sf.lit("]"))
    if isinstance(kind, types.MapType):
        key_kind, item_kind = kind.keyType, kind.valueType
        entries = sf.transform(
            sf.map_entries(column),
            lambda entry: sf.concat(
                _key_text(entry["key"], key_kind), sf.lit(":"), _member_text(entry["value"], item_kind)
            ),
        )
        return sf.concat(sf.lit("{"), sf.array_join(entries, ","), sf.lit("}"))
    assert isinstance(kind, types.StructType)
    fields = [
        sf.concat(sf.lit(f"{json.dumps(name)}:"), _member_text(column[name], field.dataType))
        for name, field in zip(kind.names, kind.fields, strict=True)
    ]
    text = sf.concat(sf.lit("{"), sf.concat_ws(",", *fields), sf.lit("}"))
    return sf.when(column.isNotNull(), text)


def _member_text(value: Any, kind: DataType) -> Any:
    """A member of an array, map or struct; NULL is `null`."""
    from pyspark.sql import functions as sf

    if type_name(kind) in _NESTED:
        return sf.coalesce(_nested_text(value, kind), sf.lit("null"))
    # `to_json` does not take values that are not structs, arrays or maps.
    text = sf.to_json(sf.array(_json_ready(value, kind)), dict(_JSON_OPTIONS))
    return sf.regexp_extract(text, r"(?s)^\[(.*)\]$", 1)


def _key_text(key: Any, kind: DataType) -> Any:
    from pyspark.sql import types

    if type_name(kind) in _NESTED:
        return _nested_text(key, kind)
    if type_name(kind) in _BARE_KEYS:
        return key.cast("string")
    return _member_text(_json_key(key, kind), types.StringType())


def _has_bare_keys(kind: DataType) -> bool:
    from pyspark.sql import types

    if isinstance(kind, types.ArrayType):
        return _has_bare_keys(kind.elementType)
    if isinstance(kind, types.MapType):
        return type_name(kind.keyType) in _BARE_KEYS or _has_bare_keys(kind.valueType)
    if isinstance(kind, types.StructType):
        return _has_clear_names(kind) and any(_has_bare_keys(field.dataType) for field in kind)
    return False


def _has_clear_names(kind: Any) -> bool:
    """False for a struct with several members of one name, which cannot be addressed."""
    return len({name.lower() for name in kind.names}) == len(kind.names)


def _json_ready(column: Any, kind: DataType) -> Any:
    """The value with members as results show them: binary values as hexadecimal digits, times as text.

    For keys of maps `to_json` shows Spark's internal values: days of a date, the address of a binary value.
    """
    from pyspark.sql import functions as sf
    from pyspark.sql import types

    if not _has_to_be_made_ready(kind):
        return column
    if isinstance(kind, types.ArrayType):
        element = kind.elementType
        return sf.transform(column, lambda item: _json_ready(item, element))
    if isinstance(kind, types.MapType):
        key_kind, item_kind = kind.keyType, kind.valueType
        ready = sf.transform_values(column, lambda _, item: _json_ready(item, item_kind))
        return sf.transform_keys(ready, lambda key, _: _json_key(key, key_kind))
    if isinstance(kind, types.StructType):
        members = [_json_ready(column[field.name], field.dataType).alias(field.name) for field in kind]
        return sf.when(column.isNotNull(), sf.struct(*members))
    return sf.hex(column) if isinstance(kind, types.BinaryType) else column.cast("string")


def _json_key(key: Any, kind: DataType) -> Any:
    from pyspark.sql import functions as sf

    return sf.hex(key) if type_name(kind) == "binary" else key.cast("string")


def _has_to_be_made_ready(kind: DataType) -> bool:
    from pyspark.sql import types

    if isinstance(kind, types.ArrayType):
        return _has_to_be_made_ready(kind.elementType)
    if isinstance(kind, types.MapType):
        return type_name(kind.keyType) not in ("string", "void") or _has_to_be_made_ready(kind.valueType)
    if isinstance(kind, types.StructType):
        return _has_clear_names(kind) and any(_has_to_be_made_ready(field.dataType) for field in kind)
    return type_name(kind) in ("binary", "timestamp", "timestamp_ntz")
