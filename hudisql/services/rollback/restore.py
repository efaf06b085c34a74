"""Restores a table to a savepoint: rolls back everything after it, newest first.

Follows `RestorePlanActionExecutor`, `BaseRestoreActionExecutor` and `restoreToSavepoint` of Hudi 0.15: the
plan is requested on the timeline, each instant gets a rollback, and the completed restore replaces these.
While it is pending nothing else is written; another call, here or in Apache Hudi, completes it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from hudisql.errors import (
    CorruptTableError,
    InvalidArgumentError,
    PathExistsError,
    RollbackRefusedError,
    WriteConflictError,
)
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.paths.file_names import parse_log_file_name
from hudisql.format.timeline.instant import (
    BOOTSTRAP_INSTANT_TIMES,
    COMMIT,
    RESTORE,
    ROLLBACK,
    WRITE_ACTIONS,
    Instant,
    InstantState,
)
from hudisql.services.rollback.savepoint import choose_savepoint, completed_savepoint, read_savepoint
from hudisql.storage import join
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.table_configuration import (
    drop_metadata_table,
    forget_metadata_table,
    has_metadata_table,
)
from hudisql.table.timeline.archived_timeline import commits_in_archive
from hudisql.table.timeline.completion_times import completion_times
from hudisql.table.timeline.requested_plans import is_clustering
from hudisql.write.transaction.concurrency import SINGLE_WRITER, Concurrency, FailedWrites
from hudisql.write.transaction.failed_writes import roll_back_failed_writes
from hudisql.write.transaction.heartbeat import delete_heartbeat, is_alive
from hudisql.write.transaction.instant_request import request_instant
from hudisql.write.transaction.instant_rollback import roll_back_instant
from hudisql.write.transaction.lock import HeldLock
from hudisql.write.transaction.pending_rollbacks import pending_rollbacks
from hudisql.write.transaction.timeline_files import timeline_files
from hudisql.write.transaction.timeline_payloads import (
    RestorePlan,
    parse_restore_plan,
    render_restore_metadata,
)
from hudisql.write.transaction.writable_tables import check_writable

_SHOWN: Final = 3


def restore_to_savepoint(
    table: HudiTable, instant_time: str | None = None, concurrency: Concurrency = SINGLE_WRITER
) -> RestorePlan:
    """Restore the table to a savepoint, the latest by default; returns the plan that was run.

    A restore that was interrupted is completed. Failed writes are rolled back first, and a metadata table is
    dropped. Raises NoSuchInstantError if there is no such savepoint, InvalidArgumentError if a restore to
    another one is pending, RollbackRefusedError if a later savepoint or the bootstrap would be rolled back or
    later commits are archived, CorruptTableError if files of the savepoint are gone, WriteConflictError while
    another writer is active, UnsupportedTableError, TableLockedError, StorageError.
    """
    check_writable(table, RESTORE)
    with concurrency.hold() as held:
        table = table.reopened()
        restore = next((instant for instant in table.timeline.pending if instant.action == RESTORE), None)
        if restore is None:
            restore, plan = _request(table, instant_time, concurrency)
        else:
            plan = _read_plan(table, restore)
            if instant_time not in (None, plan.savepoint_time):
                raise InvalidArgumentError(
                    f"a restore ({restore.timestamp}) of {table.base_path} to the savepoint "
                    f"{plan.savepoint_time} is not complete",
                    hint=f"complete it first, with instant_time => '{plan.savepoint_time}'",
                )
            if has_metadata_table(table):
                # Apache Hudi keeps it, and leaves out the files of undone commits only at the end.
                forget_metadata_table(table)
                table = table.reopened()
        _run(table, restore, plan, held, concurrency)
    return plan


def plan_restore(table: HudiTable, savepoint_time: str) -> RestorePlan:
    """The instants after the savepoint, newest first, pending clusterings before the others.

    With timeline layout 2 instants are ordered by their completion, but compactions by their requests: the
    log files of later commits belong to them (`RestoreInstantComparatorFactory`).
    """
    later = _writes_after(table, savepoint_time)
    clusterings = [instant for instant in later if not instant.is_completed and is_clustering(table, instant)]
    others = [instant for instant in later if instant not in clusterings]
    inflight = [
        Instant(
            clustering.timestamp,
            clustering.completed_action if clustering.is_completed else clustering.action,
            InstantState.INFLIGHT,
        )
        for clustering in (*clusterings, *others)
    ]
    return RestorePlan(savepoint_time, tuple(inflight))


def _writes_after(table: HudiTable, savepoint_time: str) -> list[Instant]:
    """The writes after the savepoint, the latest request first, as Hudi's checks of each rollback require."""
    timeline = table.timeline
    writes = [instant for instant in reversed(timeline.instants) if instant.action in WRITE_ACTIONS]
    if not timeline.layout.has_completion_times:
        return [write for write in writes if write.timestamp > savepoint_time]
    completions = completion_times(table, timeline.commits)
    # Missing if the deletion of a savepoint was interrupted: its commit is archived.
    kept = next((commit for commit in timeline.commits if commit.timestamp == savepoint_time), None)
    savepoint = completed_savepoint(table, savepoint_time)
    saved = completion_times(table, [savepoint])[savepoint]

    def is_later(instant: Instant) -> bool:
        if kept is None or instant not in completions:
            return instant.timestamp > savepoint_time
        if table.is_merge_on_read and COMMIT in (instant.action, kept.action):
            return instant.timestamp > savepoint_time
        # A savepoint has the files of earlier requests that were complete when it was made, and cleans have
        # deleted what these replaced.
        if instant.timestamp < savepoint_time and completions[instant] < saved:
            return False
        return completions[instant] > completions[kept]

    return [write for write in writes if is_later(write)]


