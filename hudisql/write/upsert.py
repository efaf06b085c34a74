"""Upserts and deletes of rows that are known by their record key alone: the rows get their file groups.

Follows `HoodieIndex.tagLocation` of Hudi 0.15 with the exact look-up of `HoodieSimpleIndex`: the keys that
the partitions concerned hold are joined with those of the incoming rows. Of several incoming rows with one
key the one with the highest ordering value stays (`HoodieRecordPayload.preCombine`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.errors import WriteRefusedError
from hudisql.format import meta_columns
from hudisql.format.spark_schema import quote_name
from hudisql.read.arrow_scan import spark_struct
from hudisql.read.predicates import And, Comparison, In, Or, Predicate
from hudisql.read.scan import plan_scan, scan_to_dataframe
from hudisql.read.task_errors import encode_error
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions import list_partitions
from hudisql.table.snapshot import load_file_slices
from hudisql.write.changes import FILE_GROUP, OPERATION, PARTITION, RECORD_KEY, Operation
from hudisql.write.key_generator import has_composite_keys
from hudisql.write.partition_paths import PartitionPaths
from hudisql.write.record_keys import render_record_keys

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

IS_DELETED: Final = "_hoodie_is_deleted"
_STORED_KEY: Final = "__hudisql_stored_key"
_STORED_GROUP: Final = "__hudisql_stored_group"
_STORED_PARTITION: Final = "__hudisql_stored_partition"
_MOST_PARTITIONS_NAMED: Final = 500


def tag_rows(
    spark: SparkSession, table: HudiTable, rows: DataFrame, *, deletes: bool = False, is_global: bool = False
) -> DataFrame:
    """The rows (the table's columns, its types) as changes: known keys are updated, others inserted.

    Rows with a true `_hoodie_is_deleted`, with `deletes` all of them, delete the stored row of their key.
    With `is_global` a key is looked for in all partitions, and its row moves if it lies in another one than
    the incoming row says. Raises WriteRefusedError in the tasks for rows without a record key.
    """
    from pyspark.sql import functions as sf

    keyed = _newest_of_each_key(_with_keys(table, rows), table, is_global=is_global).persist()
    located = _locate(spark, table, keyed, is_global=is_global)
    condition = sf.col(RECORD_KEY) == sf.col(_STORED_KEY)
    if not is_global:
        condition = condition & (sf.col(PARTITION) == sf.col(_STORED_PARTITION))
    joined = keyed.join(located, condition, "left")
    known = sf.col(_STORED_GROUP).isNotNull()
    deleted = sf.lit(deletes)
    if IS_DELETED in table.schema.names:
        deleted = deleted | sf.coalesce(sf.col(IS_DELETED), sf.lit(False))
    moves = known & (sf.col(PARTITION) != sf.col(_STORED_PARTITION)) & ~deleted
    operations = (
        sf.when(known & deleted, _operations(Operation.DELETE))
        .when(deleted, sf.array().cast("array<tinyint>"))
        .when(moves, _operations(Operation.MOVE_OUT, Operation.MOVE_IN))
        .when(known, _operations(Operation.UPSERT))
        .otherwise(_operations(Operation.INSERT))
    )
    columns = [sf.col(quote_name(name)) for name in table.schema.names]
    tagged = joined.select(
        sf.explode(operations).alias(OPERATION),
        sf.col(_STORED_PARTITION).alias(PARTITION),
        sf.col(_STORED_GROUP).alias(FILE_GROUP),
        RECORD_KEY,
        *columns,
    )
    is_new = sf.col(OPERATION).isin(int(Operation.INSERT), int(Operation.MOVE_IN))
    for name in (PARTITION, FILE_GROUP, RECORD_KEY):
        tagged = tagged.withColumn(name, sf.when(~is_new, sf.col(name)))
    return tagged


def _operations(*operations: Operation) -> Column:
    from pyspark.sql import functions as sf

    return sf.array(*[sf.lit(int(each)).cast("tinyint") for each in operations])


def _with_keys(table: HudiTable, rows: DataFrame) -> DataFrame:
    """The rows with their record keys and partition paths, rendered as the tasks that write them do."""
    schema = pa.schema([pa.field(RECORD_KEY, pa.string()), pa.field(PARTITION, pa.string()), *table.schema])
    fields = table.properties.record_key_fields
    composite = has_composite_keys(table, load_file_slices(table)) if len(fields) == 1 else True
    paths = PartitionPaths(table)

    def render(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rendered = render_record_keys(batch, fields, composite=composite)
            if rendered.null_keys.count:
                raise encode_error(
                    WriteRefusedError(
                        f"{rendered.null_keys.count} row(s) have no record key: {', '.join(fields)} is null "
                        "or empty",
                        hint="give every row a value in the record key columns; nothing was written",
                    )
                )
            yield pa.record_batch(
                [rendered.keys, paths.of(batch), *batch.columns],
                names=[RECORD_KEY, PARTITION, *batch.schema.names],
            )

    return rows.select(*[quote_name(name) for name in table.schema.names]).mapInArrow(
        render, spark_struct(schema)
    )


def _newest_of_each_key(keyed: DataFrame, table: HudiTable, *, is_global: bool) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    ordering = table.properties.precombine_field
    by = Window.partitionBy(RECORD_KEY) if is_global else Window.partitionBy(RECORD_KEY, PARTITION)
    order = sf.lit(0) if ordering is None else sf.col(quote_name(ordering)).desc_nulls_last()
    newest_first = by.orderBy(order)
    numbered = keyed.withColumn("__hudisql_rank", sf.row_number().over(newest_first))
    return numbered.filter("__hudisql_rank = 1").drop("__hudisql_rank")


def _locate(spark: SparkSession, table: HudiTable, keyed: DataFrame, *, is_global: bool) -> DataFrame:
    """Where the table holds the incoming keys: key, partition path and file group."""
    from pyspark.sql import functions as sf

    columns = pa.schema(
        [
            meta_columns.META_SCHEMA.field(name)
            for name in (meta_columns.RECORD_KEY, meta_columns.PARTITION_PATH, meta_columns.FILE_NAME)
        ]
    )
    chosen = None
    if not is_global:
        chosen = _predicate_on(table, [row[0] for row in keyed.select(PARTITION).distinct().collect()])
    plan = plan_scan(
        table,
        columns,
        partition_predicates=[] if chosen is None else [chosen],
        parallelism=spark.sparkContext.defaultParallelism,
    )
    stored = scan_to_dataframe(spark, plan).select(
        sf.col(meta_columns.RECORD_KEY).alias(_STORED_KEY),
        sf.col(meta_columns.PARTITION_PATH).alias(_STORED_PARTITION),
        sf.substring_index(meta_columns.FILE_NAME, "_", 1).alias(_STORED_GROUP),
    )
    incoming = keyed.select(RECORD_KEY, sf.col(PARTITION).alias("__hudisql_incoming"))
    condition = sf.col(RECORD_KEY) == sf.col(_STORED_KEY)
    if not is_global:
        condition = condition & (sf.col("__hudisql_incoming") == sf.col(_STORED_PARTITION))
    return stored.join(incoming, condition, "left_semi")


def _predicate_on(table: HudiTable, paths: Sequence[str]) -> Predicate | None:
    """The partitions at these paths as a predicate on their values; None for too many of them."""
    names = [column.name for column in table.partition_columns]
    if not names or len(paths) > _MOST_PARTITIONS_NAMED:
        return None
    wanted = set(paths)
    parts = [
        And(
            tuple(
                Comparison((name,), "<=>", value) for name, value in zip(names, partition.values, strict=True)
            )
        )
        for partition in list_partitions(table)
        if partition.path in wanted
    ]
    return Or(tuple(parts)) if parts else In((names[0],), ())
