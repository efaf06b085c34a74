"""Turn a scan plan into a Spark DataFrame: each file slice by the method that fits it.

Spark's own vectorised parquet scan where it gives the right rows (`native_scan`, `merged_scan`), splits
read by the slice reader otherwise (`arrow_scan`), small plans on the driver.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from hudisql.errors import QueryError
from hudisql.read.files.splits import ScanTask
from hudisql.read.scan.scan_method import ScanMethod
from hudisql.read.scan.scan_plan import ScanPlan
from hudisql.table.file_slice import FileSlice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def scan_to_dataframe(spark: SparkSession, plan: ScanPlan, *, runs_jobs: bool = True) -> DataFrame:
    """The plan's rows as a DataFrame with the table's whole schema, in the table's column order.

    Spark jobs may match the keys of log records at once, which makes the query cheaper; `runs_jobs` is False
    for queries that are only explained.

    Columns outside `plan.columns` exist only by name and type, so that `*`, positions and EXCEPT in the
    user's text resolve; evaluating one raises an error, since the plan contains every needed column.
    """
    frame = _read(spark, plan, runs_jobs)
    # Spark's own scan uses the plan's predicate only for skipping, and the query does not contain this one.
    return frame if plan.changes is None else frame.where(plan.changes.condition)


def _read(spark: SparkSession, plan: ScanPlan, runs_jobs: bool) -> DataFrame:
    from hudisql.read.scan.arrow_scan import arrow_dataframe, driver_dataframe

    if plan.on_driver:
        rows = driver_dataframe(spark, plan)
        return arrow_dataframe(spark, plan) if rows is None else rows
    if plan.mode == "native":
        try:
            return _by_method(spark, plan, runs_jobs)
        except QueryError as error:
            what_to_do = f" ({error.hint})" if error.hint else ""
            warnings.warn(
                f"{error.message}: hudisql reads by its own, slower, reader{what_to_do}",
                RuntimeWarning,
                stacklevel=2,
            )
    return arrow_dataframe(spark, plan)


def _by_method(spark: SparkSession, plan: ScanPlan, runs_jobs: bool) -> DataFrame:
    """The rows of all slices, each read by its method."""
    from pyspark.sql import DataFrame

    from hudisql.read.scan.arrow_scan import arrow_dataframe
    from hudisql.read.scan.merged_scan import lazily_merged_dataframe, merged_dataframe
    from hudisql.read.scan.native_scan import native_dataframe

    readers = {
        ScanMethod.NATIVE: native_dataframe,
        ScanMethod.MERGED: merged_dataframe if runs_jobs else lazily_merged_dataframe,
        ScanMethod.STITCHED: arrow_dataframe,
    }
    methods = plan.methods()
    used = [method for method in ScanMethod if method in methods] or [ScanMethod.NATIVE]
    if len(used) == 1:
        return readers[used[0]](spark, plan)
    method_of = dict(zip((each.file_group for each, _ in plan.slices), methods, strict=True))
    frames = [readers[method](spark, _part_of(plan, method, method_of)) for method in used]
    return reduce(DataFrame.unionAll, frames)


def _part_of(plan: ScanPlan, method: ScanMethod, method_of: Mapping[tuple[str, str], ScanMethod]) -> ScanPlan:
    """The part of the plan whose slices are read by one method."""

    def has_method(file_slice: FileSlice) -> bool:
        return method_of[file_slice.file_group] is method

    works = [tuple(work for work in task.works if has_method(work.file_slice)) for task in plan.tasks]
    return replace(
        plan,
        slices=tuple(each for each in plan.slices if has_method(each[0])),
        tasks=tuple(ScanTask(work) for work in works if work),
    )
