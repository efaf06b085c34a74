"""Incompatibilities found in footers: old dates and timestamps, small integers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.source.footer_incompatibilities import (
    old_date_incompatibilities,
    small_integer_incompatibilities,
)
from hudisql.bootstrap.type_safety import TYPE_INCOMPATIBILITIES

OLD_DAY, NEW_DAY = -141_428, -141_427
OLD_SECOND, NEW_SECOND = -2_208_988_801, -2_208_988_800


def _incompatibilities(
    path: Path, key_values: dict[str, str] | None = None, *, old: bool = True, **options: object
):
    day, second = (OLD_DAY, OLD_SECOND) if old else (NEW_DAY, NEW_SECOND)
    days = pa.array([None, 0, day], pa.int32()).cast(pa.date32())
    columns = {"id": pa.array([OLD_DAY] * 3, pa.int32()), "d": days}
    for name, unit, times in (("ms", "ms", 1_000), ("us", "us", 1_000_000), ("ns", "ns", 1_000_000_000)):
        columns[name] = pa.array([None, 0, second * times], pa.int64()).cast(pa.timestamp(unit, "UTC"))
    columns["local"] = columns["us"].cast(pa.timestamp("us"))
    columns["st"] = pa.StructArray.from_arrays([days, pa.array([1, 2, 3])], names=["d", "n"])
    table = pa.table(columns)
    with pq.ParquetWriter(path, table.schema, store_schema=False, version="2.6", **options) as writer:
        writer.write_table(table, row_group_size=2)
        writer.add_key_value_metadata(key_values or {})
    return dict(old_date_incompatibilities(pq.read_metadata(path)))


@pytest.mark.parametrize(
    ("key_values", "incompatibility"),
    [
        (None, "unknown_calendar"),
        ({"org.apache.spark.version": "2.4.8"}, "older_calendar"),
        ({"org.apache.spark.version": "3.0.3"}, "old_dates"),
        ({"org.apache.spark.version": "4.3.0"}, "old_dates"),
        ({"org.apache.spark.version": "4.3.0", "org.apache.spark.legacyDateTime": ""}, "older_calendar"),
    ],
)
def test_old_values_are_found_in_every_unit_and_inside_structs(tmp_path, key_values, incompatibility):
    found = _incompatibilities(tmp_path / "a", key_values)
    assert found == dict.fromkeys(("d", "ms", "us", "ns", "st"), incompatibility)
    assert incompatibility in TYPE_INCOMPATIBILITIES
    assert _incompatibilities(tmp_path / "b", key_values, old=False) == {}


def test_without_statistics_only_files_of_the_older_calendar_are_suspect(tmp_path):
    assert _incompatibilities(tmp_path / "a", old=False, write_statistics=False) == {}
    marked = _incompatibilities(
        tmp_path / "b", {"org.apache.spark.version": "2.4.8"}, old=False, write_statistics=False
    )
    assert set(marked.values()) == {"older_calendar"}


def test_files_without_rows_or_of_nulls_alone_hold_no_old_values(tmp_path):
    for rows in ([], [None, None]):
        with pq.ParquetWriter(tmp_path / "a", pa.schema([("d", pa.date32())])) as writer:
            writer.write_table(pa.table({"d": pa.array(rows, pa.date32())}))
            writer.add_key_value_metadata({"org.apache.spark.version": "2.4.8"})
        assert dict(old_date_incompatibilities(pq.read_metadata(tmp_path / "a"))) == {}


KINDS = {"i8": pa.int8(), "u8": pa.uint8(), "i16": pa.int16(), "u16": pa.uint16(), "i32": pa.int32()}
SMALL = ("i8", "u8", "i16")


def _found(path: Path, columns: dict[str, pa.Array], *, has_dictionary: bool) -> dict[str, str]:
    pq.write_table(pa.table(columns), path, use_dictionary=has_dictionary)
    return dict(small_integer_incompatibilities(pq.read_metadata(path)))


def test_small_integers_are_told_by_pages_without_a_dictionary(tmp_path: Path) -> None:
    columns = {name: pa.array([1, None, 2], kind) for name, kind in KINDS.items()}
    assert _found(tmp_path / "a", columns, has_dictionary=True) == {}
    assert _found(tmp_path / "b", columns, has_dictionary=False) == dict.fromkeys(SMALL, "small_integer")
    none = {name: values.slice(0, 0) for name, values in columns.items()}
    assert _found(tmp_path / "c", none, has_dictionary=False) == {}
    assert "small_integer" in TYPE_INCOMPATIBILITIES


def test_nested_small_integers_are_told_whatever_their_pages(tmp_path: Path) -> None:
    columns = {}
    for name, kind in KINDS.items():
        columns[f"st_{name}"] = pa.array([{"x": 1}], pa.struct([("x", kind)]))
        columns[f"li_{name}"] = pa.array([[1]], pa.list_(kind))
        columns[f"ma_{name}"] = pa.array([[("k", 1)]], pa.map_(pa.string(), kind))
    for has_dictionary in (True, False):
        found = _found(tmp_path / "a", columns, has_dictionary=has_dictionary)
        assert set(found) == {f"{form}_{name}" for form in ("st", "li", "ma") for name in SMALL}
