"""Offsets of a table's commits while another process archives these."""

from __future__ import annotations

from pathlib import Path

import pytest

from hudisql.errors import NoSuchPathError
from hudisql.format import table_properties as keys
from hudisql.ingest import table_feed
from hudisql.ingest.flush import commit_rows
from hudisql.ingest.offsets import find_offsets
from hudisql.ingest.watch.commit_rate import find_taken
from hudisql.services.archive.archive_action import archive_table
from hudisql.services.archive.archive_plan import ArchiveOptions
from hudisql.services.clean.clean_plan import CleanOptions
from hudisql.write.execution.commit_files import WriteResult
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.ingest.test_table_feed import SOURCE, Fed, event
from tests.opened import open_at


def test_offsets_are_found_though_commits_are_archived_after_the_timeline_was_listed(tmp_path: Path) -> None:
    fed = Fed(tmp_path, keys.MERGE_ON_READ)
    for ts in range(6):
        fed.flush(event(1, ts))
    listed = open_at(fed.path)
    options = ArchiveOptions(2, 3, clean=CleanOptions(commits_retained=1))
    archive_table(open_at(fed.path), options, SINGLE_WRITER)
    assert len(open_at(fed.path).timeline.commits) < 6
    assert find_offsets(listed).offsets == {SOURCE: 6}
    assert find_taken(listed).offsets.offsets == {SOURCE: 6}


@pytest.mark.parametrize(("failures", "is_committed"), [(1, True), (2, False)])
def test_a_flush_opens_the_table_again_if_a_file_is_gone_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, is_committed: bool
) -> None:
    fed = Fed(tmp_path, keys.MERGE_ON_READ)
    left = [NoSuchPathError("gone")] * failures

    def commit_if_there(*given: object) -> WriteResult:
        if left:
            raise left.pop()
        return commit_rows(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(table_feed, "commit_rows", commit_if_there)
    if not is_committed:
        with pytest.raises(NoSuchPathError):
            fed.flush(event(1, 1))
        return
    fed.flush(event(1, 1))
    assert fed.rows() == [1]
