"""CREATE, DROP and REFRESH INDEX, and the procedures behind them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudisql.errors import (
    InvalidArgumentError,
    SqlSyntaxError,
    UnsupportedStatementError,
    UnsupportedTableError,
)
from hudisql.session import Session
from hudisql.storage import Storage
from hudisql.table.hudi_table import open_table
from hudisql.table.metadata_table.index_definitions import read_index_definitions
from hudisql.table.metadata_table.kept_metadata_table import find_kept, has_partitioned_records
from hudisql.table.properties.table_configuration import COLUMN_STATS_ENABLE

pytestmark = [pytest.mark.spark, pytest.mark.hms]


@pytest.fixture(scope="module")
def path(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The path of `indexed.t`, of version 9 with two key columns; at first it has no metadata table."""
    path = str(tmp_path_factory.mktemp("indexed") / "t")
    session.sql("CREATE DATABASE indexed")
    session.sql(
        "CREATE TABLE indexed.t (a INT, b STRING, c DOUBLE, d STRING, yes BOOLEAN) USING hudi "
        f"LOCATION '{path}' TBLPROPERTIES (primaryKey = 'a,b', 'hoodie.write.table.version' = '9')"
    )
    session.sql("INSERT INTO indexed.t VALUES (1, 'x', 1, 'one', true), (2, 'y', 2, null, true)")
    yield path
    session.sql("DROP TABLE IF EXISTS indexed.t")
    session.sql("DROP DATABASE indexed")


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("CREATE INDEX i ON indexed.t (a, b)", "is called record_index, not i"),
        ("CREATE INDEX record_index ON indexed.t (a)", r"of all its record key columns \(a, b\)"),
        ("CREATE INDEX record_index ON indexed.t (a, b, c)", r"or of none, not of \(a, b, c\)"),
        ("CREATE INDEX i ON indexed.t (c, d)", r"a secondary index of indexed\.t is of one column"),
        ("CREATE INDEX i ON indexed.t (yes)", "no secondary index of the column yes"),
        ("CREATE INDEX record_index ON indexed.t (c)", "record_index of indexed.t is one of its record key"),
        ("CREATE INDEX i ON indexed.t (e)", "has no column e"),
        ("CREATE INDEX i ON indexed.t USING column_stats (c) OPTIONS (expr = 'x')", "options .expr='x'."),
        ("CREATE INDEX i ON indexed.t USING column_stats (c, d) OPTIONS (expr = 'x')", "is of one column"),
        ("CREATE INDEX i ON indexed.t USING column_stats (c)", "needs OPTIONS .expr"),
        ("CREATE INDEX i ON indexed.t USING bloom_filters (d) OPTIONS (expr='upper')", "kind bloom_filters"),
        ("CREATE INDEX record_index ON indexed.t (a, b) OPTIONS (x = 'y')", "does not take the option x"),
        ("CREATE INDEX i ON indexed.t (d) OPTIONS (block_size = 1024)", "not take the option block_size"),
        (
            "CREATE INDEX i ON indexed.t (d) OPTIONS (isPartitioned = true)",
            "the option ispartitioned",
        ),
        ("CREATE INDEX i ON indexed.t USING record_index(a, b)", "is called record_index, as in Hudi, not i"),
        ("CREATE INDEX record_index ON indexed.t USING record_index(d)", "is one of its record key"),
        ("CREATE INDEX i ON indexed.t USING lucene (d OPTIONS (order = 'desc'))", "kind lucene"),
        (
            "CREATE INDEX i ON indexed.t (d OPTIONS (order = 'desc'))",
            "the column d has OPTIONS",
        ),
        ("CREATE INDEX i ON indexed.t (d.e)", "has no column d.e"),
        (
            "CREATE INDEX i ON indexed.t USING column_stats (d) OPTIONS (expr = upper)",
            "a text, a number, TRUE",
        ),
        (
            "CREATE INDEX i ON indexed.t USING column_stats (d) OPTIONS (expr 'upper', a.b = 1.5, c = true)",
            r"a\.b='1\.5', c='true'",
        ),
        ("CREATE INDEX files ON indexed.t (d)", "the name files is that of one of the metadata table's own"),
        ("CREATE INDEX Column_Stats ON indexed.t USING secondary_index (d)", "the name Column_Stats is that"),
        ("CREATE INDEX IF NOT EXISTS bloom_filters ON indexed.t (d)", "the name bloom_filters is that"),
        (
            "CREATE INDEX partition_stats ON indexed.t USING column_stats (d) OPTIONS (expr = 'upper')",
            "the name partition_stats is that",
        ),
        (
            "CREATE INDEX record_index ON indexed.t USING column_stats (d) OPTIONS (expr = 'upper')",
            "the name record_index is that of the index of the record key",
        ),
        ("DROP INDEX i ON indexed.t", "indexed.t has no index i"),
        ("REFRESH INDEX i ON indexed.t", "indexed.t has no index i"),
    ],
)
def test_what_is_not_served_is_refused(session: Session, path: str, statement: str, problem: str) -> None:
    refusals = (InvalidArgumentError, UnsupportedStatementError, SqlSyntaxError)
    with pytest.raises(refusals, match=problem):
        session.sql(statement)
    assert not Path(path, ".hoodie/metadata").exists()


