"""The records of the index `files`, merged: the files of each partition with their sizes.

Follows `HoodieMetadataPayload.combineFileSystemMetadata` of Hudi 1.2: a file's size is the greatest since it
was last deleted. The newest record of a file alone decides whether it exists. Hudi, which merges log records
before it looks at base files, lists a deleted file again if two records of it were above a base file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.format.metadata_table.metadata_records import MetadataRecords, without_deleted

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ListedFiles:
    """The names of a partition's files, in no order, and their sizes in bytes."""

    names: pa.Array
    sizes: pa.Array


@dataclass(frozen=True, slots=True)
class _FileRecords:
    """For each file in each record, the oldest first: the number of the key, name, size, is it deleted."""

    key_numbers: _Numbers
    names: pa.Array
    sizes: _Numbers
    deleted: npt.NDArray[np.bool_]

    def file_numbers(self) -> _Numbers:
        """The same number for the same file of the same key, from 0 on."""
        names = self.names.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, numbers = np.unique(self.key_numbers * len(names) + names, return_inverse=True)
        return numbers.astype(np.int64)


def merge_listings(layers: Sequence[MetadataRecords]) -> dict[str, ListedFiles]:
    """The listing of each key, from records of the index `files`, the oldest layer first.

    A key whose newest record is a delete is not in the result. Deleted files are left out, and a key may have
    no files.
    """
    live = without_deleted(layers)
    number_of: dict[str, int] = {}
    for layer in live:
        for key in layer.keys.to_pylist():
            number_of.setdefault(key, len(number_of))
    if not number_of:
        return {}
    records = _file_records(live, number_of)
    newest, sizes = _newest_files(records)
    order = np.argsort(records.key_numbers[newest], kind="stable")
    newest, sizes = newest[order], sizes[order]
    bounds = np.searchsorted(records.key_numbers[newest], np.arange(len(number_of) + 1)).tolist()
    names = records.names.take(pa.array(newest))
    return {
        key: ListedFiles(names[start:stop], pa.array(sizes[start:stop]))
        for key, start, stop in zip(number_of, bounds[:-1], bounds[1:], strict=True)
    }


def _newest_files(records: _FileRecords) -> tuple[_Numbers, _Numbers]:
    """For each file that exists the row of its newest record, and its size."""
    numbers, rows = records.file_numbers(), np.arange(len(records.names))
    files = int(numbers.max(initial=-1)) + 1
    newest, last_delete = np.zeros(files, np.int64), np.full(files, -1, np.int64)
    newest[numbers] = rows  # Of equal indices the last one holds.
    last_delete[numbers[records.deleted]] = rows[records.deleted]
    since = rows > last_delete[numbers]
    sizes = np.zeros(files, np.int64)
    np.maximum.at(sizes, numbers[since], records.sizes[since])
    exists = ~records.deleted[newest]
    return newest[exists], sizes[exists]


def _file_records(layers: Sequence[MetadataRecords], number_of: dict[str, int]) -> _FileRecords:
    keys = [np.array([number_of[key] for key in layer.keys.to_pylist()], np.int64) for layer in layers]
    counts = [np.diff(layer.values.offsets.to_numpy()) for layer in layers]
    items = pa.concat_arrays([layer.values.items for layer in layers])
    return _FileRecords(
        np.concatenate([np.repeat(*each) for each in zip(keys, counts, strict=True)]),
        pa.concat_arrays([layer.values.keys for layer in layers]),
        items.field("size").to_numpy(zero_copy_only=False),
        items.field("isDeleted").to_numpy(zero_copy_only=False),
    )
