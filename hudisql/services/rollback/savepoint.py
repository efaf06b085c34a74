"""Savepoints: a commit whose files no clean deletes, and to which a restore can return.

Follows `SavepointActionExecutor` and `SavepointHelpers` of Hudi 0.15: `<t>.savepoint` lists the files of the
latest slices as of the commit `t`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress

from hudisql.errors import (
    CorruptTableError,
    InvalidArgumentError,
    NoSuchInstantError,
    PathExistsError,
    TimelineChangedError,
    WriteConflictError,
)
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.instant import CLEAN, COMPACTION, SAVEPOINT, WRITE_ACTIONS, Instant, InstantState
from hudisql.services.archive.archive_action import archive_instants
from hudisql.services.archive.archive_plan import until_files_are_left
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.history.past_state import check_past_state
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.written_versions import ARCHIVE, check_written
from hudisql.table.timeline.archived_timeline import archived_commits
from hudisql.table.timeline.instant_files import read_instant
from hudisql.table.timeline.requested_plans import is_clustering
from hudisql.table.timeline.savepoint_files import SavepointMetadata, parse_savepoint_metadata
from hudisql.write.transaction.concurrency import SINGLE_WRITER, Concurrency
from hudisql.write.transaction.pending_rollbacks import reopened_under_lock
from hudisql.write.transaction.timeline_files import timeline_files


def create_savepoint(
    table: HudiTable,
    commit_time: str | None = None,
    user: str = "",
    comments: str = "",
    concurrency: Concurrency = SINGLE_WRITER,
) -> str:
    """Create a savepoint of a commit, the latest by default; returns its time.

    A savepoint that was interrupted is completed. Raises NoSuchInstantError for an instant that is not a
    completed commit of the active timeline, InvalidArgumentError for a second savepoint of a commit or one
    whose files a clean may have deleted, NoSuchStateError if one has deleted them, WriteConflictError while
    an older write is pending (a restore would keep it, but not the files that it wrote),
    UnsupportedTableError during a restore, TableLockedError, StorageError.
    """
    with reopened_under_lock(table, concurrency) as (table, _):
        check_written(table, SAVEPOINT)
        commit_time = _commit_to_keep(table, commit_time)
        _check_no_older_write(table, commit_time)
        _check_not_cleaned(table, commit_time)
        slices = load_file_slices(table, as_of=commit_time)
        check_past_state(table, commit_time, None, slices)
        metadata = SavepointMetadata(user, int(time.time() * 1000), comments, _files(slices))
        inflight = Instant(commit_time, SAVEPOINT, InstantState.INFLIGHT)
        with suppress(PathExistsError):
            table.storage.create(table.instant_path(inflight), b"")
        files = timeline_files(table.timeline.layout)
        files.complete(table, inflight, metadata.to_avro(), awaits_clocks=concurrency.names_lock)
    return commit_time


def delete_savepoint(
    table: HudiTable, instant_time: str | None = None, concurrency: Concurrency = SINGLE_WRITER
) -> str:
    """Delete the savepoint of a commit, the latest by default; returns its time. The commit stays.

    If later commits are archived the commit is archived first. Files of an interrupted savepoint are deleted,
    too. Raises NoSuchInstantError, InvalidArgumentError if the commit cannot be archived,
    UnsupportedTableError during a restore, TableLockedError, StorageError.
    """
    with reopened_under_lock(table, concurrency) as (table, held):
        check_written(table, SAVEPOINT)
        unfinished = [instant.timestamp for instant in table.timeline.pending if instant.action == SAVEPOINT]
        if instant_time is None or instant_time not in unfinished:
            instant_time = choose_savepoint(table, instant_time)
            _archive_if_later_ones_are(table, instant_time, held.check)
        inflight = Instant(instant_time, SAVEPOINT, InstantState.INFLIGHT)
        for instant in (completed_savepoint(table, instant_time), inflight):
            table.storage.delete_file(table.instant_path(instant))
    return instant_time


def _archive_if_later_ones_are(table: HudiTable, instant_time: str, check_lock: Callable[[], None]) -> None:
    """Archive the savepointed commit if commits after it are archived.

    Otherwise the active timeline would begin with it, and the rows of the archived commits would become
    invisible.
    """
    later = sorted(commit for commit in archived_commits(table, table.timeline) if commit > instant_time)
    if not later:
        return
    check_written(table, ARCHIVE)
    commits = [commit for commit in table.timeline.commits if commit.timestamp == instant_time]
    is_last = all(commit.timestamp <= instant_time for commit in table.timeline.commits)
    if is_last or len(until_files_are_left(table, commits)) < len(commits):
        raise InvalidArgumentError(
            f"the savepoint {instant_time} of {table.base_path} must stay: the later commit {later[0]} is "
            "archived, and its rows would not be seen any more without the savepoint",
            hint="file groups that its commit has replaced still have files, which CALL run_clean deletes; "
            "with none, the table needs another commit",
        )
    archive_instants(table, commits, check_lock)


def choose_savepoint(table: HudiTable, instant_time: str | None) -> str:
    """The time of the savepoint of that name, or of the latest one. Raises NoSuchInstantError."""
    savepoints = table.timeline.savepoints
    if not savepoints:
        raise NoSuchInstantError(
            f"the Hudi table at {table.base_path} has no savepoint",
            hint="CALL create_savepoint(table => '…') makes one of the latest commit",
        )
    chosen = max(savepoints) if instant_time is None else instant_time
    if chosen not in savepoints:
        raise NoSuchInstantError(
            f"the Hudi table at {table.base_path} has no savepoint {chosen}",
            hint=f"it has {', '.join(sorted(savepoints))}",
        )
    return chosen


def read_savepoint(table: HudiTable, instant_time: str) -> SavepointMetadata:
    """The content of a completed savepoint. Raises CorruptTableError, TimelineChangedError, StorageError."""
    savepoint = completed_savepoint(table, instant_time)
    return parse_savepoint_metadata(read_instant(table, savepoint), table.instant_path(savepoint))


def completed_savepoint(table: HudiTable, instant_time: str) -> Instant:
    """The completed savepoint on the timeline, if it exists."""
    found = Instant(instant_time, SAVEPOINT, InstantState.COMPLETED)
    return next((instant for instant in table.timeline.completed if instant == found), found)


def _commit_to_keep(table: HudiTable, commit_time: str | None) -> str:
    commits = [commit.timestamp for commit in table.timeline.commits]
    if not commits:
        raise NoSuchInstantError(f"the Hudi table at {table.base_path} has no commit to make a savepoint of")
    chosen = commits[-1] if commit_time is None else commit_time
    if chosen not in commits:
        raise NoSuchInstantError(
            f"{chosen} is not a completed commit on the active timeline of {table.base_path}",
            hint="CALL show_commits(table => '…') lists them",
        )
    if chosen in table.timeline.savepoints:
        raise InvalidArgumentError(
            f"the commit {chosen} of {table.base_path} has a savepoint already",
            hint=f"to replace it: CALL delete_savepoint(table => '…', instant_time => '{chosen}')",
        )
    return chosen


def _check_no_older_write(table: HudiTable, commit_time: str) -> None:
    """Raise WriteConflictError if a write before the commit is pending.

    Pending compactions are allowed: the savepoint includes the files that they merge, so that a restore loses
    no rows.
    """
    for instant in table.timeline.pending:
        if instant.action not in WRITE_ACTIONS - {COMPACTION} or instant.timestamp > commit_time:
            continue
        if is_clustering(table, instant):
            hint = "run it first (CALL run_clustering), then make a savepoint of the latest commit"
        else:
            hint = "run the call again when it is complete; if it has failed, the next write rolls it back"
        raise WriteConflictError(
            f"the {instant.action} {instant.timestamp} of {table.base_path}, older than the commit "
            f"{commit_time}, is not complete: a savepoint would not hold the files that it writes",
            hint=hint,
        )


def _check_not_cleaned(table: HudiTable, commit_time: str) -> None:
    """Raise InvalidArgumentError if the last clean, or a planned one, may delete files of the commit."""
    cleans = [instant for instant in table.timeline.instants if instant.action == CLEAN]
    retained = _earliest_retained(table, cleans[-1]) if cleans else ""
    if commit_time < retained:
        raise InvalidArgumentError(
            f"the commit {commit_time} of {table.base_path} is older than {retained}, the earliest one that "
            f"the clean {cleans[-1].timestamp} retains: its files may be deleted",
            hint=f"make a savepoint of {retained} or a later commit",
        )


def _earliest_retained(table: HudiTable, clean: Instant) -> str:
    """The earliest commit whose files the clean retains; empty if its policy counts file versions."""
    instant = clean if clean.is_completed else clean.in_state(InstantState.REQUESTED)
    path = table.instant_path(instant)
    try:
        content = read_instant(table, instant)
    except TimelineChangedError as error:
        raise CorruptTableError(f"the plan {path} of a clean does not exist") from error
    if clean.is_completed:
        return str(load_codec("HoodieCleanMetadata").decode(content, path)["earliestCommitToRetain"] or "")
    retained = load_codec("HoodieCleanerPlan").decode(content, path).get("earliestInstantToRetain")
    return str(retained["timestamp"]) if retained else ""


def _files(slices: Iterable[FileSlice]) -> dict[str, tuple[str, ...]]:
    """The names of the files of the slices, by partition path."""
    names: dict[str, list[str]] = defaultdict(list)
    for file_slice in slices:
        paths = [file_slice.base_file.path] if file_slice.base_file is not None else []
        paths += [log_file.path for log_file in file_slice.log_files]
        names[file_slice.partition_path] += [path.rpartition("/")[2] for path in paths]
    return {partition: tuple(found) for partition, found in names.items()}
