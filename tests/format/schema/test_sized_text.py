"""CHAR(n) and VARCHAR(n) by Spark's names and in a table's properties."""

from __future__ import annotations

import pytest

from hudisql.errors import CorruptTableError
from hudisql.format.schema.sized_text import (
    SizedText,
    parse_column_lengths,
    parse_sized_text,
    render_column_lengths,
)


def test_the_names_are_those_of_spark() -> None:
    for text, sized in (("char(3)", SizedText(3, is_char=True)), ("varchar(12)", SizedText(12))):
        assert parse_sized_text(text) == sized
        assert sized.name == text
    for other in ("string", "char", {"type": "array"}):
        assert parse_sized_text(other) is None


def test_properties_keep_the_types() -> None:
    columns = {"c": SizedText(3, is_char=True), "v": SizedText(12)}
    text = render_column_lengths(columns)
    assert text == '{"c": "char(3)", "v": 12}'
    assert parse_column_lengths(text, "lengths") == columns


@pytest.mark.parametrize("text", ["[]", "{", '{"a": "string"}'])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(CorruptTableError, match="lengths"):
        parse_column_lengths(text, "lengths")
