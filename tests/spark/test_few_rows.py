"""Few rows on the driver: which plans give few, and that the rows are those of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.read.scan.arrow_scan import spark_struct
from hudisql.spark.cached_rows import cache_rows
from hudisql.spark.few_rows import MOST_ROWS, arrow_frame, collect_few_rows, local_frame

pytestmark = pytest.mark.spark

_EVERY_TYPE = """
    SELECT CAST(a AS TINYINT) a, CAST(a AS SMALLINT) b, CAST(a AS INT) c, a d, CAST(a AS FLOAT) e,
           CAST('NaN' AS DOUBLE) f, CAST(a AS DECIMAL(38, 10)) g, CAST(a AS STRING) h, CAST('x' AS BINARY) i,
           DATE'1500-01-01' j, TIMESTAMP'0001-01-01 00:00:00.000001' k, TIMESTAMP_NTZ'9999-12-31 23:59:59' l,
           a > 1 m, CAST(NULL AS STRING) n, TIMESTAMP'2024-03-31 02:30:00' o
    FROM VALUES (1L), (2L), (NULL) AS v(a)
"""


@pytest.mark.parametrize("frame_of", [local_frame, arrow_frame], ids=["local_frame", "arrow_frame"])
@pytest.mark.parametrize("count", [0, 3, 2_000])
def test_integers_get_the_sizes_of_the_schema(spark: Any, count: int, frame_of: Any) -> None:
    rows = pa.table({"one": pa.array([n % 5 for n in range(count)], pa.int8()), "two": pa.array([7] * count)})
    rows = rows.cast(pa.schema([("one", pa.int8()), ("two", pa.int64())]))
    frame = frame_of(spark, rows, spark_struct(rows.schema))
    assert frame.schema.simpleString() == "struct<one:int,two:bigint>"
    assert [tuple(row) for row in frame.collect()] == [(n % 5, 7) for n in range(count)]


def test_every_atomic_type_comes_back_as_it_was(spark: Any) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone in ("UTC", "Europe/Berlin", "America/New_York"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            frame = spark.sql(_EVERY_TYPE)
            few = collect_few_rows(frame)
            assert few is not None
            as_text = [f"CAST({name} AS STRING)" for name in frame.columns]
            for frame_of in (local_frame, arrow_frame):
                again = frame_of(spark, few, frame.schema)
                assert again.schema.simpleString() == frame.schema.simpleString()
                assert again.selectExpr(*as_text).collect() == frame.selectExpr(*as_text).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize(
    "text",
    [
        "VALUES (1), (2)",
        "SELECT id FROM range(100)",
        "SELECT a, count(*) n FROM VALUES (1), (1) AS v(a) GROUP BY a ORDER BY a LIMIT 5",
        "SELECT a.id FROM range(3) a JOIN range(3) b ON a.id = b.id",
        "SELECT explode(sequence(1, 10))",
    ],
)
def test_rows_that_the_statement_holds_are_few(spark: Any, text: str) -> None:
    frame = spark.sql(text)
    few = collect_few_rows(frame)
    assert few is not None
    rows = sorted(tuple(row.values()) for row in few.to_pylist())
    assert rows == sorted(tuple(row) for row in frame.collect())


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM range(10000000)",
        "SELECT explode(sequence(1, 1000000))",
        "SELECT array(1) a",
        "SELECT a.id FROM range(1000) a CROSS JOIN range(1000) b",
    ],
)
def test_other_rows_are_not(spark: Any, text: str) -> None:
    assert collect_few_rows(spark.sql(text)) is None


def test_callers_say_what_is_few(spark: Any) -> None:
    frame = spark.sql("SELECT explode(sequence(1, 10)) a")
    assert collect_few_rows(frame, most_rows=9) is None
    found = collect_few_rows(frame, most_rows=10)
    assert found is not None
    assert found.num_rows == 10
    held = spark.sql("SELECT * FROM VALUES (1), (2)")
    assert collect_few_rows(held, most_bytes=1) is None


def test_files_and_python_functions_are_never_few(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "files")
    spark.range(3).write.parquet(path)
    assert collect_few_rows(spark.read.parquet(path)) is None
    assert collect_few_rows(spark.range(3).mapInArrow(lambda batches: batches, "id long")) is None
    assert collect_few_rows(spark.createDataFrame([(1,)], "a int")) is None


def test_more_rows_than_few_run_as_ever(spark: Any) -> None:
    frame = spark.sql(f"SELECT explode(sequence(1, {MOST_ROWS + 1})) a")
    assert collect_few_rows(frame) is None
    cached = cache_rows(frame)
    assert cached.few is None
    assert cached.frame.count() == MOST_ROWS + 1
    cached.release()


def test_few_cached_rows_are_computed_once_and_are_one_partition(spark: Any) -> None:
    cached = cache_rows(spark.sql("SELECT rand() AS r FROM range(20)"))
    assert cached.few is not None
    first = sorted(cached.few.column(0).to_pylist())
    assert sorted(row[0] for row in cached.frame.collect()) == first
    assert cached.frame.rdd.getNumPartitions() == 1
    cached.release()
