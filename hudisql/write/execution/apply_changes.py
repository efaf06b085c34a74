"""Apply changes to a table: count them, assign buckets, write file slices in Spark tasks, commit.

Handles all rows that change stored rows or may fill small files; `bulk_insert` writes only new rows. Follows
Hudi's `BaseSparkCommitActionExecutor`: workload profile, partitioner, write handles, commit. Spark
distributes the rows, `write_tasks` writes them. Knows neither SQL text nor the metastore.
"""

from __future__ import annotations

import math
import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.errors import RepeatedKeysError, WriteRefusedError
from hudisql.read.scan.arrow_scan import calendar_settings, spark_struct
from hudisql.spark.cached_rows import CachedRows, cache_many_rows, few_cached_rows
from hudisql.spark.few_rows import collect_few_rows
from hudisql.spark.versions import repartition_by_id
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.write.execution.changed_slices import check_slices_found
from hudisql.write.execution.commit_files import Begun, WriteResult, commit_files
from hudisql.write.execution.deleted_keys import keeps_file_groups, place_deleted_keys
from hudisql.write.execution.deleted_keys_by_tasks import find_by_number, place_deleted_keys_by_tasks
from hudisql.write.execution.driver_apply import (
    is_small,
    make_bucket_task,
    profile_few_changes,
    write_few_changes,
)
from hudisql.write.execution.hash_bucket_plan import plan_hash_buckets
from hudisql.write.execution.partitioner import (
    BucketPlan,
    assign_buckets,
    buckets_a_task,
)
from hudisql.write.execution.task_results import collect_files
from hudisql.write.execution.workload_profile import WorkloadProfile, count_changes, route_changes
from hudisql.write.execution.write_context import WrittenFile, make_write_context
from hudisql.write.execution.write_tasks import BUCKET, run_write_tasks
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.bucket_index import check_bucket_index_declared, with_hash_buckets
from hudisql.write.keygen.generated_paths import with_generated_paths
from hudisql.write.keygen.partition_paths import PartitionPaths, Values
from hudisql.write.transaction.commit import OpenCommit
from hudisql.write.transaction.pending_table_services import check_not_clustered, exclude_pending_clustering

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHOWN_KEYS: Final = 3


def apply_changes(
    spark: SparkSession,
    table: HudiTable,
    changes: DataFrame | pa.Table,
    operation_type: str,
    options: WriteOptions,
    *,
    begun: Begun | None = None,
) -> WriteResult:
    """Write `changes` (columns of `change_schema`, perhaps COMBINED) as one commit.

    The changes are evaluated once. Few changes of small file slices are written on the driver. `begun`:
    see `commit_files`. Raises WriteRefusedError, WriteConflictError, UnsupportedTableError, StorageError, and
    Spark's own exceptions; the table is then as before.
    """
    few = changes if isinstance(changes, pa.Table) else collect_few_rows(changes)
    places_rows = keeps_file_groups(table, options, operation_type)
    if few is None:
        assert not isinstance(changes, pa.Table)
        cached = cache_many_rows(_with_index_columns(changes, table, options))
        return _apply_cached(spark, table, cached, operation_type, options, begun, places_rows=places_rows)
    if not few.num_rows:
        return _commit_no_change(table, operation_type, options)
    paths = PartitionPaths(table, options.key_generator)
    if places_rows:
        few = place_deleted_keys(table, few, options, paths, find_by_number(spark, table))
    counted = profile_few_changes(table, few, table.schema, options, paths)
    check_not_clustered(table, counted.changed)
    if not is_small(table, counted, options, paths):
        schema = spark_struct(few.schema) if isinstance(changes, pa.Table) else changes.schema
        held = few_cached_rows(spark, few, schema)
        if options.key_generator is not None or options.index.buckets is not None:
            held = cache_many_rows(_with_index_columns(held.frame, table, options))
        return _apply_cached(spark, table, held, operation_type, options, begun)

    def write(commit: OpenCommit) -> list[WrittenFile]:
        paths = PartitionPaths(commit.table, options.key_generator)
        files = write_few_changes(commit, counted, table.schema, options, paths, calendar_settings(spark))
        _refuse_repeated_keys(table, files)
        return files

    result = commit_files(
        table,
        operation_type,
        table.schema,
        write,
        concurrency=options.concurrency,
        changed=counted.changed,
        checkpoint=options.checkpoint,
        extra_metadata=options.extra_metadata,
        begun=begun,
        has_task_attempts=False,
    )
    return replace(result, combined=result.combined + counted.combined)


def _commit_no_change(table: HudiTable, operation_type: str, options: WriteOptions) -> WriteResult:
    """A commit of only the checkpoint, if there is one."""
    if options.checkpoint is None:
        return WriteResult(None)
    return commit_files(
        table,
        operation_type,
        table.schema,
        lambda _: [],
        concurrency=options.concurrency,
        checkpoint=options.checkpoint,
        extra_metadata=options.extra_metadata,
    )


