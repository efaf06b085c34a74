"""`Storage`: the value that functions take to access files; it chooses the store of a path.

Paths inside hudisql are absolute and unencoded: plain `/a/b` for the local file system,
`scheme://authority/key` for others. `hadoop_uri` gives the form that Hadoop's `Path` prints (`file:/a/b`),
which is what Hudi's bootstrap index stores. Settings are pickled with the value. Open connections are not:
each process opens its own, once per configuration.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from hudisql.errors import NoSuchPathError, StorageError
from hudisql.storage.file_system import FileInfo, FileSystem
from hudisql.storage.local import LocalFileSystem
from hudisql.storage.parallel_reads import read_many
from hudisql.storage.paths import (
    S3_SCHEMES,
    ancestors_of,
    canonical,
    check_holds_no_credentials,
    is_staged,
    join,
    normalized_uri,
    parent_of,
    scheme_of,
    split_uri,
)
from hudisql.storage.unchanged_files import UnchangedFiles

_MANY_PREFIXES: Final = 32
_LOCAL: Final = LocalFileSystem()

_Answer = TypeVar("_Answer")
_opened: dict[tuple[object, ...], FileSystem] = {}


@dataclass(frozen=True)
class Storage:
    """File systems as seen with one Hadoop configuration (`fs.*`, `dfs.*`; values are never printed)."""

    hadoop_configuration: Mapping[str, str] = field(default_factory=dict, repr=False)

    def qualify(self, path: str) -> str:
        """The absolute form of a path that a user or a metastore gave (`file:` URIs, relative paths).

        `s3`, `s3n` and `s3a` are kept as given; for `resolve` and `is_inside` they are one store. Raises
        StorageError for a scheme that hudisql has no file system for, InvalidArgumentError for credentials in
        the path.
        """
        check_holds_no_credentials(path)
        if path.startswith("file:"):
            path = "/" + path[len("file:") :].lstrip("/")
        elif "://" in path or (":" in path.split("/", 1)[0] and not path.startswith("/")):
            scheme = scheme_of(path)
            if scheme in S3_SCHEMES:
                return normalized_uri(path)
            if scheme == "hdfs":
                return normalized_uri(path, self._default_name_service())
            scheme = path.split(":", 1)[0]
            raise StorageError(
                f"no file system for '{scheme}:' paths: {path}",
                hint=f"known are local paths, {', '.join(f'{name}:' for name in S3_SCHEMES)} and hdfs:",
            )
        return os.path.normpath(path if path.startswith("/") else Path(path).absolute().as_posix())

    def resolve(self, path: str) -> str:
        """`path` for comparisons, to find out whether two paths overlap; it need not exist.

        Local symbolic links are followed; the schemes `s3` and `s3n` become `s3a`.
        """
        return os.path.realpath(path) if path.startswith("/") else canonical(path)

    def hadoop_uri(self, path: str) -> str:
        """`path` as Hadoop's `Path.toString` prints it: `file:/a/b` for local files."""
        return f"file:{path}" if path.startswith("/") else path

    def info(self, path: str) -> FileInfo | None:
        """The entry at `path`, or None if there is none. Follows symbolic links."""
        return self._file_system(path).info(path)

    def infos(self, paths: Sequence[str]) -> list[FileInfo | None]:
        """The entries at `paths`, None where there is none, asked in parallel."""
        return self._map(self.info, paths, few_local=64)

    def infos_by_directory(self, paths: Sequence[str]) -> list[FileInfo | None]:
        """`infos` of files, by one listing of each directory that holds several of them.

        What cannot be listed, for want of permission or for another file in it, is asked file by file.
        """
        in_directory = Counter(parent_of(path) for path in paths)
        listed = [directory for directory, files in in_directory.items() if files > 1]
        try:
            entries = self.list_directories(listed, missing_ok=True)
        except StorageError:
            return self.infos(paths)
        infos = {entry.path: entry for listing in entries for entry in listing}
        single = [path for path in paths if in_directory[parent_of(path)] == 1]
        infos |= {
            path: info for path, info in zip(single, self.infos(single), strict=True) if info is not None
        }
        return [infos.get(path) for path in paths]

    def exists(self, path: str) -> bool:
        """True if something is at `path`."""
        return self.info(path) is not None

    def list_directory(self, path: str) -> list[FileInfo]:
        """The entries directly in the directory, sorted by name. Raises NoSuchPathError, StorageError."""
        return sorted(self._file_system(path).list_directory(path), key=lambda entry: entry.path)

    def list_directories(self, paths: Sequence[str], *, missing_ok: bool = False) -> list[list[FileInfo]]:
        """`list_directory` of many directories, in parallel, in the order asked.

        With `missing_ok` a missing directory has no entries.
        """
        if len(paths) >= _MANY_PREFIXES and all(scheme_of(path) in S3_SCHEMES for path in paths):
            return self._list_prefixes(paths, missing_ok=missing_ok)
        return self._map(self._entries_if_there if missing_ok else self.list_directory, paths, few_local=8)

    def _list_prefixes(self, paths: Sequence[str], *, missing_ok: bool) -> list[list[FileInfo]]:
        from hudisql.storage.s3 import S3FileSystem

        store = self._file_system(paths[0])
        assert isinstance(store, S3FileSystem)
        listings = [
            sorted(directory, key=lambda entry: entry.path) for directory in store.list_directories(paths)
        ]
        empty = (
            [] if missing_ok else [path for path, listing in zip(paths, listings, strict=True) if not listing]
        )
        # Raises for those that are missing.
        self._map(self.list_directory, empty, few_local=8)
        return listings

    def _entries_if_there(self, path: str) -> list[FileInfo]:
        try:
            return self.list_directory(path)
        except NoSuchPathError:
            return []

    def list_file_names(self, path: str) -> list[str]:
        """The names of the files directly in the directory, sorted. Raises NoSuchPathError, StorageError."""
        return sorted(self._file_system(path).list_file_names(path))

    def list_files(self, path: str) -> list[FileInfo]:
        """All files below the directory, sorted by path. Raises NoSuchPathError, StorageError."""
        return sorted(self._file_system(path).list_files(path), key=lambda entry: entry.path)

    def open_input(self, path: str, length: int | None = None) -> Any:
        """Open a file for random reads (a pyarrow NativeFile). Raises NoSuchPathError, StorageError.

        `length` is known from a listing: an object store then asks nothing before the first read, and only
        there finds that the file is gone (NoSuchPathError) or has another length (StorageError).
        """
        return self._file_system(path).open_input(path, length)

    def read(self, path: str) -> bytes:
        """The whole content of a small file. Raises NoSuchPathError, StorageError."""
        return self._file_system(path).read(path)

    def read_end(self, path: str, most: int) -> tuple[bytes, int]:
        """The last bytes of a file, at most so many, and the file's length, by one request.

        Raises NoSuchPathError, StorageError.
        """
        return self._file_system(path).read_end(path, most)

    def read_files(self, paths: Sequence[str]) -> list[bytes]:
        """`read` of many small files, in parallel, in the order asked."""
        return self._map(self.read, paths, few_local=64)

    def open_output(self, path: str) -> Any:
        """Open a new file for sequential writing (a pyarrow NativeFile), making its directory. Not atomic."""
        return self._file_system(path).open_output(path)

    def write(self, path: str, content: bytes) -> None:
        """Write a file that has no other writers, and its directory; replaces a file. Not atomic."""
        self._file_system(path).write(path, content)

    def write_files(self, paths: Sequence[str], content: bytes) -> None:
        """`write` the same content to many paths, in parallel."""
        self._map(lambda path: self.write(path, content), paths, few_local=64)

    def create(self, path: str, content: bytes) -> None:
        """Create `path` with its whole content in one atomic step.

        Of several concurrent creators exactly one succeeds, the others get PathExistsError. Readers never see
        partial content. Raises StorageError if the store fails.
        """
        self._file_system(path).create(path, content)

    def delete_staged(
        self, path: str, before_ms: int, entries: Iterable[FileInfo | None] | None = None
    ) -> None:
        """Delete the staged files of killed creators in the directory that are older than that time (epoch
        ms).

        `entries` are those of the directory if it was just listed. Only `create` makes such files, each for a
        short time. Raises NoSuchPathError, StorageError.
        """
        if not self._file_system(path).stages:
            return
        if entries is None:
            entries = self.infos([join(path, name) for name in self.list_file_names(path) if is_staged(name)])
        for entry in entries:
            if entry is not None and is_staged(entry.path) and entry.modification_time_ms < before_ms:
                self.delete_file(entry.path)

    def unchanged_files(self, path: str) -> UnchangedFiles | None:
        """What this process keeps of small files in the store of `path`; None if it keeps none."""
        return self._file_system(path).unchanged_files

    def creation_problem(self, path: str) -> str | None:
        """The reason why `path` cannot be created, as far as that is visible without writing; None without
        one.

        Raises StorageError.
        """
        if scheme_of(path) in S3_SCHEMES:
            return None  # object stores have neither directories nor permission bits
        for directory in (path, *ancestors_of(path)):
            entry = self.info(directory)
            if entry is None:
                continue
            if not entry.is_directory:
                return f"{directory} is a file"
            if path.startswith("/") and not os.access(directory, os.W_OK | os.X_OK):
                return f"{directory} cannot be written"
            return None
        return None

    def set_modification_time(self, path: str, milliseconds: int) -> bool:
        """Set the file's modification time (epoch ms); False if the store cannot. Raises StorageError."""
        return self._file_system(path).set_modification_time(path, milliseconds)

    def make_directories(self, path: str) -> None:
        """Make a directory and its parents; no error if it exists."""
        self._file_system(path).make_directories(path)

    def delete_file(self, path: str) -> None:
        """Delete one file; no error if it is gone already."""
        self._file_system(path).delete_file(path)

    def delete_files(self, paths: Sequence[str]) -> None:
        """Delete many files, in parallel; no error for those that are gone already."""
        self._map(self.delete_file, paths, few_local=64)

    def delete_directory(self, path: str) -> None:
        """Delete a directory with all that is in it; symbolic links are removed, never followed."""
        self._file_system(path).delete_directory(path)

    def delete_empty_directory(self, path: str) -> bool:
        """Delete a directory if nothing is in it, in one step of the store; True if it is gone.

        If another client creates a file in it at the same time, the file and the directory stay.
        """
        return self._file_system(path).delete_empty_directory(path)

    def _map(self, ask: Callable[[str], _Answer], paths: Sequence[str], *, few_local: int) -> list[_Answer]:
        few = few_local if all(path.startswith("/") for path in paths) else 2
        return [ask(path) for path in paths] if len(paths) < few else read_many(ask, paths)

    def _file_system(self, path: str) -> FileSystem:
        if path.startswith("/"):
            return _LOCAL
        scheme = scheme_of(path)
        if scheme not in (*S3_SCHEMES, "hdfs"):
            raise StorageError(f"no file system for {path}", hint="qualify the path first")
        kind = "hdfs" if scheme == "hdfs" else "s3"
        # Connections do not survive a fork, so the process is part of their key.
        known_by = (os.getpid(), kind, *sorted(self.hadoop_configuration.items()))
        if known_by not in _opened:
            _opened[known_by] = _open(kind, self.hadoop_configuration)
        return _opened[known_by]

    def _default_name_service(self) -> str:
        default = self.hadoop_configuration.get("fs.defaultFS", "")
        return split_uri(default)[0] if default.startswith("hdfs://") else ""


def _open(kind: str, configuration: Mapping[str, str]) -> FileSystem:
    if kind == "s3":
        from hudisql.storage.s3 import S3FileSystem

        return S3FileSystem(configuration)
    from hudisql.storage.hdfs import HdfsFileSystem

    return HdfsFileSystem(configuration)
