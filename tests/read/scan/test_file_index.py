"""Spark's index of a plan's files, which it is given and does not list."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlparse

import pytest

from hudisql.read.scan import file_index
from hudisql.read.scan.native_scan import native_dataframe
from hudisql.read.scan.scan_plan import ScanPlan, ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table

pytestmark = pytest.mark.spark


@pytest.fixture(params=["cow_bootstrap_then_upsert_delete", "cow_bootstrap_meta_nonpart"])
def plan(request: pytest.FixtureRequest, golden: Any, storage: Storage) -> ScanPlan:
    table = open_table(storage, golden(request.param).table)
    return plan_scan(ScanRequest(table, table.schema))


def test_the_index_has_the_files_of_the_plan(spark: Any, plan: ScanPlan) -> None:
    scanned = {unquote(urlparse(uri).path) for uri in native_dataframe(spark, plan).inputFiles()}
    assert scanned == set(plan.scanned_files())


def test_a_refresh_finds_the_same_files_and_no_other_versions(spark: Any, plan: ScanPlan) -> None:
    frame = native_dataframe(spark, plan).select(*plan.columns.names)
    rows = sorted(map(str, frame.collect()))
    frame.createOrReplaceTempView("refreshed")
    spark.catalog.refreshTable("refreshed")
    again = spark.table("refreshed")
    assert sorted(again.inputFiles()) == sorted(frame.inputFiles())
    assert sorted(map(str, again.collect())) == rows
    spark.catalog.dropTempView("refreshed")


def test_spark_lists_nothing(spark: Any, plan: ScanPlan) -> None:
    jvm = spark.sparkContext._jvm
    metrics = getattr(jvm, "org.apache.spark.metrics.source.HiveCatalogMetrics")
    before = metrics.METRIC_FILES_DISCOVERED().getCount()
    frame = native_dataframe(spark, plan)
    assert frame.inputFiles()
    assert metrics.METRIC_FILES_DISCOVERED().getCount() == before


def test_the_statuses_have_the_lengths_of_the_plan(spark: Any, plan: ScanPlan) -> None:
    statuses = file_index._file_statuses(spark, plan, plan.scanned_files())
    assert [status.getLen() for status in statuses] == plan.scanned_bytes()
    assert [status.getPath().toString() for status in statuses] == [
        f"file:{path}" for path in plan.scanned_files()
    ]
