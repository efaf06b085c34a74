"""Reads of many files at once, in threads, which mostly wait for the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

READS_AT_ONCE: Final = 16
# Each holds a file's columns in memory.
_LARGE_READS: Final = 8
_T = TypeVar("_T")
_R = TypeVar("_R")


def read_small(read: Callable[[_T], _R], items: Iterable[_T], path: str) -> list[_R]:
    """The outcomes of small reads, of footers or manifests, in the order of the items.

    `path` is that of one of the files, or of their table. Local files are read one after the other: threads
    take three times the CPU time, and are not faster. Raises the first error of `read`.
    """
    if path.startswith("/"):
        return [read(item) for item in items]
    return read_many(read, items)


def read_many(read: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """The outcomes of reads of parts of files, in the items' order. Raises the first error of `read`."""
    return _in_threads(READS_AT_ONCE, read, list(items))


def read_large(read: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """The outcomes of reads of whole columns, in the order of the items. Raises the first error of `read`."""
    return _in_threads(_LARGE_READS, read, list(items))


def _in_threads(most: int, read: Callable[[_T], _R], items: list[_T]) -> list[_R]:
    if len(items) < 2:
        return [read(item) for item in items]
    with ThreadPoolExecutor(min(most, len(items))) as pool:
        return list(pool.map(read, items))
