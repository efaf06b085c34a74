"""Statements of Hudi that are other forms of CALL: RUN, SCHEDULE and SHOW COMPACTION ON, SHOW INDEXES.

Follows `compactionStatement` and `showIndexes` of Hudi's grammar (HoodieSqlCommon). Knows neither tables nor
procedures.
"""

from __future__ import annotations

from collections.abc import Sequence

from hudisql.sql.text import statements as st
from hudisql.sql.text.statement_cursor import StatementCursor

COMPACTION_HEADS = ("RUN", "SCHEDULE", "SHOW")


def is_procedure(cursor: StatementCursor) -> bool:
    """True if the next words are SHOW INDEXES, or RUN, SCHEDULE or SHOW, and COMPACTION."""
    word, following = cursor.word(), cursor.word(1)
    return (word, following) == ("SHOW", "INDEXES") or (
        word in COMPACTION_HEADS and following == "COMPACTION"
    )


def read_procedure(cursor: StatementCursor) -> st.CallStatement:
    """The call that the statement means. Raises SqlSyntaxError."""
    if cursor.skip("SHOW", "INDEXES"):
        return _read_show_indexes(cursor)
    operation = cursor.skip_one_of(*COMPACTION_HEADS)
    cursor.expect("COMPACTION")
    cursor.expect("ON")
    arguments: list[tuple[str, object]] = [_target(cursor)]
    if operation == "SHOW":
        if cursor.skip("LIMIT"):
            arguments.append(("limit", _integer(cursor)))
    else:
        arguments.append(("op", operation.lower()))
        if cursor.skip("AT"):
            arguments.append(("timestamp", _integer(cursor)))
    cursor.expect_end()
    return _call(cursor, "show_compaction" if operation == "SHOW" else "run_compaction", arguments)


def _read_show_indexes(cursor: StatementCursor) -> st.CallStatement:
    cursor.skip_one_of("FROM", "IN")
    cursor.skip("TABLE")
    arguments = [_target(cursor)]
    cursor.expect_end()
    return _call(cursor, "show_indexes", arguments)


def _call(
    cursor: StatementCursor, procedure: str, arguments: Sequence[tuple[str, object]]
) -> st.CallStatement:
    span = (cursor.tokens[0].start, cursor.tokens[-1].end)
    return st.CallStatement(cursor.text, procedure, (), tuple(arguments), span)


def _target(cursor: StatementCursor) -> tuple[str, object]:
    """The argument `path` for a string, else `table`."""
    token = cursor.peek()
    if token is not None and token.kind == "string":
        cursor.at += 1
        return "path", token.text[1:-1]
    parts = (part.replace("`", "``") for part in cursor.table_name().parts)
    return "table", ".".join(f"`{part}`" for part in parts)


def _integer(cursor: StatementCursor) -> int:
    word = cursor.word()
    if not (word.isascii() and word.isdigit()):
        cursor.fail("a whole number is missing")
    cursor.at += 1
    return int(word)
