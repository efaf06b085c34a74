"""The commit protocol: requested → inflight → completed, the last one in one atomic step.

Follows `BaseHoodieWriteClient`, `TransactionManager` and `HoodieActiveTimeline` of Hudi 0.15 (table version
6, timeline layout 1). `Concurrency` says how the table is shared: whose unfinished commits are rolled back,
under which lock a commit begins and completes, and which commits may come between. Knows timelines and
markers, not what the files of a commit hold.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from hudisql.errors import (
    CorruptTableError,
    PathExistsError,
    StorageError,
    TableLockedError,
    UnsupportedTableError,
    WriteConflictError,
)
from hudisql.format.commit_metadata import CommitMetadata
from hudisql.format.instant import (
    COMMIT,
    COMMIT_ACTIONS,
    DELTA_COMMIT,
    REPLACE_COMMIT,
    WRITE_ACTIONS,
    Instant,
    InstantState,
    new_instant_time,
)
from hudisql.format.schema import arrow_from_avro
from hudisql.format.table_properties import read_table_properties
from hudisql.format.timeline import Timeline, load_timeline
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.table_configuration import drop_metadata_table, has_metadata_table
from hudisql.write.transaction.concurrency import SINGLE_WRITER, Concurrency, FailedWrites
from hudisql.write.transaction.conflicts import (
    FileGroup,
    check_no_commit,
    check_no_conflict,
    touched_file_groups,
)
from hudisql.write.transaction.heartbeat import Heartbeat, delete_heartbeat, is_alive, start_heartbeat
from hudisql.write.transaction.lock import holding
from hudisql.write.transaction.markers import delete_markers
from hudisql.write.transaction.pending_rollbacks import (
    check_not_restored,
    pending_rollbacks,
    rollbacks_of_failed_writes,
)
from hudisql.write.transaction.pending_table_services import check_not_clustered, is_clustering
from hudisql.write.transaction.rollback import now_on_timeline, roll_back_instant
from hudisql.write.transaction.stale_files import delete_stale_files
from hudisql.write.transaction.timeline_payloads import render_requested_replace
from hudisql.write.transaction.uncommitted_files import delete_unnamed_files, named_files

_ATTEMPTS: Final = 100
_MOST_SECONDS_APART: Final = 0.02
# A writer that gives up asks for the lock just so often: who comes next can roll back for it.
_ROLLBACK_LOCK_RETRIES: Final = 2
_PAYLOAD_PACKAGE: Final = "org.apache.hudi.common.model"
EVENT_TIME_PAYLOAD: Final = f"{_PAYLOAD_PACKAGE}.DefaultHoodieRecordPayload"
PAYLOADS: Final = (f"{_PAYLOAD_PACKAGE}.OverwriteWithLatestAvroPayload", EVENT_TIME_PAYLOAD)
"""The record payloads whose rules hudisql follows."""


@dataclass(frozen=True, slots=True)
class OpenCommit:
    """A commit that is inflight: nothing of it is visible. `table` is as it stood when the commit began.

    `dropped_metadata_table` says that the table had a metadata table, which hudisql does not keep. The
    `heartbeat` is there if others go by it.
    """

    table: HudiTable
    instant: Instant
    operation_type: str
    dropped_metadata_table: bool = False
    concurrency: Concurrency = SINGLE_WRITER
    heartbeat: Heartbeat | None = None

    @property
    def instant_time(self) -> str:
        """The commit's instant time."""
        return self.instant.timestamp


def begin_commit(
    table: HudiTable,
    operation_type: str,
    *,
    replaces: bool = False,
    concurrency: Concurrency = SINGLE_WRITER,
    changed: Collection[FileGroup] = (),
) -> OpenCommit:
    """Roll back failed writes, then put a new instant on the timeline, requested and inflight.

    `operation_type` is Hudi's word for it (UPSERT, INSERT, DELETE …); `replaces` makes a replacecommit.
    `table` is what the rows to write were made from, `changed` the file groups whose rows they change. Raises
    UnsupportedTableError for tables hudisql must not write to, WriteConflictError if somebody has committed
    since the table was opened (if writers are `optimistic`, to these file groups), TableLockedError,
    StorageError.
    """
    check_writable(table)
    heartbeat: Heartbeat | None = None
    try:
        with holding(concurrency.lock, concurrency.lock_retry_policy):
            table, dropped = _clear_up(table, concurrency, changed)
            action = REPLACE_COMMIT if replaces else (DELTA_COMMIT if table.is_merge_on_read else COMMIT)
            requested, heartbeat = _request_instant(table, action, concurrency)
            inflight = requested.in_state(InstantState.INFLIGHT)
            profile = CommitMetadata(partition_to_write_stats={}, operation_type=operation_type)
            table.storage.create(table.instant_path(inflight), profile.to_json())
    except BaseException:
        # Also if the lock cannot be given back: nobody would ever roll back what gives heartbeats.
        _stop(heartbeat)
        raise
    return OpenCommit(table, inflight, operation_type, dropped, concurrency, heartbeat)


