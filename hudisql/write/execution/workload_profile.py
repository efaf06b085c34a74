"""Count changes by file group and partition, and route each to the Spark task of its file slice.

Follows Hudi's `WorkloadProfile` and the partitioning of `UpsertPartitioner`: both are Spark columns and
joins, and no row passes through Python. Knows neither commits nor files.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.format.schema.internal_columns import internal_column, internal_prefix
from hudisql.format.schema.spark_schema import quote_name, quote_path
from hudisql.read.scan.arrow_scan import spark_struct
from hudisql.spark.few_rows import local_frame
from hudisql.table.hudi_table import HudiTable
from hudisql.write.changes import COMBINED, FILE_GROUP, NEW_ROWS, OPERATION, PARTITION, REMOVALS
from hudisql.write.execution.partitioner import HASH_RANGE, BucketPlan
from hudisql.write.execution.write_tasks import BUCKET
from hudisql.write.index.bucket_index import HASH_BUCKET
from hudisql.write.keygen.generated_paths import GENERATED_PATH, partition_source_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_HASH: Final = internal_column("hash")
_BOUNDS: Final = internal_column("bounds")
_BUCKETS: Final = internal_column("buckets")
_VALUE: Final = internal_prefix("value")


@dataclass(frozen=True)
class WorkloadProfile:
    """Row counts by file group (partition path, file id), and of new rows by partition values.

    A new row with a chosen file group counts as one of that. `of_buckets` counts the new rows of a table with
    a bucket index by partition values and bucket. `combined` is the number of incoming rows that newer rows
    of their keys replaced. `removes` is true if stored rows are deleted or moved.
    """

    changed: Mapping[tuple[str, str], int]
    new_rows: Mapping[tuple[object, ...], int]
    of_buckets: Mapping[tuple[tuple[object, ...], int], int] = field(default_factory=dict)
    combined: int = 0
    removes: bool = False

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return sum(self.changed.values()) + sum(self.new_rows.values())


def count_changes(changes: DataFrame, table: HudiTable) -> WorkloadProfile:
    """Count the changes by file group, and new rows by their values of the partition columns.

    With a column of hash buckets new rows are also counted by these.
    """
    from pyspark.sql import functions as sf

    columns = [column.name for column in partition_source_columns(changes, table)]
    goes_anywhere = goes_anywhere_column()
    values = [
        sf.when(goes_anywhere, sf.col(quote_name(name))).alias(f"p{n}") for n, name in enumerate(columns)
    ]
    bucket = sf.col(HASH_BUCKET) if HASH_BUCKET in changes.columns else sf.lit(None).cast("int")
    changed: dict[tuple[str, str], int] = {}
    new_rows: dict[tuple[object, ...], int] = defaultdict(int)
    of_buckets: dict[tuple[tuple[object, ...], int], int] = {}
    groups = changes.groupBy(sf.col(PARTITION), sf.col(FILE_GROUP), bucket.alias("b"), *values)
    left_out = sf.sum(COMBINED) if COMBINED in changes.columns else sf.lit(0)
    removed = sf.max(sf.col(OPERATION).isin(*REMOVALS))
    combined, removes = 0, False
    for row in groups.agg(removed, left_out, sf.count("*")).collect():
        combined += row[-2] or 0
        removes |= row[-3]
        if row[1] is not None:
            changed[row[0], row[1]] = row[-1]
            continue
        # One object for all NaNs, so that dictionaries find it.
        values_of_row = tuple(math.nan if value != value else value for value in row[3:-3])
        new_rows[values_of_row] += row[-1]
        if row[2] is not None:
            of_buckets[values_of_row, row[2]] = row[-1]
    return WorkloadProfile(changed, dict(new_rows), of_buckets, combined, removes)


def route_changes(
    spark: SparkSession,
    changes: DataFrame,
    plan: BucketPlan,
    of_values: Mapping[tuple[object, ...], str],
    table: HudiTable,
) -> DataFrame:
    """The changes with the number of the bucket each one goes to."""
    from pyspark.sql import functions as sf

    goes_anywhere = goes_anywhere_column()
    parts = []
    if plan.of_file_group:
        groups = _groups_of_buckets(spark, plan)
        stored = changes.filter(~goes_anywhere).join(
            sf.broadcast(groups),
            (sf.col(PARTITION) == sf.col("g_path")) & (sf.col(FILE_GROUP) == sf.col("g_file")),
        )
        parts.append(stored.drop("g_path", "g_file"))
    if plan.of_new_rows:
        parts.append(_spread(spark, changes.filter(goes_anywhere), plan, of_values, table))
    routed = parts[0]
    for part in parts[1:]:
        routed = routed.unionByName(part)
    return routed.drop(HASH_BUCKET, GENERATED_PATH, COMBINED)


def goes_anywhere_column() -> Column:
    """True for the new rows without a chosen file group."""
    from pyspark.sql import functions as sf

    return sf.col(OPERATION).isin(*NEW_ROWS) & sf.col(FILE_GROUP).isNull()


def _groups_of_buckets(spark: SparkSession, plan: BucketPlan) -> DataFrame:
    """Partition path, file id and bucket number of each file group that changes."""
    schema = pa.schema(
        [pa.field("g_path", pa.string()), pa.field("g_file", pa.string()), pa.field(BUCKET, pa.int32())]
    )
    rows = [(path, file_id, number) for (path, file_id), number in plan.of_file_group.items()]
    return _local_rows(spark, rows, schema)


def _local_rows(spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> DataFrame:
    """Python values as a DataFrame, held in its plan if Arrow and Spark convert them equally."""
    if any(pa.types.is_timestamp(field.type) for field in schema):
        # PySpark's datetimes are in the driver's time zone.
        return spark.createDataFrame(rows, spark_struct(schema))
    values = zip(*rows, strict=True)
    columns = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return local_frame(spark, pa.Table.from_arrays(columns, schema=schema), spark_struct(schema))


def _spread_by(table: HudiTable) -> list[Column]:
    """The columns whose hash distributes new rows over file groups: the key columns, else all columns.

    The choice must be the same whenever a row is computed again.
    """
    from pyspark.sql import functions as sf

    fields = table.properties.record_key_fields
    if fields:
        return [sf.col(quote_path(name)) for name in fields]
    # Spark cannot hash maps, which only nested types can contain.
    return [
        sf.col(quote_name(field.name)).cast("string")
        if pa.types.is_nested(field.type)
        else sf.col(quote_name(field.name))
        for field in table.schema
    ]


def _spread(
    spark: SparkSession,
    new_rows: DataFrame,
    plan: BucketPlan,
    of_values: Mapping[tuple[object, ...], str],
    table: HudiTable,
) -> DataFrame:
    from pyspark.sql import functions as sf

    columns = partition_source_columns(new_rows, table)
    is_bucketed = HASH_BUCKET in new_rows.columns
    spreads = [(values, plan.of_new_rows[path]) for values, path in of_values.items()]
    schema = pa.schema(
        [
            *(pa.field(_VALUE + str(number), column.type) for number, column in enumerate(columns)),
            pa.field(_BOUNDS, pa.list_(pa.int32())),
            pa.field(_BUCKETS, pa.list_(pa.int32())),
        ]
    )
    rows = [(*values, list(spread.bounds), list(spread.buckets)) for values, spread in spreads]
    places = _local_rows(spark, rows, schema)
    hashed = sf.pmod(sf.xxhash64(*_spread_by(table)), sf.lit(HASH_RANGE))
    condition = sf.lit(True)
    for number, column in enumerate(columns):
        condition = condition & sf.col(quote_name(column.name)).eqNullSafe(sf.col(_VALUE + str(number)))
    placed = new_rows.withColumn(_HASH, hashed).join(sf.broadcast(places), condition)
    in_spread = sf.size(sf.filter(_BOUNDS, lambda bound: bound <= sf.col(_HASH)))
    position = sf.col(HASH_BUCKET) if is_bucketed else in_spread
    return placed.withColumn(BUCKET, sf.get(_BUCKETS, position)).drop(
        _HASH, _BOUNDS, _BUCKETS, *(_VALUE + str(number) for number in range(len(columns)))
    )
