"""Writes a DataFrame into a Hudi table, with Hudi's names for operations and options.

Rows are matched by record key. Columns are found by name and cast as in INSERT; missing ones are null, new
ones are added to the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from hudisql.catalog.metastore_table import MetastoreTable, is_hudi_table
from hudisql.errors import NoSuchTableError, WriteRefusedError
from hudisql.format.schema.meta_columns import is_meta_column
from hudisql.format.schema.spark_schema import quote_name
from hudisql.options.insert_options import InsertOperation
from hudisql.options.known_settings import warn_of_settings
from hudisql.options.table_call import open_session_table
from hudisql.sql.dataframe.frame_options import LOADS, FrameOptions, check_agreement, read_frame_options
from hudisql.sql.ddl.create_table import create_table_of_rows, drop_incomplete_table, register_table
from hudisql.sql.ddl.generator_options import with_generator_settings
from hudisql.sql.ddl.table_options import record_key_of
from hudisql.sql.dml.conflict_retries import retry_on_conflict
from hudisql.sql.dml.dml_execution import execute
from hudisql.sql.dml.dml_plan import DmlPlan, KeysToDelete, plan_insert
from hudisql.sql.dml.insert_rows import RowsToInsert, without_upsert
from hudisql.sql.dml.schema_evolution import describe_difference, evolved_table
from hudisql.sql.dml.statement_scope import StatementScope, check_changeable, open_scope
from hudisql.sql.query.target_table import find_entry
from hudisql.sql.schema.store_assignment import with_types
from hudisql.sql.schema.table_definition import TableDefinition, definition_of_rows
from hudisql.sql.text.statements import TableName
from hudisql.table.hudi_table import HudiTable
from hudisql.write.execution.commit_files import WriteResult
from hudisql.write.execution.writer_config import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudisql.context import Context


def write_frame(
    context: Context, frame: DataFrame, name: str, operation: str | None, options: Mapping[str, str]
) -> WriteResult:
    """Write the rows as one commit and sync the metastore; a missing table is created.

    `options` have Hudi's names; those about the table must agree with it. Raises InvalidArgumentError,
    NoSuchTableError, WriteRefusedError.
    """
    given = read_frame_options(operation, options)
    warn_of_settings(context.console, given.settings, f"options of a write to {name}")
    entry = find_entry(context, TableName(context.qualify_table_name(name)))
    with context.with_session_settings(given.settings):
        if entry is None:
            return _write_new_table(context, frame, name, given)
        if not is_hudi_table(entry):
            raise NoSuchTableError(f"{entry.full_name} is not a Hudi table", hint="choose another name")
        check_changeable(entry, given.operation)

        def change(scope: StatementScope) -> WriteResult:
            check_agreement(given, scope.table, scope.table_label)
            return execute(_plan_write(scope, frame, given.operation))

        return retry_on_conflict(context, entry, change)


def _plan_write(scope: StatementScope, frame: DataFrame, operation: str) -> DmlPlan:
    """The plan of a write into an existing table."""
    context, table, label = scope.context, scope.table, scope.table_label
    if operation == "delete":
        rows = _rows_of_table(context, table, frame, label)
        return DmlPlan(scope, table, scope.write_options(table), KeysToDelete(rows))
    table = evolved_table(scope.settings, table, frame.schema, label)
    rows = _rows_of_table(context, table, frame, label)
    if operation == "upsert":
        operation = without_upsert(context, table, "upsert", label)
    return _plan_rows(scope, table, rows, operation)


def _plan_rows(scope: StatementScope, table: HudiTable, rows: DataFrame, operation: str) -> DmlPlan:
    options = scope.write_options(table)
    return plan_insert(scope, table, options, _rows_to_insert(rows, operation, options))


def _write_new_table(context: Context, frame: DataFrame, name: str, given: FrameOptions) -> WriteResult:
    """Create a table from the rows' columns and the options, and write the rows.

    Without a record key its keys are generated; an upsert, which is the default, needs one.
    """
    has_key = record_key_of(TableDefinition(pa.schema([]), (), given.definition)) is not None
    if given.operation == "delete" or (given.operation == "upsert" and not has_key):
        raise NoSuchTableError(
            f"there is no Hudi table {name} in the metastore",
            hint="hoodie.datasource.write.recordkey.field among the options creates it, so does "
            "the operation 'insert', with generated record keys; "
            "CALL hive_sync(table => 'db.name', path => '…') registers one that exists",
        )
    database, own_name = context.qualify_table_name(name)
    frame = frame.drop(*(column for column in frame.columns if is_meta_column(column)))
    definition = definition_of_rows(frame.schema, given.definition, given.path)
    definition = with_generator_settings(definition, context.spark.conf)
    table = create_table_of_rows(context, definition, database, own_name)
    entry = MetastoreTable(database, own_name, "EXTERNAL_TABLE", table.base_path, ())
    try:
        check_agreement(given, table, entry.full_name)
        rows = _rows_of_table(context, table, frame, entry.full_name)
        with open_scope(context, entry, table) as scope:
            result = execute(_plan_rows(scope, scope.table, rows, given.operation), syncs=False)
    except BaseException:
        drop_incomplete_table(context, table)
        raise
    register_table(context, definition, open_session_table(context, table.base_path), database, own_name)
    return result


def _rows_to_insert(rows: DataFrame, operation: str, options: WriteOptions) -> RowsToInsert:
    combine = bool(options.combines)
    if operation in ("insert", "upsert"):
        kind: InsertOperation = "insert" if operation == "insert" else "upsert"
        return RowsToInsert(rows, kind, combine_before_insert=combine)
    return RowsToInsert(rows, "bulk_insert", LOADS[operation], combine_before_insert=combine)


def _rows_of_table(context: Context, table: HudiTable, frame: DataFrame, table_label: str) -> DataFrame:
    from pyspark.sql import functions as sf

    given = {column.lower(): column for column in frame.columns if not is_meta_column(column)}
    needed = {field.split(".")[0].lower() for field in table.properties.record_key_fields}
    needed |= {field.split(".")[0].lower() for field in table.properties.partition_fields}
    missing = sorted(needed - set(given))
    if missing:
        raise WriteRefusedError(f"the rows for {table_label} lack the key or partition column '{missing[0]}'")
    columns = [
        (sf.col(quote_name(given[name.lower()])) if name.lower() in given else sf.lit(None)).alias(name)
        for name in table.schema.names
    ]
    chosen = frame.select(*columns)
    try:
        lengths = table.properties.column_lengths
        return with_types(context, chosen, table.schema, table_label, members_by_name=True, lengths=lengths)
    except WriteRefusedError as error:
        raise WriteRefusedError(
            f"{error.message}: {describe_difference(table, frame.schema)}", hint=error.hint
        ) from error
