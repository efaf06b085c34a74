"""What a refresh says to Spark of the values that it recomputes, so that files without them are not read.

Conditions that Spark pushes to the scans: the values of a column where they are few, else the least and the
greatest. They hold for more rows than the values; a semi join with these comes behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.spark_schema import quote_name
from hudisql.spark.versions import to_arrow
from hudisql.sql_literals import quote_string

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_LISTED: Final = 1_000


def value_bounds(columns: Sequence[str], frame: DataFrame, few: pa.Table | None) -> tuple[str, ...]:
    """A condition for each of the `columns` whose values have literals; `few` are the frame's rows, if few.

    Computes the frame, which must be cached, if they are not.
    """
    found = []
    for at, name in enumerate(columns):
        values = _distinct_of_frame(frame, at) if few is None else pc.unique(few.column(at).combine_chunks())
        literals = _literals(values)
        if literals is not None:
            found.append(_condition(quote_name(name), literals, values.null_count > 0))
    return tuple(found)


def _distinct_of_frame(frame: DataFrame, at: int) -> pa.Array:
    """The distinct values, or, of very many, some that have the same bounds."""
    from pyspark.sql import functions as sf

    name = frame.columns[at]
    some = frame.select(name).distinct().limit(MOST_LISTED + 1)
    outer = frame.agg(sf.min(name).alias(name)).union(frame.agg(sf.max(name).alias(name)))
    nulls = frame.select(name).where(sf.col(name).isNull()).limit(1)
    return pc.unique(to_arrow(some.union(outer).union(nulls)).column(0).combine_chunks())


def _condition(name: str, literals: Sequence[str], has_null: bool) -> str:
    if not literals:
        return f"{name} IS NULL" if has_null else "false"
    if len(literals) <= MOST_LISTED:
        condition = f"{name} IN ({', '.join(literals)})"
    else:
        condition = f"{name} BETWEEN {literals[0]} AND {literals[-1]}"
    return f"({name} IS NULL OR {condition})" if has_null else condition


def _literals(values: pa.Array) -> list[str] | None:
    """The values as SQL, in their order; None for types that have no plain literals."""
    kind = values.type
    known = values.drop_null()
    known = known.take(pc.array_sort_indices(known)).to_pylist()
    if pa.types.is_integer(kind):
        return [str(each) for each in known]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return [quote_string(each) for each in known]
    if pa.types.is_date(kind):
        return [f"DATE '{each.isoformat()}'" for each in known]
    return None
