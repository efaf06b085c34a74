"""Pending compactions and clusterings: the file groups that a writer must not change, and the slices that log
files belong to.

Follows `SparkRejectUpdateStrategy` (file groups in a pending clustering take no changes) and the file system
view of Hudi 0.15 (new log files of file groups in a pending compaction belong to the compaction's instant).
Reads plans only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from hudisql.errors import UnsupportedTableError
from hudisql.format.timeline.instant import COMPACTION, Instant
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.requested_plans import is_clustering, planned_file_groups

_SHOWN = 3


def check_not_clustered(table: HudiTable, touched: Collection[tuple[str, str]]) -> None:
    """Raise UnsupportedTableError if file groups to change or replace are in a pending clustering."""
    for instant, planned in _clusterings(table):
        both = sorted(planned & set(touched))
        if both:
            shown = ", ".join("/".join(part for part in group if part) for group in both[:_SHOWN])
            more = f" and {len(both) - _SHOWN} more" if len(both) > _SHOWN else ""
            raise UnsupportedTableError(
                f"a clustering ({instant.timestamp}) of the Hudi table at {table.base_path} is pending, and "
                f"it will rewrite file groups that this statement changes: {shown}{more}",
                hint="run it (CALL run_clustering(table => '…', op => 'execute')), then run this again",
            )


def has_pending_service(table: HudiTable, groups: Collection[tuple[str, str]]) -> bool:
    """True if one of the file groups is in the plan of a pending compaction or clustering."""
    compactions = [instant for instant in table.timeline.pending if instant.action == COMPACTION]
    plans = [planned_file_groups(table, compaction) for compaction in compactions]
    plans += [planned for _, planned in _clusterings(table)]
    return any(not planned.isdisjoint(groups) for planned in plans)


def exclude_pending_clustering(table: HudiTable, slices: Sequence[FileSlice]) -> list[FileSlice]:
    """The slices that may be written to: all but those with a pending clustering.

    A slice with a pending compaction names it: the slice's next log files belong to the compaction.
    """
    clustered = {group for _, planned in _clusterings(table) for group in planned}
    compacted = {
        group: instant.timestamp
        for instant in table.timeline.pending
        if instant.action == COMPACTION
        for group in planned_file_groups(table, instant)
    }
    return [
        _with_compaction(file_slice, compacted.get(file_slice.file_group))
        for file_slice in slices
        if file_slice.file_group not in clustered
    ]


def _with_compaction(file_slice: FileSlice, instant_time: str | None) -> FileSlice:
    # A base file written after the plan contains the older rows: logs belong on top of it.
    if instant_time is None or file_slice.base_instant_time >= instant_time:
        return file_slice
    return replace(file_slice, compaction_instant=instant_time)


def _clusterings(table: HudiTable) -> list[tuple[Instant, frozenset[tuple[str, str]]]]:
    return [
        (instant, planned_file_groups(table, instant))
        for instant in table.timeline.pending
        if is_clustering(table, instant)
    ]
