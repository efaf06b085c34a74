"""S3 and S3-compatible stores: requests by boto3, data by pyarrow.

Directories are prefixes: a directory exists if a key starts with it, or if it has a marker (`directory/`, as
in S3A). Atomic creation is a put on the condition that the key does not exist (`If-None-Match: *`); a store
that ignores or refuses the condition cannot hold a table's timeline.
"""

from __future__ import annotations

import importlib
import random
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from hudisql.errors import NoSuchPathError, PathExistsError, StorageError
from hudisql.retry import retry
from hudisql.storage.file_system import FileInfo, translated
from hudisql.storage.paths import split_uri
from hudisql.storage.s3_credentials import S3Credentials, S3Keys
from hudisql.storage.s3_input import S3Input, is_beyond_the_end, object_length
from hudisql.storage.s3_listing import Listing, file_info, files_of, list_keys, list_prefix, list_prefixes
from hudisql.storage.s3_output import S3Output
from hudisql.storage.s3_settings import S3Settings, redacted, s3_settings
from hudisql.storage.unchanged_files import UnchangedFiles

_CREATOR: Final = "hudisql-creator"
_KEYS_PER_DELETE: Final = 1000
_CONNECTIONS: Final = 32
_CONFLICT_ATTEMPTS: Final = 8
_CONFLICT_PAUSE_SECONDS: Final = 0.05
_NOT_FOUND: Final = frozenset({"404", "NoSuchKey", "NoSuchBucket", "NotFound"})
_REFUSED: Final = frozenset({"403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"})
_EXISTS: Final = frozenset({"412", "PreconditionFailed"})
_CONFLICT: Final = frozenset({"409", "ConditionalRequestConflict", "OperationAborted"})


@dataclass(frozen=True)
class _Clients:
    """Both clients of one bucket, with the same credentials."""

    keys: S3Keys
    requests: Any
    data: Any


