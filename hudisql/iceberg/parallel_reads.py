"""Small reads of many files at once: footers and manifests, which mostly wait for the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

_READERS_AT_ONCE: Final = 16
_T = TypeVar("_T")
_R = TypeVar("_R")


def read_in_parallel(read: Callable[[_T], _R], items: Iterable[_T], path: str) -> list[_R]:
    """The outcomes of `read` in the order of the items. Raises its first error.

    `path` is that of one of the files, or of their table. Local files are read one after the other: threads
    take three times the CPU time, and are not faster.
    """
    if path.startswith("/"):
        return [read(item) for item in items]
    with ThreadPoolExecutor(_READERS_AT_ONCE) as pool:
        return list(pool.map(read, items))
