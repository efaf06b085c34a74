"""The file groups with rows whose keys may be missing in the record index.

Apache Hudi writes no record for a key whose row goes into the file group in which its index has found the
key. Its bloom and simple indexes find a key in a base file although a log file has deleted it, and its bucket
index finds new keys, too. It also deletes the record of a key whose delete then loses against the stored row
(docs/facts.md). Commits of hudisql, which write these records, say which commits have theirs in the index;
so does the metadata table that it makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from hudisql.errors import CorruptTableError, TimelineChangedError, UnsupportedTableError
from hudisql.format.keys.bucket_id import bucket_of_file_id
from hudisql.format.paths.file_names import FileGroup, is_log_file
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.format.timeline.commit_metadata import (
    INDEXED_COMMITS,
    NO_COMMIT,
    CommitMetadata,
    WriteStat,
)
from hudisql.format.timeline.instant import COMMIT_ACTIONS, Instant
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.metadata_table import MetadataTable, readable_metadata_table
from hudisql.table.timeline.archived_timeline import list_archive_files
from hudisql.table.timeline.instant_files import read_commit, read_commits

NO_GROUPS: Final[frozenset[FileGroup]] = frozenset()
_MOST_LISTED: Final = 20
"""An instant time that is older than so many commits comes no more."""
_NEWEST: Final = 3
"""Commits whose notes are looked for one by one."""
_PENDING: Final = "-"


@dataclass(frozen=True, slots=True)
class IndexedCommits:
    """The commits whose keys a record index has: all before an instant time, and some later ones.

    Those that were `pending` are none of them.
    """

    before: str
    later: frozenset[str]
    pending: frozenset[str]

    def have(self, commit: Instant) -> bool:
        """True if the commit is one of them."""
        time = commit.timestamp
        return time in self.later or (time < self.before and time not in self.pending)

    def have_all_before(self, time: str) -> bool:
        """True if all commits before this one, which stands on the timeline, are among them."""
        is_known = time <= self.before or time in self.later
        return is_known and not any(pending < time for pending in self.pending)

    def render(self) -> str:
        """The text for INDEXED_COMMITS."""
        return ",".join(
            (self.before, *sorted(self.later), *(f"{_PENDING}{time}" for time in sorted(self.pending)))
        )


def indexed_commits(timeline: Timeline) -> IndexedCommits:
    """All completed commits of the timeline, and those before it.

    The later ones are listed: other writers may still begin commits with instant times between theirs.
    """
    listed = [commit.timestamp for commit in timeline.commits][-_MOST_LISTED:]
    pending = (instant.timestamp for instant in timeline.pending if instant.action in COMMIT_ACTIONS)
    return IndexedCommits(listed[0] if listed else "", frozenset(listed), frozenset(pending))


def incomplete_groups(table: HudiTable, metadata: MetadataTable | None = None) -> frozenset[FileGroup] | None:
    """The file groups of whose rows the table's record index may lack keys; None if they are not known.

    `metadata` is the table's metadata table if it is open. Where the newest commit is one of hudisql that has
    completed the index, no request is sent. Else the commits that are not known to be in the index are read.
    Raises StorageError.
    """
    if not table.timeline.commits:
        return NO_GROUPS
    try:
        return table.list_once("incomplete groups", lambda: _incomplete_groups(table, metadata))
    except (CorruptTableError, TimelineChangedError, UnsupportedTableError):
        return None


def _incomplete_groups(table: HudiTable, metadata: MetadataTable | None) -> frozenset[FileGroup] | None:
    commits = table.timeline.commits
    newest = ((commit, table.kept_texts(commit)[INDEXED_COMMITS]) for commit in reversed(commits[-_NEWEST:]))
    known = [*islice(_notes(newest), 1)]
    unknown = _without(commits, known)
    if not unknown and _know_archived(table, known):
        return NO_GROUPS
    if not table.is_merge_on_read and _has_no_buckets(read_commit(table, commits[-1])):
        return NO_GROUPS
    opened = metadata or readable_metadata_table(table)
    made = None if opened is None else opened.own.properties.get(INDEXED_COMMITS)
    known += [] if made is None else [_parse(made)]
    unknown = _without(unknown, known)
    read = list(zip(unknown, read_commits(table, unknown), strict=True))
    known += _notes((commit, written.extra_metadata.get(INDEXED_COMMITS)) for commit, written in read)
    if not _know_archived(table, known):
        return None
    others = {*_without(unknown, known)}
    return frozenset(
        group for commit, written in read if commit in others for group in _incomplete_in(written)
    )


def _know_archived(table: HudiTable, known: Iterable[IndexedCommits]) -> bool:
    """True if no commit is in the archive alone that may have left out keys."""
    timeline = table.timeline
    times = [commit.timestamp for commit in timeline.commits]
    # Archiving leaves savepointed commits where they are.
    first = next((time for time in times if time not in timeline.savepoints), times[-1])
    still_pending = frozenset(instant.timestamp for instant in timeline.pending)
    of_archive = (replace(indexed, pending=indexed.pending - still_pending) for indexed in known)
    return any(indexed.have_all_before(first) for indexed in of_archive) or not list_archive_files(table)


def _without(commits: Iterable[Instant], known: Iterable[IndexedCommits]) -> list[Instant]:
    return [commit for commit in commits if not any(indexed.have(commit) for indexed in known)]


def _notes(texts: Iterable[tuple[Instant, str | None]]) -> Iterator[IndexedCommits]:
    """What commits say, each of itself, too."""
    for commit, text in texts:
        if text is not None:
            note = _parse(text)
            yield replace(note, later=note.later | {commit.timestamp})


def _parse(text: str) -> IndexedCommits:
    before, *times = text.split(",")
    pending = frozenset(time.removeprefix(_PENDING) for time in times if time.startswith(_PENDING))
    later = frozenset(time for time in times if not time.startswith(_PENDING))
    return IndexedCommits(before, later, pending)


def _has_no_buckets(commit: CommitMetadata) -> bool:
    """True if a file group is not that of a bucket, which all file groups of a table are or none."""
    return any(bucket_of_file_id(stat.file_id) is None for stat in commit.write_stats)


def _incomplete_in(commit: CommitMetadata) -> Iterator[FileGroup]:
    """The file groups with rows whose keys a commit of Apache Hudi may not have in the index."""
    if commit.compacted:
        return
    for path, stats in commit.partition_to_write_stats.items():
        for stat in stats:
            if _may_lack_keys(stat):
                yield path, stat.file_id


def _may_lack_keys(stat: WriteStat) -> bool:
    if is_log_file(stat.path or ""):
        return stat.num_writes + stat.num_deletes > 0
    is_bucket = bucket_of_file_id(stat.file_id) is not None
    return is_bucket and stat.prev_commit != NO_COMMIT and stat.num_inserts > 0
