"""Bucket indexes whose number of buckets differs by partition: hudisql and Apache Hudi 1.2 in turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudisql.format.keys.bucket_id import bucket_ids, bucket_of_file_id
from tests.oracle.client import HudiOracle, OracleError
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import SHAPES
from tests.oracle.sources import put_over, sample_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

EXPRESSIONS = r"2024-03-01,5; -0[12]$ , 2"
COUNTS = {"dt=2024-03-01": 5, "dt=2024-03-02": 2, "dt=2024-03-03": 3}
INDEX: Mapping[str, str] = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "3",
    "hoodie.bucket.index.partition.rule.type": "regex",
    "hoodie.bucket.index.partition.expressions": EXPRESSIONS,
}
_PARTITIONED = SHAPES[0]
_COLUMNS = "id STRING, seq BIGINT, note STRING, dt STRING"


def _check_buckets(rows: pa.Table, counts: Mapping[str, int]) -> None:
    """Each row lies in the only file group of its bucket, of as many as its partition has."""
    paths = rows["_hoodie_partition_path"].to_pylist()
    file_ids = [name.lstrip(".").split("_")[0] for name in rows["_hoodie_file_name"].to_pylist()]
    keys = rows["_hoodie_record_key"].combine_chunks()
    for path in set(paths):
        mask = pa.array([each == path for each in paths])
        expected = bucket_ids(keys.filter(mask), ["id"], counts[path]).tolist()
        found = [file_id for file_id, each in zip(file_ids, paths, strict=True) if each == path]
        assert [bucket_of_file_id(each) for each in found] == expected
        assert len(set(found)) == len(set(expected))


def _upsert(oracle: HudiOracle, rows: pa.Table, path: str, options: Mapping[str, str]) -> None:
    _repeat(lambda: oracle.upsert(rows, path, options))


def _repeat(write: Callable[[], Any]) -> None:
    """Write with Hudi, whose first tasks with some rules fail if they read them at the same time."""
    try:
        write()
    except OracleError as error:
        if "ConcurrentModificationException" not in str(error):
            raise
        write()


def _configs(path: str) -> list[dict[str, Any]]:
    directory = Path(path) / ".hoodie" / ".bucket_index" / "partition_bucket_index_meta" / "configs"
    return [json.loads(file.read_text()) for file in sorted(directory.glob("*.hashing_config"))]


@pytest.mark.parametrize(
    ("table_type", "version"),
    parameters(product(["COPY_ON_WRITE", "MERGE_ON_READ"], ["6", "9"]), in_ci=[("MERGE_ON_READ", "9")]),
)
def test_hudi_120_and_hudisql_write_one_table_in_turn(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, table_type: str, version: str
) -> None:
    shape = replace(_PARTITIONED, name="numbers", table_type=table_type)
    name, path = f"oracle.numbers_{table_type[0]}{version}".lower(), str(tmp_path / "table")
    options = {
        **shape.write_options(),
        **INDEX,
        "hoodie.write.table.version": version,
        "hoodie.write.auto.upgrade": "false",
    }

    def theirs(start: int, stop: int, note: str) -> None:
        _upsert(oracle_120, shape.with_partition_columns(sample_rows(start, stop, note)), path, options)

    def ours(start: int, stop: int, note: str) -> Any:
        rows = shape.with_partition_columns(sample_rows(start, stop, note))
        return session.write(session.spark.createDataFrame(rows), name, "upsert", **INDEX)

    theirs(0, 20, "first")
    session.sql(f"CALL hive_sync(table => '{name}', path => '{path}')")
    result = ours(10, 60, "second")
    assert (result.updated, result.inserted) == (10, 40)
    theirs(15, 70, "third")
    for key, value in INDEX.items():
        session.spark.conf.set(key, value)
    session.sql(f"DELETE FROM {name} WHERE seq = 69")
    session.sql(f"UPDATE {name} SET note = 'fourth' WHERE seq < 3")
    for key in INDEX:
        session.spark.conf.unset(key)
    rows = oracle_120.read(path)
    _check_buckets(rows, COUNTS)
    assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), rows, sort_by=["seq"])
    expected = shape.with_partition_columns(
        put_over(put_over(sample_rows(0, 20), sample_rows(10, 60, "second")), sample_rows(15, 69, "third"))
    )
    notes = pc.if_else(pc.less(expected["seq"], 3), "fourth", expected["note"])
    expected = expected.set_column(expected.schema.get_field_index("note"), "note", notes)
    assert_same_rows(rows.select(expected.column_names), expected, sort_by=["seq"])


@pytest.mark.soak
@pytest.mark.parametrize("version", ["6", "9"])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_hudi_120_follows_the_numbers_of_a_table_that_hudisql_made(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, table_type: str, version: str
) -> None:
    name, path = f"oracle.made_numbers_{table_type}{version}", str(tmp_path / "table")
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    properties = ", ".join(f"{key} = '{value}'" for key, value in INDEX.items())
    session.sql(
        f"CREATE TABLE {name} ({_COLUMNS}) USING hudi PARTITIONED BY (dt) LOCATION '{path}' TBLPROPERTIES "
        f"(primaryKey = 'id', type = '{table_type}', preCombineField = 'seq', "
        f"hoodie.write.table.version = '{version}', {properties})"
    )
    expressions = {"expressions": EXPRESSIONS, "defaultBucketNumber": 3, "rule": "regex", "version": 1}
    assert _configs(path) == [{**expressions, "instant": "00000000000000"}]
    session.sql(f"INSERT INTO {name} {_numbers(0, 60)}")
    options = {
        **replace(_PARTITIONED, name=name.partition(".")[2]).write_options(),
        "hoodie.datasource.write.table.type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[table_type],
        "hoodie.write.table.version": version,
        "hoodie.write.auto.upgrade": "false",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "7",
    }
    # Hudi takes the numbers from the table, not from its own settings.
    rows = session.sql(_numbers(30, 90)).arrow()
    _upsert(oracle_120, rows, path, options)
    session.sql(
        f"MERGE INTO {name} t USING ({_numbers(80, 100)}) s ON t.id = s.id AND t.dt = s.dt "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    found = oracle_120.read(path)
    assert sorted(found["seq"].to_pylist()) == list(range(100))
    _check_buckets(found, COUNTS)
    one = oracle_120.read(
        path, where="id = 'k55'", options={"hoodie.index.type": "BUCKET", "hoodie.metadata.enable": "true"}
    )
    assert one["seq"].to_pylist() == [55]


def _numbers(start: int, stop: int) -> str:
    return (
        "SELECT concat('k', id) AS id, id AS seq, 'a' AS note, concat('2024-03-0', id % 3 + 1) AS dt "
        f"FROM range({start}, {stop})"
    )


@pytest.mark.soak
@pytest.mark.parametrize("version", ["6", "9"])
def test_partitions_that_hudi_120_has_rescaled_are_written(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, version: str
) -> None:
    name, path = f"rescaled_{version}", str(tmp_path / "table")
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in INDEX.items())
    oracle_120.sql(
        f"CREATE TABLE oracle.{name} ({_COLUMNS}) USING hudi PARTITIONED BY (dt) LOCATION '{path}' "
        "TBLPROPERTIES (primaryKey = 'id', type = 'mor', preCombineField = 'seq', "
        f"'hoodie.write.table.version' = '{version}', 'hoodie.write.auto.upgrade' = 'false', {properties})"
    )
    oracle_120.sql(f"INSERT INTO oracle.{name} {_numbers(0, 60)}")
    # No configuration yet: Hudi's writers take their own settings.
    assert _configs(path) == []
    no_sync = "hoodie.datasource.hive_sync.enable=false,hoodie.datasource.meta.sync.enable=false"
    session.sql(f"INSERT INTO oracle.{name} {_numbers(60, 70)}")
    _check_buckets(oracle_120.read(path), COUNTS)
    oracle_120.sql(
        f"CALL partition_bucket_index_manager(table => 'oracle.{name}', overwrite => '2024-03-01,7', "
        f"bucket_number => 3, dry_run => false, options => '{no_sync}')"
    )
    assert [each["expressions"] for each in _configs(path)] == ["2024-03-01,7"]
    oracle_120.sql(
        f"CALL partition_bucket_index_manager(table => 'oracle.{name}', add => '2024-03-02,4', "
        f"dry_run => false, options => '{no_sync}')"
    )
    counts = {"dt=2024-03-01": 7, "dt=2024-03-02": 4, "dt=2024-03-03": 3}
    merge = (
        f"MERGE INTO oracle.{name} t USING ({_numbers(50, 100)}) s ON t.id = s.id AND t.dt = s.dt "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    session.sql(merge)
    session.sql(f"DELETE FROM oracle.{name} WHERE seq = 99")
    rows = oracle_120.read(path)
    assert sorted(rows["seq"].to_pylist()) == list(range(99))
    _check_buckets(rows, counts)
    oracle_120.sql(f"UPDATE oracle.{name} SET note = 'b' WHERE seq > 90")
    assert_same_rows(
        session.sql(f"SELECT * FROM oracle.{name}").arrow(), oracle_120.read(path), sort_by=["seq"]
    )


@pytest.mark.parametrize(
    ("table_type", "version"), parameters(product(["cow", "mor"], ["6", "9"]), in_ci=[("mor", "9")])
)
def test_hudi_120_follows_the_numbers_that_hudisql_has_changed(
    oracle_120: HudiOracle, session: Any, tmp_path: Path, table_type: str, version: str
) -> None:
    name, path = f"oracle.moved_{table_type}{version}", str(tmp_path / "table")
    session.sql("CREATE DATABASE IF NOT EXISTS oracle")
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in INDEX.items())
    oracle_120.sql(
        f"CREATE TABLE {name} ({_COLUMNS}) USING hudi PARTITIONED BY (dt) LOCATION '{path}' "
        f"TBLPROPERTIES (primaryKey = 'id', type = '{table_type}', preCombineField = 'seq', "
        f"'hoodie.write.table.version' = '{version}', 'hoodie.write.auto.upgrade' = 'false', {properties})"
    )

    def theirs(text: str) -> None:
        _repeat(lambda: oracle_120.sql(text))

    theirs(f"INSERT INTO {name} {_numbers(0, 60)}")
    # Log files, in a merge-on-read table, and a delete.
    theirs(f"UPDATE {name} SET note = 'b' WHERE seq < 9")
    theirs(f"DELETE FROM {name} WHERE seq = 30")

    def call(arguments: str) -> tuple[str, ...]:
        [row] = session.sql(f"CALL partition_bucket_index_manager(table => '{name}', {arguments})").rows
        return tuple(row)

    before = _values(oracle_120.read(path))
    assert call("overwrite => '2024-03-01,7', bucket_number => 3, dry_run => false") == (
        "SUCCESS",
        "OVERWRITE",
        "Expression: 2024-03-01,7, Bucket Number: 3, Dry Run: false",
    )
    [first] = _configs(path)
    expected = {"expressions": "2024-03-01,7", "defaultBucketNumber": 3, "rule": "regex", "version": 1}
    assert first == {**expected, "instant": first["instant"]}
    counts = {"dt=2024-03-01": 7, "dt=2024-03-02": 3, "dt=2024-03-03": 3}
    rows = oracle_120.read(path)
    assert _values(rows) == before
    _check_buckets(rows, counts)
    moved = {row["_hoodie_commit_time"] for row in rows.to_pylist() if row["dt"] != "2024-03-03"}
    assert moved == {first["instant"]}
    call("add => '2024-03-02,4', dry_run => false")
    assert [config["expressions"] for config in _configs(path)] == [
        "2024-03-01,7",
        "2024-03-02,4;2024-03-01,7",
    ]
    counts["dt=2024-03-02"] = 4
    # Hudi takes the numbers from the table, and finds the rows in their buckets.
    theirs(
        f"MERGE INTO {name} t USING ({_numbers(50, 80)}) s ON t.id = s.id AND t.dt = s.dt "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    session.sql(
        f"MERGE INTO {name} t USING ({_numbers(70, 100)}) s ON t.id = s.id AND t.dt = s.dt "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    rows = oracle_120.read(path)
    assert sorted(rows["seq"].to_pylist()) == [seq for seq in range(100) if seq != 30]
    _check_buckets(rows, counts)
    assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), rows, sort_by=["seq"])
    assert call("overwrite => '2024-03-01,2', bucket_number => 5, dry_run => false")[0] == "SUCCESS"
    _check_buckets(oracle_120.read(path), {"dt=2024-03-01": 2, "dt=2024-03-02": 5, "dt=2024-03-03": 5})
    newest = _configs(path)[-1]["instant"]
    assert call(f"rollback => '{newest}'") == ("SUCCESS", "ROLLBACK", f"true to rollback {newest}")
    assert len(_configs(path)) == 2
    after = oracle_120.read(path)
    assert_same_rows(after, rows, sort_by=["seq"])
    theirs(f"UPDATE {name} SET note = 'c' WHERE seq > 90")
    _check_buckets(oracle_120.read(path), counts)


def _values(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.select(["id", "seq", "note", "dt"]).to_pylist(), key=lambda row: row["seq"])
