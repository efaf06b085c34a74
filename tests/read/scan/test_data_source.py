from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.read.files.predicates import Comparison, In, IsNotNull, IsNull, Not, StartsWith
from tests.rows import json_rows
from tests.spark_versions import module_since, needs_spark

instant_time = module_since("4.0", "Python data sources", "pyspark_hudisql.read_options").instant_time
pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", ["cow_bootstrap_2part", "cow_bootstrap_then_upsert_delete"])
def test_spark_finds_the_data_source_and_reads_rows_and_meta_columns(
    spark: Any, golden: Callable[[str], Any], name: str
) -> None:
    expected = golden(name)
    frame = spark.read.format("hudi").load(expected.table)
    assert frame.columns[:5] == list(META_COLUMNS)
    data = frame.drop(*META_COLUMNS)
    assert json_rows(data) == sorted(json.dumps(row, sort_keys=True) for row in expected.rows)
    meta = sorted(json.dumps(row, sort_keys=True) for row in expected.meta_rows)
    assert json_rows(frame.select(*META_COLUMNS)) == meta


_PLAIN_PYSPARK = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print(spark.read.format("hudi").load(sys.argv[1]).count())
"""


@pytest.mark.soak
@pytest.mark.slow
def test_installing_hudisql_is_enough_for_plain_pyspark(
    third_party: Callable[[str], str], tmp_path: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", _PLAIN_PYSPARK, third_party("v6_nonpartitioned")]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert int(done.stdout.splitlines()[-1]) > 0


def test_types_of_other_writers_tables_are_right(spark: Any, third_party: Callable[[str], str]) -> None:
    frame = spark.read.format("hudi").load(third_party("v6_complexkeygen_hivestyle"))
    row = frame.where("id = 2").first()
    assert row.mapField["key3"].asDict() == {
        "map_field_value_struct_f1": 234.567,
        "map_field_value_struct_f2": True,
    }
    assert bytes(row.binaryField) == b"more binary data"
    assert (row.byteField, row.shortField, row.dateField) == (20, 100, datetime.date(2023, 4, 2))


def test_a_partition_path_reads_that_partition(spark: Any, golden: Callable[[str], Any]) -> None:
    table = golden("cow_bootstrap_2part").table
    assert {row.region for row in spark.read.format("hudi").load(f"{table}/region=eu").collect()} == {"eu"}
    with pytest.raises(PySparkException, match="has no partition 'region=xx'"):
        spark.read.format("hudi").load(f"{table}/region=xx").collect()


def test_a_schema_reads_only_these_columns(spark: Any, golden: Callable[[str], Any]) -> None:
    reader = spark.read.format("hudi").schema("dt string, st struct<b string>")
    frame = reader.load(golden("cow_bootstrap_meta").table)
    assert frame.columns == ["dt", "st"]
    assert frame.where("st.b = 's7'").count() == 1
    with pytest.raises(PySparkException, match="no column 'zzz'"):
        spark.read.format("hudi").schema("zzz int").load(golden("cow_bootstrap_meta").table).collect()
    with pytest.raises(PySparkException, match="'seq' is int in the Hudi table, not string"):
        spark.read.format("hudi").schema("seq string").load(golden("cow_bootstrap_meta").table).collect()


@pytest.fixture
def filter_pushdown(spark: Any) -> Iterator[None]:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@needs_spark("4.1", "filters of Python data sources")
@pytest.mark.usefixtures("filter_pushdown")
def test_filters_are_pushed_where_spark_allows_it(
    spark: Any, golden: Callable[[str], Any], tmp_path: Path
) -> None:
    import shutil

    copied = tmp_path / "table"
    shutil.copytree(golden("cow_bootstrap_then_upsert_delete").table, copied)
    # If the filter on the partition column is used, this one is never opened.
    for base_file in (copied / "dt=2024-03-03").glob("*.parquet"):
        base_file.write_bytes(b"PAR1 not parquet PAR1")
    frame = spark.read.format("hudi").load(str(copied))
    expected = [
        row
        for row in golden("cow_bootstrap_then_upsert_delete").rows
        if row["dt"] == "2024-03-01" and row["seq"] < 150 and row["id"].startswith("k00000")
    ]
    found = frame.where("dt = '2024-03-01' and seq < 150 and id like 'k00000%' and st.a is not null")
    assert found.count() == len(expected) > 0
    assert frame.where("dt < '2024-03-03'").count() == 200 + 195


def test_what_cannot_be_read_right_is_refused(
    spark: Any, golden: Callable[[str], Any], tmp_path: Path
) -> None:
    with pytest.raises(PySparkException, match="no Hudi table at"):
        spark.read.format("hudi").load(str(tmp_path))
    for option, said in (
        ("hoodie.datasource.query.type", "is '0'; the hudi data source reads 'snapshot', 'read_optimized'"),
        ("hoodie.datasource.read.begin.instanttime", "an option of incremental queries"),
        ("hoodie.datasource.query.typ", "did you mean 'hoodie.datasource.query.type'"),
        ("as.of.instan", "did you mean 'as.of.instant'"),
    ):
        with pytest.raises(PySparkException, match=said) as caught:
            spark.read.format("hudi").option(option, "0").load(golden("cow_bootstrap_meta").table)
        assert "Traceback" not in str(caught.value)


def test_an_incremental_query_has_the_rows_of_a_window(spark: Any, golden: Callable[[str], Any]) -> None:
    expected = golden("cow_bootstrap_then_upsert_delete")
    begin = "hoodie.datasource.read.begin.instanttime"
    reader = spark.read.format("hudi").option("hoodie.datasource.query.type", "incremental")
    with pytest.raises(PySparkException, match=f"specify the begin instant time .* option {begin}"):
        reader.load(expected.table).collect()
    whole = reader.option(begin, "earliest").load(expected.table)
    assert whole.count() == len(expected.rows)
    times = sorted({row["_hoodie_commit_time"] for row in expected.meta_rows})
    since = reader.option(begin, times[0]).load(expected.table).select("id", "_hoodie_commit_time").collect()
    assert {row[1] for row in since} == set(times[1:])
    for option, value, said in (
        ("as.of.instant", times[0], "exclude each other"),
        ("hoodie.datasource.query.incremental.format", "all", "is 'all'; it is latest_state or cdc"),
        ("hoodie.datasource.read.incr.filters", "id > 1", "is not supported"),
    ):
        with pytest.raises(PySparkException, match=said):
            spark.read.format("hudi").option("hoodie.datasource.query.type", "incremental").option(
                begin, "000"
            ).option(option, value).load(expected.table)


@pytest.mark.parametrize("name", ["mor_parquet_log", "mor_rollback", "mor_upsert_only_updates"])
def test_a_snapshot_has_the_log_files_rows(spark: Any, golden: Callable[[str], Any], name: str) -> None:
    expected = golden(name)
    found = spark.read.format("hudi").load(expected.table).select("id", "seq", "fare").collect()
    assert sorted(tuple(row) for row in found) == sorted(
        (row["id"], row["seq"], row["fare"]) for row in expected.rows
    )


def test_read_optimized_leaves_log_files_aside(spark: Any, golden: Callable[[str], Any]) -> None:
    reader = spark.read.format("hudi").option("hoodie.datasource.query.type", "read_optimized")
    frame = reader.load(golden("mor_upsert_only_updates").table)
    assert frame.count() == golden("mor_upsert_only_updates").rows.__len__()


def test_a_catalog_table_needs_its_path_said(spark: Any, golden: Callable[[str], Any]) -> None:
    expected = golden("cow_bootstrap_meta")
    spark.sql(f"CREATE TABLE by_name USING hudi LOCATION '{expected.table}'")
    try:
        for read in (lambda: spark.sql("SELECT * FROM by_name"), lambda: spark.table("by_name")):
            with pytest.raises(PySparkException, match="the hudi data source got no path") as caught:
                read().collect()
            assert "WITH (path = '<location>')" in str(caught.value)
            assert "Traceback" not in str(caught.value)
        query = f"SELECT count(*), max(_hoodie_record_key) FROM by_name WITH (path = '{expected.table}')"
        assert tuple(spark.sql(query).first()) == (len(expected.rows), max(r["id"] for r in expected.rows))
    finally:
        spark.sql("DROP TABLE by_name")


@pytest.mark.parametrize(
    ("text", "means"),
    [
        (None, None),
        ("20240301120000123", "20240301120000123"),
        ("20240301120000", "20240301120000"),
        ("2024-03-01 12:00:00", "20240301120000000"),
        ("2024-03-01 12:00:00.123", "20240301120000123"),
        ("2024-03-01", "20240301000000000"),
    ],
)
def test_an_earlier_state_is_named_in_hudis_forms(text: str | None, means: str | None) -> None:
    assert instant_time(text) == means


def test_a_date_reads_the_state_of_that_date(spark: Any, golden: Callable[[str], Any]) -> None:
    expected = golden("cow_bootstrap_then_upsert_delete")
    reader = spark.read.format("hudi")
    assert reader.option("as.of.instant", "2026-12-31").load(expected.table).count() == len(expected.rows)
    with pytest.raises(PySparkException, match="'yesterday', which is not a point in time"):
        reader.option("as.of.instant", "yesterday").load(expected.table).collect()


@needs_spark("4.1", "filters of Python data sources")
def test_filters_translate_to_predicates() -> None:
    from pyspark.sql import datasource

    from pyspark_hudisql.filters import predicate_from_filter

    path = ("st", "b")
    assert predicate_from_filter(datasource.EqualTo(path, 1)) == Comparison(path, "=", 1)
    assert predicate_from_filter(datasource.EqualNullSafe(path, None)) == Comparison(path, "<=>", None)
    assert predicate_from_filter(datasource.GreaterThan(path, 1)) == Comparison(path, ">", 1)
    assert predicate_from_filter(datasource.GreaterThanOrEqual(path, 1)) == Comparison(path, ">=", 1)
    assert predicate_from_filter(datasource.LessThan(path, 1)) == Comparison(path, "<", 1)
    assert predicate_from_filter(datasource.LessThanOrEqual(path, 1)) == Comparison(path, "<=", 1)
    assert predicate_from_filter(datasource.In(path, (1, 2))) == In(path, (1, 2))
    assert predicate_from_filter(datasource.IsNull(path)) == IsNull(path)
    assert predicate_from_filter(datasource.Not(datasource.IsNotNull(path))) == Not(IsNotNull(path))
    assert predicate_from_filter(datasource.StringStartsWith(path, "x")) == StartsWith(path, "x")
    assert predicate_from_filter(datasource.StringEndsWith(path, "x")) is None
    assert predicate_from_filter(datasource.Not(datasource.StringContains(path, "x"))) is None
