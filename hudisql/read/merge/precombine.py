"""The rule that decides which record of a key is the newest, for Arrow and Spark columns.

Follows `HoodieRecordPayload.preCombine` and `Comparable.compareTo`, by which Hudi's payloads compare ordering
values: of doubles and floats NaN is the highest value and equal to itself, and -0.0 is lower than 0.0. A null
is lower than every value. Neither Arrow nor Spark has this order: Arrow's functions order neither NaN nor
-0.0, and for Spark -0.0 equals 0.0. Log records, stored rows and incoming rows are all compared here. Imports
Spark only in functions for Spark's columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.schema.internal_columns import internal_column
from hudisql.format.schema.spark_schema import quote_path
from hudisql.format.table_properties import IGNORE_DEFAULTS
from hudisql.read.merge.merge_mode import DEFAULT_MERGE_MODE, RecordMergeMode
from hudisql.read.merge.partial_update import fill_groups, fills_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_RANK: Final = internal_column("rank")
_ORDERING: Final = internal_column("ordering")


def comparable(values: pa.Array) -> pa.Array:
    """`values` as an array whose `<`, `=` and sort order are those of ordering values; nulls stay null."""
    if not pa.types.is_floating(values.type):
        return values
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    numbers[np.isnan(numbers)] = np.nan
    bits = numbers.view(np.int64)
    # As integers, negative numbers are in the reverse order.
    return pa.array(bits ^ ((bits >> 63) & np.int64(2**63 - 1)), pa.int64(), mask=is_null)


def is_higher(values: pa.Array, others: pa.Array, *, null_is_lowest: bool = False) -> npt.NDArray[np.bool_]:
    """True where a value is higher than the other one.

    A comparison with a null is false, or with `null_is_lowest` true if only the other one is null.
    """
    higher = pc.greater(comparable(values), comparable(others))
    unknown = pc.and_(pc.is_valid(values), pc.is_null(others)) if null_is_lowest else pa.scalar(False)
    return np.asarray(pc.fill_null(higher, unknown).to_numpy(zero_copy_only=False), dtype=bool)


def come_after(values: Sequence[pa.Array], others: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    """True where the values of several ordering fields are higher than the others; null is lowest.

    The first field decides unless its values are equal, then the next one.
    """
    last = len(values) - 1
    higher = is_higher(values[last], others[last], null_is_lowest=True)
    for place in range(last - 1, -1, -1):
        lower = is_higher(others[place], values[place], null_is_lowest=True)
        higher = is_higher(values[place], others[place], null_is_lowest=True) | (~lower & higher)
    return higher


def is_newer(stored: Sequence[pa.Array], incoming: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    """True for stored rows that incoming rows do not replace, by their values of the ordering fields.

    With one field a row is replaced if either value is null; with several fields a null is lowest.
    """
    return is_higher(stored[0], incoming[0]) if len(stored) == 1 else come_after(stored, incoming)


def newest_first(
    rows: pa.Table, key: Sequence[str], ordering_fields: Sequence[str], *, last_of_equals: bool = False
) -> tuple[pa.Table, npt.NDArray[np.bool_]]:
    """The rows sorted by `key` and descending ordering values, and a mask of the first row of each key.

    The first row of a key is the newest; if values are equal or there are no fields, it is the first one in
    `rows`, or with `last_of_equals` the last one. The key columns have no nulls.
    """
    order, is_first = newest_order(rows, key, ordering_fields, last_of_equals=last_of_equals)
    return rows.take(order), is_first


def newest_order(
    rows: pa.Table, key: Sequence[str], ordering_fields: Sequence[str], *, last_of_equals: bool = False
) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """The positions of the rows in the order of `newest_first`, and a mask of the first row of each key."""
    places = np.arange(rows.num_rows)
    if last_of_equals:
        places = places[::-1]
    at = pa.array(places)
    columns = {name: rows.column(name).take(at) if last_of_equals else rows.column(name) for name in key}
    sort_keys = [(name, "ascending") for name in key]
    for place, field in enumerate(ordering_fields):
        values = comparable(rows.column(field).combine_chunks())
        columns[f"{_ORDERING}{place}"] = values.take(at) if last_of_equals else values
        sort_keys.append((f"{_ORDERING}{place}", "descending"))
    order = pc.sort_indices(pa.table(columns), sort_keys=sort_keys)
    is_first = np.zeros(rows.num_rows, dtype=bool)
    is_first[:1] = True
    for name in key:
        column = columns[name].take(order)
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        is_first[1:] |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return at.take(order), is_first


def newest_rows(
    rows: pa.Table,
    key: Sequence[str],
    ordering_fields: Sequence[str],
    mode: RecordMergeMode,
    *,
    last_of_equals: bool = False,
) -> pa.Table:
    """The newest row of each key as `newest_first` has it. By a partial update mode it takes values that it
    lacks from the others.
    """
    if not rows.num_rows:
        return rows
    order, is_first = newest_order(rows, key, ordering_fields, last_of_equals=last_of_equals)
    if not fills_rows(mode):
        return rows.take(order.filter(pa.array(is_first)))
    return fill_groups(rows.take(order), is_first, mode)


def keep_newest(
    frame: DataFrame,
    key: Sequence[Column],
    ordering_fields: Sequence[str],
    schema: pa.Schema,
    *,
    combined: str,
    only: Column | None = None,
    keeps_ties: bool = False,
    mode: RecordMergeMode = DEFAULT_MERGE_MODE,
) -> DataFrame:
    """The newest row of each key, by the columns `ordering_fields` of `schema`; any row without fields.

    If several rows have the highest value, one stays, with `keeps_ties` all. The new column `combined` has
    the number of other rows of the key. Rows for which `only` is false all stay, without a number; `key` must
    separate them from the others. Values that the newest row lacks by the partial update mode of `mode` are
    the newest ones of the other rows.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    of_key = Window.partitionBy(*key)
    order = [each for field in ordering_fields for each in _descending(field, schema)] or [sf.lit(0)]
    rank = sf.rank() if keeps_ties else sf.row_number()
    newest_to_oldest = of_key.orderBy(*order)
    ranked = frame.withColumn(_RANK, rank.over(newest_to_oldest))
    whole = newest_to_oldest.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    names = {}
    for name, lacks in _lacking(schema, mode).items():
        value = sf.col(quote_path(name))
        newest = sf.first(sf.when(~lacks, sf.struct(value.alias("value"))), ignorenulls=True).over(whole)
        names[name] = sf.when(newest.isNull(), value).otherwise(newest["value"])
    ranked = ranked.withColumns(names) if names else ranked
    others = sf.count("*").over(of_key) - 1
    is_newest = sf.col(_RANK) == 1
    if only is not None:
        others, is_newest = sf.when(only, others), ~only | is_newest
    return ranked.withColumn(combined, others).filter(is_newest).drop(_RANK)


