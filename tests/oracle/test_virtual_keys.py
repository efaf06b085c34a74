"""Copy-on-write tables without meta columns (virtual keys): hudisql and Apache Hudi change them in turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudisql.errors import HudisqlError
from hudisql.format.schema.meta_columns import META_COLUMNS
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.newer_tables import WITHOUT_SKIPPING
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]
SCHEMA = pa.schema([("id", pa.int32()), ("seq", pa.int64()), ("note", pa.string()), ("dt", pa.string())])
WRITE = "hoodie.datasource.write"
KEYS = {
    "simple": ("id", "dt", "SimpleKeyGenerator"),
    "complex": ("id,dt", "dt", "ComplexKeyGenerator"),
    "non_partitioned": ("id", "", "NonpartitionedKeyGenerator"),
}
Row = tuple[int, int, str, str]


def _theirs(oracle: HudiOracle, path: str, rows: list[Row], options: dict[str, str]) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)]
    oracle.upsert(pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA), path, options)


def _options(name: str, version: int, keys: str) -> dict[str, str]:
    record_key, partitions, generator = KEYS[keys]
    return {
        "hoodie.table.name": name,
        "hoodie.write.table.version": str(version),
        "hoodie.populate.meta.fields": "false",
        "hoodie.index.type": "SIMPLE",
        f"{WRITE}.recordkey.field": record_key,
        f"{WRITE}.precombine.field": "seq",
        f"{WRITE}.partitionpath.field": partitions,
        f"{WRITE}.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
        f"{WRITE}.hive_style_partitioning": "true",
    }


@pytest.mark.parametrize(
    ("hudi", "version", "keys"),
    parameters(
        [
            ("015", 6, "simple"),
            ("015", 6, "complex"),
            ("015", 6, "non_partitioned"),
            ("120", 6, "simple"),
            ("120", 9, "simple"),
            ("120", 9, "complex"),
            ("120", 9, "non_partitioned"),
        ],
        in_ci=[("120", 9, "complex")],
    ),
)
def test_both_write_in_turn(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, hudi: str, version: int, keys: str
) -> None:
    oracle = request.getfixturevalue(f"oracle_{hudi}")
    name, path = f"virtual_{hudi}_{version}_{keys}", str(tmp_path / "table")
    options = _options(name, version, keys)
    _theirs(oracle, path, [(number, 1, "first", f"d{number % 3}") for number in range(9)], options)
    session.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    notes = dict.fromkeys(range(9), "first")

    def check(**changes: str | None) -> None:
        for key, note in changes.items():
            notes.pop(int(key[1:]), None)
            if note is not None:
                notes[int(key[1:])] = note
        theirs = oracle.read(path, options=WITHOUT_SKIPPING)
        ours = session.sql(f"SELECT * FROM {name}").arrow()
        assert_same_rows(ours, theirs.select(ours.schema.names), sort_by=["id"])
        assert ours.schema.names == SCHEMA.names
        assert sorted(zip(theirs["id"].to_pylist(), theirs["note"].to_pylist(), strict=True)) == sorted(
            notes.items()
        )

    check()
    session.sql(f"UPDATE {name} SET note = 'ours' WHERE id IN (0, 1)")
    session.sql(f"DELETE FROM {name} WHERE id = 2")
    session.sql(f"INSERT INTO {name} VALUES (9, 1, 'new', 'd0'), (4, 2, 'upserted', 'd1')")
    check(k0="ours", k1="ours", k2=None, k9="new", k4="upserted")
    _assert_no_meta_values(path)
    _theirs(oracle, path, [(0, 3, "theirs", "d0"), (9, 3, "theirs", "d0"), (10, 1, "theirs", "d1")], options)
    check(k0="theirs", k9="theirs", k10="theirs")
    session.sql(
        f"MERGE INTO {name} t USING (SELECT * FROM VALUES (10, 4L, 'merged', 'd1'), "
        "(11, 4L, 'merged', 'd2'), (1, 4L, 'gone', 'd1') AS v(id, seq, note, dt)) s ON t.id = s.id "
        "WHEN MATCHED AND s.note = 'gone' THEN DELETE WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    check(k10="merged", k11="merged", k1=None)
    _theirs(oracle, path, [(11, 5, "theirs", "d2")], options)
    session.sql(f"CALL run_clustering(table => '{name}')")
    check(k11="theirs")
    _theirs(oracle, path, [(3, 6, "theirs", "d0")], options)
    check(k3="theirs")
    if keys != "non_partitioned":
        session.sql(f"INSERT OVERWRITE {name} PARTITION (dt = 'd2') VALUES (12, 7, 'over')")
        check(k5=None, k8=None, k11=None, k12="over")
        _theirs(oracle, path, [(12, 8, "theirs", "d2"), (13, 8, "theirs", "d2")], options)
        check(k12="theirs", k13="theirs")
        session.sql(f"UPDATE {name} SET dt = 'd1', note = 'moved' WHERE id = 13")
        check(k13="moved")
    session.sql(f"CALL run_clean(table => '{name}', retain_commits => 1)")
    check()


@pytest.mark.soak
@pytest.mark.parametrize(("hudi", "version"), [("015", 6), ("120", 6), ("120", 9)])
def test_both_write_tables_that_create_table_makes(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, hudi: str, version: int
) -> None:
    oracle = request.getfixturevalue(f"oracle_{hudi}")
    name, path = f"made_virtual_{hudi}_{version}", str(tmp_path / "table")
    session.sql(
        f"CREATE TABLE {name} (id INT, seq BIGINT, note STRING, dt STRING) USING hudi PARTITIONED BY (dt) "
        f"LOCATION '{path}' TBLPROPERTIES (primaryKey = 'id', preCombineField = 'seq', "
        f"'hoodie.populate.meta.fields' = 'false', 'hoodie.write.table.version' = '{version}')"
    )
    session.sql(f"INSERT INTO {name} VALUES (1, 1, 'ours', 'x'), (2, 1, 'ours', 'y')")
    _assert_no_meta_values(path)
    options = _options(name, version, "simple")
    _theirs(oracle, path, [(2, 2, "theirs", "y"), (3, 2, "theirs", "x")], options)
    session.sql(f"UPDATE {name} SET note = 'again' WHERE id = 3")
    other = "SIX" if version == 9 else "NINE"
    procedure = "downgrade_table" if version == 9 else "upgrade_table"
    for call, said in (
        (f"{procedure}(table => '{name}', to_version => '{other}')", "does not change the table version"),
        (f"create_metadata_table(table => '{name}')", "does not make a metadata table or an index"),
    ):
        with pytest.raises(HudisqlError, match=said):
            session.sql(f"CALL {call}")
    with pytest.raises(HudisqlError, match="no meta columns"):
        session.sql(f"SELECT * FROM hudi_table_changes('{name}', 'latest_state', 'earliest')")
    with pytest.raises(HudisqlError, match="cannot be changed"):
        session.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('hoodie.populate.meta.fields' = 'true')")
    theirs = oracle.read(path, options=WITHOUT_SKIPPING)
    ours = session.sql(f"SELECT * FROM {name}").arrow()
    assert_same_rows(ours, theirs.select(ours.schema.names), sort_by=["id"])
    assert [row["note"] for row in ours.sort_by("id").to_pylist()] == ["ours", "theirs", "again"]


def _assert_no_meta_values(path: str) -> None:
    files = sorted(Path(path).rglob("*.parquet"))
    files = [each for each in files if ".hoodie" not in each.parts]
    assert files
    for each in files:
        footer = pq.read_metadata(each).metadata
        assert not [key for key in footer if b"bloom" in key or b"record_key" in key]
        for name in META_COLUMNS:
            values = pc.drop_null(pq.ParquetFile(each).read()[name]).to_pylist()
            assert not values or name == "_hoodie_file_name"
