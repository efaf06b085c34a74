"""Upserts by a global index and on bucket tables: hudisql and Apache Hudi do the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.keys.bucket_id import bucket_ids, bucket_of_file_id
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.shapes import SHAPES, Shape
from tests.oracle.sources import sample_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]


def _moved(shape: Shape) -> Any:
    """Rows 10 to 39 with the next day as their partition, as a second batch."""
    later = replace(shape, partition_columns={"dt": lambda n: f"2024-03-0{(n + 1) % 3 + 1}"})
    return later.with_partition_columns(sample_rows(10, 40, "second"))


@pytest.mark.parametrize("moves", parameters(["true", "false"], in_ci=["true"]))
def test_a_global_upsert_does_what_hudi_015_does(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, moves: str
) -> None:
    shape = SHAPES[0]
    index = {
        "hoodie.index.type": "GLOBAL_BLOOM",
        "hoodie.bloom.index.update.partition.path": moves,
    }
    name = f"oracle.global_{moves}"
    tables = {}
    for who in ("theirs", "ours"):
        path = str(tmp_path / who)
        options = {**shape.write_options(), "hoodie.table.name": f"global_{who}"}
        oracle_015.upsert(shape.with_partition_columns(sample_rows(0, 60)), path, options)
        if who == "theirs":
            oracle_015.upsert(_moved(shape), path, options | index)
        else:
            session.sql(f"CALL hive_sync(table => '{name}', path => '{path}')")
            frame = session.spark.createDataFrame(_moved(shape))
            session.write(frame, name, "upsert", **index)
        tables[who] = oracle_015.read(path)

    columns = [name for name in tables["ours"].column_names if not name.startswith("_hoodie")]
    columns += ["_hoodie_record_key", "_hoodie_partition_path"]
    assert_same_rows(tables["ours"].select(columns), tables["theirs"].select(columns), sort_by=["seq"])


@pytest.mark.parametrize(
    ("record_key", "table_type"),
    parameters(
        product([("id",), ("id", "seq")], ["COPY_ON_WRITE", "MERGE_ON_READ"]),
        in_ci=[(("id",), "MERGE_ON_READ")],
    ),
)
def test_hudi_015_and_hudisql_write_one_bucket_table_in_turn(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, table_type: str, record_key: tuple[str, ...]
) -> None:
    shape = replace(SHAPES[0], name="bucketed", table_type=table_type, record_key=record_key)
    index = {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "4",
        "hoodie.storage.layout.type": "BUCKET",
        "hoodie.storage.layout.partitioner.class": (
            "org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner"
        ),
        "hoodie.index.bucket.engine": "SIMPLE",
    }
    index["hoodie.bucket.index.hash.field"] = record_key[0]
    name, path = f"oracle.bucketed_{table_type[0]}{len(record_key)}".lower(), str(tmp_path / "table")
    options = {**shape.write_options(), **index}
    oracle_015.upsert(shape.with_partition_columns(sample_rows(0, 20)), path, options)
    _check_buckets(oracle_015.read(path), record_key[:1])
    session.sql(f"CALL hive_sync(table => '{name}', path => '{path}')")
    ours = shape.with_partition_columns(sample_rows(10, 60, "second"))
    result = session.write(session.spark.createDataFrame(ours), name, "upsert", **index)
    assert (result.updated, result.inserted) == (10, 40)
    oracle_015.upsert(shape.with_partition_columns(sample_rows(15, 70, "third")), path, options)
    session.sql("SET hoodie.index.type = BUCKET")
    session.sql("SET hoodie.bucket.index.num.buckets = 4")
    session.sql(f"DELETE FROM {name} WHERE seq = 69")
    for key in ("hoodie.index.type", "hoodie.bucket.index.num.buckets"):
        session.sql(f"RESET {key}")
    theirs = oracle_015.read(path)
    assert theirs.num_rows == 69
    _check_buckets(theirs, record_key[:1])
    assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), theirs, sort_by=["seq"])
    batches = [sample_rows(0, 10), sample_rows(10, 15, "second"), sample_rows(15, 69, "third")]
    expected = shape.with_partition_columns(pa.concat_tables(batches))
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])


def _check_buckets(rows: pa.Table, fields: tuple[str, ...]) -> None:
    """Each row lies in the file group of its bucket, of which a partition has one."""
    expected = bucket_ids(rows["_hoodie_record_key"].combine_chunks(), fields, 4).tolist()
    file_ids = [name.split("_")[0] for name in rows["_hoodie_file_name"].to_pylist()]
    assert [bucket_of_file_id(each) for each in file_ids] == expected
    paths = rows["_hoodie_partition_path"].to_pylist()
    groups = set(zip(paths, file_ids, strict=True))
    assert len({(path, file_id[:8]) for path, file_id in groups}) == len(groups)


@pytest.mark.soak
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_both_write_a_table_with_the_in_memory_index_in_turn(
    oracle_015: HudiOracle, session: Any, tmp_path: Path, table_type: str
) -> None:
    shape = replace(SHAPES[0], name="remembered", table_type=table_type)
    index = {"hoodie.index.type": "INMEMORY"}
    name, path = f"oracle.remembered_{table_type[0]}".lower(), str(tmp_path / "table")
    options = {**shape.write_options(), **index}
    oracle_015.upsert(shape.with_partition_columns(sample_rows(0, 20)), path, options)
    session.sql(f"CALL hive_sync(table => '{name}', path => '{path}')")
    ours = shape.with_partition_columns(sample_rows(10, 40, "second"))
    result = session.write(session.spark.createDataFrame(ours), name, "upsert", **index)
    assert (result.updated, result.inserted) == (10, 20)
    # Hudi's index holds the keys that its own process has written.
    oracle_015.upsert(shape.with_partition_columns(sample_rows(5, 10, "third")), path, options)
    theirs = oracle_015.read(path)
    assert theirs.num_rows == 40
    assert_same_rows(session.sql(f"SELECT * FROM {name}").arrow(), theirs, sort_by=["seq"])
    batches = [sample_rows(0, 5), sample_rows(5, 10, "third"), sample_rows(10, 40, "second")]
    expected = shape.with_partition_columns(pa.concat_tables(batches))
    assert_same_rows(theirs.select(expected.column_names), expected, sort_by=["seq"])