class S3FileSystem:
    """Paths `s3a://bucket/key` (also `s3`, `s3n`); clients of a bucket are made when it is first asked."""

    stages = False

    def __init__(self, hadoop_configuration: Mapping[str, str]) -> None:
        self._configuration = hadoop_configuration
        self._buckets: dict[str, _Bucket] = {}
        self._lock = threading.Lock()
        self.unchanged_files = UnchangedFiles()

    def info(self, path: str) -> FileInfo | None:
        """The object at `path`, or the directory of that prefix, or None."""
        bucket, key = self._at(path)
        with bucket.asked("look at", path):
            if key:
                head = _none_if_missing(bucket.client.head_object, Bucket=bucket.name, Key=key)
                if head is not None:
                    return file_info(path, head["ContentLength"], head["LastModified"])
            below = _none_if_missing(
                bucket.client.list_objects_v2, Bucket=bucket.name, Prefix=_prefix(key), MaxKeys=1
            )
        if below is None or (key and not below.get("KeyCount", len(below.get("Contents", ())))):
            return None
        return FileInfo(path, 0, 0, True)

    def list_directory(self, path: str) -> list[FileInfo]:
        """The entries directly in the directory, by a delimiter."""
        bucket, key = self._at(path)
        with bucket.asked("list", path):
            listing = list_prefix(bucket.client, bucket.name, _prefix(key))
        if listing == ([], []):
            self._require_directory(path, key)
        return _entries(path, _prefix(key), listing)

    def list_directories(self, paths: Sequence[str]) -> list[list[FileInfo]]:
        """The entries of many directories; none for one that is missing."""
        located = [self._at(path) for path in paths]
        prefixes: dict[str, dict[str, str]] = defaultdict(dict)
        for path, (bucket, key) in zip(paths, located, strict=True):
            prefixes[bucket.name][_prefix(key)] = path
        buckets = {bucket.name: bucket for bucket, _ in located}
        listings: dict[tuple[str, str], Listing] = {}
        for name, path_of in prefixes.items():
            with buckets[name].asked("list", next(iter(path_of.values()))):
                of_bucket = list_prefixes(buckets[name].client, name, list(path_of))
            listings |= {(name, prefix): listing for prefix, listing in of_bucket.items()}
        return [
            _entries(path, _prefix(key), listings[bucket.name, _prefix(key)])
            for path, (bucket, key) in zip(paths, located, strict=True)
        ]

    def list_file_names(self, path: str) -> list[str]:
        """The names of the files directly in the directory."""
        return [entry.name for entry in self.list_directory(path) if not entry.is_directory]

    def list_files(self, path: str) -> list[FileInfo]:
        """All files below the directory, by prefix."""
        bucket, key = self._at(path)
        with bucket.asked("list", path):
            objects = list_keys(bucket.client, bucket.name, _prefix(key))
        if not objects:
            self._require_directory(path, key)
        return files_of(objects, _prefix(key), path.rstrip("/") + "/")

    def _require_directory(self, path: str, key: str) -> None:
        """Raise if `path` is not a directory, after an empty listing below it."""
        if not key:
            return
        if self.info(path) is not None:
            raise StorageError(f"cannot list {path}: it is a file")
        raise NoSuchPathError(f"no such path: {path}")

    def open_input(self, path: str, length: int | None = None) -> Any:
        """A pyarrow NativeFile for random reads; with `length` nothing is asked before the first read."""
        bucket, key = self._at(path)
        with bucket.asked("open", path):
            if length is not None:
                return pa.PythonFile(S3Input(bucket, key, path, length), mode="r")
            return bucket.data.open_input_file(f"{bucket.name}/{key}")

    def open_output(self, path: str) -> Any:
        """A pyarrow NativeFile for writing a new object, which appears when it is closed."""
        bucket, _ = self._at(path)
        with bucket.asked("write", path):
            return pa.PythonFile(
                S3Output(partial(self.write, path), partial(self._open_upload, path)), mode="w"
            )

    def _open_upload(self, path: str) -> Any:
        bucket, key = self._at(path)
        with bucket.asked("write", path):
            return bucket.data.open_output_stream(f"{bucket.name}/{key}")

    def read(self, path: str) -> bytes:
        """The whole content of a small file."""
        bucket, key = self._at(path)
        with bucket.asked("read", path):
            return bytes(bucket.client.get_object(Bucket=bucket.name, Key=key)["Body"].read())

    def read_end(self, path: str, most: int) -> tuple[bytes, int]:
        """The last bytes of an object, at most so many, and its length."""
        bucket, key = self._at(path)
        with bucket.asked("read", path):
            from botocore.exceptions import ClientError

            try:
                answer = bucket.client.get_object(Bucket=bucket.name, Key=key, Range=f"bytes=-{most}")
            except ClientError as error:
                if is_beyond_the_end(error):
                    return b"", 0  # an empty object has no last byte
                raise
            content = bytes(answer["Body"].read())
        length = object_length(answer)
        # A store may answer the whole of a short object, as without a range.
        return content, len(content) if length is None else length

    def write(self, path: str, content: bytes) -> None:
        """Write a small file, replacing what is there."""
        bucket, key = self._at(path)
        with bucket.asked("write", path):
            bucket.client.put_object(Bucket=bucket.name, Key=key, Body=content)

    def create(self, path: str, content: bytes) -> None:
        """Create the object with its whole content on the condition that it does not exist."""
        bucket, key = self._at(path)
        creator = uuid.uuid4().hex
        with bucket.asked("create", path):
            code = _put_if_absent(bucket, key, content, creator)
            if code is None:
                return
            # boto3 repeats a put whose answer is lost: the existing object is then our own.
            head = _none_if_missing(bucket.client.head_object, Bucket=bucket.name, Key=key)
            if head is None or head.get("Metadata", {}).get(_CREATOR) != creator:
                raise PathExistsError(f"{path} exists already")

    def set_modification_time(self, path: str, milliseconds: int) -> bool:  # noqa: ARG002
        """The client cannot."""
        return False

    def make_directories(self, path: str) -> None:
        """Put the directory's marker, unless something is in the directory."""
        if self.info(path) is None:
            bucket, key = self._at(path)
            with bucket.asked("make", path):
                bucket.client.put_object(Bucket=bucket.name, Key=_prefix(key), Body=b"")

    def delete_file(self, path: str) -> None:
        """Delete one object."""
        bucket, key = self._at(path)
        with bucket.asked("delete", path):
            bucket.client.delete_object(Bucket=bucket.name, Key=key)

    def delete_directory(self, path: str) -> None:
        """Delete all keys below the prefix, a thousand a request. Raises StorageError for a whole bucket."""
        bucket, key = self._at(path)
        if not key:
            raise StorageError(f"cannot delete {path}: it is a whole bucket")
        with bucket.asked("delete", path):
            keys = [listed["Key"] for listed in list_keys(bucket.client, bucket.name, _prefix(key))]
            for start in range(0, len(keys), _KEYS_PER_DELETE):
                names = [{"Key": name} for name in keys[start : start + _KEYS_PER_DELETE]]
                answer = bucket.client.delete_objects(
                    Bucket=bucket.name, Delete={"Objects": names, "Quiet": True}
                )
                for failed in answer.get("Errors", ()):
                    raise StorageError(f"cannot delete {path}: {failed['Key']}: {failed.get('Message')}")

    def delete_empty_directory(self, path: str) -> bool:
        """Delete the directory's marker: an empty directory consists only of it."""
        bucket, key = self._at(path)
        with bucket.asked("delete", path):
            if key:
                bucket.client.delete_object(Bucket=bucket.name, Key=_prefix(key))
        return self.info(path) is None

    def _at(self, path: str) -> tuple[_Bucket, str]:
        name, key = split_uri(path)
        with self._lock:
            if name not in self._buckets:
                self._buckets[name] = _Bucket(name, s3_settings(self._configuration, name))
            return self._buckets[name], key[1:]