def _request(
    table: HudiTable, instant_time: str | None, concurrency: Concurrency
) -> tuple[Instant, RestorePlan]:
    """Check that the restore is possible and put its plan on the timeline."""
    savepoint_time = choose_savepoint(table, instant_time)
    _check_nobody_writes(table, concurrency)
    _check_savepoint(table, savepoint_time)
    if roll_back_failed_writes(table, concurrency):
        table = table.reopened()
    _check_not_archived(table, savepoint_time)
    if drop_metadata_table(table):
        table = table.reopened()
    plan = plan_restore(table, savepoint_time)
    requested, _ = request_instant(table, RESTORE, plan.to_avro())
    return requested, plan


def _read_plan(table: HudiTable, restore: Instant) -> RestorePlan:
    path = table.instant_path(restore.in_state(InstantState.REQUESTED))
    return parse_restore_plan(table.storage.read(path), path)


def _check_nobody_writes(table: HudiTable, concurrency: Concurrency) -> None:
    tolerance = concurrency.heartbeat_tolerance_ms
    is_eager = concurrency.failed_writes is FailedWrites.EAGER
    for instant in table.timeline.pending:
        if instant.action in WRITE_ACTIONS and is_alive(
            table.storage, table.base_path, instant.timestamp, tolerance, asks_process=is_eager
        ):
            raise WriteConflictError(
                f"another writer is active on {table.base_path}: its {instant.action} {instant.timestamp} is "
                "not complete, and its heartbeat has not expired",
                hint="run the call again when it is complete",
            )


def _check_savepoint(table: HudiTable, savepoint_time: str) -> None:
    later = sorted(savepoint for savepoint in table.timeline.savepoints if savepoint > savepoint_time)
    if later:
        raise RollbackRefusedError(
            f"the table at {table.base_path} has savepoints after {savepoint_time}: {', '.join(later)}",
            hint=f"restore to {later[-1]}, or delete these savepoints first (CALL delete_savepoint)",
        )
    undone = [instant for instant in table.timeline.instants if instant.timestamp > savepoint_time]
    bootstraps = [instant.timestamp for instant in undone if instant.timestamp in BOOTSTRAP_INSTANT_TIMES]
    if bootstraps:
        raise RollbackRefusedError(
            f"a restore of {table.base_path} to {savepoint_time} would undo a part of its bootstrap "
            f"({bootstraps[0]})",
            hint="CALL rollback_bootstrap removes the table and keeps the source files",
        )
    paths = [
        join(table.base_path, partition, name)
        for partition, names in read_savepoint(table, savepoint_time).files.items()
        for name in names
        if not _is_later_log(table, name, savepoint_time)
    ]
    missing = [path for path, info in zip(paths, table.storage.infos(paths), strict=True) if info is None]
    if missing:
        raise CorruptTableError(
            f"files of the savepoint {savepoint_time} are gone: {', '.join(missing[:_SHOWN])}"
            f"{' …' if len(missing) > _SHOWN else ''}",
            hint="put them back, or restore to another savepoint; nothing was changed",
        )