def _lacking(schema: pa.Schema, mode: RecordMergeMode) -> dict[str, Column]:
    """For the columns of which a row may lack the value, the condition; `lacking_columns` for Spark."""
    from pyspark.sql import functions as sf

    if not fills_rows(mode):
        return {}
    if mode.partial_update_mode == IGNORE_DEFAULTS:
        return {name: sf.col(quote_path(name)).isNull() for name in schema.names}
    text = mode.unavailable_value
    return {
        field.name: sf.col(quote_path(field.name)).cast("string").eqNullSafe(sf.lit(text))
        for field in schema
        if text is not None and (pa.types.is_string(field.type) or pa.types.is_binary(field.type))
    }


def is_newer_column(fields: Sequence[pa.Field], stored: str) -> Column:
    """`is_newer` as a Spark column; `stored` is the prefix of the stored rows' columns."""
    from pyspark.sql import functions as sf

    newer = sf.lit(False)
    for field in reversed(fields):
        higher = is_higher_column(stored + field.name, field.name, field)
        lower = is_higher_column(field.name, stored + field.name, field)
        newer = higher | (~lower & newer)
    return newer


def is_higher_column(name: str, other: str, field: pa.Field) -> Column:
    """True if the column `name` is higher than the column `other`; both have the type of `field`."""
    from pyspark.sql import functions as sf

    left, right = sf.col(quote_path(name)), sf.col(quote_path(other))
    higher = left > right
    if pa.types.is_floating(field.type):
        zeros = _zero_as_text(left) > _zero_as_text(right)
        higher = higher | sf.coalesce(zeros, sf.lit(False))
    return higher


def _descending(name: str, schema: pa.Schema) -> list[Column]:
    """Spark's sort order that puts the highest value of the column first, nulls last."""
    from pyspark.sql import functions as sf

    value = sf.col(quote_path(name))
    order = [value.desc_nulls_last()]
    position = schema.get_field_index(name)
    if position >= 0 and pa.types.is_floating(schema.field(position).type):
        order.append(_zero_as_text(value).desc_nulls_last())
    return order


def _zero_as_text(value: Column) -> Column:
    # '0.0' is the higher text, '-0.0' the lower.
    from pyspark.sql import functions as sf

    return sf.when(value == 0, value.cast("string"))
