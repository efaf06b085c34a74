"""`df.write.format("hudi")` on plain PySpark: one commit of new rows, or nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.storage import Storage
from hudisql.table.timeline.instant_files import read_extra_metadata
from hudisql.write.transaction.markers import list_markers
from tests.opened import open_at
from tests.spark_versions import needs_spark

pytestmark = [pytest.mark.spark, needs_spark("4.0", "Python data sources")]

OPERATION = "hoodie.datasource.write.operation"


@pytest.fixture
def table(golden: Callable[[str], Any], tmp_path: Path) -> str:
    """A bootstrapped table, partitioned by dt."""
    path = tmp_path / "table"
    shutil.copytree(golden("cow_bootstrap_meta").table, path)
    return str(path)


def _rows(spark: Any, path: str) -> Any:
    return spark.read.format("hudi").load(path).drop(*META_COLUMNS)


def _fresh(spark: Any, path: str) -> Any:
    """Some of the table's rows under new keys, one in a new partition, columns in another order."""
    rows = _rows(spark, path).where("seq < 40").selectExpr("concat('n', id) AS id", "* EXCEPT (id)")
    rows = rows.selectExpr("if(seq = 0, '2031-01-01', dt) AS dt", "* EXCEPT (dt)")
    return spark.createDataFrame(rows.toArrow()).repartition(3)


def _actions(path: str) -> list[str]:
    return [each.action for each in open_at(path).timeline.completed]


def test_append_loads_rows_into_new_file_groups_and_overwrite_replaces_all(spark: Any, table: str) -> None:
    before, fresh = _rows(spark, table).count(), _fresh(spark, table)
    key = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.parquet.compression.codec": "snappy"}
    fresh.write.format("hudi").option(OPERATION, "bulk_insert").options(**key).mode("append").save(table)
    after = spark.read.format("hudi").load(table)
    assert after.count() == before + fresh.count()
    new = after.where("id LIKE 'n%'")
    assert {row[0] for row in new.where("dt = '2031-01-01'").select("_hoodie_partition_path").collect()} == {
        "dt=2031-01-01"
    }
    columns = _rows(spark, table).columns
    assert sorted(map(str, new.select(columns).collect())) == sorted(
        map(str, fresh.select(columns).collect())
    )
    instant = open_at(table).timeline.commits[-1].timestamp
    assert list_markers(Storage(), table, instant) == []
    fresh.write.format("hudi").mode("overwrite").save(table)
    assert _rows(spark, table).count() == fresh.count()
    assert _actions(table)[-1] == "replacecommit"


@pytest.mark.parametrize(
    "name", [pytest.param("cow_bootstrap_meta", marks=pytest.mark.soak), "mor_bootstrap_meta"]
)
def test_append_upserts_by_default_and_deletes_by_key(
    spark: Any, golden: Callable[[str], Any], tmp_path: Path, name: str
) -> None:
    table = str(shutil.copytree(golden(name).table, tmp_path / "t"))
    columns = _rows(spark, table).columns
    before = {row["id"]: row for row in _rows(spark, table).collect()}
    known = (
        _rows(spark, table)
        .where("seq % 50 = 7")
        .selectExpr(*("seq + 1000 AS seq" if column == "seq" else column for column in columns))
    )
    known, fresh = spark.createDataFrame(known.toArrow()), _fresh(spark, table).select(*columns)
    older = known.selectExpr(*("seq - 500 AS seq" if column == "seq" else column for column in columns))
    rows = known.unionByName(fresh).unionByName(older).repartition(4)
    rows.write.format("hudi").mode("append").save(table)
    expected = {**before, **{row["id"]: row for row in (*known.collect(), *fresh.collect())}}
    found = _rows(spark, table).collect()
    assert len(found) == len(expected)
    assert {row["id"]: str(row) for row in found} == {key: str(row) for key, row in expected.items()}
    instant = open_at(table).timeline.commits[-1].timestamp
    assert list_markers(Storage(), table, instant) == []

    gone = _rows(spark, table).where("seq >= 1000 OR id LIKE 'n%'")
    gone = spark.createDataFrame(gone.toArrow())
    gone.write.format("hudi").option(OPERATION, "delete").mode("append").save(table)
    left = {key for key, row in before.items() if row["seq"] % 50 != 7}
    assert {row["id"] for row in _rows(spark, table).select("id").collect()} == left
    with pytest.raises(PySparkException, match="have no record key"):
        fresh.selectExpr("CAST(NULL AS STRING) AS id", "* EXCEPT (id)").write.format("hudi").mode(
            "append"
        ).save(table)
    assert _actions(table)[-1] == "rollback"


