"""Hudi's bucket index: the bucket of a new row, and the file group of a bucket.

Follows `HoodieSimpleBucketIndex` and `SparkBucketIndexPartitioner` of Hudi 0.15: a bucket has one file group
in each partition, whose id begins with the bucket's number. Spark moves key columns alone to Python for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from hudisql.errors import UnsupportedTableError, WriteRefusedError
from hudisql.format.keys.bucket_id import bucket_ids, bucket_of_file_id
from hudisql.format.paths.split_file_id import split_bucket_of
from hudisql.format.schema.internal_columns import internal_column
from hudisql.spark.versions import arrow_column
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.write.changes import NEW_ROWS, OPERATION
from hudisql.write.index.record_index import HashBuckets
from hudisql.write.keygen.record_keys import render_record_keys

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HASH_BUCKET: Final = internal_column("hash_bucket")
"""int, the bucket of a new row; NULL for changes of stored rows, whose file group is known."""
# Two in a million random ids are valid ids of buckets below this number.
_SURELY_BUCKETS: Final = 10_000


def with_hash_buckets(
    changes: DataFrame, table: HudiTable, buckets: HashBuckets, *, complex_keys: bool
) -> DataFrame:
    """The changes with the bucket of each new row."""
    from pyspark.sql import functions as sf

    is_new = sf.col(OPERATION).isin(*NEW_ROWS)
    return changes.withColumn(
        HASH_BUCKET, sf.when(is_new, bucket_column(table, buckets, complex_keys=complex_keys))
    )


def bucket_column(table: HudiTable, buckets: HashBuckets, *, complex_keys: bool) -> Column:
    """The bucket of a row of the table, as a column."""
    fields = table.properties.record_key_fields
    names = dict.fromkeys(name.split(".")[0] for name in fields)

    def bucket_of(batch: pa.RecordBatch) -> pa.Array:
        keys = render_record_keys(batch, fields, complex_keys=complex_keys).keys
        return pc.cast(pa.array(bucket_ids(keys, buckets.fields, buckets.count)), pa.int32())

    return arrow_column(bucket_of, "int", [table.schema.field(name) for name in names])


def groups_of_buckets(
    table: HudiTable, slices: Iterable[FileSlice], buckets: HashBuckets
) -> Mapping[tuple[str, int], FileSlice]:
    """The file slice of each (partition path, bucket) that has one.

    Raises UnsupportedTableError for file groups that are not buckets (as after a bootstrap), or for another
    number of buckets.
    """
    file_slices: dict[tuple[str, int], FileSlice] = {}
    for file_slice in slices:
        bucket = bucket_of_file_id(file_slice.file_id)
        where = (
            f"file group {file_slice.file_id} of partition '{file_slice.partition_path}' of {table.base_path}"
        )
        if bucket is None or file_slice.is_bootstrapped:
            raise UnsupportedTableError(
                f"{where} is not a bucket, so the table cannot have a bucket index"
                + (": it was bootstrapped" if table.is_bootstrapped else ""),
                hint="set hoodie.index.type to BLOOM or SIMPLE",
            )
        if bucket >= buckets.count:
            raise UnsupportedTableError(
                f"{where} is bucket {bucket}, but hoodie.bucket.index.num.buckets is {buckets.count}",
                hint="set it to the number that the table was written with",
            )
        if (file_slice.partition_path, bucket) in file_slices:
            raise UnsupportedTableError(f"{where} is the second one of its bucket")
        file_slices[file_slice.partition_path, bucket] = file_slice
    return file_slices


def check_bucket_index_declared(table: HudiTable, slices: Iterable[FileSlice]) -> None:
    """Raise WriteRefusedError if the file ids are bucket ids, but no bucket index is configured.

    New file groups with random ids would make the table unusable for writers with a bucket index. Partitions
    that an ingest worker has split are ignored. `slices` is consumed only as far as necessary.
    """
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
