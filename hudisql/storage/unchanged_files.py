"""What was read from small files of a store, taken again while a listing shows them unchanged."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Final, Protocol

_SETTLED_MS: Final = 60_000
_MOST_FILES: Final = 256


class ListedFile(Protocol):
    """What a listing says of a file; it differs once the file was changed."""

    @property
    def path(self) -> str:
        """The path."""

    @property
    def modification_time_ms(self) -> int:
        """The modification time (epoch ms)."""


class UnchangedFiles:
    """Values read from files, by path, while the length and the modification time stay as they were.

    A file that was modified less than a minute before it was read is not kept: S3 gives times in seconds, so
    that a second change could have the time of the first one, and clocks differ. At most 256 files are kept.
    """

    def __init__(self) -> None:
        self._values: OrderedDict[str, tuple[ListedFile, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def has(self, path: str) -> bool:
        """True if a value of this file is kept, whether it is still right or not."""
        return path in self._values

    def get(self, listed: ListedFile) -> Any:
        """The value of a file that was just listed; None if it is not kept or the file was changed."""
        with self._lock:
            entry, value = self._values.get(listed.path, (None, None))
            if entry != listed:
                return None
            self._values.move_to_end(listed.path)
            return value

    def keep(self, listed: ListedFile, value: Any, begun_ms: float) -> None:
        """Keep what a read that began at this time (epoch ms) gave."""
        with self._lock:
            self._values.pop(listed.path, None)
            if listed.modification_time_ms < begun_ms - _SETTLED_MS:
                self._values[listed.path] = (listed, value)
            if len(self._values) > _MOST_FILES:
                self._values.popitem(last=False)
