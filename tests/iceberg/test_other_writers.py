"""Commits, cleans and compactions of Apache Hudi itself between two publications."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.iceberg.readers import check_history, check_readers, duckdb_dicts, hudisql_rows, metadata_of
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import our_rows
from tests.oracle.newer_tables import NewerTable
from tests.oracle.shapes import Shape, call_bootstrap, noted_rows
from tests.oracle.sources import sample_rows, write_source

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms, pytest.mark.soak]

SERVICES = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
COMPACTION = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
Upsert = Callable[[pa.Table, Mapping[str, str]], None]


def _shape(name: str, table_type: str) -> Shape:
    days = {"dt": lambda n: f"2024-03-0{n % 3 + 1}"}
    return Shape(name, rows=60, table_type=table_type, partition_columns=days)


def _check_changes(session: Any, name: str, path: str, shape: Shape, upsert: Upsert) -> None:
    """Publish between writes of both, sometimes after several; both readers read all kept snapshots."""
    rows: dict[int, list[str]] = {}
    services = SERVICES | (COMPACTION if shape.table_type == "MERGE_ON_READ" else {})

    def check() -> None:
        published = check_readers(session, name)
        rows[metadata_of(path)["current-snapshot-id"]] = hudisql_rows(session, name)
        if published["result"] == "published":
            check_history(path, rows)

    check()
    for number in range(3):
        for start in (number * 3, 30):
            upsert(_rows(shape, start, start + 4, f"theirs {number}"), services)
        if number != 1:
            check()
        session.sql(f"UPDATE {name} SET note = 'ours' WHERE seq = {number + 4}")
        if number != 2:
            check()
    upsert(_rows(shape, 0, 60, "last"), services)
    check()


def _rows(shape: Shape, start: int, stop: int, note: str) -> pa.Table:
    """Rows without the lists, which Hudi writes in a layout that is not published."""
    return noted_rows(shape, start, stop, note).drop_columns(["labels"])


@TYPES
def test_readers_follow_hudi_015(
    session: Any, oracle_015: HudiOracle, tmp_path: Path, table_type: str
) -> None:
    shape, path = _shape("followed", table_type), str(tmp_path / "table")
    rows = sample_rows(0, 60).drop_columns(["labels"])
    source = write_source(tmp_path / "source", rows, shape.partition_path, files=1)
    given = {"source": str(source), "record_key": "id", "precombine": "seq", "table_type": table_type}
    call_bootstrap(session, {"table": "oracle.followed", "target_path": path, **given})

    def upsert(rows: pa.Table, options: Mapping[str, str]) -> None:
        oracle_015.upsert(rows, path, {**shape.write_options(), **options})

    _check_changes(session, "oracle.followed", path, shape, upsert)
    session.sql("DROP TABLE oracle.followed")


@TYPES
def test_readers_follow_hudi_12(
    session: Any, oracle_120: HudiOracle, tmp_path: Path, table_type: str
) -> None:
    shape, path, name = _shape("followed_9", table_type), str(tmp_path / "table"), "oracle.followed_9"
    table = NewerTable(oracle_120, session, path, name, shape)

    def upsert(rows: pa.Table, options: Mapping[str, str]) -> None:
        oracle_120.upsert(rows, path, table.options(options))

    upsert(_rows(shape, 0, 60, "first"), {})
    session.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    _check_changes(session, name, path, shape, upsert)
    session.sql(f"DROP TABLE {name}")


def test_two_directories_of_one_value_are_both_published(
    session: Any, oracle_015: HudiOracle, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    source = write_source(tmp_path / "source", _plain(0, 4), lambda _: "month=01")
    session.sql(
        f"CALL bootstrap_table(table => 'oracle.one_value', target_path => '{path}', source => '{source}', "
        "record_key => 'id', precombine => 'seq', partition_by => 'month int', sync => false)"
    )
    call = f"CALL sync_iceberg(path => '{path}')"
    session.sql(call)
    for start in (10, 20):
        rows = _plain(start, start + 2).append_column("month", pa.array([1, 1], pa.int32()))
        options = {**_shape("one_value", "COPY_ON_WRITE").write_options()}
        options["hoodie.datasource.write.partitionpath.field"] = "month"
        oracle_015.upsert(rows, path, options)
        assert (tmp_path / "table/month=1").exists()
        [published] = session.sql(call).rows
        found = duckdb_dicts(published.metadata_file, "id FROM {t}")
        expected = our_rows(open_at(path))["id"].to_pylist()
        assert sorted(row["id"] for row in found) == sorted(expected)
        assert len(found) == 4 + start // 10 * 2


def _plain(start: int, stop: int) -> pa.Table:
    return sample_rows(start, stop).select(["id", "seq", "note"])
