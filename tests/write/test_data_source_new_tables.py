"""`df.write.format("hudi")` where there is no table: Hudi's quick start for DataFrames, and refusals."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructField, StructType

from hudisql.errors import HudisqlError
from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.storage import Storage
from tests.opened import open_at
from tests.oracle.comparison import our_rows
from tests.spark_versions import module_since, needs_spark

make_writer = module_since("4.0", "Python data sources", "pyspark_hudisql.sink").make_writer
pytestmark = [pytest.mark.spark, needs_spark("4.0", "Python data sources")]

WRITE = "hoodie.datasource.write"
OPERATION = f"{WRITE}.operation"
COLUMNS = ["ts", "uuid", "rider", "driver", "fare", "city"]
TRIPS = [
    (1695159649087, "334e26e9", "rider-A", "driver-K", 19.10, "san_francisco"),
    (1695046462179, "9909a8b1", "rider-D", "driver-L", 33.90, "san_francisco"),
    (1695516137016, "e3cf430c", "rider-F", "driver-P", 34.15, "sao_paulo"),
    (1695115999911, "c8abbe79", "rider-J", "driver-T", 17.85, "chennai"),
]
NAMED = {"hoodie.table.name": "trips", f"{WRITE}.partitionpath.field": "city"}
KEYED = {**NAMED, f"{WRITE}.recordkey.field": "uuid", f"{WRITE}.precombine.field": "ts"}


def _save(rows: Any, path: Path, options: dict[str, str], mode: str = "append") -> None:
    rows.write.format("hudi").options(**options).mode(mode).save(str(path))


def _fares(spark: Any, path: Path) -> list[tuple[str, float]]:
    rows = spark.read.format("org.apache.hudi").load(str(path)).select("rider", "fare").collect()
    return sorted((row["rider"], row["fare"]) for row in rows)


@pytest.mark.soak
def test_rows_that_were_read_are_updated_and_deleted_by_their_generated_keys(
    spark: Any, tmp_path: Path
) -> None:
    path = tmp_path / "trips"
    _save(spark.createDataFrame(TRIPS, COLUMNS), path, NAMED, "overwrite")
    read = spark.read.format("hudi").load(str(path))
    assert read.columns == [*META_COLUMNS, *COLUMNS]
    _save(read.where("rider = 'rider-D'").selectExpr("* EXCEPT (fare)", "fare * 10 AS fare"), path, NAMED)
    gone = spark.read.format("hudi").load(str(path)).where("rider = 'rider-F'").localCheckpoint()
    _save(gone, path, {**NAMED, OPERATION: "delete"})
    left = [("rider-A", 19.1), ("rider-D", 339.0), ("rider-J", 17.85)]
    assert _fares(spark, path) == left
    with pytest.raises(PySparkException, match="that no stored row has"):
        _save(gone, path, {**NAMED, OPERATION: "upsert"})
    moved = gone.selectExpr("* EXCEPT (city)", "'lima' AS city")
    with pytest.raises(PySparkException, match="would leave their partition"):
        _save(moved, path, NAMED)
    assert _fares(spark, path) == left


def test_upsert_and_overwrite_combine_rows_of_one_key_and_columns_are_added(
    spark: Any, tmp_path: Path
) -> None:
    path = tmp_path / "trips"
    first = spark.createDataFrame(TRIPS, COLUMNS)
    older = first.selectExpr("* EXCEPT (ts, fare)", "ts - 1 AS ts", "0D AS fare").select(*COLUMNS)
    all_rows = [(row[2], row[4]) for row in TRIPS]
    _save(older.unionByName(first), path, KEYED)
    assert _fares(spark, path) == all_rows
    _save(first.limit(1).selectExpr("*", "int(7) AS tip"), path, {})
    _save(first.limit(2).drop("driver"), path, {})
    rows = spark.read.format("hudi").load(str(path)).select("rider", "driver", "tip").collect()
    assert sorted(map(tuple, rows), key=str) == [
        ("rider-A", None, None),
        ("rider-D", None, None),
        ("rider-F", "driver-P", None),
        ("rider-J", "driver-T", None),
    ]
    _save(older.unionByName(first).limit(6), path, {}, "overwrite")
    assert _fares(spark, path) == sorted(
        [(row[2], row[4] if row[2] in ("rider-A", "rider-D") else 0.0) for row in TRIPS]
    )
    assert open_at(path).timeline.completed[-1].action == "replacecommit"


def test_changes_of_a_new_table_with_change_logs_are_logged(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "trips"
    first = spark.createDataFrame(TRIPS, COLUMNS)
    _save(first, path, {**KEYED, "hoodie.table.cdc.enabled": "true"})
    assert not list(path.rglob(".*.cdc"))
    _save(first.limit(1).selectExpr("* EXCEPT (fare)", "0D AS fare"), path, {})
    assert len(list(path.rglob(".*.cdc"))) == 1
    with pytest.raises(PySparkException, match="contradicts the table trips, which has 'true'"):
        _save(first, path, {"hoodie.table.cdc.enabled": "false"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({f"{WRITE}.recordkey.field": "uuid"}, "hoodie.table.name is not set"),
        ({**KEYED, OPERATION: "delete"}, "(?s)there is no Hudi table at .*'delete' needs one"),
        ({**KEYED, OPERATION: "delete_partition"}, "there is no operation 'delete_partition'"),
        ({**KEYED, f"{WRITE}.recordkey.field": "no_column"}, "'no_column' names no column"),
        ({**KEYED, f"{WRITE}.partitionpath.field": "no_column"}, "no_column, which is not a column"),
        ({**KEYED, f"{WRITE}.keygenerator.class": "org.example.Own"}, "key generator org.example.Own"),
        ({**KEYED, "hoodie.table.cdc.supplemental.logging.mode": "all"}, "'all' is unknown"),
        (
            {**KEYED, "hoodie.populate.meta.fields": "false", "hoodie.table.cdc.enabled": "true"},
            "without meta columns .*it logs changes",
        ),
        ({**KEYED, "hoodie.datasource.hive_sync.enable": "true"}, "hive_sync.metastore.uris"),
        (
            {
                **KEYED,
                "hoodie.datasource.hive_sync.enable": "true",
                "hoodie.datasource.hive_sync.metastore.uris": "thrift://127.0.0.1:1",
            },
            "no metastore answers",
        ),
    ],
)
def test_a_refused_write_leaves_no_table(tmp_path: Path, options: dict[str, str], said: str) -> None:
    kinds = [LongType(), StringType(), StringType(), StringType(), DoubleType(), StringType()]
    rows = StructType([StructField(*each) for each in zip(COLUMNS, kinds, strict=True)])
    with pytest.raises(HudisqlError, match=said):
        make_writer(Storage(), {**options, "path": str(tmp_path / "trips")}, rows, overwrite=False)
    assert not (tmp_path / "trips").exists()


@pytest.mark.soak
def test_a_first_commit_that_fails_leaves_no_table_and_files_of_others_stay(
    spark: Any, tmp_path: Path
) -> None:
    rows = spark.createDataFrame(TRIPS, COLUMNS)
    for operation in ("upsert", "bulk_insert"):
        with pytest.raises(PySparkException, match="have no record key"):
            _save(
                rows.selectExpr("* EXCEPT (uuid)", "'' AS uuid"),
                tmp_path / "t",
                {**KEYED, OPERATION: operation},
            )
        assert not (tmp_path / "t" / ".hoodie").exists()
    # A task that outlives its commit may make a partition's marker behind the removal.
    late = tmp_path / "t" / "lima" / ".hoodie_partition_metadata"
    late.parent.mkdir(parents=True, exist_ok=True)
    late.write_text("")
    rows.write.parquet(str(tmp_path / "plain"))
    files = sorted((tmp_path / "plain").rglob("*"))
    for mode in ("append", "overwrite"):
        with pytest.raises(
            PySparkException, match=r"(?s)is not empty: it holds .*save to an empty directory"
        ):
            _save(rows, tmp_path / "plain", KEYED, mode)
    assert sorted((tmp_path / "plain").rglob("*")) == files

    # What a driver leaves that dies in between: a table whose first commit is inflight.
    make_writer(Storage(), {**KEYED, "path": str(tmp_path / "t")}, rows.schema, overwrite=False)
    marked = rows.selectExpr("*", "rider = 'rider-A' AS _hoodie_is_deleted")
    assert not late.exists()
    _save(rows, tmp_path / "t", {})
    _save(marked, tmp_path / "t", {}, "overwrite")
    assert [rider for rider, _ in _fares(spark, tmp_path / "t")] == ["rider-D", "rider-F", "rider-J"]


def test_a_metastore_that_the_options_name_is_synced(
    session: Any, metastore_uri: str, tmp_path: Path
) -> None:
    spark, path = session.spark, tmp_path / "trips"
    sync = "hoodie.datasource.hive_sync"
    options = {
        **KEYED,
        f"{sync}.enable": "true",
        f"{sync}.mode": "hms",
        f"{sync}.metastore.uris": metastore_uri,
        f"{sync}.database": "by_path",
        f"{sync}.table": "synced_trips",
    }
    rows = spark.createDataFrame(TRIPS, COLUMNS)
    _save(rows.where("city = 'chennai'"), path, options, "overwrite")
    _save(rows, path, options)
    counted = session.sql("SELECT city, count(*) FROM by_path.synced_trips GROUP BY city ORDER BY city")
    assert [tuple(row) for row in counted.df.collect()] == [
        ("chennai", 1),
        ("san_francisco", 2),
        ("sao_paulo", 1),
    ]
    with pytest.raises(PySparkException, match="takes hms alone"):
        _save(rows, path, {**options, f"{sync}.mode": "jdbc"})


def _written(path: Path, options: dict[str, str], rows: list[tuple[Any, ...]], columns: list[str]) -> Any:
    """A writer of one save, and what its one task sends."""
    types = {int: LongType(), float: DoubleType(), str: StringType(), bool: BooleanType()}
    schema = StructType(
        [StructField(name, types[type(value)]) for name, value in zip(columns, rows[0], strict=True)]
    )
    writer = make_writer(Storage(), {"path": str(path), **options}, schema, False)
    arrays = [pa.array(list(values)) for values in zip(*rows, strict=True)]
    return writer, writer.write(iter([pa.RecordBatch.from_arrays(arrays, names=columns)]))


def test_a_first_write_that_fails_leaves_the_table_to_one_that_has_begun(tmp_path: Path) -> None:
    path = tmp_path / "t"
    first, _ = _written(path, KEYED, TRIPS, COLUMNS)
    second, sent = _written(path, KEYED, TRIPS, COLUMNS)
    with suppress(HudisqlError):
        first.abort([])
    second.commit([sent])
    assert len(open_at(path).timeline.commits) == 1


def test_rows_of_one_key_need_a_column_that_orders_them(tmp_path: Path) -> None:
    unordered = {name: value for name, value in KEYED.items() if "precombine" not in name}
    with pytest.raises(HudisqlError, match="no ordering column that says which is the newest"):
        _written(tmp_path / "t", unordered, [*TRIPS, TRIPS[0]], COLUMNS)
    for kind in ("GLOBAL_BLOOM", "RECORD_INDEX"):
        with pytest.raises(HudisqlError, match="not by the index"):
            _written(tmp_path / kind, {**KEYED, "hoodie.index.type": kind}, TRIPS, COLUMNS)


def test_rows_marked_as_deleted_are_not_inserted(tmp_path: Path) -> None:
    marked = [(*row, number == 0) for number, row in enumerate(TRIPS)]
    columns = [*COLUMNS, "_hoodie_is_deleted"]
    for operation, rows in (("insert", 3), ("insert_overwrite", 3), ("bulk_insert", 4)):
        path = tmp_path / operation
        writer, sent = _written(path, {**KEYED, OPERATION: operation}, marked, columns)
        writer.commit([sent])
        assert len(our_rows(open_at(path))) == rows


def test_partition_values_that_readers_take_wrong_are_refused(tmp_path: Path) -> None:
    rows = [(*TRIPS[0][:5], "12:30")]
    writer, sent = _written(tmp_path / "t", {**KEYED, OPERATION: "insert"}, rows, COLUMNS)
    with pytest.raises(HudisqlError, match="readers of Apache Hudi take for something else") as caught:
        writer.commit([sent])
    assert "urlencode = true" in str(caught.value.hint)


@pytest.mark.soak
def test_an_option_makes_a_table_without_meta_columns(spark: Any, tmp_path: Path) -> None:
    rows, path = spark.createDataFrame(TRIPS, COLUMNS), tmp_path / "trips"
    option = {"hoodie.populate.meta.fields": "false"}
    _save(rows, path, {**KEYED, **option})
    _save(rows.limit(1), path, option)
    properties = (path / ".hoodie" / "hoodie.properties").read_text()
    assert "hoodie.populate.meta.fields=false" in properties
    assert spark.read.format("hudi").load(str(path)).count() == rows.count()
    with pytest.raises(PySparkException, match="contradicts the table trips, which has 'false'"):
        _save(rows, path, {"hoodie.populate.meta.fields": "true"})


def test_files_lack_the_partition_columns_if_the_options_say_so(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "trips"
    rows = spark.createDataFrame(TRIPS, COLUMNS).select("city", *COLUMNS[:-1])
    dropping = {**KEYED, f"{WRITE}.drop.partition.columns": "true"}
    _save(rows, path, dropping)
    _save(rows.where("rider = 'rider-D'").withColumn("fare", rows.fare * 10), path, KEYED)
    assert dict(_fares(spark, path))["rider-D"] == 339.0
    read = spark.read.format("hudi").load(str(path))
    assert sorted(row[0] for row in read.select("city").collect()) == sorted(row[5] for row in TRIPS)
    files = list(path.rglob("*.parquet"))
    assert len(files) == 4
    assert not [each for each in files if "city" in pq.read_schema(each).names]
    with pytest.raises(PySparkException, match=r"columns = 'false' contradicts the table"):
        _save(rows, path, {**KEYED, f"{WRITE}.drop.partition.columns": "false"})