class _Bucket:
    """One bucket: its settings, and clients that follow its credentials as they are renewed."""

    def __init__(self, name: str, settings: S3Settings) -> None:
        self.name = name
        self._settings = settings
        self._credentials = S3Credentials(settings)
        self._clients: _Clients | None = None
        self._lock = threading.Lock()

    @property
    def client(self) -> Any:
        """boto3's client."""
        return self._current().requests

    @property
    def data(self) -> Any:
        """pyarrow's file system."""
        return self._current().data

    @contextmanager
    def asked(self, operation: str, path: str) -> Iterator[None]:
        """Turn exceptions of boto3 and pyarrow into StorageErrors without keys in their messages."""
        _require_boto3()
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            with translated(operation, path):
                yield
        except (ClientError, BotoCoreError) as error:
            code = _code(error)
            if code in _NOT_FOUND:
                raise NoSuchPathError(self._shown(f"no such path: {path}")) from None
            hint = "check the credentials in fs.s3a.* and their permissions" if code in _REFUSED else None
            raise StorageError(f"cannot {operation} {path}: {self._shown(error)}", hint=hint) from None
        except StorageError as error:
            error.message = self._shown(error.message)
            error.args = (error.message,)
            raise

    def _shown(self, shown: object) -> str:
        keys = self._clients.keys if self._clients else S3Keys()
        renewed = (keys.access_key, keys.secret_key, keys.session_token)
        return redacted(str(shown), (*self._settings.secrets, *(text for text in renewed if text)))

    def _current(self) -> _Clients:
        keys = self._credentials.current()
        with self._lock:
            if self._clients is None or self._clients.keys != keys:
                region = self._settings.region or _region_of(self.name)
                self._clients = _Clients(
                    keys, _boto3_client(self._settings, keys, region), _pyarrow(self._settings, keys, region)
                )
            return self._clients


def _put_if_absent(bucket: _Bucket, key: str, content: bytes, creator: str) -> str | None:
    """Put on the condition that the key does not exist; None on success, else S3's error code."""
    from botocore.exceptions import ClientError

    def put() -> str | None:
        try:
            bucket.client.put_object(
                Bucket=bucket.name,
                Key=key,
                Body=content,
                IfNoneMatch="*",
                Metadata={_CREATOR: creator},
            )
        except ClientError as error:
            if (code := _code(error)) in _EXISTS:
                return code
            raise
        return None

    # A conditional put beside another one or a deletion: S3 may refuse both, and asks to put again.
    pauses = (
        _CONFLICT_PAUSE_SECONDS * 2**number * random.uniform(0.5, 1.5)
        for number in range(_CONFLICT_ATTEMPTS - 1)
    )
    return retry(put, lambda error: isinstance(error, ClientError) and _code(error) in _CONFLICT, pauses)


def _boto3_client(settings: S3Settings, keys: S3Keys, region: str) -> Any:
    import boto3
    from botocore import UNSIGNED
    from botocore.config import Config

    style = "path" if settings.path_style else "virtual" if settings.endpoint else "auto"
    return boto3.session.Session().client(
        "s3",
        region_name=region,
        endpoint_url=settings.endpoint_url,
        aws_access_key_id=keys.access_key,
        aws_secret_access_key=keys.secret_key,
        aws_session_token=keys.session_token,
        config=Config(
            s3={"addressing_style": style},
            signature_version=UNSIGNED if keys.anonymous else "s3v4",
            retries={"mode": "standard", "total_max_attempts": settings.attempts},
            max_pool_connections=_CONNECTIONS,
            # Many S3-compatible stores do not support the newer checksums.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


def _pyarrow(settings: S3Settings, keys: S3Keys, region: str) -> Any:
    identity = (
        {"anonymous": True}
        if keys.anonymous
        else {
            "access_key": keys.access_key,
            "secret_key": keys.secret_key,
            "session_token": keys.session_token,
        }
    )
    return fs.S3FileSystem(
        **identity,
        region=region,
        scheme="https" if settings.secure else "http",
        endpoint_override=settings.endpoint,
        force_virtual_addressing=settings.endpoint is not None and not settings.path_style,
    )


def _region_of(bucket: str) -> str:
    """The region of a bucket of AWS for which none is set."""
    import boto3

    region = boto3.session.Session().region_name
    return str(region or fs.resolve_s3_region(bucket))


def _require_boto3() -> None:
    try:
        importlib.import_module("boto3")
    except ImportError as error:
        raise StorageError(
            "s3a: paths need the package boto3, which is not installed",
            hint="pip install 'hudisql[s3]', on the driver and on the executors",
        ) from error


def _none_if_missing(request: Any, **arguments: Any) -> Any:
    from botocore.exceptions import ClientError

    try:
        return request(**arguments)
    except ClientError as error:
        if _code(error) in _NOT_FOUND:
            return None
        raise


def _code(error: Any) -> str:
    return str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))


def _entries(path: str, prefix: str, listing: Listing) -> list[FileInfo]:
    """The directories and files of the directory at `path`."""
    directories, objects = listing
    root = path.rstrip("/") + "/"
    entries = [FileInfo(root + name[len(prefix) : -1], 0, 0, True) for name in directories]
    return entries + files_of(objects, prefix, root)


def _prefix(key: str) -> str:
    return f"{key}/" if key else ""
