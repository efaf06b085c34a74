"""HDFS by hdfs-native, a client without a JVM; name services and their settings come from `dfs.*`.

Atomic creation is a staged file plus a rename that the name node refuses when the name is taken.
"""

from __future__ import annotations

import importlib
import io
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudisql.errors import NoSuchPathError, PathExistsError, StorageError
from hudisql.storage.file_system import FileInfo, translated
from hudisql.storage.hadoop_tokens import find_token_by_name
from hudisql.storage.paths import split_uri, staged_path
from hudisql.storage.unchanged_files import UnchangedFiles

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

# hdfs-native's own default waits for minutes for a missing name node.
_DEFAULTS: Final = {"dfs.client.failover.max.attempts": "5"}
# Of hdfs-native: the name node knows of no data node that has the file's blocks.
_NO_BLOCKS: Final = "Failed to complete file in time"
_PROTECTION_HINT: Final = (
    "the data nodes took none of it: with Kerberos set dfs.data.transfer.protection as the cluster has "
    "it (hdfs-site.xml in HADOOP_CONF_DIR); else look at the data nodes"
)
_HADOOP_CLASS = re.compile(r'RPCError\("(?:[\w.$]+\.)?([\w$]+)", "(.*)', re.DOTALL)


class HdfsFileSystem:
    """Paths `hdfs://name-service/a/b`; one client per name service, made when first asked."""

    stages = True

    def __init__(self, hadoop_configuration: Mapping[str, str]) -> None:
        self._configuration = _DEFAULTS | {
            key: value for key, value in hadoop_configuration.items() if not key.startswith("fs.s3a.")
        }
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()
        self.unchanged_files = UnchangedFiles()

    def info(self, path: str) -> FileInfo | None:
        """The entry at `path`, or None."""
        client, key = self._at(path)
        try:
            with _asked("look at", path):
                return _file_info(client.get_file_info(key), path)
        except NoSuchPathError:
            return None

    def list_directory(self, path: str) -> list[FileInfo]:
        """The entries directly in the directory."""
        return self._list(path, recursive=False)

    def list_file_names(self, path: str) -> list[str]:
        """The names of the files directly in the directory."""
        return [entry.name for entry in self.list_directory(path) if not entry.is_directory]

    def list_files(self, path: str) -> list[FileInfo]:
        """All files below the directory; hdfs-native walks the directories in parallel requests."""
        return [entry for entry in self._list(path, recursive=True) if not entry.is_directory]

    def _list(self, path: str, *, recursive: bool) -> list[FileInfo]:
        client, key = self._at(path)
        root = path[: len(path) - len(key)] if key != "/" else path.rstrip("/")
        with _asked("list", path):
            entries = [
                _file_info(status, root + status.path) for status in client.list_status(key, recursive)
            ]
        if [entry.path for entry in entries] == [path]:
            raise StorageError(f"cannot list {path}: it is a file")
        return entries

    def open_input(self, path: str, length: int | None = None) -> Any:  # noqa: ARG002
        """A pyarrow NativeFile for random reads, of the length that the file has."""
        client, key = self._at(path)
        with _asked("open", path):
            return pa.PythonFile(client.read(key), mode="r")

    def open_output(self, path: str) -> Any:
        """A pyarrow NativeFile for writing a new file; makes its directory."""
        return pa.PythonFile(self._writer(path), mode="w")

    def _writer(self, path: str) -> Any:
        client, key = self._at(path)
        from hdfs_native import WriteOptions

        with _asked("write", path):
            writer = client.create(key, WriteOptions(overwrite=True, create_parent=True))
        return _NewFile(writer, path, lambda: client.delete(key, recursive=False))

    def read(self, path: str) -> bytes:
        """The whole content of a small file."""
        client, key = self._at(path)
        with _asked("read", path):
            return bytes(client.read(key).read())

    def read_end(self, path: str, most: int) -> tuple[bytes, int]:
        """The last bytes of a file, at most so many, and the file's length."""
        with self.open_input(path) as source:
            length = source.size()
            source.seek(max(0, length - most))
            return bytes(source.read()), length

    def write(self, path: str, content: bytes) -> None:
        """Write a small file, replacing what is there."""
        with _asked("write", path), self._writer(path) as stream:
            stream.write(content)

    def create(self, path: str, content: bytes) -> None:
        """Create the file with its whole content in one atomic step."""
        client, key = self._at(path)
        staged = staged_path(path)
        staged_key = split_uri(staged)[1]
        try:
            self.write(staged, content)
            with _asked("create", path):
                client.rename(staged_key, key, overwrite=False)
        except (NoSuchPathError, PathExistsError) as error:
            # The client repeats a request whose answer is lost: if the staged file is gone, our own rename
            # created the file.
            if self.info(staged) is None and self.info(path) is not None:
                return
            raise PathExistsError(f"{path} exists already") from error
        finally:
            with suppress(OSError, RuntimeError):
                client.delete(staged_key, recursive=False)

    def set_modification_time(self, path: str, milliseconds: int) -> bool:
        """Make the file look written then."""
        client, key = self._at(path)
        with _asked("change the time of", path):
            client.set_times(key, milliseconds, milliseconds)
        return True

    def make_directories(self, path: str) -> None:
        """Make a directory and its parents."""
        client, key = self._at(path)
        with _asked("make", path):
            client.mkdirs(key, create_parent=True)

    def delete_file(self, path: str) -> None:
        """Delete one file."""
        client, key = self._at(path)
        with _asked("delete", path):
            client.delete(key, recursive=False)

    def delete_directory(self, path: str) -> None:
        """Delete a directory with all that is in it, past the trash. Raises StorageError for a file or
        `/`.
        """
        client, key = self._at(path)
        entry = self.info(path)
        if key == "/" or (entry is not None and not entry.is_directory):
            raise StorageError(f"cannot delete {path}: it is {'the root' if key == '/' else 'a file'}")
        with _asked("delete", path):
            client.delete(key, recursive=True)

    def delete_empty_directory(self, path: str) -> bool:
        """Delete a directory if nothing is in it: the name node refuses it otherwise."""
        client, key = self._at(path)
        try:
            with _asked("delete", path):
                client.delete(key, recursive=False)
        except NoSuchPathError:
            return True
        except StorageError:
            if self.list_directory(path):
                return False
            raise
        return True

    def _at(self, path: str) -> tuple[Any, str]:
        """The client of the path's name service, and the path within it."""
        authority, key = split_uri(path)
        with self._lock:
            if authority not in self._clients:
                self._clients[authority] = self._connect(authority)
            return self._clients[authority], key

    def _connect(self, authority: str) -> Any:
        try:
            native = importlib.import_module("hdfs_native")
        except ImportError as error:
            raise StorageError(
                "hdfs: paths need the package hdfs-native, which is not installed",
                hint="pip install 'hudisql[hdfs]', on the driver and on the executors",
            ) from error
        find_token_by_name(authority)
        with _asked("reach", f"hdfs://{authority}"):
            return native.Client(f"hdfs://{authority}", self._configuration)


