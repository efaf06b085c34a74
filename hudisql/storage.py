"""The only door to file systems: list, open, atomic create, delete.

Everything that touches bytes at rest, on the driver and in tasks, goes through a `Storage` value, which is
picklable and travels with the task. Paths inside hudisql are absolute and unencoded: plain `/a/b` for the
local file system, `scheme://authority/key` for others. `hadoop_uri` gives the form that Hadoop's `Path`
prints (`file:/a/b`), which is what Hudi's bootstrap index stores.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from hudisql.errors import NoSuchPathError, PathExistsError, StorageError

_LISTING_THREADS = 16


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


def parent_of(path: str) -> str:
    """The path of the folder that holds `path`."""
    return path.rsplit("/", 1)[0] or "/"


def join(base: str, *parts: str) -> str:
    """Join path components with single slashes; empty parts are left out."""
    return "/".join([base.rstrip("/"), *(part.strip("/") for part in parts if part.strip("/"))])


def is_inside(path: str, folder: str) -> bool:
    """True if `path` is `folder` or lies below it (both qualified)."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


@dataclass(frozen=True)
class Storage:
    """File systems as seen with one Hadoop configuration (`fs.*` settings; values are never printed)."""

    hadoop_configuration: Mapping[str, str] = field(default_factory=dict, repr=False)

    def qualify(self, path: str) -> str:
        """The absolute form of a path that a user or a metastore gave (`file:` URIs, relative paths).

        Raises StorageError for a scheme that hudisql has no file system for.
        """
        if path.startswith("file:"):
            path = "/" + path[len("file:") :].lstrip("/")
        elif "://" in path or (":" in path.split("/", 1)[0] and not path.startswith("/")):
            scheme = path.split(":", 1)[0]
            raise StorageError(
                f"no file system for '{scheme}:' paths: {path}",
                hint="this version reads and writes local paths",
            )
        return os.path.normpath(Path(path).absolute().as_posix())

    def hadoop_uri(self, path: str) -> str:
        """`path` as Hadoop's `Path.toString` prints it: `file:/a/b` for local files."""
        return f"file:{path}" if path.startswith("/") else path

    def info(self, path: str) -> FileInfo | None:
        """The entry at `path`, or None if there is none. Follows symbolic links."""
        return self.infos([path])[0]

    def infos(self, paths: Sequence[str]) -> list[FileInfo | None]:
        """The entries at `paths`, None where there is none, asked in parallel."""
        if len(paths) < 64:
            return [_local_info(path) for path in paths]
        with ThreadPoolExecutor(_LISTING_THREADS) as pool:
            return list(pool.map(_local_info, paths, chunksize=64))

    def exists(self, path: str) -> bool:
        """True if something is at `path`."""
        return self.info(path) is not None

    def list_directory(self, path: str) -> list[FileInfo]:
        """The entries directly in the folder, sorted by name. Raises NoSuchPathError, StorageError."""
        entries: list[FileInfo] = []
        with _translated("list", path), os.scandir(path) as scan:
            for entry in scan:
                stat = entry.stat()
                entries.append(
                    FileInfo(
                        f"{path.rstrip('/')}/{entry.name}",
                        stat.st_size,
                        stat.st_mtime_ns // 1_000_000,
                        entry.is_dir(),
                    )
                )
        return sorted(entries, key=lambda entry: entry.path)

    def list_directories(self, paths: Sequence[str]) -> list[list[FileInfo]]:
        """`list_directory` of many folders, in parallel, in the order asked."""
        if len(paths) < 8:
            return [self.list_directory(path) for path in paths]
        with ThreadPoolExecutor(_LISTING_THREADS) as pool:
            return list(pool.map(self.list_directory, paths))

    def list_files(self, path: str) -> list[FileInfo]:
        """All files below the folder, sorted by path. Raises NoSuchPathError, StorageError."""
        files: list[FileInfo] = []
        level = [path]
        while level:
            entries = [entry for listing in self.list_directories(level) for entry in listing]
            files.extend(entry for entry in entries if not entry.is_directory)
            level = [entry.path for entry in entries if entry.is_directory]
        return sorted(files, key=lambda entry: entry.path)

    def open_input(self, path: str) -> Any:
        """Open a file for random reads (a pyarrow NativeFile). Raises NoSuchPathError, StorageError."""
        with _translated("open", path):
            return fs.LocalFileSystem().open_input_file(path)

    def read(self, path: str) -> bytes:
        """The whole content of a small file. Raises NoSuchPathError, StorageError."""
        with _translated("read", path):
            return Path(path).read_bytes()

    def open_output(self, path: str) -> Any:
        """Open a new file for sequential writing (a pyarrow NativeFile), making its folder. Not atomic."""
        with _translated("write", path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            return fs.LocalFileSystem().open_output_stream(path)

    def write(self, path: str, content: bytes) -> None:
        """Write a file that nobody races for, making its folder; replaces what is there. Not atomic."""
        with self.open_output(path) as stream, _translated("write", path):
            stream.write(pa.py_buffer(content))
        self._drop_stale_checksum(path)

    def create(self, path: str, content: bytes) -> None:
        """Create `path` with its whole content in one atomic step.

        Of several racing creators exactly one wins, the others get PathExistsError; no reader ever sees a
        part of the content. Raises StorageError if the store fails.
        """
        staged = f"{parent_of(path)}/.{uuid.uuid4().hex}.hudisql-staged"
        with _translated("create", path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            try:
                with Path(staged).open("wb") as stream:
                    stream.write(content)
                    stream.flush()
                    os.fsync(stream.fileno())
                os.link(staged, path)
            except FileExistsError as error:
                raise PathExistsError(f"{path} exists already") from error
            finally:
                Path(staged).unlink(missing_ok=True)
        self._drop_stale_checksum(path)

    def make_directories(self, path: str) -> None:
        """Make a folder and its parents; no error if it exists."""
        with _translated("make", path):
            Path(path).mkdir(parents=True, exist_ok=True)

    def delete_file(self, path: str) -> None:
        """Delete one file; no error if it is gone already."""
        with _translated("delete", path):
            Path(path).unlink(missing_ok=True)
        self._drop_stale_checksum(path)

    def delete_directory(self, path: str) -> None:
        """Delete a folder with all that is in it; symbolic links are removed, never followed."""
        import shutil

        with _translated("delete", path):
            if Path(path).exists():
                shutil.rmtree(path)

    def _drop_stale_checksum(self, path: str) -> None:
        # Hadoop's LocalFileSystem verifies `.<name>.crc` beside a file; one left from an earlier content
        # makes every Hadoop reader fail.
        folder, name = path.rsplit("/", 1)
        Path(f"{folder}/.{name}.crc").unlink(missing_ok=True)


def _local_info(path: str) -> FileInfo | None:
    try:
        stat = Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(f"cannot look at {path}: {error.strerror or error}") from error
    return FileInfo(path, stat.st_size, stat.st_mtime_ns // 1_000_000, Path(path).is_dir())


class _translated:  # noqa: N801  (a context manager reads as a verb phrase)
    """Turn OSErrors of one operation into StorageErrors that name the operation and the path."""

    def __init__(self, operation: str, path: str) -> None:
        self._operation = operation
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not isinstance(error, OSError) or isinstance(error, StorageError):
            return
        if isinstance(error, FileNotFoundError):
            raise NoSuchPathError(f"no such path: {self._path}") from error
        hint = (
            "check the rights of the user that runs hudisql"
            if error.errno in (errno.EACCES, errno.EPERM)
            else None
        )
        raise StorageError(
            f"cannot {self._operation} {self._path}: {error.strerror or error}", hint=hint
        ) from error
