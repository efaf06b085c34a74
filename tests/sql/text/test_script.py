"""Scripts: splitting at semicolons and substituting variables, by Spark's lexical rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.errors import SqlSyntaxError, UndefinedVariableError
from hudisql.sql.text.script import (
    Variables,
    is_complete,
    marked_line,
    position_at,
    split_script,
    substitute_variables,
)


def texts(script: str) -> list[str]:
    return [statement.text for statement in split_script(script)]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("select 1; select 2", ["select 1", "select 2"]),
        ("select ';'; select \";\"; select `;`", ["select ';'", 'select ";"', "select `;`"]),
        ("select 'it\\'s; fine'; x", ["select 'it\\'s; fine'", "x"]),
        ("select r'\\'; x", ["select r'\\'", "x"]),
        ("select `a`r'\\'; x", ["select `a`r'\\'", "x"]),
        ("select 'a''b;'; x", ["select 'a''b;'", "x"]),
        ("select `a``;b`; x", ["select `a``;b`", "x"]),
        ("-- only; a comment\n;;", []),
        ("a -- x;y\n; b", ["a -- x;y", "b"]),
        ("a /* ; /* ; */ ; */ ; b", ["a /* ; /* ; */ ; */", "b"]),
        ("a -- x;\\\n y;\n; b", ["a -- x;\\\n y;", "b"]),
        ("a /* ; /*+ */ ; b -- */", ["a /* ; /*+ */", "b -- */"]),
        ("/* first */ a; /* last */", ["a"]),
        ("select 1 - -1 / 2; b", ["select 1 - -1 / 2", "b"]),
        ("", []),
        (" \n\t", []),
        ("begin select 1; select 2; end; x", ["begin select 1; select 2; end", "x"]),
        ("a; `l`: BEGIN x; END `l`; b", ["a", "`l`: BEGIN x; END `l`", "b"]),
        ("l:/**/begin begin a; end; b; end l; c", ["l:/**/begin begin a; end; b; end l", "c"]),
        (
            "BEGIN IF a THEN b; ELSE c; END IF; WHILE d DO e; END WHILE; LOOP f; END LOOP; END; g",
            ["BEGIN IF a THEN b; ELSE c; END IF; WHILE d DO e; END WHILE; LOOP f; END LOOP; END", "g"],
        ),
        (
            "BEGIN CASE a WHEN 1 THEN b; END CASE; SELECT CASE WHEN c THEN 1 END AS end, t.end; END; d",
            ["BEGIN CASE a WHEN 1 THEN b; END CASE; SELECT CASE WHEN c THEN 1 END AS end, t.end; END", "d"],
        ),
        ("BEGIN SELECT ';end;'; -- end;\nEND; d", ["BEGIN SELECT ';end;'; -- end;\nEND", "d"]),
        ("BEGIN; a; COMMIT", ["BEGIN", "a", "COMMIT"]),
        ("begin transaction; a", ["begin transaction", "a"]),
        ("select begin; a", ["select begin", "a"]),
    ],
)
def test_a_script_splits_at_semicolons_outside_of_text_and_comments(script: str, expected: list[str]) -> None:
    assert texts(script) == expected


def test_each_statement_knows_its_place() -> None:
    found = split_script("a;\n\n -- note\n  b\n;c")
    assert [(each.text, each.line, each.column) for each in found] == [("a", 1, 1), ("b", 4, 3), ("c", 5, 2)]


@pytest.mark.parametrize(
    ("script", "what", "place"),
    [
        ("a;\nselect 'x", "string", "line 2, column 8"),
        ('a;\nselect "x', "string", "line 2, column 8"),
        ("select `x", "name in backticks", "line 1, column 8"),
        ("x /* /* */", "comment", "line 1, column 3"),
        ("a;\n begin select 1; end if;", "block", "line 2, column 2"),
    ],
)
def test_what_is_not_closed_is_an_error_with_its_place(script: str, what: str, place: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        split_script(script)
    assert f"this {what} is not closed" in caught.value.message
    assert caught.value.message.startswith(place)
    assert "^" in caught.value.message


@given(st.lists(st.sampled_from(["a", "'x;y'", "`p;q`", "-- c;\n", "/* ; */", " ", "\n", '"\\";"', "1"])))
def test_semicolons_between_pieces_are_the_only_ones_that_split(pieces: list[str]) -> None:
    body = " ".join(pieces)
    count = len(texts(body))
    assert count in (0, 1)
    assert len(texts(f"{body}\n;{body}\n;")) == 2 * count


def test_input_is_complete_at_a_semicolon() -> None:
    assert is_complete("select 1;")
    assert is_complete("select 1; -- done")
    assert is_complete("-- nothing")
    assert not is_complete("select 1")
    assert not is_complete("select ';")
    assert not is_complete("select 1; select 2")
    assert not is_complete("select 1 -- ;")


VARIABLES = Variables(
    hivevar={"day": "2024-01-01", "table": "t_${day}", "loop": "${loop}"},
    hiveconf={"hive.x": "7", "day": "other"},
    environment={"HOME": "/me"},
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select '${day}'", "select '2024-01-01'"),
        ("select `${hivevar:day}`", "select `2024-01-01`"),
        ("${hiveconf:hive.x} ${conf:hive.x} ${env:HOME}", "7 7 /me"),
        ("${hive.x}", "7"),
        ("${table}", "t_2024-01-01"),
        ("select 1 -- ${absent}\n/* ${absent} */", "select 1 -- ${absent}\n/* ${absent} */"),
        ("select '$x', '{y}', '$'", "select '$x', '{y}', '$'"),
    ],
)
def test_variables_are_substituted_everywhere_but_in_comments(text: str, expected: str) -> None:
    assert substitute_variables(text, VARIABLES) == expected


@pytest.mark.parametrize(
    ("text", "name", "hint"),
    [
        ("select 1,\n  ${absent}", "${absent}", "--hivevar absent=VALUE"),
        ("select 1,\n  ${hivevar:absent}", "${hivevar:absent}", "--hivevar absent=VALUE"),
        ("select 1,\n  ${env:ABSENT}", "${env:ABSENT}", "environment variable ABSENT"),
        ("select 1,\n  ${hiveconf:a.b}", "${hiveconf:a.b}", "--hiveconf a.b=VALUE"),
    ],
)
def test_an_unset_variable_is_an_error_that_names_it(text: str, name: str, hint: str) -> None:
    with pytest.raises(UndefinedVariableError) as caught:
        substitute_variables(text, VARIABLES, line=10)
    assert name in caught.value.message
    assert caught.value.message.startswith("line 11, column 3")
    assert hint in (caught.value.hint or "")


def test_a_variable_that_refers_to_itself_is_an_error() -> None:
    with pytest.raises(UndefinedVariableError, match="refers to itself"):
        substitute_variables("${loop}", VARIABLES)


def test_positions_count_from_where_the_text_starts() -> None:
    assert position_at("ab\ncd", 1, 3, 5) == (3, 6)
    assert position_at("ab\ncd", 4, 3, 5) == (4, 2)


def test_of_a_long_line_the_part_around_the_mark_is_shown() -> None:
    text = f"select {'a, ' * 40}wrong from {'b' * 90}"
    line, carets = marked_line(text, text.index("wrong"), 5).splitlines()
    assert len(line) <= 80
    assert (line[2], line[-1]) == ("…", "…")
    assert line[carets.index("^") : carets.rindex("^") + 1] == "wrong"
    assert marked_line("select wrong", 7, 5) == "  select wrong\n         ^^^^^"
