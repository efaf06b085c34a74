"""INSERT, UPDATE, DELETE and MERGE on Hudi tables: the statement's query is run and its rows are committed.

text → clauses → one SELECT (`change_queries`) → changes with the table's types → `write.apply` → metastore.
Casts follow Spark's ANSI store assignment, and the statements mean what standard SQL says where Hudi's own
differ from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hudisql.catalog.tables import MetastoreTable, is_read_optimized
from hudisql.errors import UnsupportedStatementError
from hudisql.format.spark_schema import quote_name, spark_type_name
from hudisql.read.predicates import Predicate
from hudisql.result import LocalResult, Result
from hudisql.sql import clauses as cl
from hudisql.sql import query
from hudisql.sql import statements as st
from hudisql.sql.after_commit import follow_commit
from hudisql.sql.change_queries import (
    ACTION,
    OLD_VALUE,
    ChangeQuery,
    delete_query,
    insert_query,
    merge_query,
    source_alias,
    source_query,
    update_query,
)
from hudisql.sql.composed_text import ComposedText
from hudisql.sql.held_source import hold_source, inserts_only_by_source, target_alias
from hudisql.sql.insert_rows import RowsToLoad, rows_to_insert
from hudisql.sql.match_values import matching_predicate
from hudisql.sql.relations import TableBinder
from hudisql.sql.source_names import qualify_source_names
from hudisql.sql.spark_errors import SourceText
from hudisql.sql.store_assignment import with_types
from hudisql.sql.tables import open_hudi_entry
from hudisql.sql.write_options import write_options
from hudisql.table.hudi_table import HudiTable
from hudisql.write.apply import apply_changes
from hudisql.write.changes import (
    FILE_GROUP,
    OPERATION,
    PARTITION,
    RECORD_KEY,
    Operation,
    change_schema,
)
from hudisql.write.commit import check_writable
from hudisql.write.commit_files import WriteResult
from hudisql.write.load import load_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudisql.context import Context

OUTPUT: Final = (
    ("instant", "string"),
    ("rows_inserted", "bigint"),
    ("rows_updated", "bigint"),
    ("rows_deleted", "bigint"),
    ("rows_moved", "bigint"),
    ("rows_skipped_as_late", "bigint"),
    ("files_written", "bigint"),
    ("bytes_written", "bigint"),
)


def change_rows(
    context: Context, entry: MetastoreTable, statement: st.ChangeStatement, source: SourceText
) -> Result:
    """Run the statement on the Hudi table and give one row that says what it did.

    Raises SqlSyntaxError, QueryError, WriteRefusedError, UnsupportedStatementError, UnsupportedTableError,
    WriteConflictError; the table is then as before. SyncFailedError says that only the metastore lags.
    """
    if is_read_optimized(entry):
        raise UnsupportedStatementError(
            f"{statement.verb} is not possible on {entry.full_name}, which shows base files only",
            hint=f"name the table itself: {entry.database}.{entry.name.removesuffix('_ro')}",
        )
    table = open_hudi_entry(context, entry)
    check_writable(table)
    with ExitStack() as held:
        changes = _changes_of(context, table, entry.full_name, statement, source, held)
        if isinstance(changes, RowsToLoad):
            result = commit_load(context, entry, table, changes)
        else:
            result = commit_changes(context, entry, table, changes, _operation_type(statement))
    return LocalResult(context.spark, OUTPUT, [result_row(result)])


def commit_changes(
    context: Context,
    entry: MetastoreTable,
    table: HudiTable,
    changes: DataFrame,
    operation_type: str,
) -> WriteResult:
    """Write the changes as one commit, by the session's settings, and bring the metastore in step.

    Raises what `apply_changes` raises, SettingsError, SyncFailedError (the commit then stands).
    """
    options = write_options(context, table, entry.parameters)
    result = apply_changes(context.spark, table, changes, operation_type, options)
    _follow(context, entry, table, result)
    return result


def commit_load(context: Context, entry: MetastoreTable, table: HudiTable, load: RowsToLoad) -> WriteResult:
    """Write new rows into new file groups as one commit, and bring the metastore in step.

    Raises what `load_rows` raises, SettingsError, SyncFailedError (the commit then stands).
    """
    overwrite = load.overwrite
    operation_type = "BULK_INSERT" if overwrite is None else overwrite.operation_type
    options = write_options(context, table, entry.parameters)
    result = load_rows(context.spark, table, load.rows, operation_type, options, overwrite=overwrite)
    _follow(context, entry, table, result)
    return result


def _follow(context: Context, entry: MetastoreTable, table: HudiTable, result: WriteResult) -> None:
    if result.instant_time is not None:
        follow_commit(context, entry, table, dropped_metadata_table=result.dropped_metadata_table)


def _operation_type(statement: st.ChangeStatement) -> str:
    if isinstance(statement, st.InsertStatement):
        return "INSERT"
    return "DELETE" if isinstance(statement, st.DeleteStatement) else "UPSERT"


def result_row(result: WriteResult) -> tuple[object, ...]:
    """The row of `OUTPUT`."""
    return (
        result.instant_time,
        result.inserted,
        result.updated,
        result.deleted,
        result.moved,
        result.late,
        result.files,
        result.bytes,
    )


def _changes_of(
    context: Context,
    table: HudiTable,
    place: str,
    statement: st.ChangeStatement,
    source: SourceText,
    held: ExitStack,
) -> DataFrame | RowsToLoad:
    """The changes, or rows to load; what they are computed from is there until `held` is closed."""
    where: Any = {"line": source.line, "column": source.column}
    schema = table.schema
    moving = _moving_columns(table)
    filters: Mapping[int, Predicate] = {}
    if isinstance(statement, st.DeleteStatement):
        made = delete_query(cl.read_delete(statement.text, **where), schema)
    elif isinstance(statement, st.UpdateStatement):
        made = update_query(cl.read_update(statement.text, **where), schema, moving, place)
    elif isinstance(statement, st.MergeStatement):
        made, filters = _merge_query(context, table, place, statement.text, source, held)
    elif isinstance(statement, st.InsertStatement):
        clauses = cl.read_insert(statement.text, **where)
        frame = _run(context, insert_query(clauses), source)
        return rows_to_insert(context, table, clauses, frame, place)
    else:
        raise UnsupportedStatementError(f"{statement.verb} is not supported on the Hudi table {place}")
    frame = query.run_query(context, made.text.text, made.text.source(source), filters=filters)
    if ACTION in frame.columns:
        frame = frame.filter(f"{ACTION} IS NOT NULL").drop(ACTION)
    return with_types(context, _with_moves(frame, made, table), change_schema(schema), place)


def _merge_query(
    context: Context, table: HudiTable, place: str, statement: str, source: SourceText, held: ExitStack
) -> tuple[ChangeQuery, Mapping[int, Predicate]]:
    """The query, and what it needs of the table that it names at an offset."""
    merge = cl.read_merge(statement, line=source.line, column=source.column)
    alias = source_alias(merge)
    reduced_as = predicate = None
    if inserts_only_by_source(merge):
        frame = _run(context, source_query(merge), source)
        columns = frame.columns
        rows = hold_source(frame, held)
        view = cl.Piece(rows.view_name, merge.source.start)
        merge = replace(merge, source=view, source_alias=alias, column_names=None)
        if rows.is_small:
            reduced_as = target_alias(merge, statement)
        if reduced_as is not None and "${" not in statement:
            condition = merge.condition.text
            predicate = matching_predicate(rows.rows, alias, reduced_as, table.schema, condition)
    else:
        columns = _columns_of(context, source_query(merge), source)
    merge = qualify_source_names(context.spark, merge, columns, alias)
    ordering = table.properties.precombine_field
    made = merge_query(merge, table.schema, columns, _moving_columns(table), ordering, place, reduced_as)
    if made.reduced_at is None or predicate is None:
        return made, {}
    return made, {made.reduced_at: predicate}


def _moving_columns(table: HudiTable) -> tuple[str, ...]:
    keys = [name.split(".")[0] for name in table.properties.record_key_fields]
    return tuple(dict.fromkeys([*keys, *(column.name for column in table.partition_columns)]))


def _run(context: Context, text: ComposedText, source: SourceText) -> DataFrame:
    return query.run_query(context, text.text, text.source(source))


def _columns_of(context: Context, text: ComposedText, source: SourceText) -> list[str]:
    """The columns of a query, which is analyzed and not run."""
    binder = TableBinder(context)
    bound = binder.bind(text.text)
    with (
        query.placeholders(context, binder, bound),
        query.bound_errors(bound, text.source(source)),
    ):
        return context.spark.sql(bound.text).columns


def _with_moves(frame: DataFrame, made: ChangeQuery, table: HudiTable) -> DataFrame:
    """Rows whose key or partition changes become two: the stored one goes, the new one is inserted."""
    from pyspark.sql import functions as sf

    if not made.moves_by:
        return frame
    types = {field.name: spark_type_name(field.type) for field in table.schema}
    moves = sf.lit(False)
    for name in made.moves_by:
        new = sf.col(quote_name(name)).cast(types[name])
        moves = moves | ~new.eqNullSafe(sf.col(quote_name(OLD_VALUE + name)))
    moves = moves & (sf.col(OPERATION) == int(Operation.UPDATE))
    both = sf.array(*[sf.lit(int(each)).cast("tinyint") for each in (Operation.MOVE_OUT, Operation.MOVE_IN)])
    operations = sf.when(moves, both).otherwise(sf.array(sf.col(OPERATION)))
    rest = [
        quote_name(name) for name in frame.columns if name != OPERATION and not name.startswith(OLD_VALUE)
    ]
    exploded = frame.select(sf.explode(operations).alias(OPERATION), *rest)
    is_new = sf.col(OPERATION) == int(Operation.MOVE_IN)
    for name in (PARTITION, FILE_GROUP, RECORD_KEY):
        exploded = exploded.withColumn(name, sf.when(~is_new, sf.col(name)))
    return exploded
