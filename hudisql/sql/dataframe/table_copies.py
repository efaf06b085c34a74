"""Copies of a Hudi table: the rows of one of its states as a DataFrame, and their write into a plain table.

Knows the query types of Hudi's `hoodie.datasource.query.type`, but no procedure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from hudisql.catalog.metastore_table import is_hudi_table
from hudisql.errors import InvalidArgumentError, UnsupportedStatementError
from hudisql.format.schema.spark_schema import quote_name
from hudisql.options.table_call import find_table
from hudisql.read.scan.scan_dataframe import scan_to_dataframe
from hudisql.read.scan.scan_plan import ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.read.scan.table_state import TableState
from hudisql.sql.query.path_guard import refuse_changes_of_files
from hudisql.sql.query.references import TimeTravel, parse_plan
from hudisql.sql.query.time_travel import changes_state, past_state
from hudisql.sql_literals import quote_string

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudisql.context import Context


class QueryType(StrEnum):
    """What is read of the table."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"
    INCREMENTAL = "incremental"


class SaveMode(StrEnum):
    """What becomes of the rows of a target that is there."""

    OVERWRITE = "overwrite"
    APPEND = "append"


@dataclass(frozen=True)
class CopiedState:
    """A state of the table of that name; an empty text is a time that is not given."""

    table: str
    query_type: QueryType
    begin: str
    end: str
    as_of: str


@dataclass(frozen=True)
class CopyTarget:
    """The plain table that gets the rows: its quoted name, and whether it is there."""

    name: str
    exists: bool


def copied_rows(context: Context, copied: CopiedState) -> DataFrame:
    """All columns of the rows of that state; the files are chosen now, and read when the rows are needed.

    Raises InvalidArgumentError, NoSuchTableError, NoSuchStateError, UnsupportedTableError, StorageError.
    """
    state = _state(context, copied)
    request = ScanRequest(
        state.table,
        state.table.full_schema,
        as_of=state.as_of,
        changes=state.changes,
        read_optimized=copied.query_type is QueryType.READ_OPTIMIZED,
        parallelism=context.spark.sparkContext.defaultParallelism,
    )
    return scan_to_dataframe(context.spark, plan_scan(request))


def open_target(context: Context, name: str) -> CopyTarget:
    """The target of that name. Raises UnsupportedStatementError for a Hudi table and a view."""
    database, own_name = context.qualify_table_name(name)
    entry = context.metastore.get_table(database, own_name)
    target = CopyTarget(f"{quote_name(database)}.{quote_name(own_name)}", entry is not None)
    if entry is None or not (is_hudi_table(entry) or entry.is_view):
        return target
    kind, hint = "a view", "name another table"
    if is_hudi_table(entry):
        kind, hint = "a Hudi table", f"INSERT INTO {entry.full_name} SELECT … writes rows into it"
    raise UnsupportedStatementError(
        f"CALL copy_to_table writes plain tables, and {entry.full_name} is {kind}: nothing was run", hint=hint
    )


def write_copy(
    context: Context, rows: DataFrame, target: CopyTarget, mode: SaveMode, expressions: str = ""
) -> None:
    """Write the rows into the target; a new table, or one that is overwritten, gets Spark's default format.

    `expressions`, separated by commas, are the columns of a table that is not there (all without them); those
    of one that is there are looked up by name. Raises SourceProtectedError, UnsupportedStatementError,
    QueryError.
    """
    for command in _commands(target, mode):
        refuse_changes_of_files(context, parse_plan(context.spark, command))
    if target.exists:
        chosen = rows.select(*(quote_name(name) for name in context.spark.table(target.name).columns))
    else:
        chosen = rows.selectExpr(*expressions.split(",")) if expressions.strip() else rows
    if target.exists and mode is SaveMode.APPEND:
        chosen.write.insertInto(target.name)
    else:
        chosen.write.mode(mode.value).saveAsTable(target.name)


def _commands(target: CopyTarget, mode: SaveMode) -> list[str]:
    """What Spark does to the target, as commands to check."""
    if not target.exists:
        return [f"CREATE TABLE {target.name} AS SELECT 1 AS n"]
    if mode is SaveMode.APPEND:
        return [f"INSERT INTO {target.name} SELECT 1"]
    # Spark drops the table and makes it again; the rows of an external one count as overwritten.
    return [f"INSERT OVERWRITE TABLE {target.name} SELECT 1", f"DROP TABLE {target.name}"]


def _state(context: Context, copied: CopiedState) -> TableState:
    is_incremental = copied.query_type is QueryType.INCREMENTAL
    if is_incremental and not (copied.begin and copied.end):
        raise InvalidArgumentError(
            "begin_instance_time and end_instance_time are required where query_type is 'incremental'",
            hint="CALL show_commits(table => …) lists instant times",
        )
    table = find_table(context, copied.table).listed_once()
    if is_incremental:
        return changes_state(context.spark, table, copied.begin, copied.end)
    if copied.query_type is QueryType.SNAPSHOT and copied.as_of:
        travel = TimeTravel((0, 0), timestamp=quote_string(copied.as_of))
        return past_state(context.spark, table, travel)
    return TableState(table)
