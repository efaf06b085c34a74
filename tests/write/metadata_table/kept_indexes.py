"""What holds of a metadata table that hudisql keeps."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from hudisql.format.metadata_table.column_bounds import ColumnBounds, bounds_by_key, merged_bounds
from hudisql.format.metadata_table.metadata_keys import file_key_part, key_parts, partition_key_part
from hudisql.format.metadata_table.metadata_records import (
    COLUMN_STATS,
    PARTITION_STATS,
    RECORD_INDEX,
)
from hudisql.format.metadata_table.value_types import value_kind
from hudisql.format.paths.file_names import FileGroup
from hudisql.format.schema.meta_columns import META_SCHEMA
from hudisql.read.merge.merge_mode import log_merge_config_for, log_merge_config_of
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.kept_metadata_table import has_first_form
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
    assert groups_with_left_out_keys(metadata) == set()


def groups_with_left_out_keys(metadata: MetadataTable) -> set[FileGroup]:
    """The file groups with keys that the record index lacks; of the others it has the places, and no more."""
    places = stored_keys(metadata.table)
    found = find_records(metadata, pa.array(list(places), pa.string()))
    indexed = {
        key: found.groups[number] for key, number in zip(places, found.numbers, strict=True) if number >= 0
    }
    wrong = {key: (group, places[key]) for key, group in indexed.items() if group != places[key]}
    assert wrong == {}, wrong
    assert metadata.read_records(RECORD_INDEX).keys.to_pylist() == sorted(indexed)
    return {places[key] for key in places.keys() - indexed.keys()}


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


def assert_bounds_hold(metadata: MetadataTable, *, has_odd_values: bool = False) -> None:
    """The bounds of the files of each slice enclose the values of all its rows, before they are merged.

    So do the bounds of each partition those of all its slices: where files `has_odd_values` (long texts, NaN)
    and Apache Hudi leaves their bounds out, those of the columns that queries of hudisql ask.
    """
    table = metadata.table
    slices = load_file_slices(table)
    config = log_merge_config_for(table, slices)
    is_in_paths = table.properties.bootstrap_base_path or table.dropped_columns
    in_paths = set(table.properties.partition_fields if is_in_paths else ())
    for column in (*META_SCHEMA, *table.schema):
        if value_kind(column.type) is None or column.name in in_paths:
            continue
        part, bounds = _bounds_of(metadata, COLUMN_STATS, column)
        by_partition: dict[str, list[Any]] = {}
        for found in slices:
            read = SliceRead(found, pa.schema([column]), log_merge_config=config)
            values = [
                value
                for batch in read_file_slice(table.storage, read)
                for value in pa.table(batch).column(0).to_pylist()
            ]
            partition = partition_key_part(found.partition_path)
            by_partition.setdefault(partition, []).extend(values)
            names = [file.path.rpartition("/")[2] for file in (found.base_file, *found.log_files) if file]
            known = [bounds.get(f"{part}{partition}{file_key_part(name)}") for name in names]
            if None not in known:
                whole = merged_bounds(bound for bound in known if bound is not None)
                assert _problem(whole, values) is None, (column.name, names, whole)
        if PARTITION_STATS in metadata.indexes and not (has_odd_values and _may_lack_bounds(table, column)):
            part, bounds = _bounds_of(metadata, PARTITION_STATS, column)
            for partition, values in by_partition.items():
                of_partition = bounds.get(f"{part}{partition}")
                if of_partition is not None:
                    problem = _problem(of_partition, values)
                    assert problem is None, (column.name, partition, of_partition, problem)


def _may_lack_bounds(table: HudiTable, column: pa.Field) -> bool:
    kind = column.type
    is_text = pa.types.is_string(kind) or pa.types.is_binary(kind)
    is_old_decimal = pa.types.is_decimal(kind) and has_first_form(table)
    return is_text or is_old_decimal or pa.types.is_floating(kind)


def _bounds_of(metadata: MetadataTable, index: str, column: pa.Field) -> tuple[str, dict[str, ColumnBounds]]:
    part = key_parts([column.name])[column.name]
    bounds: dict[str, ColumnBounds] = {}
    for layers in metadata.read_layers(index, [part]):
        bounds |= bounds_by_key(layers, column, in_first_form=has_first_form(metadata.table))
    return part, bounds


def _problem(bounds: ColumnBounds, values: list[Any]) -> str | None:
    numbers = [value for value in values if value is not None and not _is_nan(value)]
    if bounds.nulls == 0 and None in values:
        return "there are nulls"
    if bounds.is_empty and any(value is not None for value in values):
        return "there are values"
    if bounds.least is not None and numbers and min(numbers) < bounds.least:
        return f"{min(numbers)!r} is less"
    if bounds.greatest is not None and numbers and max(numbers) > bounds.greatest:
        return f"{max(numbers)!r} is greater"
    return None


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
