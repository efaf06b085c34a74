from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from hudisql.format.timeline.instant import Instant, InstantState, new_instant_time


def test_instants_are_ordered_by_time_first() -> None:
    early = Instant("20260101000000000", "deltacommit", InstantState.COMPLETED)
    late = Instant("20260101000000001", "clean", InstantState.REQUESTED)
    assert sorted([late, early]) == [early, late]


def test_new_instant_time_is_utc_whatever_the_zone_of_now() -> None:
    now = datetime(2026, 11, 20, 23, 5, 6, 789_000, tzinfo=timezone(timedelta(hours=2)))
    assert new_instant_time(None, now) == "20261120210506789"


def test_new_instant_time_steps_past_a_clock_that_was_set_back() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert new_instant_time("20261231235959999", now) == "20270101000000000"


def test_new_instant_time_comes_after_a_14_digit_instant_of_the_same_second() -> None:
    now = datetime(2026, 1, 1, 0, 0, 0, tzinfo=UTC)
    assert new_instant_time("20260101000001", now) > "20260101000001"


def test_new_instant_time_follows_the_bootstrap_instant() -> None:
    assert new_instant_time("00000000000001", datetime(2026, 1, 1, tzinfo=UTC)) == "20260101000000000"


@given(st.datetimes(min_value=datetime(1990, 1, 1), max_value=datetime(2100, 1, 1)), st.integers(1, 50))
def test_instant_times_always_grow(moment: datetime, writes: int) -> None:
    latest = None
    for _ in range(writes):
        following = new_instant_time(latest, moment.replace(tzinfo=UTC))
        assert len(following) == 17
        assert latest is None or following > latest
        latest = following
