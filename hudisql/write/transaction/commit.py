"""The commit protocol: requested → inflight → completed, the last one in one atomic step.

Follows `BaseHoodieWriteClient`, `TransactionManager` and `HoodieActiveTimeline` of Hudi 0.15 (table version
6, timeline layout 1). `Concurrency` configures which unfinished commits are rolled back, the lock under which
a commit begins and completes, and which concurrent commits are allowed. Knows timelines and markers, not the
contents of data files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from hudisql.errors import (
    CorruptTableError,
    NoSuchPathError,
    StorageError,
    TableLockedError,
    UnsupportedTableError,
    WriteConflictError,
)
from hudisql.format.paths.file_names import FileGroup
from hudisql.format.table_properties import read_table_properties
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.format.timeline.instant import COMMIT, DELTA_COMMIT, REPLACE_COMMIT, Instant, InstantState
from hudisql.format.timeline.timeline_layout import METADATA_TABLE_NAME, SCHEMA_NAME
from hudisql.table.files.committed_slices import listing_after_commit
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.registered_partitions import refuse_registered
from hudisql.table.properties.table_configuration import (
    names_metadata_table,
    record_statistics,
    reopened_with_entries,
)
from hudisql.write.metadata_table.metadata_commit import (
    PreparedCommit,
    prepare_commit,
    settle_commit,
    write_commit,
)
from hudisql.write.metadata_table.metadata_compaction import prepare_metadata_table
from hudisql.write.transaction.commit_annotations import annotated, record_commit
from hudisql.write.transaction.concurrency import SINGLE_WRITER, Concurrency, FailedWrites
from hudisql.write.transaction.conflicts import (
    check_no_commit,
    check_no_conflict,
    check_no_partition_cleaned,
    touched_file_groups,
)
from hudisql.write.transaction.dead_writers import delete_stale_files
from hudisql.write.transaction.failed_writes import has_live_writer, roll_back_failed_writes
from hudisql.write.transaction.heartbeat import Heartbeat, stop_heartbeat
from hudisql.write.transaction.instant_request import request_instant
from hudisql.write.transaction.instant_rollback import remove_pending, roll_back_instant
from hudisql.write.transaction.late_conflicts import rolled_back_error, withdraw_if_in_conflict
from hudisql.write.transaction.lock import hold_lock
from hudisql.write.transaction.markers import delete_markers
from hudisql.write.transaction.pending_rollbacks import check_not_restored, pending_rollbacks
from hudisql.write.transaction.pending_table_services import check_not_clustered
from hudisql.write.transaction.rows_checkpoint import CommitCheckpoint
from hudisql.write.transaction.schema_versions import (
    check_keeps_ids,
    check_same_ids,
    save_schema_version,
    with_internal_schema,
)
from hudisql.write.transaction.timeline_files import completed_path, timeline_files
from hudisql.write.transaction.timeline_payloads import render_requested_replace
from hudisql.write.transaction.uncommitted_files import delete_late_files, delete_unnamed_files, named_files
from hudisql.write.transaction.writable_tables import check_writable

# A failing writer retries the lock only a few times: the next writer can roll its commit back.
_ROLLBACK_LOCK_RETRIES: Final = 2


@dataclass(frozen=True, slots=True)
class OpenCommit:
    """An inflight commit, which is not yet visible. `table` is as it was when the commit began.

    `dropped_metadata_table` is true if the table had a metadata table that hudisql does not keep.
    `heartbeat` is None if the table's writers use no heartbeats, `checkpoint` is None unless the commit
    writes a pull's rows. `has_task_attempts` is false if this process alone writes the files: none of them
    can come later.
    """

    table: HudiTable
    instant: Instant
    operation_type: str
    dropped_metadata_table: bool = False
    concurrency: Concurrency = SINGLE_WRITER
    heartbeat: Heartbeat | None = None
    checkpoint: CommitCheckpoint | None = None
    has_task_attempts: bool = True

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
    checkpoint: CommitCheckpoint | None = None,
    has_task_attempts: bool = True,
) -> OpenCommit:
    """Roll back failed writes, then put a new instant on the timeline, requested and inflight.

    `operation_type` is Hudi's `WriteOperationType`; `replaces` makes a replacecommit. `table` is the snapshot
    that the statement has read, `changed` the file groups whose rows it changes. Raises UnsupportedTableError
    for tables hudisql must not write to, WriteConflictError if another writer has committed since the table
    was opened (with `optimistic` writers: to these file groups), TableLockedError, StorageError.
    """
    check_writable(table, operation_type)
    heartbeat: Heartbeat | None = None
    if concurrency.lock is not None and concurrency.failed_writes is FailedWrites.EAGER:
        # Tables that are always refused are refused before the lock is acquired.
        for instant in table.timeline.pending:
            if instant.action in (COMMIT, DELTA_COMMIT):
                has_live_writer(table, instant, concurrency)
    try:
        with concurrency.hold():
            table, dropped = _prepare_table(table, concurrency, changed)
            action = REPLACE_COMMIT if replaces else (DELTA_COMMIT if table.is_merge_on_read else COMMIT)
            content = render_requested_replace() if replaces else b""
            requested, heartbeat = request_instant(table, action, content, concurrency, operation_type)
            inflight = requested.in_state(InstantState.INFLIGHT)
            profile = CommitMetadata(partition_to_write_stats={}, operation_type=operation_type)
            content = timeline_files(table.timeline.layout).workload_profile(profile)
            table.storage.create(table.instant_path(inflight), content)
    except BaseException:
        # A commit with a live heartbeat is never rolled back.
        stop_heartbeat(heartbeat)
        raise
    return OpenCommit(
        table, inflight, operation_type, dropped, concurrency, heartbeat, checkpoint, has_task_attempts
    )


def _prepare_table(
    opened: HudiTable, concurrency: Concurrency, changed: Collection[FileGroup]
) -> tuple[HudiTable, bool]:
    """Roll back failed writes, delete stale files and the metadata table; check for conflicts and column ids.

    `opened` is the table as the statement has read it. Returns the table as it is now, and whether a metadata
    table was dropped.
    """
    # One listing in place of a request for each directory of `.hoodie`, most of which are missing.
    table, entries = reopened_with_entries(opened)
    check_not_restored(table, table.timeline)
    had_metadata_table = names_metadata_table(table)
    if roll_back_failed_writes(table, concurrency):
        table = table.reopened()
    _check_no_conflict(opened, table.timeline, changed, concurrency)
    tolerance_ms = concurrency.heartbeat_tolerance_ms if concurrency.gives_heartbeats else None
    delete_stale_files(table, tolerance_ms, entries)
    check_not_clustered(table, changed)
    if SCHEMA_NAME in entries:
        check_keeps_ids(table)
    if METADATA_TABLE_NAME not in entries and not names_metadata_table(table):
        record_statistics(table, are_right=False)
        return table, False
    if _prepare_metadata_table(table, concurrency):
        had_metadata_table, table = True, table.reopened()
    return table, had_metadata_table and not names_metadata_table(table)


def _prepare_metadata_table(table: HudiTable, concurrency: Concurrency) -> bool:
    """True if a metadata table, or an index, that is not kept was dropped: not while others write."""
    try:
        return prepare_metadata_table(table)
    except UnsupportedTableError as error:
        if not concurrency.optimistic:
            raise
        raise WriteConflictError(error.message, hint=error.hint) from error


def complete_commit(commit: OpenCommit, metadata: CommitMetadata) -> HudiTable | None:
    """Make the commit visible and delete its markers; returns the table as `publish_commit` does.

    Files that the metadata does not name, written by discarded task attempts, are deleted. Raises
    WriteConflictError if another writer has rolled the commit back, a conflicting commit has completed or the
    table has been upgraded; RegisterOnlyError if it writes into a register-only partition that it does not
    lift; TableLockedError, StorageError.
    """
    return publish_commit(commit, metadata, lambda now: _check_table_unchanged(commit, now, metadata))


def publish_commit(
    commit: OpenCommit, metadata: CommitMetadata, check: Callable[[HudiTable], None]
) -> HudiTable | None:
    """Complete the instant under the lock; `check` gets the table as it is now and raises to prevent it.

    `check` is called again after the completion if other writers have changed the timeline. Returns the table
    as the completion left it, with a `listing` of what the commit has changed; None if that is unknown.
    `Concurrency.after_completion` gets it before the lock is released. Raises WriteConflictError,
    TableLockedError, StorageError.
    """
    table, storage = commit.table, commit.table.storage
    files = timeline_files(table.timeline.layout)
    metadata = with_internal_schema(table, metadata, commit.instant_time)
    named = named_files(table.base_path, metadata)
    prepared = _prepare(commit, metadata, check)
    noted = annotated(metadata, prepared)
    content = files.commit_content(noted)
    after_completion = commit.concurrency.after_completion
    with ExitStack() as locked:
        held = locked.enter_context(commit.concurrency.hold())
        check(now := _reopen(commit))
        check_same_ids(table, now, commit.instant_time)
        if commit.has_task_attempts:
            delete_unnamed_files(storage, table.base_path, commit.instant_time, named, table.timeline.layout)
        if commit.heartbeat is not None:
            commit.heartbeat.check()
        held.check()
        current = None if prepared is None else prepared.of_now(table, now, metadata, commit.instant_time)
        if current is not prepared:
            prepared, noted = current, annotated(metadata, current)
            content = files.commit_content(noted)
        save_schema_version(now, metadata, commit.instant_time)
        is_kept = write_commit(now, metadata, commit.instant_time, prepared)
        awaits_clocks = commit.concurrency.names_lock
        completed = files.complete(table, commit.instant, content, awaits_clocks=awaits_clocks)
        table.keep_schema_text(completed, noted.extra_metadata)
        left = withdraw_if_in_conflict(now, commit.instant, completed, check, is_locked=held.lock is not None)
        if not is_kept:
            # Dropping the metadata table, or an index, changes the properties.
            left = None
        settle_commit(table, prepared)
        if left is not None:
            left = replace(left, listing=listing_after_commit(table, left, completed, metadata))
        if after_completion is None:
            locked.close()
        _end_completed(commit, named)
        if after_completion is not None and left is not None:
            after_completion(left)
    return left


def _prepare(
    commit: OpenCommit, metadata: CommitMetadata, check: Callable[[HudiTable], None]
) -> PreparedCommit | None:
    """The commit's part of a kept metadata table; a missing file of the commit may be a conflict."""
    try:
        return prepare_commit(commit.table, metadata, commit.instant_time)
    except NoSuchPathError:
        check(_reopen(commit))
        raise


