"""Hudi's bucket index: the bucket of a new row, and the file group of a bucket.

Follows `HoodieSimpleBucketIndex`, `HoodieConsistentBucketIndex` and `SparkBucketIndexPartitioner` of Hudi
0.15: a bucket has one file group in each partition, whose id begins with the bucket's number, or is named by
the partition's ring. Spark moves the columns of keys and partitions alone to Python for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import HudisqlError, UnsupportedTableError, WriteRefusedError
from hudisql.format.keys.bucket_id import bucket_ids, bucket_of_file_id
from hudisql.format.keys.hash_ring import ring_hashes
from hudisql.format.keys.record_keys import render_record_keys
from hudisql.format.paths.split_file_id import split_bucket_of
from hudisql.format.schema.internal_columns import internal_column
from hudisql.spark.task_errors import encode_error
from hudisql.spark.versions import arrow_column
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.write.changes import NEW_ROWS, OPERATION
from hudisql.write.index.hash_rings import HashRings, has_rings, hash_rings
from hudisql.write.index.record_index import HashBuckets
from hudisql.write.keygen.generated_paths import key_and_path_columns
from hudisql.write.keygen.key_generator import KeyGenerator
from hudisql.write.keygen.partition_paths import PartitionPaths

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HASH_BUCKET: Final = internal_column("hash_bucket")
"""int, the bucket of a new row; NULL for changes of stored rows, whose file group is known."""
# Two in a million random ids are valid ids of buckets below this number.
_SURELY_BUCKETS: Final = 10_000


def with_hash_buckets(
    changes: DataFrame,
    table: HudiTable,
    buckets: HashBuckets,
    generator: KeyGenerator | None,
    *,
    complex_keys: bool,
) -> DataFrame:
    """The changes with the bucket of each new row. `generator` generates its partition path, if any does."""
    from pyspark.sql import functions as sf

    bucket = bucket_column(table, buckets, generator, complex_keys=complex_keys, of_changes=True)
    is_new = sf.col(OPERATION).isin(*NEW_ROWS)
    return changes.withColumn(HASH_BUCKET, sf.when(is_new, bucket))


def bucket_column(
    table: HudiTable,
    buckets: HashBuckets,
    generator: KeyGenerator | None,
    *,
    complex_keys: bool,
    of_changes: bool = False,
) -> Column:
    """The bucket of each row, as a column; with `of_changes` the rows have OPERATION.

    Of changes only new rows have buckets. `generator` generates the partition path, if any does. With a
    consistent hashing index the ring of a new partition is stored.
    """
    if not buckets.differ_by_partition:
        return _simple_bucket_column(table, buckets, complex_keys=complex_keys)
    paths = PartitionPaths(table, generator)
    rings, version = _rings(table, buckets), table.version
    fields = table.properties.record_key_fields

    def bucket_of(batch: pa.RecordBatch) -> pa.Array:
        try:
            keys = render_record_keys(batch, fields, complex_keys=complex_keys).keys
            return pa.array(_by_partition(rings, buckets, keys, paths.of(batch), version))
        except HudisqlError as error:
            raise encode_error(error) from None

    def bucket_of_new(batch: pa.RecordBatch) -> pa.Array:
        is_new = pc.is_in(batch.column(OPERATION), value_set=pa.array(NEW_ROWS, pa.int8()))
        numbers = bucket_of(batch.filter(is_new))
        return pc.replace_with_mask(pa.nulls(batch.num_rows, pa.int32()), is_new, numbers)

    columns = key_and_path_columns(table, generator)
    if not of_changes:
        return arrow_column(bucket_of, "int", columns)
    return arrow_column(bucket_of_new, "int", [pa.field(OPERATION, pa.int8()), *columns])


def buckets_of_new_rows(
    table: HudiTable, buckets: HashBuckets, keys: pa.Array, paths: pa.Array
) -> npt.NDArray[np.int32]:
    """The bucket of each new row, by its record key and partition path.

    With a consistent hashing index the ring of a new partition is stored. Raises UnsupportedTableError,
    CorruptTableError, StorageError.
    """
    if not buckets.differ_by_partition:
        return bucket_ids(keys, buckets.fields, buckets.count, version=table.version)
    return _by_partition(_rings(table, buckets), buckets, keys, paths, table.version)


def _rings(table: HudiTable, buckets: HashBuckets) -> HashRings | None:
    return hash_rings(table, buckets) if buckets.is_consistent else None


def _by_partition(
    rings: HashRings | None, buckets: HashBuckets, keys: pa.Array, paths: pa.Array, version: int
) -> npt.NDArray[np.int32]:
    numbers = np.zeros(len(keys), np.int32)
    encoded = paths.dictionary_encode()
    places = encoded.indices.to_numpy()
    for place, path in enumerate(encoded.dictionary.to_pylist()):
        at = np.flatnonzero(places == place)
        of_path = keys.take(pa.array(at))
        if rings is None:
            numbers[at] = bucket_ids(of_path, buckets.fields, buckets.count_of(path), version=version)
        else:
            numbers[at] = rings.create(path).buckets_of(ring_hashes(of_path, buckets.fields, version=version))
    return numbers


def keys_by_bucket(
    table: HudiTable, buckets: HashBuckets, path: str, keys: pa.Array
) -> Iterator[tuple[int | str, pa.Array]]:
    """The keys of a partition that are stored, if at all, in each bucket, with its `lookup_name`."""
    if buckets.is_consistent:
        ring = hash_rings(table, buckets).of(path)
        numbers = pa.array(ring.buckets_of(ring_hashes(keys, buckets.fields, version=table.version)))
    else:
        numbers = pa.array(bucket_ids(keys, buckets.fields, buckets.count_of(path), version=table.version))
    for bucket in numbers.unique().to_pylist():
        name = ring.file_id(bucket) if buckets.is_consistent else bucket
        yield name, keys.filter(pc.equal(numbers, bucket))


def lookup_name(buckets: HashBuckets, file_id: str) -> int | str | None:
    """What identifies a file group's bucket in its partition: the number, of a ring the file id."""
    return file_id if buckets.is_consistent else bucket_of_file_id(file_id)


