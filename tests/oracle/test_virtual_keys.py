"""Tables without meta columns (virtual keys): hudisql and Apache Hudi change them in turn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudisql.errors import HudisqlError
from hudisql.format.log_file.log_block import BlockType, HeaderKey, LogBlock, parse_log_blocks
from hudisql.format.log_file.log_block_content import decode_data_block, decode_delete_records
from hudisql.format.schema.meta_columns import META_COLUMNS
from tests.oracle.client import HudiOracle
from tests.oracle.comparison import assert_same_rows
from tests.oracle.newer_tables import WITHOUT_SKIPPING
from tests.oracle.small_table import TableInTurn, new_table_in_turn
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.hms]
WRITE = "hoodie.datasource.write"
KEYS = {
    "simple": ("id", "dt", "SimpleKeyGenerator"),
    "complex": ("id,dt", "dt", "ComplexKeyGenerator"),
    "several": ("id,dt", "", "NonpartitionedKeyGenerator"),
    "non_partitioned": ("id", "", "NonpartitionedKeyGenerator"),
}
MERGE = (
    "MERGE INTO {t} t USING (SELECT * FROM VALUES (10, 4L, 'merged', 'd1'), (11, 4L, 'merged', 'd2'), "
    "(1, 4L, 'gone', 'd1') AS v(id, seq, note, dt)) s ON t.id = s.id "
    "WHEN MATCHED AND s.note = 'gone' THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)
MERGE_ON_READ = {f"{WRITE}.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
AFTER = "hoodie.compact.inline.max.delta.commits"
COMPACT = f"CALL run_compaction(op => 'scheduleandexecute', table => '{{t}}', options => '{AFTER}=1')"


def _options(version: int, keys: str, others: Mapping[str, str] | None = None) -> dict[str, str]:
    record_key, partitions, generator = KEYS[keys]
    return {
        "hoodie.write.table.version": str(version),
        "hoodie.populate.meta.fields": "false",
        "hoodie.index.type": "SIMPLE",
        f"{WRITE}.recordkey.field": record_key,
        f"{WRITE}.precombine.field": "seq",
        f"{WRITE}.partitionpath.field": partitions,
        f"{WRITE}.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
        f"{WRITE}.hive_style_partitioning": "true",
        **(others or {}),
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
    table = new_table_in_turn(oracle, session, path, name, _options(version, keys))
    table.check()
    table.ours("UPDATE {t} SET note = 'ours' WHERE id IN (0, 1)")
    table.ours("DELETE FROM {t} WHERE id = 2")
    table.ours("INSERT INTO {t} VALUES (9, 1, 'new', 'd0'), (4, 2, 'upserted', 'd1')")
    table.check(k0="ours", k1="ours", k2=None, k9="new", k4="upserted")
    _assert_no_meta_values(path)
    table.theirs((0, 3, "theirs", "d0"), (9, 3, "theirs", "d0"), (10, 1, "theirs", "d1"))
    table.check(k0="theirs", k9="theirs", k10="theirs")
    table.ours(MERGE)
    table.check(k10="merged", k11="merged", k1=None)
    table.theirs((11, 5, "theirs", "d2"))
    table.ours("CALL run_clustering(table => '{t}')")
    table.check(k11="theirs")
    table.theirs((3, 6, "theirs", "d0"))
    table.check(k3="theirs")
    if keys != "non_partitioned":
        _overwrite_and_move(table)
    table.ours("CALL run_clean(table => '{t}', retain_commits => 1)")
    table.check()


def _overwrite_and_move(table: TableInTurn) -> None:
    table.ours("INSERT OVERWRITE {t} PARTITION (dt = 'd2') VALUES (12, 7, 'over')")
    table.check(k2=None, k5=None, k8=None, k11=None, k12="over")
    table.theirs((12, 8, "theirs", "d2"), (13, 8, "theirs", "d2"))
    table.check(k12="theirs", k13="theirs")
    table.ours("UPDATE {t} SET dt = 'd1', note = 'moved' WHERE id = 13")
    table.check(k13="moved")


LOGGED = [
    ("015", 6, "simple"),
    ("015", 6, "non_partitioned"),
    ("120", 6, "simple"),
    ("120", 6, "non_partitioned"),
    ("120", 6, "several"),
    ("120", 9, "simple"),
    ("120", 9, "non_partitioned"),
    ("120", 9, "several"),
]


def _logged_table(
    request: pytest.FixtureRequest, session: Any, path: str, hudi: str, version: int, keys: str, name: str
) -> TableInTurn:
    oracle = request.getfixturevalue(f"oracle_{hudi}")
    # 0.15 writes and compacts such log files, but cannot read them.
    reader = request.getfixturevalue("oracle_120")
    others = {**MERGE_ON_READ, "hoodie.metadata.enable": str(version == 9).lower()}
    options = _options(version, keys, others)
    return new_table_in_turn(oracle, session, path, f"{name}_{hudi}_{version}_{keys}", options, reader)


@pytest.mark.parametrize(("hudi", "version", "keys"), parameters(LOGGED, in_ci=[("120", 9, "simple")]))
def test_both_write_log_files_in_turn(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, hudi: str, version: int, keys: str
) -> None:
    path = str(tmp_path / "table")
    table = _logged_table(request, session, path, hudi, version, keys, "virtual_logs")
    table.theirs((0, 2, "theirs", "d0"), (1, 2, "theirs", "d1"))
    table.theirs((3, 2, "gone", "d0"), options={f"{WRITE}.operation": "delete"})
    table.check(k0="theirs", k1="theirs", k3=None)
    table.ours("UPDATE {t} SET seq = 3, note = 'ours' WHERE id IN (1, 4)")
    table.ours("DELETE FROM {t} WHERE id = 2")
    table.check(k1="ours", k4="ours", k2=None)
    assert _deleted_keys(path) == (["id:2,dt:d2", "id:3,dt:d0"] if keys == "several" else ["2", "3"])
    table.theirs((1, 4, "theirs", "d1"), options={"hoodie.logfile.data.block.format": "parquet"})
    table.ours("INSERT INTO {t} VALUES (9, 1, 'new', 'd0'), (4, 4, 'upserted', 'd1')")
    table.theirs((9, 3, "theirs", "d0"), (10, 1, "theirs", "d1"))
    table.check(k1="theirs", k4="upserted", k9="theirs", k10="theirs")
    table.ours(MERGE)
    table.check(k10="merged", k11="merged", k1=None)
    table.ours(COMPACT)
    table.check()
    _assert_no_meta_values(path)


@pytest.mark.soak
@pytest.mark.parametrize(("hudi", "version", "keys"), LOGGED)
def test_services_merge_log_files_of_both(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, hudi: str, version: int, keys: str
) -> None:
    path = str(tmp_path / "table")
    table = _logged_table(request, session, path, hudi, version, keys, "virtual_services")
    table.theirs((5, 5, "theirs", "d2"), (11, 5, "theirs", "d2"))
    table.ours("UPDATE {t} SET seq = 6, note = 'ours' WHERE id IN (6, 11)")
    table.ours("DELETE FROM {t} WHERE id = 7")
    table.check(k5="theirs", k6="ours", k7=None, k11="ours")
    table.theirs((0, 6, "compacted", "d0"), options={"hoodie.compact.inline": "true", AFTER: "1"})
    reader, table.reader = table.reader, None
    table.check(k0="compacted")
    table.reader = reader
    table.theirs((5, 7, "clustered", "d2"))
    table.ours("CALL run_clustering(table => '{t}')")
    table.check(k5="clustered")
    _assert_no_meta_values(path)
    table.theirs((4, 8, "theirs", "d1"))
    table.check(k4="theirs")
    if keys == "simple":
        _overwrite_and_move(table)
    table.ours("CALL run_clean(table => '{t}', retain_commits => 1)")
    table.check()


@pytest.mark.soak
@pytest.mark.parametrize(("hudi", "version"), [("015", 6), ("120", 9)])
def test_new_rows_in_log_files_of_buckets(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, hudi: str, version: int
) -> None:
    oracle, reader = request.getfixturevalue(f"oracle_{hudi}"), request.getfixturevalue("oracle_120")
    others = {**MERGE_ON_READ, "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    name, path = f"virtual_buckets_{version}", str(tmp_path / "table")
    table = new_table_in_turn(oracle, session, path, name, _options(version, "simple", others), reader)
    table.theirs((0, 2, "theirs", "d0"), (9, 2, "theirs", "d0"))
    table.check(k0="theirs", k9="theirs")
    for key in ("hoodie.index.type", "hoodie.bucket.index.num.buckets"):
        table.ours(f"SET {key} = {others[key]}")
    table.ours("INSERT INTO {t} VALUES (12, 3, 'new', 'd0'), (0, 3, 'upserted', 'd0')")
    table.ours("DELETE FROM {t} WHERE id IN (1, 9)")
    table.check(k0="upserted", k12="new", k1=None, k9=None)
    table.theirs((12, 4, "theirs", "d0"), (2, 4, "theirs", "d2"))
    table.check(k12="theirs", k2="theirs")
    table.ours(COMPACT)
    table.check()
    for key in ("hoodie.index.type", "hoodie.bucket.index.num.buckets"):
        table.ours(f"RESET {key}")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("key_type", "keys"),
    [
        ("BIGINT", ["1", "2", "3"]),
        ("STRING", ["'a'", "'b:c'", "'ü'"]),
        ("BOOLEAN", ["true", "false"]),
        ("DOUBLE", ["1.5D", "2.0D", "1e10D"]),
        ("FLOAT", ["1.5F", "2.0F", "1e10F"]),
        (
            "TIMESTAMP",
            ["TIMESTAMP'2020-01-01 01:02:03.4'", "TIMESTAMP'2020-01-02'", "TIMESTAMP'1950-01-01'"],
        ),
        ("DECIMAL(10, 2)", ["1.50", "2.00", "0.00"]),
    ],
)
@pytest.mark.parametrize("version", [6, 9])
def test_hudi_finds_our_keys_of_each_type(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, key_type: str, keys: list[str], version: int
) -> None:
    oracle_120, path = request.getfixturevalue("oracle_120"), str(tmp_path / "table")
    name = f"virtual_{key_type.split('(', 1)[0].lower()}_{version}"
    create = (
        f"CREATE TABLE {name} (id {key_type}, seq BIGINT, note STRING) USING hudi LOCATION '{path}' "
        "TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'seq', "
        f"'hoodie.populate.meta.fields' = 'false', 'hoodie.write.table.version' = '{version}')"
    )
    if key_type.startswith("DECIMAL") and version == 6:
        with pytest.raises(HudisqlError, match="does not find the record keys of its key column id"):
            session.sql(create)
        return
    session.sql(create)
    rows = ", ".join(f"({key}, 1, 'first')" for key in keys)
    session.sql(f"INSERT INTO {name} VALUES {rows}")
    session.sql(f"UPDATE {name} SET note = 'ours', seq = 2 WHERE id = {keys[0]}")
    session.sql(f"DELETE FROM {name} WHERE id = {keys[1]}")
    assert list(Path(path).glob(".*.log.*"))

    def check(oracle: HudiOracle) -> None:
        theirs = oracle.read(path, options=WITHOUT_SKIPPING)
        ours = session.sql(f"SELECT * FROM {name}").arrow()
        assert_same_rows(ours, theirs.select(ours.schema.names), sort_by=["note"])
        assert sorted(theirs["note"].to_pylist()) == ["first"] * (len(keys) - 2) + ["ours"]

    check(oracle_120)
    if version == 6:
        oracle_015 = request.getfixturevalue("oracle_015")
        oracle_015.sql(f"CALL run_compaction(op => 'schedule', path => '{path}', options => '{AFTER}=1')")
        key = f"{WRITE}.recordkey.field=id"
        oracle_015.sql(f"CALL run_compaction(op => 'run', path => '{path}', options => '{key}')")
        check(oracle_015)
        check(oracle_120)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize(("hudi", "version"), [("015", 6), ("120", 6), ("120", 9)])
def test_both_write_tables_that_create_table_makes(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, hudi: str, version: int, kind: str
) -> None:
    oracle = request.getfixturevalue(f"oracle_{hudi}")
    name, path = f"made_virtual_{kind}_{hudi}_{version}", str(tmp_path / "table")
    session.sql(
        f"CREATE TABLE {name} (id INT, seq BIGINT, note STRING, dt STRING) USING hudi PARTITIONED BY (dt) "
        f"LOCATION '{path}' TBLPROPERTIES (type = '{kind}', primaryKey = 'id', preCombineField = 'seq', "
        f"'hoodie.populate.meta.fields' = 'false', 'hoodie.write.table.version' = '{version}')"
    )
    session.sql(f"INSERT INTO {name} VALUES (1, 1, 'ours', 'x'), (2, 1, 'ours', 'y')")
    _assert_no_meta_values(path)
    options = _options(version, "simple", MERGE_ON_READ if kind == "mor" else None)
    table = TableInTurn(oracle, session, path, name, {"hoodie.table.name": name, **options})
    table.theirs((2, 2, "theirs", "y"), (3, 2, "theirs", "x"))
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
    reader = request.getfixturevalue("oracle_120")
    theirs = reader.read(path, options=WITHOUT_SKIPPING)
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


def _deleted_keys(path: str) -> list[str]:
    """The record keys in the delete blocks of the table's log files; checks that rows have no meta values."""
    keys: list[str] = []
    for file in sorted(each for each in Path(path).rglob(".*.log.*") if not each.name.endswith(".crc")):
        for block in parse_log_blocks(file.read_bytes(), file.name):
            assert isinstance(block, LogBlock)
            if block.block_type is BlockType.DELETE:
                keys += decode_delete_records(block.content).record_keys.to_pylist()
            elif block.block_type is BlockType.AVRO_DATA:
                rows = decode_data_block(block.content, block.header[HeaderKey.SCHEMA])
                assert all(rows[name].null_count == rows.num_rows for name in META_COLUMNS)
    return sorted(keys)