def test_a_task_that_fails_leaves_nothing(spark: Any, table: str) -> None:
    before = sorted(path.name for path in Path(table).rglob("*.parquet"))
    broken = _fresh(spark, table).selectExpr("if(seq = 0, NULL, id) AS id", "* EXCEPT (id)")
    with pytest.raises(PySparkException, match="have no record key"):
        broken.write.format("hudi").option(OPERATION, "insert").mode("append").save(table)
    assert sorted(path.name for path in Path(table).rglob("*.parquet")) == before
    assert _actions(table) == ["commit", "rollback"]


REFUSED: list[tuple[str, str, dict[str, str], str]] = [
    ("append", "*", {"hoodie.index.type": "GLOBAL_SIMPLE"}, "GLOBAL_SIMPLE.*hudisql.write_table"),
    ("append", "*", {OPERATION: "upsurt"}, "there is no operation 'upsurt'"),
    ("overwrite", "*", {OPERATION: "delete"}, "replaces the whole table"),
    ("append", "* EXCEPT (dt)", {OPERATION: "insert"}, "lack the key or partition column 'dt'"),
    ("append", "string(seq) AS seq, * EXCEPT (seq)", {OPERATION: "insert"}, "takes the table's columns"),
    ("append", "*", {"hoodie.datasource.hive_sync.enable": "true"}, "hive_sync.metastore.uris"),
    (
        "append",
        "*",
        {OPERATION: "insert", "hoodie.cleaner.policy.failed.writes": "LAZY"},
        "uses neither locks nor heartbeats.*hudisql.write_table",
    ),
    ("append", "*", {OPERATION: "insert", "hoodie.table.type": "MERGE_ON_READ"}, "contradicts the table"),
]


def test_what_the_writer_cannot_do_is_refused_by_name(spark: Any, table: str) -> None:
    fresh = _fresh(spark, table)
    for mode, change, options, said in REFUSED:
        rows = fresh.selectExpr(*change.split(", "))
        with pytest.raises(PySparkException, match=f"(?s){said}"):
            rows.write.format("hudi").options(**options).mode(mode).save(table)
        assert _actions(table) == ["commit"], said


def test_options_that_begin_with_the_prefix_are_stored_in_the_commit(spark: Any, table: str) -> None:
    options = {"hoodie.datasource.write.commitmeta.key.prefix": "job.", "job.Id": "17"}
    for operation in ("bulk_insert", "upsert"):
        writer = _fresh(spark, table).write.format("hudi").option(OPERATION, operation)
        writer.options(**options).mode("append").save(table)
        opened = open_at(table)
        (stored,) = read_extra_metadata(opened, [opened.timeline.commits[-1]])
        assert stored.keys() == {"schema", "job.id"}
        assert stored["job.id"] == "17"


def test_inserts_that_replace_rows_of_small_files_are_refused(spark: Any, table: str) -> None:
    key = "hoodie.merge.allow.duplicate.on.inserts"
    writer = _fresh(spark, table).write.format("hudi").option(OPERATION, "insert").option(key, "false")
    with pytest.raises(PySparkException, match=f"{key} = false is not supported by this writer"):
        writer.mode("append").save(table)
