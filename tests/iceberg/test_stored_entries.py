"""Entries that are copied as bytes are those that are encoded again."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestContent, ManifestFile

from hudisql.iceberg.manifest_files import (
    DATA,
    PartitionField,
    added_entry,
    deleted_entry,
    read_records,
    write_manifest,
)
from hudisql.iceberg.stored_entries import StoredFile, read_entries

PARTITION = [PartitionField("day", 2, 1000, "date"), PartitionField("city", 3, 1001, "string")]
SCHEMA: dict[str, Any] = {"type": "struct", "schema-id": 0, "fields": []}


def data_file(number: int) -> dict[str, Any]:
    counts = [{"key": column, "value": number * 100 + column} for column in (1, 4)]
    bounds = [{"key": 1, "value": number.to_bytes(8, "little")}]
    return {
        "content": DATA,
        "file_path": f"file:/t/ü={number}.parquet",
        "file_format": "PARQUET",
        "partition": {"day": date(1969, 12, number + 1), "city": None if number % 2 else "a b"},
        "record_count": number,
        "file_size_in_bytes": number * 1000,
        "column_sizes": counts,
        "value_counts": counts,
        "null_value_counts": [],
        "lower_bounds": bounds,
        "upper_bounds": bounds if number else [],
        "split_offsets": [4],
        "sort_order_id": None,
        "referenced_data_file": None,
    }


def manifest(*numbers: int) -> bytes:
    return write_manifest([added_entry(data_file(number), 7) for number in numbers], SCHEMA, PARTITION, DATA)


def test_copied_entries_are_read_as_those_written_before() -> None:
    first = write_manifest(
        [added_entry(data_file(number), 7) for number in range(20)], SCHEMA, PARTITION, DATA
    )
    stored = read_entries(first)
    assert all(isinstance(entry["data_file"], StoredFile) for entry in stored)
    assert [entry["data_file"]["file_path"] for entry in stored] == [
        data_file(number)["file_path"] for number in range(20)
    ]
    assert [{**entry, "data_file": dict(entry["data_file"])} for entry in stored] == read_records(first)
    numbers = {"sequence_number": 1, "file_sequence_number": 1}
    entries = [{**entry, **numbers, "status": 0} for entry in stored[:-1]]
    entries += [added_entry(data_file(20), 8), deleted_entry({**stored[-1], **numbers}, 8)]
    again = read_records(write_manifest(entries, SCHEMA, PARTITION, DATA))
    assert [entry["data_file"] for entry in again] == [data_file(number) for number in (*range(19), 20, 19)]
    assert [entry["status"] for entry in again] == [*[0] * 19, 1, 2]
    assert [entry["snapshot_id"] for entry in again] == [*[7] * 19, 8, 8]
    assert [entry["sequence_number"] for entry in again] == [*[1] * 19, None, 1]


def test_entries_of_another_schema_are_encoded_again() -> None:
    first = manifest(3)
    fewer = PARTITION[:1]
    [entry] = read_entries(first)
    assert read_records(write_manifest([entry], SCHEMA, fewer, DATA)) == [
        {**added_entry({**data_file(3), "partition": {"day": date(1969, 12, 4)}}, 7)}
    ]


def test_pyiceberg_reads_a_manifest_with_copied_entries(tmp_path: Any) -> None:
    first = write_manifest(
        [added_entry(data_file(number), 7) for number in range(3)], SCHEMA, PARTITION, DATA
    )
    path = tmp_path / "m0.avro"
    numbers = {"sequence_number": 1, "file_sequence_number": 1}
    path.write_bytes(
        write_manifest([{**entry, **numbers} for entry in read_entries(first)], SCHEMA, PARTITION, DATA)
    )
    manifest = ManifestFile.from_args(
        manifest_path=str(path),
        manifest_length=path.stat().st_size,
        partition_spec_id=0,
        content=ManifestContent.DATA,
        sequence_number=1,
        min_sequence_number=1,
        added_snapshot_id=7,
    )
    entries = manifest.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False)
    assert [entry.data_file.record_count for entry in entries] == [0, 1, 2]
    assert [entry.data_file.file_path for entry in entries] == [f"file:/t/ü={n}.parquet" for n in range(3)]
    assert entries[1].data_file.column_sizes == {1: 101, 4: 104}


def test_a_manifest_that_is_cut_short_is_an_error() -> None:
    content = manifest(3)
    for length in (3, 100, len(content) - 20):
        with pytest.raises(ValueError):
            read_entries(content[:length])
