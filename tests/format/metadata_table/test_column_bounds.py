"""Bounds of texts: never narrower than the text, and in one order for Java and for Spark; ranges of Hudi."""

from __future__ import annotations

import math
from io import BytesIO
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hudisql.format.hfile.hfile import HFileReader
from hudisql.format.hfile.hfile_cells import cells_of
from hudisql.format.metadata_table.column_bounds import ColumnBounds, bounds_by_key, text_bound
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, read_metadata_records
from hudisql.format.metadata_table.metadata_writing import ColumnRange, encode_metadata_file, encode_range

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


BASE, LOG = "f-0_0-1-2_20240101000000000.parquet", ".f-0_20240101000000000.log.1_0-1-2"


def _read(found: ColumnRange, kind: pa.DataType, name: str) -> ColumnBounds:
    content = encode_metadata_file(cells_of({"key": encode_range(found, name)}))
    layer = read_metadata_records(HFileReader(BytesIO(content), len(content)), COLUMN_STATS, "test")
    return bounds_by_key([layer], pa.field("c", kind), in_first_form=True)["key"]


@pytest.mark.parametrize(
    ("kind", "wrapper", "least", "greatest", "nulls", "size", "name", "is_known"),
    [
        # A row group with NaN counts as 0.0 in footers.
        (pa.float64(), "DoubleWrapper", 0.0, 0.0, 0, 9, BASE, False),
        (pa.float64(), "DoubleWrapper", -1.0, 2.0, 0, 9, BASE, False),
        (pa.float64(), "DoubleWrapper", 1.0, 2.0, 0, 9, BASE, True),
        (pa.float64(), "DoubleWrapper", -1.0, 2.0, 0, 0, BASE, True),
        (pa.float64(), "DoubleWrapper", -1.0, 2.0, 0, 0, LOG, True),
        # One with too long texts as nulls.
        (pa.string(), "StringWrapper", "a", "b", 1, 9, BASE, False),
        (pa.string(), "StringWrapper", None, None, 3, 9, BASE, False),
        (pa.string(), "StringWrapper", "a", "b", 0, 9, BASE, True),
        (pa.string(), "StringWrapper", "a", "b", 1, 0, BASE, True),
        (pa.string(), "StringWrapper", "a", "b", 1, 0, LOG, True),
        (pa.binary(), "BytesWrapper", b"a", b"b", 1, 9, BASE, False),
        (pa.binary(), "BytesWrapper", b"a", b"b", 0, 9, BASE, True),
        # Bytes of log files are ordered with signs.
        (pa.binary(), "BytesWrapper", b"a", b"b", 0, 0, LOG, False),
        (pa.int64(), "LongWrapper", 0, 7, 1, 9, BASE, True),
    ],
)
def test_ranges_that_hudi_may_make_too_narrow_are_unknown(
    kind: pa.DataType,
    wrapper: str,
    least: Any,
    greatest: Any,
    nulls: int,
    size: int,
    name: str,
    *,
    is_known: bool,
) -> None:
    found = _read(ColumnRange("c", wrapper, None, least, greatest, 3, nulls, stored_bytes=size), kind, name)
    known, unknown = ColumnBounds(3, nulls, least, greatest), ColumnBounds(3, None)
    assert found == (known if is_known else unknown)


def test_bounds_of_log_files_with_nan_or_of_deletes_alone() -> None:
    found = _read(ColumnRange("c", "DoubleWrapper", None, -1.0, math.nan, 3, 0), pa.float64(), LOG)
    assert found == ColumnBounds(3, 0, -1.0, math.inf)
    found = _read(ColumnRange("c", "LongWrapper", None, None, None, 0, 0), pa.int64(), LOG)
    assert found == ColumnBounds(0, 0)
    assert found.is_empty


@given(TEXTS, TEXTS)
@example("\U0010ffffq", "\uffff")
@example("b\U0010ffff\U0010ffff", "b\ue000")
@example("\ud7ff\U0010ffffq", "\ud7ff\ue000")
def test_texts_that_java_orders_between_two_are_within_their_bounds(one: str, other: str) -> None:
    least, greatest = sorted((one, other), key=_utf_16)
    found = _read(ColumnRange("c", "StringWrapper", None, least, greatest, 2, 0), pa.string(), LOG)
    if found.least is not None:
        assert found.least.encode() <= min(one.encode(), other.encode())
        assert found.greatest.encode() >= max(one.encode(), other.encode())
