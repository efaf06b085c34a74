"""Apply few changes to small file slices in one process, without a Spark job.

The steps are those of `apply` (workload profile, partitioner, write handles) on Arrow columns. For small
statements, where starting Spark jobs takes longer than the work, and for writers without a SparkSession.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.keys.record_keys import render_record_keys
from hudisql.read.calendar.hybrid_calendar import CalendarSettings
from hudisql.read.files.conform import conform_batch
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.write.changes import (
    COMBINED,
    FILE_GROUP,
    NEW_ROWS,
    OPERATION,
    PARTITION,
    change_schema,
)
from hudisql.write.execution.changed_slices import check_slices_found
from hudisql.write.execution.hash_bucket_plan import plan_hash_buckets
from hudisql.write.execution.partitioner import (
    HASH_RANGE,
    BucketInfo,
    BucketPlan,
    InsertBuckets,
    assign_buckets,
    bucket_bytes,
)
from hudisql.write.execution.write_context import (
    WriteContext,
    WriteTask,
    WrittenFile,
    make_write_context,
    make_write_task,
)
from hudisql.write.execution.write_tasks import BUCKET, write_buckets
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.bucket_index import buckets_of_new_rows, check_bucket_index_declared
from hudisql.write.keygen.partition_paths import PartitionPaths, Values
from hudisql.write.transaction.commit import OpenCommit
from hudisql.write.transaction.pending_table_services import exclude_pending_clustering

# The most files that one process writes as fast as Spark's tasks, including their start.
_MOST_BUCKETS: Final = 16


@dataclass(frozen=True)
class FewChanges:
    """Changes in memory, and their workload profile (Hudi's `WorkloadProfile`).

    `rows` have the columns of `change_schema`. `paths` are the partition paths of all rows, `hash_buckets`
    the buckets of new rows if the table has a bucket index. `values` are those of the partitions of new rows.
    `combined` is the number of incoming rows that newer rows of their keys replaced. A new row with a chosen
    file group counts as a changed row.
    """

    rows: pa.Table
    is_new: npt.NDArray[np.bool_]
    paths: pa.Array
    hash_buckets: npt.NDArray[np.int64] | None
    changed: Mapping[tuple[str, str], int]
    new_rows: Mapping[str, int]
    new_buckets: Mapping[tuple[str, int], int]
    values: Mapping[str, Values]
    combined: int


def profile_few_changes(
    table: HudiTable, changes: pa.Table, schema: pa.Schema, options: WriteOptions, paths: PartitionPaths
) -> FewChanges:
    """Count the changes (columns of `change_schema(schema)`, perhaps COMBINED) by their target.

    Raises WriteRefusedError for partition values that a directory cannot have.
    """
    wanted = change_schema(schema)
    parts = [conform_batch(batch, wanted) for batch in changes.combine_chunks().to_batches()]
    rows = pa.Table.from_batches(parts, wanted).combine_chunks()
    is_new = goes_anywhere(rows)
    new_mask = pa.array(is_new)
    placing = rows.select(paths.names if paths.names else schema.names)
    new_paths, values = _paths_of_new_rows(placing.filter(new_mask), paths)
    path_of_row = _column(rows, PARTITION)
    if len(new_paths):
        path_of_row = pc.replace_with_mask(path_of_row, pa.array(is_new), new_paths)
    groups = pa.table([path_of_row, _column(rows, FILE_GROUP)], names=["path", "group"])
    changed = {(path, group): count for path, group, count in _counted(groups.filter(pa.array(~is_new)))}
    new_rows = dict(_counted(pa.table([new_paths], names=["path"])))
    hash_buckets, new_buckets = _hash_buckets(table, rows, is_new, new_paths, options)
    combined = pc.sum(changes.column(COMBINED)).as_py() or 0 if COMBINED in changes.schema.names else 0
    return FewChanges(
        rows, is_new, path_of_row, hash_buckets, changed, new_rows, new_buckets, values, combined
    )


def is_small(table: HudiTable, few: FewChanges, options: WriteOptions, paths: PartitionPaths) -> bool:
    """True if the file slices that the changes go to are few and small."""
    if not options.driver_max_bytes:
        return False
    plan = plan_few_changes(table, few, options, paths)[1]
    sizes = [bucket_bytes(bucket, options.sizing.bytes_per_row) for bucket in plan.buckets]
    return len(sizes) <= _MOST_BUCKETS and sum(sizes) <= options.driver_max_bytes


def plan_few_changes(
    table: HudiTable, few: FewChanges, options: WriteOptions, paths: PartitionPaths
) -> tuple[list[FileSlice], BucketPlan]:
    """The latest slices of the affected partitions, and the bucket of each change.

    Raises WriteRefusedError and UnsupportedTableError for tables whose bucket index is not as configured.
    """
    concerned = {path for path, _ in few.changed} | set(few.new_rows)
    slices = exclude_pending_clustering(table, load_file_slices(table, paths.all_existing(concerned)))
    check_slices_found(table, slices, few.changed)
    if options.index.buckets is not None:
        return slices, plan_hash_buckets(table, slices, few.changed, few.new_buckets, options.index.buckets)
    if few.new_rows:
        check_bucket_index_declared(table, slices)
    return slices, assign_buckets(slices, few.changed, few.new_rows, options.sizing)


def write_few_changes(
    commit: OpenCommit,
    few: FewChanges,
    schema: pa.Schema,
    options: WriteOptions,
    paths: PartitionPaths,
    calendars: CalendarSettings,
) -> list[WrittenFile]:
    """Write all changes, one slice after another. Raises WriteRefusedError, WriteConflictError, StorageError.

    Memory: the changes, and that of `write_buckets` for one slice.
    """
    table = commit.table
    slices, plan = plan_few_changes(table, few, options, paths)
    write_context = make_write_context(commit, options, schema, calendars, slices=slices)
    tasks = {
        bucket.number: make_bucket_task(write_context, bucket, paths, few.values.get(bucket.partition_path))
        for bucket in plan.buckets
    }
    routed = few.rows.append_column(BUCKET, pa.array(_bucket_of_rows(table, few, plan, options)))
    return list(write_buckets(write_context, tasks, 0, routed.combine_chunks().to_batches()))


def make_bucket_task(
    write_context: WriteContext, bucket: BucketInfo, paths: PartitionPaths, values: Values | None
) -> WriteTask:
    """The task of a bucket; `values` are those of a new partition."""
    partition = paths.existing(bucket.partition_path)
    found = partition.values if partition is not None else values
    assert found is not None  # only new rows create partitions, whose values are known
    return make_write_task(
        write_context,
        bucket.number,
        bucket.partition_path,
        paths.named(found),
        is_new_partition=partition is None,
        file_slice=bucket.file_slice,
        rows=bucket.rows,
        file_id_prefix=bucket.file_id_prefix,
    )


def goes_anywhere(changes: pa.Table) -> npt.NDArray[np.bool_]:
    """True for the new rows without a chosen file group."""
    is_new = pc.is_in(changes.column(OPERATION), value_set=pa.array(NEW_ROWS, pa.int8()))
    return np.asarray(pc.and_(is_new, pc.is_null(changes.column(FILE_GROUP))).to_numpy(), bool)


def _paths_of_new_rows(new: pa.Table, paths: PartitionPaths) -> tuple[pa.Array, dict[str, Values]]:
    """The partition path of each new row, and the values of each path."""
    values: dict[str, Values] = {}
    found = [pa.array([], pa.string())]
    for batch in new.combine_chunks().to_batches():
        for each, _ in paths.split(batch):
            values.setdefault(paths.path(each), each)
        found.append(paths.of(batch))
    return pa.concat_arrays(found), values


def _counted(keys: pa.Table) -> list[Any]:
    """The distinct rows as tuples, each with its number. A group_by would start threads even for few rows."""
    columns = [column.combine_chunks().dictionary_encode("encode") for column in keys.columns]
    codes = np.zeros(keys.num_rows, np.int64)
    for column in columns:
        codes = codes * max(len(column.dictionary), 1) + column.indices.to_numpy()
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    values = [column.take(pa.array(first)).to_pylist() for column in columns]
    return list(zip(*values, counts.tolist(), strict=True))


def _hash_buckets(
    table: HudiTable,
    rows: pa.Table,
    is_new: npt.NDArray[np.bool_],
    new_paths: pa.Array,
    options: WriteOptions,
) -> tuple[npt.NDArray[np.int64] | None, dict[tuple[str, int], int]]:
    """With a bucket index the bucket of each new row, and the counts by partition path and bucket."""
    buckets = options.index.buckets
    if buckets is None:
        return None, {}
    of_rows = np.full(rows.num_rows, -1, np.int64)
    counts: dict[tuple[str, int], int] = defaultdict(int)
    new = rows.filter(pa.array(is_new))
    if new.num_rows:
        fields = table.properties.record_key_fields
        keys = render_record_keys(new.combine_chunks(), fields, complex_keys=options.complex_keys).keys
        of_rows[is_new] = buckets_of_new_rows(table, buckets, keys, new_paths)
        for path, bucket in zip(new_paths.to_pylist(), of_rows[is_new].tolist(), strict=True):
            counts[path, bucket] += 1
    return of_rows, dict(counts)


def _bucket_of_rows(
    table: HudiTable, few: FewChanges, plan: BucketPlan, options: WriteOptions
) -> npt.NDArray[np.int32]:
    found = np.zeros(few.rows.num_rows, np.int32)
    groups = _column(few.rows, FILE_GROUP)
    for (path, file_id), number in plan.of_file_group.items():
        inside = pc.and_(pc.equal(few.paths, path), pc.equal(groups, file_id))
        found[np.asarray(pc.fill_null(inside, False), dtype=bool) & ~few.is_new] = number
    fields = table.properties.record_key_fields
    is_plain = bool(fields) and all(field in few.rows.schema.names for field in fields)
    keyed = few.rows.select(fields) if is_plain else few.rows
    for path, spread in plan.of_new_rows.items():
        at = np.flatnonzero(np.asarray(pc.equal(few.paths, path), dtype=bool) & few.is_new)
        if few.hash_buckets is not None:
            found[at] = np.asarray(spread.buckets, np.int32)[few.hash_buckets[at]]
        else:
            found[at] = _spread(_ranks(table, keyed.take(pa.array(at)), options), spread)
    return found


def _ranks(table: HudiTable, rows: pa.Table, options: WriteOptions) -> npt.NDArray[np.int64]:
    """A number for each new row of a partition, the same for equal keys: these go to one file group."""
    fields = table.properties.record_key_fields
    if not fields:
        return np.arange(rows.num_rows, dtype=np.int64)
    keys = render_record_keys(rows.combine_chunks(), fields, complex_keys=options.complex_keys).keys
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    return np.asarray(pc.fill_null(keys, "").dictionary_encode().indices, dtype=np.int64)


def _spread(ranks: npt.NDArray[np.int64], spread: InsertBuckets) -> npt.NDArray[np.int32]:
    """The bucket of each new row of a partition."""
    hashes = ranks * HASH_RANGE // (int(ranks.max()) + 1)
    at = np.searchsorted(np.asarray(spread.bounds, np.int64), hashes, side="right")
    return np.asarray(spread.buckets, np.int32)[np.minimum(at, len(spread.buckets) - 1)]


def _column(rows: pa.Table, name: str) -> pa.Array:
    column: pa.Array = rows.column(name).combine_chunks()
    return column
