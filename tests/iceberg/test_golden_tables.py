"""Merge-on-read tables of Apache Hudi, published without Spark: DuckDB and PyIceberg give hudisql's rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from hudisql.iceberg import data_file
from hudisql.iceberg.iceberg_schema import is_list
from hudisql.iceberg.publication import publish
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS
from hudisql.read.scan.arrow_scan import read_plan
from hudisql.read.scan.scan_plan import ScanRequest
from hudisql.read.scan.table_scan import plan_scan
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from tests.iceberg.readers import duckdb_dicts, sorted_rows, verification_of
from tests.opened import open_at
from tests.soak import parameters

NAMES = (
    "mor_bootstrap_meta",
    "mor_compacted",
    "mor_compaction_scheduled",
    "mor_parquet_log",
    "mor_rollback",
    "mor_two_log_generations",
    "mor_upsert_only_updates",
    "mor_upsert_only_updates_v120",
    "v6_mor_mdt_logs",
    "v8_mor_avro_logs_deletes",
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


def _rows(table: HudiTable, columns: Sequence[str]) -> list[str]:
    batches = read_plan(plan_scan(ScanRequest(table, table.schema)), DEFAULT_CALENDARS)
    return sorted_rows([row for batch in batches for row in batch.select(list(columns)).to_pylist()])


@pytest.mark.parametrize("name", parameters(NAMES, in_ci=["v9_mor_partial_merge"]))
def test_readers_give_the_rows_of_log_files(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    shutil.copytree(golden(name).table, tmp_path / "t")
    table = open_at(tmp_path / "t")
    # Base files of Hudi with lists, which it writes in two levels, are refused: look at the other columns.
    monkeypatch.setattr(data_file, "_old_layout", lambda _: None)
    columns = [field.name for field in table.schema if not is_list(field.type)]
    planned = publish(table, dry_run=True)
    assert not (tmp_path / "t/.hoodie/iceberg").exists()
    published = publish(table)
    assert published == planned
    assert published.rows == len(golden(name).rows)
    has_logs = any(file_slice.has_log_files for file_slice in load_file_slices(table))
    assert (published.log_row_files + published.delete_files > 0) == has_logs
    expected = _rows(table, columns)
    file = published.metadata_path
    found = duckdb_dicts(file, ", ".join(f'"{column}"' for column in columns) + " FROM {t}")
    assert sorted_rows(found) == expected
    scan = StaticTable.from_metadata(file).scan(selected_fields=tuple(columns))
    assert sorted_rows(scan.to_arrow().select(columns).to_pylist()) == expected
    for reader in ("hudisql", "pyiceberg"):
        verified = verification_of(tmp_path / "t", reader=reader)
        assert (verified.problems, verified.compared_rows) == ((), len(golden(name).rows))


def test_the_verification_names_what_duckdb_misreads(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(golden("v9_mor_partial_merge").table, tmp_path / "t")
    with monkeypatch.context() as patched:
        patched.setattr(data_file, "_old_layout", lambda _: None)
        publish(open_at(tmp_path / "t"))
        problems = verification_of(tmp_path / "t", reader="duckdb").problems
    assert len(problems) == 3
    for problem in problems:
        assert problem.kind == "rows differ"
        assert "by DuckDB 1.5.5: column arr has other values in the " in problem.detail
    misread = verification_of(tmp_path / "t", "metadata").problems
    assert {problem.kind for problem in misread} == {"file misread"}
    assert "column arr is stored as arr.array, in the layout of old writers" in misread[0].detail
