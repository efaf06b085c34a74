"""Schema-on-read: tables whose columns Hudi or hudisql has renamed, dropped, moved and changed by ids.

Each reads the other's table with the same rows, and both write on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.errors import InvalidArgumentError, UnsupportedStatementError, UnsupportedTableError
from tests.oracle.client import SHORT_LIVED_JAVA, HudiOracle, OracleError, start_oracle
from tests.oracle.comparison import assert_same_rows
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.usefixtures("lake_database")]

ENABLE = "hoodie.schema.on.read.enable"
SETTINGS = {
    ENABLE: "true",
    # Hudi 1.2 refuses to drop and rename columns without it.
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
}
COLUMNS = (
    "id int, i int, l bigint, f float, g float, d double, price decimal(10,2), day date, gone string, "
    "label string, tags array<string>, i2 int, i3 int, i4 int, l2 bigint, dc decimal(9,3), "
    "l3 bigint, l4 bigint, i5 int, d2 double, s1 string, s2 string, dc2 decimal(9,3), ts bigint, dt string"
)
ROWS = ", ".join(
    f"({n}, {n}, {n}L, float({n}.1), float({n}.7), {n}e10D, {n}.25BD, date'2024-01-0{n}', 'g{n}', "
    f"'l{n}', array('t{n}'), {n}, -{n}, {n}, {n}00L, {n}.125BD, {2**53 + n}L, {2**24 + n}L, "
    f"{2**24 - n}, {n}.005D, '2024-{n}-30', '{n}.1255', -{n}.125BD, 1L, 'p{n % 2}')"
    for n in range(1, 7)
)
ALTERS = (
    "RENAME COLUMN label TO name",
    "DROP COLUMN gone",
    "ADD COLUMNS (gone bigint AFTER id)",
    "ALTER COLUMN i TYPE bigint",
    "ALTER COLUMN f TYPE double",
    "ALTER COLUMN g TYPE string",
    "ALTER COLUMN d TYPE string",
    "ALTER COLUMN price TYPE decimal(12,2)",
    "ALTER COLUMN day TYPE string",
    "ALTER COLUMN l TYPE decimal(20,0)",
    "ALTER COLUMN i2 TYPE double",
    "ALTER COLUMN i3 TYPE string",
    "ALTER COLUMN i4 TYPE decimal(12,2)",
    "ALTER COLUMN l2 TYPE string",
    "ALTER COLUMN dc TYPE string",
    "ALTER COLUMN l3 TYPE double",
    "ALTER COLUMN l4 TYPE float",
    "ALTER COLUMN i5 TYPE float",
    "ALTER COLUMN d2 TYPE decimal(12,2)",
    "ALTER COLUMN s1 TYPE date",
    "ALTER COLUMN s2 TYPE decimal(12,3)",
    "ALTER COLUMN dc2 TYPE decimal(20,5)",
    "ALTER COLUMN tags AFTER id",
    "ALTER COLUMN name COMMENT 'was label'",
)


@pytest.fixture(scope="module")
def by_ids_015(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiOracle]:
    yield from _oracle("0.15.0", tmp_path_factory.mktemp("oracle_015"))


@pytest.fixture(scope="module")
def by_ids_120(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiOracle]:
    yield from _oracle("1.2.0", tmp_path_factory.mktemp("oracle_120"))


def _oracle(version: str, directory: Path) -> Iterator[HudiOracle]:
    """Without a metastore, which refuses most of these changes from Hudi."""
    oracle = start_oracle(version, directory, memory="1g", config=SHORT_LIVED_JAVA)
    for key, value in SETTINGS.items():
        oracle.sql(f"SET {key}={value}")
    yield oracle
    oracle.close()


def _create(oracle: HudiOracle, name: str, path: Path, table_type: str, version: str) -> None:
    oracle.sql(
        f"CREATE TABLE {name} ({COLUMNS}) USING hudi PARTITIONED BY (dt) LOCATION '{path}' TBLPROPERTIES "
        f"(type='{table_type}', primaryKey='id', preCombineField='ts', "
        f"'hoodie.write.table.version'='{version}')"
    )
    oracle.sql(f"SET hoodie.write.table.version={version}")
    oracle.sql(f"INSERT INTO {name} VALUES {ROWS}")
    if "parquet" in name:
        oracle.sql("SET hoodie.logfile.data.block.format=parquet")
    oracle.sql(f"UPDATE {name} SET gone = 'changed', ts = 2 WHERE id = 2")
    oracle.sql("RESET hoodie.logfile.data.block.format")


def _same_rows(oracle: HudiOracle, session: Any, name: str) -> pa.Table:
    theirs = oracle.sql(f"SELECT * FROM {name}")
    ours = session.sql(f"SELECT * FROM lake.{name}").arrow()
    assert_same_rows(ours, theirs, sort_by=["id"])
    return ours.sort_by("id")


# Filters on columns whose old files have other types, and the ids of the rows that meet them.
FILTERS = {
    "name > 'l4' AND d = '5.0E10'": [5],
    f"l3 > {2**53 + 4}.0D": [6],
    f"l4 >= float({2**24 + 4})": [3, 4, 5, 6],
    f"i5 < float({2**24 - 4})": [5, 6],
    "d2 IN (1.01BD, 4.01BD)": [1, 4],
    "s1 > date'2024-05-01'": [5, 6],
    "s2 BETWEEN 2.126BD AND 3.126BD": [2, 3],
    "dc2 = -4.12500BD": [4],
    "i3 = '-3' OR l2 = '600'": [3, 6],
    "l IS NULL": [],
}


def _same_rows_by_filters(oracle: HudiOracle, session: Any, name: str) -> None:
    for condition, ids in FILTERS.items():
        ours = session.sql(f"SELECT id FROM lake.{name} WHERE {condition} ORDER BY id").arrow()
        theirs = oracle.sql(f"SELECT id FROM {name} WHERE {condition} ORDER BY id")
        assert ours["id"].to_pylist() == theirs["id"].to_pylist() == ids, condition


def _by_name(session: Any, name: str, path: Path) -> None:
    session.sql(f"CALL hive_sync(table => 'lake.{name}', path => '{path}')")


# Who alters the table, its type and version, and the Hudi beside hudisql.
LIVES = [
    ("hudi_mor_015", "mor", "6", "by_ids_015"),
    ("hudisql_mor9_120", "mor", "9", "by_ids_120"),
    ("hudisql_cow_015", "cow", "6", "by_ids_015"),
    ("hudi_cow_015", "cow", "6", "by_ids_015"),
    ("hudisql_mor_015", "mor", "6", "by_ids_015"),
    ("hudi_cow_120", "cow", "6", "by_ids_120"),
    ("hudi_mor9_120", "mor", "9", "by_ids_120"),
    ("hudi_mor_parquet_015", "mor", "6", "by_ids_015"),
    ("hudisql_mor_120", "mor", "6", "by_ids_120"),
]


@pytest.mark.parametrize(("name", "table_type", "version", "hudi"), parameters(LIVES, in_ci=[]))
def test_columns_are_altered_by_ids_and_both_write_on(
    request: pytest.FixtureRequest,
    session: Any,
    tmp_path: Path,
    name: str,
    table_type: str,
    version: str,
    hudi: str,
) -> None:
    oracle, path = request.getfixturevalue(hudi), tmp_path / name
    _create(oracle, name, path, table_type, version)
    before = oracle.sql(f"SELECT * FROM {name}")
    alter = _we_alter if name.startswith("hudisql") else _hudi_alters
    alter(oracle, session, name, path)
    _both_write_on(oracle, session, table_type, name, before)


def _hudi_alters(oracle: HudiOracle, session: Any, name: str, path: Path) -> None:
    for alteration in ALTERS:
        oracle.sql(f"ALTER TABLE {name} {alteration}")
    _by_name(session, name, path)


def _we_alter(oracle: HudiOracle, session: Any, name: str, path: Path) -> None:
    _by_name(session, name, path)
    with pytest.raises(UnsupportedStatementError, match=f"needs columns with ids.*{ENABLE} = true"):
        session.sql(f"ALTER TABLE lake.{name} DROP COLUMN gone")
    session.sql(f"SET {ENABLE} = true")
    for column in ("id", "ts", "dt"):
        with pytest.raises(UnsupportedStatementError, match=f"RENAME COLUMN {column} .* column"):
            session.sql(f"ALTER TABLE lake.{name} RENAME COLUMN {column} TO other")
    for alteration in ALTERS:
        session.sql(f"ALTER TABLE lake.{name} {alteration}")
    to_version = "SIX" if "9" in name else "NINE"
    procedure = "downgrade_table" if "9" in name else "upgrade_table"
    with pytest.raises(UnsupportedTableError, match="does not change the version"):
        session.sql(f"CALL {procedure}(table => 'lake.{name}', to_version => '{to_version}')")
    session.sql(f"RESET {ENABLE}")
    shown = session.sql(f"SELECT * FROM lake.{name}").arrow().column_names
    entry = session.context.metastore.get_table("lake", name)
    assert [column.name for column in entry.columns] == [each for each in shown if each != "dt"]
    oracle.sql(f"DROP TABLE {name}")
    oracle.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")


def _both_write_on(oracle: HudiOracle, session: Any, table_type: str, name: str, before: pa.Table) -> None:
    at = max(before["_hoodie_commit_time"].to_pylist())
    oracle.sql(f"UPDATE {name} SET name = 'renamed', gone = 9, ts = 3 WHERE id = 3")
    rows = _same_rows(oracle, session, name)
    assert rows["gone"].to_pylist() == [None, None, 9, None, None, None]
    assert rows["name"].to_pylist() == ["l1", "l2", "renamed", "l4", "l5", "l6"]
    assert rows["g"].to_pylist()[:2] == ["1.7", "2.7"]
    _same_rows_by_filters(oracle, session, name)
    past = session.sql(f"SELECT * FROM lake.{name} TIMESTAMP AS OF '{at}'").arrow()
    assert_same_rows(past, before, sort_by=["id"])
    changes = session.sql(f"SELECT * FROM hudi_table_changes('lake.{name}', 'latest_state', 'earliest')")
    assert_same_rows(changes.arrow(), rows, sort_by=["id"])

    session.sql(f"UPDATE lake.{name} SET name = 'ours', gone = 7, ts = 4 WHERE id = 4")
    session.sql(f"DELETE FROM lake.{name} WHERE id = 5")
    _same_rows(oracle, session, name)
    oracle.sql(f"UPDATE {name} SET name = 'theirs', ts = 5 WHERE id = 4")
    rows = _same_rows(oracle, session, name)
    assert rows["name"].to_pylist() == ["l1", "l2", "renamed", "theirs", "l6"]
    if table_type == "mor":
        session.sql(f"CALL run_compaction(op => 'scheduleAndExecute', table => 'lake.{name}')")
        _same_rows(oracle, session, name)
    session.sql(f"CALL run_clustering(table => 'lake.{name}', op => 'scheduleAndExecute')")
    assert _same_rows(oracle, session, name)["name"].to_pylist() == rows["name"].to_pylist()
    oracle.sql(f"UPDATE {name} SET tags = array('after'), ts = 6 WHERE id = 1")
    _same_rows(oracle, session, name)


@pytest.mark.soak
def test_a_compaction_planned_before_a_change_and_a_writer_that_loses_the_ids(
    by_ids_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    name, path = "planned_by_ids", tmp_path / "planned"
    _create(by_ids_015, name, path, "mor", "6")
    _by_name(session, name, path)
    schedule = f"CALL run_compaction(op => 'schedule', table => 'lake.{name}', options => "
    assert session.sql(f"{schedule}'hoodie.compact.inline.max.delta.commits=1')").rows
    session.sql(f"SET {ENABLE} = true")
    session.sql(f"ALTER TABLE lake.{name} RENAME COLUMN label TO name")
    session.sql(f"ALTER TABLE lake.{name} DROP COLUMN gone")
    session.sql(f"ALTER TABLE lake.{name} ADD COLUMNS (gone string)")
    session.sql(f"RESET {ENABLE}")
    session.sql(f"UPDATE lake.{name} SET name = 'after', gone = 'new', ts = 3 WHERE id = 1")
    session.sql(f"CALL run_compaction(op => 'execute', table => 'lake.{name}')")
    by_ids_015.sql(f"DROP TABLE {name}")
    by_ids_015.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    rows = _same_rows(by_ids_015, session, name)
    assert rows["name"].to_pylist() == ["after", "l2", "l3", "l4", "l5", "l6"]
    assert rows["gone"].to_pylist() == ["new", None, None, None, None, None]

    by_ids_015.sql(f"SET {ENABLE}=false")
    by_ids_015.sql(f"UPDATE {name} SET ts = 7 WHERE id = 2")
    by_ids_015.sql(f"SET {ENABLE}=true")
    assert _same_rows(by_ids_015, session, name)["name"].to_pylist()[2:] == [None] * 4
    with pytest.raises(UnsupportedTableError, match="latest commit carries no internal schema"):
        session.sql(f"UPDATE lake.{name} SET ts = 8 WHERE id = 3")
    lost = max(path.glob(".hoodie/*.deltacommit")).name.split(".")[0]
    session.sql(f"CALL rollback_to_instant(table => 'lake.{name}', instant_time => '{lost}')")
    session.sql(f"UPDATE lake.{name} SET ts = 8 WHERE id = 3")
    assert _same_rows(by_ids_015, session, name)["name"].to_pylist()[2:] == ["l3", "l4", "l5", "l6"]


@pytest.mark.soak
def test_bootstrapped_slices_are_read_by_ids_that_hudi_has_given(
    by_ids_015: HudiOracle, session: Any, tmp_path: Path
) -> None:
    source, path, name = tmp_path / "source", tmp_path / "table", "bootstrapped_by_ids"
    source.mkdir()
    plain = pa.table({"id": ["a", "b"], "label": ["x", "y"], "n": pa.array([1, 2], pa.int32()), "ts": [1, 1]})
    pq.write_table(plain, source / "part-0.parquet")
    session.sql(
        f"CALL bootstrap_table(table => 'lake.{name}', source => '{source}', record_key => 'id', "
        f"precombine => 'ts', target_path => '{path}')"
    )
    session.sql(f"SET {ENABLE} = true")
    with pytest.raises(UnsupportedStatementError, match="rows are still in source files"):
        session.sql(f"ALTER TABLE lake.{name} RENAME COLUMN label TO name")
    session.sql(f"RESET {ENABLE}")
    # A table of Hudi's belongs to a database.
    by_ids_015.sql("CREATE DATABASE lake")
    by_ids_015.sql(f"CREATE TABLE lake.{name} USING hudi LOCATION '{path}'")
    by_ids_015.sql(f"ALTER TABLE lake.{name} RENAME COLUMN label TO name")
    by_ids_015.sql(f"ALTER TABLE lake.{name} ALTER COLUMN n TYPE bigint")
    query = f"SELECT id, name, n, _hoodie_record_key AS stored FROM lake.{name} WHERE name > '' ORDER BY id"
    expected = [("a", "x", 1, "a"), ("b", "y", 2, "b")]
    assert [tuple(row.values()) for row in session.sql(query).arrow().to_pylist()] == expected
    session.sql(f"UPDATE lake.{name} SET n = 5000000000 WHERE id = 'a'")
    assert by_ids_015.sql(f"SELECT name, n FROM lake.{name} ORDER BY id").to_pylist() == [
        {"name": "x", "n": 5000000000},
        {"name": "y", "n": 2},
    ]


MEMBERS = [("cow", "by_ids_120"), ("cow", "by_ids_015"), ("mor", "by_ids_120"), ("mor", "by_ids_015")]


@pytest.mark.parametrize(("kind", "hudi"), parameters(MEMBERS, in_ci=[]))
def test_members_are_added_to_structs_as_in_hudi(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, kind: str, hudi: str
) -> None:
    path, name = str(tmp_path / "t"), f"lake.members_{kind}_{hudi}"
    session.sql(
        f"CREATE TABLE {name} (id INT, st STRUCT<a: INT, c: STRUCT<d: STRING>>, ts BIGINT) USING hudi "
        f"LOCATION '{path}' TBLPROPERTIES (primaryKey = 'id', type = '{kind}')"
    )
    session.sql(f"INSERT INTO {name} VALUES (1, named_struct('a', 1, 'c', named_struct('d', 'x')), 1)")
    session.sql(f"INSERT INTO {name} VALUES (2, NULL, 1), (3, named_struct('a', 3, 'c', NULL), 1)")
    with pytest.raises(UnsupportedStatementError, match=r"ADD COLUMNS \(st.b\) .* needs columns with ids"):
        session.sql(f"ALTER TABLE {name} ADD COLUMNS (st.b INT AFTER a)")
    session.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{ENABLE}' = 'true')")
    with pytest.raises(InvalidArgumentError, match="id is not a struct"):
        session.sql(f"ALTER TABLE {name} ADD COLUMNS (id.b INT)")
    session.sql(f"ALTER TABLE {name} ADD COLUMNS (st.b INT AFTER a, st.c.e STRING)")
    session.sql(f"UPDATE {name} SET ts = 2 WHERE id = 1")
    new = "named_struct('a', 4, 'b', 5, 'c', named_struct('d', 'x', 'e', 'y'))"
    session.sql(f"INSERT INTO {name} VALUES (4, {new}, 1)")
    rows = session.sql(f"SELECT * FROM {name}").arrow()
    assert [row["st"] for row in sorted(rows.to_pylist(), key=lambda row: row["id"])] == [
        {"a": 1, "b": None, "c": {"d": "x", "e": None}},
        None,
        {"a": 3, "b": None, "c": None},
        {"a": 4, "b": 5, "c": {"d": "x", "e": "y"}},
    ]
    oracle: HudiOracle = request.getfixturevalue(hudi)
    assert_same_rows(rows, oracle.read(path, options={ENABLE: "true"}), sort_by=["id"])


@pytest.mark.parametrize(("kind", "hudi"), parameters(MEMBERS, in_ci=[]))
def test_members_are_dropped_and_moved_as_in_hudi(
    request: pytest.FixtureRequest, session: Any, tmp_path: Path, kind: str, hudi: str
) -> None:
    oracle: HudiOracle = request.getfixturevalue(hudi)
    path, name = tmp_path / "t", f"dropped_members_{kind}_{hudi}"
    oracle.sql("SET hoodie.write.table.version=6")
    oracle.sql(
        f"CREATE TABLE {name} (id int, st struct<a:int, b:string, c:struct<d:string, e:int>>, ts bigint) "
        f"USING hudi LOCATION '{path}' TBLPROPERTIES (type='{kind}', primaryKey='id', preCombineField='ts')"
    )
    struct = "named_struct('a', {0}, 'b', 'b{0}', 'c', named_struct('d', 'd{0}', 'e', {0}))"
    rows = ", ".join(f"({n}, {struct.format(n)}, 1L)" for n in (1, 2, 3))
    oracle.sql(f"INSERT INTO {name} VALUES {rows}, (4, NULL, 1L)")
    oracle.sql(f"UPDATE {name} SET ts = 2 WHERE id = 2")
    _by_name(session, name, path)
    session.sql(f"SET {ENABLE} = true")
    for refused in (
        "RENAME COLUMN st.a TO x",
        "ALTER COLUMN st.a TYPE bigint",
        "ALTER COLUMN st.a COMMENT 'x'",
    ):
        with pytest.raises(UnsupportedStatementError, match=r"COLUMN st.a is not supported"):
            session.sql(f"ALTER TABLE lake.{name} {refused}")
    with pytest.raises(InvalidArgumentError, match=r"st\.c\.d is the only member of its struct"):
        session.sql(f"ALTER TABLE lake.{name} DROP COLUMNS (st.c.e, st.c.d)")
    session.sql(f"ALTER TABLE lake.{name} DROP COLUMNS (st.a, st.c.e)")
    session.sql(f"ALTER TABLE lake.{name} DROP COLUMN IF EXISTS st.a")
    session.sql(f"ALTER TABLE lake.{name} ALTER COLUMN st.c FIRST")
    session.sql(f"RESET {ENABLE}")
    oracle.sql(f"REFRESH TABLE {name}")
    oracle.sql(f"DROP TABLE {name}")
    oracle.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path}'")
    rows_after = _same_rows(oracle, session, name)
    assert rows_after["st"].to_pylist() == [
        *({"c": {"d": f"d{n}"}, "b": f"b{n}"} for n in (1, 2, 3)),
        None,
    ]
    oracle.sql(
        f"UPDATE {name} SET st = named_struct('c', named_struct('d', 'x'), 'b', 'y'), ts = 3 WHERE id = 3"
    )
    session.sql(f"UPDATE lake.{name} SET ts = 4 WHERE id = 1")
    assert _same_rows(oracle, session, name)["st"].to_pylist()[2] == {"c": {"d": "x"}, "b": "y"}
    oracle.sql(f"ALTER TABLE {name} ALTER COLUMN st.c AFTER b")
    oracle.sql(f"ALTER TABLE {name} DROP COLUMN st.b")
    _by_name(session, name, path)
    assert _same_rows(oracle, session, name)["st"].to_pylist()[0] == {"c": {"d": "d1"}}
    session.sql(f"SET {ENABLE} = true")
    with pytest.raises(UnsupportedStatementError, match="st has had a member b: Apache Hudi could not read"):
        session.sql(f"ALTER TABLE lake.{name} ADD COLUMNS (st.b INT)")
    session.sql(f"RESET {ENABLE}")
    oracle.sql(f"ALTER TABLE {name} ADD COLUMNS (st.b int)")
    with pytest.raises(OracleError, match="Nested types with type changes"):
        oracle.sql(f"SELECT st FROM {name}")
