"""Counts the requests to the store that one process sends: on the driver, not those of Spark's tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hudisql.storage.local import LocalFileSystem

LOOKS = ("info",)
LISTINGS = ("list_directory", "list_file_names", "list_files")
READS = ("open_input", "read", "read_end")
WRITES = ("open_output", "write", "create", "delete_file", "delete_directory", "delete_empty_directory")


A_FEW = 5
"""What threads beside a statement may send: a lock or a heartbeat is renewed by time."""


@dataclass
class Requests:
    """The requests for `roots` and what is below them so far, each as its operation and path."""

    roots: tuple[str, ...]
    sent: list[tuple[str, str]] = field(default_factory=list)

    def below(self, path: str, *operations: str) -> list[tuple[str, str]]:
        """The requests for the path and what is below it, of these operations or of all."""
        return [
            (operation, asked)
            for operation, asked in self.sent
            if _is_below(asked, path) and (not operations or operation in operations)
        ]

    def counts(self) -> dict[str, int]:
        """The number of requests by operation."""
        return dict(Counter(operation for operation, _ in self.sent))

    def __len__(self) -> int:
        return len(self.sent)


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


@contextmanager
def counted_requests(*roots: str | Path) -> Iterator[Requests]:
    """The requests of this process for local files below `roots`, each counted as one to an object store.

    Other directories are left out: locks and heartbeats of earlier tests may still be renewed there.
    """
    requests = Requests(tuple(map(str, roots)))
    list_directory = LocalFileSystem.list_directory
    with pytest.MonkeyPatch.context() as patch:
        # `list_files` is one request: an object store lists a tree by keys.
        patch.setattr(
            LocalFileSystem, "_listings", lambda store, paths: [list_directory(store, path) for path in paths]
        )
        for name in (*LOOKS, *LISTINGS, *READS, *WRITES):
            patch.setattr(LocalFileSystem, name, _counting(requests, name))
        yield requests


def _counting(requests: Requests, name: str) -> Any:
    operation = getattr(LocalFileSystem, name)

    def counted(store: LocalFileSystem, path: str, *arguments: Any) -> Any:
        if any(_is_below(path, root) for root in requests.roots):
            requests.sent.append((name, path))
        return operation(store, path, *arguments)

    return counted
