"""Tables whose files lack the partition columns: hudisql and Apache Hudi change them in turn.

They are copy-on-write: of a merge-on-read table Hudi notes the option as false, and refuses its next write.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.opened import open_kept
from tests.oracle.client import BY_METADATA, HudiOracle
from tests.oracle.small_table import SCHEMA, TableInTurn, new_table_in_turn
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "seq",
    "hoodie.datasource.write.partitionpath.field": "dt",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.drop.partition.columns": "true",
}


@pytest.mark.soak
@pytest.mark.parametrize("version", [6, 9])
def test_both_write_in_turn(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, version: int
) -> None:
    oracle = request.getfixturevalue("oracle_015" if version == 6 else "oracle_120")
    options = {"hoodie.write.table.version": str(version), **OPTIONS}
    path = str(tmp_path / "table")
    table = new_table_in_turn(oracle, session, path, f"dropped_{version}", options)

    def check(**changes: str | None) -> None:
        ours = table.check(**changes)
        assert {(row["id"] % 3, row["dt"]) for row in ours.select(["id", "dt"]).to_pylist()} <= {
            (number, f"d{number}") for number in range(3)
        }

    check()
    table.ours("UPDATE {t} SET note = 'ours' WHERE id IN (0, 1)")
    table.ours("DELETE FROM {t} WHERE id = 2")
    table.ours("INSERT INTO {t} VALUES (9, 1, 'new', 'd0'), (4, 2, 'upserted', 'd1')")
    check(k0="ours", k1="ours", k2=None, k9="new", k4="upserted")
    table.theirs((0, 3, "theirs", "d0"), (9, 3, "theirs", "d0"), (10, 1, "theirs", "d1"))
    check(k0="theirs", k9="theirs", k10="theirs")
    table.ours(
        "MERGE INTO {t} t USING (SELECT * FROM VALUES (10, 4L, 'merged', 'd1'), (11, 4L, 'merged', 'd2') "
        "AS v(id, seq, note, dt)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    check(k10="merged", k11="merged")
    table.theirs((11, 5, "theirs", "d2"))
    table.ours("CALL run_clustering(table => '{t}')")
    check(k11="theirs")
    files = list(Path(path).glob("dt=*/*.parquet"))
    assert files
    assert not [each for each in files if "dt" in pq.read_schema(each).names]


@pytest.mark.parametrize("version", parameters([6, 9], in_ci=[6]))
@pytest.mark.parametrize(
    "made_by", parameters(["CREATE TABLE", "CREATE TABLE AS", "session.write"], in_ci=["CREATE TABLE"])
)
def test_tables_that_hudisql_makes_are_read_and_written_by_hudi(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, version: int, made_by: str
) -> None:
    oracle = request.getfixturevalue("oracle_015" if version == 6 else "oracle_120")
    path = str(tmp_path / "table")
    name = f"made_{version}_{made_by.replace(' ', '_').replace('.', '_')}"
    options = {
        "hoodie.table.name": name,
        "hoodie.write.table.version": str(version),
        **OPTIONS,
    }
    rows = "SELECT CAST(id AS INT) AS id, 1L AS seq, 'first' AS note, concat('d', id % 3) AS dt FROM range(9)"
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in options.items() if "field" not in key)
    described = (
        f"USING hudi PARTITIONED BY (dt) LOCATION '{path}' TBLPROPERTIES (primaryKey = 'id', "
        f"preCombineField = 'seq', {properties})"
    )
    if made_by == "CREATE TABLE":
        session.sql(f"CREATE TABLE {name} (id INT, seq BIGINT, note STRING, dt STRING) {described}")
        session.sql(f"INSERT INTO {name} {rows}")
    elif made_by == "CREATE TABLE AS":
        session.sql(f"CREATE TABLE {name} {described} AS {rows}")
    else:
        session.write(session.spark.sql(rows), name, **{**options, "path": path})
    table = TableInTurn(oracle, session, path, name, options)
    table.notes |= dict.fromkeys(range(9), "first")
    table.check()
    table.ours("UPDATE {t} SET note = 'ours' WHERE id = 1")
    table.theirs((0, 2, "theirs", "d0"), (9, 1, "new", "d3"))
    table.check(k0="theirs", k1="ours", k9="new")
    table.ours("INSERT INTO {t} VALUES (9, 2, 'again', 'd3'), (10, 1, 'new', 'd4')")
    oracle.upsert(
        pa.table({"id": [2], "seq": [2], "note": ["plain"], "dt": ["d2"]}, schema=SCHEMA),
        path,
        {"hoodie.table.name": name},
    )
    table.check(k2="plain", k9="again", k10="new")
    files = list(Path(path).glob("dt=*/*.parquet"))
    assert files
    assert not [each for each in files if "dt" in pq.read_schema(each).names]


@pytest.mark.soak
def test_hudi_12_reads_by_a_metadata_table(oracle_120: HudiOracle, session: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "indexed")
    session.sql(
        "CREATE TABLE dropped_indexed (id INT, seq BIGINT, note STRING, dt STRING) USING hudi "
        "PARTITIONED BY (dt) TBLPROPERTIES (primaryKey = 'id', preCombineField = 'seq', "
        "'hoodie.write.table.version' = '9', 'hoodie.datasource.write.drop.partition.columns' = 'true') "
        f"LOCATION '{path}'"
    )
    rows = ", ".join(f"({number}, {number}L, 'first', 'd{number % 3}')" for number in range(9))
    session.sql(f"INSERT INTO dropped_indexed VALUES {rows}")
    session.sql("CALL create_metadata_table(table => 'dropped_indexed', indexes => 'record_index')")
    session.sql("UPDATE dropped_indexed SET note = 'changed' WHERE id IN (4, 5)")
    assert open_kept(path).indexes
    for where in ("dt = 'd1'", "dt > 'd0' AND seq > 4", "id = 5", "note = 'changed' AND dt = 'd2'"):
        found = oracle_120.read(path, columns=["id", "note", "dt"], where=where, options=BY_METADATA)
        ours = session.sql(f"SELECT id, note, dt FROM dropped_indexed WHERE {where}").rows
        assert sorted(tuple(row.values()) for row in found.to_pylist()) == sorted(map(tuple, ours)), where
        assert len(ours)
