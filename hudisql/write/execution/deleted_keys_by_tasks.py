"""`deleted_keys` by Spark: for many new rows, and for many file slices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from hudisql.format.schema.spark_schema import quote_name
from hudisql.read.scan.arrow_scan import spark_struct
from hudisql.spark.cached_rows import cache_many_rows, few_cached_rows
from hudisql.spark.versions import to_arrow
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.write.changes import COMBINED, OPERATION, PARTITION, RECORD_KEY, REMOVALS
from hudisql.write.execution.deleted_keys import (
    LOCATION,
    FindKeys,
    UnplacedRows,
    find_on_driver,
    slices_with_deletes,
)
from hudisql.write.execution.upsert import with_record_keys
from hudisql.write.execution.workload_profile import WorkloadProfile, goes_anywhere_column
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.index.key_lookup import (
    STORED_GROUP,
    STORED_KEY,
    STORED_PARTITION,
    locate_in_base_files,
)
from hudisql.write.keygen.generated_paths import key_and_path_columns
from hudisql.write.keygen.partition_paths import PartitionPaths

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# So many footers are read on the driver before a Spark job has started.
_MOST_SLICES: Final = 64
_STORED: Final = dict(zip(LOCATION.names, (STORED_KEY, STORED_PARTITION, STORED_GROUP), strict=True))


def find_by_number(spark: SparkSession, table: HudiTable) -> FindKeys:
    """Finds keys on the driver, or by a Spark job if there are many slices."""

    def find(slices: Sequence[FileSlice], rows: UnplacedRows) -> Iterable[pa.Table]:
        if len(slices) <= _MOST_SLICES:
            return find_on_driver(table.storage)(slices, rows)
        keys = pa.table([rows.keys, rows.paths], names=[RECORD_KEY, PARTITION])
        keys = keys.append_column(COMBINED, pa.array(np.zeros(keys.num_rows, np.int64)))
        keyed = few_cached_rows(spark, keys, spark_struct(keys.schema))
        found = to_arrow(locate_in_base_files(spark, table, keyed, slices))
        return [found.select([*_STORED.values()]).rename_columns(LOCATION.names).cast(LOCATION)]

    return find


def place_deleted_keys_by_tasks(
    spark: SparkSession,
    table: HudiTable,
    changes: DataFrame,
    counted: WorkloadProfile,
    options: WriteOptions,
    resources: ExitStack,
) -> DataFrame | None:
    """`place_deleted_keys` of many changes, which are `counted`.

    None if no new row has a deleted key. Keys and placed rows stay cached until `resources` is closed. Raises
    in the tasks WriteRefusedError for rows without a record key.
    """
    from pyspark.sql import functions as sf

    paths = PartitionPaths(table, options.key_generator)
    slices = slices_with_deletes(table, paths, paths.paths_of(counted.new_rows).values())
    if not slices and not counted.removes:
        return None
    new = changes.filter(goes_anywhere_column())
    columns = key_and_path_columns(table, options.key_generator)
    keys = with_record_keys(table, new.select([quote_name(field.name) for field in columns]), options)
    keyed = cache_many_rows(keys.select(RECORD_KEY, PARTITION, sf.lit(0).cast("bigint").alias(COMBINED)))
    resources.callback(keyed.release)
    found = changes.filter(sf.col(OPERATION).isin(*REMOVALS)).select(
        *[sf.col(name).alias(stored) for name, stored in _STORED.items()]
    )
    if slices:
        found = found.unionByName(locate_in_base_files(spark, table, keyed, slices))
    place = (sf.col(RECORD_KEY) == sf.col(STORED_KEY)) & (sf.col(PARTITION) == sf.col(STORED_PARTITION))
    located = cache_many_rows(
        keyed.frame.join(found, place)
        .groupBy(STORED_KEY, STORED_PARTITION)
        .agg(sf.min(STORED_GROUP).alias(STORED_GROUP))
    )
    resources.callback(located.release)
    if located.frame.isEmpty():
        return None
    rows = with_record_keys(table, new.drop(*LOCATION.names), options)
    places = [sf.col(_STORED.get(name, quote_name(name))).alias(name) for name in changes.columns]
    placed = cache_many_rows(rows.join(located.frame, place, "left").select(*places))
    resources.callback(placed.release)
    return changes.filter(~goes_anywhere_column()).unionByName(placed.frame)
