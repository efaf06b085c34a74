"""Which commits an incremental query reads."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from hudisql.errors import HollowCommitError, InvalidArgumentError, NoSuchStateError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.archived_log_files import archived_entry, encode_archive_file
from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.format.timeline.instant import COMMIT, Instant, InstantState
from hudisql.read.scan.incremental import incremental_read
from hudisql.table.history.timeline_window import timeline_window
from tests.opened import open_at

FIRST, SECOND, THIRD = (f"2026010{day}000000000" for day in (1, 2, 3))


def times(directory, begin: str, end: str | None = None, policy: str = "FAIL") -> list[str]:
    window = timeline_window(open_at(directory.path), begin, end, policy)
    return [commit.timestamp for commit in window.commits]


@pytest.fixture
def directory(make_table):
    made = make_table(hoodie__table__timeline__timezone="UTC")
    for time in (FIRST, SECOND, THIRD):
        made.commit(time)
    return made


def test_begin_is_exclusive_and_end_inclusive(directory) -> None:
    assert times(directory, "earliest") == times(directory, "000") == [FIRST, SECOND, THIRD]
    assert times(directory, FIRST) == times(directory, "2026-01-01") == [SECOND, THIRD]
    assert times(directory, FIRST, SECOND) == times(directory, FIRST, "2026-01-02 12:00:00") == [SECOND]
    assert times(directory, SECOND, SECOND) == times(directory, THIRD) == []
    assert times(directory, "000", "20250101000000000") == []
    for begin, end in (("yesterday", None), ("000", "")):
        with pytest.raises(InvalidArgumentError, match="is not an instant time"):
            times(directory, begin, end)


def test_hollow_commits_follow_hudis_policy(directory) -> None:
    hollow = "20260102000000001"
    directory.instant(f"{hollow}.commit.requested")
    directory.instant(f"{hollow}.inflight")
    with pytest.raises(HollowCommitError, match=f"the commit {hollow} .* is pending"):
        times(directory, "000")
    assert times(directory, "000", SECOND) == [FIRST, SECOND]
    assert times(directory, "000", policy="BLOCK") == [FIRST, SECOND]
    # Its rows would come with the first pull after its completion.
    for time, second in ((SECOND, 10), (FIRST, 20), (THIRD, 30)):
        moment = datetime(2026, 2, 1, 0, 0, second, tzinfo=UTC).timestamp()
        os.utime(directory.path / f".hoodie/{time}.commit", (moment, moment))
    by_completion = times(directory, "20260201000015000", policy="USE_TRANSITION_TIME")
    assert by_completion == [FIRST, THIRD]
    assert times(directory, "000", "20260201000015000", policy="USE_TRANSITION_TIME") == [SECOND]


def test_pending_table_services_and_last_commits_are_no_hollow_ones(directory) -> None:
    plan = {"operationType": "CLUSTER", "clusteringPlan": None, "extraMetadata": None, "version": 1}
    content = load_codec("HoodieRequestedReplaceMetadata").encode(plan)
    directory.instant("20260101000000001.replacecommit.requested", content)
    directory.instant("20260101000000002.compaction.requested")
    directory.instant("20260104000000000.commit.requested")
    assert times(directory, "000") == [FIRST, SECOND, THIRD]
    directory.instant("20260101000000003.replacecommit.requested")
    with pytest.raises(HollowCommitError):
        times(directory, "000")


def test_times_of_completion_of_archived_commits_are_gone(directory) -> None:
    assert times(directory, "earliest", policy="USE_TRANSITION_TIME") == [FIRST, SECOND, THIRD]
    directory.file(".hoodie/archived/.commits_.archive.1_1-0-1", b"#HUDI#")
    with pytest.raises(NoSuchStateError, match="completion times"):
        times(directory, "earliest", policy="USE_TRANSITION_TIME")
    assert times(directory, "29990101000000000", policy="USE_TRANSITION_TIME") == []


def test_a_window_of_archived_commits_is_not_empty(make_table) -> None:
    directory = make_table()
    directory.commit(FIRST)
    directory.instant(f"{FIRST}.savepoint")
    directory.commit(THIRD)
    archived = Instant(SECOND, COMMIT, InstantState.COMPLETED)
    content = CommitMetadata(partition_to_write_stats={}).to_json()
    archive = encode_archive_file([archived_entry(archived, content, None, "")])
    directory.file(".hoodie/archived/.commits_.archive.1_1-0-1", archive)
    table = open_at(directory.path)
    for begin, end in (("000", SECOND), (FIRST, SECOND), (FIRST, "20260102120000000")):
        window = timeline_window(table, begin, end)
        assert (window.is_open, window.as_of) == (True, SECOND)
        with pytest.raises(NoSuchStateError, match="its instants are archived"):
            incremental_read(table, window).select(table, [], [])
    window = timeline_window(table, "000", "20260101120000000")
    assert (window.is_open, window.as_of) == (False, FIRST)
    assert timeline_window(table, SECOND, "20260102120000000").as_of == SECOND
    assert timeline_window(table, FIRST).as_of == THIRD
