"""Rolling back a commit that never completed, found by its markers.

Follows `BaseRollbackActionExecutor` and `MarkerBasedRollbackStrategy` of Hudi 0.15: a rollback instant is
requested with its plan, the marked files are taken back, the failed instant is taken off the timeline, and
the rollback completes. A rollback that was itself interrupted is ended by the next one, Hudi's or ours.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from hudisql.errors import UnsupportedTableError
from hudisql.format.file_names import is_log_file
from hudisql.format.instant import ROLLBACK, Instant, InstantState, new_instant_time
from hudisql.format.log_block import LogBlock, parse_log_blocks
from hudisql.format.timeline import Timeline, instant_path, load_timeline
from hudisql.table.hudi_table import HudiTable
from hudisql.write.markers import Marker, MarkerKind, delete_markers, list_markers, marked_path
from hudisql.write.taken_back import take_back_files
from hudisql.write.timeline_payloads import (
    FailedFiles,
    render_rollback_metadata,
    render_rollback_plan,
    rolled_back_instant,
)


def roll_back_instant(table: HudiTable, instant: Instant) -> None:
    """Take back what the pending `instant` has written, then the instant itself.

    Raises UnsupportedTableError if it has appended to log files that others wrote, StorageError.
    """
    started = time.monotonic()
    storage, base_path = table.storage, table.base_path
    markers = list_markers(storage, base_path, instant.timestamp)
    _check_log_files(table, instant, markers)
    files = _files_by_partition(table, markers)
    rollback = _open_rollback(table, instant, files)
    _take_back_marked(table, markers)
    for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
        storage.delete_file(instant_path(base_path, instant.in_state(state)))
    # A task that outlives its writer keeps its files if it still finds the instant; its markers are older.
    late = [
        each
        for each in list_markers(storage, base_path, instant.timestamp)
        if each not in markers and not _holds_others(table, instant, each)
    ]
    if late:
        files = _files_by_partition(table, [*markers, *late])
        _take_back_marked(table, late)
    milliseconds = round((time.monotonic() - started) * 1000)
    content = render_rollback_metadata(instant, rollback.timestamp, milliseconds, files)
    storage.create(instant_path(base_path, rollback.in_state(InstantState.COMPLETED)), content)
    delete_markers(storage, base_path, instant.timestamp)


def _files_by_partition(table: HudiTable, markers: Sequence[Marker]) -> dict[str, FailedFiles]:
    """What the markers announce, by partition path; log files only if they are there."""
    files: dict[str, FailedFiles] = defaultdict(FailedFiles)
    paths = [marked_path(table.base_path, marker) for marker in markers]
    for marker, path, info in zip(markers, paths, table.storage.infos(paths), strict=True):
        if not is_log_file(path):
            files[marker.partition_path].base_files.append(table.storage.hadoop_uri(path))
        elif info is not None:
            files[marker.partition_path].log_files[table.storage.hadoop_uri(path)] = info.length
    return files


def _take_back_marked(table: HudiTable, markers: Iterable[Marker]) -> None:
    take_back_files(table.storage, [marked_path(table.base_path, marker) for marker in markers])


def rollback_targets(table: HudiTable, timeline: Timeline) -> list[tuple[Instant, Instant]]:
    """The rollbacks on the timeline that are not completed, each with the instant, inflight, that it is for.

    Raises CorruptTableError, StorageError.
    """
    rollbacks = [each for each in timeline.pending if each.action == ROLLBACK]
    targets = [(each, _target_of(table, each)) for each in rollbacks]
    return [(each, Instant(*target, InstantState.INFLIGHT)) for each, target in targets if target is not None]


def pending_rollbacks(table: HudiTable, tolerance_ms: int | None) -> tuple[list[Instant], list[Instant]]:
    """The instants, inflight, whose rollbacks may be under way, and those whose were interrupted.

    A rollback that was begun less than the tolerance ago may be under way; without one, none is. Raises
    CorruptTableError, StorageError.
    """
    under_way: list[Instant] = []
    interrupted: list[Instant] = []
    for pending, target in rollback_targets(table, table.timeline):
        is_young = tolerance_ms is not None and _was_begun_within(table, pending, tolerance_ms)
        (under_way if is_young else interrupted).append(target)
    return under_way, interrupted


def _was_begun_within(table: HudiTable, rollback: Instant, milliseconds: int) -> bool:
    begun = table.storage.info(instant_path(table.base_path, rollback))
    return begun is not None and time.time() * 1000 - begun.modification_time_ms <= milliseconds


def _open_rollback(table: HudiTable, instant: Instant, files: Mapping[str, FailedFiles]) -> Instant:
    """The pending rollback of this instant, an interrupted one if there is one, in state inflight."""
    storage, base_path = table.storage, table.base_path
    timeline = load_timeline(storage, base_path)
    for pending in timeline.pending:
        if pending.action == ROLLBACK and _target_of(table, pending) == (instant.timestamp, instant.action):
            if pending.state is InstantState.REQUESTED:
                storage.create(instant_path(base_path, pending.in_state(InstantState.INFLIGHT)), b"")
            return pending.in_state(InstantState.INFLIGHT)
    time_now = new_instant_time(timeline.latest_time, now_on_timeline(table))
    requested = Instant(time_now, ROLLBACK, InstantState.REQUESTED)
    storage.create(instant_path(base_path, requested), render_rollback_plan(instant, files))
    inflight = requested.in_state(InstantState.INFLIGHT)
    storage.create(instant_path(base_path, inflight), b"")
    return inflight


def now_on_timeline(table: HudiTable) -> datetime:
    """The present moment as the timeline's clock shows it, tagged UTC."""
    if table.properties.timeline_timezone == "UTC":
        return datetime.now(UTC)
    return datetime.now().replace(tzinfo=UTC)


def _target_of(table: HudiTable, rollback: Instant) -> tuple[str, str] | None:
    path = instant_path(table.base_path, rollback.in_state(InstantState.REQUESTED))
    if not table.storage.exists(path):
        return None
    content = table.storage.read(path)
    return rolled_back_instant(content, path) if content else None


def _check_log_files(table: HudiTable, instant: Instant, markers: list[Marker]) -> None:
    """Raise UnsupportedTableError if a marked log file holds blocks of other commits, too.

    Each of hudisql's commits, and of Hudi's on most stores, writes log files of its own, which may go.
    """
    for marker in markers:
        if _holds_others(table, instant, marker):
            path = marked_path(table.base_path, marker)
            raise UnsupportedTableError(
                f"the failed write {instant.timestamp} on {table.base_path} has appended to {path}, which "
                "holds rows of other commits",
                hint="let the real Hudi write to the table once: it rolls the write back first",
            )


def _holds_others(table: HudiTable, instant: Instant, marker: Marker) -> bool:
    """True if the marked file is a log file with blocks of other commits."""
    path = marked_path(table.base_path, marker)
    if marker.kind is not MarkerKind.APPEND or not table.storage.exists(path):
        return False
    blocks = parse_log_blocks(table.storage.read(path), path)
    return any(isinstance(each, LogBlock) and each.instant_time != instant.timestamp for each in blocks)
