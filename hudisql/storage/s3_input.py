"""An object of S3 of known length: a read is one request, and nothing is asked before the first.

Readers of parquet begin with the end of a file. It is kept: what else they need of a small file is in it.
An answer also has the length and the tag of the object: one that is replaced while it is read is an error.
Knows pyarrow only by what its `PythonFile` calls.
"""

from __future__ import annotations

import io
from typing import Any, Final

from hudisql.errors import StorageError
from hudisql.retry import retry

_PAUSES_SECONDS: Final = (0.1, 0.5, 2.0)
_BEYOND_THE_END: Final = frozenset({"416", "InvalidRange"})
_LONGEST_KEPT_END: Final = 1 << 20


class S3Input:
    """A readable file of Python. `bucket` is a bucket of `S3FileSystem`, `path` is for messages."""

    def __init__(self, bucket: Any, key: str, path: str, length: int) -> None:
        self._bucket = bucket
        self._key = key
        self._path = path
        self._length = length
        self._position = 0
        self._tag: str | None = None
        self._end = b""
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """The next bytes, fewer only at the end. Raises NoSuchPathError, StorageError."""
        stop = self._length if size < 0 else min(self._position + size, self._length)
        if stop <= self._position:
            return b""
        start, first_kept = self._position, self._length - len(self._end)
        if start >= first_kept:
            content = self._end[start - first_kept : stop - first_kept]
        else:
            with self._bucket.asked("read", self._path):
                content = retry(lambda: self._get(stop), _is_cut_off, _PAUSES_SECONDS)
            if stop == self._length and len(content) <= _LONGEST_KEPT_END:
                self._end = content
        self._position = stop
        return content

    def _get(self, stop: int) -> bytes:
        from botocore.exceptions import ClientError

        try:
            answer = self._bucket.client.get_object(
                Bucket=self._bucket.name, Key=self._key, Range=f"bytes={self._position}-{stop - 1}"
            )
        except ClientError as error:
            if is_beyond_the_end(error):
                raise StorageError(
                    f"{self._path} is shorter than the {self._length} bytes that it had when it was listed"
                ) from error
            raise
        length, tag = object_length(answer), answer.get("ETag")
        if length not in (None, self._length):
            raise StorageError(f"{self._path} has {length} bytes and had {self._length} when it was listed")
        if self._tag not in (None, tag):
            raise StorageError(f"{self._path} was replaced while it was read")
        self._tag = tag
        return bytes(answer["Body"].read())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position; returns it."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._length}[whence]
        self._position = origin + offset
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def close(self) -> None:
        """Nothing is open between reads."""
        self.closed = True


def is_beyond_the_end(error: Any) -> bool:
    """True for boto3's ClientError about a range of which the object has no byte."""
    return error.response.get("Error", {}).get("Code") in _BEYOND_THE_END


def object_length(answer: Any) -> int | None:
    """The length of the object of which boto3's answer has a range; None if it does not say it."""
    length = answer.get("ContentRange", "").rpartition("/")[2]
    return int(length) if length.isdigit() else None


def _is_cut_off(error: Exception) -> bool:
    """True for errors while an answer's content is received, which boto3 does not repeat."""
    from botocore.exceptions import IncompleteReadError, ReadTimeoutError, ResponseStreamingError

    return isinstance(error, IncompleteReadError | ReadTimeoutError | ResponseStreamingError)
