"""The Hudi table as the last publication saw it, and what has come since.

The timeline without later commits gives the file slices of that state, and the blocks of log files that
count. Cleans, rollbacks and the archive may have taken parts of it away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from hudisql.errors import NoSuchStateError
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.format.timeline.instant import COMMIT, COMMIT_ACTIONS, COMPACTION, Instant, InstantState
from hudisql.iceberg.published_files import slices_of_registered
from hudisql.iceberg.published_state import PublishedState, state_of
from hudisql.iceberg.registered_files import sum_of_files
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.history.past_state import check_past_state
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition, list_partitions
from hudisql.table.partitions.registered_partitions import registered_partitions, with_registered

_NAMED: Final = 5


@dataclass(frozen=True)
class PublishedTable:
    """The table of the published state, its partitions and file slices.

    `behind` says which commits are missing, "" if none; `has_new_sources`: register-only partitions have
    other files by now. `gone` says why the Hudi table no longer has that state, "" if it has it; then
    there are no slices.
    """

    table: HudiTable
    partitions: tuple[TablePartition, ...]
    slices: tuple[FileSlice, ...]
    behind: str
    gone: str
    has_new_sources: bool = False


def published_table(table: HudiTable, published: PublishedState) -> PublishedTable:
    """The table, opened after the metadata was read, at the state of the publication.

    Raises SourceChangedError if the directory of a register-only partition is gone, UnsupportedTableError if
    another writer has written into one, CorruptTableError, StorageError.
    """
    now = state_of(table)
    missing = sorted(set(now.completed) - set(published.completed))
    behind = _behind(missing, published, now)
    gone = _undone(table, published, now)
    if gone:
        return PublishedTable(table, (), (), behind, gone)
    then = table if not missing else _without(table, frozenset(missing), published)
    listed = list_partitions(then)
    slices = load_file_slices(then, listed)
    try:
        if missing:
            check_past_state(table, published.instant, None, slices)
        registered = registered_partitions(table, published.instant if missing else None)
    except NoSuchStateError as error:
        return PublishedTable(then, (), (), behind, error.message)
    partitions = with_registered(then, listed, registered)
    sources = slices_of_registered(then, registered, registered.by_path, slices)
    file_sum = sum_of_files(source.external_file for source in sources if source.external_file)
    has_changed = file_sum != published.registered
    if has_changed:
        behind = ", ".join(filter(None, (behind, "files of register-only partitions have changed since")))
    return PublishedTable(then, tuple(partitions), (*slices, *sources), behind, "", has_changed)


def _behind(missing: list[str], published: PublishedState, now: PublishedState) -> str:
    if missing:
        more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
        return f"commits that are missing: {', '.join(missing[:_NAMED])}{more}"
    if published.columns not in ("", now.columns):
        return "columns or properties have changed since"
    return ""


def _undone(table: HudiTable, published: PublishedState, now: PublishedState) -> str:
    """Why the timeline no longer has the published state: commits were undone, or are archived."""
    first = table.timeline.first_active_time or ""
    undone = sorted(time for time in set(published.completed) - set(now.completed) if time >= first)
    if undone:
        return f"the commit {undone[0]}, which it shows, was rolled back or restored"
    if published.instant not in now.completed and published.completed:
        return f"its newest commit, {published.instant}, is archived"
    return ""


def _without(table: HudiTable, missing: frozenset[str], published: PublishedState) -> HudiTable:
    """The table without the commits that came later; compactions that were pending then are so again."""
    was_pending = frozenset(published.pending)
    instants: list[Instant] = []
    for instant in table.timeline.instants:
        if instant.completed_action not in COMMIT_ACTIONS:
            instants.append(instant)
        elif instant.timestamp in missing:
            is_compaction = table.is_merge_on_read and instant.action == COMMIT
            if is_compaction and instant.timestamp in was_pending:
                instants.append(Instant(instant.timestamp, COMPACTION, InstantState.REQUESTED))
        elif instant.is_completed or instant.timestamp in was_pending:
            instants.append(instant)
    timeline = Timeline(tuple(instants), table.timeline.layout)
    return replace(table, timeline=timeline, listing={}, schema_texts={})
