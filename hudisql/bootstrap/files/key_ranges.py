"""The range of a file's record keys, and the files whose ranges overlap.

Computed while the keys are read for the skeletons, so that a uniqueness check only compares files whose
ranges overlap. The order is not Java's (which the footers' least and greatest keys follow): digits within
keys are compared as numbers, so that files with the ids 1 to 9,999 and 10,000 to 20,000 do not overlap. Any
order in which equal keys tie would do. Knows no files and no Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from hudisql.format.keys.bloom_filter import string_buffers
from hudisql.format.keys.key_hashes import Hashes, murmur_hash64

# 64 MB of hashes: a file with more unsorted rows is checked by the later comparison.
MOST_ROWS_CHECKED_ALONE: Final = 8_000_000
_DIGITS: Final = re.compile(rb"[0-9]+")


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The least and greatest key of a file in `key_order` (None: unknown), and whether keys may repeat.

    `may_repeat` is False if its keys are proved to be distinct, True if two hashes are equal or were not
    computed.
    """

    lowest: str
    highest: str
    may_repeat: bool


def key_order(key: str) -> tuple[tuple[int, int, bytes], ...]:
    """The sort key of record keys: byte by byte in UTF-8, but a run of digits as its number."""
    parts: list[tuple[int, int, bytes]] = []
    content = key.encode()
    at = 0
    for run in _DIGITS.finditer(content):
        parts += [(byte, 0, b"") for byte in content[at : run.start()]]
        digits = run.group().lstrip(b"0")
        parts.append((ord("0"), len(digits), digits))
        at = run.end()
    parts += [(byte, 0, b"") for byte in content[at:]]
    return tuple(parts)


class KeyRangeFinder:
    """Receives the keys of one file, batch by batch; stores nothing while the keys are in order."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._lowest: str | None = None
        self._highest: str | None = None
        self._is_ascending = True
        self._seen = 0
        self._hashes: list[Hashes] | None = None

    def add(self, keys: pa.StringArray) -> None:
        """Add the next keys."""
        if len(keys) == 0:
            return
        self._widen(keys)
        if self._seen == 0 and not self._is_ascending and self._rows <= MOST_ROWS_CHECKED_ALONE:
            self._hashes = []
        if self._hashes is not None:
            self._hashes.append(murmur_hash64(keys))
        self._seen += len(keys)

    def result(self) -> KeyRange | None:
        """The range of all keys; None if there are none."""
        if self._lowest is None or self._highest is None:
            return None
        may_repeat = not self._is_ascending
        if self._hashes is not None:
            hashes = np.concatenate(self._hashes)
            hashes.sort()
            may_repeat = bool((hashes[1:] == hashes[:-1]).any())
        return KeyRange(self._lowest, self._highest, may_repeat)

    def _widen(self, keys: pa.StringArray) -> None:
        from hudisql.bootstrap.files.key_kernels import find_range

        offsets, data = string_buffers(keys)
        lowest_row, highest_row, is_ascending = find_range(offsets.view(np.uint64), data)
        lowest, highest = (keys[row].as_py() or "" for row in (lowest_row, highest_row))
        if self._lowest is None or self._highest is None:
            self._lowest, self._highest, self._is_ascending = lowest, highest, is_ascending
            return
        self._is_ascending &= is_ascending and key_order(self._highest) < key_order(lowest)
        self._lowest = min(self._lowest, lowest, key=key_order)
        self._highest = max(self._highest, highest, key=key_order)


def group_overlapping(ranges: Iterable[tuple[str, KeyRange | None]]) -> list[list[int]]:
    """Groups of files (by number) whose ranges of keys overlap, to be compared with each other.

    `ranges` has the scope (partition, or one for a whole table) and the range of each file in turn. A file
    without an overlap is a group of its own if it may contain a key twice, else it is left out.
    """
    files: dict[str, list[tuple[int, KeyRange]]] = {}
    for number, (scope, key_range) in enumerate(ranges):
        if key_range is not None:
            files.setdefault(scope, []).append((number, key_range))
    groups = [group for scope in files.values() for group in _overlapping_runs(scope)]
    return [
        sorted(number for number, _ in group)
        for group in groups
        if len(group) > 1 or any(key_range.may_repeat for _, key_range in group)
    ]


def _overlapping_runs(files: Sequence[tuple[int, KeyRange]]) -> list[list[tuple[int, KeyRange]]]:
    if len(files) == 1:
        return [list(files)]
    spans = sorted(
        (key_order(key_range.lowest), key_order(key_range.highest), number, key_range)
        for number, key_range in files
    )
    runs: list[list[tuple[int, KeyRange]]] = []
    reached: Any = None
    for lowest, highest, number, key_range in spans:
        if runs and lowest <= reached:
            runs[-1].append((number, key_range))
            reached = max(reached, highest)
        else:
            runs.append([(number, key_range)])
            reached = highest
    return runs
