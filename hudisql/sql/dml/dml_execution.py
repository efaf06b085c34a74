"""INSERT, UPDATE, DELETE and MERGE on Hudi tables: what `change_plan` plans is run and committed.

changes → `write.execution.apply`, new rows that nothing stored concerns → `write.execution.bulk_insert`;
then the metastore follows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import RepeatedKeysError, TableLockedError, WriteConflictError
from hudisql.result import LocalResult, Result
from hudisql.sql.config.insert_options import check_insert_dup_policy
from hudisql.sql.config.table_settings import settings_of
from hudisql.sql.config.writer_settings import write_options, writer_concurrency
from hudisql.sql.dml.dml_plan import PlannedChange, check_changeable, plan_change
from hudisql.sql.dml.insert_rows import RowsToInsert, as_inserts, precombined_inserts, precombined_rows
from hudisql.sql.dml.sync_after_commit import sync_after_commit, warn_if_metadata_table_dropped
from hudisql.sql.query.query_plan import bound_errors
from hudisql.sql.query.target_table import open_hudi_entry
from hudisql.sql.text import statements as st
from hudisql.sql.text.clauses import DeleteClauses, MergeClauses
from hudisql.sql.text.spark_errors import SourceText
from hudisql.table.hudi_table import HudiTable
from hudisql.write.execution.apply import apply_changes
from hudisql.write.execution.bulk_insert import bulk_insert_rows
from hudisql.write.execution.commit_files import WriteResult
from hudisql.write.execution.upsert import tag_locations
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.transaction.commit import check_writable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudisql.context import Context

OUTPUT: Final = (
    ("instant", "string"),
    ("rows_inserted", "bigint"),
    ("rows_updated", "bigint"),
    ("rows_deleted", "bigint"),
    ("rows_moved", "bigint"),
    ("rows_skipped_late", "bigint"),
    ("rows_combined", "bigint"),
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
    check_changeable(entry, statement.verb)
    result = retry_on_conflict(
        context, entry, lambda table: _change_table(context, entry, table, statement, source)
    )
    return LocalResult(context.spark, OUTPUT, [result_row(result)])


def retry_on_conflict(
    context: Context, entry: MetastoreTable, change: Callable[[HudiTable], WriteResult]
) -> WriteResult:
    """Do `change` with the table as it stands, again after a conflict with another writer.

    As often as `hoodie.write.num.retries.on.conflict.failures` says, as Hudi's `HoodieSparkSqlWriter`. Raises
    what `change` raises, UnsupportedTableError.
    """
    conflicts = 0
    while True:
        table = open_hudi_entry(context, entry)
        check_writable(table)
        try:
            return change(table)
        except TableLockedError:
            raise
        except WriteConflictError as error:
            conflicts += 1
            if conflicts > writer_concurrency(context, table, entry.parameters).conflict_retries:
                raise
            context.console.info(f"{entry.full_name}: {error.message}; attempt {conflicts + 1}")


def _change_table(
    context: Context,
    entry: MetastoreTable,
    table: HudiTable,
    statement: st.ChangeStatement,
    source: SourceText,
) -> WriteResult:
    with ExitStack() as held:
        plan = plan_change(context, entry, table, statement, source, held=held)
        with bound_errors(plan.prepared.bound, plan.origin):
            return _commit(context, entry, plan)


def _commit(context: Context, entry: MetastoreTable, plan: PlannedChange) -> WriteResult:
    if isinstance(plan.rows, RowsToInsert):
        return commit_rows(context, entry, plan.table, plan.rows)
    if isinstance(plan.clauses, MergeClauses):
        return _commit_merge(context, entry, plan.table, plan.rows)
    verb = "DELETE" if isinstance(plan.clauses, DeleteClauses) else "UPSERT"
    return commit_changes(context, entry, plan.table, plan.rows, verb)


def _commit_merge(
    context: Context, entry: MetastoreTable, table: HudiTable, changes: DataFrame
) -> WriteResult:
    """Commit what a MERGE changes; of several rows that it inserts with one key the newest stays.

    The tasks see for nothing whether keys repeat, so only then the newest rows are looked for.
    """
    ordering = table.properties.precombine_field
    options = write_options(context, table, entry.parameters)
    try:
        return commit_changes(context, entry, table, changes, "UPSERT", options=options, unique_new_keys=True)
    except RepeatedKeysError as error:
        if ordering is None:
            raise
        chosen = precombined_inserts(changes, table, ordering, options.key_generator)
        try:
            return commit_changes(
                context, entry, table, chosen, "UPSERT", options=options, unique_new_keys=True
            )
        except RepeatedKeysError as repeated:
            repeated.message = f"{repeated.message}; none has the highest {ordering} alone"
            raise repeated from error


def commit_changes(
    context: Context,
    entry: MetastoreTable,
    table: HudiTable,
    changes: DataFrame,
    operation_type: str,
    *,
    options: WriteOptions | None = None,
    unique_new_keys: bool = False,
    follows: bool = True,
) -> WriteResult:
    """Write the changes as one commit, by the session's settings, and bring the metastore in step.

    `options` are these settings, where the caller has read them. With `unique_new_keys` new rows must differ
    in record key or partition; without `follows` the metastore is the caller's matter. Raises what
    `apply_changes` raises, RepeatedKeysError, SettingsError, SyncFailedError (the commit then stands).
    """
    options = options or write_options(context, table, entry.parameters)
    options = replace(options, unique_new_keys=unique_new_keys)
    with warn_if_metadata_table_dropped(context, entry, table):
        result = apply_changes(context.spark, table, changes, operation_type, options)
    if follows:
        _follow(context, entry, table, result)
    return result


def commit_rows(
    context: Context,
    entry: MetastoreTable,
    table: HudiTable,
    given: RowsToInsert,
    *,
    follows: bool = True,
) -> WriteResult:
    """Write new rows as one commit, and bring the metastore in step unless that is the caller's matter.

    Raises what `apply_changes` and `bulk_insert_rows` raise, SettingsError, SyncFailedError (the commit then
    stands).
    """
    options = write_options(context, table, entry.parameters)
    check_insert_dup_policy(settings_of(context, table, entry.parameters))
    if given.operation != "upsert" and given.combines_before_insert(options):
        given = replace(given, rows=precombined_rows(given.rows, table, options))
    # A bucket has one file group, which a load would not look for.
    fills_buckets = options.index.buckets is not None and given.overwrite is None
    if given.operation != "bulk_insert" or fills_buckets:
        with ExitStack() as held:
            changes, combined = (
                tag_locations(context.spark, table, given.rows, options, held)
                if given.operation == "upsert"
                else (as_inserts(given.rows), 0)
            )
            verb = given.operation.upper()
            result = commit_changes(context, entry, table, changes, verb, options=options, follows=follows)
            return replace(result, combined=result.combined + combined)
    with warn_if_metadata_table_dropped(context, entry, table):
        result = bulk_insert_rows(context.spark, table, given.rows, options, overwrite=given.overwrite)
    if follows:
        _follow(context, entry, table, result)
    return result


def _follow(context: Context, entry: MetastoreTable, table: HudiTable, result: WriteResult) -> None:
    if result.instant_time is not None:
        sync_after_commit(context, entry, table, dropped_metadata_table=result.dropped_metadata_table)


def result_row(result: WriteResult) -> tuple[object, ...]:
    """The row of `OUTPUT`."""
    return (
        result.instant_time,
        result.inserted,
        result.updated,
        result.deleted,
        result.moved,
        result.skipped_late,
        result.combined,
        result.files,
        result.bytes,
    )
