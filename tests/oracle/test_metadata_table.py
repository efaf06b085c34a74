"""The metadata tables of Apache Hudi 0.15 and 1.2 are read and shown as their own procedures show them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import InvalidArgumentError
from hudisql.format.metadata_table.record_locations import NOT_FOUND
from hudisql.table.metadata_table.metadata_table import open_metadata_table
from hudisql.table.metadata_table.record_lookup import find_records
from tests.opened import open_at
from tests.oracle.client import HudiOracle
from tests.oracle.shapes import SHAPES, noted_rows

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

SHAPE = next(shape for shape in SHAPES if shape.name == "partitioned")
# Indexes, and services that run at once: compactions of both tables, and cleans.
OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}
STEPS: tuple[tuple[str, int, int], ...] = (
    ("insert", 0, 15),
    ("upsert", 0, 4),
    ("delete", 7, 8),
    ("upsert", 10, 20),
    ("insert_overwrite", 3, 4),
    ("delete_partition", 5, 6),
    ("upsert", 9, 12),
)
CALLS = (
    "show_metadata_table_partitions(table => '{t}')",
    "show_metadata_table_files(table => '{t}', partition => 'dt=2024-03-01')",
    "show_metadata_table_files(table => '{t}', partition => 'dt=2024-03-02')",
    "validate_metadata_table_files(table => '{t}')",
    "validate_metadata_table_files(table => '{t}', verbose => true)",
)
# 0.15 has neither these parameters nor statistics.
NEWER_CALLS = (
    "show_metadata_table_partitions(path => '{p}', filter => \"partition like '%02'\")",
    "show_metadata_table_files(path => '{p}', partition => 'dt=2024-03-02', filter => \"file_path > 'a'\")",
)
IN_PROCESS_LOCK = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
STATISTICS = (
    "show_metadata_table_column_stats(table => '{t}', partition => 'dt=2024-03-02', "
    "targetColumns => 'id,seq,price,day,note')"
)


@pytest.mark.soak
def test_overlaps_of_ranges_are_those_of_hudi(session: Any, oracle_120: HudiOracle, tmp_path: Path) -> None:
    """Of a table without partitions: of others Hudi gives nothing."""
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    name, call = "oracle.overlaps", "CALL show_metadata_column_stats_overlap(table => 'oracle.overlaps')"
    options = {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.write.table.version": "9",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.spark.sql.insert.into.operation": "insert",
    }
    with oracle_120.settings(options):
        oracle_120.sql(
            f"CREATE TABLE {name} (id STRING, n INT, price DOUBLE, label STRING) USING hudi "
            f"LOCATION '{tmp_path / 't'}' TBLPROPERTIES (primaryKey = 'id')"
        )
        for number, values in enumerate(([1, 100], [10, 90], [20, 80], [30, 70], [30, 31], [200, 300])):
            rows = ", ".join(f"('k{number}{n}', {n}, {n}.25, 'l{n}')" for n in values)
            oracle_120.sql(f"INSERT INTO {name} VALUES {rows}")
        theirs = oracle_120.sql(call).to_pylist()
    known = {row["Field name"]: row for row in session.sql(call).arrow().to_pylist()}
    assert {row["Field name"] for row in theirs} >= {"n", "price", "label"}
    assert [known[row["Field name"]] for row in theirs] == theirs


@pytest.mark.soak
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize(("hudi", "version"), [("oracle_015", 6), ("oracle_120", 9)])
def test_a_metadata_table_is_shown_as_hudi_shows_it_after_each_action(
    session: Any, hudi: str, version: int, table_type: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    oracle: HudiOracle = request.getfixturevalue(hudi)
    name, path = f"oracle.metadata_{table_type[:5].lower()}_{version}", str(tmp_path / "table")
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    shape = replace(SHAPE, table_type=table_type)
    options = {
        **shape.write_options(),
        **OPTIONS,
        "hoodie.write.table.version": str(version),
        "hoodie.compact.inline": str(table_type == "MERGE_ON_READ").lower(),
    }
    for number, (operation, first, last) in enumerate(STEPS):
        rows = noted_rows(shape, first, last, operation)
        oracle.write(rows, path, {**options, "hoodie.datasource.write.operation": operation})
        if number == 0:
            oracle.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
        for call in (*CALLS, *(NEWER_CALLS if version == 9 else ())):
            _compare(session, oracle, call.format(t=name, p=path))
        if version == 9:
            _compare_statistics(session, oracle, STATISTICS.format(t=name))
        _check_planning(session, name)
        _compare_indexes(session, oracle, name, version)
        if operation == "delete":
            _check_record_index(session, oracle, name, path, version)
    if version == 9:
        oracle.sql(f"SET hoodie.write.lock.provider={IN_PROCESS_LOCK}")
        oracle.sql("SET hoodie.metadata.enable=true")
        oracle.sql(f"CREATE INDEX by_note ON {name} (note)")
        oracle.sql("RESET hoodie.write.lock.provider")
        oracle.sql("SET hoodie.metadata.enable=false")
        assert ("secondary_index_by_note", "secondary_index", "note") in [
            tuple(row) for row in session.sql(f"SHOW INDEXES IN {name}").rows
        ]
        _compare_indexes(session, oracle, name, version)
    counted = f"SELECT count(*) FROM {name}"
    assert [tuple(row) for row in session.sql(counted).rows] == _rows(oracle, counted)
    with pytest.raises(InvalidArgumentError, match="does not list the partition 'dt=none'"):
        session.sql(f"CALL show_metadata_table_files(table => '{name}', partition => 'dt=none')")


def _rows(oracle: HudiOracle, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in oracle.sql(text).to_pylist()]


def _compare(session: Any, oracle: HudiOracle, call: str) -> None:
    ours, theirs = session.sql(f"CALL {call}").arrow(), oracle.sql(f"CALL {call}")
    assert ours.column_names == theirs.column_names, call
    assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, theirs.to_pylist())), call


def _compare_statistics(session: Any, oracle: HudiOracle, call: str) -> None:
    """Hudi shows days, and decimals as the list of their bytes."""
    ours, theirs = session.sql(f"CALL {call}").arrow(), oracle.sql(f"CALL {call}")
    shown = [_as_hudi_shows(row) for row in ours.to_pylist()]
    assert sorted(map(repr, shown)) == sorted(map(repr, theirs.to_pylist())) != [], call


def _as_hudi_shows(row: dict[str, Any]) -> dict[str, Any]:
    def one(value: str | None) -> str:
        if value is None:
            return "null"
        if row["column_name"] == "day":
            return str((date.fromisoformat(value) - date(1970, 1, 1)) // timedelta(days=1))
        if row["column_name"] == "price":
            unscaled = int(Decimal(value).scaleb(2))
            length = unscaled.bit_length() // 8 + 1
            return str([each - 256 if each > 127 else each for each in unscaled.to_bytes(length, "big")])
        return value

    return {**row, "min_value": one(row["min_value"]), "max_value": one(row["max_value"])}


def _check_planning(session: Any, name: str) -> None:
    """Queries that list by the metadata table give the rows of those that list the storage."""
    text = f"SELECT * FROM {name} WHERE dt > '2024-03-01' ORDER BY id"
    rows = session.sql(text).rows
    session.sql("SET hoodie.metadata.enable=true")
    try:
        assert session.sql(text).rows == rows != []
    finally:
        session.sql("RESET hoodie.metadata.enable")


def _compare_indexes(session: Any, oracle: HudiOracle, name: str, version: int) -> None:
    shown = [tuple(row) for row in session.sql(f"SHOW INDEXES FROM {name}").rows]
    if version == 9:
        assert shown == sorted(_rows(oracle, f"SHOW INDEXES FROM TABLE {name}")) != []
    else:
        # 0.15 has no such statement.
        assert shown == [(index, index, "") for index in ("column_stats", "record_index")]


def _check_record_index(session: Any, oracle: HudiOracle, name: str, path: str, version: int) -> None:
    text = (
        "SELECT key, recordIndexMetadata.partitionName, recordIndexMetadata.fileIdHighBits, "
        "recordIndexMetadata.fileIdLowBits FROM hudi_metadata('{}') WHERE type = 5 ORDER BY key"
    )
    ours = [tuple(row) for row in session.sql(text.format(path)).rows]
    keys = session.sql(f"SELECT id, _hoodie_partition_path FROM {name} ORDER BY id").rows
    assert [row[:2] for row in ours] == [tuple(row) for row in keys]
    if version == 9:
        assert ours == _rows(oracle, text.format(name))
    metadata = open_metadata_table(open_at(path))
    assert metadata is not None
    places = session.sql(f"SELECT id, _hoodie_partition_path, _hoodie_file_name FROM {name}").rows
    found = find_records(metadata, pa.array([row[0] for row in places] + ["none"]))
    assert found.numbers[-1] == NOT_FOUND
    for (_, path, file_name), number in zip(places, found.numbers, strict=False):
        partition, file_id = found.groups[number]
        assert partition == path
        assert file_name.startswith(file_id)