def _clear_up(
    given: HudiTable, concurrency: Concurrency, changed: Collection[FileGroup]
) -> tuple[HudiTable, bool]:
    """Take away what a new commit must not meet; gives the table as it then is, and if a metadata table went.

    `given` is the table as the statement has read it. Raises as `begin_commit` does.
    """
    table = given.reopened()
    check_not_restored(table, table.timeline)
    if roll_back_failed_writes(table, concurrency):
        table = table.reopened()
    _check_no_conflict(given, table.timeline, changed, concurrency)
    delete_stale_files(table, concurrency.known_by_heartbeats_ms)
    check_not_clustered(table, changed)
    dropped = drop_metadata_table(table)
    return (table.reopened() if dropped else table), dropped


def complete_commit(commit: OpenCommit, metadata: CommitMetadata) -> Instant:
    """Make the commit visible and drop its markers.

    Files that the metadata does not name, left by attempts of tasks that do not count, are deleted. Raises
    WriteConflictError if another writer has rolled the commit back, or a commit that stands in its way has
    come between; UnsupportedTableError if the table has been upgraded; TableLockedError, StorageError.
    """
    table, storage = commit.table, commit.table.storage
    completed = commit.instant.in_state(InstantState.COMPLETED)
    named = named_files(table.base_path, metadata)
    with holding(commit.concurrency.lock, commit.concurrency.lock_retry_policy) as held:
        _check_table_unchanged(commit, _reopen(commit), metadata)
        delete_unnamed_files(storage, table.base_path, commit.instant_time, named)
        if commit.heartbeat is not None:
            commit.heartbeat.check()
        held.check()
        storage.create(table.instant_path(completed), metadata.to_json())
        _discard_if_rolled_back(commit, completed)
    # The commit stands: markers that stay behind are only litter.
    with suppress(StorageError, CorruptTableError):
        # An attempt of a task may have begun a file since the last look; one that is not there yet, and whose
        # writer dies before it looks itself, is found by its marker when the next commit begins.
        if delete_unnamed_files(storage, table.base_path, commit.instant_time, named):
            delete_markers(storage, table.base_path, commit.instant_time)
    _stop(commit.heartbeat)
    return completed


def _reopen(commit: OpenCommit) -> HudiTable:
    """The table as it is now. Raises UnsupportedTableError if Hudi 1.x has upgraded it meanwhile."""
    try:
        return open_table(commit.table.storage, commit.table.base_path)
    except UnsupportedTableError as error:
        raise UnsupportedTableError(
            f"the table was changed while the commit {commit.instant_time} was being written, which is given "
            f"up: {error.message}",
            hint=error.hint,
        ) from error


def _discard_if_rolled_back(commit: OpenCommit, completed: Instant) -> None:
    """Take the completed instant off the timeline if a rollback of it was begun since the last look.

    Whoever begins a rollback looks afterwards whether the instant is complete (`roll_back_instant`), and here
    it is the other way round: so at least one of both sees the other. Raises WriteConflictError.
    """
    table, storage = commit.table, commit.table.storage
    is_rolled_back = False
    # A look that fails takes nothing away: whoever reads the timeline now sees the commit.
    with suppress(StorageError, CorruptTableError):
        timeline = load_timeline(storage, table.base_path, table.timeline.layout)
        going = {each.target.timestamp for each in pending_rollbacks(table, timeline)}
        inflight = table.instant_path(commit.instant)
        is_rolled_back = commit.instant_time in going or not storage.exists(inflight)
    if is_rolled_back:
        storage.delete_file(table.instant_path(completed))
        raise _rolled_back(commit)


def _rolled_back(commit: OpenCommit) -> WriteConflictError:
    return WriteConflictError(
        f"another writer has rolled back the commit {commit.instant_time} on {commit.table.base_path}",
        hint="run the statement again when no other writer is at work, "
        "or let all writers of the table use one lock",
    )


