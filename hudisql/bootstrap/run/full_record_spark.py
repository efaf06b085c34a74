"""Rewrites full-record partitions by Spark's own parquet scan: for a sort, and for dates of older calendars.

Spark rebases dates and timestamps of the hybrid calendar (files of Spark 2, or written in LEGACY mode), as
`DataSourceUtils` does for its own queries, and sorts by range as Hudi's `GlobalSortPartitioner` and
`PartitionSortPartitionerWithRows` do. The rows then go through the same writer as those of `full_record`.
Knows plans and Spark.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hudisql.bootstrap.files.full_record import FullRecordFile, FullRecordSink, FullRecordTask
from hudisql.bootstrap.lease.target_lease import Lease
from hudisql.bootstrap.source.source_files import TableReadByName
from hudisql.bootstrap.source.table_rows import FILE_COLUMN, path_of_uri, rows_by_name
from hudisql.errors import SourceError
from hudisql.format.paths.file_names import new_file_id, write_token
from hudisql.format.paths.ignored_names import is_ignored
from hudisql.format.schema.spark_schema import quote_name
from hudisql.read.files.conform import batch_of, conform_batch, constant_column
from hudisql.read.scan.native_scan import native_dataframe
from hudisql.read.scan.scan_plan import ScanPlan
from hudisql.spark.python_worker import complete_input, freeze_loaded_modules
from hudisql.spark.task_errors import carry_errors, spark_job
from hudisql.storage import Storage
from hudisql.table.file_slice import BaseFile, FileSlice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hudisql.context import Context


@dataclass(frozen=True, slots=True)
class SparkRewrite:
    """Spark's input and one kind of task for each partition path; `sort_mode` is Hudi's name.

    A task's inputs are all source files of its partition; its naming is that of the first of several tasks
    that may write to the partition, numbered from `first_number` on. `is_vectorized` is False if Spark has to
    read row by row. With `read_by_name` the files are not parquet, and Spark reads them as that table.
    """

    tasks: tuple[FullRecordTask, ...]
    partition_columns: tuple[str, ...]
    sort_mode: str
    max_file_bytes: int
    first_number: int
    is_vectorized: bool = True
    read_by_name: TableReadByName | None = None


def rewrite_by_spark(
    context: Context, rewrite: SparkRewrite, lease: Lease
) -> list[tuple[str, FullRecordFile]]:
    """Partition path and file of everything written. Raises QueryError."""
    if not rewrite.tasks:
        return []
    spark: Any = context.spark
    frame = _sorted(_source_rows(context, rewrite), rewrite)
    by_file = {source_part.source.path: task for task in rewrite.tasks for source_part in task.inputs}
    tasks = spark.sparkContext.broadcast(pickle.dumps(by_file))
    storage, first_number = context.storage, rewrite.first_number
    ignore = rewrite.read_by_name.ignore if rewrite.read_by_name else ()

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        running = TaskContext.get()
        number = first_number + (running.partitionId() if running is not None else 0)
        by_path: Mapping[str, FullRecordTask] = pickle.loads(tasks.value)
        rows = complete_input(batches)
        for error in carry_errors(_write_partitions(storage, lease, by_path, number, ignore, rows)):
            yield pa.record_batch([pa.array([pickle.dumps(error)], pa.binary())], names=["file"])
        freeze_loaded_modules()

    try:
        with (
            spark_job("the partitions could not be rewritten"),
            context.console.progress("Rewriting partitions by Spark", 1) as progress,
        ):
            rows = frame.mapInArrow(write, "file binary").collect()
            progress.advance()
    finally:
        tasks.unpersist()
    return [pickle.loads(row[0]) for row in rows]


def _source_rows(context: Context, rewrite: SparkRewrite) -> DataFrame:
    """All rows of the tasks' source files as the table has them, with the source file of each."""
    from pyspark.sql import functions

    if rewrite.read_by_name is not None:
        return rows_by_name(context.spark, rewrite.read_by_name, rewrite.tasks[0].schema.names)
    first = rewrite.tasks[0]
    fields = [first.schema.field(name) for name in rewrite.partition_columns]
    slices = tuple(
        (_slice_of(task, number), dict(task.partition_values))
        for task in rewrite.tasks
        for number in range(len(task.inputs))
    )
    plan = ScanPlan(
        base_path=first.naming.directory,
        storage=context.storage,
        mode="native",
        output_schema=first.schema,
        columns=first.schema,
        partition_columns=tuple(fields),
        predicate=None,
        partition_predicate=None,
        partitions_read=len(rewrite.tasks),
        partitions_total=len(rewrite.tasks),
        slices=slices,
        slices_total=None,
        tasks=(),
        splits_total=None,
        is_vectorized=rewrite.is_vectorized,
    )
    return native_dataframe(context.spark, plan).withColumn(FILE_COLUMN, functions.input_file_name())


