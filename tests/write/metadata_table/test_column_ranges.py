"""The ranges of columns: values that footers or Python's own types do not give."""

from __future__ import annotations

from decimal import Decimal
from math import inf, nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.format.metadata_table.merged_ranges import mergeable_range, merged_ranges
from hudisql.format.metadata_table.metadata_writing import ColumnRange
from hudisql.storage import Storage
from hudisql.table.file_slice import BaseFile, FileSlice
from hudisql.write.metadata_table.column_ranges import (
    MeasuredFile,
    measure_file,
)

YEAR_0, YEAR_10000 = -62_135_596_800_000_001, 253_402_304_400_000_000
LARGEST = Decimal("1234567890123456789012345678.9876543219")


@pytest.mark.parametrize("from_footers", [True, False])
def test_bounds_are_exact(tmp_path: Path, *, from_footers: bool) -> None:
    columns = {
        "long_decimal": pa.array([LARGEST, LARGEST.copy_negate()], pa.decimal128(38, 10)),
        "small_decimal": pa.array([Decimal("1.25"), Decimal("-300.10")], pa.decimal128(5, 2)),
        "at": pa.array([YEAR_10000, YEAR_0], pa.timestamp("us", "UTC")),
        "local": pa.array([YEAR_10000, YEAR_0], pa.timestamp("us")),
        "day": pa.array([3_000_000, -719_164], pa.int32()).cast(pa.date32()),
    }
    bounds = {name: _bounds(found) for name, found in _measured(tmp_path, columns, from_footers).items()}
    unscaled = 12345678901234567890123456789876543219
    assert bounds == {
        "long_decimal": (-unscaled, unscaled),
        "small_decimal": (-30010, 125),
        "at": (YEAR_0, YEAR_10000),
        "local": (YEAR_0, YEAR_10000),
        "day": (-719_164, 3_000_000),
    }


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
@pytest.mark.parametrize("from_footers", [True, False])
def test_nan_is_the_greatest(tmp_path: Path, kind: pa.DataType, *, from_footers: bool) -> None:
    """As in Spark; the footer leaves it out, and Hudi 1.2 prunes by bounds that are NaN."""
    found = _measured(tmp_path, {"fare": pa.array([nan, 5.0, None], kind)}, from_footers)["fare"]
    assert found.least == 5.0
    assert found.greatest == inf
    of_rows = _measured(tmp_path, {"fare": pa.array([7.0, 2.0], kind)}, from_footers=False)["fare"]
    assert (of_rows.least, of_rows.greatest) == (2.0, 7.0)
    for both in ([found, of_rows], [of_rows, found]):
        merged = merged_ranges(both)
        assert merged.least == 2.0
        assert merged.greatest == inf


@pytest.mark.parametrize("from_footers", [True, False])
def test_bytes_that_are_no_text_are_within_the_bounds(tmp_path: Path, *, from_footers: bool) -> None:
    """Hive and Spark store such bytes in columns of texts."""
    stored = pa.array([b"a\xe9b", b"a\xe9c"], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 2, stored.buffers())
    found = _measured(tmp_path, {"note": texts}, from_footers)["note"]
    assert (found.least, found.greatest) == ("a", "a\U0010ffff")


@pytest.mark.parametrize(
    ("text", "least", "greatest"),
    [
        ("b", "b", "b"),
        ("名", "名", "名"),
        ("a\U0001f600b", "a", "a\U0010ffff"),
        ("a\uff22\nb", "a", "a\U0010ffff"),
        ("", "", ""),
    ],
)
def test_ranges_of_partitions_have_one_order(text: str, least: str, greatest: str) -> None:
    """Hudi 1.2 merges them by UTF-16, where a surrogate pair comes before U+FF22."""
    found = mergeable_range(ColumnRange("note", "StringWrapper", 7, text, text, values=1, nulls=0))
    assert (found.least, found.greatest) == (least, greatest)


def _measured(directory: Path, columns: dict[str, pa.Array], from_footers: bool) -> dict[str, ColumnRange]:
    rows = pa.table(columns)
    path = str(directory / "group_0-0-0_20240101000000000.parquet")
    pq.write_table(rows, path, coerce_timestamps="us", write_statistics=from_footers)
    base = BaseFile(path, Path(path).stat().st_size, "group", "0-0-0", "20240101000000000")
    file = MeasuredFile("f", FileSlice("", "group", base.instant_time, base), tuple(rows.schema))
    return {found.column: found for found in measure_file(Storage(), file)}


def _bounds(found: ColumnRange) -> tuple[Any, Any]:
    ends = (found.least, found.greatest)
    if found.wrapper == "BytesWrapper":
        return tuple(int.from_bytes(end, "big", signed=True) for end in ends)  # type: ignore[return-value]
    return ends


def test_a_float_is_within_the_bounds_of_a_wider_column(tmp_path: Path) -> None:
    """Hudi 1.2 reads it as the double with the same digits."""
    path = tmp_path / "group_0-0-0_20240101000000000.parquet"
    pq.write_table(pa.table({"fare": pa.array([1.1, 2.2], pa.float32())}), path)
    base = BaseFile(str(path), path.stat().st_size, "group", "0-0-0", "20240101000000000")
    only = FileSlice("", "group", base.instant_time, base)
    (found,) = measure_file(Storage(), MeasuredFile("f", only, (pa.field("fare", pa.float64()),)))
    assert found.least == 1.1
