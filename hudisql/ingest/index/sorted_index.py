"""The index in memory: sorted runs of 64-bit elements, 8 bytes a key.

A log-structured merge of numpy arrays: new keys become a sorted run, and runs of like size are merged, so
that there are few of them and each is at least `_GROWTH` times the next. Runs grow in place: the array is
extended and merged from its end, so a merge takes no second array of the run's size.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from hudisql.errors import InvalidArgumentError
from hudisql.format.keys.key_hashes import Hashes
from hudisql.ingest.index.key_index import (
    GROUP_BITS,
    MOST_GROUPS,
    UNKNOWN,
    Groups,
    significant_bits,
)

_GROWTH: Final = 8


class SortedIndex:
    """A `KeyIndex` in memory that keeps 48 bits of each hash; tests keep fewer, so that many are equal."""

    def __init__(self, hash_bits: int = 64 - GROUP_BITS) -> None:
        if not 1 <= hash_bits <= 64 - GROUP_BITS:
            raise InvalidArgumentError(
                f"an index in memory keeps 1 to {64 - GROUP_BITS} bits of a hash, not {hash_bits}"
            )
        self._hash_bits = hash_bits
        self._runs: list[npt.NDArray[np.uint64]] = []

    @property
    def hash_bits(self) -> int:
        """How many bits of a hash the index looks at."""
        return self._hash_bits

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in memory."""
        return sum(run.nbytes for run in self._runs)

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def look_up(self, hashes: Hashes) -> Groups:
        """For each hash its group's number, `UNKNOWN`, or `AMBIGUOUS` if several groups have it."""
        from hudisql.ingest.index import index_kernels

        found = np.full(len(hashes), UNKNOWN, np.int32)
        order = np.argsort(hashes)
        wanted = significant_bits(hashes[order], self._hash_bits)
        for run in self._runs:
            index_kernels.look_up(run, wanted, order, found)
        return found

    def candidates(self, hashes: Hashes) -> tuple[npt.NDArray[np.int64], Groups]:
        """All groups of each hash: positions in `hashes` and groups, in order of both."""
        from hudisql.ingest.index import index_kernels

        order = np.argsort(hashes)
        wanted = significant_bits(hashes[order], self._hash_bits)
        rows, groups = np.empty(len(hashes), np.int64), np.empty(len(hashes), np.int32)
        while True:
            count = 0
            for run in self._runs:
                count = index_kernels.groups_of(run, wanted, rows, groups, count)
            if count <= len(rows):
                break
            rows, groups = np.empty(count, np.int64), np.empty(count, np.int32)
        positions, groups = order[rows[:count]], groups[:count]
        in_order = np.lexsort((groups, positions))
        return positions[in_order], groups[in_order]

    def add(self, hashes: Hashes, groups: Groups) -> None:
        """Add a key for each hash; pairs that are known change nothing."""
        from hudisql.ingest.index import index_kernels

        if len(groups) and not 0 <= int(groups.min()) <= int(groups.max()) < MOST_GROUPS:
            raise InvalidArgumentError(f"file groups are numbered from 0 to {MOST_GROUPS - 1}")
        elements = significant_bits(hashes, self._hash_bits) | groups.astype(np.uint64)
        elements.sort()
        known = np.zeros(len(elements), np.bool_)
        known[1:] = elements[1:] == elements[:-1]
        for run in self._runs:
            index_kernels.mark_known(run, elements, known)
        self._append(elements[~known])

    def drop_groups(self, groups: Groups) -> None:
        """Forget all keys of the groups."""
        from hudisql.ingest.index import index_kernels

        is_dropped = np.zeros(MOST_GROUPS, np.bool_)
        is_dropped[groups] = True
        runs, self._runs = self._runs, []
        for run in runs:
            run.resize(index_kernels.keep_other_groups(run, is_dropped), refcheck=False)
        for run in sorted(runs, key=len, reverse=True):
            self._append(run)

    def close(self) -> None:
        """Free the runs."""
        self._runs = []

    def _append(self, run: npt.NDArray[np.uint64]) -> None:
        from hudisql.ingest.index import index_kernels

        if not len(run):
            return
        while self._runs and len(self._runs[-1]) < _GROWTH * len(run):
            larger, smaller = self._runs.pop(), run
            if len(larger) < len(smaller):
                larger, smaller = smaller, larger
            size = len(larger)
            larger.resize(size + len(smaller), refcheck=False)
            index_kernels.merge_into(larger, size, smaller)
            run = larger
        self._runs.append(run)
