"""What holds of a metadata table that hudisql keeps."""

from __future__ import annotations

from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.table.metadata_table.record_lookup import find_records
from hudisql.write.metadata_table.key_changes import stored_keys


def assert_finds_all_keys(metadata: MetadataTable) -> None:
    """The record index has the place of each key, and no other keys."""
    slices = load_file_slices(metadata.table)
    placed = stored_keys(metadata.table, slices)
    found = find_records(metadata, placed.keys)
    places = [(slices[number].partition_path, slices[number].file_id) for number in placed.numbers]
    assert [found.groups[number] if number >= 0 else None for number in found.numbers] == places
    assert metadata.read_records(RECORD_INDEX).keys.to_pylist() == sorted(placed.keys.to_pylist())
