"""A text file that is read again when it changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from hudisql.errors import SettingsError

T = TypeVar("T")


class WatchedFile(Generic[T]):
    """The value of a file; `parse` makes it of the path and the text. Any thread may ask."""

    def __init__(self, path: Path, what: str, parse: Callable[[Path, str], T]) -> None:
        """`what` names the content in errors. Raises SettingsError as `value` does."""
        self._path, self._what, self._parse = path, what, parse
        self._lock = threading.Lock()
        self._read: object = None
        self._value = self._parsed()

    def value(self) -> T:
        """The value of the file as it stands.

        Raises SettingsError if the file cannot be read, and as `parse` does.
        """
        version = self.version()
        with self._lock:
            if version is None or version != self._read:
                self._value = self._parsed()
                self._read = version
            return self._value

    def version(self) -> object:
        """Changes whenever the file does; None while it is missing."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _parsed(self) -> T:
        try:
            return self._parse(self._path, self._path.read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingsError(f"cannot read the {self._what} in {self._path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SettingsError(
                f"cannot read the {self._what} in {self._path}: it is not UTF-8 text"
            ) from error
