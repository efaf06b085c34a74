"""Rolling back a write that never completed, found by its markers and by the plan of a rollback of it.

Follows `BaseRollbackActionExecutor` and `MarkerBasedRollbackStrategy` of Hudi 0.15: a rollback instant is
requested with its plan, the files are taken back, the failed instant is taken off the timeline, and the
rollback completes. A rollback that was itself interrupted is ended by the next one, Hudi's or ours.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from hudisql.errors import UnsupportedTableError
from hudisql.format.file_names import is_log_file
from hudisql.format.instant import ROLLBACK, Instant, InstantState, new_instant_time
from hudisql.format.log_block import LogBlockHead, scan_log_blocks
from hudisql.format.timeline import Timeline, instant_path, load_timeline
from hudisql.table.hudi_table import HudiTable
from hudisql.write.markers import delete_markers, list_markers, marked_path
from hudisql.write.pending_rollbacks import PendingRollback, pending_rollbacks
from hudisql.write.taken_back import take_back_files
from hudisql.write.timeline_payloads import FailedFiles, render_rollback_metadata, render_rollback_plan


def roll_back_instant(table: HudiTable, instant: Instant) -> None:
    """Take back what the pending `instant` has written, then the instant itself.

    Raises UnsupportedTableError if it has appended to log files that others wrote, StorageError.
    """
    started = time.monotonic()
    storage, base_path = table.storage, table.base_path
    timeline = load_timeline(storage, base_path)
    inflight = instant.in_state(InstantState.INFLIGHT)
    begun = [each for each in pending_rollbacks(table, timeline) if each.target == inflight]
    planned = {path for each in begun for path in each.paths(base_path)}
    paths = _marked_paths(table, instant) | planned
    _check_log_files(table, instant, paths)
    files = _files_by_partition(table, paths)
    rollback = _open_rollback(table, instant, files, timeline, begun)
    take_back_files(storage, paths)
    for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
        storage.delete_file(instant_path(base_path, instant.in_state(state)))
    # A task that outlives its writer keeps its files if it still finds the instant; its markers are older.
    late = {
        path
        for path in _marked_paths(table, instant) - paths
        if not _holds_blocks_of_others(table, instant, path)
    }
    if late:
        files = _files_by_partition(table, paths | late)
        take_back_files(storage, late)
    milliseconds = round((time.monotonic() - started) * 1000)
    content = render_rollback_metadata(instant, rollback.timestamp, milliseconds, files)
    storage.create(instant_path(base_path, rollback.in_state(InstantState.COMPLETED)), content)
    delete_markers(storage, base_path, instant.timestamp)


def _marked_paths(table: HudiTable, instant: Instant) -> set[str]:
    markers = list_markers(table.storage, table.base_path, instant.timestamp)
    return {marked_path(table.base_path, marker) for marker in markers}


def _files_by_partition(table: HudiTable, paths: Collection[str]) -> dict[str, FailedFiles]:
    """The data files by partition path; log files only if they are there."""
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
    begun: list[PendingRollback],
) -> Instant:
    """A rollback of this instant in state inflight: the interrupted one if there is one."""
    storage, base_path = table.storage, table.base_path
    if begun:
        requested = begun[0].instant
    else:
        time_now = new_instant_time(timeline.latest_time, now_on_timeline(table))
        requested = Instant(time_now, ROLLBACK, InstantState.REQUESTED)
        storage.create(instant_path(base_path, requested), render_rollback_plan(instant, files))
    inflight = requested.in_state(InstantState.INFLIGHT)
    if requested.state is InstantState.REQUESTED:
        storage.create(instant_path(base_path, inflight), b"")
    return inflight


def now_on_timeline(table: HudiTable) -> datetime:
    """The present moment as the timeline's clock shows it, tagged UTC."""
    if table.properties.timeline_timezone == "UTC":
        return datetime.now(UTC)
    return datetime.now().replace(tzinfo=UTC)


def _check_log_files(table: HudiTable, instant: Instant, paths: Collection[str]) -> None:
    """Raise UnsupportedTableError if a log file holds blocks of other commits, too.

    Each of hudisql's commits, and of Hudi's on most stores, writes log files of its own, which may go.
    """
    for path in sorted(paths):
        if _holds_blocks_of_others(table, instant, path):
            raise UnsupportedTableError(
                f"the failed write {instant.timestamp} on {table.base_path} has appended to {path}, which "
                "holds rows of other commits",
                hint="let the real Hudi write to the table once: it rolls the write back first",
            )


def _holds_blocks_of_others(table: HudiTable, instant: Instant, path: str) -> bool:
    """True if this is a log file with blocks of other commits."""
    if not is_log_file(path) or not table.storage.exists(path):
        return False
    with table.storage.open_input(path) as source:
        blocks = scan_log_blocks(source, path)
        return any(
            isinstance(each, LogBlockHead) and each.instant_time != instant.timestamp for each in blocks
        )
