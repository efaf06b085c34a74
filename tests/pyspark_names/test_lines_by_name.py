"""`hudisql.install(spark)`: lines of plain PySpark by the names of Hudi tables."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as sf

import hudisql
from hudisql.console import SilentConsole
from hudisql.errors import (
    InvalidArgumentError,
    SourceProtectedError,
    TableExistsError,
    UnknownColumnError,
    UnsupportedStatementError,
)
from tests.pyspark_names.programs import LINES
from tests.spark_versions import needs_spark

pytestmark = [pytest.mark.spark, pytest.mark.hms]
COLUMNS = "id INT, fare DOUBLE, ts INT, city STRING"
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}
# PySpark 4 has moved the transforms.
_years = getattr(sf, "partitioning", sf).years


@pytest.fixture(scope="module")
def installed(spark: Any) -> Iterator[Any]:
    """The suite's SparkSession, installed, with the table `names.trips` and the plain `names.plain`."""
    with hudisql.install(spark, console=SilentConsole()):
        spark.sql("CREATE DATABASE names")
        spark.sql(
            f"CREATE TABLE names.trips ({COLUMNS}) USING hudi PARTITIONED BY (city) "
            "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts')"
        )
        spark.sql("INSERT INTO names.trips VALUES (1, 1.5, 1, 'oslo'), (2, 2.5, 1, 'rome')")
        spark.sql("CREATE TABLE names.plain USING parquet AS SELECT 1 AS id, 'x' AS v")
        yield spark
        spark.sql("DROP DATABASE names CASCADE")