def _end_completed(commit: OpenCommit, named: Collection[str]) -> None:
    """Record the completed commit and delete its markers; those that cannot be deleted are harmless."""
    table, instant_time = commit.table, commit.instant_time
    latest = table.timeline.latest_commit
    record_commit(table.base_path, None if latest is None else latest.timestamp, instant_time)
    with suppress(StorageError, CorruptTableError):
        if commit.has_task_attempts:
            delete_late_files(table.storage, table.base_path, instant_time, named, table.timeline.layout)
        else:
            delete_markers(table.storage, table.base_path, instant_time)
    stop_heartbeat(commit.heartbeat)


def _reopen(commit: OpenCommit) -> HudiTable:
    """The table as it is now."""
    try:
        return replace(commit.table, listing=None).reopened()
    except (UnsupportedTableError, WriteConflictError) as error:
        raise type(error)(
            f"the table was changed while the commit {commit.instant_time} was being written, and the commit "
            f"is rolled back: {error.message}",
            hint=error.hint,
        ) from error


def discard_empty_commit(commit: OpenCommit) -> None:
    """Discard a commit that has written nothing: its markers and its instant. Raises StorageError."""
    table = commit.table
    delete_unnamed_files(table.storage, table.base_path, commit.instant_time, (), table.timeline.layout)
    delete_markers(table.storage, table.base_path, commit.instant_time)
    remove_pending(table, commit.instant)
    stop_heartbeat(commit.heartbeat)


