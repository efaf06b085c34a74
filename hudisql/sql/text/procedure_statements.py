"""Statements of Hudi that are other forms of CALL: of compactions and of indexes.

Follows `compactionStatement`, `createIndex`, `dropIndex`, `showIndexes` and `refreshIndex` of Hudi's grammar
(HoodieSqlCommon). Knows neither tables nor procedures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from hudisql.errors import UnsupportedStatementError
from hudisql.sql.text import statements as st
from hudisql.sql.text.statement_cursor import StatementCursor

_RECORD_INDEX: Final = "RECORD_INDEX"
_IS_PARTITIONED: Final = "ispartitioned"
_NUMBER: Final = re.compile(r"\d+\.?\d*|\.\d+", re.ASCII)


def is_procedure(cursor: StatementCursor) -> bool:
    """True if the next words begin such a statement."""
    return (cursor.word(), cursor.word(1)) in _READERS


def read_procedure(cursor: StatementCursor) -> st.CallStatement:
    """The call that the statement means.

    Raises SqlSyntaxError, UnsupportedStatementError for kinds of indexes that hudisql does not make.
    """
    head = (cursor.word(), cursor.word(1))
    cursor.skip(*head)
    procedure, arguments = _READERS[head](cursor)
    cursor.expect_end()
    span = (cursor.tokens[0].start, cursor.tokens[-1].end)
    return st.CallStatement(cursor.text, procedure, (), tuple(arguments.items()), span)


_Call = tuple[str, Mapping[str, object]]


def _run_compaction(cursor: StatementCursor) -> _Call:
    return _compaction(cursor, "run")


def _schedule_compaction(cursor: StatementCursor) -> _Call:
    return _compaction(cursor, "schedule")


def _compaction(cursor: StatementCursor, operation: str) -> _Call:
    cursor.expect("ON")
    arguments = {**_target(cursor), "op": operation}
    if cursor.skip("AT"):
        arguments["timestamp"] = _integer(cursor)
    return "run_compaction", arguments


def _show_compaction(cursor: StatementCursor) -> _Call:
    cursor.expect("ON")
    arguments = _target(cursor)
    if cursor.skip("LIMIT"):
        arguments["limit"] = _integer(cursor)
    return "show_compaction", arguments


def _show_indexes(cursor: StatementCursor) -> _Call:
    cursor.skip_one_of("FROM", "IN")
    cursor.skip("TABLE")
    return "show_indexes", _target(cursor)


def _create_index(cursor: StatementCursor) -> _Call:
    if_not_exists = cursor.skip("IF", "NOT", "EXISTS")
    arguments = _index(cursor)
    kind = cursor.name_part().upper() if cursor.skip("USING") else ""
    if kind not in ("", "SECONDARY_INDEX", "COLUMN_STATS", _RECORD_INDEX):
        raise UnsupportedStatementError(
            f"hudisql makes no index of the kind {kind.lower()} by CREATE INDEX",
            hint="USING column_stats makes indexes of expressions; Apache Hudi makes bloom filters",
        )
    if kind == _RECORD_INDEX and str(arguments["index"]).upper() != _RECORD_INDEX:
        raise UnsupportedStatementError(
            f"an index USING record_index is called record_index, as in Hudi, not {arguments['index']}"
        )
    arguments |= {"indexed_columns": _columns(cursor), "if_not_exists": if_not_exists}
    options = _options(cursor) if cursor.skip("OPTIONS") else {}
    if kind == "COLUMN_STATS" and "expr" not in options:
        raise UnsupportedStatementError(
            "an index USING column_stats needs OPTIONS (expr = '…'), as in Hudi",
            hint="CALL create_metadata_table makes the statistics of columns themselves",
        )
    if kind == "COLUMN_STATS":
        return "create_index", {**arguments, "expression": options}
    if str(arguments["index"]).upper() == _RECORD_INDEX and _IS_PARTITIONED in options:
        arguments["is_partitioned"] = options.pop(_IS_PARTITIONED).lower() == "true"
    if options:
        raise UnsupportedStatementError(
            f"CREATE INDEX {arguments['index']} does not take the option {next(iter(options))}: indexes of "
            "expressions have OPTIONS, and record_index has isPartitioned",
            hint="leave it out, or write USING column_stats before the column",
        )
    return "create_index", arguments


def _columns(cursor: StatementCursor) -> tuple[str, ...]:
    """The columns in brackets, members of structs with dots. Raises UnsupportedStatementError for options."""
    cursor.expect("(")
    names: list[str] = []
    while not names or cursor.skip(","):
        names.append(".".join(cursor.table_name().parts))
        if cursor.skip("OPTIONS"):
            raise UnsupportedStatementError(
                f"CREATE INDEX: the column {names[-1]} has OPTIONS, which have no effect in Hudi",
                hint="OPTIONS of the index stand behind the columns",
            )
    cursor.expect(")")
    return tuple(names)


def _options(cursor: StatementCursor) -> dict[str, str]:
    """The options in brackets, `key = value`; the keys in lower-case letters, as Hudi has them.

    A key is a text or a name with dots, a value a text, a number, TRUE or FALSE.
    """
    cursor.expect("(")
    options: dict[str, str] = {}
    while not options or cursor.skip(","):
        token = cursor.peek()
        is_text = token is not None and token.kind == "string"
        key = (_value(cursor) if is_text else ".".join(cursor.table_name().parts)).lower()
        cursor.skip("=")
        if key in options:
            cursor.fail(f"the option {key} stands twice")
        options[key] = _value(cursor)
    cursor.expect(")")
    return options


def _value(cursor: StatementCursor) -> str:
    token = cursor.peek()
    if token is not None and token.kind == "string":
        cursor.at += 1
        return token.text[1:-1]
    word = cursor.word()
    if word not in ("TRUE", "FALSE") and not _NUMBER.fullmatch(word):
        cursor.fail("a text, a number, TRUE or FALSE is missing")
    cursor.at += 1
    return word.lower()


def _drop_index(cursor: StatementCursor) -> _Call:
    if_exists = cursor.skip("IF", "EXISTS")
    return "drop_index", {**_index(cursor), "if_exists": if_exists}


def _refresh_index(cursor: StatementCursor) -> _Call:
    return "refresh_index", _index(cursor)


def _index(cursor: StatementCursor) -> dict[str, object]:
    """The name of an index and, behind ON, that of its table."""
    index = cursor.name_part()
    cursor.expect("ON")
    cursor.skip("TABLE")
    return {"table": _table(cursor), "index": index}


def _target(cursor: StatementCursor) -> dict[str, object]:
    """The argument `path` for a string, else `table`."""
    token = cursor.peek()
    if token is not None and token.kind == "string":
        cursor.at += 1
        return {"path": token.text[1:-1]}
    return {"table": _table(cursor)}


def _table(cursor: StatementCursor) -> str:
    return cursor.table_name().quoted


def _integer(cursor: StatementCursor) -> int:
    word = cursor.word()
    if not (word.isascii() and word.isdigit()):
        cursor.fail("a whole number is missing")
    cursor.at += 1
    return int(word)


_READERS: Final[Mapping[tuple[str, str], Callable[[StatementCursor], _Call]]] = {
    ("RUN", "COMPACTION"): _run_compaction,
    ("SCHEDULE", "COMPACTION"): _schedule_compaction,
    ("SHOW", "COMPACTION"): _show_compaction,
    ("SHOW", "INDEXES"): _show_indexes,
    ("CREATE", "INDEX"): _create_index,
    ("DROP", "INDEX"): _drop_index,
    ("REFRESH", "INDEX"): _refresh_index,
}
