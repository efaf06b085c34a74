"""Runs one statement: dispatches the typed statement to a part of hudisql, or to Spark.

The rule: statements that read Hudi tables are rewritten to read them correctly, unknown statements that would
change one are errors, and only statements without Hudi tables go to Spark unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.catalog.sync import sync_registered
from hudisql.errors import NoSuchPathError, QueryError, UnsupportedStatementError
from hudisql.options.known_settings import warn_of_settings
from hudisql.result import LocalResult, Result
from hudisql.sql.ddl.alter_table import alter_table, make_external
from hudisql.sql.ddl.create_table import create_table, create_table_as
from hudisql.sql.ddl.create_table_like import makes_hudi_table
from hudisql.sql.ddl.drop_table import drop_database, drop_iceberg_entry, plan_drop, run_drop
from hudisql.sql.ddl.table_options import PROVIDERS
from hudisql.sql.dml.dml_execution import run_dml
from hudisql.sql.explain import explain_create_table_as, explain_dml, explain_statement
from hudisql.sql.incremental_tables import incremental_statements as incremental
from hudisql.sql.query import query_plan
from hudisql.sql.query.command_targets import find_hudi_target, refuse_temporary_view, refuse_view_target
from hudisql.sql.query.hive_functions import called_hive_functions, provide_hive_functions
from hudisql.sql.query.path_guard import (
    refuse_changes_of_files,
    refuse_overwriting_what_is_read,
    refuse_touching_sources_of_tables,
)
from hudisql.sql.query.references import UnplacedSyntaxError, parse_plan
from hudisql.sql.query.target_table import find_hudi_entry, open_hudi_entry
from hudisql.sql.spark_databases import forget_database, provide_database, run_on_both
from hudisql.sql.spark_scripts import execute_immediate, run_block
from hudisql.sql.text import statements as st
from hudisql.sql.text.database_names import used_database
from hudisql.sql.text.spark_errors import (
    CHANGES_ROWS_HINT,
    SourceText,
    translate_spark_error,
    translated_spark_errors,
)

if TYPE_CHECKING:
    from hudisql.context import Context

_SET: Final = re.compile(r"\s*SET\s+`?([\w.]+)`?\s*=\s*(\S*)", re.IGNORECASE)
_ROW_CHANGES: Final = (st.InsertStatement, st.UpdateStatement, st.DeleteStatement, st.MergeStatement)


def execute_placed(context: Context, statement: st.Statement, source: SourceText) -> Result:
    """Run a parsed statement other than CALL; errors name their place in `source`.

    Raises SqlSyntaxError, UnsupportedStatementError, QueryError.
    """
    try:
        with translated_spark_errors(source):
            # Also for expressions that come to Spark without a statement, as the values of PARTITION (…).
            if names := called_hive_functions(statement.text):
                provide_hive_functions(context.spark, names)
            return _HANDLERS.get(type(statement), _run_in_spark)(context, statement, source)
    except UnplacedSyntaxError as error:
        cause = error.__cause__ or error
        raise translate_spark_error(cause, source) from cause


def _run_query(context: Context, statement: st.Statement, source: SourceText, plan: Any = None) -> Result:
    """Run queries, and statements that read Hudi tables by a query inside (INSERT, CTAS, CACHE … AS).

    `plan` is Spark's unresolved plan of the statement, if it is parsed already.
    """
    is_query = isinstance(statement, st.QueryStatement)
    prepare = partial(query_plan.prepare_query, context, statement, source, plan=plan, is_query=is_query)
    try:
        prepared = prepare()
    except NoSuchPathError:
        # Instants were archived, or files cleaned, after the timeline was listed.
        prepared = prepare()
    if not is_query:
        refuse_overwriting_what_is_read(context, statement, prepared.bound.plan, prepared.scans)
    df = query_plan.run_prepared(context, prepared, source)
    return Result(df, guard=lambda: query_plan.bound_errors(prepared.bound, source))


def _run_in_spark(context: Context, statement: st.Statement, source: SourceText) -> Result:
    """Run a statement without Hudi tables; a command that would change one is refused."""
    plan = parse_plan(context.spark, statement.text)
    kind, entry = find_hudi_target(context, plan)
    if entry is not None:
        kind = statement.kind if isinstance(statement, st.PassThroughStatement) else kind
        raise _unsupported(kind, entry, "CALL help() lists what can be done with Hudi tables")
    refuse_changes_of_files(context, plan)
    if (answer := run_on_both(context, statement.text, plan)) is not None:
        return answer
    if (setting := _SET.match(statement.text)) is not None:
        warn_of_settings(context.console, {setting[1]: setting[2]}, "SET")
    return _run_query(context, statement, source, plan)


def _change_rows(context: Context, statement: st.ChangeStatement, source: SourceText) -> Result:
    entry = _changed_table(context, statement)
    if entry is not None:
        return run_dml(context, entry, statement, source)
    try:
        with translated_spark_errors(source):
            return _change(context, statement, source)
    except QueryError as error:
        if error.hint != CHANGES_ROWS_HINT:
            raise
        # Spark names its catalog, or for a rewritten statement `unknown`.
        raise UnsupportedStatementError(
            f"{statement.verb} needs a Hudi table, and {statement.table} is not one: nothing was run",
            hint=CHANGES_ROWS_HINT,
        ) from error


def _changed_table(context: Context, statement: st.ChangeStatement) -> MetastoreTable | None:
    """The Hudi table that the statement changes; None for other statements, and for several targets."""
    targets = statement.targets if isinstance(statement, st.InsertStatement) else (statement.table,)
    return find_hudi_entry(context, targets[0]) if len(targets) == 1 else None


def _alter_table(context: Context, statement: st.ChangeStatement, source: SourceText) -> Result:
    entry = find_hudi_entry(context, statement.table)
    if entry is not None:
        return alter_table(context, entry, statement)
    plan = parse_plan(context.spark, statement.text)
    if isinstance(statement, st.AlterTableStatement) and make_external(context, statement, plan):
        return _nothing(context)
    return _change(context, statement, source, plan)


def _change(context: Context, statement: st.ChangeStatement, source: SourceText, plan: Any = None) -> Result:
    _check_change(context, statement)
    plan = parse_plan(context.spark, statement.text) if plan is None else plan
    refuse_changes_of_files(context, plan)
    return _run_query(context, statement, source, plan)


def _check_change(context: Context, statement: st.ChangeStatement) -> None:
    targets = statement.targets if isinstance(statement, st.InsertStatement) else (statement.table,)
    for target in targets:
        entry = find_hudi_entry(context, target)
        if entry is not None:
            raise _unsupported(statement.verb, entry, _advice_on(statement))
        if isinstance(statement, (*_ROW_CHANGES, st.TruncateStatement)):
            refuse_view_target(context, target, statement.verb)
        if isinstance(statement, (st.UpdateStatement, st.DeleteStatement, st.MergeStatement)):
            # INSERT goes to Spark: it appends to the files of a view USING parquet.
            refuse_temporary_view(context, target, statement.verb)


def _create_table(context: Context, statement: st.CreateTableStatement, source: SourceText) -> Result:
    if statement.provider in PROVIDERS and isinstance(statement, st.CreateTableAsStatement):
        return create_table_as(context, statement, source)
    if makes_hudi_table(context, statement):
        return create_table(context, statement)
    if statement.like is not None and (entry := find_hudi_entry(context, statement.like)) is not None:
        raise _unsupported(
            "CREATE TABLE LIKE in another format",
            entry,
            "USING hudi makes a Hudi table; CREATE TABLE … USING parquet AS SELECT makes one of plain files",
        )
    if statement.replaces and (entry := find_hudi_entry(context, statement.table)) is not None:
        raise _unsupported(
            "CREATE OR REPLACE TABLE", entry, f"INSERT OVERWRITE {entry.full_name} replaces its rows"
        )
    plan = parse_plan(context.spark, statement.text)
    refuse_changes_of_files(context, plan)
    return _run_query(context, statement, source, plan)


def _drop_table(context: Context, statement: st.DropTableStatement, source: SourceText) -> Result:
    if not statement.purge and drop_iceberg_entry(context, statement.table):
        return _nothing(context)
    entry = find_hudi_entry(context, statement.table)
    if entry is None:
        plan = parse_plan(context.spark, statement.text)
        refuse_touching_sources_of_tables(context, plan)
        return _run_query(context, statement, source, plan)
    run_drop(context, plan_drop(context, entry, purge=statement.purge))
    return _nothing(context)


def _drop_database(context: Context, statement: st.DropDatabaseStatement, _source: SourceText) -> Result:
    drop_database(context, statement)
    forget_database(context, statement.database.lower())
    return _nothing(context)


def _use(context: Context, statement: st.UseStatement, source: SourceText) -> Result:
    provide_database(context, used_database(statement.text))
    return _run_query(context, statement, source)


def _repair(context: Context, statement: st.MsckRepairStatement, source: SourceText) -> Result:
    entry = find_hudi_entry(context, statement.table)
    if entry is None:
        return _run_query(context, statement, source)
    table = open_hudi_entry(context, entry)
    context.console.info(sync_registered(context.metastore, table, entry.database, entry.name).summary)
    return _nothing(context)


def _cache(context: Context, statement: st.CacheTableStatement, source: SourceText) -> Result:
    if not statement.has_query and (entry := find_hudi_entry(context, statement.table)) is not None:
        raise _unsupported("CACHE TABLE", entry, f"CACHE TABLE name AS SELECT * FROM {entry.full_name}")
    return _run_query(context, statement, source)


def _drop_cache(context: Context, statement: st.TableStatement, source: SourceText) -> Result:
    if find_hudi_entry(context, statement.table) is None:
        return _run_query(context, statement, source)
    # A Hudi table is never cached under its own name, and every statement reads its timeline again.
    return _nothing(context)


def _explain(context: Context, statement: st.ExplainStatement, source: SourceText) -> Result:
    explained = statement.explained
    if isinstance(explained, st.CallStatement):
        raise UnsupportedStatementError(
            "EXPLAIN CALL is not supported", hint="procedures that change something take dry_run => true"
        )
    if isinstance(explained, st.CreateTableAsStatement) and explained.provider in PROVIDERS:
        return explain_create_table_as(context, statement, source)
    if isinstance(explained, _ROW_CHANGES) and (entry := _changed_table(context, explained)) is not None:
        return explain_dml(context, entry, statement, source)
    if isinstance(explained, st.RefreshIncrementalTableStatement):
        return incremental.explain_refresh(context, explained, source)
    if isinstance(explained, st.ChangeStatement):
        _check_change(context, explained)
    return explain_statement(context, statement, source)


def _create_view(context: Context, statement: st.CreateViewStatement, source: SourceText) -> Result:
    query_plan.create_view(context, statement.text, source)
    return _nothing(context)


def _nothing(context: Context) -> Result:
    return LocalResult(context.spark, (), ())


def _unsupported(verb: str, entry: MetastoreTable, hint: str) -> UnsupportedStatementError:
    return UnsupportedStatementError(
        f"{verb} is not supported on the Hudi table {entry.full_name}: nothing was run", hint=hint
    )


def _advice_on(statement: st.ChangeStatement) -> str:
    if isinstance(statement, st.AlterTableStatement):
        return "CALL hive_sync(table => '…') syncs the metastore entry with the table"
    return "run it with Apache Hudi's own Spark SQL (docs/limits.md names alternatives)"


_HANDLERS: Final[dict[type[st.Statement], Callable[[Context, Any, SourceText], Result]]] = {
    st.QueryStatement: _run_query,
    st.DescribeQueryStatement: _run_query,
    st.CacheTableStatement: _cache,
    st.UncacheTableStatement: _drop_cache,
    st.UseStatement: _use,
    st.ExplainStatement: _explain,
    st.CreateViewStatement: _create_view,
    st.CreateTableStatement: _create_table,
    st.CreateTableAsStatement: _create_table,
    st.CreateIncrementalTableStatement: incremental.create_incremental_table,
    st.AlterIncrementalTableStatement: incremental.alter_incremental_table,
    st.RefreshIncrementalTableStatement: incremental.refresh_incremental_table,
    st.InsertStatement: _change_rows,
    st.UpdateStatement: _change_rows,
    st.DeleteStatement: _change_rows,
    st.MergeStatement: _change_rows,
    st.TruncateStatement: _alter_table,
    st.AlterTableStatement: _alter_table,
    st.CommentOnStatement: _alter_table,
    st.DropTableStatement: _drop_table,
    st.DropDatabaseStatement: _drop_database,
    st.MsckRepairStatement: _repair,
    st.RefreshTableStatement: _drop_cache,
    st.BlockStatement: run_block,
    st.ExecuteImmediateStatement: execute_immediate,
    **dict.fromkeys(st.ABOUT_A_TABLE, _run_query),
}
