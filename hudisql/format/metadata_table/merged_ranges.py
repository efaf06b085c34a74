"""One range of a column over several files, or over several records of a file or partition.

Follows `HoodieTableMetadataUtil.mergeColumnStatsRecords` of Hudi 1.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from typing import Any

from hudisql.format.metadata_table.column_bounds import text_bound
from hudisql.format.metadata_table.metadata_writing import ColumnRange
from hudisql.format.metadata_table.value_types import DECIMAL_ORDINAL, TEXT_WRAPPER


def merged_ranges(ranges: Sequence[ColumnRange]) -> ColumnRange:
    """The range of one column over several files."""
    least = [column_range.least for column_range in ranges if column_range.least is not None]
    greatest = [column_range.greatest for column_range in ranges if column_range.greatest is not None]
    known = next((column_range for column_range in ranges if column_range.least is not None), ranges[-1])
    order = _by_value(known)
    return replace(
        known,
        least=min(least, key=order) if least else None,
        greatest=max(greatest, key=order) if greatest else None,
        values=sum(column_range.values for column_range in ranges),
        nulls=sum(column_range.nulls for column_range in ranges),
        stored_bytes=sum(column_range.stored_bytes for column_range in ranges),
        raw_bytes=sum(column_range.raw_bytes for column_range in ranges),
    )


def mergeable_range(found: ColumnRange) -> ColumnRange:
    """A range of texts around this one whose bounds have the same order in UTF-8 and UTF-16.

    Hudi 1.2 merges the ranges of a partition by UTF-16 and compares them with a filter's values by UTF-8.
    """
    if found.wrapper != TEXT_WRAPPER:
        return found
    return replace(
        found,
        least=text_bound(found.least, is_greatest=False),
        greatest=text_bound(found.greatest, is_greatest=True),
    )


def _by_value(found: ColumnRange) -> Any:
    if found.type_ordinal == DECIMAL_ORDINAL:
        return lambda value: int.from_bytes(value, "big", signed=True)
    if found.wrapper == TEXT_WRAPPER:
        return str.encode
    if found.wrapper in ("FloatWrapper", "DoubleWrapper"):
        return lambda value: (isnan(value), value)
    return lambda value: value