def test_no_expression_index_of_a_partition_column_is_made(session: Session, tmp_path: Path) -> None:
    session.sql(
        f"CREATE TABLE parted_index (id INT, ts BIGINT) USING hudi PARTITIONED BY (ts) LOCATION '{tmp_path}' "
        "TBLPROPERTIES (primaryKey = 'id', 'hoodie.write.table.version' = '9')"
    )
    create = "CREATE INDEX i ON parted_index USING column_stats(TS) OPTIONS (expr = 'from_unixtime')"
    with pytest.raises(InvalidArgumentError, match=r"ts is a partition column of default\.parted_index"):
        session.sql(create)
    with pytest.raises(InvalidArgumentError, match="is_partitioned is for the index record_index, not i"):
        session.sql(
            "CALL create_index(table => 'parted_index', index => 'i', indexed_columns => array('id'), "
            "is_partitioned => true)"
        )
    session.sql("DROP TABLE parted_index")


def test_the_list_of_files_is_not_dropped_alone(session: Session, path: str) -> None:
    session.sql("CALL create_metadata_table(table => 'indexed.t')")
    (exists,) = session.sql("CREATE INDEX IF NOT EXISTS files ON indexed.t (d)").rows
    assert exists[0] == "Index files of indexed.t exists"
    with pytest.raises(UnsupportedStatementError, match=r"index files of indexed\.t cannot be dropped alone"):
        session.sql("DROP INDEX files ON indexed.t")
    assert find_kept(open_table(Storage(), path)) is not None


def test_a_record_index_is_created_kept_and_dropped(session: Session, path: str) -> None:
    session.sql("CALL delete_metadata_table(table => 'indexed.t')")
    create = "CREATE INDEX record_index ON indexed.t USING record_index(B, a)"
    session.sql(create)
    assert _shown(session) == ["column_stats", "record_index"]
    with pytest.raises(InvalidArgumentError, match=r"indexed\.t has an index record_index"):
        session.sql(create)
    session.sql(create.replace("INDEX", "INDEX IF NOT EXISTS"))
    session.sql("INSERT INTO indexed.t VALUES (3, 'z', 3, 'three', true)")
    session.sql("REFRESH INDEX record_index ON indexed.t")
    session.sql("CALL create_metadata_table(table => 'indexed.t')")
    assert find_kept(open_table(Storage(), path)) is not None
    assert _shown(session) == ["column_stats", "record_index"]
    session.sql("DROP INDEX record_index ON indexed.t")
    assert _shown(session) == ["column_stats"]
    table = open_table(Storage(), path)
    assert list(read_index_definitions(table)) == ["column_stats"]
    assert find_kept(table) is not None
    assert not Path(path, ".hoodie/metadata/record_index").exists()
    session.sql("DROP INDEX IF EXISTS record_index ON indexed.t")
    session.sql("DROP INDEX column_stats ON indexed.t")
    session.sql("UPDATE indexed.t SET c = 5 WHERE a = 1")
    assert find_kept(open_table(Storage(), path)) is not None
    assert session.sql("SELECT sum(c) FROM indexed.t").rows[0][0] == 10


