"""The runtime filter of a MERGE: values that the target's columns must have to match the source.

Of the condition only plain equalities of a target column and a source column of the same type count, joined
by AND, null-safe ones if the source has no null there: what is left out costs speed, never rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp
from sqlglot.errors import SqlglotError

from hudisql.format.spark_schema import quote_name, spark_type_name
from hudisql.read.predicates import InSet, Predicate, conjunction
from hudisql.spark.versions import to_arrow
from hudisql.sql.text import dialect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# So many values are sent to all tasks.
_MOST_VALUES: Final = 200_000


def runtime_filter(
    source: DataFrame,
    source_alias: str,
    target_alias: str,
    schema: pa.Schema,
    condition: str,
    *,
    few: pa.Table | None = None,
) -> Predicate | None:
    """What the target's columns (`schema`) must be for a row to match one of `source`, which is computed.

    `few` are the same rows on the driver, if these are few. None if the condition does not tell, or for too
    many values. Raises Spark's own exceptions.
    """
    pairs = {
        name: (column, matches_null)
        for name, column, matches_null in _equal_columns(
            condition, source_alias, target_alias, schema, source
        )
    }
    parts = [
        InSet((name,), values)
        for name, (column, matches_null) in pairs.items()
        if (values := _values(source, few, column, matches_null=matches_null)) is not None
    ]
    return conjunction(parts)


def _equal_columns(
    condition: str, source_alias: str, target_alias: str, schema: pa.Schema, source: DataFrame
) -> Iterator[tuple[str, str, bool]]:
    """Columns of the target with the columns of the source that they must equal; True if nulls are equal."""
    try:
        statement = dialect.parse(f"SELECT 1 WHERE {condition}")
    except SqlglotError:
        return
    where = statement.find(exp.Where) if statement is not None else None
    if where is None:
        return
    of_target = {field.name.lower(): field for field in schema}
    counts = Counter(field.name.lower() for field in source.schema)
    # Which of two columns that differ by case is meant, the session decides.
    of_source = {field.name.lower(): field for field in source.schema if counts[field.name.lower()] == 1}
    for part in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        if not isinstance(part, exp.EQ | exp.NullSafeEQ):
            continue
        for one, other in ((part.left, part.right), (part.right, part.left)):
            target = _column_name(one, target_alias, of_target.keys() - of_source.keys())
            column = _column_name(other, source_alias, of_source.keys() - of_target.keys())
            if target not in of_target or column not in of_source:
                continue
            field, found = of_target[target], of_source[column]
            if _is_exact(field.type) and spark_type_name(field.type) == found.dataType.simpleString():
                yield field.name, found.name, isinstance(part, exp.NullSafeEQ)


def _column_name(tree: exp.Expr, alias: str, unqualified: set[str]) -> str | None:
    """The column's name, lower case, if it is one of the relation called `alias` without doubt."""
    if not isinstance(tree, exp.Column) or tree.args.get("db") is not None:
        return None
    name = str(tree.name).lower()
    if tree.table:
        return name if str(tree.table).lower() == alias.strip("`").lower() else None
    return name if name in unqualified else None


def _is_exact(value_type: pa.DataType) -> bool:
    """True for types whose values are equal in Arrow when they are in Spark."""
    return bool(
        pa.types.is_integer(value_type)
        or pa.types.is_string(value_type)
        or pa.types.is_date(value_type)
        or pa.types.is_decimal(value_type)
    )


def _values(source: DataFrame, few: pa.Table | None, column: str, *, matches_null: bool) -> pa.Array | None:
    if few is not None:
        values = pc.unique(few.column(column))
    else:
        distinct = source.select(quote_name(column)).distinct().limit(_MOST_VALUES + 1)
        values = to_arrow(distinct).column(0).combine_chunks()
    if len(values) > _MOST_VALUES or (matches_null and values.null_count):
        return None
    values = values.drop_null()
    return values.take(pc.array_sort_indices(values))