def rollback_commit(commit: OpenCommit) -> None:
    """Roll the commit back: delete its files, then its instant. A completed commit stays.

    If the lock cannot be acquired, the next writer rolls the commit back. If the table has been upgraded
    meanwhile, only the commit's own files are deleted, without a rollback instant. Raises StorageError.
    """
    table, concurrency = commit.table, commit.concurrency
    lock_retry_policy = concurrency.lock_retry_policy
    briefly = replace(lock_retry_policy, retries=min(lock_retry_policy.retries, _ROLLBACK_LOCK_RETRIES))
    try:
        if completed_path(table, commit.instant) is None:
            with suppress(TableLockedError), hold_lock(concurrency.lock, briefly):
                if _has_own_version(table):
                    roll_back_instant(table, commit.instant)
                else:
                    _delete_written(commit)
    finally:
        stop_heartbeat(commit.heartbeat)


def _has_own_version(table: HudiTable) -> bool:
    """False if the table has been upgraded since it was opened."""
    return read_table_properties(table.storage, table.base_path).version == table.version


def _delete_written(commit: OpenCommit) -> None:
    """Delete the commit's files, its instants and its markers, without a rollback instant."""
    table = commit.table
    delete_unnamed_files(table.storage, table.base_path, commit.instant_time, (), table.timeline.layout)
    remove_pending(table, commit.instant)
    delete_markers(table.storage, table.base_path, commit.instant_time)


def _check_table_unchanged(commit: OpenCommit, now: HudiTable, metadata: CommitMetadata) -> None:
    """Raise WriteConflictError, UnsupportedTableError or RegisterOnlyError if the commit must not complete on
    `now`.
    """
    table, timeline = commit.table, now.timeline
    check_not_restored(table, timeline)
    being_rolled_back = {rollback.target.timestamp for rollback in pending_rollbacks(table, timeline)}
    if commit.instant not in timeline.instants or commit.instant_time in being_rolled_back:
        raise rolled_back_error(table.base_path, commit.instant_time)
    schema = table.schema_of(metadata.schema) if metadata.schema else None
    touched = touched_file_groups(metadata)
    check_not_clustered(table, touched)
    _check_no_conflict(table, timeline, touched, commit.concurrency, schema)
    check_no_partition_cleaned(table, timeline, metadata.partition_to_write_stats)
    refuse_registered(now, metadata.partition_to_write_stats, own_instant=commit.instant_time)
    if commit.checkpoint is not None:
        commit.checkpoint.check(now)


def _check_no_conflict(
    known: HudiTable,
    timeline: Timeline,
    touched: Collection[FileGroup],
    concurrency: Concurrency,
    schema: pa.Schema | None = None,
) -> None:
    """Raise WriteConflictError if commits since `known` was opened conflict with this one."""
    if concurrency.optimistic:
        check_no_conflict(known, timeline, touched, schema)
    else:
        check_no_commit(known, timeline, touched)
