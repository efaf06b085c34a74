"""Parameter markers: which marks are some, and the literals that take their places."""

from __future__ import annotations

import pytest

from hudisql.errors import InvalidArgumentError
from hudisql.sql.text.parameters import SqlExpression, bind_parameters, used_arguments


@pytest.mark.parametrize(
    ("text", "arguments", "bound"),
    [
        ("SELECT :a, :b", {"a": 1, "b": "x"}, "SELECT (1), 'x'"),
        ("WHERE a=:a AND b IN (:a,:a)", {"a": 2}, "WHERE a=(2) AND b IN ((2),(2))"),
        ("SELECT x::int, v:field, f(x):b, :a", {"a": None}, "SELECT x::int, v:field, f(x):b, NULL"),
        ("SELECT ':a', `:a` /* :a */ -- :a\n, :a", {"a": True}, "SELECT ':a', `:a` /* :a */ -- :a\n, true"),
        ("SELECT ?, '?', ?", ["?", 1.5], "SELECT '?', '?', (1.5D)"),
        ("SELECT 1", {}, "SELECT 1"),
        ("l: BEGIN SELECT :a; END", {"a": -1}, "l: BEGIN SELECT (-1); END"),
    ],
)
def test_markers_are_replaced_by_literals(text: str, arguments: object, bound: str) -> None:
    assert bind_parameters(text, arguments) == bound  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "arguments", "problem"),
    [
        ("SELECT 1,\n  :a", {}, "line 2, column 3: there is no value for the parameter :a"),
        ("SELECT ?", {"a": 1}, r"no value for the parameter \?"),
        ("SELECT :a", [1], "no value for the parameter :a"),
        ("SELECT ?", [1, 2], "2 values are given for 1 parameters"),
        ("SELECT ?", "x", "not text"),
        ("SELECT ?", [float], "type type"),
    ],
)
def test_markers_and_values_must_agree(text: str, arguments: object, problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        bind_parameters(text, arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "arguments", "bound"),
    [
        ("SELECT :a", {"a": 1, "unused": object()}, "SELECT (1)"),
        ("SELECT ?", [1, 2], "SELECT (1)"),
        ("SELECT ':a' = ?", [SqlExpression("array(1)")], "SELECT ':a' = (array(1))"),
    ],
)
def test_values_without_a_marker_are_left_out_as_by_spark(text: str, arguments: object, bound: str) -> None:
    assert bind_parameters(text, used_arguments(text, arguments)) == bound  # type: ignore[arg-type]
