"""Chooses the partitions of a compaction by the day in their paths.

Follows `DayBasedCompactionStrategy`, `BoundedPartitionAwareCompactionStrategy` and
`UnBoundedPartitionAwareCompactionStrategy` of Hudi 0.15. Hudi recognizes days as `yyyy/MM/dd`, with or
without names (`year=2024/month=03/day=01`); hudisql also `yyyy-MM-dd`, for which Hudi's plans stay empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Final, Literal, TypeGuard, get_args

from hudisql.config.table_service_keys import COMPACTION_STRATEGY
from hudisql.errors import SettingsError

PartitionStrategy = Literal["day_based", "bounded_partitions", "unbounded_partitions"]

_DAY: Final = re.compile(r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)")
_NAMES: Final = re.compile(r"(^|/)[^/=]*=")


def chooses_partitions(strategy: str) -> TypeGuard[PartitionStrategy]:
    """True for the strategies of this module, which need the partition paths before slices are listed."""
    return strategy in get_args(PartitionStrategy)


def partitions_to_compact(
    strategy: PartitionStrategy, paths: Iterable[str], target_partitions: int, today: date
) -> list[str]:
    """The partition paths that the strategy chooses, the latest day first.

    `day_based` chooses the latest `target_partitions` of all, `bounded_partitions` those from
    `target_partitions` days before `today` on, `unbounded_partitions` all others. Raises SettingsError for a
    path without a day.
    """
    latest_first = sorted(((_day_of(path), path) for path in paths), reverse=True)
    if strategy == "day_based":
        return [path for _, path in latest_first[:target_partitions]]
    earliest = today - timedelta(days=target_partitions)
    is_bounded = strategy == "bounded_partitions"
    return [path for day, path in latest_first if (day >= earliest) is is_bounded]


def _day_of(path: str) -> date:
    found = _DAY.match(_NAMES.sub(r"\1", path))
    try:
        if found is not None:
            year, month, day = map(int, found.groups())
            return date(year, month, day)
    except ValueError:
        pass
    raise SettingsError(
        f"the {COMPACTION_STRATEGY} of this table chooses partitions by day, and the partition path '{path}' "
        "names none",
        hint="partition paths are like 2024/03/01, 2024-03-01, dt=2024-03-01 or year=2024/month=03/day=01; "
        "LogFileSizeBasedCompactionStrategy takes all partitions",
    )
