"""Whether a statement gives rows, said before it runs: drivers ask for it when they send the statement."""

from __future__ import annotations

from typing import Final

from hudisql.errors import HudisqlError
from hudisql.sql.text import statements as st
from hudisql.sql.text.parser import parse_statement

_WITHOUT_ROWS: Final = (
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
_HEADS_WITHOUT_ROWS: Final = frozenset(
    {"ALTER", "ANALYZE", "CLEAR", "COMMENT", "CREATE", "DECLARE", "DROP", "LOAD", "REFRESH", "TRUNCATE"}
)


def gives_rows(text: str) -> bool:
    """False for statements that surely give no rows; others that give none have an empty result."""
    try:
        statement = parse_statement(text)
    except HudisqlError:
        return True
    if isinstance(statement, st.PassThroughStatement):
        return statement.text.split(None, 1)[0].upper() not in _HEADS_WITHOUT_ROWS
    return isinstance(statement, st.CreateTableAsStatement) or not isinstance(statement, _WITHOUT_ROWS)
