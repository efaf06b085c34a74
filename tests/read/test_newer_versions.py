"""Tables of versions 8 and 9, which Apache Hudi 1.2 wrote: the rows and meta columns that it reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.schema.meta_columns import COMMIT_TIME, META_SCHEMA, RECORD_KEY
from hudisql.read.scan.incremental import incremental_read
from hudisql.read.scan.scan_plan import ScanPlan, ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.table.history.timeline_window import timeline_window
from hudisql.table.hudi_table import HudiTable
from tests.oracle.comparison import golden_rows

NAMES = (
    "v8_cow_bootstrap_upsert",
    "v8_mor_avro_logs_deletes",
    "v9_cow_bootstrap_meta",
    "v9_cow_clustered",
    "v9_cow_insert_overwrite",
    "v9_cow_savepoint_clean",
    "v9_cow_upsert_delete",
    "v9_from_v6_archived",
    "v9_from_v6_hudisql_cow",
    "v9_mor_archived_lsm",
    "v9_mor_avro_logs_deletes",
    "v9_mor_bootstrap_upsert_delete",
    "v9_mor_commit_time",
    "v9_mor_mdt_files",
    "v9_mor_parquet_log",
    "v9_mor_partial_merge",
    "v9_mor_pending_compaction",
    "v9_mor_rollback",
)
V120 = ("cow_bootstrap_meta_v120", "mor_upsert_only_updates_v120")
ReadPlan = Callable[[ScanPlan], pa.Table]
OpenGolden = Callable[[str], HudiTable]


def _sorted(rows: list[Any]) -> list[str]:
    return sorted(json.dumps(each, sort_keys=True) for each in rows)


@pytest.mark.parametrize("name", NAMES + V120)
def test_rows_and_meta_columns_are_those_that_hudi_reads(
    golden: Any, open_golden: OpenGolden, read_plan: ReadPlan, name: str
) -> None:
    table = open_golden(name)
    rows = read_plan(plan_scan(ScanRequest(table, table.full_schema)))
    assert _sorted(golden_rows(rows.select(table.schema.names))) == _sorted(golden(name).rows)
    assert _sorted(rows.select(META_SCHEMA.names).to_pylist()) == _sorted(golden(name).meta_rows)


@pytest.mark.parametrize("name", [each for each in NAMES if "_mor_" in each])
def test_base_files_alone_are_those_that_hudi_reads(
    golden: Any, open_golden: OpenGolden, read_plan: ReadPlan, name: str
) -> None:
    table = open_golden(name)
    rows = read_plan(plan_scan(ScanRequest(table, META_SCHEMA, read_optimized=True)))
    found = [list(each.values()) for each in rows.select([RECORD_KEY, COMMIT_TIME]).to_pylist()]
    assert sorted(found) == sorted(golden(name).read_optimized)


@pytest.mark.parametrize("name", [each for each in NAMES if each != "v9_mor_partial_merge"])
def test_changes_since_a_completion_are_those_that_hudi_reads(
    golden: Any, open_golden: OpenGolden, read_plan: ReadPlan, name: str
) -> None:
    table = open_golden(name)
    for bounds, expected in golden(name).incremental.items():
        window = timeline_window(table, bounds[1:].partition(",")[0])
        changes = incremental_read(table, window)
        rows = read_plan(plan_scan(ScanRequest(table, META_SCHEMA, changes=changes)))
        found = [list(each.values()) for each in rows.select([RECORD_KEY, COMMIT_TIME]).to_pylist()]
        assert sorted(found) == sorted(expected), bounds
