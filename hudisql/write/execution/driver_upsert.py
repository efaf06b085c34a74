"""Upserts and deletes by key in one process, without Spark.

For writers that have no SparkSession (`df.write.format("hudi")` commits in a Python process beside the
driver). The steps are those of `upsert` and `apply`: precombine, key look-up in the slices of the partition
(Hudi's BLOOM and SIMPLE indexes), buckets, and writing, one slice after another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.read.hybrid_calendar import DEFAULT_CALENDARS
from hudisql.read.merge_mode import LogMergeConfig, log_merge_config_of
from hudisql.read.precombine import newest_first
from hudisql.table.file_slice import FileSlice
from hudisql.table.snapshot import load_file_slices
from hudisql.write.changes import (
    FILE_GROUP,
    OPERATION,
    PARTITION,
    RECORD_KEY,
    Operation,
    change_schema,
)
from hudisql.write.execution.apply import make_bucket_task
from hudisql.write.execution.partitioner import HASH_RANGE, InsertBuckets, assign_buckets
from hudisql.write.execution.upsert import IS_DELETED
from hudisql.write.execution.write_context import WrittenFile, make_write_context
from hudisql.write.execution.write_tasks import BUCKET, write_buckets
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.slice_key_lookup import SliceLookup, find_keys
from hudisql.write.keygen.partition_paths import PartitionPaths, Values
from hudisql.write.transaction.commit import OpenCommit
from hudisql.write.transaction.pending_table_services import exclude_pending_clustering


@dataclass
class _Tagged:
    """The tagged incoming rows, as changes without their bucket."""

    of_group: dict[tuple[str, str], list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    new: dict[str, pa.Table] = field(default_factory=dict)


def upsert_on_driver(
    commit: OpenCommit, options: WriteOptions, paths: PartitionPaths, rows: pa.Table, *, deletes: bool = False
) -> list[WrittenFile]:
    """Write the rows (the table's columns, RECORD_KEY, PARTITION) by key; with `deletes` delete their keys.

    Memory: the rows, and what `write_buckets` takes for one slice. Raises what `write_buckets` raises.
    """
    table = commit.table
    newest = precombine_rows(rows, table.properties.precombine_field)
    of_path = _values_of(newest, paths)
    partitions = [paths.existing[path] for path in sorted(of_path) if path in paths.existing]
    slices = exclude_pending_clustering(table, load_file_slices(table, partitions))
    log_merge_config = log_merge_config_of(table) if any(each.has_log_files for each in slices) else None
    tagged = _tag(commit, options, newest, slices, log_merge_config, deletes=deletes)
    changed = {group: sum(part.num_rows for part in parts) for group, parts in tagged.of_group.items()}
    new_rows = {path: part.num_rows for path, part in tagged.new.items()}
    plan = assign_buckets(slices, changed, new_rows, options.sizing)
    write_context = make_write_context(
        commit, options, table.schema, DEFAULT_CALENDARS, log_merge_config=log_merge_config
    )
    tasks = {
        each.number: make_bucket_task(write_context, each, paths, of_path.get(each.partition_path))
        for each in plan.buckets
    }

    def batches() -> Iterator[pa.RecordBatch]:
        for group, parts in tagged.of_group.items():
            for part in parts:
                yield from _in_buckets(part, np.full(part.num_rows, plan.of_file_group[group], np.int32))
        for path, part in tagged.new.items():
            yield from _in_buckets(part, _spread(part.num_rows, plan.of_new_rows[path]))

    return list(write_buckets(write_context, tasks, 0, batches()))


def precombine_rows(rows: pa.Table, precombine_field: str | None) -> pa.Table:
    """One row for each key and partition: the one with the highest ordering value, else the first."""
    if not rows.num_rows:
        return rows
    ordered, is_first = newest_first(rows, (PARTITION, RECORD_KEY), precombine_field)
    return ordered.filter(pa.array(is_first))


def _values_of(rows: pa.Table, paths: PartitionPaths) -> dict[str, Values]:
    """The partition paths of the rows with the values that stand for them. Raises WriteRefusedError."""
    data = rows.drop_columns([RECORD_KEY, PARTITION])
    found: dict[str, Values] = {}
    for batch in data.to_batches():
        for values, _ in paths.split(batch):
            found.setdefault(paths.path(values), values)
    return found


def _tag(
    commit: OpenCommit,
    options: WriteOptions,
    rows: pa.Table,
    slices: Sequence[FileSlice],
    log_merge_config: LogMergeConfig | None,
    *,
    deletes: bool,
) -> _Tagged:
    storage, schema = commit.table.storage, commit.table.schema
    of_path: Mapping[str, list[FileSlice]] = defaultdict(list)
    for each in slices:
        of_path[each.partition_path].append(each)
    tagged = _Tagged()
    for path in pc.unique(rows.column(PARTITION)).to_pylist():
        incoming = rows.filter(pc.equal(rows.column(PARTITION), path)).combine_chunks()
        keys = incoming.column(RECORD_KEY).combine_chunks()
        is_deleted = _deleted(incoming, deletes=deletes)
        is_known = np.zeros(len(keys), dtype=bool)
        for file_slice in of_path[path]:
            lookup = SliceLookup(file_slice, log_merge_config=log_merge_config)
            found = find_keys(storage, lookup, keys, prunes_by_footer=options.index.prunes_by_footer)
            for batch in found:
                at = pc.index_in(batch.column(0), value_set=keys).to_numpy()
                is_known[at] = True
                operations = np.where(is_deleted[at], int(Operation.DELETE), int(Operation.UPSERT))
                part = _changes(incoming.take(pa.array(at)), schema, operations, file_slice.file_id)
                tagged.of_group[path, file_slice.file_id].append(part)
        is_new = ~is_known & ~is_deleted
        if is_new.any():
            new = incoming.filter(pa.array(is_new))
            tagged.new[path] = _changes(new, schema, np.full(new.num_rows, int(Operation.INSERT)), None)
    return tagged


def _deleted(rows: pa.Table, *, deletes: bool) -> npt.NDArray[np.bool_]:
    if deletes or IS_DELETED not in rows.schema.names:
        return np.full(rows.num_rows, deletes)
    marks = pc.fill_null(rows.column(IS_DELETED), False).combine_chunks()
    return np.asarray(marks.to_numpy(zero_copy_only=False))


def _changes(
    rows: pa.Table, schema: pa.Schema, operations: npt.NDArray[np.int64], file_id: str | None
) -> pa.Table:
    """The rows as `change_schema` has them; without a file group they are new."""
    nothing = pa.nulls(rows.num_rows, pa.string())
    locations = {
        PARTITION: rows.column(PARTITION),
        FILE_GROUP: pa.repeat(pa.scalar(file_id, pa.string()), rows.num_rows),
        RECORD_KEY: rows.column(RECORD_KEY),
    }
    columns = []
    for each in change_schema(schema):
        if each.name == OPERATION:
            columns.append(pa.array(operations, each.type))
        elif each.name in schema.names:
            columns.append(rows.column(each.name))
        else:
            columns.append(nothing if file_id is None else locations.get(each.name, nothing))
    return pa.Table.from_arrays(columns, schema=change_schema(schema))


def _spread(rows: int, spread: InsertBuckets) -> npt.NDArray[np.int32]:
    """The bucket of each new row of a partition."""
    hashes = np.arange(rows, dtype=np.int64) * HASH_RANGE // rows
    at = np.searchsorted(np.asarray(spread.bounds, np.int64), hashes, side="right")
    return np.asarray(spread.buckets, np.int32)[np.minimum(at, len(spread.buckets) - 1)]


def _in_buckets(changes: pa.Table, buckets: npt.NDArray[np.int32]) -> Iterator[pa.RecordBatch]:
    yield from changes.append_column(BUCKET, pa.array(buckets)).combine_chunks().to_batches()
