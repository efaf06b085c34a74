"""The commit protocol: requested → inflight → completed, the last one in one atomic step.

Follows `BaseHoodieWriteClient` and `HoodieActiveTimeline` of Hudi 0.15 (table version 6, timeline layout 1)
with the `EAGER` policy for failed writes: whoever begins a commit first rolls back what an earlier writer has
left unfinished. Knows timelines and markers, not what the files of a commit hold.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from hudisql.errors import PathExistsError, StorageError, UnsupportedTableError, WriteConflictError
from hudisql.format.commit_metadata import CommitMetadata
from hudisql.format.instant import (
    COMMIT,
    COMMIT_ACTIONS,
    COMPACTION,
    DELTA_COMMIT,
    REPLACE_COMMIT,
    Instant,
    InstantState,
    new_instant_time,
)
from hudisql.format.timeline import TIMELINE_FOLDER, Timeline, instant_path, load_timeline
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.markers import delete_left_markers, delete_markers
from hudisql.write.rollback import interrupted_rollbacks, now_on_timeline, roll_back_instant
from hudisql.write.table_configuration import drop_metadata_table
from hudisql.write.timeline_payloads import render_requested_replace, requested_operation

_ATTEMPTS: Final = 100
# Hudi's default interval of a minute, with two misses and some grace.
_HEARTBEAT_TOLERANCE_MS: Final = 200_000
_PAYLOAD_PACKAGE: Final = "org.apache.hudi.common.model"
EVENT_TIME_PAYLOAD: Final = f"{_PAYLOAD_PACKAGE}.DefaultHoodieRecordPayload"
PAYLOADS: Final = (f"{_PAYLOAD_PACKAGE}.OverwriteWithLatestAvroPayload", EVENT_TIME_PAYLOAD)
"""The record payloads whose rules hudisql follows."""


@dataclass(frozen=True, slots=True)
class OpenCommit:
    """A commit that is inflight: nothing of it is visible. `table` is as it stood when the commit began.

    `dropped_metadata_table` says that the table had a metadata table, which hudisql does not keep.
    """

    table: HudiTable
    instant: Instant
    operation_type: str
    dropped_metadata_table: bool = False

    @property
    def instant_time(self) -> str:
        """The commit's instant time."""
        return self.instant.timestamp


def begin_commit(table: HudiTable, operation_type: str, *, replaces: bool = False) -> OpenCommit:
    """Roll back failed writes, then put a new instant on the timeline, requested and inflight.

    `operation_type` is Hudi's word for it (UPSERT, INSERT, DELETE …); `replaces` makes a replacecommit.
    `table` is what the rows to write were made from. Raises UnsupportedTableError for tables hudisql must not
    write to, WriteConflictError if somebody has committed since the table was opened, StorageError.
    """
    check_writable(table)
    roll_back_failed_writes(table)
    given, table = table, open_table(table.storage, table.base_path)
    _check_no_other_commit(given, table.timeline)
    completed = {each.timestamp for each in table.timeline.completed}
    delete_left_markers(table.storage, table.base_path, completed)
    _refuse_planned_services(table)
    dropped = drop_metadata_table(table)
    if dropped:
        table = open_table(table.storage, table.base_path)
    action = REPLACE_COMMIT if replaces else (DELTA_COMMIT if table.is_merge_on_read else COMMIT)
    requested = _request_instant(table, action, _requested_content(action))
    inflight = requested.in_state(InstantState.INFLIGHT)
    profile = CommitMetadata(partition_to_write_stats={}, operation_type=operation_type)
    table.storage.create(instant_path(table.base_path, inflight), profile.to_json())
    return OpenCommit(table, inflight, operation_type, dropped)


def complete_commit(commit: OpenCommit, metadata: CommitMetadata) -> Instant:
    """Make the commit visible and drop its markers.

    Raises WriteConflictError if another writer has rolled the commit back or a later commit has come between,
    StorageError.
    """
    table, storage = commit.table, commit.table.storage
    timeline = load_timeline(storage, table.base_path)
    _check_undisturbed(commit, timeline)
    completed = commit.instant.in_state(InstantState.COMPLETED)
    storage.create(instant_path(table.base_path, completed), metadata.to_json())
    # The commit stands: markers that stay behind are only litter.
    with suppress(StorageError):
        delete_markers(storage, table.base_path, commit.instant_time)
    return completed


def withdraw_commit(commit: OpenCommit) -> None:
    """Take the instant of a commit that has written nothing off the timeline again. Raises StorageError."""
    table = commit.table
    delete_markers(table.storage, table.base_path, commit.instant_time)
    for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
        table.storage.delete_file(instant_path(table.base_path, commit.instant.in_state(state)))


def abandon_commit(commit: OpenCommit) -> None:
    """Roll the commit back: its files, then its instant. A completed one stands. Raises StorageError."""
    completed = commit.instant.in_state(InstantState.COMPLETED)
    if not commit.table.storage.exists(instant_path(commit.table.base_path, completed)):
        roll_back_instant(commit.table, commit.instant)


