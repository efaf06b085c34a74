"""Runs the plans of INSERT, UPDATE, DELETE, MERGE and DataFrame writes on Hudi tables.

Changes go to `write.execution.apply`, new rows without stored counterparts to `write.execution.bulk_insert`;
then the metastore is synced.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import RepeatedKeysError
from hudisql.result import LocalResult, Result
from hudisql.spark.cached_rows import cache_rows
from hudisql.sql.dml.after_commit import HeldPublication, after_commit, warn_if_metadata_table_dropped
from hudisql.sql.dml.conflict_retries import retry_on_conflict
from hudisql.sql.dml.dml_plan import DmlPlan, KeysToDelete, RowChanges, plan_dml, touched_register_only
from hudisql.sql.dml.insert_rows import RowsToInsert, as_inserts, precombined_inserts, precombined_rows
from hudisql.sql.dml.statement_scope import check_changeable
from hudisql.sql.dml.whole_partitions import FileGroupsToDrop
from hudisql.sql.query.query_plan import bound_errors
from hudisql.sql.text import statements as st
from hudisql.sql.text.spark_errors import SourceText
from hudisql.table.partitions.registered_partitions import register_only_error
from hudisql.write.execution.apply_changes import apply_changes
from hudisql.write.execution.bulk_insert import bulk_insert_rows
from hudisql.write.execution.commit_files import WriteResult, commit_files
from hudisql.write.execution.stored_keys import drop_stored_keys, refuse_stored_keys
from hudisql.write.execution.upsert import tag_locations
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.overwrite import Overwrite

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


def run_dml(
    context: Context, entry: MetastoreTable, statement: st.ChangeStatement, source: SourceText
) -> Result:
    """Run the statement on the Hudi table and give one row that says what it did.

    Raises SqlSyntaxError, QueryError, WriteRefusedError, UnsupportedStatementError, UnsupportedTableError,
    WriteConflictError; the table is then as before. SyncFailedError means that only the sync with the
    metastore failed.
    """
    check_changeable(entry, statement.verb)
    result = retry_on_conflict(context, entry, lambda scope: execute(plan_dml(scope, statement, source)))
    return LocalResult(context.spark, OUTPUT, [result_row(result)])


def execute(plan: DmlPlan, *, syncs: bool | None = None) -> WriteResult:
    """Run the plan as one commit, and sync the metastore if the settings (or `syncs`) say so.

    Raises RepeatedKeysError, SettingsError, SyncFailedError (the commit then stands).
    """
    scope = plan.scope
    syncs = scope.syncs if syncs is None else syncs
    query = plan.query
    if touched := touched_register_only(plan):
        raise register_only_error(plan.table, touched)
    with nullcontext() if query is None else bound_errors(query.prepared.bound, query.origin):
        publication = HeldPublication(scope.context, scope.entry, scope.settings)
        result = _commit(replace(plan, options=publication.follow(plan.options)))
        if result.instant_time is not None:
            after_commit(
                scope.context,
                scope.entry,
                plan.table,
                scope.settings,
                syncs=syncs,
                dropped_metadata_table=result.dropped_metadata_table,
                committed=result.table,
                is_published=publication.is_published,
            )
    return result


def _commit(plan: DmlPlan) -> WriteResult:
    if isinstance(plan.write, RowsToInsert):
        return _commit_rows(plan, plan.write)
    if isinstance(plan.write, KeysToDelete):
        return _delete_keys(plan, plan.write)
    if isinstance(plan.write, FileGroupsToDrop):
        return _drop_file_groups(plan, plan.write)
    if plan.write.unique_new_keys:
        return _commit_unique(plan, plan.write)
    return _apply(plan, plan.write.rows, plan.write.operation_type)


def _commit_unique(plan: DmlPlan, changes: RowChanges) -> WriteResult:
    """Commit the changes of a MERGE; of several inserted rows with one key the newest stays.

    The tasks find repeated keys while they write; only then the newest rows are determined.
    """
    if changes.looks_up_new_keys:
        changes = _with_new_keys(plan, changes)
    ordering_fields = plan.table.ordering_fields
    options = replace(plan.options, unique_new_keys=True)
    try:
        return _apply(plan, changes.rows, changes.operation_type, options)
    except RepeatedKeysError as error:
        if not ordering_fields:
            raise
        frame = replace(plan, write=changes).frame
        chosen = precombined_inserts(frame, plan.table, options.key_generator)
        try:
            return _apply(plan, chosen, changes.operation_type, options)
        except RepeatedKeysError as repeated:
            repeated.message = f"{repeated.message}; none has the highest {', '.join(ordering_fields)} alone"
            raise repeated from error


def _with_new_keys(plan: DmlPlan, changes: RowChanges) -> RowChanges:
    """The changes, computed once; refuses new rows whose record key is stored, where they are looked up."""
    scope = plan.scope
    cached = cache_rows(plan.frame)
    scope.resources.callback(cached.release)
    refuse_stored_keys(
        scope.context.spark,
        plan.table,
        cached.frame,
        plan.options,
        scope.resources,
        where_null=changes.looked_up_if_null,
    )
    return replace(changes, rows=cached.frame)


def _with_new_keys_alone(plan: DmlPlan, given: RowsToInsert) -> RowsToInsert:
    """The rows, computed once, without those whose record key is stored, which the policy fail refuses."""
    scope = plan.scope
    spark, resources = scope.context.spark, scope.resources
    cached = cache_rows(given.rows)
    resources.callback(cached.release)
    if given.dup_policy == "drop":
        rows = drop_stored_keys(spark, plan.table, cached.frame, plan.options, resources)
        return replace(given, rows=rows)
    refuse_stored_keys(
        spark, plan.table, as_inserts(cached.frame), plan.options, resources, statement="INSERT"
    )
    return replace(given, rows=cached.frame)


def _delete_keys(plan: DmlPlan, keys: KeysToDelete) -> WriteResult:
    scope = plan.scope
    changes, combined = tag_locations(
        scope.context.spark, plan.table, keys.rows, plan.options, scope.resources, deletes=True
    )
    result = _apply(plan, changes, "DELETE")
    return replace(result, combined=result.combined + combined)


def _drop_file_groups(plan: DmlPlan, dropped: FileGroupsToDrop) -> WriteResult:
    """Replace the file groups by nothing; no commit if they hold no row."""
    scope, options = plan.scope, plan.options
    [(deleted,)] = dropped.rows.collect()
    if not deleted and options.checkpoint is None:
        return WriteResult(None)
    overwrite = Overwrite("groups", groups=dropped.groups)
    with warn_if_metadata_table_dropped(scope.context, scope.entry, plan.table):
        result = commit_files(
            plan.table,
            overwrite.operation_type,
            plan.table.schema,
            lambda _: [],
            overwrite,
            concurrency=options.concurrency,
            changed={(path, file_id) for path, ids in dropped.groups.items() for file_id in ids},
            checkpoint=options.checkpoint,
            extra_metadata=options.extra_metadata,
        )
    return replace(result, deleted=deleted)


def _commit_rows(plan: DmlPlan, given: RowsToInsert) -> WriteResult:
    scope, table, options = plan.scope, plan.table, plan.options
    spark = scope.context.spark
    if given.operation != "upsert" and given.combine_before_insert:
        given = replace(given, rows=precombined_rows(given.rows, table, options))
    if given.dup_policy != "none":
        given = _with_new_keys_alone(plan, given)
    # A bucket has one file group, which a bulk insert would not look up.
    fills_buckets = options.index.buckets is not None and given.overwrite is None
    if given.operation == "bulk_insert" and not fills_buckets:
        with warn_if_metadata_table_dropped(scope.context, scope.entry, table):
            return bulk_insert_rows(spark, table, given.rows, options, overwrite=given.overwrite)
    changes, combined = (
        tag_locations(spark, table, given.rows, options, scope.resources)
        if given.operation == "upsert"
        else (as_inserts(given.rows), 0)
    )
    result = _apply(plan, changes, given.operation.upper())
    return replace(result, combined=result.combined + combined)


def _apply(
    plan: DmlPlan, changes: DataFrame | pa.Table, operation_type: str, options: WriteOptions | None = None
) -> WriteResult:
    scope, table = plan.scope, plan.table
    with warn_if_metadata_table_dropped(scope.context, scope.entry, table):
        return apply_changes(scope.context.spark, table, changes, operation_type, options or plan.options)


def result_row(result: WriteResult) -> tuple[object, ...]:
    """The row with the columns of `OUTPUT`."""
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
