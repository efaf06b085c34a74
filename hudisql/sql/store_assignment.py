"""Values that a statement stores: cast to the table's types by Spark's own rule for it.

Follows `spark.sql.storeAssignmentPolicy=ANSI`: what cannot be meant is refused before anything runs, what
does not fit fails while it runs. Knows DataFrames, no statements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudisql.errors import WriteRefusedError
from hudisql.format.spark_schema import quote_name
from hudisql.read.arrow_scan import spark_struct

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from hudisql.context import Context


def with_types(context: Context, frame: DataFrame, schema: pa.Schema, place: str) -> DataFrame:
    """The columns of `schema`, found by name, with its types; `place` names the table in errors.

    Raises WriteRefusedError for a type that cannot be stored in its column.
    """
    from pyspark.sql import functions as sf

    columns: list[Column] = []
    for field in spark_struct(schema):
        found = frame.schema[field.name].dataType
        if not _can_assign(context, found, field.dataType):
            raise WriteRefusedError(
                f"column '{field.name}' of {place} is {field.dataType.simpleString()}: "
                f"a value of type {found.simpleString()} cannot be stored in it",
                hint=f"CAST the value AS {field.dataType.simpleString()} if that is what is meant",
            )
        columns.append(sf.col(quote_name(field.name)).cast(field.dataType).alias(field.name))
    return frame.select(*columns)


def _can_assign(context: Context, found: Any, wanted: Any) -> bool:
    if found == wanted or found.simpleString() == "void":
        return True
    jvm: Any = context.spark._jvm
    parse = jvm.org.apache.spark.sql.types.DataType.fromJson
    cast = jvm.org.apache.spark.sql.catalyst.expressions.Cast
    return bool(cast.canANSIStoreAssign(parse(found.json()), parse(wanted.json())))
