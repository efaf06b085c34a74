"""Look record keys up in the index `record_index` of a metadata table.

Follows `HoodieBackedTableMetadata.readRecordIndex` of Hudi 0.15 and 1.2: a hash of the key tells the file
group of the index, of whose base file only the blocks that may hold the keys are read. In a partitioned index
it is one of the file groups of the key's partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import UnsupportedTableError
from hudisql.format.keys.key_table import KeyTable
from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from hudisql.format.metadata_table.record_locations import (
    NOT_FOUND,
    RecordLocations,
    read_located_keys,
)
from hudisql.format.paths.file_names import FileGroup
from hudisql.storage.parallel_reads import read_many
from hudisql.table.file_slice import FileSlice
from hudisql.table.metadata_table.kept_metadata_table import has_partitioned_records
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.table.metadata_table.recent_lookups import RecentLookups
from hudisql.table.metadata_table.record_groups import (
    NO_PARTITIONS,
    RecordGroups,
    record_groups,
    rows_by_group,
)

_recent: Final = RecentLookups()


def record_index_groups(metadata: MetadataTable) -> RecordGroups | None:
    """The file groups of the record index; None without one, or if they are not all there."""
    if RECORD_INDEX not in metadata.indexes:
        return None
    slices = metadata.latest_slices(RECORD_INDEX)
    if not slices and has_partitioned_records(metadata.table):
        return NO_PARTITIONS
    return record_groups([file_slice.file_id for file_slice in slices])


def find_records(metadata: MetadataTable, keys: pa.Array, paths: pa.Array | None = None) -> RecordLocations:
    """Where the rows with these record keys (texts) are; a key may occur several times.

    A partitioned index is asked with the path of each key's partition. Raises UnsupportedTableError if the
    table has no such index, CorruptTableError, StorageError.
    """
    groups = record_index_groups(metadata)
    if groups is None or groups.is_partitioned != (paths is not None):
        extent = "the whole table" if paths is None else "each partition"
        raise UnsupportedTableError(
            f"the metadata table of {metadata.table.base_path} has no index {RECORD_INDEX} of {extent}"
        )
    encoded = paths if paths is None else paths.dictionary_encode()
    # Files of an index that was made again may have the names of the former ones.
    slices = tuple(metadata.latest_slices(RECORD_INDEX))
    state = (slices, metadata.counted_instants, metadata.table.timeline.completed)
    return _recent.find(
        metadata.own.base_path,
        state,
        keys if encoded is None else keys_in_partitions(keys, encoded),
        lambda rows: _find_in_groups(
            metadata, groups, keys.take(rows), None if encoded is None else encoded.take(rows)
        ),
    )


def keys_in_partitions(keys: pa.Array, paths: pa.Array) -> pa.Array:
    """Texts that are equal for equal keys in the same partition alone; `paths` as in `RecordGroups`."""
    names = paths.dictionary.cast(keys.type).take(paths.indices)
    return pc.binary_join_element_wise(names, keys, pa.scalar("\0", keys.type))


def _find_in_groups(
    metadata: MetadataTable, groups: RecordGroups, keys: pa.Array, paths: pa.Array | None
) -> RecordLocations:
    slices = {file_slice.file_id: file_slice for file_slice in metadata.latest_slices(RECORD_INDEX)}
    rows = rows_by_group(groups.numbers_of(keys, paths))
    found = read_many(
        lambda number: _find_in_group(
            metadata, slices[groups.file_ids[number]], keys.take(pa.array(rows[number]))
        ),
        rows,
    )
    return _together(len(keys), list(zip(rows.values(), found, strict=True)))


def _together(count: int, parts: Sequence[tuple[npt.NDArray[np.int64], RecordLocations]]) -> RecordLocations:
    groups: dict[FileGroup, int] = {}
    numbers, inserted = np.full(count, NOT_FOUND, np.int64), np.zeros(count, np.int64)
    for rows, part in parts:
        named = [groups.setdefault(group, len(groups)) for group in part.groups]
        # The last one stands for NOT_FOUND.
        numbers[rows] = np.array([*named, NOT_FOUND])[part.numbers]
        inserted[rows] = part.inserted
    return RecordLocations(tuple(groups), numbers, inserted)


def _find_in_group(metadata: MetadataTable, file_slice: FileSlice, keys: pa.Array) -> RecordLocations:
    groups: list[FileGroup] = []
    numbers, inserted = np.full(len(keys), NOT_FOUND, np.int64), np.zeros(len(keys), np.int64)
    for name, layer in metadata.open_layers(file_slice):
        if isinstance(layer, pa.Array):
            numbers[KeyTable(layer).find(keys) >= 0] = NOT_FOUND
            continue
        located = read_located_keys(layer, name, keys)
        at = KeyTable(located.keys).find(keys)
        is_found = at >= 0
        numbers[is_found] = located.locations.numbers[at[is_found]] + len(groups)
        inserted[is_found] = located.locations.inserted[at[is_found]]
        groups += located.locations.groups
    return RecordLocations(tuple(groups), numbers, inserted)
