"""Planned table services (compactions, clusterings): preparing a plan, beginning and undoing its run.

Follows `RunCompactionActionExecutor`, `SparkExecuteClusteringCommitActionExecutor` and
`BaseHoodieTableServiceClient.rollbackInflightCompaction` of Hudi 0.15. The plan stays on the timeline until
the service completes: a killed run leaves files and an inflight instant, which the next run deletes.
"""

from __future__ import annotations

import time
from contextlib import suppress

from hudisql.errors import (
    NoSuchInstantError,
    PathExistsError,
    StorageError,
    UnsupportedTableError,
    WriteConflictError,
)
from hudisql.format.paths.file_names import FileGroup
from hudisql.format.timeline.instant import COMPACTION, Instant, InstantState
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.written_versions import check_written
from hudisql.table.timeline.requested_plans import is_clustering, planned_file_groups
from hudisql.write.index.hash_rings import remove_rings
from hudisql.write.metadata_table.metadata_rollback import undo_deltacommit
from hudisql.write.metadata_table.unkept_metadata_table import drop_unless_kept, has_unkept
from hudisql.write.transaction.concurrency import Concurrency
from hudisql.write.transaction.failed_writes import roll_back_failed_writes
from hudisql.write.transaction.heartbeat import (
    Heartbeat,
    delete_heartbeat,
    heartbeat_path,
    is_alive,
    start_heartbeat,
)
from hudisql.write.transaction.instant_request import request_instant
from hudisql.write.transaction.markers import delete_markers
from hudisql.write.transaction.pending_rollbacks import check_not_restored, pending_rollbacks
from hudisql.write.transaction.schema_versions import check_keeps_ids
from hudisql.write.transaction.timeline_files import completed_path
from hudisql.write.transaction.uncommitted_files import delete_unnamed_files


def prepare_to_plan(table: HudiTable, concurrency: Concurrency) -> HudiTable:
    """The current table after failed writes were rolled back. Called under the lock.

    Raises UnsupportedTableError, WriteConflictError, StorageError.
    """
    table = table.reopened()
    check_not_restored(table, table.timeline)
    return table.reopened() if roll_back_failed_writes(table, concurrency) else table


def pending_file_groups(table: HudiTable) -> frozenset[FileGroup]:
    """The file groups of pending compactions and clusterings. Raises CorruptTableError, StorageError."""
    return frozenset(
        group
        for instant in table.timeline.pending
        if instant.action == COMPACTION or is_clustering(table, instant)
        for group in planned_file_groups(table, instant)
    )


def put_plan(table: HudiTable, action: str, content: bytes) -> Instant:
    """Drop a metadata table that is not kept, then put the plan on the timeline. Called under the lock.

    Raises WriteConflictError, StorageError.
    """
    if drop_unless_kept(table):
        table = table.reopened()
    requested, _ = request_instant(table, action, content)
    return requested


def begin_run(table: HudiTable, planned: Instant, concurrency: Concurrency) -> tuple[Instant, Heartbeat]:
    """Make the planned instant inflight; first roll back a killed run, and drop an unkept metadata table.

    Called under the lock. Raises UnsupportedTableError for table versions that are not written, and for
    metadata tables that cannot be dropped, WriteConflictError if another process runs it, StorageError.
    """
    storage, base_path, instant_time = table.storage, table.base_path, planned.timestamp
    check_written(table, planned.action)
    check_keeps_ids(table)
    if not table.timeline.layout.has_completion_times:
        check_no_metadata_table(table, service_name(planned))
    interval, tolerance = concurrency.heartbeat_interval_ms, concurrency.heartbeat_tolerance_ms
    if is_alive(storage, base_path, instant_time, tolerance):
        raise _at_work(table, planned)
    heartbeat = start_heartbeat(storage, heartbeat_path(base_path, instant_time), interval, tolerance)
    inflight = planned.in_state(InstantState.INFLIGHT)
    try:
        _reset(table, inflight)
        drop_unless_kept(table.reopened())
        storage.create(table.instant_path(inflight), b"")
    except PathExistsError:
        heartbeat.stop(keeps_file=True)
        raise _at_work(table, planned) from None
    except BaseException:
        heartbeat.stop()
        raise
    return inflight, heartbeat


