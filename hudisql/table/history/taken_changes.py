"""Check that a table still has the commit up to which a refresh, a pull or a stream has taken changes.

A place is a table's base path and a commit's time. If the commit was undone, or another table lies at that
path, no later commit shows that the changes are gone; Apache Hudi continues silently. Commit times differ
between tables, except for bootstraps of table version 6, whose instants are constants. `hoodie.properties`
cannot identify a table: Hudi's writers write the file again without foreign keys.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from hudisql.errors import NoSuchStateError
from hudisql.format.timeline.commit_metadata import read_commit_metadata
from hudisql.format.timeline.instant import BOOTSTRAP_INSTANT_TIMES, RESTORE, ROLLBACK
from hudisql.table.history.past_state import is_archived
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.archived_timeline import commits_in_archive
from hudisql.table.timeline.completion_times import completion_times, completions_archived_since

_UNDOING: Final = frozenset({ROLLBACK, RESTORE})
_MOST_BOOTSTRAPS: Final = 256
_TAKE_ALL: Final = "take all rows of the table with a new checkpoint, or into a new table"

# By path, length and modification time of a bootstrap's commit.
_bootstrap_hashes: dict[tuple[str, int, int], str] = {}


@dataclass(frozen=True, slots=True)
class Place:
    """The commit up to which (inclusive) changes of a table were taken, in the times of its windows.

    `bootstrap` identifies one of several bootstraps of the same instant by its file groups; empty for other
    commits, and if it was not stored.
    """

    until: str
    bootstrap: str = ""


def place_at(table: HudiTable, until: str) -> Place:
    """The place behind the table's commit `until`; reads the commit of a bootstrap.

    Raises CorruptTableError, StorageError.
    """
    return Place(until, _bootstrap_hash(table, until))


def _bootstrap_hash(table: HudiTable, until: str) -> str:
    """A hash of the bootstrap of this instant; empty for other commits, or if it is archived."""
    if until not in BOOTSTRAP_INSTANT_TIMES or table.timeline.layout.has_completion_times:
        return ""
    commit = next((instant for instant in table.timeline.commits if instant.timestamp == until), None)
    path = "" if commit is None else table.instant_path(commit)
    info = table.storage.info(path) if path else None
    if info is None:
        return ""
    key = (path, info.length, info.modification_time_ms)
    if key not in _bootstrap_hashes:
        written = read_commit_metadata(table.storage, path).partition_to_write_stats
        groups = sorted(
            f"{partition}/{stat.file_id}" for partition, stats in written.items() for stat in stats
        )
        if len(_bootstrap_hashes) >= _MOST_BOOTSTRAPS:
            _bootstrap_hashes.clear()
        _bootstrap_hashes[key] = hashlib.sha256("\n".join(groups).encode()).hexdigest()[:32]
    return _bootstrap_hashes[key]


def check_not_undone(table: HudiTable, place: Place) -> None:
    """Raise NoSuchStateError if the commit up to which changes were taken is not in the table any more.

    It was rolled back since, or the table was made again. Raises CorruptTableError, StorageError.
    """
    until = place.until
    if not until.strip("0"):
        # Before all commits: no changes were taken.
        return
    is_there = _has_commit(table, until)
    if is_there and _is_same_bootstrap(table, place):
        return
    if is_there or _is_made_again(table, until):
        raise NoSuchStateError(
            f"the Hudi table at {table.base_path} is another table now: it was created again after changes "
            f"were taken up to {until}, which it lacks",
            hint=f"undo the changes of the earlier table, and {_TAKE_ALL}",
        )
    _check_not_upgraded(table, until)
    last = max(
        (commit.timestamp for commit in table.timeline.commits if commit.timestamp < until), default=""
    )
    raise NoSuchStateError(
        f"the commit {until} of the Hudi table at {table.base_path} was undone by a rollback or a "
        "restore: changes were taken up to it, and rows of them are no longer in the table",
        hint=f"undo the changes after {last or 'the begin'}, too, or {_TAKE_ALL}",
    )


def _check_not_upgraded(table: HudiTable, until: str) -> None:
    """Raise NoSuchStateError if `until` is an instant time and the table now uses completion times."""
    if not table.timeline.layout.has_completion_times:
        return
    commits = [commit for commit in table.timeline.commits if commit.timestamp == until]
    for completed in completion_times(table, commits).values():
        raise NoSuchStateError(
            f"the Hudi table at {table.base_path} has been upgraded to version {table.version} after changes "
            f"were taken up to {until}: it now uses completion times",
            hint=f"begin after {completed}, when this commit was completed, with a new checkpoint",
        )


def _is_same_bootstrap(table: HudiTable, place: Place) -> bool:
    found = _bootstrap_hash(table, place.until)
    return found == place.bootstrap or not (found and place.bootstrap)


def _is_made_again(table: HudiTable, until: str) -> bool:
    """True if nothing is older than the missing commit, and no instant says that it was undone."""
    timeline = table.timeline
    if any(instant.timestamp < until or instant.action in _UNDOING for instant in timeline.instants):
        return False
    return not is_archived(table)


def _has_commit(table: HudiTable, until: str) -> bool:
    timeline = table.timeline
    if timeline.layout.has_completion_times:
        known = completion_times(table, timeline.commits).values()
        return until in known or until in completions_archived_since(table, until).values()
    if any(commit.timestamp == until for commit in timeline.commits):
        return True
    starts = timeline.first_active_time
    # Where archiving was interrupted, the archive keeps commits that were rolled back afterwards.
    return (starts is None or until < starts) and until in commits_in_archive(table, until)
