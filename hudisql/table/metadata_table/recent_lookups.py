"""Record keys that were looked up a moment ago: a commit asks for those that its statement has looked up."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.format.keys.key_table import KeyTable
from hudisql.format.metadata_table.record_locations import NOT_FOUND, RecordLocations
from hudisql.format.paths.file_names import FileGroup

_MOST_KEYS: Final = 1_000_000
_MOST_TABLES: Final = 16

LookUp = Callable[[npt.NDArray[np.int64]], RecordLocations]
"""Gives the locations of the keys in these rows."""


class RecentLookups:
    """The last look-up in each of a few tables, answered again while the index stays as it was.

    Up to a million keys are kept, those of the newest look-ups.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Hashable, pa.Array, RecordLocations]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, table: str, state: Hashable, keys: pa.Array, look_up: LookUp) -> RecordLocations:
        """What `look_up` gives for the keys; it is called for the rows alone that were not looked up before.

        `state` is equal only while the index of the table at this path gives the same answers.
        """
        with self._lock:
            kept = self._kept.get(table)
        if kept is None or kept[0] != state or not len(kept[1]):
            locations = look_up(np.arange(len(keys)))
            self._keep(table, state, keys, locations)
            return locations
        _, known_keys, known = kept
        at = KeyTable(known_keys).find(keys)
        is_new = at < 0
        numbers, inserted = known.numbers[at], known.inserted[at]
        groups = known.groups
        if is_new.any():
            further = look_up(np.flatnonzero(is_new))
            is_stored = further.numbers != NOT_FOUND
            numbers[is_new] = np.where(is_stored, further.numbers + len(groups), NOT_FOUND)
            inserted[is_new] = further.inserted
            groups = (*groups, *further.groups)
        used = np.unique(numbers[numbers != NOT_FOUND])
        places: dict[FileGroup, int] = {}
        # The last one stands for NOT_FOUND.
        renumbered = np.full(len(groups) + 1, NOT_FOUND, np.int64)
        for number in used.tolist():
            renumbered[number] = places.setdefault(groups[number], len(places))
        return RecordLocations(tuple(places), renumbered[numbers], inserted)

    def _keep(self, table: str, state: Hashable, keys: pa.Array, locations: RecordLocations) -> None:
        with self._lock:
            self._kept.pop(table, None)
            self._kept[table] = (state, keys, locations)
            while len(self._kept) > _MOST_TABLES or self._key_count > _MOST_KEYS:
                self._kept.popitem(last=False)

    @property
    def _key_count(self) -> int:
        return sum(len(keys) for _, keys, _ in self._kept.values())