class _NewFile(io.RawIOBase):
    """A file that is being written; one that cannot be completed is deleted again."""

    def __init__(self, writer: Any, path: str, delete: Callable[[], Any]) -> None:
        self._writer = writer
        self._path = path
        self._delete = delete

    def writable(self) -> bool:
        return True

    def write(self, content: Buffer, /) -> int:
        return int(self._writer.write(content))

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        try:
            with _asked("write", self._path):
                self._writer.close()
        except StorageError as error:
            with suppress(OSError, RuntimeError):
                self._delete()
            if _NO_BLOCKS in error.message:
                error.hint = _PROTECTION_HINT
            raise


def _file_info(status: Any, path: str) -> FileInfo:
    return FileInfo(path, 0 if status.isdir else status.length, status.modification_time, status.isdir)


@contextmanager
def _asked(operation: str, path: str) -> Iterator[None]:
    """Name nodes answer with Java's stack trace: keep its first line."""
    try:
        with translated(operation, path):
            yield
    except StorageError as error:
        if isinstance(error.__cause__, FileExistsError):
            raise PathExistsError(f"{path} exists already") from error.__cause__
        error.message = error.message.split("\n", 1)[0].split("\\n", 1)[0]
        error.args = (error.message,)
        raise
    except (RuntimeError, ValueError) as error:
        java = _HADOOP_CLASS.search(str(error))
        message = f"{java.group(1)}: {java.group(2)}" if java else str(error)
        raise StorageError(
            f"cannot {operation} {path}: {message.split(chr(10), 1)[0].split(chr(92) + 'n', 1)[0]}"
        ) from error
