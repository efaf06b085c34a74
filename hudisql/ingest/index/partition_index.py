"""The index of one partition, and the new keys of a flush, which it learns once the flush is committed.

The index is a `KeyIndex` and the numbers by which it knows the partition's file groups. If it knew the keys
of a flush before the commit, a failed one would leave keys in it that no file holds, and rows of them would
be written as updates of nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import UnsupportedTableError
from hudisql.format.keys.key_hashes import Hashes, xxhash64
from hudisql.ingest.index.key_index import MOST_GROUPS, UNKNOWN, Groups, KeyIndex


class PartitionIndex:
    """Which file group of the partition at `path` holds which record key."""

    def __init__(self, path: str, keys: KeyIndex) -> None:
        self.path = path
        self.keys = keys
        self._file_ids: list[str] = []
        self._numbers: dict[str, int] = {}

    @property
    def file_ids(self) -> Sequence[str]:
        """The file ids by number; those of dropped groups are empty."""
        return self._file_ids

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in memory."""
        return self.keys.nbytes

    def add(self, hashes: Hashes, file_id: str) -> None:
        """Add keys of one file group. Raises UnsupportedTableError if there are too many groups."""
        self.keys.add(hashes, np.full(len(hashes), self._number(file_id), np.int32))

    def add_keys(self, hashes: Hashes, file_ids: pa.DictionaryArray) -> None:
        """Add keys with their file ids. Raises UnsupportedTableError if there are too many groups."""
        numbers = np.array([self._number(file_id) for file_id in file_ids.dictionary.to_pylist()], np.int32)
        self.keys.add(hashes, numbers[file_ids.indices.to_numpy(zero_copy_only=False)])

    def group_of(self, file_id: str) -> int:
        """The number of a file group, `UNKNOWN` if it has no keys here."""
        return self._numbers.get(file_id, UNKNOWN)

    def drop_groups(self, file_ids: Iterable[str]) -> None:
        """Forget all keys of file groups, known or not; their numbers become free."""
        known = [file_id for file_id in file_ids if file_id in self._numbers]
        if not known:
            return
        numbers = np.array([self._numbers.pop(file_id) for file_id in known], np.int32)
        self.keys.drop_groups(numbers)
        for number in numbers.tolist():
            self._file_ids[number] = ""

    def file_ids_of(self, groups: Groups) -> pa.DictionaryArray:
        """The file id of each group number; null for negative ones."""
        indices = pa.array(np.maximum(groups, 0), pa.int32(), mask=groups < 0)
        return pa.DictionaryArray.from_arrays(indices, pa.array(self._file_ids, pa.string()))

    def _number(self, file_id: str) -> int:
        number = self._numbers.get(file_id)
        if number is not None:
            return number
        if len(self._file_ids) < MOST_GROUPS:
            self._file_ids.append(file_id)
            number = len(self._file_ids) - 1
        elif len(self._numbers) < MOST_GROUPS:
            number = self._file_ids.index("")
            self._file_ids[number] = file_id
        else:
            raise too_many_groups(self.path)
        self._numbers[file_id] = number
        return number


def too_many_groups(path: str) -> UnsupportedTableError:
    """The error for a partition with more file groups than an index can number."""
    return UnsupportedTableError(
        f"partition '{path}' has more than {MOST_GROUPS:,} file groups, which the ingest index cannot number",
        hint="its events go by the look-up in bloom filters; a clustering (run_clustering) makes fewer and "
        "larger file groups",
    )


class PendingKeys:
    """Keys and their file ids, collected for one partition; dropping it leaves the index as it is."""

    def __init__(self, index: PartitionIndex) -> None:
        self.index = index
        self._parts: list[tuple[Hashes, pa.DictionaryArray]] = []

    def __len__(self) -> int:
        return sum(len(hashes) for hashes, _ in self._parts)

    def add(self, hashes: Hashes, file_ids: pa.Array) -> None:
        """Collect keys: the hash of each and the id of the file group that its row was written to."""
        encoded = file_ids if pa.types.is_dictionary(file_ids.type) else pc.dictionary_encode(file_ids)
        self._parts.append((hashes, encoded))

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
