"""Look record keys up in the index `record_index` of a metadata table.

Follows `HoodieBackedTableMetadata.readRecordIndex` of Hudi 0.15 and 1.2: a hash of the key tells the file
group of the index, of whose base file only the blocks that may hold the keys are read. An index with file
groups for each partition of the table is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.errors import UnsupportedTableError
from hudisql.format.hfile.hfile import HFileReader
from hudisql.format.keys.key_table import KeyTable
from hudisql.format.log_file.log_block import BlockType
from hudisql.format.log_file.log_block_content import decode_delete_records
from hudisql.format.metadata_table.metadata_keys import file_groups_of
from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from hudisql.format.metadata_table.record_locations import (
    NOT_FOUND,
    FileGroup,
    LocatedKeys,
    RecordLocations,
    read_located_keys,
)
from hudisql.table.file_slice import FileSlice
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.table.metadata_table.recent_lookups import RecentLookups
from hudisql.table.slicing.committed_blocks import committed_blocks

_FILE_ID: Final = re.compile(r"record-index-(\d{4,})-0", re.ASCII)
_THREADS: Final = 16
_recent: Final = RecentLookups()


def has_readable_record_index(metadata: MetadataTable) -> bool:
    """True if the table has an index of all its records whose file groups are all there."""
    if RECORD_INDEX not in metadata.indexes:
        return False
    slices = metadata.latest_slices(RECORD_INDEX)
    numbers = [_FILE_ID.fullmatch(file_slice.file_id) for file_slice in slices]
    return bool(slices) and [None if number is None else int(number[1]) for number in numbers] == list(
        range(len(slices))
    )


def find_records(metadata: MetadataTable, keys: pa.Array) -> RecordLocations:
    """Where the rows with these record keys (texts) are; a key may occur several times.

    Raises UnsupportedTableError if the table has no such index, CorruptTableError, StorageError.
    """
    if not has_readable_record_index(metadata):
        raise UnsupportedTableError(
            f"the metadata table of {metadata.table.base_path} has no index {RECORD_INDEX} of the whole table"
        )
    slices = metadata.latest_slices(RECORD_INDEX)
    # Files of an index that was made again may have the names of the former ones.
    state = (tuple(slices), metadata.counted_instants, metadata.table.timeline.completed)
    return _recent.find(
        metadata.own.base_path, state, keys, lambda asked: _find_in_slices(metadata, slices, asked)
    )


def _find_in_slices(metadata: MetadataTable, slices: Sequence[FileSlice], keys: pa.Array) -> RecordLocations:
    of_group = file_groups_of(keys, len(slices))
    rows = [np.flatnonzero(of_group == number) for number in range(len(slices))]
    wanted = [number for number in range(len(slices)) if len(rows[number])]
    with ThreadPoolExecutor(_THREADS) as pool:
        found = pool.map(
            lambda number: _find_in_group(metadata, slices[number], keys.take(pa.array(rows[number]))),
            wanted,
        )
        return _together(
            len(keys), [(rows[number], each) for number, each in zip(wanted, found, strict=True)]
        )


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
    for layer in _layers(metadata, file_slice, keys):
        if isinstance(layer, pa.Array):
            numbers[KeyTable(layer).find(keys) >= 0] = NOT_FOUND
            continue
        at = KeyTable(layer.keys).find(keys)
        is_found = at >= 0
        numbers[is_found] = layer.locations.numbers[at[is_found]] + len(groups)
        inserted[is_found] = layer.locations.inserted[at[is_found]]
        groups += layer.locations.groups
    return RecordLocations(tuple(groups), numbers, inserted)


def _layers(
    metadata: MetadataTable, file_slice: FileSlice, keys: pa.Array
) -> Iterator[LocatedKeys | pa.Array]:
    """What the base file and each block of the log files, the oldest first, say of the keys.

    An array has deleted keys.
    """
    storage, base_file = metadata.own.storage, file_slice.base_file
    if base_file is not None:
        with storage.open_input(base_file.path, base_file.length) as source:
            reader = HFileReader(source, base_file.length, base_file.path)
            yield read_located_keys(reader, base_file.path, keys)
    for log_file, block in committed_blocks(storage, file_slice.log_files, metadata.counts):
        if block.block_type is BlockType.DELETE:
            yield decode_delete_records(block.content).record_keys
        elif block.block_type is BlockType.HFILE_DATA:
            reader = HFileReader(BytesIO(block.content), len(block.content), log_file.path)
            yield read_located_keys(reader, log_file.path, keys)
        else:
            raise UnsupportedTableError(
                f"cannot read the log file {log_file.path} of a metadata table: it has a block of the type "
                f"{block.block_type.name}"
            )
