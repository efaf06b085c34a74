"""What stands in for functions of newer PySparks does the same as these."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import UnsupportedStatementError
from hudisql.spark import versions
from hudisql.spark.few_rows import local_frame
from hudisql.spark.versions import arrow_column, repartition_by_id

pytestmark = pytest.mark.spark


class OlderFrame:
    """A DataFrame without the methods of PySpark 4.1."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __getattr__(self, name: str) -> Any:
        if name == "repartitionById":
            raise AttributeError(name)
        return getattr(self._frame, name)


@pytest.mark.parametrize("partitions", [1, 7, 200])
def test_rows_come_into_the_partition_of_their_number(spark: Any, partitions: int) -> None:
    from pyspark.sql import functions as sf

    rows = spark.range(0, 500, 1, 3).withColumn("number", sf.col("id").cast("int"))
    older: Any = OlderFrame(rows)
    spread = repartition_by_id(older, partitions, sf.col("number"))
    assert spread.rdd.getNumPartitions() == partitions
    places = spread.select("number", sf.spark_partition_id()).collect()
    assert len(places) == 500
    assert all(place == number % partitions for number, place in places)


EXACT = pa.table(
    {
        "big": pa.array([9007199254740993, None, -(1 << 63)], pa.int64()),
        "f": pa.array([0.1, float("nan"), None], pa.float32()),
        "d": pa.array([1e300, float("-inf"), None], pa.float64()),
        "day": pa.array([date(1, 1, 1), None, date(9999, 12, 31)], pa.date32()),
        "at": pa.array(
            [datetime(1900, 1, 1), None, datetime(9999, 1, 1, 1, 1, 1, 7)], pa.timestamp("us", "UTC")
        ),
        "local": pa.array([datetime(1900, 1, 1), None, datetime(9999, 1, 1, 1, 1, 1, 7)], pa.timestamp("us")),
        "amount": pa.array([Decimal("1.50"), None, Decimal("-99999999999999.99")], pa.decimal128(16, 2)),
        "yes": pa.array([True, None, False]),
        "raw": pa.array([b"\x00\xff", None, b""]),
        "text": pa.array(["ä", None, ""]),
        "small": pa.array([-5, None, 7], pa.int32()),
    }
)


def test_columns_reach_python_with_their_exact_values(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from hudisql.read.scan.arrow_scan import spark_struct

    def told(batch: pa.RecordBatch) -> pa.Array:
        return pa.array([repr(list(row.values())) for row in batch.to_pylist()])

    frame = local_frame(spark, EXACT, spark_struct(EXACT.schema))
    newer = arrow_column(told, "string", list(EXACT.schema))
    monkeypatch.setattr(versions, "_has_arrow_udf", lambda: False)
    older = arrow_column(told, "string", list(EXACT.schema))
    for row in frame.select(newer.alias("newer"), older.alias("older")).collect():
        assert row.older.replace("<UTC>", "") == row.newer.replace("<UTC>", "")
    nested = pa.field("s", pa.struct([("x", pa.int32())]))
    with pytest.raises(UnsupportedStatementError, match=r"nested column s need PySpark 4\.1"):
        arrow_column(told, "string", [nested])
