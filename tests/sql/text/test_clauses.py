"""Clauses of changing statements, read from their text."""

from __future__ import annotations

import pytest

from hudisql.errors import SqlSyntaxError
from hudisql.sql.text.clauses import read_delete, read_insert, read_merge, read_update
from hudisql.sql.text.statements import Statement


def test_delete_and_update_have_a_target_an_alias_and_a_condition() -> None:
    deleted = read_delete(Statement("DELETE FROM `a b`.t AS x WHERE x.c = 'WHERE' -- no\n"))
    assert (deleted.target.name.text, deleted.target.alias) == ("`a b`.t", "x")
    assert deleted.condition is not None
    assert deleted.condition.text == "x.c = 'WHERE'"
    text = "UPDATE t x SET a.b = CASE WHEN c THEN f(1, 2) ELSE (SELECT 1, 2) END, `d` = 3 WHERE e"
    updated = read_update(Statement(text))
    assert [(each.column, each.value.text) for each in updated.assignments] == [
        (("a", "b"), "CASE WHEN c THEN f(1, 2) ELSE (SELECT 1, 2) END"),
        (("d",), "3"),
    ]
    assert updated.condition is not None
    assert text[updated.condition.start :] == "e"
    assert read_update(Statement("UPDATE t SET a = 1")).condition is None


def test_insert_has_partition_columns_and_a_query() -> None:
    text = "WITH q AS (SELECT 1) INSERT OVERWRITE TABLE a.t PARTITION (d = 'x', e) (b, `c d`) TABLE q"
    found = read_insert(Statement(text))
    assert found.prefix is not None
    assert (found.prefix.text, found.overwrite) == ("WITH q AS (SELECT 1)", True)
    assert [(name, value and value.text) for name, value in found.partition] == [("d", "'x'"), ("e", None)]
    assert (found.columns, found.query.text) == (("b", "c d"), "TABLE q")
    assert read_insert(Statement("INSERT INTO t (SELECT a, b FROM s)")).columns is None
    assert read_insert(Statement("INSERT INTO t BY NAME SELECT 1 AS a")).by_name
    assert read_insert(Statement("INSERT INTO t (a) VALUES (1)")).query.text == "VALUES (1)"


def test_merge_has_its_clauses_in_order() -> None:
    text = (
        "MERGE INTO db.t USING (SELECT 1 AS id) AS s(id) ON t.id = s.id AND CASE WHEN a THEN b END "
        "WHEN MATCHED AND s.x IN (SELECT 1) THEN UPDATE SET a = CASE WHEN q THEN 1 END, b.c = s.b "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY TARGET THEN INSERT (a, b) VALUES (f(1, 2), s.b) "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND z THEN UPDATE SET a = 0"
    )
    found = read_merge(Statement(text))
    assert (found.source.text, found.source_alias) == ("(SELECT 1 AS id)", "s")
    assert found.column_names is not None
    assert found.condition.text == "t.id = s.id AND CASE WHEN a THEN b END"
    assert [(each.matched, each.verb, each.assignments is None) for each in found.actions] == [
        ("matched", "UPDATE", False),
        ("matched", "DELETE", True),
        ("not_matched", "INSERT", False),
        ("not_matched", "INSERT", True),
        ("not_matched_by_source", "UPDATE", False),
    ]
    first = found.actions[0].assignments
    assert first is not None
    assert first[0].value.text == "CASE WHEN q THEN 1 END"


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (read_delete, "DELETE FROM", "a name is missing"),
        (read_delete, "DELETE FROM t x y", "not expected"),
        (read_update, "UPDATE t SET a = 1, WHERE b", "= is missing"),
        (read_update, "UPDATE t SET = 1", "a name is missing"),
        (read_insert, "INSERT INTO t PARTITION (a = 1) IF NOT EXISTS SELECT 1", "IF NOT EXISTS"),
        (read_insert, "INSERT INTO t", "an expression is missing"),
        (read_merge, "MERGE INTO t USING s ON a WHEN MATCHED THEN MERGE", "UPDATE, DELETE or INSERT"),
        (read_merge, "MERGE INTO t USING (s ON a", "not closed"),
        (read_merge, "MERGE INTO t USING s ON a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)", "2 columns"),
        (read_merge, "MERGE INTO t USING s ON a WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "source row"),
        (read_merge, "MERGE WITH SCHEMA INTO t USING s ON a WHEN MATCHED THEN DELETE", "INTO is missing"),
    ],
)  # fmt: skip
def test_a_clause_that_is_wrong_is_marked_where_it_stands(read: object, text: str, said: str) -> None:
    with pytest.raises(SqlSyntaxError, match=said) as caught:
        read(Statement(text), line=3, column=5)  # type: ignore[operator]
    assert "line 3" in str(caught.value)
