"""The place in a source of rows, which a commit stores in its extra metadata together with the rows.

As with the checkpoints of Hudi's streaming sink (`_hudi_streaming_sink_checkpoint`), the newest commit with a
place is used, so that other writers need not copy it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeVar

from hudisql.format.timeline.instant import COMMIT_ACTIONS
from hudisql.table.hudi_table import HudiTable
from hudisql.table.listed_again import read_listed_again
from hudisql.table.timeline.archived_timeline import read_archived_entries
from hudisql.table.timeline.instant_files import read_extra_metadata

T = TypeVar("T")


class CommitCheckpoint(Protocol):
    """The checkpoint that a commit stores for the source of its rows, with the check of it."""

    @property
    def extra_metadata(self) -> Mapping[str, str]:
        """The extra metadata of the commit."""

    def check(self, target: HudiTable) -> None:
        """Raise WriteConflictError if another commit has moved the place since; called under the lock."""


def find_newest(table: HudiTable, key: str, value_of: Callable[[str], T | None]) -> T | None:
    """`value_of` of the newest commit's extra metadata with this key; None if no commit has it.

    Commits for which `value_of` returns None are skipped. Archived commits are read last, and only those that
    name `key` are decoded. Commits that are archived meanwhile are read from the archive. Raises
    CorruptTableError, UnsupportedTableError, StorageError.
    """

    def find(current: HudiTable) -> T | None:
        for extra_metadata in _newest_first(current, key):
            text = extra_metadata.get(key)
            if text is not None and (found := value_of(text)) is not None:
                return found
        return None

    return read_listed_again(table, find)


def _newest_first(table: HudiTable, key: str) -> Iterator[Mapping[str, str | None]]:
    """The extra metadata of the table's commits, of the archived ones those that name `key`."""
    commits = table.timeline.commits[::-1]
    # Usually the newest commit has it.
    for some in (commits[:1], commits[1:]):
        yield from read_extra_metadata(table, some)
    starts = table.timeline.first_active_time
    for entry in reversed(read_archived_entries(table, containing=key.encode())):
        # After an interrupted archiving the archive has commits that were rolled back later.
        is_undone = starts is not None and entry.instant.timestamp >= starts
        if is_undone or entry.instant.action not in COMMIT_ACTIONS:
            continue
        if (metadata := entry.commit_metadata) is not None:
            yield metadata.extra_metadata
