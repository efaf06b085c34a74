"""Tables of hudisql's, read by hudi-rs, which shares no code with Hudi's Java: no skeletons."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from scripts.setup_oracles import install_hudi_rs
from tests.opened import open_kept
from tests.oracle.comparison import META_COLUMNS, assert_same_rows
from tests.oracle.sources import sample_rows, write_source
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark]

READER = Path(__file__).parent / "hudi_rs_reader.py"
COLUMNS = "id STRING, seq INT, price DECIMAL(20, 2), day DATE, at TIMESTAMP, st STRUCT<a: BIGINT, b: STRING>"


def read_with_hudi_rs(path: str, directory: Path, *filters: tuple[str, str, str]) -> pa.Table:
    """The rows that pass the filters, of columns, operators and values."""
    output = directory / "rows.arrow"
    command = [str(install_hudi_rs()), str(READER), str(output), path, json.dumps(filters)]
    done = subprocess.run(command, text=True, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    with pa.memory_map(str(output)) as source:
        return pa.ipc.open_file(source).read_all()


@pytest.mark.parametrize(
    ("partitions", "kind", "version"),
    parameters(
        [
            *(((), "cow", 6), (("region",), "cow", 6), (("region", "dt"), "cow", 6)),
            *(((), "cow", 9), (("region",), "cow", 9), (("region",), "mor", 9)),
        ],
        in_ci=[(("region",), "cow", 9)],
    ),
    ids=lambda value: "-".join(value) or "none" if isinstance(value, tuple) else str(value),
)
def test_hudi_rs_reads_the_rows_of_native_tables(
    session: Any, tmp_path: Path, partitions: tuple[str, ...], kind: str, version: int
) -> None:
    name, path = f"rust_{len(partitions)}_{kind}_{version}", str(tmp_path / "table")
    clause = f"PARTITIONED BY ({', '.join(partitions)})" if partitions else ""
    columns = ", ".join([COLUMNS, *(f"{each} STRING" for each in ("region", "dt"))])
    session.sql(
        f"CREATE TABLE {name} ({columns}) USING hudi {clause} LOCATION '{path}' "
        f"TBLPROPERTIES (primaryKey = 'id', preCombineField = 'seq', type = '{kind}', "
        f"'hoodie.write.table.version' = '{version}')"
    )
    source = (
        "SELECT concat('k', id) AS id, CAST(id AS INT) AS seq, CAST(id / 3 AS DECIMAL(20, 2)) AS price, "
        "date_add(DATE '2024-01-01', CAST(id AS INT)) AS day, timestamp_micros(id * 1000001) AS at, "
        "named_struct('a', id, 'b', IF(id % 4 = 0, NULL, concat('s', id))) AS st, "
        "IF(id % 2 = 0, 'eu', 'us') AS region, concat('2024-03-0', id % 3 + 1) AS dt FROM range({}, {})"
    )
    session.sql(f"INSERT INTO {name} BY NAME {source.format(0, 60)}")
    session.sql(f"UPDATE {name} SET price = -1, st.a = 7 WHERE seq < 10")
    session.sql(f"DELETE FROM {name} WHERE seq BETWEEN 20 AND 24")
    session.sql(
        f"MERGE INTO {name} t USING ({source.format(55, 65)}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET price = s.price + 100 WHEN NOT MATCHED THEN INSERT *"
    )
    if partitions:
        session.sql(f"INSERT OVERWRITE {name} BY NAME SELECT * FROM {name} WHERE region = 'eu'")
    ours = session.sql(f"SELECT * FROM {name}").arrow()
    theirs = read_with_hudi_rs(path, tmp_path)
    assert set(theirs.column_names) == {*META_COLUMNS, *ours.column_names}
    assert ours.num_rows > 0
    assert_same_rows(theirs.select(ours.column_names), ours, sort_by=["seq"])
    session.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("kind", parameters(["cow", "mor"], in_ci=["cow"]))
def test_hudi_rs_reads_by_the_metadata_table_that_hudisql_keeps(
    session: Any, tmp_path: Path, kind: str
) -> None:
    name, path = f"rust_kept_{kind}", tmp_path / "table"
    session.sql(
        f"CREATE TABLE {name} (id INT, note STRING, price DOUBLE, dt STRING) USING hudi PARTITIONED BY (dt) "
        f"LOCATION '{path}' TBLPROPERTIES (primaryKey = 'id', type = '{kind}', "
        "'hoodie.write.table.version' = '9')"
    )
    rows = ", ".join(f"({id_}, 'first', {id_ / 2}, '2024-03-0{id_ % 3 + 1}')" for id_ in range(30))
    session.sql(f"INSERT INTO {name} VALUES {rows}")
    session.sql(f"CALL create_metadata_table(table => '{name}')")
    session.sql(f"UPDATE {name} SET note = 'changed', price = 100 + id WHERE id < 5")
    session.sql(f"DELETE FROM {name} WHERE id = 7")
    open_kept(path)
    for where, filters in (
        ("true", ()),
        ("price >= 100", (("price", ">=", "100"),)),
        ("note = 'changed' AND dt = '2024-03-02'", (("note", "=", "changed"), ("dt", "=", "2024-03-02"))),
    ):
        ours = session.sql(f"SELECT * FROM {name} WHERE {where}").arrow()
        assert ours.num_rows > 0
        theirs = read_with_hudi_rs(str(path), tmp_path, *filters)
        assert_same_rows(theirs.select(ours.column_names), ours, sort_by=["id"])
    # Where it lists a file that the metadata table does not have it has not read by it.
    (listed, *_) = sorted((path / "dt=2024-03-03").glob("*.parquet"), key=lambda file: file.name[36:])
    shutil.copy(listed, listed.with_name(f"{'0' * 36}{listed.name[36:]}"))
    assert read_with_hudi_rs(str(path), tmp_path).num_rows == 29
    session.sql(f"CALL delete_metadata_table(table => '{name}')")
    assert read_with_hudi_rs(str(path), tmp_path).num_rows > 29
    session.sql(f"DROP TABLE {name}")


@pytest.mark.soak
def test_hudi_rs_reads_bootstrapped_tables_that_were_wholly_rewritten(session: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    source = write_source(tmp_path / "source", sample_rows(0, 40), lambda seq: f"region={seq % 2}")
    session.sql(
        f"CALL bootstrap_table(table => 'default.rust_b', source => '{source}', record_key => 'id', "
        f"target_path => '{path}')"
    )
    session.sql("UPDATE rust_b SET note = 'changed', place.a = -1 WHERE seq % 5 < 2")
    session.sql("DELETE FROM rust_b WHERE seq = 7")
    ours = session.sql("SELECT * FROM rust_b").arrow()
    theirs = read_with_hudi_rs(path, tmp_path)
    assert ours.num_rows == 39
    assert_same_rows(theirs.select(ours.column_names), ours, sort_by=["seq"])
    session.sql("DROP TABLE rust_b PURGE")
