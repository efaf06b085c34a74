"""Bulk insert: write new rows into new file groups (bulk inserts, overwrites, CREATE TABLE AS SELECT).

Follows `HoodieDatasetBulkInsertHelper` of Hudi 0.15: no key is looked up and no small file is filled. Spark
distributes and sorts the rows, and each task writes the table partitions it receives one after the other.
Knows neither SQL text nor the metastore.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import UnsupportedTableError
from hudisql.format.keys.bucket_id import new_file_id_prefix
from hudisql.format.schema.spark_schema import quote_name
from hudisql.read.files.conform import conform_batch
from hudisql.read.scan.arrow_scan import calendar_settings
from hudisql.spark.jvm import optimized_plan
from hudisql.spark.versions import rebalance
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import walk_partitions
from hudisql.write.changes import COMBINED
from hudisql.write.execution.commit_files import WriteResult, commit_files
from hudisql.write.execution.create_handle import CreateHandle
from hudisql.write.execution.ordering_values import check_ordering_values
from hudisql.write.execution.task_results import collect_files, encode_written_files
from hudisql.write.execution.write_context import (
    WriteContext,
    WrittenFile,
    make_write_context,
    make_write_task,
)
from hudisql.write.execution.write_tasks import split_by
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.bucket_index import HASH_BUCKET, bucket_column, check_bucket_index_declared
from hudisql.write.keygen.generated_paths import GENERATED_PATH, path_column
from hudisql.write.keygen.partition_paths import PartitionPaths, Values
from hudisql.write.overwrite import Overwrite, bulk_insert_operation_type
from hudisql.write.transaction.commit import OpenCommit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Rows that Spark estimates below this size are shuffled, so that they go to few files.
_FEW_BYTES: Final = 64 << 20


def bulk_insert_rows(
    spark: SparkSession,
    table: HudiTable,
    rows: DataFrame,
    options: WriteOptions,
    *,
    overwrite: Overwrite | None = None,
) -> WriteResult:
    """Write `rows` (the table's columns, its types; perhaps COMBINED) into new file groups as one commit.

    The rows are evaluated once, while the commit is inflight. With `overwrite` they replace its file groups.
    Raises WriteRefusedError for rows without a record key, WriteConflictError, UnsupportedTableError,
    StorageError, and Spark's own exceptions; the table is then as before.
    """
    if options.index.has_rings:
        raise UnsupportedTableError(
            f"{table.base_path} has a consistent hashing index, whose file groups cannot be overwritten: "
            "readers would not see later rows in them",
            hint="DELETE the old rows, then INSERT the new ones",
        )
    return commit_files(
        table,
        bulk_insert_operation_type(overwrite),
        table.schema,
        lambda commit: write_new_rows(spark, commit, rows, options, table.schema),
        overwrite,
        concurrency=options.concurrency,
        checkpoint=options.checkpoint,
        extra_metadata=options.extra_metadata,
    )


def bulk_insert_partition(
    write_context: WriteContext,
    paths: PartitionPaths,
    number: int,
    attempt: int,
    batches: Iterable[pa.RecordBatch],
    *,
    most_open: int = 1,
) -> Iterator[WrittenFile]:
    """Write the rows of one Spark partition; rows of one table partition need not be consecutive.

    Memory: a row group for each of `most_open` table partitions (with a bucket index: of their buckets); a
    further one closes the least recently used file. Raises WriteRefusedError for rows without a record key,
    WriteConflictError, StorageError.
    """
    writers: dict[tuple[str, int | None], CreateHandle] = {}
    row_keys = write_context.row_keys(number)
    combined = 0
    try:
        for batch in batches:
            if COMBINED in batch.schema.names:
                combined += pc.sum(batch.column(COMBINED)).as_py() or 0
            for values, bucket, part in _split(batch, paths, write_context.schema):
                check_ordering_values(part, write_context.event_time_fields)
                path = paths.path(values)
                writer = writers.pop((path, bucket), None)
                if writer is None:
                    while len(writers) >= most_open:
                        oldest = next(iter(writers))
                        yield from writers[oldest].finish()
                        del writers[oldest]
                    named, is_new = paths.named(values), paths.existing(path) is None
                    prefix = None if bucket is None else new_file_id_prefix(bucket)
                    task = make_write_task(
                        write_context, number, path, named, is_new_partition=is_new, file_id_prefix=prefix
                    )
                    writer = CreateHandle(write_context, task.of_attempt(attempt), row_keys)
                writers[path, bucket] = writer
                writer.write(part)
        for key in list(writers):
            for file in writers[key].finish():
                yield replace(file, combined=combined)
                combined = 0
            del writers[key]
    finally:
        for writer in writers.values():
            writer.abandon()


def _split(
    batch: pa.RecordBatch, paths: PartitionPaths, schema: pa.Schema
) -> Iterator[tuple[Values, int | None, pa.RecordBatch]]:
    """The rows of each partition, with a bucket index of each bucket in it."""
    rows = conform_batch(batch, schema)
    if HASH_BUCKET not in batch.schema.names:
        yield from ((values, None, part) for values, part in paths.split(rows))
        return
    for values, part in paths.split(rows.append_column(HASH_BUCKET, batch.column(HASH_BUCKET))):
        yield from ((values, bucket, inner) for bucket, inner in split_by(part, HASH_BUCKET))


def write_new_rows(
    spark: SparkSession, commit: OpenCommit, rows: DataFrame, options: WriteOptions, schema: pa.Schema
) -> list[WrittenFile]:
    """Write `rows` (columns of `schema`) into new file groups of the open commit.

    Raises as `bulk_insert_rows`; the caller rolls the commit back.
    """
    table = commit.table
    paths = PartitionPaths(table, options.key_generator)
    if options.index.buckets is None:
        check_bucket_index_declared(table, slices_until_known(table))
    write_context = make_write_context(commit, options, schema, calendar_settings(spark))

    def write(number: int, attempt: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return encode_written_files(bulk_insert_partition(write_context, paths, number, attempt, batches))

    files = collect_files(_in_order(table, rows, options), write)
    paths.refuse_nested({file.partition_path for file in files})
    return files


def slices_until_known(table: HudiTable) -> Iterator[FileSlice]:
    """The table's slices, lazily: partitions are listed only as far as it is consumed."""
    for partitions in walk_partitions(table):
        yield from load_file_slices(table, partitions)


def _in_order(table: HudiTable, rows: DataFrame, options: WriteOptions) -> DataFrame:
    """The rows spread over Spark's partitions and sorted in them, as `hoodie.bulkinsert.sort.mode` says."""
    partition = [quote_name(column.name) for column in table.partition_columns]
    if options.key_generator is not None:
        rows = rows.withColumn(GENERATED_PATH, path_column(table, options.key_generator))
        partition = [quote_name(GENERATED_PATH)]
    if options.index.buckets is not None:
        buckets, generator = options.index.buckets, options.key_generator
        bucket = bucket_column(table, buckets, generator, complex_keys=options.complex_keys)
        rows = rows.withColumn(HASH_BUCKET, bucket)
        return rows.repartition(*partition, HASH_BUCKET).sortWithinPartitions(*partition, HASH_BUCKET)
    if options.sort_columns:
        return rows.orderBy(*partition, *(quote_name(name) for name in options.sort_columns))
    keys = [quote_name(name.split(".")[0]) for name in table.properties.record_key_fields]
    if options.sort_mode == "global" and (partition or keys):
        return rows.orderBy(*partition, *keys)
    if options.sort_mode == "local" and (partition or keys):
        return rows.sortWithinPartitions(*partition, *keys)
    if options.sort_mode == "partition" and (
        partition or int(optimized_plan(rows).stats().sizeInBytes()) < _FEW_BYTES
    ):
        rows = rebalance(rows, partition)
    return rows.sortWithinPartitions(*partition) if partition else rows
