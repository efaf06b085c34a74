"""Rows computed as `collect` computes them: in growing numbers of partitions, until there are enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudisql.spark.jvm import java_dataset, java_session
from hudisql.spark.versions import frame_of_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def first_rows(frame: DataFrame, count: int) -> DataFrame:
    """The first `count` rows, held by the driver. Raises Spark's exceptions."""
    return collected(frame.limit(count))


def collected(frame: DataFrame) -> DataFrame:
    """The same rows, held by the driver: a LIMIT computes no more partitions than it needs.

    Raises Spark's exceptions. PySpark's conversion to Arrow would compute some rows of every partition.
    """
    spark, dataset = frame.sparkSession, java_dataset(frame)
    rows = java_session(spark).createDataFrame(dataset.collectAsList(), dataset.schema())
    return frame_of_java(spark, rows)
