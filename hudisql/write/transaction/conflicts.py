"""Conflict checks between a commit and those that other writers have completed since it began.

Follows `SimpleConcurrentFileWritesConflictResolutionStrategy` and `ConcurrentOperation` of Hudi 0.15: two
commits conflict if they wrote to the same file group, regardless of what they read. Unlike in Hudi, a commit
also conflicts with a schema change of another writer, so that it never reverts the change.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from hudisql.errors import CorruptTableError, PendingCleanError, WriteConflictError
from hudisql.format.paths.file_names import FileGroup
from hudisql.format.schema.meta_columns import is_meta_column
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.format.timeline.instant import (
    CLEAN,
    CLUSTERING,
    COMPACTION,
    REPLACE_COMMIT,
    WRITE_ACTIONS,
    Instant,
)
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.archived_timeline import archived_commits
from hudisql.table.timeline.instant_files import read_commit
from hudisql.table.timeline.requested_plans import deleted_partitions, planned_file_groups
from hudisql.write.index.partition_buckets import has_bucket_rules

_SHOWN = 3
_AGAIN = (
    "run the statement again: it then uses the table as of that commit "
    "(hoodie.write.num.retries.on.conflict.failures does so by itself)"
)


def touched_file_groups(metadata: CommitMetadata) -> frozenset[FileGroup]:
    """The file groups that a commit has written or replaced."""
    written = {
        (partition, stat.file_id)
        for partition, stats in metadata.partition_to_write_stats.items()
        for stat in stats
    }
    replaced = {
        (partition, file_id)
        for partition, ids in (metadata.partition_to_replace_file_ids or {}).items()
        for file_id in ids
    }
    return frozenset(written | replaced)


def check_no_conflict(
    known: HudiTable, timeline: Timeline, touched: Collection[FileGroup], schema: pa.Schema | None = None
) -> None:
    """Raise WriteConflictError if commits since `known` was opened conflict with a new one.

    The new commit writes to the file groups `touched` and sets the table's schema to `schema` (None:
    unchanged). `timeline` is the table's current one.
    """
    _check_no_commit_removed(known, timeline)
    _check_no_new_commit_archived(known, timeline)
    _check_planned_services(known, timeline, touched)
    changes_schema = schema is not None and _shape(schema) != _shape(known.schema)
    for other in _new_commits(known, timeline):
        metadata = read_commit(known, other)
        if changes_schema:
            raise WriteConflictError(
                f"another writer has committed {other.timestamp} to {known.base_path} while its schema was "
                "being changed",
                hint=_AGAIN,
            )
        if metadata.schema and _shape(known.schema_of(metadata.schema)) != _shape(known.schema):
            raise WriteConflictError(
                f"the commit {other.timestamp} of another writer has changed the schema of {known.base_path}",
                hint=_AGAIN,
            )
        if other.action == REPLACE_COMMIT and has_bucket_rules(known, other.timestamp):
            raise WriteConflictError(
                f"the commit {other.timestamp} of another writer has changed the numbers of buckets of "
                f"{known.base_path}",
                hint=_AGAIN,
            )
        # A writer that began while a compaction was pending has appended to the compaction's new slices.
        if other.timestamp not in known.timeline.pending_compactions:
            _check_disjoint(known, other, touched, touched_file_groups(metadata))


def check_no_commit(known: HudiTable, timeline: Timeline, touched: Collection[FileGroup]) -> None:
    """Raise WriteConflictError if another writer has committed since `known` was opened.

    Compactions that were pending then do not conflict. Compactions planned later conflict if they contain a
    file group of `touched`. A commit that was rolled back since conflicts, too.
    """
    _check_no_commit_removed(known, timeline)
    _check_no_new_commit_archived(known, timeline)
    _check_planned_services(known, timeline, touched)
    pending = known.timeline.pending_compactions
    others = [commit for commit in _new_commits(known, timeline) if commit.timestamp not in pending]
    if others:
        raise WriteConflictError(
            f"another writer has committed {others[-1].timestamp} to {known.base_path} meanwhile",
            hint="run the statement again: it then uses the table as of that commit",
        )


def check_no_partition_cleaned(known: HudiTable, timeline: Timeline, written: Collection[str]) -> None:
    """Raise WriteConflictError if a clean deletes a partition of `written`, the partitions of a new commit.

    The clean is pending (PendingCleanError), or has completed since `known` was opened. Apache Hudi
    (`CleanActionExecutor`) deletes the partition's directory with all of its files, and then its record in
    the metadata table.
    """
    before = {instant.timestamp for instant in known.timeline.completed if instant.action == CLEAN}
    for clean in timeline.instants:
        if clean.action != CLEAN or clean.timestamp in before:
            continue
        try:
            deleted = sorted(deleted_partitions(known, clean) & set(written))
        except CorruptTableError:
            # Nobody can run a plan that cannot be read.
            continue
        if not deleted:
            continue
        where = f"partitions of {known.base_path} to which this statement has written: {_shown(deleted)}"
        if clean.is_completed:
            raise WriteConflictError(f"the clean {clean.timestamp} has deleted {where}", hint=_AGAIN)
        raise PendingCleanError(
            f"the pending clean {clean.timestamp} deletes {where}",
            hint="run the statement again when the clean has completed; if no process runs it, "
            "CALL run_clean(table => '…', schedule_in_line => false) does",
        )


def _new_commits(known: HudiTable, timeline: Timeline) -> list[Instant]:
    """The commits of the timeline that `known` does not have, oldest first."""
    before = {(instant.timestamp, instant.action) for instant in known.timeline.completed}
    return [commit for commit in timeline.commits if (commit.timestamp, commit.action) not in before]


def _check_disjoint(
    known: HudiTable, other: Instant, touched: Collection[FileGroup], theirs: Collection[FileGroup]
) -> None:
    both = sorted(set(touched) & set(theirs))
    if not both:
        return
    shown = _shown(["/".join(part for part in group if part) for group in both])
    what = f"the commit {other.timestamp}" if other.is_completed else f"the planned {_service(other)}"
    raise WriteConflictError(
        f"{what} of another writer changes the same file groups of {known.base_path} as this statement: "
        f"{shown}",
        hint=_AGAIN,
    )


def _shown(names: Sequence[str]) -> str:
    """The first of the names, and the number of the others."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _service(instant: Instant) -> str:
    return f"{'compaction' if instant.action == COMPACTION else 'clustering'} {instant.timestamp}"


