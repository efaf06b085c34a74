"""EXPLAIN of changes of Hudi tables, and of statements that read them: nothing is written.

Scans are planned as for running the statement. For INSERT, UPDATE, DELETE, MERGE and CREATE TABLE AS SELECT
the plan is the one that running would execute (`dml_plan`); for it the source of a MERGE is computed. The
first block describes the commit and its query, the next the reads of Hudi tables, the rest is Spark's plan.
Statements without Hudi tables get Spark's answer unchanged. Only EXPLAIN EXTENDED also counts what is left
out: that lists all partitions and file slices of the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.format import table_properties as keys
from hudisql.format.timeline.commit_metadata import DELETE_PARTITION
from hudisql.result import LocalResult, Result
from hudisql.spark.jvm import java_class, query_execution, spark_sql
from hudisql.sql.ddl.create_table import plan_table_as
from hudisql.sql.dml.dml_plan import PlannedQuery, RowChanges, plan_dml
from hudisql.sql.dml.insert_rows import RowsToInsert
from hudisql.sql.dml.inserted_keys import inserts_rows
from hudisql.sql.dml.statement_scope import check_changeable, open_scope
from hudisql.sql.dml.whole_partitions import FileGroupsToDrop
from hudisql.sql.query.query_plan import (
    PlannedRelation,
    PreparedQuery,
    bound_errors,
    planned_scans,
    prepare_query,
    run_query,
)
from hudisql.sql.text import clauses as cl
from hudisql.sql.text import statements as st
from hudisql.sql.text.script import position_at
from hudisql.sql.text.spark_errors import SourceText
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import list_partitions
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.overwrite import Overwrite, overwritten_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudisql.context import Context

_HEADING: Final = "== Hudi Change =="
_QUERY_HEADING: Final = "== Change Query =="
_MATCHED: Final = {
    "matched": "MATCHED",
    "not_matched": "NOT MATCHED",
    "not_matched_by_source": "NOT MATCHED BY SOURCE",
}

Fact = tuple[str, str]
_TABLES_HEADING: Final = "== Hudi Tables =="


def explain_dml(
    context: Context, entry: MetastoreTable, statement: st.ExplainStatement, source: SourceText
) -> Result:
    """One row with the plan as text."""
    explained = statement.explained
    assert isinstance(explained, st.ChangeStatement)
    check_changeable(entry, explained.verb)
    with open_scope(context, entry) as scope:
        count_all = _counts_all(statement)
        plan = plan_dml(scope, explained, inner_source(statement, source), count_all=count_all)
        assert plan.query is not None
        facts: list[Fact] = [("statement", explained.verb), ("table", _table_text(entry, plan.table))]
        if isinstance(plan.write, RowsToInsert):
            facts += _facts_of_insert(plan.table, plan.write, plan.options, count_all=count_all)
        else:
            drops = isinstance(plan.write, FileGroupsToDrop)
            facts += _facts_of_change(plan.table, plan.query, plan.options, drops=drops)
            if isinstance(plan.write, RowChanges) and plan.write.looks_up_new_keys:
                facts.append(("new keys", "are looked up: one that is stored stops the statement"))
        facts.append(("metastore", "is synced after the commit" if scope.syncs else "is not synced"))
        return _as_result(
            context, facts, plan.query.prepared, plan.frame, statement.mode, query=plan.query.text
        )


def explain_create_table_as(context: Context, statement: st.ExplainStatement, source: SourceText) -> Result:
    """One row with the plan as text."""
    explained = statement.explained
    assert isinstance(explained, st.CreateTableAsStatement)
    planned = plan_table_as(
        context, explained, inner_source(statement, source), count_all=_counts_all(statement)
    )
    facts: list[Fact] = [("statement", "CREATE TABLE AS SELECT")]
    if planned.target is None:
        facts.append(("table", f"{explained.table} exists already: nothing is done"))
    else:
        target = planned.target
        facts += [
            ("table", f"{target.database}.{target.name} ({_short_type(target.table_type)}) at {target.path}"),
            ("columns", ", ".join(planned.definition.columns.names)),
            ("partitioned by", ", ".join(planned.definition.partition_columns) or "(nothing)"),
            ("record key", ", ".join(target.record_key) or "(generated)"),
            ("commit", "BULK_INSERT: new file groups"),
        ]
    return _as_result(context, facts, planned.prepared, planned.frame, statement.mode)


def _counts_all(statement: st.ExplainStatement) -> bool:
    return statement.mode == "EXTENDED"


def _facts_of_insert(
    table: HudiTable, rows: RowsToInsert, options: WriteOptions, *, count_all: bool
) -> Iterator[Fact]:
    if rows.overwrite is not None:
        yield "commit", f"{rows.overwrite.operation_type} (replacecommit): new file groups replace others"
        yield "replaces", _replaced_text(table, rows.overwrite, count_all=count_all)
        yield from _combine_facts(table, rows)
        return
    yield "commit", f"{rows.operation.upper()}: {_files_text(table, rows.operation)}"
    if rows.operation == "upsert":
        columns = [*table.properties.record_key_fields, *(field.name for field in table.partition_columns)]
        yield "matched by", f"equal {', '.join(columns)}"
        if options.ordering_fields:
            yield "newest by", ", ".join(options.ordering_fields)
    else:
        yield "matched by", "(nothing: every row is added)"
        yield from _combine_facts(table, rows)
    if rows.operation != "bulk_insert":
        yield "new rows", _new_rows_text(options)


def _combine_facts(table: HudiTable, rows: RowsToInsert) -> Iterator[Fact]:
    if rows.combine_before_insert:
        yield "one row a key", f"the one with the highest {', '.join(table.ordering_fields)}"


def _facts_of_change(
    table: HudiTable, planned: PlannedQuery, options: WriteOptions, *, drops: bool
) -> Iterator[Fact]:
    clauses = planned.clauses
    operation = "DELETE" if isinstance(clauses, cl.DeleteClauses) else "UPSERT"
    if drops:
        yield "commit", f"{DELETE_PARTITION} (replacecommit): whole partitions go, no file is written"
    else:
        yield "commit", f"{operation}: {_files_text(table, 'upsert')}"
    if isinstance(clauses, cl.MergeClauses):
        yield "matched by", clauses.condition.text
        for action in clauses.actions:
            yield "when", _action_text(action)
        yield (
            "newest by",
            ", ".join(options.ordering_fields) or "(nothing: several source rows for one row are an error)",
        )
    elif isinstance(clauses, cl.UpdateClauses | cl.DeleteClauses):
        yield "rows", "all" if clauses.condition is None else f"WHERE {clauses.condition.text}"
    if isinstance(clauses, cl.UpdateClauses):
        yield "assigns", _columns_text(clauses.assignments)
    if planned.relocation_columns:
        yield "moves rows", f"whose {', '.join(planned.relocation_columns)} changes"
    scan = planned.target_scan
    if scan is not None and scan.plan is not None:
        yield "file groups", _up_to(len(scan.plan.slices), scan.plan.slices_total)
        yield "partitions", _up_to(scan.plan.partitions_read, scan.plan.partitions_total)
        if lifted := {
            file_slice.partition_path for file_slice, _ in scan.plan.slices if file_slice.is_register_only
        }:
            yield "lifts first", f"up to {len(lifted)} register-only partitions"
    if planned.relocation_columns or (isinstance(clauses, cl.MergeClauses) and inserts_rows(clauses)):
        yield "new rows", _new_rows_text(options)


def _up_to(count: int, total: int | None) -> str:
    return f"up to {count}" if total is None else f"up to {count} of {total}"


def _action_text(action: cl.MergeAction) -> str:
    condition = "" if action.condition is None else f" AND {action.condition.text}"
    columns = "" if action.verb == "DELETE" else " *"
    if action.assignments is not None:
        columns = f" {_columns_text(action.assignments)}" if action.assignments else ""
    return f"{_MATCHED[action.matched]}{condition} THEN {action.verb}{columns}"


def _columns_text(assignments: Sequence[cl.Assignment]) -> str:
    return ", ".join(".".join(assignment.column) for assignment in assignments)


def _table_text(entry: MetastoreTable, table: HudiTable) -> str:
    return f"{entry.full_name} ({_short_type(table.properties.table_type)}) at {table.base_path}"


def _short_type(table_type: str) -> str:
    return "merge-on-read" if table_type == keys.MERGE_ON_READ else "copy-on-write"


def _files_text(table: HudiTable, operation: str) -> str:
    if operation == "bulk_insert":
        return "new file groups"
    if operation == "insert" or not table.is_merge_on_read:
        return "new base files"
    return "log files, and base files of slices that take new rows"


def _new_rows_text(options: WriteOptions) -> str:
    sizing = options.sizing
    return (
        f"fill file groups below {sizing.small_file_bytes} bytes, then make new ones of about "
        f"{sizing.max_file_bytes}"
    )


def _replaced_text(table: HudiTable, overwrite: Overwrite, *, count_all: bool) -> str:
    if overwrite.scope == "touched":
        return "the file groups of each partition that gets rows"
    if count_all:
        partitions = overwritten_partitions(table, overwrite)
        groups = len(load_file_slices(table, partitions))
        return f"{groups} file groups in {len(partitions)} of {len(list_partitions(table))} partitions"
    if overwrite.scope == "table":
        return "all file groups"
    values = [(name, "null" if value is None else value) for name, value in (overwrite.values or {}).items()]
    return f"the file groups of partitions with {', '.join(f'{name} = {value}' for name, value in values)}"


def _as_result(
    context: Context,
    facts: Sequence[Fact],
    prepared: PreparedQuery,
    frame: DataFrame,
    mode: str,
    *,
    query: str | None = None,
) -> Result:
    width = max(len(label) for label, _ in facts)
    blocks = ["\n".join([_HEADING, *(f"    {label.ljust(width)}  {text}" for label, text in facts)])]
    if query is not None:
        blocks.append(f"{_QUERY_HEADING}\n{query}")
    if prepared.scans:
        blocks.append(describe_scans(prepared))
    utils = java_class(context.spark, "org.apache.spark.sql.api.python.PythonSQLUtils")
    plan = str(utils.explainString(query_execution(frame), mode.lower() or "simple"))
    blocks.append(prepared.bound.restore_names(plan))
    return LocalResult(context.spark, (("plan", "string"),), [("\n\n".join(blocks),)])


def explain_statement(context: Context, statement: st.ExplainStatement, source: SourceText) -> Result:
    """One row with the plan as text, as Spark's EXPLAIN gives it."""
    inner = inner_source(statement, source)
    prepared = prepare_query(context, statement.explained, inner, count_all=_counts_all(statement))
    if not prepared.scans:
        return Result(run_query(context, statement.text, source))
    text = f"{describe_scans(prepared)}\n\n{_explain_by_spark(context, prepared, statement.mode)}"
    return LocalResult(context.spark, (("plan", "string"),), [(text,)])


def inner_source(statement: st.ExplainStatement, source: SourceText) -> SourceText:
    """The explained statement with its position in the script."""
    inner = statement.explained.text
    line, column = position_at(source.text, len(statement.text) - len(inner), source.line, source.column)
    return SourceText(inner, line, column)


def describe_scans(prepared: PreparedQuery) -> str:
    """A block of text for each reference to a Hudi table, in the order of the statement."""
    blocks = [_describe_scan(position, scan) for position, scan in enumerate(prepared.scans, start=1)]
    return "\n".join([_TABLES_HEADING, *blocks])


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
        row = spark_sql(context.spark, f"EXPLAIN {mode} {prepared.bound.text}").head()
    return prepared.bound.restore_names(str(row[0])) if row is not None else ""
