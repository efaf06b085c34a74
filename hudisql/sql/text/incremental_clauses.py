"""The clauses of CREATE, ALTER and REFRESH INCREMENTAL TABLE, read from the tokens after these words.

Clauses of Spark's CREATE TABLE (partitions, properties, location, comment) stay text for Spark's parser.
"""

from __future__ import annotations

from hudisql.sql.text import statements as st
from hudisql.sql.text.statement_cursor import StatementCursor

_CLAUSES = frozenset({"PARTITIONED", "TBLPROPERTIES", "LOCATION", "COMMENT"})


def read_create(parser: StatementCursor) -> st.CreateIncrementalTableStatement:
    """The statement; `CREATE INCREMENTAL TABLE` has been read. Raises SqlSyntaxError."""
    if_not_exists = parser.skip("IF", "NOT", "EXISTS")
    start = _offset(parser)
    table = parser.table_name()
    name = parser.text[start : _offset(parser)].strip()
    key: tuple[str, ...] = ()
    ordering = None
    clauses: list[str] = []
    while not parser.is_at_end and parser.word() != "AS":
        start = _offset(parser)
        if parser.skip("KEY"):
            key = parser.bracketed_names()
        elif parser.skip("ORDERING"):
            ordering = parser.name_part()
        elif parser.word() in _CLAUSES:
            parser.at += 1
            while not (parser.is_at_end or parser.word() in _CLAUSES | {"AS", "KEY", "ORDERING"}):
                if parser.word() == "(":
                    parser.skip_brackets()
                else:
                    parser.at += 1
            clauses.append(parser.text[start : _offset(parser)])
        else:
            parser.fail("KEY, ORDERING, PARTITIONED BY, TBLPROPERTIES, LOCATION, COMMENT or AS is expected")
    query_start = _query_behind_as(parser)
    head = f"CREATE TABLE {'IF NOT EXISTS ' if if_not_exists else ''}{name}\nUSING hudi\n"
    definition = "\n".join([head.rstrip(), *(clause.strip() for clause in clauses)])
    definition += f"\nAS {parser.text[query_start:]}"
    return st.CreateIncrementalTableStatement(
        parser.text, table, if_not_exists, key, ordering, definition, query_start
    )


def read_alter(parser: StatementCursor) -> st.AlterIncrementalTableStatement:
    """The statement; `ALTER INCREMENTAL TABLE` has been read. Raises SqlSyntaxError."""
    table = parser.table_name()
    return st.AlterIncrementalTableStatement(parser.text, table, _query_behind_as(parser))


def read_refresh(parser: StatementCursor) -> st.RefreshIncrementalTableStatement:
    """The statement; `REFRESH INCREMENTAL TABLE` has been read. Raises SqlSyntaxError."""
    table = parser.table_name()
    full = parser.skip("FULL")
    until = None
    if parser.skip("UP", "TO"):
        token = parser.peek()
        if token is None or not (token.kind == "string" or token.text.isdigit()):
            parser.fail("an instant time is missing after UP TO")

        until = token.text.strip("'\"")
        parser.at += 1
    parser.expect_end()
    return st.RefreshIncrementalTableStatement(parser.text, table, full, until)


def _offset(parser: StatementCursor) -> int:
    token = parser.peek()
    return len(parser.text) if token is None else token.start


def _query_behind_as(parser: StatementCursor) -> int:
    parser.expect("AS")
    if parser.is_at_end:
        parser.fail("a query is missing after AS")
    return _offset(parser)
