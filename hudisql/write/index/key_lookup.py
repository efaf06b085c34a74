"""Find the file groups with given record keys, by a Spark job with one unit of work for each file slice.

Follows `HoodieIndex.tagLocation` of Hudi 0.15. A small number of keys is sent to all slices of their
partitions, and a slice is read only if its footer does not exclude all of them; for a large number all slices
are read and joined. `slice_key_lookup` looks keys up in one slice.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.metadata_table.record_locations import RecordLocations
from hudisql.format.schema.internal_columns import internal_column, internal_prefix
from hudisql.read.files.conform import batch_of, conform_array
from hudisql.read.merge.merge_mode import has_delete_marks, log_merge_config_for
from hudisql.read.scan.arrow_scan import spark_struct
from hudisql.read.scan.record_skipping import look_up_keys, may_have_deleted_keys, record_index_of
from hudisql.spark.cached_rows import CachedRows
from hudisql.spark.few_rows import MOST_ROWS, arrow_frame, local_frame
from hudisql.spark.python_worker import freeze_loaded_modules
from hudisql.spark.task_errors import carry_errors
from hudisql.spark.versions import to_arrow
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.incomplete_groups import NO_GROUPS, incomplete_groups
from hudisql.table.partitions.listed_partitions import list_partitions, partitions_at
from hudisql.write.changes import COMBINED, PARTITION, RECORD_KEY
from hudisql.write.index.bucket_index import groups_of_buckets, keys_by_bucket, lookup_name
from hudisql.write.index.record_index import IndexKind, RecordIndex
from hudisql.write.index.slice_key_lookup import (
    SliceLookup,
    base_file_lookup,
    find_keys,
    read_keys,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STORED_KEY: Final = internal_column("stored_key")
STORED_GROUP: Final = internal_column("stored_group")
STORED_PARTITION: Final = internal_column("stored_partition")
STORED: Final = internal_prefix("stored")
"""Prefix of the table's columns of stored rows."""
_KEY_BYTES: Final = internal_column("key_bytes")
# The most keys that are sent to each task: some tens of megabytes.
_MOST_KEYS_SENT: Final = 1_000_000
_MOST_BYTES_SENT: Final = 64 << 20
_ANYWHERE: Final = ""
# Slices up to this total size are searched on the driver: a Spark job takes longer.
_FEW_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class _SentKeys:
    """The incoming keys that are sent to the slices, by partition path (`_ANYWHERE` for a global index).

    With a bucket index also by bucket (`lookup_name`).
    """

    keys: Mapping[tuple[str, int | str | None], pa.StringArray] = field(default_factory=dict)

    def of(self, file_slice: FileSlice, index: RecordIndex) -> pa.StringArray:
        """The keys to look up in a slice."""
        path = _ANYWHERE if index.is_global else file_slice.partition_path
        bucket = None if index.buckets is None else lookup_name(index.buckets, file_slice.file_id)
        return self.keys.get((path, bucket), pa.array([], pa.string()))


def locate_keys(
    spark: SparkSession, table: HudiTable, keyed: CachedRows, index: RecordIndex, columns: pa.Schema
) -> tuple[DataFrame, int]:
    """The locations of the incoming keys: key, partition path, file group and the stored `columns`.

    `keyed` has the record key and partition path of each incoming row, each key once, and COMBINED, whose sum
    is the second result. The result may contain rows with other keys; a join drops them. Raises
    UnsupportedTableError if the table does not have the index.
    """
    sizes, combined = _sizes_by_partition(keyed)
    is_small = _is_small(sizes)
    if index.kind in (IndexKind.RECORD_INDEX, IndexKind.RECORD_LEVEL_INDEX) and is_small:
        located = _located_by_record_index(spark, table, keyed, index, columns)
        if located is not None:
            return located, combined
    lookups = _lookups(table, None if index.is_global else set(sizes), columns)
    if index.buckets is not None:
        groups_of_buckets(table, [lookup.file_slice for lookup in lookups], index.buckets)
    prunes_slices = index.prunes_by_footer or index.buckets is not None
    sent_keys = _collect_keys(table, keyed, index) if prunes_slices and is_small else None
    return _stored_rows(spark, table.storage, lookups, columns, index, sent_keys), combined


def locate_in_base_files(
    spark: SparkSession, table: HudiTable, keyed: CachedRows, slices: Sequence[FileSlice]
) -> DataFrame:
    """The locations of the incoming keys in the base files of these slices, as `locate_keys` gives them.

    Footers exclude keys first. `keyed` may have keys several times.
    """
    sizes, _ = _sizes_by_partition(keyed)
    largest_first = sorted(slices, key=attrgetter("base_length"), reverse=True)
    lookups = [base_file_lookup(each) for each in largest_first]
    by_footer = RecordIndex(IndexKind.BLOOM)
    sent = _collect_keys(table, keyed, by_footer) if _is_small(sizes) else None
    return _stored_rows(spark, table.storage, lookups, pa.schema([]), by_footer, sent)


