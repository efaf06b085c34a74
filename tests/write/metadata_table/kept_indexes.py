"""What holds of a metadata table that hudisql keeps."""

from __future__ import annotations

import pyarrow as pa

from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from hudisql.format.metadata_table.record_locations import FileGroup
from hudisql.read.merge.merge_mode import log_merge_config_of
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.table.metadata_table.record_lookup import find_records
from hudisql.write.metadata_table.key_changes import keys_of_slice


def stored_keys(table: HudiTable) -> dict[str, FileGroup]:
    """The file group of each record key of the table."""
    config = log_merge_config_of(table)
    return {
        key: (each.partition_path, each.file_id)
        for each in load_file_slices(table)
        for key in keys_of_slice(table.storage, config, each).to_pylist()
    }


def assert_finds_all_keys(metadata: MetadataTable) -> None:
    """The record index has the place of each key, and no other keys."""
    places = stored_keys(metadata.table)
    found = find_records(metadata, pa.array(list(places), pa.string()))
    assert [found.groups[number] if number >= 0 else None for number in found.numbers] == [*places.values()]
    assert metadata.read_records(RECORD_INDEX).keys.to_pylist() == sorted(places)


def assert_finds_all_rows_by_partition(metadata: MetadataTable) -> None:
    """The partitioned record index has the place of each key in each partition, and no other keys."""
    table = metadata.table
    config = log_merge_config_of(table)
    stored = sorted(
        (file_slice.partition_path, key, file_slice.file_id)
        for file_slice in load_file_slices(table)
        for key in keys_of_slice(table.storage, config, file_slice).to_pylist()
    )
    paths, keys, file_ids = zip(*stored, strict=True)
    found = find_records(metadata, pa.array(keys), pa.array(paths))
    places = [found.groups[number] if number >= 0 else None for number in found.numbers]
    assert places == list(zip(paths, file_ids, strict=True))
    records = metadata.read_records(RECORD_INDEX)
    indexed = zip(records.values.to_pylist(), records.keys.to_pylist(), strict=True)
    assert sorted((value["partitionName"], key) for value, key in indexed) == list(
        zip(paths, keys, strict=True)
    )
