"""CREATE, ALTER, REFRESH and SHOW CREATE of incremental tables, and EXPLAIN REFRESH."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hudisql.catalog.guarded_alter import alter_guarded
from hudisql.catalog.metastore_table import PROVIDER_PROPERTY, MetastoreTable
from hudisql.errors import (
    InvalidArgumentError,
    NoSuchTableError,
    TableExistsError,
)
from hudisql.format.schema.spark_schema import quote_name
from hudisql.options.table_call import open_session_table
from hudisql.result import LocalResult, Result
from hudisql.spark.scanned_rows import scanned_rows
from hudisql.sql.ddl.create_table import (
    COMMENT,
    begun_table,
    create_table_of_rows,
    drop_incomplete_table,
    register_table,
)
from hudisql.sql.ddl.generator_options import with_generator_settings
from hudisql.sql.ddl.table_options import KNOWN_PROPERTIES, user_properties
from hudisql.sql.dml.conflict_retries import retry_on_conflict
from hudisql.sql.dml.statement_scope import StatementScope, open_scope
from hudisql.sql.incremental_tables.changed_rows import DELETED
from hudisql.sql.incremental_tables.definition import (
    PREFIX,
    IncrementalDefinition,
    create_statement,
    definition_of,
    properties_clause,
)
from hudisql.sql.incremental_tables.definition_change import (
    analyzed_definition,
    columns_of,
    refuse_key_properties,
)
from hudisql.sql.incremental_tables.driver_changes import DriverChanges
from hudisql.sql.incremental_tables.refresh import WHOLE, RefreshPlan, plan_refresh, run_refresh
from hudisql.sql.incremental_tables.refresh_checkpoint import find_place
from hudisql.sql.incremental_tables.session_settings import settings_of_session, with_settings
from hudisql.sql.query.target_table import find_hudi_entry, open_hudi_entry
from hudisql.sql.schema.table_definition import TableDefinition, read_table_definition
from hudisql.sql.text import statements as st
from hudisql.sql.text.mapped_sql import source_from
from hudisql.sql.text.spark_errors import SourceText
from hudisql.sql_literals import quote_string
from hudisql.table.hudi_table import HudiTable
from hudisql.write.execution.commit_files import WriteResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudisql.context import Context

OUTPUT: Final = (
    ("instant", "string"),
    ("way", "string"),
    ("reason", "string"),
    ("sources_changed", "string"),
    ("rows_inserted", "bigint"),
    ("rows_updated", "bigint"),
    ("rows_deleted", "bigint"),
    ("files_written", "bigint"),
)
_EXPLAINED: Final = (("fact", "string"), ("value", "string"))
# After a concurrent refresh there is mostly nothing left to do.
_RETRIES: Final = 2


def create_incremental_table(
    context: Context, statement: st.CreateIncrementalTableStatement, source: SourceText
) -> Result:
    """Create the table from the query's columns and fill it; returns the row of a refresh.

    Raises TableExistsError, InvalidArgumentError for a key column that the query lacks,
    UnsupportedStatementError, QueryError, RepeatedKeysError; nothing is then left behind.
    """
    database, name = context.qualify_table_name(str(statement.table))
    if context.metastore.get_table(database, name) is not None:
        if statement.if_not_exists:
            context.console.info(f"{database}.{name} exists already: nothing was done")
            return LocalResult(context.spark, (), ())
        raise TableExistsError(
            f"{database}.{name} exists already",
            hint="CREATE INCREMENTAL TABLE IF NOT EXISTS leaves it as it is",
        )
    text = statement.text[statement.query_start :]
    origin = source_from(statement.query_start, statement.text, source)
    settings = settings_of_session(context)
    incremental = IncrementalDefinition(
        text, context.current_database, statement.key, statement.ordering, settings
    )
    frame, incremental = analyzed_definition(context, incremental, f"{database}.{name}", origin)
    definition = _table_definition(context, statement, frame, incremental)
    begun = _begun(context, definition, incremental, f"{database}.{name}")
    table = begun or create_table_of_rows(context, definition, database, name)
    parameters = {**definition.properties, PROVIDER_PROPERTY: "hudi"}
    entry = MetastoreTable(database, name, "EXTERNAL_TABLE", table.base_path, (), parameters=parameters)
    try:
        with open_scope(context, entry, table) as scope:
            plan = plan_refresh(scope, incremental)
            result = run_refresh(plan, syncs=False)
    except BaseException:
        if begun is None:
            drop_incomplete_table(context, table)
        raise
    properties = {**definition.properties, **incremental.properties()}
    register_table(
        context,
        replace(definition, properties=properties),
        open_session_table(context, table.base_path),
        database,
        name,
    )
    return _result(context, plan, result)


def _begun(
    context: Context, definition: TableDefinition, incremental: IncrementalDefinition, name: str
) -> HudiTable | None:
    """The table that a killed CREATE of the same query has left, with or without rows; None otherwise."""
    table = begun_table(context, definition, *name.split("."))
    if table is None:
        return None
    place = find_place(table)
    if table.timeline.commits and (place is None or not _is_same_query(place.definition, incremental)):
        return None
    context.console.info(f"{name}: goes on with the table at {table.base_path}, which a CREATE has begun")
    return table


def _is_same_query(stored: Mapping[str, object], given: IncrementalDefinition) -> bool:
    """True if the definitions differ only in what a refresh ignores."""
    return all(stored.get(name) == given.document[name] for name in ("query", "key", "ordering"))


def _table_definition(
    context: Context,
    statement: st.CreateIncrementalTableStatement,
    frame: DataFrame,
    incremental: IncrementalDefinition,
) -> TableDefinition:
    definition = read_table_definition(context, statement.definition, frame.schema.jsonValue()["fields"])
    definition = with_generator_settings(definition, context.spark.conf)
    refuse_key_properties(definition)
    properties = {**definition.properties, "primaryKey": ",".join(incremental.key)}
    return replace(definition, properties=properties)


def alter_incremental_table(
    context: Context, statement: st.AlterIncrementalTableStatement, source: SourceText
) -> Result:
    """Give the table another query with the same columns; the next refresh runs the whole query.

    Raises NoSuchTableError, InvalidArgumentError, QueryError.
    """
    entry, before = _incremental_entry(context, statement)
    text = statement.text[statement.query_start :]
    origin = source_from(statement.query_start, statement.text, source)
    settings = settings_of_session(context)
    definition = replace(before, query=text, database=context.current_database, settings=settings)
    frame, _ = analyzed_definition(context, definition, entry.full_name, origin)
    if {name.lower() for name in frame.columns} != columns_of(entry):
        raise InvalidArgumentError(
            f"the query gives the columns {', '.join(frame.columns)}, not those of {entry.full_name}",
            hint="create another table with it; ALTER TABLE … ADD COLUMNS adds columns first",
        )
    kept = {name: value for name, value in entry.parameters.items() if not name.startswith(PREFIX)}
    alter_guarded(context.metastore, entry, replace(entry, parameters={**kept, **definition.properties()}))
    return LocalResult(context.spark, (), ())


def refresh_incremental_table(
    context: Context, statement: st.RefreshIncrementalTableStatement, _source: SourceText
) -> Result:
    """Bring the table up to date; one row says what was done, and how.

    Raises NoSuchTableError, QueryError, HollowCommitError, RepeatedKeysError, WriteConflictError.
    """
    entry, definition = _incremental_entry(context, statement)

    def refresh(scope: StatementScope) -> Result:
        plan = plan_refresh(scope, definition, full=statement.full, until=statement.until)
        return _result(context, plan, run_refresh(plan))

    with with_settings(context, definition.settings):
        return retry_on_conflict(context, entry, refresh, _RETRIES)


def explain_refresh(
    context: Context, statement: st.RefreshIncrementalTableStatement, _source: SourceText
) -> Result:
    """What the refresh would read and write, as facts with their values; nothing is written."""
    entry, definition = _incremental_entry(context, statement)
    with with_settings(context, definition.settings), open_scope(context, entry) as scope:
        plan = plan_refresh(scope, definition, full=statement.full, until=statement.until)
        return LocalResult(context.spark, _EXPLAINED, list(_facts(plan)))


def show_create_incremental_table(
    context: Context, entry: MetastoreTable, definition: IncrementalDefinition
) -> Result:
    """The CREATE INCREMENTAL TABLE of such a table."""
    table = open_hudi_entry(context, entry)
    clauses = []
    if table.properties.partition_fields:
        clauses.append(f"PARTITIONED BY ({', '.join(map(quote_name, table.properties.partition_fields))})")
    if comment := entry.parameters.get(COMMENT):
        clauses.append(f"COMMENT {quote_string(comment)}")
    options = {"type": "mor" if table.is_merge_on_read else "cow", **user_properties(entry.parameters)}
    known = {name.lower() for names in KNOWN_PROPERTIES for name in names} - {"type"}
    clauses.append(
        properties_clause({key: value for key, value in options.items() if key.lower() not in known})
    )
    text = create_statement(entry, definition, "\n".join(clauses))
    return LocalResult(lambda: context.spark, (("createtab_stmt", "string"),), [(text,)])


def _facts(plan: RefreshPlan) -> Sequence[tuple[str, str]]:
    facts = [("way", plan.way)]
    if plan.reason:
        facts.append(("reason", plan.reason))
    for name, changes in (plan.changes or {}).items():
        size = sum(
            side.length for change in changes for side in (change.before, change.after) if side is not None
        )
        facts.append((f"source {name}", f"{len(changes):,} file groups changed, {size:,} bytes to compare"))
    if plan.values is not None:
        count = plan.values.frame.count() if plan.values.few is None else plan.values.few.num_rows
        facts.append(("recomputed", f"rows of {count:,} values of {', '.join(plan.values.columns)}"))
    if plan.rows is not None:
        read, written, deleted = _counts(plan.rows)
        facts.append(("rows to read", f"{read:,}"))
        facts.append(("rows to write", f"{written:,}"))
        facts.append(("rows to delete", f"{deleted:,}"))
    return facts


def _counts(rows: DataFrame | DriverChanges) -> tuple[int, int, int]:
    """The numbers of rows read from the sources and the table, to be written, and to be deleted."""
    if isinstance(rows, DriverChanges):
        return scanned_rows(rows.query) + rows.stored_rows, *rows.counts()
    counted = rows.groupBy(DELETED).count()
    counts = {row[0]: row[1] for row in counted.collect()}
    return scanned_rows(counted), counts.get(False, 0), counts.get(True, 0)


def _incremental_entry(
    context: Context, statement: st.TableStatement
) -> tuple[MetastoreTable, IncrementalDefinition]:
    entry = find_hudi_entry(context, statement.table)
    if entry is None:
        raise NoSuchTableError(
            f"there is no incremental table {statement.table}", hint="CREATE INCREMENTAL TABLE makes one"
        )
    definition = definition_of(entry)
    if definition is None:
        raise InvalidArgumentError(
            f"{entry.full_name} is a Hudi table without a defining query",
            hint="CREATE INCREMENTAL TABLE … AS SELECT makes a table that can be refreshed",
        )
    return entry, definition


def _result(context: Context, plan: RefreshPlan, written: WriteResult) -> Result:
    changed = ", ".join(plan.changes or ())
    if plan.way == WHOLE and plan.reason:
        context.console.info(f"{plan.scope.entry.full_name}: the whole query was run: {plan.reason}")
    row: tuple[Any, ...] = (
        written.instant_time,
        plan.way,
        plan.reason or None,
        changed or None,
        written.inserted,
        written.updated,
        written.deleted,
        written.files,
    )
    return LocalResult(context.spark, OUTPUT, [row])