def at_planned_schema(table: HudiTable, instant_time: str) -> HudiTable:
    """The table with the schema of its planned files: if columns have ids, that of the plan's instant."""
    return table if table.file_columns is None else table.at_schema_of(instant_time)


def first_attempt() -> int:
    """A number that separates the files of two runs of one plan; task attempts stay below 1,000."""
    return int(time.time() * 10) % 1_000_000 * 1000


def give_up_run(table: HudiTable, inflight: Instant, heartbeat: Heartbeat) -> None:
    """Roll back the run, unless its heartbeat has expired: then another process may be running the plan."""
    try:
        heartbeat.check()
    except WriteConflictError:
        with suppress(StorageError):
            heartbeat.stop(keeps_file=True)
        return
    with suppress(StorageError):
        _reset(table, inflight)
    with suppress(StorageError):
        heartbeat.stop()


def undo_run(table: HudiTable, pending: Instant, concurrency: Concurrency) -> None:
    """Delete the files of a killed run; the plan stays. Called under the lock.

    Raises WriteConflictError if another process runs it, StorageError.
    """
    if is_alive(table.storage, table.base_path, pending.timestamp, concurrency.heartbeat_tolerance_ms):
        raise _at_work(table, pending)
    _reset(table, pending.in_state(InstantState.INFLIGHT))
    with suppress(StorageError):
        delete_heartbeat(table.storage, table.base_path, pending.timestamp)


def check_still_planned(now: HudiTable, inflight: Instant) -> None:
    """Raise WriteConflictError if the run was rolled back meanwhile; called before it completes.

    Raises UnsupportedTableError during a restore, and if a metadata table was created.
    """
    check_not_restored(now, now.timeline)
    rolled_back = {rollback.target.timestamp for rollback in pending_rollbacks(now, now.timeline)}
    if inflight not in now.timeline.instants or inflight.timestamp in rolled_back:
        service = service_name(inflight)
        raise WriteConflictError(
            f"another writer has rolled back the {service} {inflight.timestamp} of {now.base_path}",
            hint=f"run it again: its plan may still be pending (CALL show_{service})",
        )
    check_no_metadata_table(now, service_name(inflight))


def check_no_metadata_table(table: HudiTable, service: str) -> None:
    """Raise UnsupportedTableError for a table with a metadata table that is not kept.

    It cannot be dropped while the service itself is pending.
    """
    if has_unkept(table):
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} has a metadata table that hudisql does not keep",
            hint=f"let Apache Hudi run this {service}, or turn the metadata table off for all writers "
            "(hoodie.metadata.enable=false)",
        )


def not_pending(table: HudiTable, service: str, instant_time: str) -> NoSuchInstantError:
    """The error for a compaction or clustering (`service`) that is not pending."""
    return NoSuchInstantError(
        f"no {service} {instant_time} is pending on the Hudi table at {table.base_path}",
        hint=f"CALL show_{service}(table => '…') lists them",
    )


def service_name(instant: Instant) -> str:
    """`compaction` or `clustering`."""
    return "compaction" if instant.action == COMPACTION else "clustering"


def _at_work(table: HudiTable, planned: Instant) -> WriteConflictError:
    return WriteConflictError(
        f"another process runs the {service_name(planned)} {planned.timestamp} of {table.base_path}",
        hint="wait for it; a process that was killed counts as gone when its heartbeat has expired",
    )


def _reset(table: HudiTable, inflight: Instant) -> None:
    """Delete the files of a run and its inflight instant; only the plan stays."""
    if completed_path(table, inflight) is not None:
        return
    delete_unnamed_files(table.storage, table.base_path, inflight.timestamp, (), table.timeline.layout)
    delete_markers(table.storage, table.base_path, inflight.timestamp)
    undo_deltacommit(table, inflight.timestamp)
    if inflight.action != COMPACTION:
        remove_rings(table, inflight.timestamp)
    table.storage.delete_file(table.instant_path(inflight))
