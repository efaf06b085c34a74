"""Results at a terminal: changes in a line, tables that fit, wide rows a column a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hudisql.cli.terminal_display import Expanded, change_line, shown_lines
from hudisql.sql.dml.dml_execution import OUTPUT

_NAMES = [name for name, _ in OUTPUT]


@pytest.mark.parametrize(
    ("row", "seconds", "line"),
    [
        (("1", 1, 1, 0, 0, 0, 0, 3, 50_400), 2.8, "1: 1 inserted, 1 updated in 3 files, 50 kB, 2.80 s"),
        (
            ("1", 0, 0, 2000, 0, 1, 2, 1, 7),
            None,
            "1: 2,000 deleted, 1 skipped as late, 2 combined in 1 file, 7 bytes",
        ),
        (("1", 0, 0, 0, 0, 0, 0, 0, 0), 0.1, "1: no row changed, 0.10 s"),
        ((None, 0, 0, 0, 0, 0, 0, 0, 0), 0.1, "no row changed, 0.10 s"),
    ],
)
def test_a_change_is_a_line_without_the_counts_that_are_zero(
    row: Sequence[object], seconds: float | None, line: str
) -> None:
    assert change_line(dict(zip(_NAMES, row, strict=True)), seconds) == line


def shown(names: list[str], rows: list[Any], width: int, expanded: Expanded = "auto") -> list[str]:
    return "".join(shown_lines(names, rows, expanded, width)).splitlines()


def test_numbers_stand_right_and_null_differs_from_its_name() -> None:
    assert shown(["id", "text"], [(1, "NULL"), (20, None), (None, "")], 80)[3:-1] == [
        "|    1 | 'NULL' |",
        "|   20 | NULL   |",
        "| NULL |        |",
    ]


def test_texts_wrap_before_a_table_that_is_too_wide_becomes_a_column_a_line() -> None:
    rows = [("word " * 15, "x")]
    assert len(shown(["a", "b"], rows, 100)) == 5
    assert len(shown(["a", "b"], rows, 60)) == 6
    assert shown(["a", "b"], rows, 30)[0] == "-[ 1 ]"
    assert len(shown(["a", "b"], rows, 30, "off")) == 5
    assert shown(["a", "b"], [], 5)[1] == "| a | b |"
