"""What the fingerprint of a test holds, and which tests have none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hudisql.format.timeline.active_timeline import timeline_of
from hudisql.format.timeline.instant import Instant, InstantState
from hudisql.layers.passed_tests import hash_of_commits, varies_by_moment


@pytest.mark.parametrize(
    "condition",
    [
        "day < current_date",
        "day < CURRENT_DATE()",
        "at < Now ()",
        "at < current_timestamp",
        "unix_timestamp() > seconds",
        "rand() < 0.5",
        "id = uuid()",
        "day > date 'today'",
    ],
)
def test_the_clock_and_randomness_vary(condition: str) -> None:
    assert varies_by_moment(f"SELECT * FROM t WHERE {condition}")


@pytest.mark.parametrize(
    "condition", ["day < '2024-01-01'", "uuid = 'a'", "known > 1", "state = 'knows now'"]
)
def test_columns_and_literals_do_not_vary(condition: str) -> None:
    assert not varies_by_moment(f"SELECT brand, user FROM t WHERE {condition}")


def test_a_commit_that_completes_behind_a_later_one_counts() -> None:
    first, second, third = (
        Instant(f"2024030{day}000000000", "deltacommit", InstantState.COMPLETED) for day in (1, 2, 3)
    )
    pending = replace(second, state=InstantState.INFLIGHT)
    hashes = [
        hash_of_commits(timeline_of(instants))
        for instants in (
            [first, third],
            [first, pending, third],
            [first, second, third],
            [first, replace(second, completion_time="20240304000000000"), third],
        )
    ]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3
