"""Writers that died: when a pending instant's writer was last active, and what dead writers leave.

The last activity is the heartbeat, or else the instant's files below `.hoodie`: a process beside writers
finds failed writes by it. Stale files are markers and heartbeats of instants that are no longer pending.
Apache Hudi ignores such files and never deletes them. `write/transaction/failed_writes` selects the
commits that are rolled back.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from hudisql.errors import NoSuchPathError, StorageError
from hudisql.format.timeline.active_timeline import Timeline, load_timeline
from hudisql.format.timeline.commit_metadata import read_commit_metadata
from hudisql.format.timeline.instant import Instant, InstantState
from hudisql.format.timeline.timeline_layout import HEARTBEAT_NAME, TEMPORARY_NAME, metadata_directory
from hudisql.storage import FileInfo
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.heartbeat import delete_heartbeat, heartbeat_instants, heartbeat_path, is_alive
from hudisql.write.transaction.markers import delete_markers, marked_instants, marker_directory
from hudisql.write.transaction.pending_rollbacks import pending_rollbacks
from hudisql.write.transaction.uncommitted_files import delete_unnamed_files, named_files

# A file is staged only while it is created; clocks may differ.
_STAGED_FOR_LONG_MS: Final = 3_600_000


def delete_stale_files(
    table: HudiTable, heartbeat_tolerance_ms: int | None, entries: Mapping[str, FileInfo]
) -> None:
    """Delete the markers and expired heartbeats of instants that are neither pending nor being rolled back.

    Files that killed writers have staged in the timeline's directory are deleted, too. Without a tolerance
    the table's writers use no heartbeats. `entries` are those of `.hoodie`: directories that it lacks are not
    listed. Active writers create their instant before their markers and renew
    their heartbeat; files that cannot be deleted are harmless.
    """
    storage, base_path = table.storage, table.base_path
    with suppress(StorageError):
        timeline_directory = table.timeline.layout.timeline_directory(base_path)
        is_listed = timeline_directory == metadata_directory(base_path)
        storage.delete_staged(
            timeline_directory,
            int(time.time() * 1000) - _STAGED_FOR_LONG_MS,
            entries.values() if is_listed else None,
        )
        marked = marked_instants(storage, base_path) if TEMPORARY_NAME in entries else []
        silent: list[str] = []
        if heartbeat_tolerance_ms is not None and HEARTBEAT_NAME in entries:
            silent = [
                instant
                for instant in heartbeat_instants(storage, base_path)
                if not is_alive(storage, base_path, instant, heartbeat_tolerance_ms)
            ]
        if not marked and not silent:
            return
        # After the listings: an instant that is not pending now was complete before, or has no markers yet.
        timeline = load_timeline(storage, base_path, table.timeline.layout)
        pending = {instant.timestamp for instant in timeline.pending}
        pending |= {rollback.target.timestamp for rollback in pending_rollbacks(table, timeline)}
        for instant_time in set(marked) - pending:
            _delete_unnamed_files(table, timeline, instant_time)
            delete_markers(storage, base_path, instant_time)
        for instant_time in set(silent) - pending:
            delete_heartbeat(storage, base_path, instant_time)


def _delete_unnamed_files(table: HudiTable, timeline: Timeline, instant_time: str) -> None:
    """Delete files of task attempts that ran longer than the instant and were then killed.

    The files of an archived instant are unknown and stay.
    """
    commits = [instant for instant in timeline.commits if instant.timestamp == instant_time]
    if not commits and timeline.is_visible(instant_time):
        return
    named: set[str] = set()
    for commit in commits:
        try:
            # The archive does not name the commit's log files.
            metadata = read_commit_metadata(table.storage, table.instant_path(commit))
        except NoSuchPathError:
            return
        named |= named_files(table.base_path, metadata)
    delete_unnamed_files(table.storage, table.base_path, instant_time, named, table.timeline.layout)


def has_expired(table: HudiTable, instant: Instant, before_ms: float) -> bool | None:
    """True if the instant's last heartbeat is older than that time (epoch ms), None if it has none.

    Raises StorageError.
    """
    beat = table.storage.info(heartbeat_path(table.base_path, instant.timestamp))
    return None if beat is None else beat.modification_time_ms < before_ms


def is_silent(table: HudiTable, instant: Instant, before_ms: float) -> bool:
    """True if neither the instant's files nor its markers have changed since that time (epoch ms).

    Markers are only listed for an instant that is older. Raises StorageError.
    """
    storage = table.storage
    states = [instant.in_state(state) for state in (InstantState.REQUESTED, InstantState.INFLIGHT)]
    infos = storage.infos([table.instant_path(state) for state in states])
    if any(info is not None and info.modification_time_ms >= before_ms for info in infos):
        return False
    try:
        markers = storage.list_files(marker_directory(table.base_path, instant.timestamp))
    except NoSuchPathError:
        return True
    return all(marker.modification_time_ms < before_ms for marker in markers)
