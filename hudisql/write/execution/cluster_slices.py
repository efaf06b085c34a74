"""Write the slices of clustering groups into new file groups, their rows in a new order.

Follows `MultipleSparkJobExecutionStrategy` and `SparkSortAndSizeExecutionStrategy` of Hudi 0.15: log files
are merged into the rows, which keep their meta columns except the file name. One task writes a group without
an order, or a group of at most half a gigabyte that becomes one file; Spark sorts the rows of other groups.
Knows neither plans nor the metastore.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.keys.hash_ring import HashRing, ring_hashes
from hudisql.format.schema.internal_columns import internal_column
from hudisql.format.schema.meta_columns import FILE_NAME, META_SCHEMA, RECORD_KEY
from hudisql.format.schema.spark_schema import quote_name
from hudisql.read.files.conform import conform_batch, with_dictionaries
from hudisql.read.scan.arrow_scan import calendar_settings, spark_struct
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.spark.python_worker import freeze_loaded_modules
from hudisql.spark.task_errors import carry_errors
from hudisql.spark.versions import repartition_by_id
from hudisql.table.file_slice import FileSlice
from hudisql.table.partitions.listed_partitions import partition_of
from hudisql.write.execution.create_handle import create_file_marker
from hudisql.write.execution.late_attempts import fence_late_attempt
from hudisql.write.execution.sorted_rows import can_sort, sorted_rows
from hudisql.write.execution.space_filling_curves import curve_values
from hudisql.write.execution.task_results import collect_files, encode_written_files
from hudisql.write.execution.write_context import (
    WriteContext,
    WriteTask,
    WrittenFile,
    make_write_context,
    make_write_task,
    new_group_file,
)
from hudisql.write.execution.write_tasks import split_by
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.handle.base_file import BaseFileWriter
from hudisql.write.handle.meta_arrays import UNIQUE_COLUMNS
from hudisql.write.transaction.commit import OpenCommit
from hudisql.write.transaction.markers import MarkerKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GROUP: Final = internal_column("group")
_CURVE: Final = internal_column("curve")
_MOST_SORTED_BYTES: Final = 512 << 20
"""The most bytes of files in a group that one task sorts; as Arrow rows they are on its local disk."""


@dataclass(frozen=True, slots=True)
class RingBucket:
    """One bucket of a consistent hashing index, whose keys are hashed by `fields` as in a version."""

    ring: HashRing
    number: int
    fields: tuple[str, ...]
    version: int

    @property
    def file_id_prefix(self) -> str:
        """The file id of its file group, without the `-0` that its writer adds."""
        return self.ring.file_id_prefixes[self.number]

    def rows_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that belong to the bucket."""
        keys = pc.cast(batch.column(RECORD_KEY), pa.string())
        numbers = self.ring.buckets_of(ring_hashes(keys, self.fields, version=self.version))
        return batch.filter(pa.array(numbers == self.number))


