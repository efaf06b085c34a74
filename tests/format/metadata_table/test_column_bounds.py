"""Bounds of texts: never narrower than the text, and in one order for Java and for Spark."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from hudisql.format.metadata_table.column_bounds import text_bound

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.text("az\ue000\uffff\U00010000\U0010ffff")


def _utf_16(text: str) -> bytes:
    return text.encode("utf-16-be")


@given(TEXTS)
@example("\U0010ffffa")
@example("a\U0010ffff\U0010ffff")
def test_bounds_enclose_their_text(text: str) -> None:
    least = text_bound(text, is_greatest=False)
    greatest = text_bound(text, is_greatest=True)
    assert least is not None
    assert greatest is not None
    assert least.encode() <= text.encode() <= greatest.encode()
    assert text_bound(greatest, is_greatest=True) == greatest


@given(TEXTS, TEXTS)
def test_java_and_spark_order_bounds_alike(one: str, other: str) -> None:
    for is_greatest in (False, True):
        first, second = (text_bound(text, is_greatest=is_greatest) for text in (one, other))
        assert first is not None
        assert second is not None
        assert (first.encode() < second.encode()) == (_utf_16(first) < _utf_16(second))
