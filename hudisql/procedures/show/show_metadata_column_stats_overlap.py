"""The procedure `show_metadata_column_stats_overlap`, with the name, parameters and columns of Hudi 1.2."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hudisql.procedures.registry import column_name, procedure
from hudisql.procedures.show.show_metadata_table import (
    MetadataTableColumnStatsArguments,
    metadata_table_of,
    statistics_of_base_files,
)
from hudisql.procedures.show.shown_rows import filter_rows

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.format.metadata_table.column_statistics import ColumnStatistics

_PERCENTILES = (50, 75, 95, 99)


@dataclass(frozen=True)
class ColumnStatsOverlapRow:
    """How many base files of a partition may have one value of a column.

    Of the bounds of all files, each once (`Total value number`), that many files have ranges with it: on
    average, at most, and at most for 50, 75, 95 and 99 percent of them.
    """

    partition_path: str = field(metadata=column_name("Partition path"))
    field_name: str = field(metadata=column_name("Field name"))
    average: float = field(metadata=column_name("Average overlap"))
    maximum: int = field(metadata=column_name("Maximum file overlap"))
    files: int = field(metadata=column_name("Total file number"))
    percentile_50: int = field(metadata=column_name("50% overlap"))
    percentile_75: int = field(metadata=column_name("75% overlap"))
    percentile_95: int = field(metadata=column_name("95% overlap"))
    percentile_99: int = field(metadata=column_name("99% overlap"))
    values: int = field(metadata=column_name("Total value number"))


@procedure("Shows how much the ranges of base files overlap by the statistics of the table's metadata table.")
def show_metadata_column_stats_overlap(
    context: Context, arguments: MetadataTableColumnStatsArguments
) -> Iterable[ColumnStatsOverlapRow]:
    """A row for each partition and column with statistics, sorted by both.

    Files without values count as files alone. Raises NoSuchTableError, InvalidArgumentError as
    `show_metadata_table_column_stats`, CorruptTableError, StorageError.
    """
    by_column: dict[tuple[str, str], list[ColumnStatistics]] = defaultdict(list)
    for path, statistics in statistics_of_base_files(metadata_table_of(context, arguments), arguments):
        by_column[path, statistics.column_name].append(statistics)
    rows = [_overlap(*place, found) for place, found in sorted(by_column.items())]
    return filter_rows(context, rows, ColumnStatsOverlapRow, arguments.filter)


def _overlap(path: str, column: str, statistics: Sequence[ColumnStatistics]) -> ColumnStatsOverlapRow:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    ranges = [each for each in statistics if each.least is not None and each.greatest is not None]
    if not ranges:
        return ColumnStatsOverlapRow(path, column, 0.0, 0, len(statistics), 0, 0, 0, 0, 0)
    bounds = pa.array([each.least for each in ranges] + [each.greatest for each in ranges])
    ranks = pc.rank(bounds, tiebreaker="dense").to_numpy().astype(np.int64) - 1
    starts, ends = np.bincount(ranks[: len(ranges)]), np.bincount(ranks[len(ranges) :])
    number = int(ranks.max()) + 1
    begun = np.cumsum(np.pad(starts, (0, number - len(starts))))
    ended = np.cumsum(np.pad(ends, (0, number - len(ends))))
    # A range ends behind its greatest value.
    overlaps = np.sort(begun - np.concatenate(([0], ended[:-1])))
    p50, p75, p95, p99 = (int(overlaps[(number - 1) * percentile // 100]) for percentile in _PERCENTILES)
    average, maximum = float(overlaps.mean()), int(overlaps[-1])
    return ColumnStatsOverlapRow(path, column, average, maximum, len(statistics), p50, p75, p95, p99, number)
