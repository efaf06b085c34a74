"""The local file system; follows Hadoop's LocalFileSystem where other readers would notice.

Atomic creation is a staged file plus `link`, which the kernel refuses if the name exists.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from io import FileIO
from pathlib import Path
from stat import S_ISDIR
from typing import Any, Final, Literal

from hudisql.errors import PathExistsError, StorageError
from hudisql.storage.file_system import FileInfo, translated
from hudisql.storage.parallel_reads import read_many
from hudisql.storage.paths import staged_path
from hudisql.storage.unchanged_files import UnchangedFiles

_FEW_DIRECTORIES: Final = 8


class LocalFileSystem:
    """Plain paths (`/a/b`)."""

    stages = True
    unchanged_files: UnchangedFiles | None = None

    def info(self, path: str) -> FileInfo | None:
        """The entry at `path`, or None. Follows symbolic links."""
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StorageError(f"cannot look at {path}: {error.strerror or error}") from error
        return FileInfo(path, found.st_size, found.st_mtime_ns // 1_000_000, S_ISDIR(found.st_mode))

    def list_directory(self, path: str) -> list[FileInfo]:
        """The entries directly in the directory."""
        entries: list[FileInfo] = []
        with translated("list", path), os.scandir(path) as scan:
            for entry in scan:
                try:
                    stat = entry.stat()
                except FileNotFoundError as error:
                    if entry.is_symlink():
                        raise StorageError(
                            f"cannot list {path}: {entry.name} is a symbolic link to nothing"
                        ) from error
                    continue  # deleted while the directory was listed
                entries.append(
                    FileInfo(
                        f"{path.rstrip('/')}/{entry.name}",
                        stat.st_size,
                        stat.st_mtime_ns // 1_000_000,
                        entry.is_dir(),
                    )
                )
        return entries

    def list_file_names(self, path: str) -> list[str]:
        """The names of the files directly in the directory, without reading their status."""
        names: list[str] = []
        with translated("list", path), os.scandir(path) as scan:
            for entry in scan:
                if entry.is_file(follow_symlinks=False):
                    names.append(entry.name)
                elif entry.is_symlink() and not os.path.exists(entry.path):
                    raise StorageError(f"cannot list {path}: {entry.name} is a symbolic link to nothing")
                elif not entry.is_dir():
                    names.append(entry.name)
        return names

    def list_files(self, path: str) -> list[FileInfo]:
        """All files below the directory, level by level, the directories of a level in parallel."""
        files: list[FileInfo] = []
        level = [path]
        while level:
            entries = [entry for listing in self._listings(level) for entry in listing]
            files.extend(entry for entry in entries if not entry.is_directory)
            level = [entry.path for entry in entries if entry.is_directory]
        return files

    def _listings(self, paths: list[str]) -> list[list[FileInfo]]:
        if len(paths) < _FEW_DIRECTORIES:
            return [self.list_directory(path) for path in paths]
        return read_many(self.list_directory, paths)

    def open_input(self, path: str, length: int | None = None) -> Any:  # noqa: ARG002
        """A pyarrow NativeFile for random reads, of the length that the file has."""
        from pyarrow import fs

        with translated("open", path):
            return fs.LocalFileSystem().open_input_file(path)

    def open_output(self, path: str) -> Any:
        """A pyarrow NativeFile for writing a new file; makes its directory."""
        from pyarrow import fs

        with translated("write", path):
            _make_parent(path)
            # An earlier attempt at the file may still be writing: it keeps a file without a name.
            _delete(path)
            _drop_stale_checksum(path)
            return fs.LocalFileSystem().open_output_stream(path)

    def read(self, path: str) -> bytes:
        """The whole content of a small file."""
        with translated("read", path), open(path, "rb", buffering=0) as stream:
            return stream.readall()

    def read_end(self, path: str, most: int) -> tuple[bytes, int]:
        """The last bytes of a file, at most so many, and the file's length."""
        with translated("read", path), open(path, "rb", buffering=0) as stream:
            length = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, length - most))
            return stream.readall(), length

    def write(self, path: str, content: bytes) -> None:
        """Write a small file, replacing what is there."""
        with translated("write", path), _opened_new(path, "wb") as stream:
            _write_all(stream, content)
        _drop_stale_checksum(path)

    def create(self, path: str, content: bytes) -> None:
        """Create the file with its whole content in one atomic step."""
        staged = staged_path(path)
        with translated("create", path):
            try:
                with _opened_new(staged, "xb") as stream:
                    _write_all(stream, content)
                    os.fsync(stream.fileno())
                os.link(staged, path)
            except FileExistsError as error:
                raise PathExistsError(f"{path} exists already") from error
            finally:
                _delete(staged)
        _drop_stale_checksum(path)

    def set_modification_time(self, path: str, milliseconds: int) -> bool:
        """Make the file look written then."""
        with translated("change the time of", path):
            os.utime(path, ns=(milliseconds * 1_000_000, milliseconds * 1_000_000))
        return True

    def make_directories(self, path: str) -> None:
        """Make a directory and its parents."""
        with translated("make", path):
            Path(path).mkdir(parents=True, exist_ok=True)

    def delete_file(self, path: str) -> None:
        """Delete one file."""
        with translated("delete", path):
            _delete(path)
        _drop_stale_checksum(path)

    def delete_directory(self, path: str) -> None:
        """Delete a directory with all that is in it; symbolic links are removed, never followed."""
        with translated("delete", path):
            if Path(path).exists():
                shutil.rmtree(path)

    def delete_empty_directory(self, path: str) -> bool:
        """Delete a directory if nothing is in it."""
        with translated("delete", path):
            try:
                Path(path).rmdir()
            except FileNotFoundError:
                return True
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return False
                raise
        return True


def _drop_stale_checksum(path: str) -> None:
    # Hadoop's LocalFileSystem verifies `.<name>.crc` beside a file; the checksum of an earlier content makes
    # every Hadoop reader fail.
    directory, name = path.rsplit("/", 1)
    _delete(f"{directory}/.{name}.crc")


def _delete(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _opened_new(path: str, mode: Literal["wb", "xb"]) -> FileIO:
    """Open a file for writing; makes its directory if it is missing."""
    try:
        return open(path, mode, buffering=0)
    except FileNotFoundError:
        _make_parent(path)
        return open(path, mode, buffering=0)


def _make_parent(path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)


def _write_all(stream: FileIO, content: bytes) -> None:
    left = memoryview(content)
    while len(left):
        left = left[stream.write(left) :]
