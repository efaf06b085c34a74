"""The file groups that completed replacecommits have replaced and that readers ignore.

Follows `AbstractTableFileSystemView.resetFileGroupsReplaced` of Hudi 0.15. A completed instant never changes,
so each one is read once in a process, and several are read in parallel.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from hudisql.format.paths.file_names import FileGroup
from hudisql.format.timeline.instant import REPLACE_COMMIT, Instant
from hudisql.table.meta_client import TableMetaClient
from hudisql.table.timeline.instant_files import read_replaced_file_ids

MOST_GROUPS: Final = 1_000_000


class ReplacedGroups:
    """The replaced file groups by table and instant; the oldest are dropped above `MOST_GROUPS`."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, Instant], frozenset[FileGroup]] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: tuple[str, Instant]) -> frozenset[FileGroup] | None:
        """The file groups that an instant replaced, None if they are not known."""
        with self._lock:
            return self._known.get(key)

    def put(self, key: tuple[str, Instant], groups: frozenset[FileGroup]) -> None:
        """Remember the groups."""
        with self._lock:
            if key in self._known:
                return
            self._known[key] = groups
            # One more, since entries without groups take memory, too.
            self._count += len(groups) + 1
            while self._count > MOST_GROUPS and len(self._known) > 1:
                _, dropped = self._known.popitem(last=False)
                self._count -= len(dropped) + 1


_replaced: Final = ReplacedGroups()


def replaced_file_groups(table: TableMetaClient, as_of: str | None = None) -> frozenset[FileGroup]:
    """`(partition path, file id)` of the groups that a completed replacecommit has replaced.

    Raises CorruptTableError, StorageError.
    """
    return frozenset().union(*_groups_by_commit(table, as_of).values())


def replacement_times(table: TableMetaClient) -> dict[FileGroup, str]:
    """The instant time of the newest commit that has replaced each file group.

    Raises CorruptTableError, StorageError.
    """
    by_commit = _groups_by_commit(table, None)
    return {group: commit.timestamp for commit in sorted(by_commit) for group in by_commit[commit]}


def _groups_by_commit(table: TableMetaClient, as_of: str | None) -> dict[Instant, frozenset[FileGroup]]:
    commits = [instant for instant in table.timeline.commits_until(as_of) if instant.action == REPLACE_COMMIT]
    found = {instant: _replaced.get((table.base_path, instant)) for instant in commits}
    unknown = [commit for commit, groups in found.items() if groups is None]
    for commit, by_partition in zip(
        unknown,
        read_replaced_file_ids(table, unknown),
        strict=True,
    ):
        groups = frozenset(
            (partition, file_id) for partition, file_ids in by_partition.items() for file_id in file_ids
        )
        found[commit] = groups
        _replaced.put((table.base_path, commit), groups)
    return {commit: groups for commit, groups in found.items() if groups is not None}
