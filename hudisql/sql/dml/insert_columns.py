"""Qualifies plain column names of a MERGE's INSERT clause by the source, as there is no target row.

Spark's own parser finds the column names in an expression, so that functions, types and lambda variables are
not changed. Knows expressions, not tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from hudisql.format.schema.spark_schema import quote_name
from hudisql.spark.jvm import class_name, items_of, session_state
from hudisql.sql.text.clauses import Assignment, MergeAction, MergeClauses, SourceSpan


def qualify_insert_columns(
    spark: Any, clauses: MergeClauses, columns: Sequence[str], source: str
) -> MergeClauses:
    """The clauses with `column` written as `source.column` where a row is inserted.

    An expression that Spark cannot parse stays unchanged: Spark reports the error when it runs the query.
    """
    return replace(
        clauses, actions=tuple(_qualify_action(spark, action, columns, source) for action in clauses.actions)
    )


def _qualify_action(spark: Any, action: MergeAction, columns: Sequence[str], source: str) -> MergeAction:
    if action.verb != "INSERT":
        return action
    condition = action.condition
    if condition is not None:
        condition = _qualify(spark, condition, columns, source)
    if action.assignments is None:
        return replace(action, condition=condition)
    assignments = tuple(
        Assignment(assignment.column, _qualify(spark, assignment.value, columns, source), assignment.start)
        for assignment in action.assignments
    )
    return replace(action, condition=condition, assignments=assignments)


def _qualify(spark: Any, piece: SourceSpan, columns: Sequence[str], source: str) -> SourceSpan:
    from py4j.protocol import Py4JError

    known = {column.lower() for column in columns}
    try:
        tree = session_state(spark).sqlParser().parseExpression(piece.text)
        found = sorted(set(_plain_names(tree)), reverse=True)
    except Py4JError:
        return piece
    text = piece.text
    for start, stop, name in found:
        if name.lower() in known:
            text = f"{text[:start]}{source}.{quote_name(name)}{text[stop + 1 :]}"
    return SourceSpan(text, piece.start)


def _plain_names(tree: Any) -> Iterator[tuple[int, int, str]]:
    """Start, end and text of every unqualified name in the tree's expressions."""
    if class_name(tree) == "UnresolvedAttribute":
        parts = [str(part) for part in items_of(tree.nameParts())]
        start, stop = tree.origin().startIndex(), tree.origin().stopIndex()
        if len(parts) == 1 and start.isDefined() and stop.isDefined():
            yield int(start.get()), int(stop.get()), parts[0]
        return
    for child in items_of(tree.children()):
        yield from _plain_names(child)
