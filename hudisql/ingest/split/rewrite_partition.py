"""The split itself: the rows of a partition move to new file groups, one for each hash bucket, in one commit.

One replacecommit of the operation CLUSTER, since rows move without changes: they keep their meta columns
except for the file name. It is requested like an overwrite, not like a clustering: if its writer dies, the
next one rolls it back, and no pending plan blocks other writers. Runs in one process, without Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.keys.bucket_id import bucket_ids
from hudisql.format.paths.split_file_id import split_file_id_prefixes
from hudisql.format.schema.internal_columns import internal_column
from hudisql.format.schema.meta_columns import COMMIT_TIME, FILE_NAME, RECORD_KEY
from hudisql.ingest.offsets import OffsetsCheckpoint, TableOffsets
from hudisql.ingest.split.partition_split import bucket_count
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS
from hudisql.read.files.conform import conform_batch
from hudisql.read.merge.merge_mode import log_merge_config_for
from hudisql.read.merge.precombine import newest_first
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.services.planned_run import pending_file_groups
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import list_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import partition_of
from hudisql.write.execution.commit_files import WriteResult, commit_files
from hudisql.write.execution.create_handle import create_file_marker
from hudisql.write.execution.spillable_change_buffer import SpillableChangeBuffer
from hudisql.write.execution.write_context import (
    WriteContext,
    WrittenFile,
    make_write_context,
    make_write_task,
    new_group_file,
)
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.handle.base_file import BaseFileWriter
from hudisql.write.overwrite import Overwrite
from hudisql.write.transaction.commit import OpenCommit
from hudisql.write.transaction.markers import MarkerKind

OPERATION_TYPE: Final = "CLUSTER"
_GROUP: Final = internal_column("group")


@dataclass(frozen=True, slots=True)
class SplitRequest:
    """The partition to split; `offsets` are those of the table's last commit, which stay.

    With `joins_keys` the partition may hold a key in two file groups: the newest row of these stays.
    """

    path: str
    bucket_bytes: int
    offsets: TableOffsets
    extra_metadata: Mapping[str, str]
    joins_keys: bool = False


def can_split(table: HudiTable, path: str) -> bool:
    """False while a compaction or clustering of file groups of the partition is pending, or if it is empty.

    Raises CorruptTableError, StorageError.
    """
    slices = list_file_slices(table, [path], None)
    pending = {group for group in pending_file_groups(table) if group[0] == path}
    return bool(slices) and not pending.intersection(file_slice.file_group for file_slice in slices)


def split_partition(table: HudiTable, options: WriteOptions, request: SplitRequest) -> WriteResult:
    """Rewrite the partition's file groups by hash; all of them are replaced.

    Raises WriteConflictError if another worker has the table, or another writer has changed these file
    groups; TableLockedError, UnsupportedTableError, StorageError. The table stays as it was then.
    Memory holds the rows of one bucket; the rows of others are on the local disk meanwhile.
    """
    return commit_files(
        table,
        OPERATION_TYPE,
        table.schema,
        lambda commit: _write_buckets(commit, options, request),
        Overwrite("touched"),
        concurrency=options.concurrency,
        checkpoint=OffsetsCheckpoint(request.offsets, request.offsets),
        begun=lambda _commit: request.extra_metadata,
    )


def _write_buckets(commit: OpenCommit, options: WriteOptions, request: SplitRequest) -> list[WrittenFile]:
    table = commit.table
    slices = list_file_slices(table, [request.path], None)
    count = bucket_count(sum(file_slice.length for file_slice in slices), request.bucket_bytes)
    context = make_write_context(commit, options, table.schema, DEFAULT_CALENDARS)
    schema = pa.schema([*table.full_schema, pa.field(_GROUP, pa.int32())])
    written: list[WrittenFile] = []
    prefixes = split_file_id_prefixes(count, commit.instant_time)
    with SpillableChangeBuffer(schema) as buffer:
        for number, file_slice in enumerate(slices):
            _add_rows(buffer, table, file_slice, number, count)
        for bucket, prefix in enumerate(prefixes):
            rows = buffer.table(bucket)
            if request.joins_keys:
                rows = _newest_of_groups(rows, table.ordering_fields)
            written += _write_bucket(context, request.path, bucket, prefix, rows.drop_columns([_GROUP]))
    return written


def _add_rows(
    buffer: SpillableChangeBuffer, table: HudiTable, file_slice: FileSlice, group: int, count: int
) -> None:
    """Hand the rows of a slice to their buckets."""
    schema = table.full_schema
    partition = partition_of(table, file_slice.partition_path)
    names = [column.name for column in table.partition_columns]
    read = SliceRead(
        file_slice,
        schema,
        dict(zip(names, partition.values, strict=True)),
        log_merge_config=log_merge_config_for(table, [file_slice]),
    )
    for batch in read_file_slice(table.storage, read):
        rows = conform_batch(batch, schema)
        rows = rows.append_column(_GROUP, pa.array(np.full(rows.num_rows, group, np.int32)))
        numbers = bucket_ids(rows.column(RECORD_KEY), table.properties.record_key_fields, count)
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(count), side="right")
        sorted_rows = rows.take(pa.array(order))
        start = 0
        for bucket, end in enumerate(ends.tolist()):
            if end > start:
                buffer.add(bucket, sorted_rows.slice(start, end - start))
            start = end


def _newest_of_groups(rows: pa.Table, ordering_fields: Sequence[str]) -> pa.Table:
    """The rows without those for whose key another file group has a newer row.

    Several rows of a key in one file group stay: their writer intended them.
    """
    in_order = rows.sort_by([(COMMIT_TIME, "ascending")]).combine_chunks()
    ordered, is_first = newest_first(in_order, (RECORD_KEY,), ordering_fields, last_of_equals=True)
    groups = ordered.column(_GROUP).to_numpy()
    newest = groups[np.flatnonzero(is_first)][np.cumsum(is_first) - 1]
    return ordered.filter(pa.array(groups == newest))


def _write_bucket(
    context: WriteContext, path: str, bucket: int, prefix: str, rows: pa.Table
) -> list[WrittenFile]:
    task = make_write_task(context, bucket, path, {}, is_new_partition=False, rows=rows.num_rows)
    naming = replace(task.file_naming, file_id_prefix=prefix)
    writer = BaseFileWriter(
        context.storage,
        naming,
        context.schema,
        context.avro_schema,
        # A bucket is one file, however large it is.
        replace(context.base_file_config, max_file_bytes=sys.maxsize),
        expected_rows=max(1, rows.num_rows),
        bytes_per_row=context.bytes_per_row,
        create_marker=lambda name: create_file_marker(context, task, name, MarkerKind.CREATE),
        keeps_meta_columns=True,
    )
    try:
        nulls = pa.nulls(rows.num_rows, pa.string())
        unnamed = rows.set_column(rows.schema.get_field_index(FILE_NAME), FILE_NAME, nulls)
        for batch in unnamed.to_batches():
            writer.write(pc.cast(batch.column(RECORD_KEY), pa.string()), batch)
        files = writer.finish(empty_too=True)
    except BaseException:
        writer.abandon()
        raise
    return [new_group_file(file, path, 0) for file in files]
