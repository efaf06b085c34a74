"""The place of a pull, by what the commits of its target say."""

from __future__ import annotations

from pathlib import Path

from hudisql.format.timeline.archived_log_files import archived_entry, encode_archive_file
from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.format.timeline.instant import COMMIT, Instant, InstantState
from hudisql.table.history.taken_changes import Place
from hudisql.write.transaction.pull_checkpoint import PullCheckpoint, find_checkpoint
from tests.opened import open_at
from tests.table.conftest import TableDirectory

FIRST, SECOND, THIRD = (f"2026010{day}000000000" for day in (1, 2, 3))


def test_a_commit_that_was_archived_and_then_rolled_back_has_no_place(tmp_path: Path) -> None:
    """Archiving that was interrupted leaves its commits in both places."""
    directory = TableDirectory(tmp_path / "table", {})
    archived = [
        archived_entry(Instant(instant, COMMIT, InstantState.COMPLETED), _taken_until(end), None, "")
        for instant, end in ((FIRST, "1"), (SECOND, "2"), (THIRD, "3"))
    ]
    directory.file(".hoodie/archived/.commits_.archive.1_1-0-1", encode_archive_file(archived))
    directory.commit(SECOND)
    directory.commit("20260104000000000")
    # The one that was rolled back said "3"; the one that is still on the timeline stands with its file there.
    assert find_checkpoint(open_at(directory.path), "/source") == Place("1")
    directory.instant(f"{SECOND}.commit", _taken_until("2"))
    assert find_checkpoint(open_at(directory.path), "/source") == Place("2")


def _taken_until(end: str) -> bytes:
    place = PullCheckpoint("/source", None, Place(end)).extra_metadata
    return CommitMetadata(partition_to_write_stats={}, extra_metadata=dict(place)).to_json()
