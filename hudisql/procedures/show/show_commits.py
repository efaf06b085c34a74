"""Procedures that show the metadata of commits, on the active timeline and archived ones.

Names, parameters and columns are those of Hudi 0.15 (`ShowCommitsProcedure`, `ShowCommitFilesProcedure`,
`ShowCommitPartitionsProcedure`, `ShowCommitWriteStatsProcedure`, `ShowCommitExtraMetadataProcedure`,
`ShowArchivedCommitsProcedure`), but without the default bounds of the latter: Hudi shows only the archived
commits between ten days and one day ago.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.errors import NoSuchInstantError
from hudisql.options.table_call import find_table
from hudisql.procedures.registry import (
    Arguments,
    NamedTableArguments,
    parameter,
    path_parameter,
    procedure,
    table_parameter,
)
from hudisql.procedures.show.show_table import commit_totals
from hudisql.procedures.show.shown_rows import LimitedTableArguments, completion_text, limit_parameter

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.format.timeline.archived_log_files import ArchivedEntry
    from hudisql.format.timeline.commit_metadata import CommitMetadata, WriteStat
    from hudisql.format.timeline.instant import Instant
    from hudisql.table.hudi_table import HudiTable


@dataclass(frozen=True, kw_only=True)
class ShowCommitArguments(LimitedTableArguments):
    """The parameters of the procedures that show one commit."""

    instant_time: str = parameter(help="instant time of the commit")


@dataclass(frozen=True, kw_only=True)
class ShowCommitExtraMetadataArguments(NamedTableArguments):
    """The parameters of `show_commit_extra_metadata`."""

    limit: int = limit_parameter(100)
    instant_time: str | None = parameter(None, help="instant time of the commit; without it the latest one")
    metadata_key: str | None = parameter(None, help="only this key")


@dataclass(frozen=True)
class WriteStatRow:
    """What a commit wrote into one file group."""

    commit_time: str
    state_transition_time: str | None
    action: str
    partition: str | None
    file_id: str
    previous_commit: str
    num_writes: int
    num_inserts: int
    num_deletes: int
    num_update_writes: int
    total_errors: int
    total_log_blocks: int
    total_corrupt_log_blocks: int
    total_rollback_blocks: int
    total_log_records: int
    total_updated_records_compacted: int
    total_bytes_written: int


@dataclass(frozen=True)
class CommitFileRow:
    """A file that a commit wrote."""

    action: str
    partition_path: str
    file_id: str
    previous_commit: str
    total_records_updated: int
    total_records_written: int
    total_bytes_written: int
    total_errors: int
    file_size: int


@dataclass(frozen=True)
class CommitPartitionRow:
    """What a commit wrote into a partition."""

    action: str
    partition_path: str
    total_files_added: int
    total_files_updated: int
    total_records_inserted: int
    total_records_updated: int
    total_bytes_written: int
    total_errors: int


@dataclass(frozen=True)
class CommitWriteStatsRow:
    """What a commit wrote in all; `avg_record_size` in bytes, rounded up."""

    action: str
    total_bytes_written: int
    total_records_written: int
    avg_record_size: int


@dataclass(frozen=True)
class ExtraMetadataRow:
    """An entry of a commit's extra metadata."""

    instant_time: str
    action: str
    metadata_key: str
    metadata_value: str | None


@procedure("Shows what the completed commits wrote into each file group, newest first.")
def show_commits_metadata(context: Context, arguments: LimitedTableArguments) -> Iterable[WriteStatRow]:
    """A row for each file group that a commit wrote to. Raises NoSuchTableError, StorageError."""
    table = find_table(context, arguments.table)
    rows: list[WriteStatRow] = []
    for instant in reversed(table.timeline.commits):
        if len(rows) >= arguments.limit:
            break
        time = completion_text(table, instant)
        metadata = _metadata(table, instant)
        rows += [write_stat_row(instant, time, stat) for stat in metadata.write_stats]
    return rows[: max(arguments.limit, 0)]


@procedure("Shows the files that a commit wrote.")
def show_commit_files(context: Context, arguments: ShowCommitArguments) -> Iterable[CommitFileRow]:
    """A row for each file. Raises NoSuchTableError, NoSuchInstantError, StorageError."""
    instant, metadata = _commit(context, arguments)
    rows = [
        CommitFileRow(
            instant.completed_action,
            partition,
            stat.file_id,
            stat.prev_commit,
            stat.num_update_writes,
            stat.num_writes,
            stat.total_write_bytes,
            stat.total_write_errors,
            stat.file_size_in_bytes,
        )
        for partition, stats in metadata.partition_to_write_stats.items()
        for stat in stats
    ]
    return rows[: max(arguments.limit, 0)]


@procedure("Shows what a commit wrote into each partition.")
def show_commit_partitions(context: Context, arguments: ShowCommitArguments) -> Iterable[CommitPartitionRow]:
    """A row for each partition. Raises NoSuchTableError, NoSuchInstantError, StorageError."""
    instant, metadata = _commit(context, arguments)
    rows = []
    for partition, stats in metadata.partition_to_write_stats.items():
        updated = [stat for stat in stats if stat.prev_commit != "null"]
        rows.append(
            CommitPartitionRow(
                instant.completed_action,
                partition,
                len(stats) - len(updated),
                len(updated),
                sum(stat.num_inserts for stat in stats),
                sum(stat.num_update_writes for stat in updated),
                sum(stat.total_write_bytes for stat in stats),
                sum(stat.total_write_errors for stat in stats),
            )
        )
    return rows[: max(arguments.limit, 0)]