def _check_no_commit_removed(known: HudiTable, timeline: Timeline) -> None:
    """Raise WriteConflictError if another writer has rolled back a commit that `known` contains."""
    first = timeline.first_active_time
    now = {(instant.timestamp, instant.action) for instant in timeline.completed}
    for commit in known.timeline.commits:
        is_active = first is not None and commit.timestamp > first
        if is_active and (commit.timestamp, commit.action) not in now:
            raise WriteConflictError(
                f"another writer has rolled back the commit {commit.timestamp} of {known.base_path}",
                hint=_AGAIN,
            )


def _check_no_new_commit_archived(known: HudiTable, timeline: Timeline) -> None:
    """Raise WriteConflictError if a commit that `known` does not have is already archived.

    Such a commit was pending in `known`, or is later than all of its commits. Compactions that were pending
    do not conflict. The archive is read only if the active timeline begins after one of these.
    """
    first = timeline.first_active_time
    if first is None:
        return
    latest = known.timeline.latest_commit
    since = "" if latest is None else latest.timestamp
    now = {instant.timestamp for instant in timeline.instants}
    gone = {
        instant.timestamp
        for instant in known.timeline.pending
        if instant.action in WRITE_ACTIONS and instant.timestamp < first and instant.timestamp not in now
    }
    compactions = known.timeline.pending_compactions
    if gone <= compactions and first <= since:
        return
    archived = archived_commits(known, timeline) - compactions
    unknown = sorted(each for each in archived if each in gone or each > since)
    if unknown:
        raise WriteConflictError(
            f"the commit {unknown[0]} of another writer to {known.base_path} was archived while this "
            "statement ran: its changes are not known",
            hint=_AGAIN,
        )


def _check_planned_services(known: HudiTable, timeline: Timeline, touched: Collection[FileGroup]) -> None:
    """Raise WriteConflictError if a compaction or clustering of the file groups was planned since."""
    before = {instant.timestamp for instant in known.timeline.instants}
    for other in timeline.pending:
        if other.action in (COMPACTION, REPLACE_COMMIT, CLUSTERING) and other.timestamp not in before:
            planned = planned_file_groups(known, other)
            _check_disjoint(known, other, touched, planned)


def _shape(schema: pa.Schema) -> list[tuple[str, str]]:
    """Names and types of the data columns, without nullability, which differs between writers."""
    return [
        (field.name.lower(), str(field.type).replace(" not null", ""))
        for field in schema
        if not is_meta_column(field.name)
    ]
