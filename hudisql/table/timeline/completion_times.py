"""When instants were completed: layout 2 of the timeline orders by completion times, layout 1 by instant
times.

Follows `CompletionTimeQueryViewV2` and `InstantFileNameParserV2` of Hudi 1.2: the time is in the file name,
else it is the file's modification time, and for archived instants it is in the history.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from hudisql.format.timeline.instant import COMMIT_ACTIONS, Instant
from hudisql.format.timeline.timeline_history import HistoryFile, list_history_files, read_history
from hudisql.format.timeline.timeline_layout import TimelineLayoutV2
from hudisql.table.meta_client import TableMetaClient

_MOST_FILES: Final = 64
# The most that a writer's clock may be ahead of the storage's clock.
_CLOCK_DIFFERENCE_MS: Final = 3_600_000
# Files of the history never change, and no two have the same name.
_known: Final[dict[str, Mapping[str, str]]] = {}


def completion_times(table: TableMetaClient, instants: Iterable[Instant]) -> dict[Instant, str]:
    """When each of the active, completed instants was completed, as an instant time. Raises StorageError."""
    times = {instant: instant.completion_time for instant in instants}
    untold = [instant for instant, time in times.items() if not time]
    infos = table.storage.infos([table.instant_path(instant) for instant in untold])
    for instant, info in zip(untold, infos, strict=True):
        known = None if info is None else instant_time_of_millis(table, info.modification_time_ms)
        times[instant] = known or instant.timestamp
    return times


def first_active_completion(table: TableMetaClient, times: Mapping[Instant, str]) -> str | None:
    """The completion time of the first commit of the active timeline; `times` has those of active commits.

    Around a savepointed commit others may be archived, see `Timeline.first_active_time`.
    """
    first = table.timeline.first_active_time or ""
    return min((time for instant, time in times.items() if instant.timestamp >= first), default=None)


def instant_time_of_millis(table: TableMetaClient, milliseconds: int) -> str:
    """The instant time of a moment (milliseconds since the epoch) in the time zone of the timeline."""
    zone = UTC if table.properties.timeline_timezone == "UTC" else None
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC).astimezone(zone)
    return f"{moment:%Y%m%d%H%M%S}{milliseconds % 1000:03d}"


def completion_times_of_writes(table: TableMetaClient, instant_times: Collection[str]) -> dict[str, str]:
    """When the commits of these instant times were completed, active and archived ones.

    Pending and unknown commits are left out. Raises CorruptTableError, StorageError.
    """
    wanted = set(instant_times)
    active = [commit for commit in table.timeline.commits if commit.timestamp in wanted]
    completions = {commit.timestamp: time for commit, time in completion_times(table, active).items()}
    first = table.timeline.first_active_time or ""
    archived = {instant_time for instant_time in wanted - completions.keys() if instant_time < first}
    if archived:
        known = archived_completion_times(table, archived)
        completions.update((instant_time, known[instant_time]) for instant_time in archived & known.keys())
    return completions


def archived_completion_times(
    table: TableMetaClient, instant_times: Collection[str] | None = None
) -> Mapping[str, str]:
    """When archived commits were completed; `instant_times` bounds which files are read.

    Raises CorruptTableError, StorageError.
    """
    files = [
        file
        for file in history_files(table)
        if instant_times is None
        or any(file.first <= instant_time <= file.last for instant_time in instant_times)
    ]
    return _completions_in(table, files)


def completions_archived_since(table: TableMetaClient, moment: str) -> Mapping[str, str]:
    """The completion times of commits that may have been archived since a moment (an instant time).

    A long commit may be archived before commits that began after it, and completed after them. So the files
    of the history are chosen by when they were written, not by their instant times. Raises CorruptTableError,
    StorageError.
    """
    files = history_files(table)
    infos = table.storage.infos([history_file.path for history_file in files])
    newer = [
        file
        for file, info in zip(files, infos, strict=True)
        if info is None
        or instant_time_of_millis(table, info.modification_time_ms + _CLOCK_DIFFERENCE_MS) >= moment
    ]
    return _completions_in(table, newer)


def _completions_in(table: TableMetaClient, files: Iterable[HistoryFile]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for file in files:
        known = _known.get(file.path)
        if known is None:
            rows = read_history(table.storage, [file], actions=COMMIT_ACTIONS)
            known = {row.timestamp: row.completion_time for row in rows if row.completion_time}
            _known[file.path] = known
            if len(_known) > _MOST_FILES:
                _known.pop(next(iter(_known)), None)
        found.update(known)
    return found


def history_files(table: TableMetaClient) -> list[HistoryFile]:
    """The files of archived instants of a table with layout 2. Raises CorruptTableError, StorageError."""
    layout = table.timeline.layout
    if not isinstance(layout, TimelineLayoutV2):
        return []
    return list_history_files(table.storage, layout.history_directory(table.base_path))
