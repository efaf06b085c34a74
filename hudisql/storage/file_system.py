"""The contract of a store behind `Storage`: its operations, its file entries and its errors.

Each store implements `FileSystem`; the same contract tests run on all of them. Paths given to a store are
qualified and of its own scheme.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from hudisql.errors import NoSuchPathError, StorageError
from hudisql.storage.unchanged_files import UnchangedFiles


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One entry of a file system: absolute path, length in bytes, modification time in epoch ms."""

    path: str
    length: int
    modification_time_ms: int
    is_directory: bool

    @property
    def name(self) -> str:
        """The last component of the path."""
        return self.path.rsplit("/", 1)[-1]


class FileSystem(Protocol):
    """One store. Methods raise StorageError, NoSuchPathError and PathExistsError only.

    `stages` is True if `create` first writes a `staged_path`, which remains if the process is killed.
    """

    stages: bool

    @property
    def unchanged_files(self) -> UnchangedFiles | None:
        """What was read of small files; None where requests cost little, and listings look at each file."""

    def info(self, path: str) -> FileInfo | None:
        """The entry at `path`, or None."""

    def list_directory(self, path: str) -> list[FileInfo]:
        """The entries directly in the directory, in any order. Raises NoSuchPathError."""

    def list_file_names(self, path: str) -> list[str]:
        """The names of the files directly in the directory, in any order. Raises NoSuchPathError."""

    def list_files(self, path: str) -> list[FileInfo]:
        """All files below the directory, in any order. Raises NoSuchPathError."""

    def open_input(self, path: str, length: int | None = None) -> Any:
        """A pyarrow NativeFile for random reads; `length` as in `Storage.open_input`."""

    def open_output(self, path: str) -> Any:
        """A pyarrow NativeFile for writing a new file; makes its directory."""

    def read(self, path: str) -> bytes:
        """The whole content of a small file."""

    def read_end(self, path: str, most: int) -> tuple[bytes, int]:
        """The last bytes of a file, at most so many, and the file's length."""

    def write(self, path: str, content: bytes) -> None:
        """Write a small file, replacing what is there; makes its directory."""

    def create(self, path: str, content: bytes) -> None:
        """Create the file with its whole content in one atomic step. Raises PathExistsError."""

    def set_modification_time(self, path: str, milliseconds: int) -> bool:
        """Set the file's modification time (epoch ms); False if the store cannot."""

    def make_directories(self, path: str) -> None:
        """Make a directory and its parents; no error if it exists."""

    def delete_file(self, path: str) -> None:
        """Delete one file; no error if it is gone already."""

    def delete_directory(self, path: str) -> None:
        """Delete a directory with all that is in it; no error if it is gone already."""

    def delete_empty_directory(self, path: str) -> bool:
        """Delete a directory if it is empty; True if the directory does not exist afterwards."""


@contextmanager
def translated(operation: str, path: str) -> Iterator[None]:
    """Turn OSErrors of one operation into StorageErrors that name the operation and the path."""
    try:
        yield
    except StorageError:
        raise
    except FileNotFoundError as error:
        raise NoSuchPathError(f"no such path: {path}") from error
    except OSError as error:
        hint = (
            "check the permissions of the user that runs hudisql"
            if error.errno in (errno.EACCES, errno.EPERM)
            else None
        )
        raise StorageError(f"cannot {operation} {path}: {error.strerror or error}", hint=hint) from error