@procedure("Shows how many bytes and rows a commit wrote.")
def show_commit_write_stats(
    context: Context, arguments: ShowCommitArguments
) -> Iterable[CommitWriteStatsRow]:
    """One row. Raises NoSuchTableError, NoSuchInstantError, StorageError."""
    instant, metadata = _commit(context, arguments)
    written = sum(stat.total_write_bytes for stat in metadata.write_stats)
    records = sum(stat.num_writes for stat in metadata.write_stats)
    average = math.ceil(written / records) if records else 0
    return [CommitWriteStatsRow(instant.completed_action, written, records, average)]


@procedure("Shows the extra metadata of a commit, such as the table's schema.")
def show_commit_extra_metadata(
    context: Context, arguments: ShowCommitExtraMetadataArguments
) -> Iterable[ExtraMetadataRow]:
    """A row for each entry. Raises NoSuchTableError, NoSuchInstantError, StorageError."""
    table = find_table(context, arguments.table)
    instant = _find_commit(table, arguments.instant_time)
    rows = [
        ExtraMetadataRow(instant.timestamp, instant.completed_action, key, value)
        for key, value in _metadata(table, instant).extra_metadata.items()
        if arguments.metadata_key in (None, key)
    ]
    return rows[: max(arguments.limit, 0)]


def write_stat_row(instant: Instant, time: str | None, stat: WriteStat) -> WriteStatRow:
    """The row of a file group that the commit wrote to; `time` is when the commit completed."""
    return WriteStatRow(
        instant.timestamp,
        time,
        instant.completed_action,
        stat.partition_path,
        stat.file_id,
        stat.prev_commit,
        stat.num_writes,
        stat.num_inserts,
        stat.num_deletes,
        stat.num_update_writes,
        stat.total_write_errors,
        stat.total_log_blocks,
        stat.total_corrupt_log_block,
        stat.total_rollback_blocks,
        stat.total_log_records,
        stat.total_updated_records_compacted,
        stat.total_write_bytes,
    )


def _commit(context: Context, arguments: ShowCommitArguments) -> tuple[Instant, CommitMetadata]:
    table = find_table(context, arguments.table)
    instant = _find_commit(table, arguments.instant_time)
    return instant, _metadata(table, instant)


def _find_commit(table: HudiTable, instant_time: str | None) -> Instant:
    commits = table.timeline.commits
    instants = [commit for commit in commits if instant_time in (None, commit.timestamp)]
    if not instants:
        what = f"no completed commit {instant_time}" if instant_time else "no completed commit"
        raise NoSuchInstantError(
            f"there is {what} on the active timeline of the Hudi table at {table.base_path}",
            hint="CALL show_commits(table => '…') lists them, show_archived_commits the archived ones",
        )
    return instants[-1]


def _metadata(table: HudiTable, instant: Instant) -> CommitMetadata:
    from hudisql.table.timeline.instant_files import read_commit

    return read_commit(table, instant)


@dataclass(frozen=True, kw_only=True)
class ShowArchivedCommitsArguments(Arguments):
    """The parameters of `show_archived_commits` and `show_archived_commits_metadata`."""

    table: str | None = table_parameter()
    limit: int = limit_parameter(10)
    start_ts: str = parameter("", help="only commits from this instant time on")
    end_ts: str = parameter("", help="only commits up to this instant time")
    path: str | None = path_parameter()


@dataclass(frozen=True)
class ArchivedCommitRow:
    """An archived commit, deltacommit or replacecommit."""

    commit_time: str
    state_transition_time: str | None
    total_bytes_written: int
    total_files_added: int
    total_files_updated: int
    total_partitions_written: int
    total_records_written: int
    total_update_records_written: int
    total_errors: int


@procedure("Shows the archived commits, newest first.")
def show_archived_commits(
    context: Context, arguments: ShowArchivedCommitsArguments
) -> Iterable[ArchivedCommitRow]:
    """A row for each commit. Raises NoSuchTableError, CorruptTableError, StorageError."""
    table = find_table(context, arguments.table, arguments.path)
    found = list(_commits(table, arguments))[: max(arguments.limit, 0)]
    return [
        ArchivedCommitRow(entry.instant.timestamp, entry.transition_time, *commit_totals(metadata))
        for entry, metadata in found
    ]


@procedure("Shows what the archived commits wrote into each file group, newest first.")
def show_archived_commits_metadata(
    context: Context, arguments: ShowArchivedCommitsArguments
) -> Iterable[WriteStatRow]:
    """A row for each file group that a commit wrote to."""
    table = find_table(context, arguments.table, arguments.path)
    rows = [
        write_stat_row(entry.instant, entry.transition_time, stat)
        for entry, metadata in _commits(table, arguments)
        for stat in metadata.write_stats
    ]
    return rows[: max(arguments.limit, 0)]


def _commits(
    table: HudiTable, arguments: ShowArchivedCommitsArguments
) -> Iterator[tuple[ArchivedEntry, CommitMetadata]]:
    """The archived commits within the bounds, newest first."""
    from hudisql.table.timeline.archived_timeline import read_archived_entries

    for entry in reversed(read_archived_entries(table)):
        time, metadata = entry.instant.timestamp, entry.commit_metadata
        if arguments.start_ts and time < arguments.start_ts:
            continue
        if arguments.end_ts and time > arguments.end_ts:
            continue
        if metadata is not None:
            yield entry, metadata
