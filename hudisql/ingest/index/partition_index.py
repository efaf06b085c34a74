"""The index of one partition: a `KeyIndex` and the numbers by which it knows the partition's file groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import UnsupportedTableError
from hudisql.format.keys.key_hashes import Hashes
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
        numbers = np.array([self._number(each) for each in file_ids.dictionary.to_pylist()], np.int32)
        self.keys.add(hashes, numbers[file_ids.indices.to_numpy(zero_copy_only=False)])

    def group_of(self, file_id: str) -> int:
        """The number of a file group, `UNKNOWN` if it has no keys here."""
        return self._numbers.get(file_id, UNKNOWN)

    def drop_groups(self, file_ids: Iterable[str]) -> None:
        """Forget all keys of file groups, known or not; their numbers become free."""
        known = [file_id for file_id in file_ids if file_id in self._numbers]
        if not known:
            return
        numbers = np.array([self._numbers.pop(each) for each in known], np.int32)
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


def encoded_file_ids(file_ids: pa.Array) -> pa.DictionaryArray:
    """File ids as a dictionary array."""
    return file_ids if pa.types.is_dictionary(file_ids.type) else pc.dictionary_encode(file_ids)
