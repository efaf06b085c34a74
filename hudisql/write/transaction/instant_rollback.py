"""Roll back an instant: a failed write, or a completed one that is undone.

Follows `BaseRollbackActionExecutor`, `MarkerBasedRollbackStrategy` and `ListingBasedRollbackStrategy` of Hudi
0.15: a rollback instant is requested with its plan, a completed instant becomes inflight again, the files are
deleted, the instant is deleted, and the rollback completes. An interrupted rollback is completed by the next
writer, Hudi or hudisql. `rollback_files` finds the files.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

from hudisql.errors import PathExistsError
from hudisql.format.log_file.log_block import rollback_block
from hudisql.format.paths.file_names import is_log_file, parse_log_file_name
from hudisql.format.timeline.active_timeline import Timeline, load_timeline
from hudisql.format.timeline.instant import (
    CLUSTERING,
    COMMIT,
    COMPACTION,
    REPLACE_COMMIT,
    ROLLBACK,
    Instant,
    InstantState,
    new_instant_time,
)
from hudisql.storage import parent_of
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.timeline_clock import now_on_timeline
from hudisql.table.properties.written_versions import check_written
from hudisql.write.handle.log_file import write_log_file
from hudisql.write.handle.log_naming import log_naming
from hudisql.write.index.hash_rings import remove_rings
from hudisql.write.index.partition_buckets import remove_bucket_rules
from hudisql.write.metadata_table.metadata_rollback import (
    forget_unless_undone,
    undo_deltacommit,
    write_rollback,
)
from hudisql.write.transaction.concurrency import Concurrency
from hudisql.write.transaction.markers import delete_markers, marked_files
from hudisql.write.transaction.pending_rollbacks import (
    PendingRollback,
    commits_being_undone,
    pending_rollbacks,
    rollbacks_of_failed_writes,
)
from hudisql.write.transaction.rollback_files import InstantFiles, find_files
from hudisql.write.transaction.timeline_files import completed_path, timeline_files
from hudisql.write.transaction.timeline_payloads import render_rollback_metadata, render_rollback_plan
from hudisql.write.transaction.uncommitted_files import delete_uncommitted_files, holds_blocks_of_others

# As in Hudi: no task writes rollback blocks.
_WRITE_TOKEN = "1-0-1"


def roll_back_instant(
    table: HudiTable,
    instant: Instant,
    *,
    undoes_completed: bool = False,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Delete the files of `instant`, then the instant itself.

    A pending instant that completes meanwhile stays. With `undoes_completed` completed instants are rolled
    back, too; the caller ensures that no later commit depends on them, and `check` verifies it again once the
    rollback is on the timeline, where other writers see it. An interrupted rollback is completed with its own
    plan. Raises UnsupportedTableError for table versions that are not written, CorruptTableError for recorded
    files outside of the table, StorageError. If `check` raises, nothing is rolled back.
    """
    started = time.monotonic()
    storage, base_path = table.storage, table.base_path
    check_written(table, ROLLBACK)
    timeline = load_timeline(storage, base_path, table.timeline.layout)
    pending = _pending_form(table, instant)
    open_rollbacks = [
        pending_rollback
        for pending_rollback in pending_rollbacks(table, timeline)
        if _is_same(pending_rollback.target, instant)
    ]
    undoes = undoes_completed or bool(open_rollbacks)
    files = find_files(
        table, pending, [open_rollback.plan for open_rollback in open_rollbacks], undoes=undoes_completed
    )
    rollback = _open_rollback(table, instant, files, timeline, open_rollbacks)
    try:
        check()
    except BaseException:
        remove_pending(table, rollback)
        raise
    if (completed := completed_path(table, instant)) is not None:
        if not undoes:
            # Its writer checks for rollbacks after completing it: `late_conflicts`.
            remove_pending(table, rollback)
            return
        forget_unless_undone(table, instant.timestamp)
        with suppress(PathExistsError):
            storage.create(table.instant_path(pending), b"")
        storage.delete_file(completed)
    if pending.action == REPLACE_COMMIT:
        # First: without the instant its numbers of buckets, or its rings, would count.
        remove_bucket_rules(storage, base_path, pending.timestamp)
        remove_rings(table, pending.timestamp)
    blocks = _delete_files(table, rollback, pending, files)
    undo_deltacommit(table, instant.timestamp)
    remove_pending(table, pending)
    files = _delete_late_files(table, pending, files)
    write_rollback(table, rollback.timestamp, blocks)
    milliseconds = round((time.monotonic() - started) * 1000)
    content = render_rollback_metadata(
        instant, rollback.timestamp, milliseconds, files.by_partition(table), blocks
    )
    # The writer of the instant may also roll it back, and complete this rollback.
    with suppress(PathExistsError):
        timeline_files(table.timeline.layout).complete(table, rollback, content, awaits_clocks=False)
    delete_markers(storage, base_path, instant.timestamp)


