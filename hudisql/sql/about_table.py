"""SHOW and DESCRIBE of one table: a Hudi table answers them without Spark.

Apart from the executor, so that they import neither Spark nor what changes tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hudisql.errors import UnsupportedStatementError
from hudisql.sql.ddl import table_statements
from hudisql.sql.incremental_tables.definition import definition_of
from hudisql.sql.query.target_table import find_hudi_entry
from hudisql.sql.text import statements as st

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from hudisql.catalog.metastore_table import MetastoreTable
    from hudisql.context import Context
    from hudisql.result import Result


def answer_about_table(context: Context, statement: st.TableStatement) -> Result | None:
    """The answer of a Hudi table; None for other tables, and for tables that do not exist.

    Raises UnsupportedStatementError, InvalidArgumentError.
    """
    entry = find_hudi_entry(context, statement.table)
    return None if entry is None else _ANSWERS[type(statement)](context, entry, statement)


def _describe(context: Context, entry: MetastoreTable, statement: st.DescribeStatement) -> Result:
    is_json = statement.rest.upper().split()[-2:] == ["AS", "JSON"]
    if statement.rest and (statement.column is None or is_json):
        raise UnsupportedStatementError(
            f"DESCRIBE … {statement.rest} is not supported on the Hudi table {entry.full_name}: "
            "nothing was run",
            hint="DESCRIBE EXTENDED and SHOW PARTITIONS work",
        )
    return table_statements.describe_table(context, entry, statement)


def _show_create_table(context: Context, entry: MetastoreTable, _statement: st.TableStatement) -> Result:
    definition = definition_of(entry)
    if definition is None:
        return table_statements.show_create_table(context, entry)
    from hudisql.sql.incremental_tables.incremental_statements import show_create_incremental_table

    return show_create_incremental_table(context, entry, definition)


_ANSWERS: Final[Mapping[type[st.Statement], Callable[[Context, MetastoreTable, Any], Result]]] = {
    st.ShowPartitionsStatement: table_statements.show_partitions,
    st.ShowCreateTableStatement: _show_create_table,
    st.ShowColumnsStatement: lambda context, entry, _statement: table_statements.show_columns(context, entry),
    st.ShowPropertiesStatement: table_statements.show_properties,
    st.DescribeStatement: _describe,
}
