"""Incompatibilities of a column that its type does not show, but a file's footer does.

- Dates before 1582-10-15 and timestamps before 1900 have one meaning in today's calendar and another in
  Java's older one. Parquet has no field for the calendar: Spark writes it as key-values of its own, which
  Apache Hudi's merges do not copy.
- Hudi 0.15.0 on Spark 3.5 cannot read 8- and 16-bit integers from pages without a dictionary, nor inside
  lists, maps and structs.

`type_safety` says what the consequences are. Values only; knows no Spark and no storage.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from hudisql.read.calendar.hybrid_calendar import (
    FIRST_COMMON_DAY,
    FIRST_COMMON_MICRO,
    Calendar,
    calendar_of_dates,
)

_INCOMPATIBILITIES: Final[Mapping[Calendar | None, str]] = {
    Calendar.LEGACY: "older_calendar",
    Calendar.CORRECTED: "old_dates",
    None: "unknown_calendar",
}
_UNIT_PER_MICRO: Final = {"milliseconds": (1, 1000), "microseconds": (1, 1), "nanoseconds": (1000, 1)}


def old_date_incompatibilities(metadata: Any) -> Mapping[str, str]:
    """The name of the incompatibility of each top-level column that holds such values (`pq.FileMetaData`).

    A file of the older calendar whose statistics are missing is taken to hold them.
    """
    leaves = first_common_values(metadata.schema)
    if not leaves or metadata.num_rows == 0:
        return {}
    calendar = calendar_of_dates(metadata.metadata)
    incompatibility = _INCOMPATIBILITIES[calendar]
    found = {}
    for leaf, first_common in leaves.items():
        if _holds_below(metadata, leaf, first_common, otherwise=calendar is Calendar.LEGACY):
            found[metadata.schema.column(leaf).path.split(".")[0]] = incompatibility
    return found


def first_common_values(parquet_schema: Any) -> Mapping[int, int]:
    """The least stored value of which both calendars say the same, of each leaf of dates or timestamps."""
    leaves = {}
    for index in range(len(parquet_schema)):
        leaf = parquet_schema.column(index)
        if leaf.physical_type not in ("INT32", "INT64"):
            continue
        logical = json.loads(leaf.logical_type.to_json())
        if logical["Type"] == "Date":
            leaves[index] = FIRST_COMMON_DAY
        elif logical["Type"] == "Timestamp" and logical["isAdjustedToUTC"]:
            times, divided = _UNIT_PER_MICRO[logical["timeUnit"]]
            leaves[index] = FIRST_COMMON_MICRO * times // divided
    return leaves


def _holds_below(metadata: Any, leaf: int, first_common: int, *, otherwise: bool) -> bool:
    for number in range(metadata.num_row_groups):
        chunk = metadata.row_group(number).column(leaf)
        statistics = chunk.statistics if chunk.is_stats_set else None
        if statistics is not None and statistics.has_min_max:
            if statistics.min_raw < first_common:
                return True
        elif otherwise and (statistics is None or statistics.null_count != chunk.num_values):
            return True
    return False


def small_integer_incompatibilities(metadata: Any) -> Mapping[str, str]:
    """The incompatibility of each top-level column that holds such integers (`pq.FileMetaData`)."""
    found = {}
    for leaf in range(metadata.num_columns if metadata.num_rows else 0):
        column = metadata.schema.column(leaf)
        name, nested, _ = column.path.partition(".")
        if _is_small(column) and (nested or _has_plain_pages(metadata, leaf)):
            found[name] = "small_integer"
    return found


def _is_small(column: Any) -> bool:
    if column.physical_type != "INT32" or column.logical_type.type != "INT":
        return False
    described = json.loads(column.logical_type.to_json())
    # Spark reads unsigned ones of 16 bits as ints anyway.
    return bool(described["bitWidth"] == 8 or (described["bitWidth"] == 16 and described["isSigned"]))


def _has_plain_pages(metadata: Any, leaf: int) -> bool:
    chunks = (metadata.row_group(number).column(leaf) for number in range(metadata.num_row_groups))
    return any(not chunk.has_dictionary_page and chunk.num_values for chunk in chunks)
