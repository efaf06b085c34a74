"""The file operations of the write-ahead log: the only place where it touches its directory.

Each method is one or two system calls. After a power loss, the content of a file is kept if `sync` was called
for it, and the names of files if `sync_directory` was. Tests replace it by a directory that loses all else.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from hudisql.errors import WriteAheadLogInUseError

_LOCK_NAME: Final = "lock"
# Linux takes at most this many parts in one call.
_PARTS_PER_WRITE: Final = 1024


class LogFiles:
    """A local directory, locked by this process until `close`. Raises OSError, WriteAheadLogInUseError."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        missing = [parent for parent in (directory, *directory.parents) if not parent.exists()]
        directory.mkdir(parents=True, exist_ok=True)
        for path in missing:
            _sync_path(path.parent)
        self._lock = os.open(directory / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(self._lock, 100, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._lock)
            raise WriteAheadLogInUseError(
                f"the write-ahead log {directory} is in use by process {owner}",
                hint="give each process a directory of its own, or stop the other one first",
            ) from error
        os.ftruncate(self._lock, 0)
        with suppress(OSError):
            os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Let other processes open the directory."""
        os.close(self._lock)

    def names(self) -> list[str]:
        """The files of the directory, the lock left out."""
        return sorted(path.name for path in self.directory.iterdir() if path.name != _LOCK_NAME)

    def read(self, name: str) -> bytes:
        """A file's content."""
        return (self.directory / name).read_bytes()

    def create(self, name: str, size: int) -> int:
        """A new file of `size` zero bytes for which the disk has room: its descriptor."""
        descriptor = os.open(self.directory / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if size:
                os.posix_fallocate(descriptor, 0, size)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def open(self, name: str) -> int:
        """A descriptor of an existing file."""
        return os.open(self.directory / name, os.O_RDWR | os.O_CLOEXEC)

    def write(self, descriptor: int, parts: list[bytes], offset: int) -> None:
        """Write all bytes at an offset."""
        for start in range(0, len(parts), _PARTS_PER_WRITE):
            views = [memoryview(part) for part in parts[start : start + _PARTS_PER_WRITE]]
            while views:
                written = os.pwritev(descriptor, views, offset)
                offset += written
                while views and written >= len(views[0]):
                    written -= len(views.pop(0))
                if views:
                    views[0] = views[0][written:]

    def read_at(self, descriptor: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes at an offset."""
        return os.pread(descriptor, size, offset)

    def sync(self, descriptor: int) -> None:
        """Flush a file's content and size to disk."""
        os.fdatasync(descriptor)

    def sync_directory(self) -> None:
        """Flush directory entries to disk."""
        _sync_path(self.directory)

    def close_file(self, descriptor: int) -> None:
        """Close a descriptor."""
        os.close(descriptor)

    def truncate(self, name: str, size: int) -> None:
        """Shorten a file."""
        os.truncate(self.directory / name, size)

    def replace(self, name: str, new_name: str) -> None:
        """Rename a file over another in one step."""
        (self.directory / name).replace(self.directory / new_name)

    def delete(self, name: str) -> None:
        """Delete a file if it exists."""
        (self.directory / name).unlink(missing_ok=True)


def _sync_path(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