def _with_index_columns(changes: DataFrame, table: HudiTable, options: WriteOptions) -> DataFrame:
    """The changes with generated partition paths and hash buckets of new rows, if the table has them."""
    if options.key_generator is not None:
        changes = with_generated_paths(changes, table, options.key_generator)
    if options.index.buckets is not None:
        changes = with_hash_buckets(
            changes, table, options.index.buckets, options.key_generator, complex_keys=options.complex_keys
        )
    return changes


def _apply_cached(
    spark: SparkSession,
    table: HudiTable,
    cached: CachedRows,
    operation_type: str,
    options: WriteOptions,
    begun: Begun | None,
    *,
    places_rows: bool = False,
) -> WriteResult:
    """`apply_changes` by Spark's tasks; with `places_rows` new rows of deleted keys keep their file group."""
    with ExitStack() as resources:
        resources.callback(cached.release)
        changes, counted = cached.frame, count_changes(cached.frame, table)
        if not counted.rows:
            return _commit_no_change(table, operation_type, options)
        if places_rows and counted.new_rows:
            placed = place_deleted_keys_by_tasks(spark, table, changes, counted, options, resources)
            if placed is not None:
                changes, counted = placed, count_changes(placed, table)
        result = commit_files(
            table,
            operation_type,
            table.schema,
            lambda commit: _write_files(spark, commit, changes, counted, options, table.schema),
            concurrency=options.concurrency,
            changed=counted.changed,
            checkpoint=options.checkpoint,
            extra_metadata=options.extra_metadata,
            begun=begun,
        )
        return replace(result, combined=result.combined + counted.combined)


def _write_files(
    spark: SparkSession,
    commit: OpenCommit,
    changes: DataFrame,
    counted: WorkloadProfile,
    options: WriteOptions,
    schema: pa.Schema,
) -> list[WrittenFile]:
    """Write all files; new rows also go to existing small file groups."""
    from pyspark.sql import functions as sf

    table = commit.table
    paths = PartitionPaths(table, options.key_generator)
    of_values = paths.paths_of(counted.new_rows)
    concerned = {path for path, _ in counted.changed} | set(of_values.values())
    slices = exclude_pending_clustering(table, load_file_slices(table, paths.all_existing(concerned)))
    check_slices_found(table, slices, counted.changed)
    plan = _plan(table, slices, counted, of_values, options)
    write_context = make_write_context(commit, options, schema, calendar_settings(spark), slices=slices)
    values_of = {path: values for values, path in of_values.items()}
    tasks = {
        bucket.number: pickle.dumps(
            make_bucket_task(write_context, bucket, paths, values_of.get(bucket.partition_path))
        )
        for bucket in plan.buckets
    }
    routed = route_changes(spark, changes, plan, of_values, table)
    shared = spark.sparkContext.broadcast(tasks)

    def write(_: int, attempt: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return run_write_tasks(write_context, shared.value, attempt, batches)

    together = buckets_a_task(
        plan.buckets, options.sizing.bytes_per_row, spark.sparkContext.defaultParallelism
    )
    number = sf.floor(sf.col(BUCKET) / together).cast("int")
    spread = repartition_by_id(routed, math.ceil(len(plan.buckets) / together), number)
    files = collect_files(spread, write)
    taken = sum(file.changes for file in files)
    if taken != counted.rows:
        raise WriteRefusedError(
            f"the changes to {table.base_path} were {counted.rows} rows when they were counted, and {taken} "
            "when they were written: the source is not deterministic",
            hint="store the source in a table first, then use that table; nothing was written",
        )
    _refuse_repeated_keys(table, files)
    return files


def _plan(
    table: HudiTable,
    slices: Sequence[FileSlice],
    counted: WorkloadProfile,
    of_values: Mapping[Values, str],
    options: WriteOptions,
) -> BucketPlan:
    if options.index.buckets is not None:
        of_buckets: dict[tuple[str, int], int] = defaultdict(int)
        for (values, bucket), rows in counted.of_buckets.items():
            of_buckets[of_values[values], bucket] += rows
        return plan_hash_buckets(table, slices, counted.changed, of_buckets, options.index.buckets)
    if counted.new_rows:
        check_bucket_index_declared(table, slices)
    new_by_path: dict[str, int] = defaultdict(int)
    for values, rows in counted.new_rows.items():
        new_by_path[of_values[values]] += rows
    return assign_buckets(slices, counted.changed, new_by_path, options.sizing)


def _refuse_repeated_keys(table: HudiTable, files: Sequence[WrittenFile]) -> None:
    """Raise RepeatedKeysError if new rows of one partition share a record key."""
    count = sum(file.repeated_keys.count for file in files)
    if count:
        samples = sorted({key for file in files for key in file.repeated_keys.samples})
        shown = ", ".join(f"'{key}'" for key in samples[:_SHOWN_KEYS])
        raise RepeatedKeysError(
            f"several new rows have one record key: {count} key(s) of {table.base_path}, among them "
            f"{shown}; nothing was written",
            hint="make the source unique by the record key (for example by row_number())",
        )
