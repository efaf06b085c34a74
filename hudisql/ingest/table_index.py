"""Finds the file groups of a flush's keys by the indexes in memory, and lets these learn what was written.

Keys of partitions without an index are looked up in the partition's file slices, by their bloom filters, as
in other writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pyarrow as pa

from hudisql.format.instant import Instant
from hudisql.ingest.index.partition_index import PartitionIndex
from hudisql.ingest.index.partition_indexes import IndexLimits, PartitionIndexes
from hudisql.ingest.index.pending_keys import PendingKeys
from hudisql.ingest.index.rebuild import written_keys
from hudisql.ingest.index.tag import find_in_partition, tag_keys
from hudisql.table.hudi_table import HudiTable
from hudisql.table.snapshot import list_file_slices
from hudisql.write.execution.write_context import WrittenFile

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

    def tag(self, table: HudiTable, path: str, keys: pa.Array) -> pa.Array | None:
        """The id of the file group of each distinct key, null where the partition has none.

        None if the partition has no index. In a table whose rows are merged on write the keys themselves are
        compared, since a key that is not there could not be changed. Raises what `PartitionIndexes.get` and
        `tag_keys` raise.
        """
        is_seen = path in self._indexes.sizes() or path in self._indexes.without_index
        if not is_seen and self._is_too_large(table, path):
            return None
        index = self._indexes.get(table, path, self._now())
        if index is None:
            return None
        self._tagged[path] = index
        compares = not table.is_merge_on_read or table.properties.bootstrap_base_path is not None
        return tag_keys(index, keys, find_in_partition(table, path), compares=compares).file_ids

    @property
    def nbytes(self) -> int:
        """Bytes that all indexes of the table take in memory."""
        return self._indexes.nbytes

    def learn(self, table: HudiTable, files: Sequence[WrittenFile], commit: Instant) -> None:
        """Add the keys of new rows, after the commit that wrote `files`. Raises StorageError."""
        pending: dict[str, PendingKeys] = {}
        for file in files:
            index = self._tagged.get(file.partition_path)
            if index is None or file.log is not None or not file.inserted:
                continue
            found = pending.setdefault(file.partition_path, PendingKeys(index))
            found.add_written(written_keys(table.storage, file.path), file.file_id)
        self._tagged = {}
        self._indexes.publish(pending.values(), commit)

    def forget(self) -> None:
        """Drop all indexes."""
        self._tagged = {}
        self._indexes.close()
        self._indexes = PartitionIndexes(self._limits)

    def _is_too_large(self, table: HudiTable, path: str) -> bool:
        slices = list_file_slices(table, [path], None)
        size = sum(each.base_file.length for each in slices if each.base_file is not None)
        return size // _LEAST_ROW_BYTES * _BYTES_PER_KEY > self._limits.memory_bytes
