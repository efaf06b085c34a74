"""Procedures that show archived commits, those of Apache Hudi too.

Follows `ShowArchivedCommitsProcedure` of Hudi 0.15, but without its default bounds: Hudi shows only the
commits between ten days and one day ago.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.options.table_call import find_table
from hudisql.procedures.registry import Arguments, parameter, procedure
from hudisql.procedures.show.show_commits import WriteStatRow, write_stat_row
from hudisql.procedures.show.show_table import commit_totals
from hudisql.procedures.show.shown_rows import limit_parameter

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.format.timeline.archived_log_files import ArchivedEntry
    from hudisql.format.timeline.commit_metadata import CommitMetadata
    from hudisql.table.hudi_table import HudiTable


@dataclass(frozen=True, kw_only=True)
class ShowArchivedCommitsArguments(Arguments):
    """The parameters of `show_archived_commits` and `show_archived_commits_metadata`."""

    table: str | None = parameter(None, help="table of the metastore, database.name")
    limit: int = limit_parameter(10)
    start_ts: str = parameter("", help="only commits from this instant time on")
    end_ts: str = parameter("", help="only commits up to this instant time")
    path: str | None = parameter(None, help="the table's directory, instead of table")


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
