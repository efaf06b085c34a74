"""Archived instants of timeline layout 2, as entries of the same form as those of layout 1.

Follows `HoodieArchivedTimeline` and `ArchivedTimelineLoaderV2` of Hudi 1.2: of each instant there are its
completed file and, for services, the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hudisql.format.timeline.archived_log_files import ArchivedEntry, archived_entry
from hudisql.format.timeline.instant import CLEAN, COMMIT, COMPACTION, REPLACE_COMMIT, Instant, InstantState
from hudisql.format.timeline.timeline_history import HistoryFile, HistoryInstant, read_history
from hudisql.table.meta_client import TableMetaClient

# The actions whose plans are kept, by the name of the completed action.
_PLANNED: Final = {CLEAN: CLEAN, COMMIT: COMPACTION, REPLACE_COMMIT: REPLACE_COMMIT}


def archived_instants(table: TableMetaClient, files: Sequence[HistoryFile]) -> list[Instant]:
    """The completed instants of the files, without their contents. Raises CorruptTableError, StorageError."""
    return [_completed(each) for each in read_history(table.storage, files)]


def history_entries(
    table: TableMetaClient, files: Sequence[HistoryFile], payload: str | None = None, containing: bytes = b""
) -> Iterator[ArchivedEntry]:
    """The states of the files' instants, oldest first, a file at a time.

    With `payload` only those that have this field, and with `containing` those whose bytes contain it. Raises
    CorruptTableError, StorageError.
    """
    for file in files:
        for each in read_history(table.storage, [file], contents=True):
            yield from entries_of(each, file.path, payload, containing)


def entries_of(
    found: HistoryInstant, path: str, payload: str | None = None, containing: bytes = b""
) -> Iterator[ArchivedEntry]:
    """The states of an instant that was read with contents from the file at `path`; as `history_entries`."""
    for instant, content in _states(found):
        if containing and containing not in content:
            continue
        entry = archived_entry(instant, content, instant.completion_time or None, path)
        if payload is None or entry.record.get(payload) is not None:
            yield entry


def _completed(found: HistoryInstant) -> Instant:
    return Instant(found.timestamp, found.action, InstantState.COMPLETED, found.completion_time)


def _states(found: HistoryInstant) -> Iterator[tuple[Instant, bytes]]:
    planned = _PLANNED.get(found.action)
    if found.plan and planned is not None:
        yield Instant(found.timestamp, planned, InstantState.REQUESTED), found.plan
    yield _completed(found), found.metadata or b""
