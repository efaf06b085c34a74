"""Partition values that could be spelled in more than one way: Apache Hudi goes on in the same
directories.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.test_hudi_rs import read_with_hudi_rs
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

NUMBERS = {
    "d": pa.array([0.1, 12345678.0, 1e20, 0.0001, 3.0, float("nan")], pa.float64()),
    "f": pa.array([0.1, 12345678.0, 1e20, 0.0001, 3.0, 0.25], pa.float32()),
    "n": pa.array(
        [
            Decimal(each)
            for each in ("0.00000001", "0.00000000", "3.00000000", "0.00000100", "-0.00000007", "12")
        ],
        pa.decimal128(12, 8),
    ),
}
TEXTS = ["plain", "a/b", "../up", "50%", "x=y", "a b:c", "größe", "%2F", "{k}[1]^\\", "q'\"?*#"]


@pytest.fixture(autouse=True, scope="module")
def database(session: Any) -> Iterator[None]:
    session.sql("CREATE DATABASE IF NOT EXISTS oracle_values")
    yield
    for name in session.context.metastore.list_tables("oracle_values"):
        session.sql(f"DROP TABLE IF EXISTS oracle_values.{name}")
    session.sql("DROP DATABASE oracle_values")


def options(name: str, fields: str = "p", **others: str) -> dict[str, str]:
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "seq",
        "hoodie.datasource.write.partitionpath.field": fields,
        "hoodie.datasource.write.hive_style_partitioning": "true",
        **others,
    }


def directories(path: Path) -> set[str]:
    return {str(each.parent.relative_to(path)) for each in path.rglob(".hoodie_partition_metadata")}


def sample(note: str, **columns: pa.Array) -> pa.Table:
    rows = len(next(iter(columns.values())))
    numbers = pa.array(range(rows), pa.int32())
    return pa.table({"id": numbers, "seq": numbers, "note": [note] * rows, **columns})


def test_numbers_name_the_directories_that_hudi_015_goes_on_in(
    oracle_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    session.sql(
        "CREATE TABLE oracle_values.numbers "
        "(id INT, seq INT, note STRING, d DOUBLE, f FLOAT, n DECIMAL(12, 8)) "
        f"USING hudi PARTITIONED BY (d, f, n) LOCATION '{path}' "
        "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'seq')"
    )
    frame = session.spark.createDataFrame(sample("ours", **NUMBERS))
    session.write(frame, "oracle_values.numbers", operation="insert")
    ours = directories(path)
    assert "d=1.2345678E7/f=1.2345678E7/n=0E-8" in ours
    changed = sample("theirs", **NUMBERS)
    oracle_015.upsert(changed, str(path), options("numbers", "d,f,n"))
    assert directories(path) == ours
    found = oracle_015.read(str(path)).select(changed.column_names)
    assert_same_rows(found, changed, sort_by=["id"])
    ours_again = session.sql("SELECT id, seq, note, d, f, n FROM oracle_values.numbers").arrow()
    assert_same_rows(ours_again, changed, sort_by=["id"])


@pytest.mark.soak
@pytest.mark.parametrize("kind", parameters(["COPY_ON_WRITE", "MERGE_ON_READ"], in_ci=["MERGE_ON_READ"]))
def test_any_text_is_a_partition_value_in_every_reader(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path, kind: str
) -> None:
    name, path = f"texts_{kind.lower()}", tmp_path / "table"
    session.sql(
        f"CREATE TABLE oracle_values.{name} (id INT, seq INT, note STRING, p STRING) USING hudi "
        f"PARTITIONED BY (p) LOCATION '{path}' "
        f"TBLPROPERTIES (primaryKey = 'id', preCombineField = 'seq', type = '{kind}')"
    )
    rows = sample("ours", p=pa.array(TEXTS))
    session.write(session.spark.createDataFrame(rows), f"oracle_values.{name}", operation="insert")
    ours = directories(path)
    assert len(ours) == len(TEXTS)

    def check() -> None:
        for oracle in (oracle_015, oracle_120):
            found = oracle.read(str(path)).select(rows.column_names)
            assert_same_rows(found, rows, sort_by=["id"])
            for value in ("a/b", "../up", "%2F"):
                found = oracle.read(str(path), columns=["p"], where=f"p = '{value}'")
                assert found["p"].to_pylist() == [value]
        found = session.sql(f"SELECT * FROM oracle_values.{name} WHERE p IS NOT NULL").arrow()
        assert_same_rows(found.select(rows.column_names), rows, sort_by=["id"])
        if kind == "COPY_ON_WRITE":
            found = read_with_hudi_rs(str(path), tmp_path).select(rows.column_names)
            assert_same_rows(found, rows, sort_by=["id"])

    check()
    # The second writer says nothing of escapes: the table's own property counts.
    for oracle, given in (
        (oracle_015, {"hoodie.datasource.write.partitionpath.urlencode": "true"}),
        (oracle_015, {}),
        (oracle_120, {}),
    ):
        rows = sample(f"theirs {oracle.version} {len(given)}", p=pa.array(TEXTS))
        writing = options(name, **given, **{"hoodie.datasource.write.table.type": kind})
        oracle.upsert(rows, str(path), writing)
        assert directories(path) == ours
    check()


@pytest.mark.soak
@pytest.mark.parametrize("declared", parameters(["string", "int"], in_ci=["int"]))
def test_a_partition_column_inside_of_the_files_and_in_the_record_key(
    oracle_015: HudiOracle, oracle_120: HudiOracle, session: Any, tmp_path: Path, declared: str
) -> None:
    """The files hold the column as int, with the directory's value; both versions find the bootstrap's
    keys.
    """
    shown = pa.string() if declared == "string" else pa.int32()
    parts = []
    for value in (7, 8):
        rows = sample("first", p=pa.array([value] * 3, pa.int32()))
        directory = tmp_path / "source" / f"p={value}"
        directory.mkdir(parents=True)
        pq.write_table(rows.select(["id", "p", "seq", "note"]), directory / "a.parquet", store_schema=False)
        parts.append(rows.set_column(3, "p", rows["p"].cast(shown)))
    name, path = f"inside_{declared}", str(tmp_path / "table")
    session.sql(
        f"CALL bootstrap_table(table => 'oracle_values.{name}', source => '{tmp_path / 'source'}', "
        f"record_key => 'id,p', precombine => 'seq', partition_by => 'p {declared}', target_path => '{path}')"
    )
    expected = pa.concat_tables(parts)

    def check() -> None:
        ours = session.sql(
            f"SELECT *, concat('id:', id, ',p:', p) AS rendered FROM oracle_values.{name}"
        ).arrow()
        assert ours["_hoodie_record_key"].to_pylist() == ours["rendered"].to_pylist()
        for found in (ours, oracle_015.read(path), oracle_120.read(path)):
            assert_same_rows(found.select(expected.column_names), expected, sort_by=["p", "id"])

    check()
    for oracle, value in ((oracle_015, 7), (oracle_120, 8)):
        changed = sample("second", p=pa.array([value], pa.int32()).cast(shown))
        key = {"hoodie.datasource.write.recordkey.field": "id,p"}
        oracle.upsert(changed, path, {**options(name), **key})
        kept = [row for row in expected.to_pylist() if (row["id"], int(row["p"])) != (0, value)]
        expected = pa.concat_tables([pa.Table.from_pylist(kept, expected.schema), changed])
    check()
