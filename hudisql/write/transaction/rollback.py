"""Roll back a failed write, whose files are found by its markers and by the plan of an earlier rollback.

Follows `BaseRollbackActionExecutor` and `MarkerBasedRollbackStrategy` of Hudi 0.15: a rollback instant is
requested with its plan, the files are deleted, the failed instant is deleted, and the rollback completes. An
interrupted rollback is completed by the next writer, Hudi or hudisql.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime

from hudisql.errors import PathExistsError, UnsupportedTableError
from hudisql.format.file_names import is_log_file
from hudisql.format.instant import ROLLBACK, Instant, InstantState, new_instant_time
from hudisql.format.timeline import Timeline, load_timeline
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.markers import delete_markers, marked_files
from hudisql.write.transaction.pending_rollbacks import PendingRollback, pending_rollbacks
from hudisql.write.transaction.timeline_payloads import (
    FailedFiles,
    render_rollback_metadata,
    render_rollback_plan,
)
from hudisql.write.transaction.uncommitted_files import delete_uncommitted_files, holds_blocks_of_others


def roll_back_instant(table: HudiTable, instant: Instant) -> None:
    """Delete the files of the pending `instant`, then the instant itself.

    If the instant completes meanwhile, it stays. Raises UnsupportedTableError if it has appended to log files
    of other commits, CorruptTableError for recorded files outside of the table, StorageError.
    """
    started = time.monotonic()
    storage, base_path = table.storage, table.base_path
    timeline = load_timeline(storage, base_path, table.timeline.layout)
    inflight = instant.in_state(InstantState.INFLIGHT)
    open_rollbacks = [each for each in pending_rollbacks(table, timeline) if each.target == inflight]
    planned = {path for each in open_rollbacks for path in each.paths(base_path)}
    paths = marked_files(storage, base_path, instant.timestamp).keys() | planned
    _check_log_files(table, instant, paths)
    files = _files_by_partition(table, paths)
    rollback = _open_rollback(table, instant, files, timeline, open_rollbacks)
    if not open_rollbacks and storage.exists(table.instant_path(instant.in_state(InstantState.COMPLETED))):
        # Its writer checks for rollbacks after completing it: `commit._discard_if_rolled_back`.
        for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
            storage.delete_file(table.instant_path(rollback.in_state(state)))
        return
    delete_uncommitted_files(storage, paths)
    for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
        storage.delete_file(table.instant_path(instant.in_state(state)))
    # A task that outlives its writer keeps files while it finds the instant; their markers exist by now.
    late = {
        path
        for path in marked_files(storage, base_path, instant.timestamp).keys() - paths
        if not holds_blocks_of_others(table.storage, path, instant.timestamp)
    }
    if late:
        files = _files_by_partition(table, paths | late)
        delete_uncommitted_files(storage, late)
    milliseconds = round((time.monotonic() - started) * 1000)
    content = render_rollback_metadata(instant, rollback.timestamp, milliseconds, files)
    # The writer of the instant may be rolling it back, too, and complete this rollback.
    with suppress(PathExistsError):
        storage.create(table.instant_path(rollback.in_state(InstantState.COMPLETED)), content)
    delete_markers(storage, base_path, instant.timestamp)


def _files_by_partition(table: HudiTable, paths: Collection[str]) -> dict[str, FailedFiles]:
    """The data files by partition path; log files only if they exist."""
    files: dict[str, FailedFiles] = defaultdict(FailedFiles)
    ordered = sorted(paths)
    for path, info in zip(ordered, table.storage.infos(ordered), strict=True):
        partition = path[len(table.base_path) :].strip("/").rpartition("/")[0]
        if not is_log_file(path):
            files[partition].base_files.append(table.storage.hadoop_uri(path))
        elif info is not None:
            files[partition].log_files[table.storage.hadoop_uri(path)] = info.length
    return files


def _open_rollback(
    table: HudiTable,
    instant: Instant,
    files: Mapping[str, FailedFiles],
    timeline: Timeline,
    open_rollbacks: list[PendingRollback],
) -> Instant:
    """A rollback of this instant in state inflight: the interrupted one if there is one."""
    storage = table.storage
    if open_rollbacks:
        requested = open_rollbacks[0].instant
    else:
        time_now = new_instant_time(timeline.latest_time, now_on_timeline(table))
        requested = Instant(time_now, ROLLBACK, InstantState.REQUESTED)
        storage.create(table.instant_path(requested), render_rollback_plan(instant, files))
    inflight = requested.in_state(InstantState.INFLIGHT)
    if requested.state is InstantState.REQUESTED:
        with suppress(PathExistsError):
            storage.create(table.instant_path(inflight), b"")
    return inflight


def now_on_timeline(table: HudiTable) -> datetime:
    """The current time in the timeline's time zone, tagged UTC."""
    if table.properties.timeline_timezone == "UTC":
        return datetime.now(UTC)
    return datetime.now().replace(tzinfo=UTC)


def _check_log_files(table: HudiTable, instant: Instant, paths: Collection[str]) -> None:
    """Raise UnsupportedTableError if a log file holds blocks of other commits, too.

    hudisql's commits, and Hudi's on most stores, write log files of their own, which can be truncated.
    """
    for path in sorted(paths):
        if holds_blocks_of_others(table.storage, path, instant.timestamp):
            raise UnsupportedTableError(
                f"the failed write {instant.timestamp} on {table.base_path} has appended to {path}, which "
                "holds rows of other commits",
                hint="write to the table with Apache Hudi once: it rolls the write back first",
            )
