"""Predicts before a statement runs whether it returns rows: drivers need this in the first response."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from hudisql.errors import HudisqlError
from hudisql.sql.text import statements as st
from hudisql.sql.text.parser import parse_statement


class StatementKind(Enum):
    """Rows, no rows, or a change of rows: hudisql returns one row of counts, Hive and Spark none."""

    QUERY = auto()
    COMMAND = auto()
    CHANGE = auto()


_CHANGES: Final = (
    st.InsertStatement,
    st.UpdateStatement,
    st.DeleteStatement,
    st.MergeStatement,
    st.CreateTableAsStatement,
    st.CreateIncrementalTableStatement,
    st.RefreshIncrementalTableStatement,
)
_COMMANDS: Final = (
    st.UseStatement,
    st.CreateViewStatement,
    st.CreateTableStatement,
    st.TruncateStatement,
    st.AlterTableStatement,
    st.CommentOnStatement,
    st.DropTableStatement,
    st.DropDatabaseStatement,
    st.MsckRepairStatement,
    st.RefreshTableStatement,
)
_CHANGE_HEADS: Final = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})
_COMMAND_HEADS: Final = frozenset(
    {"ALTER", "ANALYZE", "CLEAR", "COMMENT", "CREATE", "DECLARE", "DROP", "LOAD", "REFRESH", "TRUNCATE"}
)


def statement_kind(text: str) -> StatementKind:
    """COMMAND for statements that certainly return no rows; a QUERY without rows has an empty result."""
    try:
        statement = parse_statement(text)
    except HudisqlError:
        return StatementKind.QUERY
    if isinstance(statement, st.PassThroughStatement):
        head = statement.text.split(None, 1)[0].upper()
        is_change, is_command = head in _CHANGE_HEADS, head in _COMMAND_HEADS
    else:
        is_change, is_command = isinstance(statement, _CHANGES), isinstance(statement, _COMMANDS)
    if is_change:
        return StatementKind.CHANGE
    return StatementKind.COMMAND if is_command else StatementKind.QUERY
