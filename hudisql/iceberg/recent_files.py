"""Metadata files that this process has written or read last, so that the next publication need not read them.

Only files that never change: manifests and manifest lists, whose names have the snapshot's id, and metadata
files, whose caller checks that the list of their current snapshot is there.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Final

_MOST_BYTES: Final = 16 << 20
_MOST_BYTES_OF_A_FILE: Final = 512 << 10
_contents: Final[OrderedDict[str, bytes]] = OrderedDict()
_lock: Final = Lock()


def recent_content(path: str) -> bytes | None:
    """The content of the file; None if it is not kept."""
    with _lock:
        content = _contents.get(path)
        if content is not None:
            _contents.move_to_end(path)
        return content


def keep_content(path: str, content: bytes) -> None:
    """Keep the content of a file that a committed snapshot names; the ones used least recently go for it."""
    if len(content) > _MOST_BYTES_OF_A_FILE:
        return
    with _lock:
        _contents[path] = content
        _contents.move_to_end(path)
        while sum(map(len, _contents.values())) > _MOST_BYTES:
            _contents.popitem(last=False)


def forget_contents() -> None:
    """Keep nothing, as in a new process."""
    with _lock:
        _contents.clear()
