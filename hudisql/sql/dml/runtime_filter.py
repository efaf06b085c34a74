"""The runtime filter of a MERGE: values that the target's columns must have to match the source.

It uses only plain equalities of a target column and a source column of the same type, joined by AND;
null-safe ones if the source has no null there. Ignoring others costs speed, never rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp
from sqlglot.errors import SqlglotError

from hudisql.format.schema.spark_schema import quote_name, spark_type_name
from hudisql.read.files.predicates import InSet, Predicate, conjunction
from hudisql.spark.versions import to_arrow
from hudisql.sql.text import dialect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

# At most this many values are sent to all tasks.
_MOST_VALUES: Final = 200_000


@dataclass(frozen=True)
class ColumnEquality:
    """`target = source` in a condition; with `matches_null` two nulls are equal."""

    target: pa.Field
    source: StructField
    matches_null: bool


def runtime_filter(
    source: DataFrame,
    source_alias: str,
    target_alias: str,
    schema: pa.Schema,
    condition: str,
    *,
    few: pa.Table | None = None,
) -> Predicate | None:
    """The values that the target's columns (`schema`) need in rows that match the computed `source`.

    `few` are the same rows on the driver, below a limit. None if the condition does not restrict them, or for
    too many values. Raises Spark's own exceptions.
    """
    equalities, _ = column_equalities(condition, source_alias, target_alias, schema, source.schema)
    pairs = {
        column_equality.target.name: column_equality
        for column_equality in equalities
        if _is_comparable(column_equality)
    }
    parts = [
        InSet((name,), values)
        for name, equality in pairs.items()
        if (values := _values(source, few, equality)) is not None
    ]
    return conjunction(parts)


def column_equalities(
    condition: str, source_alias: str, target_alias: str, schema: pa.Schema, source_schema: StructType
) -> tuple[list[ColumnEquality], bool]:
    """The equalities of a target column and a source column that the condition joins by AND.

    The second result is True if the condition is nothing else. Columns without a qualifier count if only one
    side has their name.
    """
    try:
        statement = dialect.parse(f"SELECT 1 WHERE {condition}")
    except SqlglotError:
        return [], False
    where = statement.find(exp.Where) if statement is not None else None
    if where is None:
        return [], False
    of_target = {field.name.lower(): field for field in schema}
    counts = Counter(field.name.lower() for field in source_schema)
    # The session's case sensitivity decides between columns that differ only by case.
    of_source = {field.name.lower(): field for field in source_schema if counts[field.name.lower()] == 1}
    parts = list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    found: list[ColumnEquality] = []
    for part in parts:
        if not isinstance(part, exp.EQ | exp.NullSafeEQ):
            continue
        for one, other in ((part.left, part.right), (part.right, part.left)):
            target = _column_name(one, target_alias, of_target.keys() - of_source.keys())
            column = _column_name(other, source_alias, of_source.keys() - of_target.keys())
            if target in of_target and column in of_source:
                matches_null = isinstance(part, exp.NullSafeEQ)
                found.append(ColumnEquality(of_target[target], of_source[column], matches_null))
                break
    return found, len(found) == len(parts)


def _column_name(tree: exp.Expr, alias: str, unqualified: set[str]) -> str | None:
    """The column's name in lower case, if it surely belongs to the relation called `alias`."""
    if not isinstance(tree, exp.Column) or tree.args.get("db") is not None:
        return None
    name = str(tree.name).lower()
    if tree.table:
        return name if str(tree.table).lower() == alias.strip("`").lower() else None
    return name if name in unqualified else None


def _is_comparable(equality: ColumnEquality) -> bool:
    """True for columns of one type whose values are equal in Arrow if they are in Spark."""
    value_type = equality.target.type
    if spark_type_name(value_type) != equality.source.dataType.simpleString():
        return False
    return bool(
        pa.types.is_integer(value_type)
        or pa.types.is_string(value_type)
        or pa.types.is_date(value_type)
        or pa.types.is_decimal(value_type)
    )


def _values(source: DataFrame, few: pa.Table | None, equality: ColumnEquality) -> pa.Array | None:
    column = equality.source.name
    if few is not None:
        values = pc.unique(few.column(column))
    else:
        distinct = source.select(quote_name(column)).distinct().limit(_MOST_VALUES + 1)
        values = to_arrow(distinct).column(0).combine_chunks()
    if len(values) > _MOST_VALUES or (equality.matches_null and values.null_count):
        return None
    values = values.drop_null()
    return values.take(pc.array_sort_indices(values))
