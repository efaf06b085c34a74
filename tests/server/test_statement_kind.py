"""What a statement gives, said before it runs."""

from __future__ import annotations

import pytest

from hudisql.server.operation import StatementKind, statement_kind


@pytest.mark.parametrize(
    ("kind", "statements"),
    [
        (
            StatementKind.CHANGE,
            (
                "INSERT INTO t VALUES (1)",
                "WITH s AS (SELECT 1 id) INSERT INTO t SELECT * FROM s",
                "FROM s INSERT INTO t SELECT * INSERT INTO u SELECT *",
                "INSERT OVERWRITE DIRECTORY '/d' USING parquet SELECT 1",
                "UPDATE t SET a = 1",
                "DELETE FROM t",
                "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE",
                "CREATE TABLE t USING hudi AS SELECT 1 id",
                "REFRESH INCREMENTAL TABLE t",
            ),
        ),
        (
            StatementKind.COMMAND,
            ("CREATE TABLE t (id INT)", "DROP TABLE t", "USE d", "TRUNCATE TABLE t", "CREATE DATABASE d"),
        ),
        (
            StatementKind.QUERY,
            ("SELECT 1", "SHOW TABLES", "DESCRIBE t", "CALL help()", "SET a=1", "EXPLAIN SELECT 1", "SELEC"),
        ),
    ],
)
def test_statements_are_queries_commands_or_changes(kind: StatementKind, statements: tuple[str, ...]) -> None:
    assert {statement: statement_kind(statement) for statement in statements} == dict.fromkeys(
        statements, kind
    )
