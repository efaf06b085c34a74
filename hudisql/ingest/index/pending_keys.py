"""New keys of one flush, which the index learns once the flush is committed.

If the index knew them before, a failed commit would leave keys in it that no file holds, and rows of them
would be written as updates of nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from hudisql.format.keys.key_hashes import Hashes, xxhash64
from hudisql.ingest.index.key_index import UNKNOWN
from hudisql.ingest.index.partition_index import PartitionIndex, encoded_file_ids


class PendingKeys:
    """Keys and their file ids, collected for one partition; dropping it leaves the index as it is."""

    def __init__(self, index: PartitionIndex) -> None:
        self.index = index
        self._parts: list[tuple[Hashes, pa.DictionaryArray]] = []

    def __len__(self) -> int:
        return sum(len(hashes) for hashes, _ in self._parts)

    def add(self, hashes: Hashes, file_ids: pa.Array) -> None:
        """Collect keys: the hash of each and the id of the file group that its row was written to."""
        self._parts.append((hashes, encoded_file_ids(file_ids)))

    def add_written(self, keys: Iterable[pa.Array], file_id: str) -> None:
        """Collect the keys of a file that the index does not know in its file group.

        A hash may be known in another one: of another key, or of this one before it was deleted there.
        """
        group = self.index.group_of(file_id)
        for batch in keys:
            hashes = xxhash64(batch)
            found = self.index.keys.look_up(hashes)
            new = hashes[(found == UNKNOWN) | (found != group)]
            self.add(new, pa.repeat(pa.scalar(file_id), len(new)))

    def publish(self) -> None:
        """Let the index know the keys, after the commit.

        Raises UnsupportedTableError if there are too many file groups; the index then lacks keys and must be
        dropped.
        """
        parts, self._parts = self._parts, []
        for hashes, file_ids in parts:
            self.index.add_keys(hashes, file_ids)
