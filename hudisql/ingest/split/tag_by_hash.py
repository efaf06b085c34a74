"""Tagging in a partition that is split: a key's bucket is its file group, without an index.

Merge-on-read needs no look-up: rows go to the bucket's log files, where keys may be that no base file has.
Copy-on-write looks for the keys in their bucket's file, by its bloom filter, since its rows are merged when
they are written. Keys that other writers put into file groups of their own are looked up in these.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.ingest.split.partition_split import PartitionSplit
from hudisql.read.merge.merge_mode import log_merge_config_of
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import list_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.write.execution.driver_upsert import KeyLocations
from hudisql.write.index.slice_key_lookup import SliceLookup, find_keys


def tag_by_hash(table: HudiTable, split: PartitionSplit, keys: pa.Array) -> KeyLocations:
    """The file group of each of the distinct keys. Raises StorageError."""
    file_ids = split.file_ids_of(keys, table.properties.record_key_fields)
    if table.is_merge_on_read and not split.foreign:
        return KeyLocations(file_ids)
    is_stored = np.full(len(keys), table.is_merge_on_read)
    for file_slice in list_file_slices(table, [split.path], None):
        if file_slice.file_id in split.foreign:
            at = _positions(table, file_slice, keys, keys)
            is_stored[at] = True
            file_ids = pc.replace_with_mask(
                file_ids, pa.array(_mask(at, len(keys))), pa.repeat(pa.scalar(file_slice.file_id), len(at))
            )
        elif not table.is_merge_on_read:
            own = keys.filter(pc.equal(file_ids, file_slice.file_id))
            is_stored[_positions(table, file_slice, own, keys)] = True
    return KeyLocations(file_ids, is_stored)


def _positions(table: HudiTable, file_slice: FileSlice, wanted: pa.Array, keys: pa.Array) -> np.ndarray:
    """The positions in `keys` of the `wanted` keys that the slice holds."""
    found = [np.array([], np.int64)]
    if len(wanted):
        found += [pc.index_in(each, value_set=keys).to_numpy() for each in _held(table, file_slice, wanted)]
    return np.sort(np.concatenate(found)).astype(np.int64)


def _held(table: HudiTable, file_slice: FileSlice, keys: pa.Array) -> Iterator[pa.Array]:
    config = log_merge_config_of(table) if file_slice.has_log_files else None
    lookup = SliceLookup(file_slice, log_merge_config=config)
    for batch in find_keys(table.storage, lookup, keys, prunes_by_footer=True):
        yield batch.column(0)


def _mask(at: np.ndarray, length: int) -> np.ndarray:
    mask = np.zeros(length, dtype=bool)
    mask[at] = True
    return mask
