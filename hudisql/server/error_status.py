"""Maps errors to what clients of HiveServer2 expect: SQLSTATE, Hive's error code, and Hive's words.

Codes and words are those of Hive's `ErrorMsg`. PyHive's SQLAlchemy dialect recognizes a missing table by
`SemanticException … Table not found <name>`, dbt-spark by Spark's own words: the message has both.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hudisql.errors import (
    AuthenticationError,
    HudisqlError,
    NoSuchDatabaseError,
    NoSuchTableError,
    RightMissingError,
    SqlSyntaxError,
    StatementCancelledError,
    TableExistsError,
)

_GENERAL: Final = "HY000"
# SQLSTATEs of Spark for which ODBC and JDBC use others: no such table, table exists, syntax.
_ODBC_STATES: Final = {"42P01": "42S02", "42P07": "42S01", "42601": "42000"}
_STATES: Final[dict[type[HudisqlError], str]] = {
    TableExistsError: "42S01",
    AuthenticationError: "28000",
    RightMissingError: "42501",
    StatementCancelledError: "HY008",
}
_PARSE_ERROR: Final = 40000
_NO_TABLE: Final = 10001
_NO_DATABASE: Final = 10072
# By Spark's error conditions; the name is as the statement has it.
_MISSING: Final = re.compile(
    r"The (?:table or view|view|schema|database) (?P<name>`(?:[^`]|``)*`(?:\.`(?:[^`]|``)*`)*)"
)
# By hudisql's own messages.
_MISSING_HERE: Final = re.compile(
    r"(?:there is|the metastore has) no (?:table|database) '?(?P<name>\w+(?:\.\w+)?)"
)
_CATALOG: Final = "spark_catalog"


@dataclass(frozen=True)
class ErrorStatus:
    """The error fields of a response; `code` is 0 if Hive has no code for it."""

    state: str
    code: int
    message: str


def error_status(error: HudisqlError) -> ErrorStatus:
    """The SQLSTATE, code and message of an error."""
    message = str(error)
    if isinstance(error, SqlSyntaxError):
        return ErrorStatus("42000", _PARSE_ERROR, message)
    if isinstance(error, NoSuchDatabaseError) or _is_of(error, "SCHEMA_NOT_FOUND"):
        words = _with_words(message, _NO_DATABASE, "Database does not exist:")
        return ErrorStatus("42000", _NO_DATABASE, words)
    if isinstance(error, NoSuchTableError) or _is_of(error, "TABLE_OR_VIEW_NOT_FOUND", "VIEW_NOT_FOUND"):
        return ErrorStatus("42S02", _NO_TABLE, _with_words(message, _NO_TABLE, "Table not found"))
    state = next((state for kind, state in _STATES.items() if isinstance(error, kind)), None)
    return ErrorStatus(state or _state_of_spark(error), 0, message)


def _is_of(error: HudisqlError, *conditions: str) -> bool:
    return error.condition is not None and error.condition.split(".")[0] in conditions


def _with_words(message: str, code: int, words: str) -> str:
    """The message, with Hive's words if it names a missing table or database."""
    missing = _MISSING.search(message)
    if missing is None:
        own = _MISSING_HERE.search(message)
        name = own["name"] if own else None
        return f"{message}\nSemanticException [Error {code}]: {words} {name}" if name else message
    parts = [part.replace("``", "`") for part in re.findall(r"`((?:[^`]|``)*)`", missing["name"])]
    name = ".".join(parts[1:] if len(parts) > 1 and parts[0] == _CATALOG else parts)
    return f"{message}\nSemanticException [Error {code}]: {words} {name}"


def _state_of_spark(error: HudisqlError) -> str:
    state_of = getattr(error.__cause__, "getSqlState", None)
    state = None
    if state_of is not None:
        # The JVM is asked for it, which may be gone.
        with suppress(Exception):
            state = state_of()
    return _ODBC_STATES.get(state, state) if state else _GENERAL
