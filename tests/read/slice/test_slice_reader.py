from __future__ import annotations

import datetime
import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudisql.errors import CorruptTableError, SourceChangedError, UnsupportedTableError
from hudisql.format.schema.meta_columns import META_SCHEMA, RECORD_KEY
from hudisql.read.files.predicates import And, Comparison, Predicate
from hudisql.read.files.splits import Split
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice, LogFile

KEY = pa.field(RECORD_KEY, pa.string())
WriteSlice = Callable[..., FileSlice]


def _read(file_slice: FileSlice, schema: pa.Schema, **kwargs: Any) -> pa.Table:
    read = SliceRead(file_slice, schema, **kwargs)
    return pa.Table.from_batches(list(read_file_slice(Storage(), read)), schema)


def _numbers(rows: int, first: int = 0) -> pa.Table:
    numbers = range(first, first + rows)
    return pa.table({"n": pa.array(numbers, pa.int32()), "s": [f"text {row}" for row in range(rows)]})


@given(
    rows=st.integers(0, 40),
    row_group_rows=st.integers(1, 45),
    skeleton_row_group_rows=st.integers(1, 45),
    splits=st.integers(1, 6),
    bounds=st.tuples(st.integers(-5, 45), st.integers(-5, 45)),
    columns=st.sampled_from([("n", RECORD_KEY), (RECORD_KEY, "s", "n"), ("n",)]),
)
def test_stitched_rows_stay_aligned_and_splits_give_each_row_once(
    tmp_path_factory: pytest.TempPathFactory,
    write_slice: WriteSlice,
    rows: int,
    row_group_rows: int,
    skeleton_row_group_rows: int,
    splits: int,
    bounds: tuple[int, int],
    columns: tuple[str, ...],
) -> None:
    directory = tmp_path_factory.mktemp("aligned")
    file_slice = write_slice(
        directory,
        _numbers(rows),
        row_group_rows=row_group_rows,
        skeleton_row_group_rows=skeleton_row_group_rows,
    )
    assert file_slice.external_file is not None
    types = {"n": pa.int32(), "s": pa.string(), RECORD_KEY: pa.string()}
    schema = pa.schema([(name, types[name]) for name in columns])
    low, high = bounds
    predicate: Predicate = And((Comparison(("n",), ">=", low), Comparison(("n",), "<", high)))
    if RECORD_KEY in columns:
        predicate = And((predicate, Comparison((RECORD_KEY,), "!=", "7")))
    size = file_slice.external_file.length
    cuts = [size * position // splits for position in range(splits + 1)]
    parts = [
        _read(file_slice, schema, predicate=predicate, split=Split(start, stop - start))
        for start, stop in itertools.pairwise(cuts)
    ]
    found = pa.concat_tables(parts)
    excluded = {7} if RECORD_KEY in columns else set()
    expected = [n for n in range(rows) if low <= n < high and n not in excluded]
    assert found["n"].to_pylist() == expected
    if RECORD_KEY in columns:
        assert found[RECORD_KEY].to_pylist() == [str(n) for n in expected]
    if "s" in columns:
        assert found["s"].to_pylist() == [f"text {n}" for n in expected]


def test_only_row_groups_that_may_match_are_decoded_in_both_files(
    tmp_path: Path, write_slice: WriteSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_slice = write_slice(tmp_path, _numbers(100), row_group_rows=10, skeleton_row_group_rows=20)
    decoded: list[tuple[str, int]] = []
    original = pq.ParquetFile.iter_batches

    def counting(self: Any, *args: Any, row_groups: list[int], columns: list[str], **kwargs: Any) -> Any:
        decoded.extend((columns[0], group) for group in row_groups)
        return original(self, *args, row_groups=row_groups, columns=columns, **kwargs)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counting)
    found = _read(
        file_slice,
        pa.schema([KEY, ("n", pa.int32())]),
        predicate=And((Comparison(("n",), ">=", 35), Comparison(("n",), "<", 52))),
    )
    assert found[RECORD_KEY].to_pylist() == [str(n) for n in range(35, 52)]
    assert sorted(decoded) == [(RECORD_KEY, 1), (RECORD_KEY, 2), ("n", 3), ("n", 4), ("n", 5)]


def test_nested_projection_reads_only_the_leaves_asked(
    tmp_path: Path, write_slice: WriteSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = pa.struct([("p", pa.int64()), ("q", pa.int64())])
    data = pa.table(
        {
            "other": [1, 2],
            "st": pa.array(
                [{"a": 1, "b": "x", "in": {"p": 1, "q": 2}}, None],
                pa.struct([("a", pa.int64()), ("b", pa.string()), ("in", inner)]),
            ),
            "ar": [[{"u": 1, "v": 2}], []],
        }
    )
    file_slice = write_slice(tmp_path, data)
    asked: list[str] = []
    original = pq.ParquetFile.iter_batches

    def watching(self: Any, *args: Any, columns: list[str], **kwargs: Any) -> Any:
        asked.extend(columns)
        return original(self, *args, columns=columns, **kwargs)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watching)
    schema = pa.schema(
        [
            ("st", pa.struct([("b", pa.string()), ("in", pa.struct([("q", pa.int64())]))])),
            ("ar", pa.list_(pa.field("element", pa.struct([("v", pa.int64())])))),
        ]
    )
    assert _read(file_slice, schema).to_pylist() == [
        {"st": {"b": "x", "in": {"q": 2}}, "ar": [{"v": 2}]},
        {"st": None, "ar": []},
    ]
    assert asked == ["st.b", "st.in.q", "ar.list.element.v"]


def test_a_struct_whose_fields_the_file_lacks_keeps_its_nulls(
    tmp_path: Path, write_slice: WriteSlice
) -> None:
    data = pa.table({"st": pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int64())]))})
    schema = pa.schema([("st", pa.struct([("new", pa.string())])), ("absent", pa.float64())])
    assert _read(write_slice(tmp_path, data), schema).to_pylist() == [
        {"st": {"new": None}, "absent": None},
        {"st": None, "absent": None},
        {"st": {"new": None}, "absent": None},
    ]


