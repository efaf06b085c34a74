"""Estimate a partition's split point: the day after which few of its rows arrive.

From the table's closed partitions, if there are enough: the 80 % quantile of the days after which at most 2 %
of their rows arrived. Before that from a power law fitted to the tail of the daily increments (Theil-Sen: the
median of all slopes, which outliers such as backfills hardly move), of partitions seen for 20 days or more.
A wrong estimate costs merging at reads, not rows. Knows no tables: increments are columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudisql.ingest.split.split_option import SplitKind, SplitOption

Days = npt.NDArray[np.float64]
"""Rows of one partition by the day since its first write."""

LATE_SHARE: Final = 0.02
"""The share of rows that may arrive after the split."""
QUIET_PART: Final = 0.25
"""A partition is closed once it was quiet for this last part of its age, and at least some days."""
SMALL_TABLE_BYTES: Final = 128 << 20
"""Partitions of smaller tables are split at once."""
_QUIET_DAYS: Final = 3
# On quiet days at most this share of a partition's rows arrived.
_QUIET_SHARE: Final = 0.002
_CLOSED_PARTITIONS: Final = 10
_QUANTILE: Final = 0.8
_FIT_DAYS: Final = 20
# A fit looks so many days ahead.
_HORIZON: Final = 60
# The first days, one in so many of those seen, do not belong to the tail.
_HEAD: Final = 3

INCREMENTS = pa.schema([("partition", pa.string()), ("day", pa.int32()), ("rows", pa.int64())])
"""Rows that a partition got on a day, counted from 0, the day of its first write."""


class EstimateMethod(StrEnum):
    """How a split point was found."""

    GIVEN = "given"
    SMALL_TABLE = "small table"
    CLOSED_PARTITIONS = "closed partitions"
    POWER_FIT = "power fit"
    TOO_FEW_DAYS = "too few days"


@dataclass(frozen=True, slots=True)
class SplitPoint:
    """When a partition is split: at the begin of `day` (0: at once), or at `rows` rows.

    With neither it is not split yet.
    """

    method: EstimateMethod
    day: int | None = None
    rows: int | None = None

    def is_due(self, age_days: int, rows: int) -> bool:
        """True if a partition of this age (days since its first write) and size is to be split."""
        by_day = self.day is not None and age_days >= self.day
        return by_day or (self.rows is not None and rows >= self.rows)


def choose_split_point(
    option: SplitOption,
    increments: pa.Table,
    ages: dict[str, int],
    table_bytes: int,
) -> SplitPoint:
    """The split point of a table's partitions by the option and the arrivals so far.

    `increments` are those of `INCREMENTS`, `ages` the days since each partition's first write.
    """
    match option.kind:
        case SplitKind.NOW:
            return SplitPoint(EstimateMethod.GIVEN, day=0)
        case SplitKind.NEVER:
            return SplitPoint(EstimateMethod.GIVEN)
        case SplitKind.DAYS:
            return SplitPoint(EstimateMethod.GIVEN, day=option.count)
        case SplitKind.ROWS:
            return SplitPoint(EstimateMethod.GIVEN, rows=option.count)
    if table_bytes < SMALL_TABLE_BYTES:
        return SplitPoint(EstimateMethod.SMALL_TABLE, day=0)
    return estimate_split_point(daily_rows(increments, ages))


def daily_rows(increments: pa.Table, ages: dict[str, int]) -> list[Days]:
    """The rows by day of each partition, up to its age."""
    if not increments.num_rows:
        return []
    partitions = increments.column("partition").combine_chunks().dictionary_encode()
    numbers = partitions.indices.to_numpy(zero_copy_only=False)
    days = increments.column("day").to_numpy()
    rows = increments.column("rows").to_numpy()
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[order], np.arange(len(partitions.dictionary)), side="right")
    found = []
    for path, part in zip(partitions.dictionary.to_pylist(), np.split(order, ends[:-1]), strict=True):
        length = max(ages.get(path, 0), int(days[part].max())) + 1
        found.append(np.bincount(days[part], rows[part], length).astype(np.float64))
    return found


def estimate_split_point(partitions: Sequence[Days]) -> SplitPoint:
    """The split point from the daily rows of partitions, each up to its age today."""
    closed = [partition for partition in partitions if is_closed(partition)]
    if len(closed) >= _CLOSED_PARTITIONS:
        last_days = [split_day(partition) for partition in closed]
        day = int(np.quantile(last_days, _QUANTILE, method="higher"))
        return SplitPoint(EstimateMethod.CLOSED_PARTITIONS, day=day)
    old = [partition for partition in partitions if len(partition) >= _FIT_DAYS and partition.sum() > 0]
    if old:
        return SplitPoint(EstimateMethod.POWER_FIT, day=power_fit_day(old))
    return SplitPoint(EstimateMethod.TOO_FEW_DAYS)


def is_closed(days: Days) -> bool:
    """True if hardly any row arrived lately."""
    quiet = max(_QUIET_DAYS, int(len(days) * QUIET_PART))
    return len(days) > quiet and bool(days[-quiet:].sum() <= _QUIET_SHARE * days.sum()) and days.sum() > 0


def split_day(days: Days) -> int:
    """The first day from which on at most `LATE_SHARE` of the rows arrives."""
    late = days.sum() - np.concatenate([[0.0], np.cumsum(days)])
    return int(np.flatnonzero(late <= LATE_SHARE * days.sum() + 1e-9)[0])


def power_fit_day(partitions: Sequence[Days]) -> int:
    """The split day by a power law that goes on with the tail of the daily rows, up to the horizon."""
    curve = _typical_days(partitions)
    seen = len(curve)
    horizon = max(_HORIZON, seen)
    # So few rows a day that they do not move the split day stand for none, which has no logarithm.
    floor = LATE_SHARE / (10 * horizon)
    slope, level = _theil_sen(*_tail_points(curve / curve.sum(), floor))
    ahead = np.exp(level + slope * np.log(np.arange(seen, horizon) + 1.0))
    return split_day(np.concatenate([curve / curve.sum(), ahead]))


def _typical_days(partitions: Sequence[Days]) -> Days:
    """The share of rows of each day, the median of the partitions; as long as the oldest ones."""
    longest = max(len(partition) for partition in partitions)
    shares = np.full((len(partitions), longest), np.nan)
    for number, days in enumerate(partitions):
        shares[number, : len(days)] = days / days.sum()
    middle: Days = np.nanmedian(shares, axis=0)
    return middle if middle.sum() > 0 else np.nanmean(shares, axis=0)


def _tail_points(curve: Days, floor: float) -> tuple[Days, Days]:
    """Logarithms of day (from 1) and of rows a day, of the tail: what a mixture of
    sources looks like on the first days does not show the slowest one.

    Days are taken together in steps that grow by a fifth, so that late days weigh no more than early ones.
    Days without rows count in the mean of their step.
    """
    first = max(int(np.argmax(curve)), len(curve) // _HEAD)
    edges = np.unique(np.floor((first + 1) * 1.2 ** np.arange(60)).astype(int))
    edges = np.append(edges[edges < len(curve)], len(curve))
    points = [
        (np.log(np.arange(start, stop) + 1.0).mean(), np.log(max(curve[start:stop].mean(), floor)))
        for start, stop in itertools.pairwise(edges)
    ]
    logs = np.array(points if len(points) > 1 else [(0.0, np.log(floor)), (1.0, np.log(floor))])
    return logs[:, 0], logs[:, 1]


def _theil_sen(x: Days, y: Days) -> tuple[float, float]:
    """Slope and level at 0: the medians of the slopes of all pairs, and of the rests."""
    left, right = np.triu_indices(len(x), 1)
    slope = float(np.median((y[right] - y[left]) / (x[right] - x[left])))
    return slope, float(np.median(y - slope * x))
