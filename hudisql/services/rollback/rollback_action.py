"""Rolls back the latest commit, or a pending compaction or clustering: a killed run, on request the plan too.

Follows `RollbackToInstantTimeProcedure` and the checks of `BaseRollbackActionExecutor` of Hudi 0.15. Beyond
Hudi, a commit whose predecessors' files are gone is not rolled back: its rows would be lost.

For table services it follows `RunRollbackInflightTableServiceProcedure` of Hudi 1.x and
`CompactionAdminClient` of Hudi 0.15 (its command line's `compaction unschedule`). Hudi renames the log files
that belong to the slices of an unscheduled compaction; hudisql refuses such a compaction, since its rows
could be lost in between.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from hudisql.errors import NoSuchInstantError, RollbackRefusedError, WriteConflictError
from hudisql.format.paths.file_names import FileGroup
from hudisql.format.timeline.commit_metadata import NO_COMMIT, CommitMetadata, read_commit_metadata
from hudisql.format.timeline.instant import (
    BOOTSTRAP_INSTANT_TIMES,
    CLEAN,
    COMPACTION,
    ROLLBACK,
    WRITE_ACTIONS,
    Instant,
    InstantState,
)
from hudisql.services.planned_run import service_name, undo_run
from hudisql.storage import join
from hudisql.table.file_slice import FileSlice, LogFile
from hudisql.table.files.snapshot import list_file_versions, slices_of_versions
from hudisql.table.history.past_state import DOWNGRADED_LOGS, groups_without_base, lost_file_groups
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.archived_timeline import archived_commits, commits_in_archive
from hudisql.table.timeline.requested_plans import is_clustering, planned_file_groups
from hudisql.write.metadata_table.metadata_rollback import prepare_rollback
from hudisql.write.transaction.concurrency import SINGLE_WRITER, Concurrency
from hudisql.write.transaction.conflicts import touched_file_groups
from hudisql.write.transaction.failed_writes import roll_back_failed_writes
from hudisql.write.transaction.instant_rollback import roll_back_instant
from hudisql.write.transaction.pending_rollbacks import pending_rollbacks, reopened_under_lock
from hudisql.write.transaction.writable_tables import check_writable

_SHOWN: Final = 3


def roll_back_commit(table: HudiTable, instant_time: str, concurrency: Concurrency = SINGLE_WRITER) -> None:
    """Roll back the latest completed commit of the table; a rollback of it that was interrupted is completed.

    Failed writes are rolled back first. A metadata table is kept, unless a compaction of it has merged what
    the commit wrote there, or it was made later; indexes of it that were made later are dropped. Raises
    NoSuchInstantError for an instant that is not a completed commit of the active timeline,
    RollbackRefusedError for a commit that later ones, a savepoint or a planned table service build on, that
    is the bootstrap's, or whose predecessors were cleaned, are being cleaned or are all archived;
    WriteConflictError while another writer is active, UnsupportedTableError, TableLockedError, StorageError.
    """
    check_writable(table, ROLLBACK)
    with reopened_under_lock(table, concurrency) as (table, held):
        _check_no_bootstrap(table, instant_time)
        target = _interrupted(table, instant_time)
        if target is not None:
            _check_is_latest(table, target)
            roll_back_instant(table, target, undoes_completed=True)
            return
        if roll_back_failed_writes(table, concurrency):
            table = table.reopened()
        commit = _completed_commit(table, instant_time)
        _check_is_latest(table, commit)
        check_nobody_writes(table)
        metadata = read_commit_metadata(table.storage, table.instant_path(commit))
        _check_not_planned(table, commit, touched_file_groups(metadata))
        _check_not_cleaned(table, commit, metadata)
        if prepare_rollback(table, instant_time):
            table = table.reopened()
        held.check()
        opened = table
        roll_back_instant(
            table, commit, undoes_completed=True, check=lambda: _check_is_latest(opened.reopened(), commit)
        )


def _interrupted(table: HudiTable, instant_time: str) -> Instant | None:
    """The instant, inflight, if a rollback of it is pending."""
    instants = [rollback.target for rollback in pending_rollbacks(table, table.timeline)]
    return next((instant for instant in instants if instant.timestamp == instant_time), None)


def _completed_commit(table: HudiTable, instant_time: str) -> Instant:
    for commit in table.timeline.commits:
        if commit.timestamp == instant_time:
            return commit
    pending = [instant for instant in table.timeline.pending if instant.timestamp == instant_time]
    if pending:
        raise NoSuchInstantError(
            f"the {pending[0].action} {instant_time} of {table.base_path} is not complete",
            hint="the next write rolls back what has failed; table services are run again, or undone: "
            "CALL run_rollback_inflight_tableservice",
        )
    raise NoSuchInstantError(
        f"{instant_time} is not a completed commit on the active timeline of {table.base_path}",
        hint="CALL show_commits(table => '…') lists them; archived commits cannot be rolled back",
    )


def _check_no_bootstrap(table: HudiTable, instant_time: str) -> None:
    if instant_time in BOOTSTRAP_INSTANT_TIMES:
        raise RollbackRefusedError(
            f"the commit {instant_time} of {table.base_path} is its bootstrap, which is never rolled back",
            hint="CALL rollback_bootstrap removes the table and keeps the source files",
        )


def _check_is_latest(table: HudiTable, commit: Instant) -> None:
    later = [instant.timestamp for instant in table.timeline.commits if instant.timestamp > commit.timestamp]
    if later:
        more = f" and {len(later) - _SHOWN} more" if len(later) > _SHOWN else ""
        raise RollbackRefusedError(
            f"the commit {commit.timestamp} of {table.base_path} is followed by "
            f"{', '.join(later[:_SHOWN])}{more}",
            hint="roll these back first, the latest one before the others, or restore the table to a "
            "savepoint: CALL rollback_to_savepoint",
        )
    others = [
        instant.timestamp for instant in table.timeline.commits if instant.timestamp != commit.timestamp
    ]
    if commit.timestamp in commits_in_archive(table, since=commit.timestamp):
        raise RollbackRefusedError(
            f"the commit {commit.timestamp} of {table.base_path} is archived: an interrupted archiving has "
            "left it on the active timeline, too",
            hint="archived commits cannot be rolled back: delete or change its rows by a statement",
        )
    if table.timeline.savepoints.issuperset(others) and any(
        archived_commit > max(others, default="")
        for archived_commit in archived_commits(table, table.timeline)
    ):
        raise RollbackRefusedError(
            f"the commit {commit.timestamp} of {table.base_path} is the last one on its active timeline"
            f"{' without a savepoint' if others else ''}: without it the rows of the archived commits would "
            "not be seen any more",
            hint="an archived state is kept only by a savepoint: CALL show_savepoints, rollback_to_savepoint",
        )
    if commit.timestamp in table.timeline.savepoints:
        raise RollbackRefusedError(
            f"the commit {commit.timestamp} of {table.base_path} has a savepoint",
            hint=f"first: CALL delete_savepoint(table => '…', instant_time => '{commit.timestamp}')",
        )


def check_nobody_writes(table: HudiTable) -> None:
    """Raise WriteConflictError for pending writes that are not planned table services."""
    for instant in table.timeline.pending:
        if (
            instant.action in WRITE_ACTIONS
            and instant.action != COMPACTION
            and not is_clustering(table, instant)
        ):
            raise WriteConflictError(
                f"another writer is active on {table.base_path}: its {instant.action} {instant.timestamp} is "
                "not complete",
                hint="run the call again when it is complete",
            )


def _check_not_planned(table: HudiTable, commit: Instant, touched: Collection[FileGroup]) -> None:
    """Raise RollbackRefusedError if a table service planned after the commit rewrites its file groups."""
    for instant in table.timeline.pending:
        if instant.action not in WRITE_ACTIONS or instant.timestamp < commit.timestamp:
            continue
        if planned_file_groups(table, instant) & set(touched):
            service = "compaction" if instant.action == COMPACTION else "clustering"
            raise RollbackRefusedError(
                f"a {service} ({instant.timestamp}) is planned of file groups that the commit "
                f"{commit.timestamp} of {table.base_path} has written",
                hint=f"run it first (CALL run_{service}), or restore the table to a savepoint",
            )


def _check_not_cleaned(table: HudiTable, commit: Instant, metadata: CommitMetadata) -> None:
    """Raise RollbackRefusedError if slices that the commit changed or replaced are no longer complete."""
    replaced = metadata.partition_to_replace_file_ids or {}
    needed = {(partition, file_id): "" for partition, file_ids in replaced.items() for file_id in file_ids}
    needed |= {
        (partition, stat.file_id): stat.prev_commit
        for partition, stats in metadata.partition_to_write_stats.items()
        for stat in stats
        if stat.prev_commit not in ("", NO_COMMIT, commit.timestamp)
    }
    if not needed:
        return
    _check_no_pending_clean(table, commit)
    before = _just_before(commit.timestamp)
    versions = list_file_versions(table, existing_partitions(table, {partition for partition, _ in needed}))
    slices = slices_of_versions(table, versions, before)
    found = {file_slice.file_group: file_slice.base_instant_time for file_slice in slices}
    missing = {
        group
        for group, previous in needed.items()
        if group not in found
        # The slice of a pending compaction is shown as a part of the one before.
        or (found[group] < previous and previous not in table.timeline.pending_compactions)
    }
    missing |= lost_file_groups(table, before, slices) & needed.keys()
    _check_not_downgraded(table, commit, slices, needed)
    if missing:
        shown = ", ".join("/".join(part for part in group if part) for group in sorted(missing)[:_SHOWN])
        raise RollbackRefusedError(
            f"the commit {commit.timestamp} of {table.base_path} cannot be rolled back: a clean has deleted "
            f"the files that it replaced ({shown}{' …' if len(missing) > _SHOWN else ''}), and their rows "
            "would be lost",
            hint="savepoints keep files from being cleaned: CALL create_savepoint",
        )


def _check_not_downgraded(
    table: HudiTable, commit: Instant, slices: Collection[FileSlice], needed: Collection[FileGroup]
) -> None:
    """Raise RollbackRefusedError if the commit is the compaction of a downgrade to version 6."""
    groups = groups_without_base(
        table,
        [file_slice for file_slice in slices if file_slice.file_group in needed],
    )
    if groups:
        reason = DOWNGRADED_LOGS.format(group="/".join(filter(None, min(groups))))
        raise RollbackRefusedError(
            f"the commit {commit.timestamp} of {table.base_path} cannot be rolled back: {reason}",
            hint="delete or change its rows by a statement",
        )


def _check_no_pending_clean(table: HudiTable, commit: Instant) -> None:
    for instant in table.timeline.pending:
        if instant.action == CLEAN:
            raise RollbackRefusedError(
                f"the commit {commit.timestamp} of {table.base_path} cannot be rolled back: a clean "
                f"({instant.timestamp}) is not complete, and may delete the files that the commit replaced",
                hint="complete it first: CALL run_clean(table => '…')",
            )


def existing_partitions(table: HudiTable, partitions: Collection[str]) -> list[str]:
    """The partitions (paths) whose directories exist: a clean deletes empty ones."""
    paths = sorted(partitions)
    infos = table.storage.infos([join(table.base_path, path) for path in paths])
    return [path for path, info in zip(paths, infos, strict=True) if info is not None or not path]


def _just_before(instant_time: str) -> str:
    """The greatest text of digits, of the same length, that sorts before the instant time."""
    return f"{int(instant_time) - 1:0{len(instant_time)}d}"


def undo_service(
    table: HudiTable, instant_time: str, concurrency: Concurrency, *, deletes_plan: bool = False
) -> Instant:
    """Delete the files of a pending compaction's or clustering's run; with `deletes_plan` the plan as well.

    Returns the plan's instant. Raises NoSuchInstantError if no such service is pending, or it has not run and
    the plan stays; RollbackRefusedError for the plan of a compaction whose slices have log files already;
    WriteConflictError while another process runs it, or writes; UnsupportedTableError, TableLockedError,
    CorruptTableError, StorageError.
    """
    check_writable(table, ROLLBACK)
    with reopened_under_lock(table, concurrency) as (table, held):
        pending = _pending_service(table, instant_time)
        if pending.state is InstantState.REQUESTED and not deletes_plan:
            raise NoSuchInstantError(
                f"the {service_name(pending)} {instant_time} of {table.base_path} is planned, and has no run "
                "to undo",
                hint="delete_request_instant_file => true deletes the plan",
            )
        deletes_compaction = deletes_plan and pending.action == COMPACTION
        if deletes_compaction:
            check_nobody_writes(table)
            _logs_on_top(table, pending)
        held.check()
        undo_run(table, pending, concurrency)
        planned = pending.in_state(InstantState.REQUESTED)
        if deletes_compaction:
            # Once the plan's instant is older than the timeline, Hudi reads them as a slice without rows.
            # They are listed again: a writer without the lock may have written to them meanwhile.
            rolled_back = _logs_on_top(table, pending)
            table.storage.delete_files([log_file.path for log_file in rolled_back])
        if deletes_plan:
            table.storage.delete_file(table.instant_path(planned))
        return planned


def _pending_service(table: HudiTable, instant_time: str) -> Instant:
    for instant in table.timeline.pending:
        if instant.timestamp == instant_time and (
            instant.action == COMPACTION or is_clustering(table, instant)
        ):
            return instant
    raise NoSuchInstantError(
        f"no compaction or clustering {instant_time} is pending on the Hudi table at {table.base_path}",
        hint="CALL show_compaction(table => '…') and show_clustering(table => '…') list them",
    )


def _logs_on_top(table: HudiTable, planned: Instant) -> list[LogFile]:
    """The log files without rows of the slices that the compaction starts.

    Raises RollbackRefusedError if there are log files with rows, CorruptTableError, StorageError.
    """
    groups = planned_file_groups(table, planned)
    versions = list_file_versions(table, existing_partitions(table, {partition for partition, _ in groups}))
    begun, without_rows = [], list[LogFile]()
    for partition, file_id in sorted(groups):
        version = versions.get(partition, {}).get(file_id, {}).get(planned.timestamp)
        log_files = [] if version is None else version.log_files
        without_rows += [log_file for log_file in log_files if not log_file.holds_rows]
        if any(log_file.holds_rows for log_file in log_files):
            begun.append(f"{partition}/{file_id}".lstrip("/"))
    if begun:
        raise RollbackRefusedError(
            f"the plan of the compaction {planned.timestamp} of {table.base_path} cannot be deleted: "
            f"{len(begun)} file groups have log files in the slices that it starts "
            f"({', '.join(begun[:_SHOWN])}{' …' if len(begun) > _SHOWN else ''})",
            hint=f"run it: CALL run_compaction(op => 'run', table => '…', timestamp => {planned.timestamp})",
        )
    return without_rows
