"""Spark's data-source filters as hudisql's predicates.

Filters without a counterpart give None: Spark applies every filter anyway.
"""

from __future__ import annotations

from pyspark.sql import datasource

from hudisql.read.files.predicates import (
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Not,
    Operator,
    Predicate,
    StartsWith,
)

_OPERATORS: dict[type[datasource.Filter], Operator] = {
    datasource.EqualTo: "=",
    datasource.EqualNullSafe: "<=>",
    datasource.GreaterThan: ">",
    datasource.GreaterThanOrEqual: ">=",
    datasource.LessThan: "<",
    datasource.LessThanOrEqual: "<=",
}


def predicate_from_filter(spark_filter: datasource.Filter) -> Predicate | None:
    """The predicate that keeps the same rows, or None if there is none."""
    match spark_filter:
        case datasource.Not(child=child):
            inner = predicate_from_filter(child)
            return None if inner is None else Not(inner)
        case datasource.IsNull(attribute=path):
            return IsNull(tuple(path))
        case datasource.IsNotNull(attribute=path):
            return IsNotNull(tuple(path))
        case datasource.In(attribute=path, value=values):
            return In(tuple(path), tuple(values))
        case datasource.StringStartsWith(attribute=path, value=prefix):
            return StartsWith(tuple(path), prefix)
    operator = _OPERATORS.get(type(spark_filter))
    if operator is None:
        return None
    return Comparison(tuple(spark_filter.attribute), operator, spark_filter.value)  # type: ignore[attr-defined]
