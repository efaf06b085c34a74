from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.bootstrap.files.skeleton import KeyCheck, SkeletonEncoding, SkeletonFileTask, write_skeleton
from hudisql.errors import InvalidArgumentError, SourceChangedError, SourceError, StorageError
from hudisql.format.hfile.bootstrap_index import read_bootstrap_index
from hudisql.format.keys.bloom_filter import parse_bloom_filter
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.paths.file_names import base_file_name, parse_base_file_name
from hudisql.format.schema.meta_columns import META_COLUMNS, META_SCHEMA
from hudisql.storage import Storage

INSTANT = "00000000000001"
FILE_ID = "415333bd-d979-4d6e-a757-e26427b76ee6"


def _task(source: Path, directory: Path, **changes: Any) -> SkeletonFileTask:
    name = base_file_name(FILE_ID, "4-0-4", INSTANT)
    task = SkeletonFileTask(
        source=ExternalFile(str(source), source.stat().st_size, 0),
        target_path=str(directory / "table" / "dt=1" / name),
        file_id=FILE_ID,
        write_token="4-0-4",
        file_name=name,
        partition_path="dt=1",
        instant_time=INSTANT,
        task_partition_id=4,
        record_key_fields=("id",),
        complex_keys=False,
    )
    return dataclasses.replace(task, **changes)


def _source(directory: Path, rows: int, row_group_size: int = 1000, **columns: Any) -> Path:
    path = directory / "source.parquet"
    table = pa.table({"id": [f"k{n:06d}" for n in range(rows)], "other": np.arange(rows), **columns})
    pq.write_table(table, path, row_group_size=row_group_size)
    return path


@pytest.mark.parametrize("name", ["cow_bootstrap_meta", "cow_bootstrap_2part", "cow_bootstrap_meta_nonpart"])
def test_skeletons_hold_the_rows_and_footer_keys_that_apache_hudi_wrote(
    golden: Any, storage: Storage, tmp_path: Path, name: str
) -> None:
    table = golden(name).table
    index = read_bootstrap_index(storage, table)
    assert index
    for (partition, file_id), external in index.items():
        (expected_path,) = Path(table, partition).glob(f"{file_id}_*.parquet")
        parsed = parse_base_file_name(expected_path.name)
        assert parsed is not None
        with pq.ParquetFile(expected_path) as file:
            expected, expected_footer = file.read(), file.metadata.metadata
        task = _task(
            Path(external.path),
            tmp_path,
            target_path=str(tmp_path / expected_path.name),
            file_id=file_id,
            write_token=parsed.write_token,
            file_name=expected_path.name,
            partition_path=partition,
            task_partition_id=int(parsed.write_token.split("-")[0]),
            bloom_entries=60_000,
            bloom_fpp=1e-9,
        )
        result = write_skeleton(storage, task)
        with pq.ParquetFile(result.path) as file:
            assert file.read().equals(expected)
            assert file.metadata.metadata == expected_footer
        assert result.bytes == Path(result.path).stat().st_size < expected_path.stat().st_size
        assert result.rows == expected.num_rows
        assert result.min_key == expected_footer[b"hoodie_min_record_key"].decode()


def test_row_groups_follow_the_source_and_filters_are_sized_to_the_file(
    storage: Storage, tmp_path: Path
) -> None:
    source = _source(tmp_path, 2500)
    result = write_skeleton(storage, _task(source, tmp_path))
    with pq.ParquetFile(result.path) as skeleton:
        footer = skeleton.metadata
        groups = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
        rows = skeleton.read()
    assert groups == [1000, 1000, 500]
    assert rows.schema.remove_metadata() == META_SCHEMA
    assert rows.column("_hoodie_commit_seqno")[2499].as_py() == f"{INSTANT}_4_2499"
    assert rows.column("_hoodie_record_key").to_pylist() == [f"k{n:06d}" for n in range(2500)]
    bloom_filter = parse_bloom_filter(footer.metadata[b"org.apache.hudi.bloomfilter"])
    assert (bloom_filter.entries_per_row, bloom_filter.keys_in_current_row) == (2500, 2500)
    assert bloom_filter.might_contain(rows.column("_hoodie_record_key")).all()
    schema = json.loads(footer.metadata[b"parquet.avro.schema"])
    assert [field["name"] for field in schema["fields"]] == list(META_COLUMNS)
    assert (result.min_key, result.max_key) == ("k000000", "k002499")
    assert (result.row_groups, result.source_bytes) == (3, source.stat().st_size)


