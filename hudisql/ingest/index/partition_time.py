"""The time of a partition: the day or hour that its values name, or that of its first commit.

Indexes of partitions that are older than `index_days` are dropped: hardly any row of them still comes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime

from hudisql.errors import NoSuchPathError
from hudisql.format.paths.partition_metadata import PARTITION_METADATA_FILE, parse_partition_metadata
from hudisql.format.timeline.instant import BOOTSTRAP_INSTANT_TIMES, second_of
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import partition_of

_DATE = re.compile(r"(\d{4})[-/_.]?(\d\d)[-/_.]?(\d\d)(?:[-/_.T ]?(\d\d))?(?!\d)", re.ASCII)
_YEARS = range(1970, 2200)
_LEVELS = ("year", "month", "day", "hour")


def partition_time(table: HudiTable, path: str) -> datetime | None:
    """When the partition at `path` begins, UTC: by its values, else its first commit; None if both lack one.

    Raises CorruptTableError, StorageError.
    """
    partition = partition_of(table, path)
    names = [column.name for column in table.partition_columns]
    if (found := time_of_values(names, partition.values)) is not None:
        return found
    if not names and (found := _time_of_text(path.replace("/", "-"))) is not None:
        return found
    return _first_commit(table, path)


def time_of_values(names: Sequence[str], values: Sequence[object | None]) -> datetime | None:
    """The time that partition values name: a date or timestamp, a text that begins with one (`2026-11-22`,
    `20261122`, `2026/11/22`, with an hour or without), or columns year, month, day and hour.
    """
    for value in values:
        if isinstance(value, datetime):
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        if isinstance(value, str | int) and (found := _time_of_text(str(value))) is not None:
            return found
    return _time_of_levels(dict(zip((name.lower() for name in names), values, strict=True)))


def _time_of_text(text: str) -> datetime | None:
    matched = _DATE.match(text)
    return None if matched is None else _moment(*(int(part or 0) for part in matched.groups()))


def _time_of_levels(levels: dict[str, object | None]) -> datetime | None:
    numbers = []
    for number, name in enumerate(_LEVELS):
        value = levels.get(name)
        if name in levels and not str(value).isdigit():
            return None
        numbers.append(int(str(value)) if name in levels else int(number < 3))
    return _moment(*numbers) if "year" in levels else None


def _moment(year: int, month: int, day: int, hour: int) -> datetime | None:
    try:
        return datetime(year, month, day, hour, tzinfo=UTC) if year in _YEARS else None
    except ValueError:
        return None


def _first_commit(table: HudiTable, path: str) -> datetime | None:
    marker = join(table.base_path, path, PARTITION_METADATA_FILE)
    try:
        commit_time = parse_partition_metadata(table.storage.read(marker)).commit_time
    except NoSuchPathError:
        return None
    if commit_time in BOOTSTRAP_INSTANT_TIMES:
        return None
    try:
        return second_of(commit_time)
    except ValueError:
        return None