def ids(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


@pytest.fixture
def copied(installed: Any) -> Iterator[str]:
    """A new table with the rows of `names.trips`, made by `saveAsTable`."""
    writer = installed.table("names.trips").write.format("hudi").options(**OPTIONS)
    writer.partitionBy("city").saveAsTable("names.copied")
    yield "names.copied"
    installed.sql("DROP TABLE IF EXISTS names.copied")


@pytest.mark.soak
def test_all_lines_of_the_oracle_s_program_run(spark: Any) -> None:
    answers: dict[str, Any] = {}
    with hudisql.install(spark, console=SilentConsole()):
        exec(LINES, {"spark": spark, "answers": answers})
    assert answers["read and written"] == [
        [1, 0.0, 3, "oslo"],
        [2, 3.5, 1, "rome"],
        [4, 4.5, 2, "oslo"],
        [5, 5.5, 3, "rome"],
    ]
    assert answers["saved"] == [[1, 1.0, 1, "oslo"], [1, 2.0, 2, "oslo"], [2, 3.0, 1, "rome"]]
    assert answers["replaced"] == answers["saved"]
    assert answers["overwritten"] == [[1, 11.0, 3, "oslo"], [5, 5.5, 3, "rome"]]


def test_tables_are_read_and_changed_by_name(installed: Any, copied: str) -> None:
    trips = installed.table(copied)
    assert trips.columns[:6] == [
        *("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path"),
        *("_hoodie_file_name", "id"),
    ]
    assert trips.sparkSession is installed
    rows = installed.createDataFrame([(1, 9.0, 2, "oslo"), (3, 3.5, 2, "oslo")], COLUMNS)
    installed.sql(
        f"MERGE INTO {copied} t USING {{rows}} s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        rows=rows,
    )
    rows.withColumn("id", sf.lit(4)).limit(1).write.mode("append").saveAsTable(copied)
    # The frame keeps the state that it was made of, as with Hudi's bundle.
    assert ids(trips) == [1, 2]
    found = installed.read.table(copied).where("city = 'oslo'").select("id", "fare")
    assert sorted(map(tuple, found.collect())) == [(1, 9.0), (3, 3.5), (4, 9.0)]
    # What was read has Hudi's meta columns first, which a write leaves out.
    installed.table(copied).where("id = 3").withColumn("fare", sf.lit(0.0)).write.insertInto(copied)
    assert installed.sql(f"SELECT fare FROM {copied} WHERE id = 3").head()[0] == 0.0
    rows.write.insertInto(copied, overwrite=True)
    assert ids(installed.table(copied)) == [1, 3]


@pytest.mark.soak
def test_a_new_table_is_made_by_its_options_and_changed_by_name(installed: Any) -> None:
    twice = installed.createDataFrame([(1, 1.0, 1, "oslo"), (1, 2.0, 2, "oslo")], COLUMNS)
    try:
        twice.write.format("hudi").options(**OPTIONS).partitionBy("city").saveAsTable("names.made")
        # A bulk insert, as Hudi's.
        assert ids(installed.table("names.made")) == [1, 1]
        assert [row.partition for row in installed.sql("SHOW PARTITIONS names.made").collect()] == [
            "city=oslo"
        ]
        with pytest.raises(TableExistsError, match=r"names\.made exists: nothing was written"):
            twice.write.format("hudi").saveAsTable("names.made")
        twice.write.format("hudi").mode("ignore").saveAsTable("names.made")
        more = installed.createDataFrame([("rome", 2, 5.0, 1)], "city STRING, id INT, fare DOUBLE, ts INT")
        more.write.mode("append").saveAsTable("names.made")
        assert ids(installed.table("names.made")) == [1, 1, 2]
        more.writeTo("names.made").overwritePartitions()
        more.withColumn("id", sf.lit(7)).writeTo("names.made").append()
        assert ids(installed.table("names.made")) == [1, 1, 2, 7]
        more.write.mode("overwrite").options(**OPTIONS).partitionBy("city").saveAsTable("names.made")
        assert ids(installed.table("names.made")) == [2]
        with pytest.raises(InvalidArgumentError, match="contradicts the table"):
            more.write.mode("append").partitionBy("ts").saveAsTable("names.made")
        with pytest.raises(UnknownColumnError, match="no column 'w'"):
            more.withColumn("w", sf.lit(1)).write.mode("append").saveAsTable("names.made")
    finally:
        installed.sql("DROP TABLE IF EXISTS names.made")


def test_parameters_are_those_of_spark_sql(installed: Any) -> None:
    text = "SELECT * FROM names.trips WHERE city = :city AND id < :id"
    named = {"city": "rome", "id": sf.lit(5), "unused": [1]}
    assert ids(installed.sql(text, args=named)) == [2]
    assert ids(installed.sql("SELECT * FROM names.trips WHERE id IN (?, ?)", [1, 2, 3])) == [1, 2]
    assert ids(
        installed.sql("SELECT * FROM names.trips WHERE array_contains(?, id)", [sf.array(sf.lit(2))])
    ) == [2]
    assert ids(installed.sql("SELECT * FROM IDENTIFIER(:name)", {"name": "names.trips"})) == [1, 2]
    trips = installed.table("names.trips")
    formatted = installed.sql(
        "SELECT {city} FROM {trips} WHERE id > {least}", city=sf.col("city"), trips=trips, least=1
    )
    assert [row.city for row in formatted.collect()] == ["rome"]
    installed.sql("SET names.table = names.trips")
    assert ids(installed.sql("SELECT * FROM ${names.table}")) == [1, 2]
    assert installed.sql("DELETE FROM ${names.table} WHERE id = 99").head()["rows_deleted"] == 0
    with pytest.raises(AnalysisException, match="UNBOUND_SQL_PARAMETER"):
        installed.sql("SELECT :missing AS x", {"other": 1}).collect()


def test_statements_without_hudi_tables_are_spark_s_own(installed: Any) -> None:
    assert [tuple(row) for row in installed.table("names.plain").collect()] == [(1, "x")]
    for read in (installed.table, installed.read.table, lambda name: installed.sql(f"TABLE {name}")):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            read("names.no_table")
    with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
        installed.sql("SELEC 1")
    with pytest.raises(AnalysisException, match=r"UNRESOLVED_COLUMN"):
        installed.sql("SELECT nothing FROM names.plain")
    installed.range(1, 2).selectExpr("cast(id AS int) AS id", "'y' AS v").write.insertInto("names.plain")
    installed.range(1).write.saveAsTable("names.numbers")
    assert ids(installed.table("names.numbers")) == [0]
    assert installed.sql("DROP TABLE names.numbers").columns == []
    with pytest.raises(AnalysisException, match="doesn't match the specified format"):
        installed.range(1).write.format("parquet").mode("append").saveAsTable("names.trips")
    assert installed.catalog.tableExists("names.trips")
    assert {"plain", "trips"} <= {table.name for table in installed.catalog.listTables("names")}


def test_a_mode_of_another_type_is_refused_as_by_spark(installed: Any) -> None:
    rows = installed.range(1)
    with pytest.raises(Exception, match="mode") as own:
        type(rows.write).__mro__[1](rows).mode(5)
    with pytest.raises(type(own.value), match="mode"):
        rows.write.mode(5)


def test_views_over_hudi_tables_and_frames_of_them(installed: Any) -> None:
    installed.table("names.trips").where("city = 'rome'").createOrReplaceTempView("of_frame")
    installed.sql("CREATE OR REPLACE TEMPORARY VIEW of_text AS SELECT id, fare FROM names.trips")
    installed.sql("CREATE VIEW names.stored AS SELECT id FROM names.trips")
    try:
        joined = installed.sql(
            "SELECT f.id FROM of_frame f JOIN names.trips t ON f.id = t.id JOIN of_text USING (id)"
        )
        assert ids(joined) == [2]
        for name in ("of_text", "names.stored"):
            assert ids(installed.table(name)) == [1, 2]
    finally:
        installed.sql("DROP VIEW names.stored")
        for name in ("of_frame", "of_text"):
            installed.catalog.dropTempView(name)


def test_options_of_a_read_by_name(installed: Any, copied: str) -> None:
    first = installed.table(copied).head()["_hoodie_commit_time"]
    installed.sql(f"INSERT INTO {copied} VALUES (5, 5.0, 1, 'rome')")
    assert ids(installed.read.option("as.of.instant", first).table(copied)) == [1, 2]
    incremental = installed.read.option("hoodie.datasource.query.type", "incremental")
    assert ids(incremental.option("hoodie.datasource.read.begin.instanttime", first).table(copied)) == [5]
    optimized = installed.read.options(**{"hoodie.datasource.query.type": "read_optimized"})
    assert ids(optimized.table(copied)) == [1, 2, 5]
    with pytest.raises(InvalidArgumentError, match=r"does not take the option mergeschema.*"):
        installed.read.option("mergeSchema", True).table(copied)
    assert installed.read.option("mergeSchema", True).table("names.plain").columns == ["id", "v"]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda frame: frame.writeTo("names.trips").overwrite(sf.lit(True)), r"overwrite\(condition\)"),
        (lambda frame: frame.writeTo("names.trips").replace(), r"replace\(\) of a Hudi table"),
        (lambda frame: frame.writeTo("names.new").using("hudi").createOrReplace(), r"createOrReplace\(\)"),
        (
            lambda frame: frame.writeTo("names.new").using("hudi").partitionedBy(_years("at")).create(),
            r"partitionedBy\(years\(at\)\)",
        ),
        (
            lambda frame: frame.write.format("hudi").bucketBy(2, "id").saveAsTable("names.new"),
            "bucketBy of a Hudi table",
        ),
        pytest.param(
            lambda frame: frame.mergeInto("names.trips", sf.lit(True)),
            r"mergeInto\('names.trips', …\)",
            marks=needs_spark("4.0", "mergeInto"),
        ),
    ],
)
def test_what_a_writer_cannot_do_is_refused_by_name(installed: Any, write: Any, message: str) -> None:
    with pytest.raises(UnsupportedStatementError, match=message) as caught:
        write(installed.range(1))
    assert caught.value.hint
    assert ids(installed.table("names.trips")) == [1, 2]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (
            lambda one: one.write.format("parquet").mode("overwrite").saveAsTable("names.trips"),
            "trips exists",
        ),
        (lambda one: one.write.format("hudi").mode("overwrite").saveAsTable("names.plain"), "plain exists"),
        (lambda one: one.write.partitionBy("id").insertInto("names.trips"), "does not take partitionBy"),
        (lambda one: one.write.mode("append").saveAsTable("names.trips"), "no column fare"),
        (lambda one: one.writeTo("names.trips").append(), "no column fare"),
    ],
)
def test_a_write_that_would_take_rows_away_is_refused(installed: Any, write: Any, message: str) -> None:
    before = installed.table("names.plain").collect()
    with pytest.raises((TableExistsError, InvalidArgumentError), match=message) as caught:
        write(installed.sql("SELECT id, 'oslo' AS city, 5 AS ts FROM VALUES (1) AS t(id)"))
    assert caught.value.hint
    assert installed.sql("SELECT fare FROM names.trips ORDER BY id").collect() == [(1.5,), (2.5,)]
    assert installed.table("names.plain").collect() == before


