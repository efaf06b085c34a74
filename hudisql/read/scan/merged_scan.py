"""Slices with few log records by Spark's own parquet scan: base rows that no record replaces.

The records' rows are added. Keys are matched once, by a job that returns row numbers to the driver. The log
files that `scan_method` admits bound their count, and later queries take them from the cache. The result is
that of Hudi's `HoodieMergeOnReadRDD`, which merges every base row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from hudisql.read.files.splits import driving_file_bytes
from hudisql.read.scan.arrow_scan import (
    arrow_dataframe,
    calendar_settings,
    complete_columns,
    read_in_tasks,
    spark_struct,
)
from hudisql.read.scan.match_cache import MatchCache, match_scope
from hudisql.read.scan.native_scan import ScannedFiles, native_dataframe_of, replaced_rows_of
from hudisql.read.scan.row_bitmap import FileRows, row_bitmap_of
from hudisql.read.scan.scan_method import scanned_file
from hudisql.read.slice.replaced_rows import LogMatch, match_log_records, read_log_rows
from hudisql.read.slice.slice_reader import SliceRead
from hudisql.spark.few_rows import local_frame
from hudisql.spark.task_runner import run_on_files
from hudisql.spark.versions import has_scalar_subqueries
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudisql.read.scan.scan_plan import ScanPlan

_REPLACED: Final = pa.schema([pa.field("row", pa.int64())])
_TASKS_PER_CORE: Final = 4
MATCHES: Final = MatchCache()
"""Shared by all sessions of this process."""


def merged_dataframe(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """The plan's rows; all of its slices have log files. See `scan_to_dataframe` for the columns.

    Keys are matched now, once Spark's scan is known to work. Raises UnsupportedTableError,
    SourceChangedError, CorruptTableError, StorageError.
    """
    if not plan.columns.names and plan.predicate is None:
        return _counted_dataframe(spark, plan)
    matches: list[LogMatch] = []

    def choose(files: ScannedFiles) -> DataFrame:
        matches.extend(_match_slices(spark, plan))
        bitmap = row_bitmap_of(
            [
                FileRows(length, match.base_rows, match.replaced)
                for length, match in zip(plan.scanned_bytes(), matches, strict=True)
            ]
        )
        if bitmap is None or not has_scalar_subqueries():
            return files.without(partial(_replaced_frame, spark, plan, matches))
        return files.where(lambda metadata: ~bitmap.has_row(spark, metadata))

    remaining = native_dataframe_of(spark, plan, choose)
    return remaining.unionAll(_shown_dataframe(spark, plan, matches))


def lazily_merged_dataframe(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """As `merged_dataframe`, but without a job until the DataFrame runs; keys are then matched twice."""

    def replaced(numbers: Mapping[str, int]) -> DataFrame:
        return read_in_tasks(spark, plan, _REPLACED, partial(_read_replaced, numbers, plan.needs_data))

    remaining = native_dataframe_of(spark, plan, lambda files: files.without(replaced))
    return remaining.unionAll(arrow_dataframe(spark, plan, read_log_rows))


def _match_slices(spark: SparkSession, plan: ScanPlan) -> list[LogMatch]:
    """The log match of each of the plan's slices, in their order."""
    config, calendars = plan.log_merge_config, calendar_settings(spark)
    assert config is not None  # there are log files
    slices = [file_slice for file_slice, _ in plan.slices]
    scope = match_scope(plan.storage, config, calendars)
    matches = MATCHES.find(scope, slices)
    missing = [each for each in slices if each not in matches]
    read = SliceRead(slices[0], pa.schema([]), calendars=calendars, log_merge_config=config)
    found = list(zip(missing, _match_in_tasks(spark, plan.storage, read, missing), strict=True))
    MATCHES.add(scope, found)
    matches.update(found)
    return [matches[each] for each in slices]


def _match_in_tasks(
    spark: SparkSession, storage: Storage, read: SliceRead, slices: Sequence[FileSlice]
) -> list[LogMatch]:
    """The matches of the slices, each read as `read` says."""

    def match(some: Iterable[FileSlice]) -> Iterator[LogMatch]:
        for each in some:
            yield match_log_records(storage, replace(read, file_slice=each))

    return run_on_files(
        spark,
        slices,
        match,
        weight=lambda file_slice: driving_file_bytes(file_slice, needs_data=False),
        label="matching the records of log files",
        parallelism=spark.sparkContext.defaultParallelism * _TASKS_PER_CORE,
    )


def _counted_dataframe(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """The rows of a query without columns: only their number matters, and no base file is read."""
    matches = _match_slices(spark, plan)
    rows = sum(match.base_rows - len(match.replaced) + len(match.shown) for match in matches)
    return complete_columns(spark.range(rows), plan, [])


def _shown_dataframe(spark: SparkSession, plan: ScanPlan, matches: Sequence[LogMatch]) -> DataFrame:
    """The rows of log records, as `arrow_dataframe`; base files are not read again."""
    shown = {each.file_group: match.shown for (each, _), match in zip(plan.slices, matches, strict=True)}
    numbers = spark.sparkContext.broadcast(shown)

    def read_shown(storage: Storage, read: SliceRead) -> Iterator[pa.RecordBatch]:
        return read_log_rows(storage, read, numbers.value[read.file_slice.file_group])

    return arrow_dataframe(spark, plan, read_shown)


def _replaced_frame(
    spark: SparkSession, plan: ScanPlan, matches: Sequence[LogMatch], numbers: Mapping[str, int]
) -> DataFrame:
    rows = [
        replaced_rows_of(numbers[path], match.replaced)
        for path, match in zip(plan.scanned_files(), matches, strict=True)
    ]
    return local_frame(spark, pa.table([np.concatenate(rows)], _REPLACED), spark_struct(_REPLACED))


def _read_replaced(
    numbers: Mapping[str, int], needs_data: bool, storage: Storage, read: SliceRead
) -> Iterator[pa.RecordBatch]:
    path = scanned_file(read.file_slice, needs_data=needs_data)
    assert path is not None  # a slice of logs alone is not scanned by Spark
    rows = replaced_rows_of(numbers[path], match_log_records(storage, read).replaced)
    yield pa.record_batch([pa.array(rows)], schema=_REPLACED)
