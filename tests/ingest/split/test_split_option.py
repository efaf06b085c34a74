"""The option `split` as users write it."""

from __future__ import annotations

import pytest

from hudisql.errors import InvalidArgumentError
from hudisql.ingest.split.split_option import SplitKind, SplitOption, parse_split_option


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auto", SplitOption()),
        (" NOW ", SplitOption(SplitKind.NOW)),
        ("never", SplitOption(SplitKind.NEVER)),
        ("rows:1_000_000", SplitOption(SplitKind.ROWS, 1_000_000)),
        ("Days: 7", SplitOption(SplitKind.DAYS, 7)),
    ],
)
def test_an_option_is_read(text: str, expected: SplitOption) -> None:
    assert parse_split_option(text) == expected
    assert parse_split_option(str(expected)) == expected


@pytest.mark.parametrize(
    "text", ["", "rows", "rows:", "days:0", "days:-1", "rows:1e6", "7", "auto:3", "soon"]
)
def test_anything_else_is_one_clear_error(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        parse_split_option(text)
    assert str(raised.value) == (
        f"unknown split point: split is '{text}'\n  -> write 'auto', 'rows:N' (rows of a partition), "
        "'days:N' (days since its first write), with N from 1 on, 'never' or 'now'"
    )
