"""Reads small tables whole, so that Spark plans the query once.

For other tables a query is planned twice: over placeholders, to find what it needs, and over the scans of
just that. If Spark's own scan reads a few small files, it prunes columns, partitions and row groups itself,
and planning twice takes longer than that scan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.read.scan.scan_method import ScanMethod
from hudisql.read.scan.scan_plan import ScanPlan, ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.read.scan.table_state import TableState
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import few_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_PARTITIONS: Final = 16
_MOST_FILES: Final = 16
_MOST_BYTES: Final = 8 << 20


def plan_whole_table(
    spark: SparkSession, state: TableState, schema: pa.Schema, *, read_optimized: bool
) -> ScanPlan | None:
    """The scan of these columns of a table's latest state; None unless Spark's own reads few small files."""
    table = state.table
    # Spark would skip row groups by filters on floating members of structs, whose bounds ignore NaN.
    has_nested = any(pa.types.is_nested(field.type) for field in table.full_schema)
    is_past = state.as_of is not None or state.changes is not None
    if is_past or has_nested or not _is_small(table, read_optimized=read_optimized):
        return None
    plan = plan_scan(
        ScanRequest(
            table,
            schema,
            read_optimized=read_optimized,
            parallelism=spark.sparkContext.defaultParallelism,
        )
    )
    return plan if set(plan.methods()) <= {ScanMethod.NATIVE} else None


def _is_small(table: HudiTable, *, read_optimized: bool) -> bool:
    """True for few small base files. The first partition is listed alone: it may be too large already."""
    if table.properties.has_register_only_partitions:
        return False
    partitions = few_partitions(table, _MOST_PARTITIONS)
    if partitions is None:
        return False
    slices: list[FileSlice] = []
    for some in (partitions[:1], partitions[1:]):
        slices += load_file_slices(table, some) if some else []
        if len(slices) > _MOST_FILES or sum(file_slice.length for file_slice in slices) > _MOST_BYTES:
            return False
    merges = not read_optimized and any(file_slice.has_log_files for file_slice in slices)
    return not merges and not any(file_slice.is_bootstrapped for file_slice in slices)
