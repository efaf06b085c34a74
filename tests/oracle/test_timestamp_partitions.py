"""Partition columns of type TIMESTAMP: directories as Apache Hudi's SQL names them, read and written by both
versions and by Hive.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import HudisqlError
from tests.hive.server import HiveServer
from tests.oracle.client import HudiOracle, OracleError
from tests.soak import parameters

pytestmark = [pytest.mark.oracle, pytest.mark.hive, pytest.mark.spark, pytest.mark.hms]

HIVE_STYLE, ENCODED = (
    "hoodie.datasource.write.hive_style_partitioning",
    "hoodie.datasource.write.partitionpath.urlencode",
)
FIRST, SECOND, THIRD = "2024-01-02 03:04:05", "2024-07-02 00:00:00", "0124-03-01 12:00:00"


@pytest.fixture(autouse=True)
def database(session: Any) -> Iterator[None]:
    session.sql("CREATE DATABASE IF NOT EXISTS times")
    yield
    session.sql("DROP DATABASE times CASCADE")


def rows_of(found: pa.Table) -> list[tuple[object, ...]]:
    return [
        (row["id"], row["note"], row["at"] and f"{row['at'].replace(tzinfo=None)}")
        for row in found.sort_by("id").to_pylist()
    ]


def write_without_sync(oracle: HudiOracle, statement: str) -> None:
    """Run it; the sync after its commit fails, since the entry has the column as string."""
    try:
        oracle.sql(statement)
    except OracleError as error:
        if "Could not sync" not in str(error):
            raise


def directories(path: Path) -> set[str]:
    return {str(marker.parent.relative_to(path)) for marker in path.rglob(".hoodie_partition_metadata")}


@pytest.mark.parametrize(
    ("kind", "hive_style", "encoded"),
    parameters(
        [(kind, style, code) for kind in ("cow", "mor") for style in (True, False) for code in (True, False)],
        in_ci=[],
    ),
)
def test_both_versions_and_hive_go_on_in_the_directories(
    session: Any,
    oracle_015: HudiOracle,
    oracle_120: HudiOracle,
    hive_server: HiveServer,
    tmp_path: Path,
    kind: str,
    hive_style: bool,
    encoded: bool,
) -> None:
    path, oracles = tmp_path / "table", (oracle_015, oracle_120)
    # Apache Hudi keeps the files of a table's name from one test to the next.
    name = f"times.{kind}_{hive_style}_{encoded}".lower()
    session.sql(
        f"CREATE TABLE {name} (id INT, note STRING, seq INT, at TIMESTAMP) USING hudi PARTITIONED BY (at) "
        f"LOCATION '{path}' TBLPROPERTIES (primaryKey = 'id', preCombineField = 'seq', type = '{kind}', "
        f"'{HIVE_STYLE}' = '{str(hive_style).lower()}', '{ENCODED}' = '{str(encoded).lower()}')"
    )
    session.sql(
        f"INSERT INTO {name} VALUES (1, 'a', 1, TIMESTAMP'{FIRST}'), (2, 'b', 1, TIMESTAMP'{SECOND}'), "
        f"(3, 'c', 1, NULL), (4, 'd', 1, TIMESTAMP'{FIRST}'), (5, 'e', 1, TIMESTAMP'{THIRD}')"
    )
    prefix = "at=" if hive_style else ""
    named = {prefix + text.replace(":", "%3A") for text in (FIRST, SECOND, THIRD)}
    assert directories(path) == {*named, f"{prefix}__HIVE_DEFAULT_PARTITION__"}
    expected: dict[int, tuple[object, ...]] = {
        1: (1, "a", FIRST),
        2: (2, "b", SECOND),
        3: (3, "c", None),
        4: (4, "d", FIRST),
        5: (5, "e", THIRD),
    }

    def check() -> None:
        wanted = [expected[number] for number in sorted(expected)]
        assert rows_of(session.sql(f"SELECT * FROM {name}").arrow()) == wanted
        for oracle in oracles:
            oracle.sql(f"REFRESH TABLE {name}")
            assert rows_of(oracle.sql(f"SELECT id, note, at FROM {name}")) == wanted
            assert rows_of(oracle.read(str(path))) == wanted

    def check_filters() -> None:
        for condition in (f"at = TIMESTAMP'{FIRST}'", f"at < TIMESTAMP'{SECOND}'", "at IS NULL"):
            query = f"SELECT id, note, at FROM {name} WHERE {condition}"
            assert rows_of(session.sql(query).arrow()) == rows_of(oracle_120.sql(query))

    check()
    session.sql(f"UPDATE {name} SET note = 'u', seq = 2 WHERE id = 1")
    session.sql(f"UPDATE {name} SET at = TIMESTAMP'{SECOND}', seq = 2 WHERE id = 5")
    session.sql(
        f"MERGE INTO {name} AS t USING (SELECT 2 AS id, 'm' AS note, 3 AS seq, TIMESTAMP'{SECOND}' AS at "
        f"UNION ALL SELECT 6, 'n', 3, TIMESTAMP'2025-01-01 00:00:00') s ON t.id = s.id AND t.at = s.at "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    session.sql(f"DELETE FROM {name} WHERE id = 4")
    del expected[4]
    expected |= {
        1: (1, "u", FIRST),
        2: (2, "m", SECOND),
        5: (5, "e", SECOND),
        6: (6, "n", "2025-01-01 00:00:00"),
    }
    check()
    check_filters()
    ours = directories(path)
    for number, oracle in enumerate(oracles):
        text = f"theirs {number}"
        for statement in (
            f"UPDATE {name} SET note = '{text}', seq = {number + 5} WHERE id = 1",
            f"INSERT INTO {name} VALUES ({10 + number}, '{text}', 1, TIMESTAMP'{FIRST}')",
        ):
            write_without_sync(oracle, statement)
        expected |= {1: (1, text, FIRST), 10 + number: (10 + number, text, FIRST)}
        check()
        assert directories(path) == ours
    session.sql(f"DELETE FROM {name} WHERE at = TIMESTAMP'{FIRST}' AND id >= 10")
    del expected[10], expected[11]
    check()
    if kind == "cow":
        in_hive = hive_server.query(f"SELECT id, note, `at` FROM {name} WHERE `at` = '{FIRST}'")
        assert [(str(row["id"]), row["note"]) for row in in_hive] == [("1", "theirs 1")]
        assert [str(row["at"]).removesuffix(".0") for row in in_hive] == [FIRST]
    partitions = [row[0] for row in session.sql(f"SHOW PARTITIONS {name}").rows]
    assert f"at={FIRST.replace(':', '%3A')}" in partitions


@pytest.mark.soak
@pytest.mark.parametrize("version", ["0.15", "1.2"])
def test_tables_of_hudis_sql_are_written_on(
    session: Any, oracle_015: HudiOracle, oracle_120: HudiOracle, tmp_path: Path, version: str
) -> None:
    oracle, path = (oracle_015 if version == "0.15" else oracle_120), tmp_path / "table"
    oracle.sql(
        f"CREATE TABLE times.theirs (id INT, note STRING, seq INT, at TIMESTAMP) USING hudi "
        f"PARTITIONED BY (at) LOCATION '{path}' TBLPROPERTIES (primaryKey = 'id', preCombineField = 'seq', "
        "'hoodie.write.table.version' = '6')"
    )
    oracle.sql(
        f"INSERT INTO times.theirs VALUES (1, 'a', 1, TIMESTAMP'{FIRST}'), "
        f"(2, 'b', 1, TIMESTAMP'{FIRST}.678901')"
    )
    before = directories(path)
    expected = [(1, "a", FIRST), (2, "b", FIRST)]
    assert rows_of(oracle.read(str(path))) == expected
    assert rows_of(session.sql("SELECT id, note, at FROM times.theirs").arrow()) == expected
    session.sql("UPDATE times.theirs SET note = 'u', seq = 2 WHERE id = 2")
    session.sql(f"INSERT INTO times.theirs VALUES (3, 'c', 1, TIMESTAMP'{FIRST}')")
    expected = [(1, "a", FIRST), (2, "u", FIRST), (3, "c", FIRST)]
    assert rows_of(oracle.read(str(path))) == expected
    assert directories(path) == before
    # The entry keeps the type that Hudi gave it, and its sync passes.
    oracle.sql("UPDATE times.theirs SET note = 'again', seq = 3 WHERE id = 3")
    assert rows_of(session.sql("SELECT id, note, at FROM times.theirs").arrow())[2] == (3, "again", FIRST)


def test_what_hudi_would_read_otherwise_is_refused(
    session: Any, oracle_015: HudiOracle, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    session.sql(
        f"CREATE TABLE times.refused USING hudi PARTITIONED BY (at) LOCATION '{path}' TBLPROPERTIES "
        f"(primaryKey = 'id', preCombineField = 'seq') AS SELECT 1 AS id, 'a' AS note, 1 AS seq, "
        f"TIMESTAMP'{FIRST}' AS at"
    )
    with pytest.raises(HudisqlError, match=r"at = '2024-01-02 03:04:05\.678901' cannot be a partition"):
        session.sql(f"INSERT INTO times.refused VALUES (2, 'b', 1, TIMESTAMP'{FIRST}.678901')")
    assert session.sql("SELECT count(*) FROM times.refused").rows[0][0] == 1
    rows = session.sql("SELECT id, 'theirs' AS note, 9 AS seq, at FROM times.refused").arrow()
    oracle_015.upsert(
        rows,
        str(path),
        {
            "hoodie.table.name": "refused",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "seq",
            "hoodie.datasource.write.partitionpath.field": "at",
        },
    )
    assert "at=1704164645000000" in directories(path)
    found = oracle_015.read(str(path))
    assert [row[2] for row in rows_of(found) if row[1] == "theirs"] == [None]
    with pytest.raises(HudisqlError, match="names the timestamp at as Hudi's DataFrame writer does"):
        session.sql("UPDATE times.refused SET note = 'u', seq = 10 WHERE id = 1")
