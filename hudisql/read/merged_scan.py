"""Slices with few log records by Spark's own parquet scan: base rows that no record replaces.

The records' rows come beside them, from the slice reader's merge. Follows the result, not the way, of
Hudi's `HoodieMergeOnReadRDD`, which takes every base row through its merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.read.arrow_scan import arrow_dataframe, read_in_tasks
from hudisql.read.native_scan import native_dataframe_without, replaced_rows_of
from hudisql.read.replaced_rows import read_log_rows, read_replaced_positions
from hudisql.read.scan_method import scanned_file
from hudisql.read.slice_reader import SliceRead
from hudisql.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudisql.read.scan import ScanPlan

_REPLACED: Final = pa.schema([pa.field("row", pa.int64())])


def merged_dataframe(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """The plan's rows; all of its slices have log files. See `scan_to_dataframe` for the columns.

    Raises as `native_dataframe_without`.
    """

    def replaced(numbers: Mapping[str, int]) -> DataFrame:
        read = partial(_read_replaced, numbers, plan.needs_data)
        return read_in_tasks(spark, plan, _REPLACED, read)

    remaining = native_dataframe_without(spark, plan, replaced)
    return remaining.unionAll(arrow_dataframe(spark, plan, read_log_rows))


def _read_replaced(
    numbers: Mapping[str, int], needs_data: bool, storage: Storage, read: SliceRead
) -> Iterator[pa.RecordBatch]:
    path = scanned_file(read.file_slice, needs_data=needs_data)
    assert path is not None  # a slice of logs alone is not scanned by Spark
    rows = replaced_rows_of(numbers[path], read_replaced_positions(storage, read))
    yield pa.record_batch([pa.array(rows)], schema=_REPLACED)
