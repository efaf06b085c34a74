"""Rows that scans gave, by Spark's metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hudisql.spark.scanned_rows import scanned_rows

pytestmark = pytest.mark.spark


def test_rows_of_files_of_python_and_of_subqueries_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "rows")
    spark.range(1_000).write.parquet(path)

    def twice(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            yield batch

    file, python = spark.read.parquet(path), spark.range(10).mapInArrow(twice, "n long")
    joined = file.join(python, file.id == python.n).groupBy("n").count()
    assert scanned_rows(joined) == 0
    assert len(joined.collect()) == 10
    assert scanned_rows(joined) == 1_000 + 20
    table = f"parquet.`{path}`"
    odd = spark.sql(f"SELECT id FROM {table} WHERE id % 2 = (SELECT max(id) % 2 FROM {table})")
    assert len(odd.collect()) == 500
    assert scanned_rows(odd) == 2_000
