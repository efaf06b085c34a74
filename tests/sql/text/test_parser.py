"""What kind of statement a text is, which table it targets, and how errors show their place."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from hudisql.errors import SqlSyntaxError
from hudisql.sql.text import statements as st
from hudisql.sql.text.parser import parse_statement
from hudisql.sql.text.tokens import tokenize


def value_of(literal: str) -> Any:
    statement = parse_statement(f"CALL p(x => {literal})")
    assert isinstance(statement, st.CallStatement)
    return dict(statement.named)["x"]


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("'it\\'s'", "it's"),
        ('"double"', "double"),
        (r"r'a\b'", "a\\b"),
        ("1", 1),
        ("-1", -1),
        ("10L", 10),
        ("1.50", Decimal("1.50")),
        ("-1e3", -1000.0),
        ("TRUE", True),
        ("null", None),
        ("array('a', 'b')", ["a", "b"]),
        ("array()", []),
        ("map('k', 1, 'l', NULL)", {"k": 1, "l": None}),
        ("map()", {}),
        ("cast('12' AS int)", 12),
        ("cast(NULL AS bigint)", None),
        ("cast(1 AS string)", "1"),
        ("cast('1.25' AS decimal(10,2))", Decimal("1.25")),
        ("cast('yes' AS boolean)", True),
        ("DATE '2024-03-01'", datetime.date(2024, 3, 1)),
        ("TIMESTAMP '2024-03-01 10:00:00'", datetime.datetime(2024, 3, 1, 10)),
        ("INTERVAL 7 DAYS", datetime.timedelta(days=7)),
        ("INTERVAL '1.5' HOUR", datetime.timedelta(hours=1.5)),
        ("-INTERVAL 3 MINUTES", datetime.timedelta(minutes=-3)),
        ("INTERVAL '1 02:03:04.5' DAY TO SECOND", datetime.timedelta(days=1, seconds=7384.5)),
        ("(2)", 2),
    ],
)
def test_a_constant_argument_becomes_its_value(literal: str, value: object) -> None:
    found = value_of(literal)
    assert found == value
    assert type(found) is type(value)


def test_call_keeps_order_names_and_namespace() -> None:
    statement = parse_statement("call system.Run_It('a', 2, `rowKey_field` => 'id', table => 'db.t') ;")
    assert isinstance(statement, st.CallStatement)
    assert statement.procedure == "system.Run_It"
    assert statement.positional == ("a", 2)
    assert statement.named == (("rowKey_field", "id"), ("table", "db.t"))
    assert parse_statement("CALL p()") == st.CallStatement("CALL p()", "p", span=(0, 8))
    assert parse_statement("call p;") == st.CallStatement("call p", "p", span=(0, 6))


@pytest.mark.parametrize(
    ("text", "procedure", "named"),
    [
        ("run compaction on db.t", "run_compaction", {"table": "`db`.`t`", "op": "run"}),
        (
            "RUN COMPACTION ON '/a b' AT 20240301000000000",
            "run_compaction",
            {"path": "/a b", "op": "run", "timestamp": 20240301000000000},
        ),
        ("Schedule Compaction On `a``b`", "run_compaction", {"table": "`a``b`", "op": "schedule"}),
        ("SHOW COMPACTION ON t", "show_compaction", {"table": "`t`"}),
        ('show compaction on "/p" limit 2;', "show_compaction", {"path": "/p", "limit": 2}),
        ("SHOW INDEXES IN TABLE db.t", "show_indexes", {"table": "`db`.`t`"}),
        (
            "create index if not exists `record_index` on table db.t (a, `b c`);",
            "create_index",
            {
                "table": "`db`.`t`",
                "index": "record_index",
                "indexed_columns": ("a", "b c"),
                "if_not_exists": True,
            },
        ),
        (
            "CREATE INDEX record_index ON t(a)",
            "create_index",
            {"table": "`t`", "index": "record_index", "indexed_columns": ("a",), "if_not_exists": False},
        ),
        (
            "CREATE INDEX i ON t USING column_stats(a) OPTIONS (expr = 'from_unixtime', 'format'='yyyy/MM')",
            "create_index",
            {
                "table": "`t`",
                "index": "i",
                "indexed_columns": ("a",),
                "if_not_exists": False,
                "expression": {"expr": "from_unixtime", "format": "yyyy/MM"},
            },
        ),
        ("DROP INDEX i ON t", "drop_index", {"table": "`t`", "index": "i", "if_exists": False}),
        ("DROP INDEX IF EXISTS i ON t", "drop_index", {"table": "`t`", "index": "i", "if_exists": True}),
        ("REFRESH INDEX i ON a.t", "refresh_index", {"table": "`a`.`t`", "index": "i"}),
    ],
)
def test_a_statement_about_compactions_or_indexes_is_a_call(
    text: str, procedure: str, named: dict[str, object]
) -> None:
    statement = parse_statement(text)
    assert isinstance(statement, st.CallStatement)
    assert (statement.procedure, statement.positional) == (procedure, ())
    assert dict(statement.named) == named


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("RUN COMPACTION t", "ON is missing"),
        ("SCHEDULE COMPACTION ON", "a name is missing"),
        ("SHOW COMPACTION ON t LIMIT many", "a whole number is missing"),
        ("SHOW COMPACTION ON t AT 1", "this is not expected here"),
        ("RUN COMPACTION ON t LIMIT 1", "this is not expected here"),
        ("CREATE INDEX i ON t", "missing"),
        ("CREATE INDEX i (a) ON t", "ON is missing"),
        ("DROP INDEX i", "ON is missing"),
    ],
)
def test_a_bad_statement_about_compactions_or_indexes_says_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(SqlSyntaxError, match=problem):
        parse_statement(text)


@pytest.mark.parametrize("text", ["RUN IT", "SCHEDULE t", "SHOW COMPACTIONS"])
def test_other_statements_with_these_words_are_left_to_spark(text: str) -> None:
    assert isinstance(parse_statement(text), st.PassThroughStatement)


@pytest.mark.parametrize(
    ("text", "kind", "table"),
    [
        ("SHOW PARTITIONS db.t", st.ShowPartitionsStatement, "db.t"),
        ("show create table `db`.`t`", st.ShowCreateTableStatement, "db.t"),
        ("SHOW COLUMNS IN t FROM db", st.ShowColumnsStatement, "db.t"),
        ("MSCK REPAIR TABLE db.t", st.MsckRepairStatement, "db.t"),
        ("repair table t sync partitions", st.MsckRepairStatement, "t"),
        ("DESCRIBE db.t", st.DescribeStatement, "db.t"),
        ("desc table extended db.t", st.DescribeStatement, "db.t"),
        ("DROP TABLE IF EXISTS db.t", st.DropTableStatement, "db.t"),
        ("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1", st.CreateViewStatement, "v"),
        ("alter view v as select 1", st.CreateViewStatement, "v"),
        ("CREATE TABLE t (a int COMMENT 'as select') USING parquet", st.CreateTableStatement, "t"),
        ("CREATE TABLE t AS SELECT 1", st.CreateTableAsStatement, "t"),
        ("create table t using parquet as with a as (select 1) table a", st.CreateTableAsStatement, "t"),
        ("INSERT INTO db.t VALUES (1)", st.InsertStatement, "db.t"),
        ("insert overwrite table t partition (a=1) select 1", st.InsertStatement, "t"),
        ("WITH a AS (SELECT 1), b(x) AS (SELECT ')') INSERT INTO t TABLE a", st.InsertStatement, "t"),
        ("UPDATE `db`.`t t` SET a = 1", st.UpdateStatement, "db.t t"),
        ("DELETE FROM t WHERE a = 1", st.DeleteStatement, "t"),
        (
            "MERGE INTO IDENTIFIER('db.t') USING s ON a = b WHEN MATCHED THEN DELETE",
            st.MergeStatement,
            "db.t",
        ),
        ("WITH s AS (SELECT 1 a) DELETE FROM t", st.DeleteStatement, "t"),
        ("TRUNCATE TABLE t", st.TruncateStatement, "t"),
        ("COMMENT ON TABLE db.t IS 'x'", st.CommentOnStatement, "db.t"),
        ("COMMENT ON COLUMN db.t.c IS NULL", st.CommentOnStatement, "db.t"),
        ("CREATE TABLE IF NOT EXISTS t (a int) USING hudi", st.CreateTableStatement, "t"),
        ("ALTER TABLE db.t RENAME TO u", st.AlterTableStatement, "db.t"),
        ("CACHE LAZY TABLE t", st.CacheTableStatement, "t"),
        ("UNCACHE TABLE IF EXISTS t", st.UncacheTableStatement, "t"),
        ("REFRESH t", st.RefreshTableStatement, "t"),
    ],
)
def test_a_statement_about_a_table_names_it(text: str, kind: type[st.TableStatement], table: str) -> None:
    statement = parse_statement(text)
    assert type(statement) is kind
    assert str(statement.table) == table
    assert statement.text == text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "(SELECT 1) UNION SELECT 2",
        "WITH a AS (SELECT 1) SELECT insert FROM a",
        "with recursive a(n) as (select 1 union all select n + 1 from a) select * from a",
        "FROM t SELECT a",
        "FROM t |> WHERE a > 1",
        "VALUES (1)",
        "TABLE t",
        "SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))",
        "-- note\nSELECT 'INSERT INTO t'",
    ],
)
def test_queries_are_queries_also_where_sqlglot_cannot_parse_them(text: str) -> None:
    assert type(parse_statement(text)) is st.QueryStatement


@pytest.mark.parametrize(
    "text",
    ["SET a = b", "SHOW TABLES", "ANALYZE TABLE t COMPUTE STATISTICS", "DROP VIEW v", "DESCRIBE DATABASE d",
     "LOAD DATA INPATH 'x' INTO TABLE t", "CREATE DATABASE d", "ADD JAR x", "COMMENT ON DATABASE d IS 'x'",
     "CREATE TEMPORARY VIEW v USING parquet OPTIONS (path '/x')", "INSERT OVERWRITE DIRECTORY '/x' SELECT 1"],
)  # fmt: skip
def test_what_is_unknown_is_passed_on_under_guard(text: str) -> None:
    assert type(parse_statement(text)) is st.PassThroughStatement


def test_details_of_statements() -> None:
    dropped = parse_statement("DROP TABLE t PURGE")
    assert isinstance(dropped, st.DropTableStatement)
    assert dropped.purge
    database = parse_statement("DROP SCHEMA IF EXISTS d CASCADE")
    assert database == st.DropDatabaseStatement("DROP SCHEMA IF EXISTS d CASCADE", "d", True, True)
    partitions = parse_statement("SHOW PARTITIONS t PARTITION (dt = '2024-01-01', h = 1)")
    assert isinstance(partitions, st.ShowPartitionsStatement)
    assert partitions.partition == {"dt": "2024-01-01", "h": "1"}
    several = parse_statement("FROM s INSERT INTO a SELECT 1 INSERT OVERWRITE TABLE b SELECT 2")
    assert isinstance(several, st.InsertStatement)
    assert [str(each) for each in several.targets] == ["a", "b"]
    assert several.overwrite
    created = parse_statement("CREATE TABLE t (a int) USING HUDI")
    assert isinstance(created, st.CreateTableStatement)
    assert created.provider == "hudi"
    like = parse_statement("CREATE TABLE t LIKE db.u")
    assert isinstance(like, st.CreateTableStatement)
    assert like.like == st.TableName(("db", "u"))
    column = parse_statement("DESCRIBE db.t a.b")
    assert isinstance(column, st.DescribeStatement)
    assert column.column == "a.b"
    query = parse_statement("DESCRIBE QUERY SELECT 1")
    assert query == st.DescribeQueryStatement("DESCRIBE QUERY SELECT 1")


def test_explain_holds_the_explained_statement() -> None:
    statement = parse_statement("EXPLAIN FORMATTED INSERT INTO t SELECT 1")
    assert isinstance(statement, st.ExplainStatement)
    assert statement.mode == "FORMATTED"
    assert statement.explained == st.InsertStatement(
        "INSERT INTO t SELECT 1", st.TableName(("t",)), False, (st.TableName(("t",)),)
    )


def test_statements_that_hold_others_are_told_apart() -> None:
    assert type(parse_statement("EXECUTE IMMEDIATE 'DROP TABLE t'")) is st.ExecuteImmediateStatement
    assert type(parse_statement("begin select 1; drop table t; end;")) is st.BlockStatement


@pytest.mark.parametrize(
    ("text", "problem", "place", "marked"),
    [
        ("CALL p(a => )", "Expected a value", (1, 13), ")"),
        ("CALL p(a => 1 b => 2)", "Expecting )", (1, 15), "b"),
        ("CALL p(a => 1,\n  b => db.t)", "put text in quotes", (2, 8), "db.t"),
        ("CALL p(a => 1 + 1)", "only constants", (1, 13), "1 + 1"),
        ("CALL p(a => cast('x' AS int))", "cannot be cast", (1, 13), "cast('x' AS int)"),
        ("CALL p(a => INTERVAL 1 MONTH)", "only intervals of", (1, 13), "INTERVAL 1 MONTH"),
        ("CALL p a => 1", "Invalid expression", (1, 8), "a"),
        ("CALL p(a => 1, 2)", "cannot follow a named one", (1, 16), "2"),
        ("DROP TABLE", "a name is missing", (1, 11), None),
        ("DROP TABLE t u", "not expected", (1, 14), "u"),
        ("INSERT t SELECT 1", "INTO or OVERWRITE", (1, 8), "t"),
        ("DELETE t", "FROM is missing", (1, 8), "t"),
        ("", "no statement", (1, 1), None),
        ("SELECT 1; SELECT 2", "more than one statement", (1, 11), None),
        ("INSERT INTO 't' SELECT 1", "not a name", (1, 13), "'t'"),
        ("INSERT INTO IDENTIFIER(r'x') SELECT 1", "literal text", (1, 13), "IDENTIFIER"),
        ("INSERT INTO IDENTIFIER(x) SELECT 1", "literal text", (1, 13), "IDENTIFIER"),
    ],
)
def test_errors_give_line_column_and_the_marked_text(
    text: str, problem: str, place: tuple[int, int], marked: str | None
) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_statement(text)
    first, line, carets = caught.value.message.split("\n")
    assert problem in first
    assert first.startswith(f"line {place[0]}, column {place[1]}:")
    if marked is not None:
        start = carets.index("^")
        assert line[start : start + carets.count("^")] == marked


def test_errors_count_from_the_statement_s_place_in_the_script() -> None:
    with pytest.raises(SqlSyntaxError, match=r"^line 11, column 6:"):
        parse_statement("CALL p(\n  a? => 1)", line=10, column=7)
    with pytest.raises(SqlSyntaxError, match=r"^line 10, column 17:"):
        parse_statement("DROP TABLE", line=10, column=7)


@pytest.mark.parametrize(
    "text",
    [
        " SELECT 'a;b' ; ;",
        "-- first\n/* second */ SELECT /*+ BROADCAST(t) */ `x`;",
        "begin select 1; end;",
        "EXPLAIN /* no */ UPDATE t SET a = 1",
    ],
)
def test_a_statement_has_the_tokens_of_its_text(text: str) -> None:
    statement = parse_statement(text)
    assert statement.tokens == tokenize(statement.text)
    if isinstance(statement, st.ExplainStatement):
        assert statement.explained.tokens == tokenize(statement.explained.text)
