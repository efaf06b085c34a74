"""EXPLAIN of statements that read Hudi tables: the scan of each reference, then Spark's own plan.

The scans are planned as for running the statement, and nothing is run. Statements without Hudi tables get
Spark's answer unchanged.
"""

from __future__ import annotations

from hudisql.context import Context
from hudisql.result import LocalResult, Result
from hudisql.sql.query.query_plan import (
    PlannedRelation,
    PreparedQuery,
    bound_errors,
    planned_scans,
    prepare_query,
    run_query,
)
from hudisql.sql.text.script import position_at
from hudisql.sql.text.spark_errors import SourceText
from hudisql.sql.text.statements import ExplainStatement

_HEADING = "== Hudi Tables =="


def explain_statement(context: Context, statement: ExplainStatement, source: SourceText) -> Result:
    """One row with the plan as text, as Spark's EXPLAIN gives it."""
    inner = inner_source(statement, source)
    prepared = prepare_query(context, statement.explained, inner, count_all=True)
    if not prepared.scans:
        return Result(run_query(context, statement.text, source))
    text = f"{describe_scans(prepared)}\n\n{_explain_by_spark(context, prepared, statement.mode)}"
    return LocalResult(context.spark, (("plan", "string"),), [(text,)])


def inner_source(statement: ExplainStatement, source: SourceText) -> SourceText:
    """The explained statement with its position in the script."""
    inner = statement.explained.text
    line, column = position_at(source.text, len(statement.text) - len(inner), source.line, source.column)
    return SourceText(inner, line, column)


def describe_scans(prepared: PreparedQuery) -> str:
    """A block of text for each reference to a Hudi table, in the order of the statement."""
    blocks = [_describe_scan(position, scan) for position, scan in enumerate(prepared.scans, start=1)]
    return "\n".join([_HEADING, *blocks])


def _describe_scan(position: int, scan: PlannedRelation) -> str:
    entry = scan.relation.entry
    heading = f"({position}) {entry.database}.{entry.name}"
    if scan.plan is None:
        return f"{heading}\n    not read: the result does not depend on its rows"
    facts = scan.plan.describe()
    width = max(len(label) for label, _ in facts)
    return "\n".join([heading, *(f"    {label.ljust(width)}  {text}" for label, text in facts)])


def _explain_by_spark(context: Context, prepared: PreparedQuery, mode: str) -> str:
    with planned_scans(context, prepared, runs_jobs=False), bound_errors(prepared.bound):
        row = context.spark.sql(f"EXPLAIN {mode} {prepared.bound.text}").head()
    return prepared.bound.restore_names(str(row[0])) if row is not None else ""
