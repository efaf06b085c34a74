"""The rate of a table's events, computed from its last commits without asking a worker."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from hudisql.format.timeline.instant import moment_of
from hudisql.ingest.offsets import NO_OFFSETS, OFFSETS_KEY, TableOffsets, find_offsets, offsets_of_text
from hudisql.table.hudi_table import HudiTable
from hudisql.table.listed_again import read_listed_again
from hudisql.table.timeline.instant_files import read_extra_metadata

RATE_COMMITS: Final = 10
_LONGEST: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class TakenEvents:
    """The offsets of a table's last commit, when it was made, and the events a second before it.

    `rate` is that of up to RATE_COMMITS commits within an hour; None for less than two.
    """

    offsets: TableOffsets
    last_commit: datetime | None
    rate: float | None


def find_taken(table: HudiTable) -> TakenEvents:
    """Look at the table's last commits."""
    return read_listed_again(table, _find_taken)


def _find_taken(table: HudiTable) -> TakenEvents:
    # Commits of other writers are among them.
    commits = table.timeline.commits[-2 * RATE_COMMITS :]
    offsets_of_commits: list[tuple[datetime, TableOffsets]] = []
    for instant, extra in zip(commits, read_extra_metadata(table, commits), strict=True):
        text = extra.get(OFFSETS_KEY)
        if text is not None:
            made = moment_of(instant.timestamp, table.properties.timeline_timezone)
            offsets_of_commits.append((made, offsets_of_text(text, table.base_path)))
    if not offsets_of_commits:
        return TakenEvents(find_offsets(table), None, None)
    last_commit, offsets = offsets_of_commits[-1]
    recent = [commit for commit in offsets_of_commits[-RATE_COMMITS:] if last_commit - commit[0] <= _LONGEST]
    return TakenEvents(offsets, last_commit, _rate_of(recent))


def _rate_of(commits: list[tuple[datetime, TableOffsets]]) -> float | None:
    """Events a second between the first and the last commit; None for a single commit."""
    began, ended = commits[0][0], commits[-1][0]
    if began >= ended:
        return None
    events, before = 0, NO_OFFSETS.offsets
    for number, (_, reached) in enumerate(commits):
        if number:
            events += sum(end - before.get(partition, end) for partition, end in reached.offsets.items())
        before = reached.offsets
    return max(events, 0) / (ended - began).total_seconds()
