"""Tables that DataFrames made by Hudi's options: Apache Hudi goes on with the same options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hudisql import write_table
from hudisql.format.table_properties import CHECKSUM, CREATE_SCHEMA, TIMELINE_TIMEZONE
from hudisql.table.hudi_table import HudiTable
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import SHAPES
from tests.oracle.sources import sample_rows
from tests.soak import parameters
from tests.spark_versions import needs_spark

pytestmark = [pytest.mark.oracle, pytest.mark.spark]


@pytest.mark.soak
def test_hudi_015_goes_on_with_a_table_that_a_frame_made_by_its_options(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    shape, path = SHAPES[0], str(tmp_path / "table")
    options = {**shape.write_options(), "hoodie.table.name": "made_by_frame"}
    first = shape.with_partition_columns(sample_rows(0, 60))
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    write_table(session.spark.createDataFrame(first), "oracle.made_by_frame", **options, path=path)
    second = shape.with_partition_columns(sample_rows(60, 90))
    frame = session.spark.createDataFrame(second)
    frame.write.format("hudi").option("hoodie.datasource.write.operation", "bulk_insert").options(
        **options
    ).mode("append").save(path)
    oracle_015.upsert(shape.with_partition_columns(sample_rows(50, 100, "third")), path, options)
    kept = shape.with_partition_columns(sample_rows(0, 50))
    expected = pa.concat_tables([kept, shape.with_partition_columns(sample_rows(50, 100, "third"))])
    theirs = oracle_015.read(path)
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])
    ours = session.sql("SELECT * FROM oracle.made_by_frame").arrow()
    assert_same_rows(ours, theirs, sort_by=["seq"])


WRITE = "hoodie.datasource.write"
QUICK_START = {"hoodie.table.name": "trips", f"{WRITE}.partitionpath.field": "city"}
MADE_BY_PATH = {
    "without_key": QUICK_START,
    "keyed": {
        **QUICK_START,
        f"{WRITE}.recordkey.field": "uuid",
        f"{WRITE}.precombine.field": "ts",
    },
    "merge_on_read": {
        "hoodie.table.name": "trips",
        f"{WRITE}.table.type": "MERGE_ON_READ",
        f"{WRITE}.recordkey.field": "uuid,rider",
        f"{WRITE}.precombine.field": "ts",
        f"{WRITE}.partitionpath.field": "city,rider",
        f"{WRITE}.hive_style_partitioning": "true",
        f"{WRITE}.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
        f"{WRITE}.operation": "insert",
    },
    "not_partitioned": {
        "hoodie.table.name": "trips",
        f"{WRITE}.recordkey.field": "uuid",
        f"{WRITE}.operation": "insert_overwrite",
    },
}
# hudisql's tables have a schema before their first commit, and name instants in UTC.
_OTHERS = (CHECKSUM, CREATE_SCHEMA, TIMELINE_TIMEZONE)


def _trips(*numbers: int, fare: float = 0.5) -> pa.Table:
    cities = ("san_francisco", "sao_paulo", "chennai")
    return pa.table(
        {
            "ts": pa.array([1695000000000 + number for number in numbers], pa.int64()),
            "uuid": [f"u{number:03d}" for number in numbers],
            "rider": [f"rider-{number % 2}" for number in numbers],
            "fare": [number + fare for number in numbers],
            "city": [cities[number % 3] for number in numbers],
        }
    )


@pytest.mark.parametrize("name", parameters(MADE_BY_PATH, in_ci=[]))
@needs_spark("4.0", "Python data sources")
def test_a_table_made_by_path_has_the_properties_of_hudis_and_hudi_goes_on(
    oracle_015: HudiOracle, spark: SparkSession, tmp_path: Path, name: str
) -> None:
    options, ours, theirs = MADE_BY_PATH[name], str(tmp_path / "ours"), str(tmp_path / "theirs")
    first = _trips(*range(8))
    spark.createDataFrame(first).write.format("hudi").options(**options).mode("overwrite").save(ours)
    oracle_015.write(first, theirs, options, mode="overwrite")
    made, by_hudi = (open_at(path) for path in (ours, theirs))
    assert _properties(made) == _properties(by_hudi)
    assert made.timeline.completed[-1].action == by_hudi.timeline.completed[-1].action
    assert made.schema == by_hudi.schema
    assert_same_rows(oracle_015.read(ours).select(first.column_names), first, sort_by=["uuid"])

    later = {key: value for key, value in options.items() if not key.endswith(".operation")}
    more = _trips(*range(100, 104)) if name == "without_key" else _trips(*range(6, 12), fare=0.75)
    oracle_015.upsert(more, ours, later)
    kept = first if name == "without_key" else first.slice(0, 6)
    expected = pa.concat_tables([kept, more])
    assert_same_rows(oracle_015.read(ours).select(first.column_names), expected, sort_by=["uuid"])
    read = spark.read.format("hudi").load(ours)
    assert_same_rows(read.select(*first.column_names).toArrow(), expected, sort_by=["uuid"])

    changed = read.where("uuid = 'u001'").selectExpr("* EXCEPT (fare)", "fare * 10 AS fare")
    changed.write.format("hudi").options(**later).mode("append").save(ours)
    found = oracle_015.read(ours, where="uuid = 'u001'")
    assert found["fare"].to_pylist() == [15.0]


def _properties(table: HudiTable) -> dict[str, str]:
    return {name: value for name, value in table.properties.values.items() if name not in _OTHERS}


@needs_spark("4.0", "Python data sources")
def test_hudi_12_goes_on_with_a_table_made_by_path(
    oracle_120: HudiOracle, spark: SparkSession, tmp_path: Path
) -> None:
    options, path, first = MADE_BY_PATH["keyed"], str(tmp_path / "trips"), _trips(*range(8))
    spark.createDataFrame(first).write.format("hudi").options(**options).mode("append").save(path)
    assert_same_rows(oracle_120.read(path).select(first.column_names), first, sort_by=["uuid"])
    more = _trips(*range(6, 12), fare=0.75)
    oracle_120.upsert(more, path, options)
    spark.createDataFrame(more.slice(0, 1)).write.format("hudi").option(f"{WRITE}.operation", "delete").mode(
        "append"
    ).save(path)
    expected = pa.concat_tables([first.slice(0, 6), more.slice(1)])
    assert_same_rows(oracle_120.read(path).select(first.column_names), expected, sort_by=["uuid"])
