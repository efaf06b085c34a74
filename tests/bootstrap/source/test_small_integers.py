"""Which columns hold 8- and 16-bit integers that Hudi 0.15 cannot read, told from footers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.bootstrap.source.small_integers import small_integer_incompatibilities
from hudisql.bootstrap.type_safety import TYPE_HAZARDS

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
    assert "small_integer" in TYPE_HAZARDS


def test_nested_small_integers_are_told_whatever_their_pages(tmp_path: Path) -> None:
    columns = {}
    for name, kind in KINDS.items():
        columns[f"st_{name}"] = pa.array([{"x": 1}], pa.struct([("x", kind)]))
        columns[f"li_{name}"] = pa.array([[1]], pa.list_(kind))
        columns[f"ma_{name}"] = pa.array([[("k", 1)]], pa.map_(pa.string(), kind))
    for has_dictionary in (True, False):
        found = _found(tmp_path / "a", columns, has_dictionary=has_dictionary)
        assert set(found) == {f"{form}_{name}" for form in ("st", "li", "ma") for name in SMALL}