def discard_empty_commit(commit: OpenCommit) -> None:
    """Take the instant of a commit that has written nothing off the timeline again. Raises StorageError."""
    table = commit.table
    delete_unnamed_files(table.storage, table.base_path, commit.instant_time, ())
    delete_markers(table.storage, table.base_path, commit.instant_time)
    _remove_instant(table, commit.instant)
    _stop(commit.heartbeat)


def rollback_commit(commit: OpenCommit) -> None:
    """Roll the commit back: its files, then its instant. A completed one stands.

    Under a lock that cannot be had, that is left to the next writer. From a table that has been upgraded
    meanwhile the commit's own files go, and nothing is added to its timeline. Raises StorageError.
    """
    table, concurrency = commit.table, commit.concurrency
    completed = commit.instant.in_state(InstantState.COMPLETED)
    lock_retry_policy = concurrency.lock_retry_policy
    briefly = replace(lock_retry_policy, retries=min(lock_retry_policy.retries, _ROLLBACK_LOCK_RETRIES))
    try:
        if not table.storage.exists(table.instant_path(completed)):
            with suppress(TableLockedError), holding(concurrency.lock, briefly):
                if _has_own_version(table):
                    roll_back_instant(table, commit.instant)
                else:
                    _remove_what_was_written(commit)
    finally:
        _stop(commit.heartbeat)


def _has_own_version(table: HudiTable) -> bool:
    """False if the table has been upgraded since it was opened."""
    return read_table_properties(table.storage, table.base_path).version == table.version


def _remove_what_was_written(commit: OpenCommit) -> None:
    """Delete the commit's files, its instants and its markers, without a rollback instant."""
    table = commit.table
    delete_unnamed_files(table.storage, table.base_path, commit.instant_time, ())
    _remove_instant(table, commit.instant)
    delete_markers(table.storage, table.base_path, commit.instant_time)


def _remove_instant(table: HudiTable, instant: Instant) -> None:
    for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
        table.storage.delete_file(table.instant_path(instant.in_state(state)))


def roll_back_failed_writes(table: HudiTable, concurrency: Concurrency = SINGLE_WRITER) -> bool:
    """Roll back commits, deltacommits and overwrites left pending, newest first; True if there were some.

    The policy for failed writes says which: by default all, and one whose writer gives heartbeats raises
    WriteConflictError; with LAZY that one is left alone, and so is a rollback that has just been begun, since
    Apache Hudi holds no lock meanwhile. A rollback that was itself interrupted is ended. A pending
    compaction or clustering is somebody's plan and stays, a rollback of one too. Raises
    UnsupportedTableError for what cannot be taken back, StorageError.
    """
    if concurrency.failed_writes is FailedWrites.NEVER:
        return False
    under_way, interrupted = rollbacks_of_failed_writes(table, concurrency.known_by_heartbeats_ms)
    being_rolled_back = {each.timestamp for each in under_way}
    pending = [
        instant
        for instant in table.timeline.pending
        if instant.action in COMMIT_ACTIONS
        and instant.timestamp not in being_rolled_back
        and not is_clustering(table, instant)
    ]
    dead = [instant for instant in pending if not _is_at_work(table, instant, concurrency)]
    failed = {instant.timestamp: instant for instant in (*interrupted, *dead)}
    for instant_time, instant in sorted(failed.items(), reverse=True):
        roll_back_instant(table, instant)
        delete_heartbeat(table.storage, table.base_path, instant_time)
    return bool(failed)


def _is_at_work(table: HudiTable, instant: Instant, concurrency: Concurrency) -> bool:
    """True if the instant's writer gives heartbeats, as those with the LAZY policy do.

    Raises WriteConflictError then, if this writer is not to leave it alone.
    """
    tolerance = concurrency.heartbeat_tolerance_ms
    if not is_alive(table.storage, table.base_path, instant.timestamp, tolerance):
        return False
    if concurrency.failed_writes is FailedWrites.EAGER:
        raise WriteConflictError(
            f"another writer is at work on {table.base_path}: its {instant.action} {instant.timestamp} is "
            "not finished, and its heartbeat is fresh",
            hint="run the statement again when it has finished, or let all writers share one lock: "
            "docs/changing-rows.md, Several writers",
        )
    return True


def _stop(heartbeat: Heartbeat | None, *, keeps_file: bool = False) -> None:
    """End the heartbeats; a file that stays behind is only litter."""
    if heartbeat is not None:
        with suppress(StorageError):
            heartbeat.stop(keeps_file=keeps_file)


