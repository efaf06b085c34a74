"""An object of S3 that is written in sequence: one put if it is small, else an upload in parts.

An upload in parts takes three requests, however short the object is. Knows neither boto3 nor pyarrow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

# Longer objects gain more from parts that are sent while the next ones are written.
_LONGEST_PUT_BYTES: Final = 8 << 20


class S3Output:
    """A writable file of Python; the object appears when it is closed.

    `put` sends the whole content, `open_upload` opens a stream that uploads in parts.
    """

    def __init__(self, put: Callable[[bytes], None], open_upload: Callable[[], Any]) -> None:
        self._put = put
        self._open_upload = open_upload
        self._content = bytearray()
        self._upload: Any = None
        self.closed = False

    def write(self, content: bytes) -> int:
        """Append the content."""
        length = len(content)
        if self._upload is None and len(self._content) + length > _LONGEST_PUT_BYTES:
            self._upload = self._open_upload()
            self._upload.write(self._content)
            self._content = bytearray()
        if self._upload is None:
            self._content += content
        else:
            self._upload.write(content)
        return length

    def flush(self) -> None:
        """Nothing: what is written becomes visible as a whole."""

    def close(self) -> None:
        """Make the object visible."""
        if self.closed:
            return
        self.closed = True
        if self._upload is None:
            self._put(bytes(self._content))
        else:
            self._upload.close()