def test_a_bootstrapped_table_has_both_statistics_or_none(session: Session, tmp_path: Path) -> None:
    (source := tmp_path / "source" / "dt=a").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), source / "0.parquet")
    session.sql(
        f"CALL bootstrap_table(table => 'statistics_of_sources', source => '{source.parent}', "
        f"target_path => '{tmp_path / 't'}', record_key => 'id', table_version => 9)"
    )
    (dropped,) = session.sql("DROP INDEX partition_stats ON statistics_of_sources").rows
    assert dropped[0].endswith(", and with it column_stats")
    properties = open_table(Storage(), str(tmp_path / "t")).properties
    assert properties.metadata_partitions == ("files",)
    assert properties.get(COLUMN_STATS_ENABLE) == "false"
    session.sql("DROP TABLE statistics_of_sources")


@pytest.mark.parametrize(("option", "is_partitioned"), [("'TRUE'", True), ("false", False)])
def test_a_record_index_of_each_partition_is_created_by_hudis_option(
    session: Session, tmp_path: Path, option: str, is_partitioned: bool
) -> None:
    session.sql(
        "CREATE TABLE index_of_each (id INT, v INT, dt STRING) USING hudi PARTITIONED BY (dt) "
        f"LOCATION '{tmp_path}' TBLPROPERTIES (primaryKey = 'id', 'hoodie.write.table.version' = '9')"
    )
    session.sql("INSERT INTO index_of_each VALUES (1, 1, 'a'), (2, 2, 'b')")
    session.sql(f"CREATE INDEX record_index ON index_of_each (id) OPTIONS (isPartitioned = {option})")
    session.sql("UPDATE index_of_each SET v = 3 WHERE id = 1")
    assert session.sql("SELECT v FROM index_of_each WHERE id = 1").rows[0][0] == 3
    table = open_table(Storage(), str(tmp_path))
    assert has_partitioned_records(table) == is_partitioned
    assert find_kept(table) is not None
    session.sql("DROP TABLE index_of_each")


