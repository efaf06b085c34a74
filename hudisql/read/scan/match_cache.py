"""A cache of matches of log records with base rows: files of a table never change under their names.

A log file may grow, so its length is part of the key, as is everything that decides which blocks are merged
and which record wins. Memory: `MOST_BYTES`; the least recently used slices are dropped first.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Final

from hudisql.read.calendar.hybrid_calendar import CalendarSettings
from hudisql.read.merge.merge_mode import LogMergeConfig
from hudisql.read.slice.replaced_rows import LogMatch
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice

MOST_BYTES: Final = 32 << 20
_ENTRY_BYTES: Final = 2_000
"""The approximate memory of one entry's names and objects."""


class MatchCache:
    """Matches of file slices, for all threads of the driver."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[tuple[str, FileSlice], LogMatch] = OrderedDict()
        self._lock = Lock()

    def find(self, scope: str, slices: Sequence[FileSlice]) -> dict[FileSlice, LogMatch]:
        """The cached matches of these slices; `scope` is a `match_scope`."""
        log_matches = {}
        with self._lock:
            for file_slice in slices:
                if (match := self._kept.get((scope, file_slice))) is not None:
                    self._kept.move_to_end((scope, file_slice))
                    log_matches[file_slice] = match
        return log_matches

    def add(self, scope: str, matches: Iterable[tuple[FileSlice, LogMatch]]) -> None:
        """Cache the matches, except for slices that accept a changed external file."""
        with self._lock:
            for file_slice, match in matches:
                if file_slice.accepts_changed_source or (scope, file_slice) in self._kept:
                    continue
                self._kept[scope, file_slice] = match
                self._bytes += _bytes_of(match)
            while self._bytes > self._most_bytes:
                _, dropped = self._kept.popitem(last=False)
                self._bytes -= _bytes_of(dropped)

    def clear(self) -> None:
        """Empty the cache, to measure first reads."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0


def match_scope(storage: Storage, config: LogMergeConfig, calendars: CalendarSettings) -> str:
    """A key that is equal for two reads with the same match of a slice."""
    instants = config.instant_range
    parts = (
        sorted(storage.hadoop_configuration.items()),
        (sorted(instants.committed), instants.active_from, instants.as_of),
        (config.merge_mode, calendars),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _bytes_of(match: LogMatch) -> int:
    return match.replaced.nbytes + match.shown.nbytes + _ENTRY_BYTES
