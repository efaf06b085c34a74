"""What keeps a parquet file from being an Iceberg data file, and its metrics; without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.format.schema.calendar import LEGACY_DATETIME_KEY, SPARK_VERSION_KEY
from hudisql.iceberg.data_file import Footer, footer_of, metrics, misread
from hudisql.iceberg.iceberg_schema import assign_ids, name_mapping

OLD_SPARK = {SPARK_VERSION_KEY: b"3.2.0", LEGACY_DATETIME_KEY: b""}
INTS = pa.array([1, 2], pa.int32())


def written_footer(path: Path, rows: pa.Table, metadata: Mapping[bytes, bytes] | None = None) -> Footer:
    pq.write_table(rows.replace_schema_metadata(metadata), path / "f.parquet")
    return footer_of(pq.read_metadata(path / "f.parquet"))


@pytest.mark.parametrize(
    ("column", "current", "metadata", "problem"),
    [
        (INTS, pa.int64(), None, None),
        (INTS.cast(pa.float32()), pa.float64(), None, None),
        (pa.array([1], pa.decimal128(5, 2)), pa.decimal128(9, 2), None, None),
        (pa.array([date(1970, 1, 1)]), pa.date32(), OLD_SPARK, None),
        (INTS, pa.string(), None, "is int32 there"),
        (INTS.cast(pa.int8()), pa.int32(), None, "is int8 there"),
        (pa.array([1], pa.decimal128(9, 3)), pa.decimal128(9, 2), None, "is decimal"),
        (pa.array([1], pa.timestamp("ns", "UTC")), pa.timestamp("us", "UTC"), None, "is timestamp"),
        (pa.array([1], pa.timestamp("us")), pa.timestamp("us", "UTC"), None, "is timestamp"),
        (pa.array([[1]]), pa.list_(pa.string()), None, "column c.element is int64 there"),
        (pa.array([{"a": 1}]), pa.string(), None, "in the table"),
        (pa.array([date(1500, 1, 1)]), pa.date32(), OLD_SPARK, "before 1582"),
    ],
)
def test_files_that_readers_would_misread(
    tmp_path: Path,
    column: pa.Array,
    current: pa.DataType,
    metadata: Mapping[bytes, bytes] | None,
    problem: str | None,
) -> None:
    found = misread(written_footer(tmp_path, pa.table({"c": column}), metadata), pa.schema([("c", current)]))
    assert found is None if problem is None else found is not None and problem in found


@pytest.mark.parametrize(
    ("rows", "options", "are_shared"),
    [
        ({"a": INTS, "b": [[1], [2]]}, {}, True),
        ({"a": INTS, "b": [[1], [2]]}, {"use_compliant_nested_type": False}, False),
        ({"a": INTS, "c": [[1], [2]]}, {}, False),
        ({"a": INTS.cast(pa.int64()), "b": [[1], [2]]}, {}, False),
        ({"a": INTS}, {}, False),
    ],
)
def test_files_with_the_same_columns_share_what_is_known_of_them(
    tmp_path: Path, rows: Mapping[str, object], options: Mapping[str, bool], are_shared: bool
) -> None:
    first = written_footer(tmp_path, pa.table({"a": INTS, "b": [[3], None]}))
    pq.write_table(pa.table(rows), tmp_path / "g.parquet", **options)
    metadata = pq.read_metadata(tmp_path / "g.parquet")
    footer, alone = footer_of(metadata, first), footer_of(metadata)
    assert (footer.columns is first.columns) is are_shared
    assert (footer.schema, footer.columns.paths) == (alone.schema, alone.columns.paths)


def test_names_in_another_case_are_refused(tmp_path: Path) -> None:
    footer = written_footer(tmp_path, pa.table({"C": INTS}))
    assert misread(footer, pa.schema([("c", pa.int32())])) == "column C is c in the table"


def test_bounds_hold_every_value_and_floats_have_none(tmp_path: Path) -> None:
    rows = pa.table({"t": ["a" * 20, "b" * 15 + "\ud7ff\U0010ffff"], "n": [1, None], "f": [1.0, 2.0]})
    ids = assign_ids({}, [rows.schema])
    found = metrics(written_footer(tmp_path, rows), rows.schema, ids)
    lower, upper, nulls = (
        {each["key"]: each["value"] for each in found[name]}
        for name in ("lower_bounds", "upper_bounds", "null_value_counts")
    )
    assert set(lower) == {ids["t"], ids["n"]}
    assert lower[ids["t"]].decode() == "a" * 16
    assert upper[ids["t"]].decode() == "b" * 15 + "\ue000"
    assert lower[ids["n"]] == upper[ids["n"]] == (1).to_bytes(8, "little")
    assert nulls == {ids["t"]: 0, ids["n"]: 1, ids["f"]: 0}


def test_a_text_that_is_not_utf_8_has_no_bounds(tmp_path: Path) -> None:
    stored = pa.array([b"\xff\xfe", b"ok"], pa.binary())
    rows = pa.table({"t": pa.Array.from_buffers(pa.string(), 2, stored.buffers())})
    counted = metrics(written_footer(tmp_path, rows), rows.schema, {"t": 1})
    assert (counted["lower_bounds"], counted["upper_bounds"]) == ([], [])
    assert counted["value_counts"] == [{"key": 1, "value": 2}]


def test_ids_stay_and_the_mapping_names_all_of_them() -> None:
    ids = assign_ids({}, [pa.schema([("a", pa.int32()), ("s", pa.struct([("x", pa.int32())]))])])
    more = assign_ids(ids, [pa.schema([("b", pa.int32()), ("s", pa.struct([("y", pa.int32())]))])])
    assert more == {**ids, "b": 4, "s.y": 5}
    nested = next(each for each in name_mapping(more) if each["names"] == ["s"])
    assert [each["field-id"] for each in nested["fields"]] == [ids["s.x"], 5]
