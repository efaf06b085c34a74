"""Checks whether the condition of a MERGE finds each stored row with the record key of an inserted row.

If so, no inserted row can have a stored key, and none has to be looked up; or only rows with NULL, which `=`
never finds. Reads only the clauses, with sqlglot; a condition that it does not understand counts as no.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from hudisql.format.schema.spark_schema import spark_type_name
from hudisql.sql.dml.runtime_filter import ColumnEquality, column_equalities
from hudisql.sql.text import dialect
from hudisql.sql.text.clauses import MergeAction, MergeClauses

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_INTEGERS = ("tinyint", "smallint", "int", "bigint")


def inserts_rows(clauses: MergeClauses) -> bool:
    """True if a clause inserts rows."""
    return any(action.verb == "INSERT" for action in clauses.actions)


def equalities_that_miss_nulls(
    clauses: MergeClauses,
    schema: pa.Schema,
    source_schema: StructType,
    source_alias: str,
    record_key: Sequence[str],
    place: Sequence[str],
) -> list[ColumnEquality] | None:
    """The equalities by which the condition may miss stored keys: where the inserted value is NULL.

    None if it may miss other keys, too: if it does not compare exactly the record key, and possibly columns
    of `place`, with the values of each INSERT clause for these columns. A record key of one column is never
    NULL.

    `place` are the columns in which rows with one key may differ: the partition columns, unless the index is
    global.
    """
    target_alias = clauses.target.alias or clauses.target.name.text.rpartition(".")[2]
    condition = clauses.condition.text
    if "${" in condition:
        return None
    equalities, is_whole = column_equalities(condition, source_alias, target_alias, schema, source_schema)
    compared = {equality.target.name.lower() for equality in equalities}
    key = {name.lower() for name in record_key}
    finds_others = (
        is_whole
        and key <= compared <= key | {name.lower() for name in place}
        and all(map(_keeps_values, equalities))
        and all(
            _inserts_compared_value(action, equality, source_alias)
            for action in clauses.actions
            if action.verb == "INSERT"
            for equality in equalities
        )
    )
    never_null = key if len(key) == 1 else set()
    return (
        [equality for equality in equalities if _misses_null(equality, never_null)] if finds_others else None
    )


def _misses_null(equality: ColumnEquality, never_null: set[str]) -> bool:
    is_null = equality.source.nullable and equality.target.name.lower() not in never_null
    return is_null and not equality.matches_null


def _keeps_values(equality: ColumnEquality) -> bool:
    """True if a value of the source that is stored in the target stays equal."""
    names = spark_type_name(equality.target.type), equality.source.dataType.simpleString()
    return len(set(names)) == 1 or all(name in _INTEGERS for name in names)


def _inserts_compared_value(action: MergeAction, equality: ColumnEquality, source_alias: str) -> bool:
    """True if the clause inserts the compared column of the source into the target's column."""
    name, column = str(equality.target.name).lower(), str(equality.source.name).lower()
    if action.assignments is None:
        return name == column
    values = [
        assignment.value.text for assignment in action.assignments if assignment.column[-1].lower() == name
    ]
    if len(values) != 1:
        return False
    try:
        statement = dialect.parse(f"SELECT {values[0]}")
    except SqlglotError:
        return False
    tree = statement.expressions[0] if isinstance(statement, exp.Select) and statement.expressions else None
    if not isinstance(tree, exp.Column):
        return False
    qualifier = str(tree.table).lower() or source_alias.strip("`").lower()
    return str(tree.name).lower() == column and qualifier == source_alias.strip("`").lower()
