"""Hudi's table-valued functions: their checked arguments as values.

Follows `HoodieTableChanges` of Hudi 0.15, and `HoodieTimelineTableValuedFunction` and
`HoodieFileSystemViewTableValuedFunction` of 1.x. The first argument is a table's name or its path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hudisql.errors import InvalidArgumentError, UnsupportedStatementError
from hudisql.sql.query.references import TableFunction
from hudisql.sql.text.spark_errors import translated_spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE_CHANGES: Final = "hudi_table_changes"
QUERY_TIMELINE: Final = "hudi_query_timeline"
FILESYSTEM_VIEW: Final = "hudi_filesystem_view"
_SIGNATURES: Final = {
    TABLE_CHANGES: ("(table_name or table_path, incremental_format, start_instant, [end_instant])", 3, 4),
    QUERY_TIMELINE: ("(table_name or table_path, [true|false])", 1, 2),
    FILESYSTEM_VIEW: ("(table_name or table_path, [subpath])", 1, 2),
}
_FORMATS: Final = ("latest_state", "cdc")


@dataclass(frozen=True)
class FunctionCall:
    """A call with its evaluated arguments; `table` is a name or a path, `arguments` the others."""

    name: str
    table: str
    arguments: tuple[str, ...]

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
    columns = ", ".join(f"CAST({argument} AS STRING)" for argument in function.arguments)
    with translated_spark_errors():
        row = session.sql(f"SELECT {columns}").head()
    values = [] if row is None else list(row)
    if not values or None in values:
        raise InvalidArgumentError(f"an argument of {function.name} is NULL; it takes {signature}")
    table, *others = (str(value) for value in values)
    if function.name == TABLE_CHANGES and others[0] not in _FORMATS:
        raise InvalidArgumentError(
            f"'{TABLE_CHANGES}' doesn't support `{others[0]}`", hint=f"write one of: {', '.join(_FORMATS)}"
        )
    if function.name == QUERY_TIMELINE and others:
        _check_archived(others[0])
    return FunctionCall(function.name, table, tuple(others))


def _check_archived(text: str) -> None:
    if text not in ("true", "false"):
        raise InvalidArgumentError(f"the second argument of {QUERY_TIMELINE} is true or false")
    if text == "true":
        raise UnsupportedStatementError(
            f"{QUERY_TIMELINE} shows only the active timeline, without archived instants",
            hint="leave the second argument out",
        )
