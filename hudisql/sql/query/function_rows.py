"""The rows of table functions that do not scan their table, as DataFrames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, fields
from typing import TYPE_CHECKING, Any, Final

from hudisql.read.changes.change_capture import AFTER, BEFORE, COMMIT, OPERATION, plan_capture
from hudisql.read.changes.change_scan import captured_changes
from hudisql.sql.query.table_functions import FILESYSTEM_VIEW, QUERY_TIMELINE, TABLE_CHANGES, FunctionCall
from hudisql.sql.query.time_travel import changes_window
from hudisql.table.history.timeline_rows import (
    FileSystemViewRow,
    QueryTimelineRow,
    file_system_view_rows,
    timeline_rows,
)
from hudisql.table.hudi_table import HudiTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ROWS: Final[Mapping[str, Any]] = {QUERY_TIMELINE: QueryTimelineRow, FILESYSTEM_VIEW: FileSystemViewRow}


def function_schema(call: FunctionCall) -> StructType:
    """The columns of a call's rows."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    if call.name == TABLE_CHANGES:
        return StructType([StructField(name, StringType()) for name in (OPERATION, COMMIT, BEFORE, AFTER)])
    return StructType(
        [
            StructField(field.name, LongType() if field.type == "int" else StringType())
            for field in fields(_ROWS[call.name])
        ]
    )


def function_rows(session: SparkSession, table: HudiTable, call: FunctionCall) -> DataFrame:
    """The rows of a call over an open table."""
    if call.name == TABLE_CHANGES:
        window = changes_window(session, table, *call.window)
        return captured_changes(session, table, plan_capture(table, window))
    rows: Sequence[Any] = list(_rows_of(table, call))
    return session.createDataFrame([astuple(row) for row in rows], function_schema(call))


def _rows_of(
    table: HudiTable, call: FunctionCall
) -> Iterator[QueryTimelineRow] | Iterator[FileSystemViewRow]:
    if call.name == QUERY_TIMELINE:
        return timeline_rows(table)
    return file_system_view_rows(table, *call.arguments)
