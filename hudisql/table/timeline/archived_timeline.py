"""The archived instants of a table, including those of Apache Hudi's writers.

Follows `HoodieArchivedTimeline` of Hudi 0.15. `history_entries` reads the archive of timeline layout 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from hudisql.errors import NoSuchPathError
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.format.timeline.archived_log_files import (
    ArchivedEntry,
    archive_file_number,
    archived_content,
    archived_entry,
    parse_archive_file,
    parse_archived_instants,
)
from hudisql.format.timeline.instant import (
    CLEAN,
    COMMIT,
    COMMIT_ACTIONS,
    COMPACTION,
    REPLACE_COMMIT,
    Instant,
    InstantState,
    second_of,
)
from hudisql.format.timeline.timeline_history import HistoryFile, HistoryInstant, read_history
from hudisql.format.timeline.timeline_layout import archive_directory
from hudisql.storage import FileInfo
from hudisql.table.meta_client import TableMetaClient
from hudisql.table.timeline.completion_times import history_files

# Clocks of writers and stores differ, and so does the time zone of a timeline.
_CLOCK_TOLERANCE: Final = timedelta(days=1)

# The actions whose plans are kept, by the name of the completed action.
_PLANNED: Final = {CLEAN: CLEAN, COMMIT: COMPACTION, REPLACE_COMMIT: REPLACE_COMMIT}


def list_archive_files(table: TableMetaClient) -> list[tuple[int, FileInfo]]:
    """The archive files with their numbers, oldest first. Raises CorruptTableError, StorageError."""
    if table.timeline.layout.has_completion_times:
        infos = table.storage.infos([file.path for file in history_files(table)])
        return [(number, info) for number, info in enumerate(infos) if info is not None]
    directory = archive_directory(table.base_path, table.properties.archive_directory)
    try:
        entries = table.storage.list_directory(directory)
    except NoSuchPathError:
        return []
    numbered = [(archive_file_number(entry.name), entry) for entry in entries if not entry.is_directory]
    return sorted(
        [(number, entry) for number, entry in numbered if number is not None],
        key=lambda numbered_entry: numbered_entry[0],
    )


def read_archived_entries(
    table: TableMetaClient, payload: str | None = None, containing: bytes = b""
) -> list[ArchivedEntry]:
    """All archived states of instants in the order of their instants, each once.

    `payload` and `containing` as in `parse_archive_file`. A crash during archiving or merging leaves some
    entries twice. Raises CorruptTableError, UnsupportedTableError, StorageError.
    """
    if table.timeline.layout.has_completion_times:
        entries = list(history_entries(table, history_files(table), payload, containing))
        return sorted(entries, key=lambda entry: entry.instant)
    paths = [entry.path for _, entry in list_archive_files(table)]
    archived_entries = {
        (entry.instant.timestamp, entry.instant.action, entry.instant.state): entry
        for path, content in zip(paths, table.storage.read_files(paths), strict=True)
        for entry in parse_archive_file(content, path, payload, containing)
    }
    return [archived_entries[key] for key in sorted(archived_entries)]


@dataclass(slots=True)
class ArchiveReader:
    """Finds archived instants by their names alone, and decodes an entry when it is asked for.

    Memory: the names, and one archive file.
    """

    table: TableMetaClient
    _path: str = ""
    _content: bytes = b""
    _history: Sequence[HistoryInstant] = ()

    def completed_instants(self) -> dict[Instant, str]:
        """The completed instants and the archive file of each.

        Raises CorruptTableError, UnsupportedTableError, StorageError.
        """
        if self.table.timeline.layout.has_completion_times:
            return {
                instant: file.path
                for file in history_files(self.table)
                for instant in archived_instants(self.table, [file])
            }
        return {
            instant: entry.path
            for _, entry in list_archive_files(self.table)
            for instant in parse_archived_instants(self._read(entry.path), entry.path)
            if instant.is_completed
        }

    def entry(self, instant: Instant, path: str, payload: str | None) -> ArchivedEntry | None:
        """The instant's entry in this file, if it has this payload (None: any).

        Raises CorruptTableError, UnsupportedTableError, StorageError.
        """
        if self.table.timeline.layout.has_completion_times:
            entries = (
                entry
                for history_row in self._history_of(path)
                if history_row.timestamp == instant.timestamp
                for entry in entries_of(history_row, path, payload)
            )
            return next((entry for entry in entries if entry.instant == instant), None)
        archived_entries = parse_archive_file(self._read(path), path, payload, instant.timestamp.encode())
        return next((entry for entry in archived_entries if entry.instant == instant), None)

    def content(self, instant: Instant, path: str) -> bytes | None:
        """The content of the instant's file, if it is in this archive file.

        In timeline layout 1 the content of a commit lacks its log files, which archives do not keep. Raises
        CorruptTableError, UnsupportedTableError, StorageError.
        """
        if self.table.timeline.layout.has_completion_times:
            for history_row in self._history_of(path):
                named = history_row.timestamp, history_row.action
                if named == (instant.timestamp, instant.completed_action):
                    return (history_row.metadata if instant.is_completed else history_row.plan) or b""
            return None
        entry = self.entry(instant, path, None)
        return None if entry is None else archived_content(entry)

    def _history_of(self, path: str) -> Sequence[HistoryInstant]:
        if path != self._path:
            self._history = read_history(self.table.storage, [HistoryFile(path, "", "", 0)], contents=True)
            self._path = path
        return self._history

    def _read(self, path: str) -> bytes:
        if path != self._path:
            self._path, self._content = path, self.table.storage.read(path)
        return self._content


def archive_paths_of(table: TableMetaClient, instant_time: str) -> list[str]:
    """The archive files that may have instants of this time, the newest first.

    Raises CorruptTableError, StorageError.
    """
    if table.timeline.layout.has_completion_times:
        files = history_files(table)
        return [file.path for file in reversed(files) if file.first <= instant_time <= file.last]
    return _paths_written_since(table, instant_time)[::-1]


def archived_commits(table: TableMetaClient, timeline: Timeline) -> frozenset[str]:
    """Instant times of the completed commits that were moved from the active timeline to the archive.

    `timeline` is the table's current one. Raises CorruptTableError, UnsupportedTableError, StorageError.
    """
    return commits_in_archive(table) - {commit.timestamp for commit in timeline.commits}


def commits_in_archive(table: TableMetaClient, since: str = "0") -> frozenset[str]:
    """Instant times of the completed commits in the archive; complete from the instant time `since` on.

    After an interrupted archiving some are on the active timeline, too. Raises CorruptTableError,
    UnsupportedTableError, StorageError.
    """
    if table.timeline.layout.has_completion_times:
        files = [file for file in history_files(table) if file.last >= since]
        instants = archived_instants(table, files)
        return frozenset(instant.timestamp for instant in instants if instant.action in COMMIT_ACTIONS)
    paths = _paths_written_since(table, since)
    return frozenset(
        instant.timestamp
        for path, content in zip(paths, table.storage.read_files(paths), strict=True)
        for instant in parse_archived_instants(content, path)
        if instant.is_completed and instant.action in COMMIT_ACTIONS
    )


def archived_cleans_after(table: TableMetaClient, instant_time: str) -> Iterator[ArchivedEntry]:
    """The completed cleans after an instant time that were archived.

    Reads only archive files that were written since. Raises CorruptTableError, UnsupportedTableError,
    StorageError.
    """
    if table.timeline.layout.has_completion_times:
        files = [file for file in history_files(table) if file.last > instant_time]
        for entry in history_entries(table, files, "hoodieCleanMetadata"):
            if entry.instant.timestamp > instant_time:
                yield entry
        return
    paths = _paths_written_since(table, instant_time)
    for path, content in zip(paths, table.storage.read_files(paths), strict=True):
        for entry in parse_archive_file(content, path, "hoodieCleanMetadata"):
            instant = entry.instant
            if instant.action == CLEAN and instant.is_completed and instant.timestamp > instant_time:
                yield entry


def archived_replacements(table: TableMetaClient) -> dict[tuple[str, str], str]:
    """Partition path and file id of the file groups that archived commits replaced, and when.

    Raises CorruptTableError, UnsupportedTableError, StorageError.
    """
    return {
        (partition, file_id): entry.instant.timestamp
        for entry in read_archived_entries(table, "hoodieReplaceCommitMetadata")
        if entry.instant.action == REPLACE_COMMIT and (metadata := entry.commit_metadata) is not None
        for partition, file_ids in (metadata.partition_to_replace_file_ids or {}).items()
        for file_id in file_ids
    }


def _paths_written_since(table: TableMetaClient, instant_time: str) -> list[str]:
    oldest_ms = _epoch_ms(instant_time)
    return [file.path for _, file in list_archive_files(table) if file.modification_time_ms >= oldest_ms]


def _epoch_ms(instant_time: str) -> float:
    """A time that is certainly before the instant; 0 for instant constants."""
    try:
        return (second_of(instant_time) - _CLOCK_TOLERANCE).timestamp() * 1000
    except (ValueError, OverflowError):
        return 0


def archived_instants(table: TableMetaClient, files: Sequence[HistoryFile]) -> list[Instant]:
    """The completed instants of the files, without their contents. Raises CorruptTableError, StorageError."""
    return [_completed(instant) for instant in read_history(table.storage, files)]


def history_entries(
    table: TableMetaClient, files: Sequence[HistoryFile], payload: str | None = None, containing: bytes = b""
) -> Iterator[ArchivedEntry]:
    """The states of the files' instants, oldest first, a file at a time.

    With `payload` only those that have this field, and with `containing` those whose bytes contain it. Raises
    CorruptTableError, StorageError.
    """
    for file in files:
        for instant in read_history(table.storage, [file], contents=True):
            yield from entries_of(instant, file.path, payload, containing)


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
