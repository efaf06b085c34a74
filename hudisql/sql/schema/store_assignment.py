"""Casts stored values to the table's types by Spark's store assignment.

Follows `TableOutputResolver` of Spark with `spark.sql.storeAssignmentPolicy=ANSI`, whatever the session's
settings are: casts without meaning are refused before anything runs, values that do not fit fail while it
runs. Expressions below the cast keep the session's semantics. Knows DataFrames, not statements.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudisql.errors import WriteRefusedError
from hudisql.format.schema.sized_text import SizedText
from hudisql.format.schema.spark_schema import quote_name
from hudisql.read.scan.arrow_scan import spark_struct
from hudisql.spark.jvm import java_class
from hudisql.spark.versions import column_of, expression_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from hudisql.context import Context


_NO_LENGTHS: Final[Mapping[str, SizedText]] = MappingProxyType({})


def with_types(
    context: Context,
    frame: DataFrame,
    schema: pa.Schema,
    table_label: str,
    *,
    members_by_name: bool = False,
    lengths: Mapping[str, SizedText] = _NO_LENGTHS,
) -> DataFrame:
    """The columns of `schema`, found by name, with its types; `table_label` names the table in errors.

    With `members_by_name` members of structs are found by name, too, and missing ones are null; else by
    position. `lengths` are those of VARCHAR and CHAR columns: a longer value fails while the query runs.
    Raises WriteRefusedError for a type that cannot be stored in its column.
    """
    from pyspark.sql import functions as sf

    wanted = spark_struct(schema)
    types = {field.name: field.dataType for field in frame.schema}
    casts: dict[str, Column] = {}
    for field in wanted:
        data_type = types[field.name]
        sized = lengths.get(field.name)
        if data_type == field.dataType and sized is None:
            continue
        value = sf.col(quote_name(field.name))
        if members_by_name and not _same_members(data_type, field.dataType):
            value, data_type = _by_members(
                value, data_type, field.dataType, f"column '{field.name}' of {table_label}"
            )
        if not _can_assign(context, data_type, field.dataType):
            raise WriteRefusedError(
                f"column '{field.name}' of {table_label} is {field.dataType.simpleString()}: "
                f"a value of type {data_type.simpleString()} cannot be stored in it",
                hint=f"CAST the value AS {field.dataType.simpleString()} if that is what is meant",
            )
        cast = store_cast(context, value, data_type, field.dataType, field.name)
        if sized is not None:
            cast = _within_length(cast, sized, f"column '{field.name}' of {table_label}")
        casts[field.name] = cast.alias(field.name)
    if list(types) != wanted.names:
        return frame.select(*(casts.get(name, sf.col(quote_name(name))) for name in wanted.names))
    return frame.withColumns(casts) if casts else frame


def _within_length(value: Column, sized: SizedText, where: str) -> Column:
    """The text if it fits the type: as in Spark, spaces beyond are cut off, other characters fail.

    A shorter CHAR is filled with spaces (`CharVarcharCodegenUtils`).
    """
    from pyspark.sql import functions as sf

    length = sized.length
    fitting = sf.rpad(value, length, " ") if sized.is_char else value
    characters = sf.char_length(value)
    message = sf.concat(
        sf.lit(f"{where} is {sized.name.upper()}: it cannot hold a value of "),
        characters.cast("string"),
        sf.lit(" characters"),
    )
    return (
        sf.when(value.isNull() | (characters <= length), fitting)
        .when(sf.char_length(sf.rtrim(value)) <= length, sf.substring(value, 1, length))
        .otherwise(sf.raise_error(message))
    )


def store_cast(context: Context, value: Column, found: Any, wanted: Any, name: str) -> Column:
    """Cast `value` from the type `found` to `wanted` of the column `name`; fails if a value does not fit.

    Spark's own `cast` follows `spark.sql.ansi.enabled` and would wrap such values, or store NULL.
    """
    if found == wanted:
        return value
    spark: Any = context.spark
    expressions = "org.apache.spark.sql.catalyst.expressions"
    no_zone = java_class(spark, "scala.Option").empty()
    ansi = java_class(spark, f"{expressions}.EvalMode").ANSI()
    parse = java_class(spark, "org.apache.spark.sql.types.DataType").fromJson
    j_found, j_type = parse(found.json()), parse(wanted.json())
    cast = java_class(spark, f"{expressions}.Cast")(expression_of(spark, value), j_type, no_zone, ansi)
    if not java_class(spark, f"{expressions}.Cast").canUpCast(j_found, j_type):
        # The error names the column if a value does not fit.
        cast = java_class(spark, f"{expressions}.CheckOverflowInTableInsert")(cast, quote_name(name))
    return column_of(spark, cast)


def _can_assign(context: Context, found: Any, wanted: Any) -> bool:
    if found == wanted or found.simpleString() == "void":
        return True
    parse = java_class(context.spark, "org.apache.spark.sql.types.DataType").fromJson
    cast = java_class(context.spark, "org.apache.spark.sql.catalyst.expressions.Cast")
    return bool(cast.canANSIStoreAssign(parse(found.json()), parse(wanted.json())))


def _same_members(found: Any, wanted: Any) -> bool:
    """True if structs have the same members in the same order, so that a cast by position is one by name."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(found, StructType) and isinstance(wanted, StructType):
        return found.fieldNames() == wanted.fieldNames() and all(
            _same_members(one.dataType, other.dataType) for one, other in zip(found, wanted, strict=True)
        )
    if isinstance(found, ArrayType) and isinstance(wanted, ArrayType):
        return _same_members(found.elementType, wanted.elementType)
    if isinstance(found, MapType) and isinstance(wanted, MapType):
        return _same_members(found.keyType, wanted.keyType) and _same_members(
            found.valueType, wanted.valueType
        )
    return True


def _by_members(value: Column, found: Any, wanted: Any, where: str) -> tuple[Column, Any]:
    """The value with the members of its structs in the wanted order, and its resulting type."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import ArrayType, MapType, NullType, StructField, StructType

    if isinstance(found, ArrayType) and isinstance(wanted, ArrayType):
        _, element = _by_members(value, found.elementType, wanted.elementType, where)
        changed = sf.transform(
            value, lambda column: _by_members(column, found.elementType, wanted.elementType, where)[0]
        )
        return changed, ArrayType(element)
    if isinstance(found, MapType) and isinstance(wanted, MapType):
        _, item = _by_members(value, found.valueType, wanted.valueType, where)
        changed = sf.transform_values(
            value, lambda _, map_value: _by_members(map_value, found.valueType, wanted.valueType, where)[0]
        )
        return changed, MapType(found.keyType, item)
    if not isinstance(found, StructType) or not isinstance(wanted, StructType):
        return value, found
    given = {field.name.lower(): field for field in found}
    extra = sorted(set(given) - {field.name.lower() for field in wanted})
    if extra:
        raise WriteRefusedError(f"{where} has no member '{given[extra[0]].name}'")
    members, fields = [], []
    for field in wanted:
        member = given.get(field.name.lower())
        if member is None:
            inner, kind = sf.lit(None), NullType()
        else:
            inner, kind = _by_members(value.getField(member.name), member.dataType, field.dataType, where)
        members.append(inner.alias(field.name))
        fields.append(StructField(field.name, kind))
    return sf.when(value.isNotNull(), sf.struct(*members)), StructType(fields)