def test_partition_values_win_over_what_the_file_says(tmp_path: Path, write_slice: WriteSlice) -> None:
    file_slice = write_slice(tmp_path, pa.table({"n": [1, 2], "dt": ["wrong", "wrong"]}))
    schema = pa.schema([("dt", pa.date32()), KEY, ("n", pa.int64())])
    day = datetime.date(2024, 3, 1)
    found = _read(file_slice, schema, partition_values={"dt": day})
    assert found.to_pylist() == [
        {"dt": day, RECORD_KEY: "0", "n": 1},
        {"dt": day, RECORD_KEY: "1", "n": 2},
    ]
    assert _read(file_slice, schema, partition_values={"dt": None})["dt"].null_count == 2


def test_a_read_without_columns_still_counts(tmp_path: Path, write_slice: WriteSlice) -> None:
    file_slice = write_slice(tmp_path, _numbers(11), row_group_rows=4)
    batches = read_file_slice(Storage(), SliceRead(file_slice, pa.schema([])))
    assert sum(batch.num_rows for batch in batches) == 11


def test_memory_is_bounded_by_a_batch_not_by_the_file(tmp_path: Path, write_slice: WriteSlice) -> None:
    rows = 400_000
    data = pa.table({"v": np.random.default_rng(1).integers(0, 2**62, rows)})
    file_slice = write_slice(tmp_path, data, row_group_rows=20_000, skeleton_row_group_rows=20_000)
    whole = data.nbytes + rows * 60
    del data
    schema = pa.schema([*META_SCHEMA, ("v", pa.int64())])
    before, peak, seen = pa.total_allocated_bytes(), 0, 0
    for batch in read_file_slice(Storage(), SliceRead(file_slice, schema)):
        seen += batch.num_rows
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert seen == rows
    assert peak < whole / 4


@pytest.mark.parametrize("columns", [("n",), (RECORD_KEY,), ("n", RECORD_KEY)])
@pytest.mark.parametrize("harm", ["missing", "longer", "shorter", "garbage", "replaced"])
def test_an_external_file_that_is_missing_or_has_changed_is_an_error_naming_it(
    tmp_path: Path, write_slice: WriteSlice, harm: str, columns: tuple[str, ...]
) -> None:
    file_slice = write_slice(tmp_path, _numbers(20), partition_path="dt=2024-03-01")
    assert file_slice.external_file is not None
    path = Path(file_slice.external_file.path)
    content, before = path.read_bytes(), path.stat()
    match harm:
        case "missing":
            path.unlink()
        case "longer":
            path.write_bytes(content + b"PAR1")
        case "shorter":
            path.write_bytes(content[:-1])
        case "garbage":
            path.write_bytes(b"\x00" * len(content))
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        case "replaced":
            pq.write_table(_numbers(20, 7), path, store_schema=False)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))
            assert path.stat().st_size == len(content)
    if harm == "garbage" and columns == (RECORD_KEY,):
        return  # the same length and time, and nothing of the file is asked
    schema = pa.schema([(name, pa.int32() if name == "n" else pa.string()) for name in columns])
    with pytest.raises(SourceChangedError) as caught:
        _read(file_slice, schema)
    assert str(path) in caught.value.message
    assert "partition 'dt=2024-03-01'" in caught.value.message
    assert caught.value.hint


def test_an_external_file_with_other_rows_is_never_stitched(tmp_path: Path, write_slice: WriteSlice) -> None:
    file_slice = write_slice(tmp_path, _numbers(20))
    assert file_slice.external_file is not None
    path = Path(file_slice.external_file.path)
    pq.write_table(_numbers(19), path, store_schema=False)
    changed = replace(file_slice, external_file=replace(file_slice.external_file, length=path.stat().st_size))
    changed = replace(changed, accepts_changed_source=True)
    with pytest.raises(SourceChangedError, match=r"has 19 rows, but its skeleton .* has 20"):
        _read(changed, pa.schema([KEY, ("n", pa.int32())]))


def test_log_files_are_refused_without_the_tables_rule(tmp_path: Path, write_slice: WriteSlice) -> None:
    file_slice = write_slice(tmp_path, _numbers(3))
    log = LogFile("/x", 1, file_slice.file_id, file_slice.base_instant_time, 1, "0-0-0")
    with pytest.raises(UnsupportedTableError, match="log files"):
        _read(replace(file_slice, log_files=(log,)), pa.schema([("n", pa.int32())]))


def test_a_broken_skeleton_is_a_corrupt_table(tmp_path: Path, write_slice: WriteSlice) -> None:
    file_slice = write_slice(tmp_path, _numbers(3))
    assert file_slice.base_file is not None
    Path(file_slice.base_file.path).write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(CorruptTableError, match=file_slice.file_id):
        _read(file_slice, pa.schema([KEY, ("n", pa.int32())]))


def test_a_column_of_another_type_names_file_column_and_types(
    tmp_path: Path, write_slice: WriteSlice
) -> None:
    file_slice = write_slice(tmp_path, pa.table({"n": ["not a number"]}))
    with pytest.raises(SourceChangedError, match=r"part-0\.parquet.*column 'n' is string.*int32"):
        _read(file_slice, pa.schema([("n", pa.int32())]))