def _is_small(sizes: Mapping[str, tuple[int, int]]) -> bool:
    """True if the keys of these numbers and bytes are sent to the tasks."""
    keys = sum(count for count, _ in sizes.values())
    length = sum(length for _, length in sizes.values())
    return keys <= _MOST_KEYS_SENT and length <= _MOST_BYTES_SENT


def _sizes_by_partition(keyed: CachedRows) -> tuple[dict[str, tuple[int, int]], int]:
    """Keys and bytes of keys by partition path, and the sum of COMBINED."""
    if keyed.few is not None:
        rows = keyed.few.append_column(_KEY_BYTES, pc.binary_length(keyed.few.column(RECORD_KEY)))
        totals = [(RECORD_KEY, "count"), (_KEY_BYTES, "sum"), (COMBINED, "sum")]
        counted = [tuple(row.values()) for row in _grouped(rows, totals)]
    else:
        from pyspark.sql import functions as sf

        of_spark = (sf.count("*"), sf.sum(sf.octet_length(RECORD_KEY)), sf.sum(COMBINED))
        counted = [tuple(row) for row in keyed.frame.groupBy(PARTITION).agg(*of_spark).collect()]
    return {path: (count, length) for path, count, length, _ in counted}, sum(row[3] for row in counted)


def _grouped(rows: pa.Table, totals: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    names = [PARTITION, *("_".join(total) for total in totals)]
    found: list[dict[str, Any]] = rows.group_by(PARTITION).aggregate(list(totals)).select(names).to_pylist()
    return found


def _lookups(table: HudiTable, paths: set[str] | None, columns: pa.Schema) -> list[SliceLookup]:
    """The slices of the partitions (None: of all), large ones first."""
    partitions = list_partitions(table) if paths is None else partitions_at(table, paths)
    names = [column.name for column in table.partition_columns]
    values = {partition.path: dict(zip(names, partition.values, strict=False)) for partition in partitions}
    slices = load_file_slices(table, partitions)
    log_merge_config = log_merge_config_for(table, slices)
    return [
        SliceLookup(file_slice, values[file_slice.partition_path], columns, log_merge_config)
        for file_slice in sorted(slices, key=attrgetter("own_length"), reverse=True)
    ]


def _located_by_record_index(
    spark: SparkSession, table: HudiTable, keyed: CachedRows, index: RecordIndex, columns: pa.Schema
) -> DataFrame | None:
    """The locations by the table's record index; None if it cannot be used, as a partitioned one by an index
    of the whole table.

    In merge-on-read tables without marks of deletes the place of a key is enough: its row is read only if
    `columns` decide whether it moves to another partition, other rows have null there. An index keeps the
    keys of rows that were marked as deletes, and copy-on-write changes read the rows anyway. Keys that are
    not found are searched for where the index may lack keys.
    """
    metadata = record_index_of(table, is_global=index.is_global)
    if metadata is None:
        return None
    keys, paths = _collect_keys_and_paths(keyed)
    locations = look_up_keys(metadata, keys, None if index.is_global else paths)
    if locations is None:
        return None
    lookups = _lookups(table, {path for path, _ in locations.groups}, columns)
    of_group = {each.file_slice.file_group: each for each in lookups}
    # The last one stands for keys that are not found.
    slices = [*(of_group.get(group) for group in locations.groups), None]
    is_known = np.array([each is not None for each in slices])[locations.numbers]
    is_sure = not may_have_deleted_keys(table)
    others = NO_GROUPS if is_known.all() and is_sure else incomplete_groups(table, metadata)
    if others is None:
        return None
    if others:
        lookups = _lookups(table, {path for path, _ in others.union(locations.groups)}, columns)
    is_read = is_known
    if table.is_merge_on_read and not has_delete_marks(table) and (is_sure or not others):
        is_read = np.zeros(len(keys), np.bool_)
        if index.is_global and index.moves_rows and len(columns):
            is_read = is_known & ~_stays(locations, paths)
    groups = {locations.groups[number] for number in np.unique(locations.numbers[is_read]).tolist()} | others
    searched = [lookup for lookup in lookups if lookup.file_slice.file_group in groups]
    known = np.flatnonzero(is_known & ~is_read)
    if others:
        is_read = is_read | ~is_known
    if searched:
        wanted = pa.array(is_read)
        sent = _sent_keys(table, keys.filter(wanted), paths.filter(wanted), index)
        stored = _stored_rows(spark, table.storage, searched, columns, index, sent)
        if not len(known):
            return stored
    output = _location_schema(columns)
    rows = _locations(keys.take(pa.array(known)), locations.numbers[known], slices, output)
    located = arrow_frame(spark, rows, spark_struct(output))
    if searched:
        return located.union(stored)
    from pyspark.sql import functions as sf

    return sf.broadcast(located) if len(known) <= MOST_ROWS else located


def _stays(locations: RecordLocations, paths: pa.Array) -> npt.NDArray[np.bool_]:
    """True for keys that are found in the partition with their path."""
    stored = pa.array([*(path for path, _ in locations.groups), None], pa.string())
    # NOT_FOUND is -1 and becomes the place of the last one.
    places = pa.array(locations.numbers % len(stored))
    stays: npt.NDArray[np.bool_] = pc.fill_null(pc.equal(stored.take(places), paths), False).to_numpy(
        zero_copy_only=False
    )
    return stays


def _locations(
    keys: pa.Array, numbers: npt.NDArray[np.int64], slices: Sequence[SliceLookup | None], output: pa.Schema
) -> pa.Table:
    """The keys with their slices, by number, and the values of the slices' partitions."""
    places = pa.array(numbers)
    of_slices = [
        [None if each is None else each.file_slice.partition_path for each in slices],
        [None if each is None else each.file_slice.file_id for each in slices],
        *(
            [None if each is None else each.partition_values.get(name) for each in slices]
            for name in (field.name.removeprefix(STORED) for field in [*output][3:])
        ),
    ]
    columns = [
        pa.array(values, field.type).take(places)
        for values, field in zip(of_slices, [*output][1:], strict=True)
    ]
    return pa.table([keys, *columns], schema=output)


def _location_schema(columns: pa.Schema) -> pa.Schema:
    return pa.schema(
        [
            *(pa.field(name, pa.string()) for name in (STORED_KEY, STORED_PARTITION, STORED_GROUP)),
            *(pa.field(STORED + column.name, column.type) for column in columns),
        ]
    )


def _collect_keys_and_paths(keyed: CachedRows) -> tuple[pa.Array, pa.Array]:
    chosen = (PARTITION, RECORD_KEY)
    rows = to_arrow(keyed.frame.select(*chosen)) if keyed.few is None else keyed.few.select(chosen)
    paths, keys = (pc.cast(rows.column(name), pa.string()).combine_chunks() for name in chosen)
    return keys, paths


def _collect_keys(table: HudiTable, keyed: CachedRows, index: RecordIndex) -> _SentKeys:
    return _sent_keys(table, *_collect_keys_and_paths(keyed), index)


def _sent_keys(table: HudiTable, keys: pa.Array, of_keys: pa.Array, index: RecordIndex) -> _SentKeys:
    """The keys, whose rows belong in the partitions with the paths `of_keys`."""
    if index.is_global:
        return _SentKeys({(_ANYWHERE, None): keys})
    paths = of_keys.dictionary_encode()
    sent: dict[tuple[str, int | str | None], pa.StringArray] = {}
    for number, path in enumerate(paths.dictionary.to_pylist()):
        of_path = keys.filter(pc.equal(paths.indices, number))
        if index.buckets is None:
            sent[path, None] = of_path
            continue
        for name, of_bucket in keys_by_bucket(table, index.buckets, path, of_path):
            sent[path, name] = of_bucket
    return _SentKeys(sent)


def _stored_rows(
    spark: SparkSession,
    storage: Storage,
    lookups: Sequence[SliceLookup],
    columns: pa.Schema,
    index: RecordIndex,
    sent: _SentKeys | None,
) -> DataFrame:
    output = _location_schema(columns)
    if not lookups:
        return local_frame(spark, output.empty_table(), spark_struct(output))
    if sent is not None and sum(slice_lookup.file_slice.own_length for slice_lookup in lookups) <= _FEW_BYTES:
        read = [
            batch
            for slice_lookup in lookups
            for batch in _rows_of_slice(storage, slice_lookup, index, sent, output)
        ]
        return local_frame(spark, pa.Table.from_batches(read, output), spark_struct(output))
    tasks = min(len(lookups), 4 * spark.sparkContext.defaultParallelism)
    pieces = spark.sparkContext.broadcast(
        [pickle.dumps(list(lookups[number::tasks])) for number in range(tasks)]
    )
    shared = spark.sparkContext.broadcast(sent)

    def look_up(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for lookup in pickle.loads(pieces.value[number]):
                    yield from carry_errors(_rows_of_slice(storage, lookup, index, shared.value, output))
        freeze_loaded_modules()

    positions = spark.range(0, tasks, 1, numPartitions=tasks)
    return positions.mapInArrow(look_up, spark_struct(output))


def _rows_of_slice(
    storage: Storage, lookup: SliceLookup, index: RecordIndex, sent: _SentKeys | None, output: pa.Schema
) -> Iterator[pa.RecordBatch]:
    file_slice = lookup.file_slice
    if sent is None:
        found = read_keys(storage, lookup)
    else:
        keys = sent.of(file_slice, index)
        found = find_keys(storage, lookup, keys, prunes_by_footer=index.prunes_by_footer)
    for batch in found:
        location = [pa.repeat(pa.scalar(text, pa.string()), batch.num_rows) for text in file_slice.file_group]
        stored = [
            conform_array(column, field.type)
            for column, field in zip(batch.columns[1:], lookup.columns, strict=True)
        ]
        yield batch_of([batch.column(0), *location, *stored], output, batch.num_rows)