def test_a_partitioned_record_index_of_version_6_is_refused(session: Session, tmp_path: Path) -> None:
    session.sql(
        f"CREATE TABLE old_index (id INT, dt STRING) USING hudi PARTITIONED BY (dt) LOCATION '{tmp_path}' "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    create = "CREATE INDEX record_index ON old_index (id)"
    with pytest.raises(UnsupportedTableError, match="it has table version 6") as refused:
        session.sql(f"{create} OPTIONS (isPartitioned = 'true')")
    assert "CREATE INDEX record_index without the option isPartitioned" in str(refused.value.hint)
    with pytest.raises(InvalidArgumentError, match="has no metadata table") as missing:
        session.sql("CALL show_metadata_table_partitions(table => 'old_index')")
    assert "create_metadata_table(table => 'default.old_index')" in str(missing.value.hint)
    session.sql(create)
    session.sql("CALL create_metadata_table(table => 'old_index')")
    assert "record_index" in open_table(Storage(), str(tmp_path)).properties.metadata_partitions
    session.sql("DROP TABLE old_index")


def test_a_secondary_index_is_created_kept_and_dropped(session: Session, path: str) -> None:
    session.sql("CREATE INDEX by_d ON indexed.t USING secondary_index (D)")
    session.sql("CREATE INDEX by_c ON indexed.t (c)")
    rows = session.sql("SHOW INDEXES FROM indexed.t").rows
    assert [tuple(row) for row in rows][-2:] == [
        ("secondary_index_by_c", "secondary_index", "c"),
        ("secondary_index_by_d", "secondary_index", "d"),
    ]
    session.sql("UPDATE indexed.t SET d = 'a$\\\\b' WHERE a = 1")
    session.sql("DELETE FROM indexed.t WHERE a = 3")
    query = f"SELECT key FROM hudi_metadata('{path}') WHERE SecondaryIndexMetadata IS NOT NULL AND type = 7"
    by_d = ["a\\$\\\\b$a:1,b:x", "\0$a:2,b:y"]
    by_c = ["5.0$a:1,b:x", "2.0$a:2,b:y"]
    assert sorted(row[0] for row in session.sql(query).rows) == sorted([*by_c, *by_d])
    session.sql("CALL create_metadata_table(table => 'indexed.t')")
    assert sorted(row[0] for row in session.sql(query).rows) == sorted([*by_c, *by_d])
    session.sql("DROP INDEX by_c ON indexed.t")
    assert sorted(row[0] for row in session.sql(query).rows) == sorted(by_d)
    (dropped,) = session.sql("DROP INDEX record_index ON indexed.t").rows
    assert dropped[0] == "Dropped index record_index of indexed.t, and with it secondary_index_by_d"
    assert _shown(session) == ["column_stats"]
    assert list(read_index_definitions(open_table(Storage(), path))) == ["column_stats"]


def test_an_expression_index_is_created_kept_and_dropped(
    session: Session, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(session.context.console, "warning", warnings.append, raising=False)
    options = "OPTIONS (expr='substring', 'pos'=1, len 2)"
    session.sql(f"CREATE INDEX by_d ON indexed.t USING column_stats (D) {options}")
    assert "expr_index_by_d" in _shown(session)
    assert "every filter by = or IN on the column d, also for those without substring" in warnings[0]
    session.sql("INSERT INTO indexed.t VALUES (4, 'z', 3, 'fourth', true), (5, 'z', 3, null, true)")
    ranges = _ranges(session, path)
    assert any((greatest, nulls) == ("fo", 2) for _, greatest, _, nulls in ranges)
    session.sql("CREATE INDEX by_c ON indexed.t (c)")
    assert {*_shown(session)} == {
        *("column_stats", "record_index", "expr_index_by_d", "secondary_index_by_c"),
    }
    session.sql("CALL create_metadata_table(table => 'indexed.t')")
    assert {*_ranges(session, path)} <= {*ranges}
    definition = read_index_definitions(open_table(Storage(), path))["expr_index_by_d"]
    assert (definition.columns, definition.function) == (("d",), "substring")
    assert definition.options == {"expr": "substring", "pos": "1", "len": "2"}
    session.sql("DROP INDEX by_d ON indexed.t")
    assert _ranges(session, path) == []


def _ranges(session: Session, path: str) -> list[tuple[Any, ...]]:
    """The bounds and counts of files in the expression index."""
    statistics = "ColumnStatsMetadata"
    bounds = ", ".join(f"{statistics}.{name}.member6.value" for name in ("minValue", "maxValue"))
    text = (
        f"SELECT {bounds}, {statistics}.valueCount, {statistics}.nullCount FROM hudi_metadata('{path}') "
        f"WHERE type = 3 AND {statistics}.columnName = 'd' AND {statistics}.totalUncompressedSize = "
        f"2 * {statistics}.totalSize AND {statistics}.totalSize > 0"
    )
    return [tuple(row) for row in session.sql(text).rows]


def _shown(session: Session) -> list[Any]:
    return [row[0] for row in session.sql("SHOW INDEXES FROM indexed.t").rows]
