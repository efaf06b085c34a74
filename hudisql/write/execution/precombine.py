"""Which of several incoming rows is the newest, as Spark's sort order: `read.ordering`'s rule for columns.

Spark, too, takes NaN for the highest number, but -0.0 for equal to 0.0, which Java does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from hudisql.format.spark_schema import quote_path

if TYPE_CHECKING:
    from pyspark.sql import Column


def newest_first(precombine_field: str, schema: pa.Schema) -> list[Column]:
    """The sort order that puts the highest value of the column (of `schema`) first, nulls last."""
    from pyspark.sql import functions as sf

    value = sf.col(quote_path(precombine_field))
    order = [value.desc_nulls_last()]
    if _is_floating(precombine_field, schema):
        order.append(_zero_as_text(value).desc_nulls_last())
    return order


def is_higher(one: str, other: str, precombine_field: str, schema: pa.Schema) -> Column:
    """True where the column `one` has a higher value than `other`, both of the type of `precombine_field`."""
    from pyspark.sql import functions as sf

    left, right = sf.col(quote_path(one)), sf.col(quote_path(other))
    higher = left > right
    if _is_floating(precombine_field, schema):
        higher = higher | (_zero_as_text(left) > _zero_as_text(right))
    return higher


def _zero_as_text(value: Column) -> Column:
    # '0.0' is the higher text, '-0.0' the lower.
    from pyspark.sql import functions as sf

    return sf.when(value == 0, value.cast("string"))


def _is_floating(name: str, schema: pa.Schema) -> bool:
    position = schema.get_field_index(name)
    return position >= 0 and bool(pa.types.is_floating(schema.field(position).type))
