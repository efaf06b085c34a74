"""Finds the file groups of a flush's keys by the indexes in memory, and adds the written keys to these.

A merge-on-read table whose metadata table has a record index needs none in memory: keys are found by that.
In partitions that are split the hash of a key is its file group. Merge-on-read then needs no look-up: rows go
to the bucket's log files, where keys may be that no base file has. Copy-on-write looks for the keys in their
bucket's file, by its bloom filter, since its rows are merged when they are written. Keys that other writers
put into file groups of their own are looked up in these. Keys of other partitions without an index are looked
up in the partition's file slices, by their bloom filters, as in other writes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.timeline.instant import Instant
from hudisql.ingest.index.partition_index import PartitionIndex, PendingKeys
from hudisql.ingest.index.partition_indexes import IndexLimits, NoIndexReason, PartitionIndexes
from hudisql.ingest.index.rebuild import written_keys
from hudisql.ingest.index.record_index_tag import tag_by_record_index
from hudisql.ingest.index.tag import find_in_partition, tag_keys
from hudisql.ingest.split.partition_split import PartitionSplit
from hudisql.ingest.split.table_splits import TableSplits
from hudisql.read.merge.merge_mode import log_merge_config_for
from hudisql.read.scan.record_skipping import record_index_of
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import file_slices_at, list_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.write.execution.driver_upsert import KeyLocations
from hudisql.write.execution.write_context import WrittenFile
from hudisql.write.index.slice_key_lookup import SliceLookup, find_keys

INDEX_BYTES_KEY = "hudisql.ingest.index_bytes"
"""Key of the extra metadata: what the indexes of the commit's partitions take, by path."""
_BYTES_PER_KEY = 8
# A row takes at least so much in a file; a partition with more is not read for an index.
_LEAST_ROW_BYTES = 16


class TableIndex:
    """The indexes of one table; not for several threads at once."""

    def __init__(self, limits: IndexLimits, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._limits = limits
        self._indexes = PartitionIndexes(limits)
        self._now = now
        self._tagged: dict[str, PartitionIndex] = {}
        self._record_index: MetadataTable | None = None
        self.splits = TableSplits()

    def begin(self, table: HudiTable, paths: Iterable[str]) -> Mapping[str, str]:
        """The extra metadata of a commit to these partitions: their splits and indexes.

        Raises CorruptTableError, StorageError.
        """
        paths = list(paths)
        self._record_index = record_index_of(table) if table.is_merge_on_read else None
        self.splits.refresh(table)
        self.splits.look_at(table, paths)
        for path in paths:
            self.splits.split_of(table, path)
        sizes = self._indexes.sizes()
        index_bytes = {path: sizes.get(path, 0) for path in paths}
        return {INDEX_BYTES_KEY: json.dumps(index_bytes), **self.splits.extra_metadata()}

    def tag(self, table: HudiTable, path: str, keys: pa.Array) -> KeyLocations | None:
        """The file group of each distinct key of the commit that `begin` was called for; null where the
        partition has none.

        None if the partition has no index. In a table whose rows are merged on write the keys themselves are
        compared, since only an existing row can be changed. Raises CorruptTableError, StorageError.
        """
        split = self.splits.split_of(table, path)
        if split is not None:
            return None if self.splits.is_mixed(split) else tag_by_hash(table, split, keys)
        if self._record_index is not None:
            file_ids = tag_by_record_index(self._record_index, path, keys)
            if file_ids is not None:
                # It would not learn the keys of this flush.
                self._indexes.forget(path)
                return KeyLocations(file_ids)
        is_seen = path in self._indexes.sizes() or path in self._indexes.without_index
        is_large = not is_seen and self._is_too_large(table, path)
        if is_large and self._limits.on_disk is None:
            return None
        index = self._indexes.get(table, path, self._now(), is_large=is_large)
        if index is None:
            return None
        self._tagged[path] = index
        compares = not table.is_merge_on_read or table.properties.bootstrap_base_path is not None
        return KeyLocations(tag_keys(index, keys, find_in_partition(table, path), compares=compares).file_ids)

    @property
    def nbytes(self) -> int:
        """Bytes that all indexes of the table take in memory."""
        return self._indexes.nbytes

    def learn(self, table: HudiTable, files: Sequence[WrittenFile], commit: Instant) -> None:
        """Add the keys of new rows, after the commit that wrote `files`. Raises StorageError."""
        pending: dict[str, PendingKeys] = {}
        written: dict[str, int] = defaultdict(int)
        for file in files:
            if file.log is not None:
                written[file.partition_path] += file.bytes
            else:
                # Its bytes may stand for those of an older file: they are counted again.
                self.splits.forget(file.partition_path)
            index = self._tagged.get(file.partition_path)
            if index is None or file.log is not None or not file.inserted:
                continue
            pending_keys = pending.setdefault(file.partition_path, PendingKeys(index))
            pending_keys.add_written(written_keys(table.storage, file.path), file.file_id)
        self._tagged = {}
        self._indexes.publish(pending.values(), commit)
        self.splits.grow(commit.timestamp, written)

    def drop_split(self, path: str, instant_time: str) -> None:
        """Drop the index of a partition that the commit at this instant has split."""
        self._indexes.drop(path, NoIndexReason.SPLIT)
        self.splits.forget(path)
        self.splits.grow(instant_time, {})

    def indexed(self) -> list[str]:
        """The paths of the partitions that have an index."""
        return list(self._indexes.sizes())

    def forget(self) -> None:
        """Drop all indexes."""
        self._tagged = {}
        self._indexes.close()
        self._indexes = PartitionIndexes(self._limits)
        self.splits = TableSplits()

    def _is_too_large(self, table: HudiTable, path: str) -> bool:
        slices = file_slices_at(table, [path])
        size = sum(file_slice.base_file.length for file_slice in slices if file_slice.base_file is not None)
        return size // _LEAST_ROW_BYTES * _BYTES_PER_KEY > self._limits.memory_bytes


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
    positions = [np.array([], np.int64)]
    if len(wanted):
        positions += [
            pc.index_in(held_keys, value_set=keys).to_numpy()
            for held_keys in _held(table, file_slice, wanted)
        ]
    return np.sort(np.concatenate(positions)).astype(np.int64)


def _held(table: HudiTable, file_slice: FileSlice, keys: pa.Array) -> Iterator[pa.Array]:
    lookup = SliceLookup(file_slice, log_merge_config=log_merge_config_for(table, [file_slice]))
    for batch in find_keys(table.storage, lookup, keys, prunes_by_footer=True):
        yield batch.column(0)


def _mask(at: np.ndarray, length: int) -> np.ndarray:
    mask = np.zeros(length, dtype=bool)
    mask[at] = True
    return mask
