"""Look-ups of record keys in metadata tables that Apache Hudi wrote."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import UnsupportedTableError
from hudisql.read.merge.merge_mode import log_merge_config_for
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.metadata_table.metadata_table import MetadataTable, open_metadata_table
from hudisql.table.metadata_table.record_lookup import find_records, record_index_groups
from hudisql.write.index.slice_key_lookup import SliceLookup, read_keys
from tests.opened import open_at

KEYS = pa.array([f"k{number:04}" for number in range(40)] * 2)
GOLDEN = Path(__file__).parents[2] / "golden"


def _open(path: str | Path) -> MetadataTable:
    metadata = open_metadata_table(open_at(path))
    assert metadata is not None
    return metadata


@pytest.mark.parametrize("name", ["v6_mor_mdt_logs", "v9_cow_mdt_compacted"])
def test_every_key_is_found_where_it_is(golden: Callable[[str], Any], name: str) -> None:
    metadata = _open(golden(name).table)
    slices = load_file_slices(metadata.table)
    config = log_merge_config_for(metadata.table, slices)
    stored = {
        key: (file_slice.partition_path, file_slice.file_id)
        for file_slice in slices
        for batch in read_keys(metadata.own.storage, SliceLookup(file_slice, log_merge_config=config))
        for key in batch.column(0).to_pylist()
    }
    # Also keys that are deleted, and keys that never were there.
    keys = KEYS.to_pylist()
    assert set(stored) < set(keys)
    found = find_records(metadata, KEYS)
    located = [None if number < 0 else found.groups[number] for number in found.numbers]
    assert located == [stored.get(key) for key in keys]
    records = json.loads((GOLDEN / f"{name}.json").read_text())["mdt"]["partitions"]["record_index"]
    inserted = {record["key"]: record["recordIndexMetadata"]["instantTime"] for record in records}
    assert [each for key, each in zip(keys, found.inserted, strict=True) if key in stored] == [
        inserted[key] for key in keys if key in stored
    ]


def test_an_index_with_groups_of_each_partition_is_read_by_key_and_partition(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    whole = find_records(_open(golden("v9_cow_mdt_compacted").table), KEYS)
    path = shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / "table")
    for file in Path(path, ".hoodie/metadata/record_index").glob("*record-index-*"):
        file.rename(file.with_name(file.name.replace("record-index-", "record-index-dt%3D1-")))
    metadata = _open(path)
    groups = record_index_groups(metadata)
    assert groups is not None
    assert groups.is_partitioned
    with pytest.raises(UnsupportedTableError, match="no index record_index of the whole table"):
        find_records(metadata, KEYS)
    # The keys that were looked up before are not taken for those of another partition.
    for paths in (["dt=1"], ["dt=2"], ["dt=1", "dt=2"], ["dt=2", "dt=1"]):
        of_keys = [paths[row % len(paths)] for row in range(len(KEYS))]
        found = find_records(metadata, KEYS, pa.array(of_keys))
        expected = [
            None if path == "dt=2" or number < 0 else whole.groups[number]
            for path, number in zip(of_keys, whole.numbers, strict=True)
        ]
        assert [None if number < 0 else found.groups[number] for number in found.numbers] == expected
