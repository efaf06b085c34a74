"""Rewrite file slices unchanged: each becomes a base file of its file group, all in one commit.

As a copy-on-write merge without changes (`HoodieMergeHandle`): rows keep their values, keys, commit times and
sequence numbers. Bootstrapped slices then no longer need their source files. Knows neither SQL text nor the
metastore.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.format.paths.file_names import FileGroup
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS
from hudisql.read.scan.arrow_scan import calendar_settings
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import partition_of, partitions_at
from hudisql.write.execution.commit_files import WriteResult, commit_files
from hudisql.write.execution.task_results import collect_files, encode_written_files
from hudisql.write.execution.write_context import WrittenFile, make_write_context, make_write_task
from hudisql.write.execution.write_tasks import rewrite_slice
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.transaction.commit import OpenCommit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPERATION_TYPE: Final = "UPSERT"
_TASKS_A_CORE: Final = 4


def rewrite_bootstrapped_slices(
    spark: SparkSession, table: HudiTable, file_groups: Collection[FileGroup], options: WriteOptions
) -> WriteResult:
    """Turn the latest slices of these file groups (partition path, file id) into base files.

    Log files are merged into them. File groups that are no longer bootstrapped are skipped; without others
    there is no commit. Raises WriteConflictError, UnsupportedTableError, SourceChangedError, StorageError,
    and Spark's own exceptions; the table is then as before.
    """
    if not file_groups:
        return WriteResult(None)
    return commit_files(
        table,
        OPERATION_TYPE,
        table.schema,
        lambda commit: _write_files(spark, commit, frozenset(file_groups), options),
        concurrency=options.concurrency,
        changed=file_groups,
    )


def _write_files(
    spark: SparkSession, commit: OpenCommit, file_groups: frozenset[FileGroup], options: WriteOptions
) -> list[WrittenFile]:
    table = commit.table
    paths = {path for path, _ in file_groups}
    partitions = partitions_at(table, paths)
    slices = [
        file_slice
        for file_slice in load_file_slices(table, partitions)
        if file_slice.is_bootstrapped and file_slice.file_group in file_groups
    ]
    return rewrite_slices(spark, commit, slices, options)


def rewrite_slices(
    spark: SparkSession | None,
    commit: OpenCommit,
    slices: Sequence[FileSlice],
    options: WriteOptions,
    *,
    first_attempt: int = 0,
) -> list[WrittenFile]:
    """Let Spark tasks write each slice, log files merged into it, as a base file of the commit.

    Without Spark this process writes them one after the other.

    Attempts of tasks are numbered from `first_attempt`, so that a second run of an instant never writes files
    of the same name. Raises WriteConflictError, UnsupportedTableError, StorageError.
    """
    if not slices:
        return []
    table = commit.table
    paths = {file_slice.partition_path for file_slice in slices}
    values = {path: partition_of(table, path).values for path in paths}
    write_context = replace(
        make_write_context(
            commit,
            options,
            table.schema,
            DEFAULT_CALENDARS if spark is None else calendar_settings(spark),
            slices=slices,
        ),
        appends=False,
        change_log=None,
    )
    names = [column.name for column in table.partition_columns]
    write_tasks = (
        make_write_task(
            write_context,
            number,
            each.partition_path,
            dict(zip(names, values[each.partition_path], strict=True)),
            is_new_partition=False,
            file_slice=each,
        )
        for number, each in enumerate(slices)
    )
    if spark is None:
        return [
            written
            for task in write_tasks
            for written in rewrite_slice(write_context, task.of_attempt(first_attempt))
        ]
    tasks = [pickle.dumps(write_task) for write_task in write_tasks]
    shared = spark.sparkContext.broadcast(tasks)

    def write(_: int, attempt: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        return encode_written_files(
            written
            for number in numbers
            for written in rewrite_slice(
                write_context, pickle.loads(shared.value[number]).of_attempt(first_attempt + attempt)
            )
        )

    parts = min(len(tasks), _TASKS_A_CORE * spark.sparkContext.defaultParallelism)
    return collect_files(spark.range(0, len(tasks), 1, numPartitions=parts), write)
