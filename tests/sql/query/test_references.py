"""References are found by Spark's parser, with exact spans, as Spark scopes names."""

from __future__ import annotations

from typing import Any

import pytest

from hudisql.errors import SqlSyntaxError
from hudisql.format.schema.spark_schema import quote_name
from hudisql.sql.query.references import find_qualifiers, find_table_references, parse_plan, replace_spans
from hudisql.sql.text.tokens import tokenize
from tests.spark_versions import needs_spark

pytestmark = pytest.mark.spark


def described(spark: Any, text: str) -> list[tuple[str, str, str, bool]]:
    """(name, the text at its span, form, aliased) of each reference."""
    return [
        (".".join(found.parts), text[slice(*found.span)], found.form, found.aliased)
        for found in find_table_references(spark, text)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select a from db.T x", [("db.T", "db.T", "relation", True)]),
        ("select '😀é' from `d b` . `w``x` -- db.t", [("d b.w`x", "`d b` . `w``x`", "relation", False)]),
        ("TABLE db.t", [("db.t", "TABLE db.t", "table", False)]),
        ("select * from (table /* c */ db.t) as x", [("db.t", "table /* c */ db.t", "table", True)]),
        pytest.param(
            "select * from identifier('db.t') y",
            [("db.t", "identifier('db.t')", "relation", True)],
            marks=needs_spark("4.1", "a parser that evaluates IDENTIFIER of a literal"),
        ),
        (
            "select * from a where x in (select y from b where exists "
            "(select 1 from c where z = (select max(w) from d)))",
            [(name, name, "relation", False) for name in "abcd"],
        ),
        (
            "select (select max(a) from b) from c join d using (x) order by (select 1 from e)",
            [(name, name, "relation", False) for name in "bcde"],
        ),
        (
            "from t insert into a select x insert into b select y where x in (select z from q)",
            [("t", "t", "relation", False), ("q", "q", "relation", False)],
        ),
        ("insert into a select * from t", [("t", "t", "relation", False)]),
        ("create table a as select * from t", [("t", "t", "relation", False)]),
        ("explain extended select * from t", [("t", "t", "relation", False)]),
        ("describe query select * from t", [("t", "t", "relation", False)]),
        ("select * from f(table(t), 1)", [("t", "t", "argument", False)]),
        (
            "select * from t, lateral (select * from u where u.a = t.a) l",
            [("t", "t", "relation", False), ("u", "u", "relation", False)],
        ),
        pytest.param(
            "from t |> where a > 1 |> union all (table u)",
            [("t", "t", "relation", False), ("u", "table u", "table", False)],
            marks=needs_spark("4.0", "FROM t |> …"),
        ),
        ("cache table t", [("t", "t", "subject", False)]),
        (
            "delete from a where x in (select y from t)",
            [("a", "a", "subject", False), ("t", "t", "relation", False)],
        ),
        ("values (1)", []),
    ],
)
def test_each_reference_has_its_name_place_and_form(
    spark: Any, text: str, expected: list[tuple[str, str, str, bool]]
) -> None:
    assert described(spark, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("with t as (select 1) select * from t, T, db.t", ["db.t"]),
        ("with t as (select * from t) select * from t", ["t"]),
        ("with a as (select * from b), b as (select * from a) select * from b", ["b"]),
        pytest.param(
            "with recursive r as (select 1 union all select * from r) select * from r, s",
            ["s"],
            marks=needs_spark("4.0", "recursive CTEs"),
        ),
        ("select * from (with t as (select 1) select * from t) x, t", ["t"]),
        ("with t as (select 1) select * from u where a in (select * from t)", ["u"]),
        ("with t as (select 1) select * from (with t as (select * from t) select * from t) x", []),
    ],
)
def test_a_common_table_expression_hides_a_table_only_in_its_scope(
    spark: Any, text: str, expected: list[str]
) -> None:
    assert [".".join(found.parts) for found in find_table_references(spark, text)] == expected


@pytest.mark.parametrize(
    ("text", "before_alias"),
    [
        ("select * from db.t where a > 1", "select * from db.t"),
        (
            "select * from db.t tablesample (10 percent) where a > 1",
            "select * from db.t tablesample (10 percent)",
        ),
        ("select * from db.t tablesample (5 rows)", "select * from db.t tablesample (5 rows)"),
        ("select * from t pivot (sum(a) for b in (1, 2))", "select * from t"),
        (
            "select * from t timestamp as of '2024-01-01' limit 1",
            "select * from t timestamp as of '2024-01-01'",
        ),
        ("select * from db.t limit 3", "select * from db.t"),
    ],
)
def test_an_alias_goes_behind_the_clauses_that_belong_to_the_name(
    spark: Any, text: str, before_alias: str
) -> None:
    (found,) = find_table_references(spark, text)
    assert text[: found.alias_at] == before_alias
    assert not found.aliased
    parse_plan(
        spark, f"{before_alias} as t{text[len(before_alias) :]}"
    ) if found.time_travel is None else None


def test_time_travel_and_identifier_expressions_are_kept_apart(spark: Any) -> None:
    (found,) = find_table_references(
        spark, "select * from t for timestamp as of date_sub(current_date(), 1) x"
    )
    assert found.time_travel is not None
    assert found.time_travel.timestamp == "date_sub(current_date(), 1)"
    (found,) = find_table_references(spark, "select * from t version as of 7")
    assert found.time_travel is not None
    assert found.time_travel.version == "7"
    (found,) = find_table_references(spark, "select * from identifier('db.' || 't')")
    assert (found.parts, found.identifier_expression) == ((), "'db.' || 't'")


@needs_spark("4.0", "SELECT … FROM t WITH (…)")
def test_options_of_a_table_are_kept_apart(spark: Any) -> None:
    (found,) = find_table_references(spark, "select * from t with ('k' = 'v') as x")
    assert found.options == (("k", "v"),)


def test_an_unreadable_text_is_a_syntax_error_with_sparks_words(spark: Any) -> None:
    with pytest.raises(SqlSyntaxError, match="selec"):
        find_table_references(spark, "selec a from t")


def test_qualifiers_are_found_in_code_and_hints_but_not_in_strings_comments_or_other_paths() -> None:
    text = (
        "select /*+ BROADCAST(db.t), MERGE(x) */ DB.t.a, 'db.t.a', `db`.`T`.b /* db.t.a */, "
        "spark_catalog.db.t.*, x.db.t.a, db.t.other, db.t.a.c from db.t"
    )
    spans = find_qualifiers(tokenize(text), "db", "t", {"a", "b"}, [(text.rindex("db.t"), len(text))])
    assert [text[slice(*span)] for span in spans] == [
        "db.t",
        "DB.t",
        "`db`.`T`",
        "spark_catalog.db.t",
        "db.t",
    ]
    assert replace_spans("abc", [((1, 2), "X"), ((3, 3), "Y")]) == "aXcY"


def test_tokens_keep_their_places_and_leave_comments_out() -> None:
    text = "a.`b``c` /* x /* y */ z */ -- n\n 'it\\'s' r'\\' 1.5 /*+ h */"
    tokens = tokenize(text)
    assert [text[token.start : token.end] for token in tokens] == [token.text for token in tokens]
    assert [token.text for token in tokens] == [
        "a", ".", "`b``c`", "'it\\'s'", "r'\\'", "1.5", "/*+", "h", "*/",
    ]  # fmt: skip
    assert tokens[2].name == "b`c"
    assert quote_name("b`c") == "`b``c`"
