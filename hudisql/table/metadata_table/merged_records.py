"""The records of an index with those of one key merged, as a compaction of the metadata table merges them.

Follows `HoodieMetadataPayload.preCombine` of Hudi 1.2: of a key in `partition_stats` all records count, with
the range over them, of other indexes the newest one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.format.hfile.hfile_cells import EncodedCells, cells_of, read_cells
from hudisql.format.keys.key_table import KeyTable
from hudisql.format.metadata_table.merged_ranges import mergeable_range, merged_ranges
from hudisql.format.metadata_table.metadata_records import (
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    MetadataRecords,
    sorted_records,
)
from hudisql.format.metadata_table.metadata_writing import (
    ColumnRange,
    decode_own,
    in_own_schema,
    merge_file_records,
    merge_range_records,
)
from hudisql.table.file_slice import FileSlice
from hudisql.table.metadata_table.expression_indexes import is_expression
from hudisql.table.metadata_table.metadata_table import MetadataTable


def read_merged_records(metadata: MetadataTable, index: str) -> MetadataRecords:
    """The records of an index as its next compaction merges them, sorted by key.

    Raises UnsupportedTableError, CorruptTableError, StorageError.
    """
    groups = (merged_group(metadata, index, file_slice) for file_slice in metadata.latest_slices(index))
    return sorted_records([decode_own(cells, index) for cells in groups])


@dataclass(frozen=True, slots=True)
class RecordLayer:
    """The records of one base file or log block; without values the keys are deleted."""

    keys: pa.Array
    values: pa.Array | None


def merged_group(metadata: MetadataTable, index: str, file_slice: FileSlice) -> EncodedCells:
    """The records of a file group, in memory and in the schema in which hudisql writes them.

    Raises UnsupportedTableError if a log file has blocks of other kinds, CorruptTableError, StorageError.
    """
    return merge_layers(index, read_record_layers(metadata, file_slice))


def read_record_layers(metadata: MetadataTable, file_slice: FileSlice) -> list[RecordLayer]:
    """The records of a slice, the oldest layer first. Raises as `merged_group`."""
    layers = []
    for _, layer in metadata.open_layers(file_slice, at_once=True):
        if isinstance(layer, pa.Array):
            layers.append(RecordLayer(layer.cast(pa.large_string()), None))
        else:
            cells = read_cells(layer)
            layers.append(RecordLayer(cells.keys, in_own_schema(layer, cells.values)))
    return layers


def merge_layers(index: str, layers: Sequence[RecordLayer]) -> EncodedCells:
    """One record for each key of the index that the layers, the oldest first, do not delete in the end."""
    combine = _MERGED_RANGES if is_expression(index) else _COMBINED.get(index)
    if combine is not None:
        return cells_of(_combined(layers, combine))
    if not layers:
        return cells_of({})
    keys = pa.concat_arrays([layer.keys for layer in reversed(layers)])
    values = pa.concat_arrays(
        [
            pa.nulls(len(layer.keys), pa.large_binary()) if layer.values is None else layer.values
            for layer in reversed(layers)
        ]
    )
    # Of equal keys the first one is found: the newest.
    newest = KeyTable(keys).find(keys)
    is_newest = newest == np.arange(len(keys))
    if index == COLUMN_STATS and not is_newest.all():
        values = _with_merged_ranges(values, newest)
    lives = pa.array(is_newest & values.is_valid().to_numpy(zero_copy_only=False))
    distinct = values.filter(lives).dictionary_encode()
    numbers = distinct.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return EncodedCells(keys.filter(lives), numbers, distinct.dictionary.to_pylist())


def _with_merged_ranges(values: pa.LargeBinaryArray, newest: npt.NDArray[np.int64]) -> pa.LargeBinaryArray:
    """The records, the newest first, of which the newest of a key has the ranges of the older ones, too.

    Of version 6 a log file to which several deltacommits append has several records.
    """
    several: dict[int, list[int]] = {}
    for row in np.flatnonzero(newest != np.arange(len(newest))).tolist():
        several.setdefault(int(newest[row]), [int(newest[row])]).append(row)
    merged = {}
    for first, rows in several.items():
        records = list(takewhile(lambda record: record is not None, values.take(pa.array(rows)).to_pylist()))
        if len(records) > 1:
            merged[first] = merge_range_records(records[::-1], _merged_of_file)
    places = np.arange(len(values))
    places[list(merged)] = len(values) + np.arange(len(merged))
    return pa.concat_arrays([values, pa.array([*merged.values()], pa.large_binary())]).take(pa.array(places))


def _merged_of_file(ranges: Sequence[ColumnRange]) -> ColumnRange:
    """Hudi orders texts by UTF-16, hudisql by UTF-8."""
    return merged_ranges([mergeable_range(column_range) for column_range in ranges])


def _combined(layers: Sequence[RecordLayer], combine: Callable[[Sequence[bytes]], bytes]) -> dict[str, bytes]:
    """The records by key, of which several of one key are combined."""
    several: dict[str, list[bytes]] = {}
    for layer in layers:
        keys = layer.keys.to_pylist()
        if layer.values is None:
            for key in keys:
                several.pop(key, None)
            continue
        for key, record in zip(keys, layer.values.to_pylist(), strict=True):
            several.setdefault(key, []).append(record)
    return {key: records[0] if len(records) == 1 else combine(records) for key, records in several.items()}


_COMBINED: Final[Mapping[str, Callable[[Sequence[bytes]], bytes]]] = {
    FILES: merge_file_records,
    PARTITION_STATS: partial(merge_range_records, merge=merged_ranges),
}
"""How several records of a key are combined; in other indexes but `column_stats` the newest one holds."""
_MERGED_RANGES: Final = partial(merge_range_records, merge=_merged_of_file)