def test_the_default_form_is_one_that_hive_reads(storage: Storage, tmp_path: Path) -> None:
    result = write_skeleton(storage, _task(_source(tmp_path, 1000), tmp_path))
    group = pq.read_metadata(result.path).row_group(0)
    for number in range(5):
        column = group.column(number)
        assert column.compression == "GZIP"
        assert set(column.encodings) <= {"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY"}
    assert group.column(0).total_compressed_size < 200
    assert b"ARROW:schema" not in pq.read_metadata(result.path).metadata


def test_sorted_keys_take_less_than_ten_bytes_a_row(storage: Storage, tmp_path: Path) -> None:
    source = _source(tmp_path, 200_000, row_group_size=100_000)
    result = write_skeleton(storage, _task(source, tmp_path))
    assert result.bytes / result.rows < 8
    compact = write_skeleton(storage, _task(source, tmp_path, codec="zstd", encoding=SkeletonEncoding.DELTA))
    assert compact.bytes / compact.rows < 3
    assert pq.read_table(compact.path).num_rows == 200_000


def test_batches_within_a_large_row_group_become_one_row_group(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = _source(tmp_path, 2000)
    whole = write_skeleton(storage, _task(source, tmp_path))
    rows, footer = pq.read_table(whole.path), pq.read_metadata(whole.path).metadata
    monkeypatch.setattr("hudisql.bootstrap.files.skeleton._BATCH_ROWS", 300)
    batched = write_skeleton(storage, _task(source, tmp_path))
    assert pq.read_metadata(batched.path).num_row_groups == 2
    assert pq.read_table(batched.path).equals(rows)
    assert pq.read_metadata(batched.path).metadata == footer


def test_a_file_without_rows_gets_a_skeleton_without_rows(storage: Storage, tmp_path: Path) -> None:
    result = write_skeleton(storage, _task(_source(tmp_path, 0), tmp_path))
    footer = pq.read_metadata(result.path)
    assert (result.rows, footer.num_rows, result.min_key) == (0, 0, None)
    assert parse_bloom_filter(footer.metadata[b"org.apache.hudi.bloomfilter"]).keys_in_current_row == 0


def test_null_and_empty_keys_are_counted_with_samples(storage: Storage, tmp_path: Path) -> None:
    ids = [None if n % 100 == 7 else "" if n == 1500 else f"k{n}" for n in range(2000)]
    source = _source(tmp_path, 2000, id=ids)
    result = write_skeleton(storage, _task(source, tmp_path))
    assert result.null_keys == 21
    assert result.null_key_samples == (7, 107, 207, 307, 407)
    unchecked = write_skeleton(storage, _task(source, tmp_path, key_check=KeyCheck.NONE))
    assert (unchecked.null_keys, unchecked.null_key_samples) == (0, ())


def test_composite_and_nested_keys_read_only_their_columns(storage: Storage, tmp_path: Path) -> None:
    nested = pa.array([{"b": n, "c": "x"} for n in range(10)])
    source = _source(tmp_path, 10, a=nested)
    task = _task(source, tmp_path, record_key_fields=("id", "a.b"), complex_keys=True)
    keys = pq.read_table(write_skeleton(storage, task).path).column("_hoodie_record_key").to_pylist()
    assert keys == [f"id:k{n:06d},a.b:{n}" for n in range(10)]


def test_smallest_and_greatest_key_are_those_of_javas_order(storage: Storage, tmp_path: Path) -> None:
    # Java compares UTF-16 units: the emoji (D83D DE42) comes before U+FF5E, in UTF-8 it comes after.
    ids = ["\uff5e", "🙂", "é"]
    result = write_skeleton(storage, _task(_source(tmp_path, 3, id=ids), tmp_path))
    assert (result.min_key, result.max_key) == ("é", "\uff5e")
    split = _source(tmp_path, 3, row_group_size=1, id=ids)
    result = write_skeleton(storage, _task(split, tmp_path))
    assert (result.min_key, result.max_key) == ("é", "\uff5e")


def test_int96_timestamps_of_any_year_are_keys(storage: Storage, tmp_path: Path) -> None:
    path = tmp_path / "int96.parquet"
    moments = pa.array([253_402_300_799_000_000, -62_135_596_800_000_000], pa.timestamp("us"))
    pq.write_table(pa.table({"id": moments}), path, use_deprecated_int96_timestamps=True)
    keys = pq.read_table(write_skeleton(storage, _task(path, tmp_path)).path).column("_hoodie_record_key")
    assert keys.to_pylist() == ["253402300799000000", "-62135596800000000"]


def test_a_source_that_changed_since_the_plan_is_refused(storage: Storage, tmp_path: Path) -> None:
    source = _source(tmp_path, 10)
    task = _task(source, tmp_path)
    _source(tmp_path, 20)
    with pytest.raises(SourceChangedError, match=r"source\.parquet changed"):
        write_skeleton(storage, task)
    source.unlink()
    with pytest.raises(SourceChangedError, match=r"source\.parquet was removed"):
        write_skeleton(storage, task)
    assert not Path(task.target_path).exists()


def test_unusable_sources_and_keys_are_named_and_leave_nothing(storage: Storage, tmp_path: Path) -> None:
    source = _source(tmp_path, 10)
    with pytest.raises(SourceError, match="key column 'nope' is not in"):
        write_skeleton(storage, _task(source, tmp_path, record_key_fields=("nope",)))
    with pytest.raises(SourceError, match=r"key column 'id\.x' is not in"):
        write_skeleton(storage, _task(source, tmp_path, record_key_fields=("id.x",)))
    binary = _source(tmp_path, 2, id=[b"a", b"b"])
    with pytest.raises(InvalidArgumentError, match="cannot be a record key"):
        write_skeleton(storage, _task(binary, tmp_path))
    text = tmp_path / "text.parquet"
    text.write_text("this is no parquet file")
    with pytest.raises(SourceError, match=r"cannot read .*text\.parquet as parquet"):
        write_skeleton(storage, _task(text, tmp_path))
    assert not list(tmp_path.rglob("*_00000000000001.parquet"))


def test_a_source_whose_pages_are_damaged_leaves_no_skeleton(storage: Storage, tmp_path: Path) -> None:
    source = _source(tmp_path, 50_000, row_group_size=25_000)
    content = bytearray(source.read_bytes())
    start = pq.read_metadata(source).row_group(1).column(0).data_page_offset
    content[start : start + 64] = bytes(64)
    source.write_bytes(content)
    task = _task(source, tmp_path)
    with pytest.raises(SourceError, match=r"cannot read .*source\.parquet"):
        write_skeleton(storage, task)
    assert not Path(task.target_path).exists()


def test_a_target_that_cannot_be_written_is_named(storage: Storage, tmp_path: Path) -> None:
    source = _source(tmp_path, 10)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(StorageError, match="file/skeleton"):
        write_skeleton(storage, _task(source, tmp_path, target_path=str(blocked / "skeleton.parquet")))


def test_the_source_is_not_touched(storage: Storage, tmp_path: Path) -> None:
    source = _source(tmp_path, 1000)
    before = (source.read_bytes(), source.stat().st_mtime_ns)
    write_skeleton(storage, _task(source, tmp_path))
    assert (source.read_bytes(), source.stat().st_mtime_ns) == before
