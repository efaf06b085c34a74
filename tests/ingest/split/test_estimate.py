"""The split point from daily increments: closed partitions first, a fit before there are enough."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.ingest_split import GOAL, PATTERNS, simulate
from hudisql.ingest.split.estimate import (
    INCREMENTS,
    EstimateMethod,
    choose_split_point,
    daily_rows,
    estimate_split_point,
    is_closed,
    split_day,
)
from hudisql.ingest.split.split_option import SplitKind, SplitOption

LARGE = 1 << 40


@pytest.mark.parametrize("name", PATTERNS)
def test_few_simulated_rows_come_after_the_split(name: str) -> None:
    by_method = {each.method: each for each in simulate(name, trials=9)}
    assert by_method["closed partitions"].late_share <= GOAL
    # A backfill that has not come yet is not foreseen.
    if name != "backfill":
        assert by_method["power fit"].late_share <= GOAL


def _partition(*days: int, quiet: int = 0) -> np.ndarray:
    return np.array([*days, *[0] * quiet], np.float64)


def test_the_split_day_leaves_at_most_the_late_share() -> None:
    assert split_day(_partition(50, 30, 18, 2)) == 3
    assert split_day(_partition(50, 30, 17, 3)) == 4
    assert split_day(_partition(100)) == 1
    assert split_day(_partition(99, quiet=7)) == 1


def test_a_partition_is_closed_once_it_was_quiet_for_a_part_of_its_age() -> None:
    assert not is_closed(_partition(5, quiet=2))
    assert is_closed(_partition(5, quiet=3))
    assert is_closed(_partition(*[5] * 30, quiet=9))
    assert not is_closed(_partition(*[5] * 30, quiet=8))
    assert is_closed(_partition(1000, 0, 0, 1, quiet=1))
    assert not is_closed(_partition(0, quiet=9))


def test_the_quantile_of_closed_partitions_is_taken_once_there_are_ten() -> None:
    closed = [_partition(*[10] * days, quiet=20) for days in (1, 1, 1, 1, 1, 2, 2, 2, 9, 9)]
    found = estimate_split_point([*closed, _partition(1, 1)])
    assert (found.method, found.day) == (EstimateMethod.CLOSED_PARTITIONS, 9)
    # Two late ones of eleven are no longer in the quantile.
    assert estimate_split_point([*closed, closed[0]]).day == 2
    assert estimate_split_point(closed[1:]).method is EstimateMethod.POWER_FIT


def test_a_backfill_hardly_moves_the_fit() -> None:
    plain = np.round(100_000 * np.exp(-np.arange(25) / 2))
    backfilled = plain + np.where(np.arange(25) == 12, 15_000, 0)
    days = [estimate_split_point([each]).day for each in (plain, backfilled)]
    assert days[0] in (8, 9)
    # The rows that were seen on day 12 count, the fit goes on as before.
    assert days[1] == 13


def test_too_few_days_say_no_day() -> None:
    found = estimate_split_point([_partition(5, 3, 1)])
    assert (found.method, found.day, found.is_due(1_000, 1 << 60)) == (
        EstimateMethod.TOO_FEW_DAYS,
        None,
        False,
    )
    assert estimate_split_point([]).method is EstimateMethod.TOO_FEW_DAYS


def test_all_rows_on_the_first_day_of_a_fit() -> None:
    assert estimate_split_point([_partition(100, quiet=30)]).day == 1


INCREMENT_ROWS = pa.table([["a", "b", "a", "a"], [0, 0, 2, 2], [5, 7, 1, 2]], schema=INCREMENTS)


def test_increments_become_rows_by_day_up_to_the_age() -> None:
    found = daily_rows(INCREMENT_ROWS, {"a": 1, "b": 3})
    assert [each.tolist() for each in found] == [[5, 0, 3], [7, 0, 0, 0]]
    assert daily_rows(INCREMENTS.empty_table(), {}) == []


@pytest.mark.parametrize(
    ("option", "age", "rows", "due"),
    [
        (SplitOption(SplitKind.NOW), 0, 0, True),
        (SplitOption(SplitKind.NEVER), 10_000, 1 << 40, False),
        (SplitOption(SplitKind.DAYS, 7), 6, 1 << 40, False),
        (SplitOption(SplitKind.DAYS, 7), 7, 0, True),
        (SplitOption(SplitKind.ROWS, 100), 10_000, 99, False),
        (SplitOption(SplitKind.ROWS, 100), 0, 100, True),
        (SplitOption(), 10_000, 1 << 40, False),
    ],
)
def test_a_given_split_point_is_followed(option: SplitOption, age: int, rows: int, due: bool) -> None:
    assert choose_split_point(option, INCREMENT_ROWS, {}, LARGE).is_due(age, rows) is due


def test_a_small_table_is_split_at_once() -> None:
    found = choose_split_point(SplitOption(), INCREMENT_ROWS, {}, 1_000)
    assert (found.method, found.is_due(0, 0)) == (EstimateMethod.SMALL_TABLE, True)
    assert choose_split_point(SplitOption(), INCREMENT_ROWS, {}, LARGE).method is EstimateMethod.TOO_FEW_DAYS