def _is_later_log(table: HudiTable, name: str, savepoint_time: str) -> bool:
    """True for a log file of a commit after the savepoint, which Hudi 1.2 lists with the slice."""
    log = parse_log_file_name(name) if table.timeline.layout.has_completion_times else None
    return log is not None and log.base_instant_time > savepoint_time


def _check_not_archived(table: HudiTable, savepoint_time: str) -> None:
    """Raise RollbackRefusedError if commits after the savepoint have left the active timeline."""
    active = {instant.timestamp for instant in table.timeline.instants}
    written = {file_slice.base_instant_time for file_slice in load_file_slices(table)} - active
    # After an interrupted archiving the instants are on the timeline, too, but could not be removed from the
    # archive.
    archived = written | commits_in_archive(table)
    later = sorted(instant_time for instant_time in archived if instant_time > savepoint_time)
    if later:
        raise RollbackRefusedError(
            f"the commit {later[0]} of {table.base_path}, after the savepoint {savepoint_time}, is archived: "
            "it can no longer be rolled back",
            hint="let no writer of Apache Hudi archive with hoodie.archive.beyond.savepoint = true",
        )


def _run(
    table: HudiTable, restore: Instant, plan: RestorePlan, held: HeldLock, concurrency: Concurrency
) -> None:
    """Roll the planned instants back, complete the restore, and remove the rollbacks that it replaces."""
    started = time.monotonic()
    storage = table.storage
    inflight = restore.in_state(InstantState.INFLIGHT)
    with suppress(PathExistsError):
        storage.create(table.instant_path(inflight), b"")
    for target in plan.instants:
        held.check()
        present = _on_timeline(table.reopened(), target)
        if present is not None:
            roll_back_instant(table, present, undoes_completed=True)
            delete_heartbeat(storage, table.base_path, target.timestamp)
    table = table.reopened()
    # A killed run may have deleted the instant, but not completed its rollback.
    for rollback in pending_rollbacks(table, table.timeline):
        if rollback.instant.timestamp > restore.timestamp:
            roll_back_instant(table, rollback.target, undoes_completed=True)
    table = table.reopened()
    milliseconds = round((time.monotonic() - started) * 1000)
    content = render_restore_metadata(
        restore.timestamp, milliseconds, plan, _rollbacks(table, restore.timestamp)
    )
    held.check()
    timeline_files(table.timeline.layout).complete(
        table, inflight, content, awaits_clocks=concurrency.names_lock
    )
    _delete_rollbacks(table, plan.savepoint_time)


def _on_timeline(table: HudiTable, target: Instant) -> Instant | None:
    wanted = (target.timestamp, target.completed_action)
    instants = [
        instant
        for instant in table.timeline.instants
        if (instant.timestamp, instant.completed_action) == wanted
    ]
    return instants[0] if instants else None


def _rollbacks(table: HudiTable, restore_time: str) -> dict[str, Mapping[str, Any]]:
    """The metadata of the restore's rollbacks, by the instant that each rolled back."""
    found: dict[str, Mapping[str, Any]] = {}
    for instant in table.timeline.completed:
        if instant.action == ROLLBACK and instant.timestamp > restore_time:
            path = table.instant_path(instant)
            metadata = load_codec("HoodieRollbackMetadata").decode(table.storage.read(path), path)
            found |= dict.fromkeys((str(text) for text in metadata["commitsRollback"]), metadata)
    return found


def _delete_rollbacks(table: HudiTable, savepoint_time: str) -> None:
    """Delete the rollbacks after the savepoint, as Hudi does: what they refer to is gone."""
    for instant in table.timeline.instants:
        if instant.action == ROLLBACK and instant.timestamp > savepoint_time:
            # The completed file last: a rollback must not look pending again.
            pending = (instant.in_state(state) for state in (InstantState.REQUESTED, InstantState.INFLIGHT))
            for state in (*pending, instant):
                table.storage.delete_file(table.instant_path(state))