@dataclass(frozen=True, slots=True)
class SliceGroup:
    """Slices of one partition that become about `output_files` new file groups.

    With `bucket` only the rows of this bucket are written, into its file group.
    """

    partition_path: str
    slices: tuple[FileSlice, ...]
    output_files: int
    bucket: RingBucket | None = None


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The columns by which rows are sorted, one after the other or along a curve; empty: not sorted."""

    columns: tuple[str, ...] = ()
    layout: Literal["linear", "z-order", "hilbert"] = "linear"

    @property
    def is_curve(self) -> bool:
        """True if the columns become one position on a curve; a single column keeps its own order."""
        return self.layout != "linear" and len(self.columns) > 1


def cluster_slices(
    spark: SparkSession,
    commit: OpenCommit,
    groups: Sequence[SliceGroup],
    order: RowOrder,
    options: WriteOptions,
    *,
    first_attempt: int,
) -> list[WrittenFile]:
    """Let Spark tasks write the groups' rows as base files of the commit.

    Attempts of tasks are numbered from `first_attempt`, so that a second run of an instant never writes files
    of the same name. Raises SourceChangedError, UnsupportedTableError, WriteConflictError, StorageError, and
    Spark's own exceptions.
    """
    job, sorted_by_spark = _make_job(spark, commit, groups, order, options).with_single_tasks_last()
    shared = spark.sparkContext.broadcast(pickle.dumps(job))
    others, single = range(sorted_by_spark), range(sorted_by_spark, len(groups))

    def write_sorted(number: int, attempt: int, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        own: _Job = pickle.loads(shared.value)
        return encode_written_files(own.write(number, first_attempt + attempt, rows))

    def write_groups(_: int, attempt: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        own: _Job = pickle.loads(shared.value)
        numbers = [single[unit] for batch in batches for unit in batch.column(0).to_pylist()]
        return encode_written_files(
            written
            for number in numbers
            for written in own.write(number, first_attempt + attempt, own.read_group(number))
        )

    written: list[WrittenFile] = []
    if single:
        written += collect_files(spark.range(0, len(single), 1, numPartitions=len(single)), write_groups)
    if others:
        written += collect_files(_sorted_by_spark(spark, job, others, shared), write_sorted)
    return written


@dataclass(frozen=True, slots=True)
class _Job:
    """Shared by all tasks: the groups, their partition values, and how files are read and written."""

    context: WriteContext
    groups: tuple[SliceGroup, ...]
    values: tuple[Mapping[str, object], ...]
    order: RowOrder
    schema: pa.Schema

    def read_slice(self, number: int, file_slice: FileSlice) -> Iterator[pa.RecordBatch]:
        """The slice's rows with their meta columns, the file name null, and the number of its group."""
        read = SliceRead(
            file_slice,
            self.schema,
            self.values[number],
            calendars=self.context.calendars,
            log_merge_config=self.context.log_merge_config,
        )
        place = self.schema.get_field_index(FILE_NAME)
        bucket = self.groups[number].bucket
        for batch in read_file_slice(self.context.storage, read):
            if bucket is not None:
                batch = bucket.rows_of(batch)
            # Each writer sets its own file name, so the old names are not sorted with the rows.
            batch = batch.set_column(place, FILE_NAME, pa.nulls(batch.num_rows, pa.string()))
            yield batch.append_column(_GROUP, pa.array(np.full(batch.num_rows, number, np.int32)))

    def is_single_task(self, number: int) -> bool:
        """True if one task reads, sorts and writes the group."""
        group = self.groups[number]
        is_small = (
            group.output_files == 1
            and sum(file_slice.length for file_slice in group.slices) <= _MOST_SORTED_BYTES
        )
        sorts = all(can_sort(self.schema.field(name).type) for name in self.order.columns)
        return not self.order.columns or (is_small and sorts)

    def with_single_tasks_last(self) -> tuple[_Job, int]:
        """The job with the groups that Spark sorts first, and their number.

        Spark uses their numbers as partition numbers: a gap would be a partition without rows.
        """
        numbers = sorted(range(len(self.groups)), key=self.is_single_task)
        groups = tuple(self.groups[number] for number in numbers)
        values = tuple(self.values[number] for number in numbers)
        count = sum(not self.is_single_task(number) for number in numbers)
        return replace(self, groups=groups, values=values), count

    def read_group(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of one group: slice by slice, or in their order."""
        rows = chain.from_iterable(
            self.read_slice(number, file_slice) for file_slice in self.groups[number].slices
        )
        if not self.order.columns:
            yield from rows
            return
        encoded = [name for name in self.sorted_schema.names if name not in UNIQUE_COLUMNS]
        for batch in sorted_rows(map(self.with_curve, rows), self.sorted_schema, self.sort_keys, encoded):
            yield batch.drop_columns([_CURVE]) if self.order.is_curve else batch

    @property
    def sort_keys(self) -> tuple[str, ...]:
        """The columns by which rows are sorted."""
        return (_CURVE,) if self.order.is_curve else self.order.columns

    @property
    def sorted_schema(self) -> pa.Schema:
        """The columns of the rows that are sorted: the table's, the group and the position on the curve."""
        curve = [pa.field(_CURVE, pa.binary())] if self.order.is_curve else []
        return pa.schema([*self.schema, pa.field(_GROUP, pa.int32()), *curve])

    def with_curve(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the position of each row on the curve, if the order is one."""
        if not self.order.is_curve or self.order.layout == "linear":
            return batch
        names = self.order.columns
        columns = [batch.column(name) for name in names]
        return batch.append_column(_CURVE, curve_values(columns, names, self.order.layout))

    def write(self, number: int, attempt: int, batches: Iterable[pa.RecordBatch]) -> Iterator[WrittenFile]:
        """Write rows that come group by group; `number` is that of the Spark partition, or of the group."""
        handle: _ClusteringHandle | None = None
        try:
            for batch in batches:
                for group, rows in split_by(batch, _GROUP):
                    if handle is not None and handle.group != group:
                        yield from handle.finish()
                        handle = None
                    if handle is None:
                        handle = _ClusteringHandle(self, group, self._task(number, group).of_attempt(attempt))
                    handle.write(conform_batch(rows, with_dictionaries(self.schema, rows.schema)))
            if handle is not None:
                yield from handle.finish()
                handle = None
        finally:
            if handle is not None:
                handle.abandon()

    def _task(self, number: int, group: int) -> WriteTask:
        path, bucket = self.groups[group].partition_path, self.groups[group].bucket
        return make_write_task(
            self.context,
            number,
            path,
            self.values[group],
            is_new_partition=False,
            file_id_prefix=None if bucket is None else bucket.file_id_prefix,
        )


class _ClusteringHandle:
    """Writes the new file groups of one clustering group in one task."""

    def __init__(self, job: _Job, group: int, task: WriteTask) -> None:
        self.group = group
        self._job = job
        self._task = task
        context = job.context
        self._writer = BaseFileWriter(
            context.storage,
            task.file_naming,
            context.schema,
            context.avro_schema,
            context.base_file_config,
            expected_rows=None,
            bytes_per_row=context.bytes_per_row,
            create_marker=lambda name: create_file_marker(context, task, name, MarkerKind.CREATE),
            keeps_meta_columns=True,
        )

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows with their meta columns."""
        self._writer.write(rows.column(RECORD_KEY), rows)

    def finish(self) -> list[WrittenFile]:
        """Close the files."""
        partition_path = self._task.file_naming.partition_path
        written = [new_group_file(file, partition_path, 0) for file in self._writer.finish()]
        fence_late_attempt(self._job.context, written)
        return written

    def abandon(self) -> None:
        """Delete the files."""
        self._writer.abandon()


def _make_job(
    spark: SparkSession,
    commit: OpenCommit,
    groups: Sequence[SliceGroup],
    order: RowOrder,
    options: WriteOptions,
) -> _Job:
    table = commit.table
    paths = {group.partition_path for group in groups}
    names = [column.name for column in table.partition_columns]
    values = {path: dict(zip(names, partition_of(table, path).values, strict=True)) for path in paths}
    slices = [file_slice for group in groups for file_slice in group.slices]
    context = make_write_context(commit, options, table.schema, calendar_settings(spark), slices=slices)
    return _Job(
        replace(context, appends=False),
        tuple(groups),
        tuple(values[group.partition_path] for group in groups),
        order,
        pa.schema([*META_SCHEMA, *table.schema]),
    )


def _sorted_by_spark(spark: SparkSession, job: _Job, groups: Sequence[int], shared: object) -> DataFrame:
    """The rows of the groups, a Spark partition for each output file, sorted in it."""
    units = [(number, position) for number in groups for position in range(len(job.groups[number].slices))]

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        own: _Job = pickle.loads(shared.value)  # type: ignore[attr-defined]
        for batch in batches:
            for unit in batch.column(0).to_pylist():
                number, position = units[unit]
                rows = own.read_slice(number, own.groups[number].slices[position])
                for error in carry_errors(rows):
                    yield own.with_curve(error)
        freeze_loaded_modules()

    keys = [quote_name(name) for name in job.sort_keys]
    rows = spark.range(0, len(units), 1, numPartitions=len(units)).mapInArrow(
        read, spark_struct(job.sorted_schema)
    )
    outputs = sum(job.groups[number].output_files for number in groups)
    if outputs > len(groups):
        rows = rows.repartitionByRange(outputs, _GROUP, *keys)
    else:
        rows = repartition_by_id(rows, outputs, rows[_GROUP])
    rows = rows.sortWithinPartitions(_GROUP, *keys)
    return rows.drop(_CURVE) if job.order.is_curve else rows
