"""Conditions on the values that a refresh recomputes, so that Spark skips files without them.

Spark pushes them to the scans: the values of a column if they are few, else the least and the greatest. More
rows than the values fulfil them; a semi join with the values follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.schema.spark_schema import quote_name
from hudisql.spark.versions import to_arrow
from hudisql.sql_literals import quote_string

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

MOST_LISTED: Final = 1_000
_MOST_WRAPPED: Final = 400
"""Spark compares longer lists of numbers with a set, which is not in the generated code."""
_MARKS: Final = "'\\$"


@dataclass(frozen=True)
class ValueBound:
    """A condition on a column, in two forms.

    Spark pushes `pushed` to the scans; numbers and dates in it become part of the code that it generates and
    compiles. For `compared` it generates the same code for all values, but pushes nothing.
    """

    pushed: str
    compared: str


def value_bounds(columns: Sequence[str], frame: DataFrame, few: pa.Table | None) -> tuple[ValueBound, ...]:
    """A condition for each of the `columns` whose values have literals; `few` are the frame's rows, if few.

    If they are not few, it computes the frame, which must be cached.
    """
    found = []
    for at, (name, field) in enumerate(zip(columns, frame.schema, strict=True)):
        if not _has_literals(field.dataType):
            continue
        values = _distinct_of_frame(frame, at) if few is None else pc.unique(few.column(at).combine_chunks())
        bound = _bound(quote_name(name), values, field.dataType)
        if bound is not None:
            found.append(bound)
    return tuple(found)


def _distinct_of_frame(frame: DataFrame, at: int) -> pa.Array:
    """The distinct values, or, if there are very many, some with the same bounds."""
    from pyspark.sql import functions as sf

    name = frame.columns[at]
    some = frame.select(name).distinct().limit(MOST_LISTED + 1)
    outer = frame.agg(sf.min(name).alias(name)).union(frame.agg(sf.max(name).alias(name)))
    nulls = frame.select(name).where(sf.col(name).isNull()).limit(1)
    return pc.unique(to_arrow(some.union(outer).union(nulls)).column(0).combine_chunks())


def _has_literals(kind: DataType) -> bool:
    from pyspark.sql.types import DateType, IntegralType, StringType

    return isinstance(kind, IntegralType | DateType | StringType)


def _bound(name: str, values: pa.Array, kind: DataType) -> ValueBound | None:
    """The condition that holds for all values; None if one of them has no plain literal.

    Empty text also matches NULL, since an empty partition value is read as NULL.
    """
    known = values.drop_null()
    is_listed = len(known) <= MOST_LISTED
    ordered = known.take(pc.array_sort_indices(known))
    literals = _literals(ordered if is_listed else ordered.take(pa.array([0, len(ordered) - 1])))
    if literals is None:
        return None
    has_null = len(known) < len(values) or "''" in literals
    if not literals:
        condition = f"{name} IS NULL" if has_null else "false"
        return ValueBound(condition, condition)

    def condition_on(column: str, literals: Sequence[str]) -> str:
        among = f"IN ({', '.join(literals)})" if is_listed else f"BETWEEN {literals[0]} AND {literals[1]}"
        return f"({name} IS NULL OR {column} {among})" if has_null else f"{column} {among}"

    pushed = condition_on(name, literals)
    if pa.types.is_string(values.type) or len(literals) > _MOST_WRAPPED:
        return ValueBound(pushed, pushed)

    def wrapped(value: str) -> str:
        return f"named_struct('v', CAST({value} AS {kind.simpleString()}))"

    return ValueBound(pushed, condition_on(wrapped(name), [wrapped(literal) for literal in literals]))


def _literals(values: pa.Array) -> list[str] | None:
    """The values as SQL that does not depend on settings of Spark's parser; None if one has none."""
    if pa.types.is_date(values.type):
        years = pa.array(range(1, 10_000), pa.int64())
        if not pc.all(pc.is_in(pc.year(values), value_set=years)).as_py():
            return None
        return [f"DATE '{value.isoformat()}'" for value in values.to_pylist()]
    texts = [str(value) for value in values.to_pylist()]
    if pa.types.is_integer(values.type):
        return texts
    # A quote or backslash depends on spark.sql.parser.escapedStringLiterals, `${name}` is substituted.
    if any(mark in text for text in texts for mark in _MARKS):
        return None
    return [quote_string(text) for text in texts]
