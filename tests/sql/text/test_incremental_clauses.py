"""CREATE, ALTER, REFRESH and DROP INCREMENTAL TABLE as typed statements."""

from __future__ import annotations

import pytest

from hudisql.errors import SqlSyntaxError
from hudisql.sql.text import statements as st
from hudisql.sql.text.parser import parse_statement


def test_clauses_of_create_come_in_any_order() -> None:
    text = (
        "CREATE INCREMENTAL TABLE IF NOT EXISTS shop.`paid orders` PARTITIONED BY (day) KEY (`a b`, c) "
        "TBLPROPERTIES ('type' = 'mor (AS)') ORDERING ts COMMENT 'AS is' AS "
        "WITH q AS (SELECT 1) SELECT * FROM q"
    )
    found = parse_statement(text)
    assert isinstance(found, st.CreateIncrementalTableStatement)
    assert (found.table.parts, found.if_not_exists) == (("shop", "paid orders"), True)
    assert (found.key, found.ordering) == (("a b", "c"), "ts")
    assert text[found.query_start :] == "WITH q AS (SELECT 1) SELECT * FROM q"
    assert found.definition == (
        "CREATE TABLE IF NOT EXISTS shop.`paid orders`\nUSING hudi\nPARTITIONED BY (day)\n"
        "TBLPROPERTIES ('type' = 'mor (AS)')\nCOMMENT 'AS is'\nAS WITH q AS (SELECT 1) SELECT * FROM q"
    )


@pytest.mark.parametrize(
    ("text", "full", "until"),
    [
        ("REFRESH INCREMENTAL TABLE t", False, None),
        ("REFRESH INCREMENTAL TABLE t FULL", True, None),
        ("REFRESH INCREMENTAL TABLE t UP TO '20240301120000000'", False, "20240301120000000"),
        ("REFRESH INCREMENTAL TABLE t FULL UP TO 20240301120000000", True, "20240301120000000"),
    ],
)
def test_refresh(text: str, full: bool, until: str | None) -> None:
    found = parse_statement(text)
    assert isinstance(found, st.RefreshIncrementalTableStatement)
    assert (found.full, found.until) == (full, until)
    explained = parse_statement(f"EXPLAIN {text}")
    assert isinstance(explained, st.ExplainStatement)
    assert explained.explained == found


def test_alter_and_drop() -> None:
    altered = parse_statement("ALTER INCREMENTAL TABLE t AS SELECT 1 AS id")
    assert isinstance(altered, st.AlterIncrementalTableStatement)
    assert altered.text[altered.query_start :] == "SELECT 1 AS id"
    assert isinstance(parse_statement("DROP INCREMENTAL TABLE IF EXISTS t"), st.DropTableStatement)
    assert isinstance(parse_statement("REFRESH TABLE incremental"), st.RefreshTableStatement)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("CREATE INCREMENTAL TABLE t USING hudi AS SELECT 1", "KEY, ORDERING, PARTITIONED BY"),
        ("CREATE INCREMENTAL TABLE t KEY () AS SELECT 1", "this is not a name"),
        ("CREATE INCREMENTAL TABLE t KEY (id)", "AS is missing"),
        ("CREATE INCREMENTAL TABLE t AS", "a query is missing"),
        ("REFRESH INCREMENTAL TABLE t UP TO", "an instant time is missing"),
        ("REFRESH INCREMENTAL TABLE t WHOLE", "not expected here"),
    ],
)
def test_mistakes_are_marked(text: str, problem: str) -> None:
    with pytest.raises(SqlSyntaxError, match=problem):
        parse_statement(text)
