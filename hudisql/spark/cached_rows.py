"""Rows that are computed once, so that counting, tagging and writing use the same rows or the statement
fails.

Spark's own cache computes evicted rows again (`clearCache()`, the end of a statement with an equal plan, a
lost executor), and a source that calls `rand()` or reads a changing table then gives different rows. Few rows
are collected to the driver (`few_rows`). Others are cached by an `InMemoryRelation` outside of Spark's cache
manager and without lineage (`RDD.localCheckpoint`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hudisql.spark.few_rows import collect_few_rows, local_frame
from hudisql.spark.jvm import java_class, query_execution, scala_object
from hudisql.spark.versions import frame_of_plan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

LOST_ROWS: Final = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
"""Spark's error class for checkpointed rows that are lost."""


@dataclass(frozen=True)
class CachedRows:
    """The rows as a DataFrame, kept in memory and on disk from their first use until `release`.

    `few` are the same rows on the driver, if these are few; the DataFrame then has one partition.
    """

    frame: DataFrame
    few: pa.Table | None
    _builder: Any

    def release(self) -> None:
        """Free the rows. The DataFrame can no longer be used."""
        if self._builder is not None:
            self._builder.clearCache(False)


def cache_rows(frame: DataFrame) -> CachedRows:
    """Cache the rows of `frame`; its shuffles run now, the rest when the rows are first used.

    Few rows are computed at once.

    A job that needs lost rows fails with LOST_ROWS. Raises Spark's own exceptions.
    """
    few = collect_few_rows(frame)
    return cache_many_rows(frame) if few is None else few_cached_rows(frame.sparkSession, few, frame.schema)


def cache_many_rows(frame: DataFrame) -> CachedRows:
    """`cache_rows` for rows that are not few, or need not be collected."""
    spark = frame.sparkSession
    level = java_class(spark, "org.apache.spark.storage.StorageLevel").MEMORY_AND_DISK()
    unnamed = java_class(spark, "scala.Option").empty()
    relations = scala_object(spark, "org.apache.spark.sql.execution.columnar.InMemoryRelation")
    relation = relations.apply(level, query_execution(frame), unnamed)
    builder = relation.cacheBuilder()
    builder.cachedColumnBuffers().localCheckpoint()
    return CachedRows(frame_of_plan(spark, relation), None, builder)


def few_cached_rows(spark: SparkSession, rows: pa.Table, schema: StructType) -> CachedRows:
    """Few rows on the driver as the result of `cache_rows`, in one partition."""
    return CachedRows(local_frame(spark, rows, schema).coalesce(1), rows, None)