def _simple_bucket_column(table: HudiTable, buckets: HashBuckets, *, complex_keys: bool) -> Column:
    fields, version = table.properties.record_key_fields, table.version
    names = dict.fromkeys(name.split(".")[0] for name in fields)

    def bucket_of(batch: pa.RecordBatch) -> pa.Array:
        keys = render_record_keys(batch, fields, complex_keys=complex_keys).keys
        return pc.cast(pa.array(bucket_ids(keys, buckets.fields, buckets.count, version=version)), pa.int32())

    return arrow_column(bucket_of, "int", [table.schema.field(name) for name in names])


def groups_of_buckets(
    table: HudiTable, slices: Iterable[FileSlice], buckets: HashBuckets
) -> Mapping[tuple[str, int], FileSlice]:
    """The file slice of each (partition path, bucket) that has one.

    Raises UnsupportedTableError for file groups that are not buckets (as after a bootstrap), or for another
    number of buckets.
    """
    file_slices: dict[tuple[str, int], FileSlice] = {}
    rings = _rings(table, buckets)
    for file_slice in slices:
        if rings is None:
            bucket = bucket_of_file_id(file_slice.file_id)
        else:
            bucket = rings.of(file_slice.partition_path).bucket_of_file_id(file_slice.file_id)
        where = (
            f"file group {file_slice.file_id} of partition '{file_slice.partition_path}' of {table.base_path}"
        )
        if bucket is None or file_slice.is_bootstrapped:
            raise UnsupportedTableError(
                f"{where} is not a bucket, so the table cannot have a bucket index"
                + (": it was bootstrapped" if table.is_bootstrapped else ""),
                hint="set hoodie.index.type to BLOOM or SIMPLE",
            )
        if rings is None and bucket >= buckets.count_of(file_slice.partition_path):
            raise _no_such_bucket(where, bucket, buckets, file_slice.partition_path)
        if (file_slice.partition_path, bucket) in file_slices:
            raise UnsupportedTableError(f"{where} is the second one of its bucket")
        file_slices[file_slice.partition_path, bucket] = file_slice
    return file_slices


def _no_such_bucket(where: str, bucket: int, buckets: HashBuckets, path: str) -> UnsupportedTableError:
    if buckets.rules is None:
        return UnsupportedTableError(
            f"{where} is bucket {bucket}, but hoodie.bucket.index.num.buckets is {buckets.count}",
            hint="set it to the number that the table was written with",
        )
    return UnsupportedTableError(
        f"{where} is bucket {bucket}, but the partition has {buckets.count_of(path)} by "
        f"'{buckets.rules.expressions}'",
        hint="set hoodie.bucket.index.partition.expressions to those that the table was written with",
    )


def check_bucket_index_declared(table: HudiTable, slices: Iterable[FileSlice]) -> None:
    """Raise WriteRefusedError if the file ids are bucket ids, but no bucket index is configured.

    New file groups with random ids would make the table unusable for writers with a bucket index. Partitions
    that an ingest worker has split are ignored. `slices` is consumed only as far as necessary.
    """
    if has_rings(table):
        raise WriteRefusedError(
            f"the file groups of {table.base_path} are those of a consistent hashing index, but none is "
            "configured",
            hint="ALTER TABLE … SET TBLPROPERTIES (hoodie.index.type = 'BUCKET', "
            "hoodie.index.bucket.engine = 'CONSISTENT_HASHING')",
        )
    has_any = False
    for file_slice in slices:
        number = bucket_of_file_id(file_slice.file_id)
        if number is None or number >= _SURELY_BUCKETS or split_bucket_of(file_slice.file_id) is not None:
            return
        has_any = True
    if has_any:
        raise WriteRefusedError(
            f"the file groups of {table.base_path} are those of a bucket index, but none is configured",
            hint="ALTER TABLE … SET TBLPROPERTIES (hoodie.index.type = 'BUCKET', "
            "hoodie.bucket.index.num.buckets = '…'), with the number that the table was written with",
        )