def roll_back_failed_writes(table: HudiTable) -> tuple[Instant, ...]:
    """Roll back every pending commit, deltacommit and overwrite, newest first; gives those that were there.

    A rollback that was itself interrupted is ended. A pending compaction or clustering is somebody's plan and
    stays. Raises WriteConflictError if a writer with a heartbeat is still at work, UnsupportedTableError for
    what cannot be taken back, StorageError.
    """
    pending = [
        instant
        for instant in table.timeline.pending
        if instant.action in COMMIT_ACTIONS and not _is_clustering(table, instant)
    ]
    for instant in pending:
        _check_not_alive(table, instant)
    failed = {instant.timestamp: instant for instant in (*interrupted_rollbacks(table), *pending)}
    for _, instant in sorted(failed.items(), reverse=True):
        roll_back_instant(table, instant)
    return tuple(pending)


def _check_not_alive(table: HudiTable, instant: Instant) -> None:
    """Raise WriteConflictError if the instant's writer has given a sign of life of late.

    Writers that share a table under a lock (`LAZY` clean-up) touch `.hoodie/.heartbeat/<instant>` every
    minute.
    """
    beat = table.storage.info(join(table.base_path, TIMELINE_FOLDER, ".heartbeat", instant.timestamp))
    if beat is not None and time.time() * 1000 - beat.modification_time_ms < _HEARTBEAT_TOLERANCE_MS:
        raise WriteConflictError(
            f"another writer is at work on {table.base_path}: its {instant.action} {instant.timestamp} is "
            "not finished, and its heartbeat is fresh",
            hint="run the statement again when it has finished; hudisql has no part in Hudi's locks yet",
        )


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
    elif properties.partition_fields and not table.partition_columns:
        generator = properties.key_generator_class or properties.key_generator_type
        reason = f"its key generator {generator} makes folder names that are not the columns' values"
    elif properties.payload_class not in (None, *PAYLOADS):
        reason = f"its payload class {properties.payload_class} merges rows by rules of its own"
    elif any(pa.types.is_timestamp(column.type) for column in table.partition_columns):
        reason = "it is partitioned by a timestamp"
    elif not properties.record_key_fields:
        reason = "it names no record key (hoodie.table.recordkey.fields)"
    if reason is not None:
        raise UnsupportedTableError(
            f"hudisql does not write to the Hudi table at {table.base_path}: {reason}",
            hint="write to it with Apache Hudi's own Spark SQL",
        )


def _refuse_planned_services(table: HudiTable) -> None:
    """Raise UnsupportedTableError while a compaction or clustering is planned: its groups must not change."""
    for instant in table.timeline.pending:
        is_clustering = instant.action == REPLACE_COMMIT and _is_clustering(table, instant)
        if instant.action == COMPACTION or is_clustering:
            what = "clustering" if is_clustering else "compaction"
            raise UnsupportedTableError(
                f"a {what} ({instant.timestamp}) of the Hudi table at {table.base_path} is not done",
                hint=f"let Apache Hudi run it (CALL run_{what}) or unschedule it, then run this again",
            )


def _requested_content(action: str) -> bytes:
    return render_requested_replace() if action == REPLACE_COMMIT else b""


def _request_instant(table: HudiTable, action: str, content: bytes) -> Instant:
    """Take the first free instant time; two writers can never hold the same."""
    after = table.timeline.latest_time
    for _ in range(_ATTEMPTS):
        instant_time = new_instant_time(after, now_on_timeline(table))
        requested = Instant(instant_time, action, InstantState.REQUESTED)
        try:
            table.storage.create(instant_path(table.base_path, requested), content)
        except PathExistsError:
            after = instant_time
            continue
        return requested
    raise WriteConflictError(f"no free instant time on the timeline of {table.base_path}")


def _check_undisturbed(commit: OpenCommit, timeline: Timeline) -> None:
    if commit.instant not in timeline.instants:
        raise WriteConflictError(
            f"another writer has rolled back the commit {commit.instant_time} on {commit.table.base_path}",
            hint="run the statement again when no other writer is at work, "
            "or let all writers of the table use one lock",
        )
    _check_no_other_commit(commit.table, timeline)


def _check_no_other_commit(table: HudiTable, timeline: Timeline) -> None:
    """Raise WriteConflictError if the timeline has commits that `table` was opened without."""
    known = {(each.timestamp, each.action) for each in table.timeline.completed}
    others = [each for each in timeline.commits if (each.timestamp, each.action) not in known]
    if others:
        raise WriteConflictError(
            f"another writer has committed {others[-1].timestamp} to {table.base_path} meanwhile",
            hint="run the statement again: it then works on the table as that commit left it",
        )


def _is_clustering(table: HudiTable, instant: Instant) -> bool:
    if instant.action != REPLACE_COMMIT:
        return False
    requested = instant.in_state(InstantState.REQUESTED)
    return requested_operation(table.storage, instant_path(table.base_path, requested)) == "CLUSTER"