def _slice_of(task: FullRecordTask, number: int) -> FileSlice:
    naming, source = task.naming, task.inputs[number].source
    file_id = f"{naming.file_id_prefix}-{number}"
    base_file = BaseFile(source.path, source.length, file_id, naming.write_token, naming.instant_time)
    return FileSlice(naming.partition_path, file_id, naming.instant_time, base_file, external_file=source)


def _sorted(frame: DataFrame, rewrite: SparkRewrite) -> DataFrame:
    """The rows in the order of the sort mode; NONE keeps the order of reading."""
    from pyspark.sql import functions

    if rewrite.sort_mode == "NONE":
        return frame
    quoted = [quote_name(name) for name in rewrite.partition_columns]
    keys = [
        ".".join(quote_name(part) for part in name.split(".")) for name in rewrite.tasks[0].record_key_fields
    ]
    # Hudi sorts by the key's text.
    order = [*map(functions.col, quoted), *(functions.col(key).cast("string") for key in keys)]
    if not order:
        return frame
    if rewrite.sort_mode == "GLOBAL_SORT":
        bytes_read = sum(task.bytes for task in rewrite.tasks)
        ranges = max(1, math.ceil(bytes_read / rewrite.max_file_bytes))
        frame = frame.repartitionByRange(ranges, *order)
    return frame.sortWithinPartitions(*order)


def _write_partitions(
    storage: Storage,
    lease: Lease,
    by_path: Mapping[str, FullRecordTask],
    number: int,
    ignore: Sequence[str],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[str, FullRecordFile]]:
    """Write the rows of one Spark task, one partition after the other, each by its own sink."""
    sink: FullRecordSink | None = None
    current: str | None = None
    rows = 0
    try:
        for batch in batches:
            for path, part in _runs(storage, by_path, batch):
                task = by_path.get(path)
                if task is None and is_ignored(path.rpartition("/")[2], ignore):
                    continue
                if task is None:
                    raise SourceError(f"Spark read rows of {path}, which the plan does not name")
                if sink is None or task.naming.partition_path != current:
                    yield from _finished(storage, lease, sink, current)
                    current = task.naming.partition_path
                    sink = FullRecordSink(storage, _numbered(task, number), rows)
                sink.write(path, None, _conform(part, task))
                rows += part.num_rows
        yield from _finished(storage, lease, sink, current)
    except BaseException:
        if sink is not None:
            sink.abandon()
        raise


def _conform(rows: pa.RecordBatch, task: FullRecordTask) -> pa.RecordBatch:
    """The rows as the table has them; the plan knows the values of the partition columns."""
    found = conform_batch(rows, task.schema)
    columns = [
        constant_column(task.partition_values[field.name], field.type, found.num_rows)
        if field.name in task.partition_values
        else found.column(field.name)
        for field in task.schema
    ]
    return batch_of(columns, task.schema, found.num_rows)


def _finished(
    storage: Storage, lease: Lease, sink: FullRecordSink | None, path: str | None
) -> Iterator[tuple[str, FullRecordFile]]:
    files = sink.finish() if sink is not None else []
    lease.fence_late_attempt(storage, [file.path for file in files])
    for file in files:
        yield path or "", file


def _numbered(task: FullRecordTask, number: int) -> FullRecordTask:
    """The task with unique file ids: a Spark task may return to a partition, or be retried."""
    token = write_token(number, 0, number)
    naming = replace(task.naming, file_id_prefix=new_file_id(), write_token=token, task_partition_id=number)
    return replace(task, naming=naming)


def _runs(
    storage: Storage, known: Container[str], batch: pa.RecordBatch
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The batch split into runs of rows of one source file, without the column of its path."""
    files = batch.column(batch.schema.get_field_index(FILE_COLUMN)).dictionary_encode()
    indices = files.indices.to_numpy(zero_copy_only=False)
    rows = batch.drop_columns([FILE_COLUMN])
    starts = [0, *(np.flatnonzero(np.diff(indices)) + 1).tolist(), len(indices)]
    paths = [path_of_uri(storage, uri, known) for uri in files.dictionary.to_pylist()]
    for start, stop in pairwise(starts):
        if start < stop:
            yield paths[indices[start]], rows.slice(start, stop - start)
