"""Hudi's table-valued functions: their checked arguments as values.

Follows `HoodieQuery` and `HoodieTableChanges` of Hudi 0.15, and of 1.x `HoodieTimelineTableValuedFunction`,
`HoodieFileSystemViewTableValuedFunction` and `HoodieMetadataTableValuedFunction`. The first argument is a
table's name or its path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any, Final, cast

from hudisql.errors import InvalidArgumentError
from hudisql.format.log_file.change_log import AFTER, BEFORE, COMMIT, OPERATION
from hudisql.read.changes.change_capture import plan_capture
from hudisql.read.changes.change_scan import captured_changes
from hudisql.spark.jvm import spark_sql
from hudisql.sql.query.metadata_table_rows import METADATA_COLUMNS, metadata_rows
from hudisql.sql.query.references import TableFunction
from hudisql.sql.query.time_travel import changes_window
from hudisql.sql.text.spark_errors import translated_spark_errors
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

QUERY: Final = "hudi_query"
TABLE_CHANGES: Final = "hudi_table_changes"
QUERY_TIMELINE: Final = "hudi_query_timeline"
_FLAGS: Final = ("true", "false")
FILESYSTEM_VIEW: Final = "hudi_filesystem_view"
METADATA: Final = "hudi_metadata"
_SIGNATURES: Final = {
    QUERY: ("(table_name or table_path, query_type)", 2, 2),
    TABLE_CHANGES: ("(table_name or table_path, incremental_format, start_instant, [end_instant])", 3, 4),
    QUERY_TIMELINE: ("(table_name or table_path, [true|false])", 1, 2),
    FILESYSTEM_VIEW: ("(table_name or table_path, [subpath])", 1, 2),
    METADATA: ("(table_name or table_path)", 1, 1),
}
_FORMATS: Final = {TABLE_CHANGES: ("latest_state", "cdc"), QUERY: ("snapshot", "read_optimized")}
_ROWS: Final[Mapping[str, Any]] = {QUERY_TIMELINE: QueryTimelineRow, FILESYSTEM_VIEW: FileSystemViewRow}


@dataclass(frozen=True)
class FunctionCall:
    """A call with its evaluated arguments; `table` is a name or a path, `arguments` the others."""

    name: str
    table: str
    arguments: tuple[str, ...]

    @property
    def is_query(self) -> bool:
        """True for `hudi_query`, which is the table itself."""
        return self.name == QUERY

    @property
    def is_read_optimized(self) -> bool:
        """True for `hudi_query` of the base files alone."""
        return self.is_query and self.arguments[0] == "read_optimized"

    @property
    def is_latest_state(self) -> bool:
        """True for `hudi_table_changes` in the form of the table's own rows."""
        return self.name == TABLE_CHANGES and self.arguments[0] == "latest_state"

    @property
    def window(self) -> tuple[str, str | None]:
        """Begin and end of the changes."""
        return self.arguments[1], self.arguments[2] if len(self.arguments) > 2 else None


def evaluate_call(session: SparkSession, function: TableFunction) -> FunctionCall:
    """The call with its constant arguments. Raises InvalidArgumentError, QueryError."""
    signature, least, most = _SIGNATURES[function.name]
    if not least <= len(function.arguments) <= most:
        raise InvalidArgumentError(f"expect arguments {signature} for function `{function.name}`")
    # An argument's text may end with a comment, which must not swallow what comes after it.
    columns = ", ".join(f"CAST({argument}\n AS STRING)" for argument in function.arguments)
    with translated_spark_errors():
        row = spark_sql(session, f"SELECT {columns}").head()
    values = [] if row is None else list(row)
    if not values or None in values:
        raise InvalidArgumentError(f"an argument of {function.name} is NULL; it takes {signature}")
    table, *others = (str(value) for value in values)
    forms = _FORMATS.get(function.name)
    if forms is not None and others[0] not in forms:
        raise InvalidArgumentError(
            f"'{function.name}' doesn't support `{others[0]}`", hint=f"write one of: {', '.join(forms)}"
        )
    if function.name == QUERY_TIMELINE and others and others[0] not in _FLAGS:
        raise InvalidArgumentError(f"the second argument of {QUERY_TIMELINE} is true or false")
    return FunctionCall(function.name, table, tuple(others))


def function_schema(call: FunctionCall) -> StructType:
    """The columns of a call's rows."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    if call.name == METADATA:
        return cast(StructType, StructType.fromDDL(METADATA_COLUMNS))
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
    if call.name == METADATA:
        return session.createDataFrame(list(metadata_rows(table)), function_schema(call))
    rows: Sequence[Any] = list(_rows_of(table, call))
    return session.createDataFrame([astuple(row) for row in rows], function_schema(call))


def _rows_of(
    table: HudiTable, call: FunctionCall
) -> Iterator[QueryTimelineRow] | Iterator[FileSystemViewRow]:
    if call.name == QUERY_TIMELINE:
        return timeline_rows(table, with_archived=call.arguments == ("true",))
    return file_system_view_rows(table, *call.arguments)
