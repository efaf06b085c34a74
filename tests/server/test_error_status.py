"""Errors as clients know them: state, Hive's number, and the words that they look for."""

from __future__ import annotations

import pytest

from hudisql.errors import (
    AuthenticationError,
    HudisqlError,
    NoSuchDatabaseError,
    NoSuchTableError,
    QueryError,
    SqlSyntaxError,
    StatementCancelledError,
    TableExistsError,
)
from hudisql.server.error_status import error_status

TABLE = "The table or view {} cannot be found. Verify the spelling"


def refused(condition: str, message: str) -> QueryError:
    error = QueryError(f"[{condition}] {message}")
    error.condition = condition
    return error


def caused(state: str | None) -> HudisqlError:
    error = HudisqlError("failed")
    error.__cause__ = Exception()
    error.__cause__.getSqlState = lambda: state  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("error", "state", "code"),
    [
        (SqlSyntaxError("x"), "42000", 40000),
        (NoSuchTableError("x"), "42S02", 10001),
        (NoSuchDatabaseError("x"), "42000", 10072),
        (TableExistsError("x"), "42S01", 0),
        (AuthenticationError("x"), "28000", 0),
        (StatementCancelledError("x"), "HY008", 0),
        (HudisqlError("failed"), "HY000", 0),
        (caused(None), "HY000", 0),
        (caused("42P01"), "42S02", 0),
        (caused("42P07"), "42S01", 0),
        (caused("22012"), "22012", 0),
    ],
)
def test_an_error_has_the_state_and_number_that_clients_know(
    error: HudisqlError, state: str, code: int
) -> None:
    status = error_status(error)
    assert (status.state, status.code, status.message) == (state, code, str(error))


@pytest.mark.parametrize(
    ("condition", "message", "words"),
    [
        ("TABLE_OR_VIEW_NOT_FOUND", TABLE.format("`nope`"), "Table not found nope"),
        ("TABLE_OR_VIEW_NOT_FOUND", TABLE.format("`Gw`.`nope`"), "Table not found Gw.nope"),
        ("TABLE_OR_VIEW_NOT_FOUND", TABLE.format("`spark_catalog`.`gw`.`nope`"), "Table not found gw.nope"),
        ("TABLE_OR_VIEW_NOT_FOUND", TABLE.format("`a``b.c`"), "Table not found a`b.c"),
        ("SCHEMA_NOT_FOUND", "The schema `spark_catalog`.`gw` cannot be", "Database does not exist: gw"),
        ("SCHEMA_NOT_FOUND", "The schema `gw` cannot be", "Database does not exist: gw"),
    ],
)
def test_what_is_missing_is_named_in_hives_words_behind_sparks(
    condition: str, message: str, words: str
) -> None:
    error = refused(condition, message)
    status = error_status(error)
    code = 10072 if condition.startswith("SCHEMA") else 10001
    assert status.message == f"{error}\nSemanticException [Error {code}]: {words}"
    assert (status.state, status.code) == ("42000" if code == 10072 else "42S02", code)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NoSuchTableError("there is no table a.b"), "[Error 10001]: Table not found a.b"),
        (NoSuchDatabaseError("there is no database 'a'"), "[Error 10072]: Database does not exist: a"),
        (
            NoSuchDatabaseError("the metastore has no database a, and more"),
            "[Error 10072]: Database does not exist: a",
        ),
    ],
)
def test_what_hudisql_misses_is_named_in_hives_words(error: HudisqlError, words: str) -> None:
    assert error_status(error).message == f"{error}\nSemanticException {words}"
