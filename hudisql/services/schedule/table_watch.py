"""Detects changes of a table's timeline or properties at low cost.

Where directories have modification times (local, HDFS) an unchanged table costs one status call for
`.hoodie`, else one listing of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hudisql.errors import NoSuchPathError
from hudisql.format.timeline.timeline_layout import metadata_directory
from hudisql.storage import Storage
from hudisql.storage.paths import S3_SCHEMES, scheme_of

_UNSETTLED_MS = 2000


@dataclass(frozen=True, slots=True)
class _Seen:
    modified_ms: int
    is_settled: bool
    signature: int


@dataclass(slots=True)
class TableWatch:
    """Watches the table at `base_path`, which is qualified. `now_ms` is the time since the epoch."""

    storage: Storage
    base_path: str
    now_ms: Callable[[], float] = lambda: time.time() * 1000
    _seen: _Seen | None = field(default=None, repr=False)

    def signature(self) -> int:
        """A number that stays the same until a file directly in `.hoodie` changes.

        0 for a missing table. Raises StorageError.
        """
        directory = metadata_directory(self.base_path)
        modified = self._modification_time(directory)
        if self._seen is not None and self._seen.is_settled and self._seen.modified_ms == modified:
            return self._seen.signature
        listed_at = self.now_ms()
        try:
            entries = self.storage.list_directory(directory)
        except NoSuchPathError:
            self._seen = None
            return 0
        files = [
            (entry.name, entry.length, entry.modification_time_ms)
            for entry in entries
            if not entry.is_directory
        ]
        # A change within the clock's resolution of the listing does not change the modification time.
        is_settled = modified > 0 and listed_at - modified > _UNSETTLED_MS
        self._seen = _Seen(modified, is_settled, hash(tuple(files)) or 1)
        return self._seen.signature

    def _modification_time(self, directory: str) -> int:
        """The modification time; 0 where directories have none."""
        if scheme_of(directory) in S3_SCHEMES:
            return 0
        info = self.storage.info(directory)
        return 0 if info is None else info.modification_time_ms
