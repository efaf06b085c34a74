"""Dispatches the text of one statement, importing and starting only what the statement needs.

A text whose first word Spark cannot parse is refused before Spark starts, CALL needs only what its procedure
uses, SHOW and DESCRIBE the metastore and the Hudi table, a query that names no table needs no catalog.
Everything else is passed to the executor.
"""

from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from hudisql.errors import SqlSyntaxError
from hudisql.sql.text import statements as st
from hudisql.sql.text.parser import parse_statement
from hudisql.sql.text.script import marked_line, position_at
from hudisql.sql.text.spark_errors import SourceText, translated_spark_errors
from hudisql.sql.text.tokens import Token

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.result import Result

STATEMENT_HEADS: Final = frozenset(
    {
        *("ADD", "ALTER", "ANALYZE", "BEGIN", "CACHE", "CALL", "CLEAR", "CLOSE", "COMMENT", "COMMIT"),
        *("CREATE", "DECLARE", "DELETE", "DESC", "DESCRIBE", "DFS", "DROP", "EXECUTE", "EXPLAIN", "EXPORT"),
        *("FETCH", "FROM", "GRANT", "IMPORT", "INSERT", "LIST", "LOAD", "LOCK", "MAP", "MERGE", "MSCK"),
        *("OPEN", "REDUCE", "REFRESH", "REPAIR", "REPLACE", "RESET", "REVOKE", "ROLLBACK", "SELECT", "SET"),
        *("SHOW", "START", "TABLE", "TRUNCATE", "UNCACHE", "UNLOCK", "UPDATE", "USE", "VALUES", "WITH"),
    }
)
"""The words that a statement of Spark 4's grammar (`SqlBaseParser.g4`) can begin with."""
_EXTENSIONS: Final = "spark.sql.extensions"
# What SHOW lists.
_SHOWN: Final = frozenset({"TABLES", "DATABASES", "SCHEMAS", "VIEWS", "FUNCTIONS", "PARTITIONS", "COLUMNS"})
# Words of a query without tables, and functions that need no catalog.
_WORDS_WITHOUT_NAMES: Final = frozenset(
    {
        *("SELECT", "VALUES", "DISTINCT", "AS", "AND", "OR", "NOT", "NULL", "TRUE", "FALSE", "IS", "IN"),
        *("BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE", "END", "DATE", "TIMESTAMP", "CURRENT_DATE"),
        *("CURRENT_TIMESTAMP", "NOW", "VERSION"),
    }
)
_MARKS_WITHOUT_NAMES: Final = frozenset("(),+-*/%<>=!|")


def execute(context: Context, text: str, *, line: int = 1, column: int = 1) -> Result:
    """Run one statement; `line` and `column` say where it starts in its script.

    Raises SqlSyntaxError, UnsupportedStatementError, QueryError.
    """
    statement = parse_statement(text, line=line, column=column)
    source = SourceText(statement.text, line, column)
    if isinstance(statement, st.CallStatement):
        from hudisql.sql.procedure_call import call_procedure

        with translated_spark_errors(source):
            return call_procedure(context, statement)
    if isinstance(statement, st.PassThroughStatement) and not _may_know_other_statements(context):
        check_head(statement, line=line, column=column)
        from hudisql.sql.catalog_names import list_names

        if (listed := list_names(context, statement.text)) is not None:
            return listed
    if isinstance(statement, st.ABOUT_A_TABLE):
        from hudisql.sql.about_table import answer_about_table

        with translated_spark_errors(source):
            if (answer := answer_about_table(context, statement)) is not None:
                return answer
    if isinstance(statement, st.QueryStatement) and names_nothing(statement):
        context = context.without_catalog()
    with _importing_executor() if context.started_spark is None else nullcontext():
        context.start()
    from hudisql.sql.executor import execute_placed

    try:
        return execute_placed(context, statement, source)
    except SqlSyntaxError as error:
        if (head := unknown_head(statement.tokens)) is not None:
            error.hint = error.hint or _meant(head)
        raise


@contextmanager
def _importing_executor() -> Iterator[None]:
    """Import the executor during the block, which starts Spark: this process then waits most of the time."""

    def work() -> None:
        import hudisql.sql.executor  # noqa: F401

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def check_head(statement: st.Statement, *, line: int = 1, column: int = 1) -> None:
    """Raise SqlSyntaxError, as Spark's parser does, if no statement begins with the first word."""
    head = unknown_head(statement.tokens)
    if head is not None:
        text = statement.text
        at_line, at_column = position_at(text, head.start, line, column)
        raise SqlSyntaxError(
            f"[PARSE_SYNTAX_ERROR] Syntax error at or near '{head.text}'.\n"
            f"line {at_line}, column {at_column}:\n"
            f"{marked_line(text, head.start, len(head.text))}",
            hint=_meant(head),
        )


def unknown_head(tokens: Sequence[Token]) -> Token | None:
    """The first word if no statement begins with it."""
    if not tokens or tokens[0].kind != "word" or _is_label(tokens):
        return None
    head = tokens[0]
    return head if head.text.isidentifier() and head.text.upper() not in STATEMENT_HEADS else None


def _meant(head: Token) -> str | None:
    """What was probably meant by a first word that begins no statement."""
    word = head.text.upper()
    if word in _SHOWN:
        return f"did you mean SHOW {word}?"
    near = difflib.get_close_matches(word, sorted(STATEMENT_HEADS), n=1, cutoff=0.7)
    return f"did you mean {near[0]}?" if near else None


def names_nothing(query: st.Statement) -> bool:
    """True if a query consists of literals and operators only, so that it needs no catalog."""
    return all(
        token.kind == "string"
        or (token.kind == "word" and (token.text[0].isdigit() or token.text.upper() in _WORDS_WITHOUT_NAMES))
        or (token.kind == "mark" and (token.text in _MARKS_WITHOUT_NAMES or token.text[-1:].isdigit()))
        for token in _without_aliases(query.tokens)
    )


def _without_aliases(tokens: Sequence[Token]) -> list[Token]:
    """The tokens without names after AS."""
    behind_as = [False, *(before.is_keyword("AS") for before in tokens)]
    return [token for token, named in zip(tokens, behind_as, strict=False) if not (named and token.is_name)]


def _is_label(tokens: Sequence[Token]) -> bool:
    return len(tokens) > 1 and tokens[1].text == ":"


def _may_know_other_statements(context: Context) -> bool:
    """True if Spark runs: it then reports the error itself, or may have a parser with more statements."""
    return context.started_spark is not None or may_have_extensions(context)


def may_have_extensions(context: Context) -> bool:
    """True if Spark's parser may be extended by statements of others."""
    spark = context.started_spark
    if spark is not None:
        return spark.conf.get(_EXTENSIONS, None) is not None
    return _EXTENSIONS in context.settings.conf or any(
        name in os.environ for name in ("SPARK_CONF_DIR", "SPARK_HOME")
    )