def test_an_interval_is_a_parameter(installed: Any) -> None:
    text, argument = "SELECT :step AS step FROM names.trips LIMIT 1", {"step": timedelta(hours=26)}
    assert installed.sql(text, argument).head()[0] == timedelta(hours=26)


@pytest.mark.soak
def test_files_of_a_bootstrapped_table_stay_protected(installed: Any, tmp_path: Any) -> None:
    source = tmp_path / "source"
    installed.range(3).write.parquet(str(source))
    installed.sql(f"CREATE TABLE names.source (id BIGINT) USING parquet LOCATION '{source}'")
    installed.sql(
        "CALL bootstrap_table(table => 'names.target', source_table => 'names.source', record_key => 'id')"
    )
    try:
        assert ids(installed.table("names.target")) == [0, 1, 2]
        with pytest.raises(SourceProtectedError):
            installed.sql("INSERT OVERWRITE names.source SELECT 7L")
        one = installed.range(7, 8)
        for write in (
            lambda: one.write.insertInto("names.source", overwrite=True),
            lambda: one.write.mode("overwrite").insertInto("names.source"),
            lambda: one.write.mode("overwrite").saveAsTable("names.source"),
            lambda: one.writeTo("names.source").overwritePartitions(),
            lambda: one.writeTo("names.source").using("parquet").createOrReplace(),
            lambda: one.writeTo("names.source").overwrite(sf.lit(True)),
        ):
            with pytest.raises(SourceProtectedError, match="would delete files"):
                write()
        one.write.insertInto("names.source")
        assert ids(installed.table("names.target")) == [0, 1, 2]
    finally:
        installed.sql("DROP TABLE names.target")
        installed.sql("DROP TABLE names.source")
