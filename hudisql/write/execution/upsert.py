"""Tag incoming rows with the locations of their record keys, for upserts and deletes by key.

Follows `HoodieIndex.tagLocation` of Hudi 0.15: the keys of the incoming rows are looked up by the table's
index (`key_lookup`), and the operation of each row depends on the location of its key. Of several incoming
rows with one key the one with the highest ordering value is kept (`HoodieRecordPayload.preCombine`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.errors import WriteRefusedError
from hudisql.format.keys.record_keys import render_record_keys
from hudisql.format.schema.internal_columns import internal_column
from hudisql.format.schema.meta_columns import IS_DELETED
from hudisql.format.schema.spark_schema import quote_name
from hudisql.read.files.conform import conform_batch, find_field
from hudisql.read.merge.merge_mode import merge_mode_of
from hudisql.read.merge.precombine import is_newer_column, keep_newest
from hudisql.read.scan.arrow_scan import spark_struct
from hudisql.spark.cached_rows import CachedRows, cache_rows, few_cached_rows
from hudisql.spark.few_rows import collect_few_rows, local_frame
from hudisql.spark.task_errors import encode_error
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.registered_partitions import refuse_registered, registered_partitions
from hudisql.write.changes import (
    COMBINED,
    FILE_GROUP,
    LOCATION_COLUMNS,
    NEW_ROWS,
    OPERATION,
    PARTITION,
    RECORD_KEY,
    SEQUENCE_NUMBER,
    RowOperation,
)
from hudisql.write.execution.driver_upsert import precombine_rows, slices_of_rows, tag_few_rows
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.bucket_index import groups_of_buckets
from hudisql.write.index.key_lookup import (
    STORED,
    STORED_GROUP,
    STORED_KEY,
    STORED_PARTITION,
    locate_keys,
)
from hudisql.write.index.record_index import RecordIndex
from hudisql.write.keygen.new_row_keys import check_has_record_key
from hudisql.write.keygen.partition_paths import PartitionPaths

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_IS_FIRST: Final = internal_column("is_first")
_KEY_FIELDS: Final = (pa.field(RECORD_KEY, pa.string()), pa.field(PARTITION, pa.string()))


def tag_locations(
    spark: SparkSession,
    table: HudiTable,
    rows: DataFrame,
    options: WriteOptions,
    resources: ExitStack,
    *,
    deletes: bool = False,
) -> tuple[DataFrame | pa.Table, int]:
    """The rows (the table's columns, its types) as changes: known keys are updated, others inserted.

    The second result is the number of rows replaced by others of their key. Rows stay cached until
    `resources` is closed; few changes of small slices are returned as a table in memory.

    Rows that are deletes by the table's merge mode, with `deletes` all of them, delete the stored row of
    their key. A global index looks for a key in all partitions. Raises WriteRefusedError for tables whose
    record keys are generated, and in the tasks for rows without a record key.
    """
    from pyspark.sql import functions as sf

    check_has_record_key(table)
    index = options.index
    chosen = rows.select(*[quote_name(name) for name in table.schema.names])
    if table.properties.has_register_only_partitions:
        refuse_keys_of_registered(table, chosen, options)
    few = collect_few_rows(chosen)
    keyed_rows = None if few is None else _keyed_rows(table, few, options)
    if keyed_rows is not None and not index.is_global and options.driver_max_bytes:
        tagged_rows = _tag_on_driver(table, keyed_rows, options, deletes=deletes)
        if tagged_rows is not None:
            return tagged_rows
    cached = _newest_rows(table, chosen, keyed_rows, options)
    resources.callback(cached.release)
    keyed = cached.frame
    located, combined = locate_keys(spark, table, cached, index, _stored_columns(table, index))
    condition = sf.col(RECORD_KEY) == sf.col(STORED_KEY)
    if not index.is_global:
        condition = condition & (sf.col(PARTITION) == sf.col(STORED_PARTITION))
    joined = keyed.join(located, condition, "left")
    known = sf.col(STORED_GROUP).isNotNull()
    deleted = sf.lit(deletes) | _is_delete(table)
    of_known = _operations(RowOperation.UPSERT)
    if index.is_global and index.moves_rows:
        joined = joined.withColumn(_IS_FIRST, _is_first_of_key())
        of_known = _operations_of_a_global_key(table)
    operations = (
        sf.when(known & deleted, _operations(RowOperation.DELETE))
        .when(deleted, sf.array().cast("array<tinyint>"))
        .when(known, of_known)
        .otherwise(_operations(RowOperation.INSERT))
    )
    columns = [sf.col(quote_name(name)) for name in table.schema.names]
    if index.is_global and not index.moves_rows:
        columns = _with_stored_partition(table, known)
    tagged = joined.select(
        sf.explode(operations).alias(OPERATION),
        sf.col(STORED_PARTITION).alias(PARTITION),
        sf.col(STORED_GROUP).alias(FILE_GROUP),
        RECORD_KEY,
        sf.lit(None).cast("string").alias(SEQUENCE_NUMBER),
        *columns,
    )
    is_new = sf.col(OPERATION).isin(*NEW_ROWS)
    for name in LOCATION_COLUMNS:
        tagged = tagged.withColumn(name, sf.when(~is_new, sf.col(name)))
    return tagged, combined


def refuse_keys_of_registered(table: HudiTable, rows: DataFrame, options: WriteOptions) -> None:
    """Raise RegisterOnlyError if keys of the rows may be stored in register-only partitions."""
    if options.index.is_global:
        refuse_registered(table, registered_partitions(table).by_path)
        return
    paths = PartitionPaths(table, options.key_generator)
    values = (
        rows.select(*[quote_name(partition_column.name) for partition_column in table.partition_columns])
        .distinct()
        .collect()
    )
    refuse_registered(table, [paths.path(tuple(value)) for value in values])


def event_time_fields_of(table: HudiTable) -> tuple[pa.Field, ...]:
    """The columns by which the table compares incoming rows with stored ones, if it does."""
    if not table.properties.keeps_later_event_times:
        return ()
    return tuple(
        table.schema.field(ordering_field)
        for ordering_field in table.ordering_fields
        if ordering_field in table.schema.names
    )


def _stored_columns(table: HudiTable, index: RecordIndex) -> pa.Schema:
    """The columns of stored rows that determine the operations."""
    if not index.is_global:
        return pa.schema([])
    if not index.moves_rows:
        return pa.schema(table.partition_columns)
    return pa.schema(event_time_fields_of(table))


def _operations_of_a_global_key(table: HudiTable) -> Column:
    """The operations for a stored row whose key comes in, if rows move to the incoming partition.

    Follows `HoodieIndexUtils.mergeForPartitionUpdatesIfNeeded`: an incoming row that is older than the stored
    one does not move it. If a key has several rows, the one in the incoming row's partition stays.
    """
    from pyspark.sql import functions as sf

    stays = sf.col(PARTITION) == sf.col(STORED_PARTITION)
    operations = sf.when(stays, _operations(RowOperation.UPSERT))
    operations = operations.when(~sf.col(_IS_FIRST), _operations(RowOperation.DELETE))
    fields = event_time_fields_of(table)
    if fields:
        is_late_arriving = is_newer_column(fields, STORED)
        operations = operations.when(is_late_arriving, _operations(RowOperation.UPSERT))
    return operations.otherwise(_operations(RowOperation.MOVE_OUT, RowOperation.MOVE_IN))


def _is_delete(table: HudiTable) -> Column:
    """True for rows that stand for deletes, as `deleted_rows`."""
    from pyspark.sql import functions as sf

    mode, is_delete = merge_mode_of(table), sf.lit(False)
    if mode.delete_field is not None and (place := find_field(table.schema, mode.delete_field)) >= 0:
        mark = sf.col(quote_name(table.schema.names[place])).cast("string")
        is_delete = mark == sf.lit(mode.delete_marker)
    is_delete = sf.coalesce(is_delete, sf.lit(False))
    if IS_DELETED in table.schema.names:
        is_delete = is_delete | sf.coalesce(sf.col(IS_DELETED), sf.lit(False))
    return is_delete


def _is_first_of_key() -> Column:
    """True for one of the stored rows of a key, if possible one in the incoming row's partition."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    stays = sf.col(PARTITION) == sf.col(STORED_PARTITION)
    order = Window.partitionBy(RECORD_KEY).orderBy(stays.desc(), STORED_PARTITION, STORED_GROUP)
    return sf.row_number().over(order) == 1


def _with_stored_partition(table: HudiTable, known: Column) -> list[Column]:
    """The table's columns of rows that stay in the partition where their key is stored."""
    from pyspark.sql import functions as sf

    names = {column.name for column in table.partition_columns}
    return [
        sf.when(known, sf.col(quote_name(STORED + name))).otherwise(sf.col(quote_name(name))).alias(name)
        if name in names
        else sf.col(quote_name(name))
        for name in table.schema.names
    ]


def _operations(*operations: RowOperation) -> Column:
    from pyspark.sql import functions as sf

    return sf.array(*[sf.lit(int(operation)).cast("tinyint") for operation in operations])


def _tag_on_driver(
    table: HudiTable, keyed: pa.Table, options: WriteOptions, *, deletes: bool
) -> tuple[pa.Table, int] | None:
    """`tag_locations` on the driver if the file slices of the rows' partitions are small, else None."""
    wanted = pa.schema([*_KEY_FIELDS, *table.schema])
    rows = pa.Table.from_batches([conform_batch(batch, wanted) for batch in keyed.to_batches()], wanted)
    newest = precombine_rows(rows, table.ordering_fields, merge_mode_of(table))
    slices = slices_of_rows(table, PartitionPaths(table, options.key_generator), newest)
    if sum(file_slice.own_length for file_slice in slices) > options.driver_max_bytes:
        return None
    if options.index.buckets is not None:
        groups_of_buckets(table, slices, options.index.buckets)
    tagged = tag_few_rows(table, options, newest, slices, deletes=deletes)
    return tagged, rows.num_rows - newest.num_rows


def _keyed_rows(table: HudiTable, few: pa.Table, options: WriteOptions) -> pa.Table:
    """Few rows with keys and paths."""
    paths = PartitionPaths(table, options.key_generator)
    fields, complex_keys = table.properties.record_key_fields, options.complex_keys
    batches = [_keyed_batch(batch, fields, paths, complex_keys=complex_keys) for batch in few.to_batches()]
    schema = pa.schema([*_KEY_FIELDS, *table.schema])
    return pa.Table.from_batches(batches) if batches else schema.empty_table()


def incoming_rows(table: HudiTable, rows: DataFrame, options: WriteOptions) -> CachedRows:
    """The newest of the rows (the table's columns) of each key, with RECORD_KEY, PARTITION and COMBINED.

    Raises WriteRefusedError, for many rows in the tasks, for rows without a record key.
    """
    few = collect_few_rows(rows)
    return _newest_rows(table, rows, None if few is None else _keyed_rows(table, few, options), options)


def _newest_rows(
    table: HudiTable, chosen: DataFrame, few: pa.Table | None, options: WriteOptions
) -> CachedRows:
    """The newest row of each key, with keys and paths; `few` are these rows on the driver, None if many."""
    schema = pa.schema([*_KEY_FIELDS, *table.schema])
    is_global = options.index.is_global
    spark = chosen.sparkSession
    if few is not None and _has_unique_keys(few, is_global=is_global):
        return few_cached_rows(
            spark,
            few.append_column(COMBINED, pa.array([0] * few.num_rows, pa.int64())),
            spark_struct(schema.append(pa.field(COMBINED, pa.int64()))),
        )
    if few is not None:
        keyed = local_frame(spark, few, spark_struct(schema)).coalesce(1)
        return cache_rows(_precombine_rows(keyed, table, is_global=is_global))
    keyed = with_record_keys(table, chosen, options)
    return cache_rows(_precombine_rows(keyed, table, is_global=is_global))


def with_record_keys(table: HudiTable, rows: DataFrame, options: WriteOptions) -> DataFrame:
    """The rows, which have the table's columns, with RECORD_KEY and PARTITION before them.

    Raises WriteRefusedError in the tasks for rows without a record key.
    """
    from pyspark.sql.types import StructType

    paths = PartitionPaths(table, options.key_generator)
    fields, complex_keys = table.properties.record_key_fields, options.complex_keys

    def render(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            try:
                yield _keyed_batch(batch, fields, paths, complex_keys=complex_keys)
            except WriteRefusedError as error:
                raise encode_error(error) from None

    keys = spark_struct(pa.schema(list(_KEY_FIELDS)))
    return rows.mapInArrow(render, StructType([*keys.fields, *rows.schema.fields]))


def _has_unique_keys(keyed: pa.Table, *, is_global: bool) -> bool:
    """True if no two rows have the same key, and partition unless the index is global."""
    key = [RECORD_KEY] if is_global else [RECORD_KEY, PARTITION]
    return bool(keyed.group_by(key).aggregate([]).num_rows == keyed.num_rows)


def _keyed_batch(
    batch: pa.RecordBatch, fields: Sequence[str], paths: PartitionPaths, *, complex_keys: bool
) -> pa.RecordBatch:
    """The rows with keys and paths, rendered as the tasks that write them do."""
    rendered = render_record_keys(batch, fields, complex_keys=complex_keys)
    if rendered.null_keys.count:
        raise WriteRefusedError(
            f"{rendered.null_keys.count} row(s) have no record key: {', '.join(fields)} is null or empty",
            hint="give every row a value in the record key columns; nothing was written",
        )
    return pa.record_batch(
        [rendered.keys, paths.of(batch), *batch.columns],
        names=[RECORD_KEY, PARTITION, *batch.schema.names],
    )


def _precombine_rows(keyed: DataFrame, table: HudiTable, *, is_global: bool) -> DataFrame:
    from pyspark.sql import functions as sf

    key = [sf.col(RECORD_KEY)] if is_global else [sf.col(RECORD_KEY), sf.col(PARTITION)]
    return keep_newest(
        keyed, key, table.ordering_fields, table.schema, combined=COMBINED, mode=merge_mode_of(table)
    )
