from __future__ import annotations

from hudisql.format.timeline.active_timeline import Timeline, load_timeline, timeline_of
from hudisql.format.timeline.instant import InstantState
from hudisql.format.timeline.timeline_layout import LAYOUT_V1
from hudisql.storage import Storage


def timeline(*names: str) -> Timeline:
    return timeline_of(instant for name in names if (instant := LAYOUT_V1.parse_file_name(name)) is not None)


def committed(time: str, action: str = "commit") -> list[str]:
    inflight = f"{time}.inflight" if action == "commit" else f"{time}.{action}.inflight"
    return [f"{time}.{action}.requested", inflight, f"{time}.{action}"]


def test_only_the_latest_state_of_an_action_is_kept() -> None:
    found = timeline(
        *committed("00000000000001"), "00000000000002.commit.requested", "00000000000002.inflight"
    )
    assert [(instant.timestamp, instant.state) for instant in found.instants] == [
        ("00000000000001", InstantState.COMPLETED),
        ("00000000000002", InstantState.INFLIGHT),
    ]


def test_a_compaction_that_completed_as_commit_is_not_pending() -> None:
    files = ["00000000000005.compaction.requested", "00000000000005.compaction.inflight"]
    assert timeline(*files).pending_compactions == {"00000000000005"}
    done = timeline(*files, "00000000000005.commit")
    assert done.pending_compactions == frozenset()
    assert [commit.timestamp for commit in done.commits] == ["00000000000005"]


def test_a_savepoint_of_a_commit_is_an_instant_of_its_own() -> None:
    found = timeline(
        *committed("00000000000003"), "00000000000003.savepoint.inflight", "00000000000003.savepoint"
    )
    assert [instant.action for instant in found.completed] == ["commit", "savepoint"]
    assert found.savepoints == {"00000000000003"}


def test_files_older_than_the_active_timeline_are_visible_because_they_are_archived() -> None:
    found = timeline(*committed("20260105000000000"), *committed("20260106000000000"))
    assert found.is_visible("00000000000001")
    assert found.is_visible("20260105000000000")
    assert not found.is_visible("20260105120000000")
    assert not found.is_visible("20260107000000000")


def test_files_of_a_pending_commit_are_invisible_even_where_the_timeline_begins() -> None:
    found = timeline("20260101000000000.commit.requested", *committed("20260106000000000"))
    assert found.first_active_time == "20260101000000000"
    assert not found.is_visible("20260101000000000")
    assert found.is_visible("20251231000000000")


def test_a_savepointed_commit_does_not_mark_the_begin_of_the_active_timeline() -> None:
    # Archiving has passed 20260102 but had to leave the savepointed 20260101.
    found = timeline(
        *committed("20260101000000000"), "20260101000000000.savepoint", *committed("20260105000000000")
    )
    assert found.first_active_time == "20260105000000000"
    assert found.is_visible("20260102000000000")


def test_what_is_archived_stays_visible_if_only_savepointed_commits_are_left() -> None:
    # As after a restore. Between the two, 20260103 was archived beyond the first savepoint.
    found = timeline(
        *committed("20260102000000000"),
        "20260102000000000.savepoint",
        *committed("20260105000000000"),
        "20260105000000000.savepoint",
        "20260109000000000.restore",
    )
    assert found.first_active_time == "20260105000000000"
    assert found.is_visible("20260101000000000")
    assert found.is_visible("20260103000000000")
    # What was restored away.
    assert not found.is_visible("20260107000000000")


def test_cleans_and_rollbacks_do_not_mark_the_begin_of_the_active_timeline() -> None:
    found = timeline("20260101000000000.clean", "20260102000000000.rollback", *committed("20260105000000000"))
    assert found.is_visible("20260103000000000")


def test_nothing_is_visible_without_any_write() -> None:
    assert not timeline().is_visible("00000000000001")
    assert timeline().latest_commit is None


def test_commits_until_an_instant_include_it() -> None:
    found = timeline(*committed("00000000000001"), *committed("00000000000002"), *committed("00000000000003"))
    assert [commit.timestamp for commit in found.commits_until("00000000000002")] == [
        "00000000000001",
        "00000000000002",
    ]
    assert found.commits_until(None) == found.commits


def test_golden_timeline_of_rollback_is_listed(golden, storage: Storage) -> None:
    found = load_timeline(storage, golden("mor_rollback").table)
    assert [(instant.action, instant.state.name) for instant in found.instants] == [
        ("deltacommit", "COMPLETED"),
        ("deltacommit", "COMPLETED"),
        ("rollback", "COMPLETED"),
    ]
    assert found.latest_commit is not None
    assert found.latest_commit.timestamp == "20261120215340730"