def remove_pending(table: HudiTable, instant: Instant) -> None:
    """Delete the inflight and the requested file of an instant. Raises StorageError."""
    for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
        table.storage.delete_file(table.instant_path(instant.in_state(state)))


def _pending_form(table: HudiTable, instant: Instant) -> Instant:
    """The instant in state inflight; a completed compaction has the action of the commit that it made.

    With timeline layout 2 a completed clustering has the action replacecommit.
    """
    action = None
    if instant.action == COMMIT and table.is_merge_on_read:
        action = COMPACTION
    elif instant.action == REPLACE_COMMIT and table.timeline.layout.has_completion_times:
        action = CLUSTERING
    if action is not None:
        planned = Instant(instant.timestamp, action, InstantState.REQUESTED)
        if table.storage.exists(table.instant_path(planned)):
            return planned.in_state(InstantState.INFLIGHT)
    return instant.in_state(InstantState.INFLIGHT)


def _is_same(target: Instant, instant: Instant) -> bool:
    return (target.timestamp, target.completed_action) == (instant.timestamp, instant.completed_action)


def _open_rollback(
    table: HudiTable,
    instant: Instant,
    files: InstantFiles,
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
        plan = render_rollback_plan(instant, files.by_partition(table))
        storage.create(table.instant_path(requested), plan)
    inflight = requested.in_state(InstantState.INFLIGHT)
    if requested.state is InstantState.REQUESTED:
        with suppress(PathExistsError):
            storage.create(table.instant_path(inflight), b"")
    return inflight


def _delete_files(
    table: HudiTable, rollback: Instant, target: Instant, files: InstantFiles
) -> dict[str, dict[str, int]]:
    """Delete the files, or their rows; returns the log files with rollback blocks, by partition path."""
    storage = table.storage
    storage.delete_files(sorted(files.deleted))
    delete_uncommitted_files(storage, files.own_logs, table.timeline.layout)
    blocks: dict[str, dict[str, int]] = defaultdict(dict)
    for path in sorted(files.shared):
        uri, length = _append_rollback_block(table, path, rollback, target)
        blocks[files.partition_of(table, path)][uri] = length
    return blocks


def _append_rollback_block(
    table: HudiTable, path: str, rollback: Instant, target: Instant
) -> tuple[str, int]:
    """Write a rollback block in a new log file; returns that file's URI and length."""
    storage, directory = table.storage, parent_of(path)
    log = parse_log_file_name(path.rpartition("/")[2])
    assert log is not None
    names = [parse_log_file_name(info.name) for info in storage.list_directory(directory)]
    versions = [
        name.version
        for name in names
        if name is not None and (name.file_id, name.base_instant_time) == (log.file_id, log.base_instant_time)
    ]
    block = rollback_block(rollback.timestamp, target.timestamp)
    written = write_log_file(
        storage, directory, log.file_id, log.base_instant_time, max(versions) + 1, _WRITE_TOKEN, [block]
    )
    return storage.hadoop_uri(written.path), written.length


def _delete_late_files(table: HudiTable, target: Instant, files: InstantFiles) -> InstantFiles:
    """Delete files that a task created after its writer died; by now they have markers."""
    storage, known = table.storage, files.deleted | files.own_logs | files.shared
    late = {
        path
        for path in marked_files(storage, table.base_path, target.timestamp).keys() - known
        if not holds_blocks_of_others(storage, path, target.timestamp)
    }
    if not late:
        return files
    delete_uncommitted_files(storage, late, table.timeline.layout)
    is_deleted = log_naming(table.timeline.layout).is_new_file
    logs = {path for path in late if is_log_file(path) and not is_deleted}
    return InstantFiles(files.deleted | (late - logs), files.own_logs | logs, files.shared)


def complete_interrupted_undoings(table: HudiTable, concurrency: Concurrency) -> bool:
    """Complete the interrupted rollbacks of completed commits, newest first; True if there were some.

    Failed writes are skipped. Raises UnsupportedTableError, CorruptTableError, StorageError.
    """
    undone = commits_being_undone(table)
    if not undone:
        return False
    _, interrupted = rollbacks_of_failed_writes(table, concurrency.known_by_heartbeats_ms)
    chosen = {each.timestamp: each for each in interrupted if each.timestamp in undone}
    for _, instant in sorted(chosen.items(), reverse=True):
        roll_back_instant(table, instant)
    return bool(chosen)