def check_writable(table: HudiTable) -> None:
    """Raise UnsupportedTableError for a table that hudisql must not write to, saying why."""
    properties = table.properties
    reason = None
    if not properties.populate_meta_fields:
        reason = "its rows carry no meta columns (hoodie.populate.meta.fields=false)"
    elif properties.cdc_enabled:
        reason = "it logs its changes (hoodie.table.cdc.enabled=true)"
    elif properties.drop_partition_columns:
        reason = "its files lack the partition columns (hoodie.datasource.write.drop.partition.columns=true)"
    elif properties.partition_metafile_use_base_format:
        reason = "its partition markers are parquet files (hoodie.partition.metafile.use.base.format=true)"
    elif properties.payload_class not in (None, *PAYLOADS):
        reason = f"its payload class {properties.payload_class} merges rows by rules of its own"
    elif any(pa.types.is_timestamp(column.type) for column in table.partition_columns):
        reason = "it is partitioned by a timestamp"
    if reason is not None:
        raise UnsupportedTableError(
            f"hudisql does not write to the Hudi table at {table.base_path}: {reason}",
            hint="write to it with Apache Hudi's own Spark SQL",
        )


def _requested_content(action: str) -> bytes:
    return render_requested_replace() if action == REPLACE_COMMIT else b""


def _request_instant(
    table: HudiTable, action: str, concurrency: Concurrency
) -> tuple[Instant, Heartbeat | None]:
    """Take the first free instant time; two writers can never hold the same."""
    storage, base_path = table.storage, table.base_path
    after = table.timeline.latest_time
    for _ in range(_ATTEMPTS):
        instant_time = new_instant_time(after, now_on_timeline(table))
        requested = Instant(instant_time, action, InstantState.REQUESTED)
        heartbeat = None
        if concurrency.failed_writes is FailedWrites.LAZY:
            # Before the instant, so that nobody sees it without: but another's own must not be touched.
            interval, tolerance = concurrency.heartbeat_interval_ms, concurrency.heartbeat_tolerance_ms
            heartbeat = start_heartbeat(storage, base_path, instant_time, interval, tolerance)
        try:
            storage.create(table.instant_path(requested), _requested_content(action))
            if not _shares_its_time(table, requested):
                return requested, heartbeat
            storage.delete_file(table.instant_path(requested))
        except PathExistsError:
            pass
        except BaseException:
            _stop(heartbeat)
            raise
        # The file of the heartbeat is the other writer's as well.
        _stop(heartbeat, keeps_file=True)
        after = instant_time
        # Two writers that have met step out of each other's way.
        time.sleep(random.uniform(0, _MOST_SECONDS_APART))
    raise WriteConflictError(f"no free instant time on the timeline of {base_path}")


def _shares_its_time(table: HudiTable, requested: Instant) -> bool:
    """True if another write is on the timeline with this instant time: they would share markers."""
    others = [replace(requested, action=action) for action in sorted(WRITE_ACTIONS - {requested.action})]
    paths = [table.instant_path(other) for other in others]
    return any(found is not None for found in table.storage.infos(paths))


def _check_table_unchanged(commit: OpenCommit, now: HudiTable, metadata: CommitMetadata) -> None:
    """Raise WriteConflictError or UnsupportedTableError if the commit must not complete on `now`."""
    table, timeline = commit.table, now.timeline
    check_not_restored(table, timeline)
    going = {each.target.timestamp for each in pending_rollbacks(table, timeline)}
    if commit.instant not in timeline.instants or commit.instant_time in going:
        raise _rolled_back(commit)
    schema = arrow_from_avro(metadata.schema) if metadata.schema else None
    touched = touched_file_groups(metadata)
    check_not_clustered(table, touched)
    _check_no_conflict(table, timeline, touched, commit.concurrency, schema)
    if commit.concurrency.optimistic and has_metadata_table(now):
        raise WriteConflictError(
            f"another writer has made a metadata table for {table.base_path}, which hudisql does not keep",
            hint="let the table's other writers set hoodie.metadata.enable=false, then run this again",
        )


def _check_no_conflict(
    known: HudiTable,
    timeline: Timeline,
    touched: Collection[FileGroup],
    concurrency: Concurrency,
    schema: pa.Schema | None = None,
) -> None:
    """Raise WriteConflictError if commits that `known` was opened without stand in the way."""
    if concurrency.optimistic:
        check_no_conflict(known, timeline, touched, schema)
    else:
        check_no_commit(known, timeline, touched)
