"""ALTER TABLE, TRUNCATE TABLE and COMMENT ON: what changes, where it is stored, what is refused."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hudisql.catalog.added_partitions import is_added
from hudisql.errors import (
    HudisqlError,
    InvalidArgumentError,
    TableExistsError,
    UnsupportedStatementError,
    UnsupportedTableError,
)
from hudisql.format.table_properties import parse_properties
from hudisql.format.timeline.commit_metadata import read_commit_metadata
from hudisql.session import Session
from hudisql.storage import Storage
from tests.opened import open_at
from tests.rows import rows
from tests.spark_versions import needs_spark
from tests.sql.changed_tables import ChangedTable, database_fixture

pytestmark = pytest.mark.spark


database = database_fixture("altered", autouse=True)


@pytest.fixture
def made(session: Session, tmp_path: Path) -> Path:
    """The directory of `altered.t`: two rows in two partitions."""
    session.sql(
        "CREATE TABLE altered.t (id INT, n INT, f FLOAT, d DECIMAL(5, 2), dt STRING) USING hudi "
        f"PARTITIONED BY (dt) LOCATION '{tmp_path / 't'}' TBLPROPERTIES (primaryKey = 'id', team = 'x')"
    )
    session.sql("INSERT INTO altered.t VALUES (1, 10, 0.5, 1.25, 'a'), (2, 20, 1.5, 2.5, 'b')")
    return tmp_path / "t"


def properties_at(path: Path) -> dict[str, str]:
    return parse_properties((path / ".hoodie" / "hoodie.properties").read_bytes())


def entry_of(session: Session, name: str = "t") -> Any:
    entry = session.context.metastore.get_table("altered", name)
    assert entry is not None
    return entry


def commits_at(path: Path) -> list[tuple[str, str | None]]:
    table = open_at(path)
    return [
        (each.action, read_commit_metadata(Storage(), table.instant_path(each)).operation_type)
        for each in table.timeline.commits
    ]


def test_a_renamed_table_keeps_its_rows_and_directory(session: Session, made: Path) -> None:
    session.sql("ALTER TABLE altered.t RENAME TO altered.u")
    assert session.context.metastore.list_tables("altered") == ["u"]
    assert properties_at(made)["hoodie.table.name"] == "u"
    assert not (made / ".hoodie" / "hoodie.properties.backup").exists()
    assert rows(session, "SELECT id FROM altered.u WHERE dt = 'b'") == [(2,)]
    session.sql("DELETE FROM altered.u WHERE id = 1")
    assert rows(session, "SELECT id FROM altered.u") == [(2,)]


def test_all_names_of_a_merge_on_read_table_are_renamed(session: Session, tmp_path: Path) -> None:
    session.sql(
        f"CREATE TABLE altered.m (id INT) USING hudi LOCATION '{tmp_path / 'm'}' "
        "TBLPROPERTIES (primaryKey = 'id', type = 'mor')"
    )
    with pytest.raises(UnsupportedStatementError, match="one of the names of"):
        session.sql("ALTER TABLE altered.m_ro RENAME TO altered.k")
    session.sql("CREATE TABLE altered.k_rt (a INT) USING parquet")
    with pytest.raises(TableExistsError, match="k_rt exists already"):
        session.sql("ALTER TABLE altered.m RENAME TO altered.k")
    session.sql("ALTER TABLE altered.m RENAME TO n")
    assert session.context.metastore.list_tables("altered") == ["k_rt", "n", "n_ro", "n_rt"]


def test_properties_are_set_and_unset(session: Session, made: Path) -> None:
    session.sql(
        "ALTER TABLE altered.t SET TBLPROPERTIES ('team' = 'y', 'hoodie.parquet.max.file.size' = '1000', "
        "preCombineField = 'N', comment = 'said')"
    )
    parameters = entry_of(session).parameters
    assert parameters["team"] == "y"
    assert parameters["hoodie.parquet.max.file.size"] == "1000"
    assert parameters["comment"] == "said"
    assert properties_at(made)["hoodie.table.precombine.field"] == "n"
    session.sql("ALTER TABLE altered.t UNSET TBLPROPERTIES ('team', 'preCombineField', 'comment')")
    assert not {"team", "comment", "preCombineField"} & set(entry_of(session).parameters)
    assert "hoodie.table.precombine.field" not in properties_at(made)
    with pytest.raises(InvalidArgumentError, match="no property team"):
        session.sql("ALTER TABLE altered.t UNSET TBLPROPERTIES ('team')")
    session.sql("ALTER TABLE altered.t UNSET TBLPROPERTIES IF EXISTS ('team')")
    session.sql("ALTER TABLE altered.t SET TBLPROPERTIES (primaryKey = 'id', type = 'cow')")


@pytest.mark.parametrize(
    "setting",
    [
        "primaryKey = 'n'",
        "type = 'mor'",
        "'hoodie.table.name' = 'x'",
        "'hoodie.table.version' = '8'",
        "'hoodie.table.cdc.enabled' = 'true'",
        "'hoodie.datasource.write.hive_style_partitioning' = 'false'",
        "'spark.sql.sources.provider' = 'parquet'",
        "preCombineField = 'nope'",
        "payloadClass = 'com.example.Mine'",
    ],
)
def test_what_makes_a_table_what_it_is_stays(session: Session, made: Path, setting: str) -> None:
    before = properties_at(made), entry_of(session).parameters
    with pytest.raises(HudisqlError):
        session.sql(f"ALTER TABLE altered.t SET TBLPROPERTIES (team = 'z', {setting})")
    assert (properties_at(made), entry_of(session).parameters) == before


@pytest.mark.usefixtures("made")
def test_comments_of_table_and_columns(session: Session) -> None:
    session.sql("COMMENT ON TABLE altered.t IS 'about'")
    session.sql("ALTER TABLE altered.t ALTER COLUMN n COMMENT 'a number'")
    session.sql("ALTER TABLE altered.t ALTER COLUMN dt COMMENT 'a day'")
    assert entry_of(session).parameters["comment"] == "about"
    comments = {row[0]: row[2] for row in rows(session, "DESCRIBE altered.t")}
    assert (comments["n"], comments["dt"], comments["id"]) == ("a number", "a day", None)
    assert [column.comment for column in entry_of(session).columns][6] == "a number"
    session.sql("COMMENT ON TABLE altered.t IS NULL")
    assert "comment" not in entry_of(session).parameters


@needs_spark("4.1", "COMMENT ON COLUMN")
@pytest.mark.usefixtures("made")
def test_a_column_s_comment_by_comment_on(session: Session) -> None:
    session.sql("COMMENT ON COLUMN altered.t.n IS 'a number'")
    comments = {row[0]: row[2] for row in rows(session, "DESCRIBE altered.t")}
    assert (comments["n"], comments["dt"]) == ("a number", None)
    assert [column.comment for column in entry_of(session).columns][6] == "a number"


def test_added_columns_are_null_in_the_rows_that_are_there(session: Session, made: Path) -> None:
    session.sql("ALTER TABLE altered.t ADD COLUMNS (x STRING COMMENT 'new', s STRUCT<a: INT, b: DATE>)")
    assert commits_at(made) == [("commit", "INSERT"), ("commit", "ALTER_SCHEMA")]
    names = [row[0] for row in rows(session, "SHOW COLUMNS IN altered.t")][5:]
    assert names == ["id", "n", "f", "d", "x", "s", "dt"]
    assert rows(session, "SELECT id, x, s.a FROM altered.t ORDER BY id") == [(1, None, None), (2, None, None)]
    assert rows(session, "SELECT id FROM altered.t WHERE x IS NOT NULL") == []
    session.sql("INSERT INTO altered.t VALUES (3, 30, 2.5, 3, 'x3', named_struct('a', 3, 'b', NULL), 'a')")
    session.sql("UPDATE altered.t SET x = 'x1' WHERE id = 1")
    expected = [(1, "x1", None), (2, None, None), (3, "x3", 3)]
    assert rows(session, "SELECT id, x, s.a FROM altered.t ORDER BY id") == expected
    assert "x" in [column.name for column in entry_of(session).columns]
    with pytest.raises(InvalidArgumentError, match="has a column X already"):
        session.sql("ALTER TABLE altered.t ADD COLUMNS (X INT)")


@needs_spark("4.0", "scans of files from before a column was widened")
@pytest.mark.usefixtures("made")
def test_widened_types_hold_old_and_new_values(session: Session) -> None:
    session.sql("ALTER TABLE altered.t ALTER COLUMN n TYPE BIGINT")
    session.sql("ALTER TABLE altered.t CHANGE COLUMN f f DOUBLE COMMENT 'wide'")
    session.sql("ALTER TABLE altered.t ALTER COLUMN d TYPE DECIMAL(20, 2)")
    query = "SELECT n, f, d FROM altered.t ORDER BY id"
    assert rows(session, query) == [(10, 0.5, Decimal("1.25")), (20, 1.5, Decimal("2.50"))]
    assert rows(session, "SELECT id FROM altered.t WHERE n = 20 AND d > 2") == [(2,)]
    session.sql("INSERT INTO altered.t VALUES (3, 5000000000, 1e300, 123456789012345678.25, 'a')")
    session.sql("UPDATE altered.t SET n = n + 5000000000 WHERE id = 2")
    assert rows(session, query) == [
        (10, 0.5, Decimal("1.25")),
        (5000000020, 1.5, Decimal("2.50")),
        (5000000000, 1e300, Decimal("123456789012345678.25")),
    ]
    types = {column.name: column.type for column in entry_of(session).columns}
    assert (types["n"], types["f"], types["d"]) == ("bigint", "double", "decimal(20,2)")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ("ALTER COLUMN n TYPE STRING", UnsupportedStatementError, "column n .* is int, not string"),
        ("ALTER COLUMN d TYPE DECIMAL(20, 4)", UnsupportedStatementError, "column d"),
        ("ALTER COLUMN id TYPE BIGINT", UnsupportedStatementError, "record keys"),
        ("ALTER COLUMN nope TYPE BIGINT", InvalidArgumentError, "no column 'nope'"),
        ("ALTER COLUMN n SET NOT NULL", UnsupportedStatementError, "SET NOT NULL"),
        ("ALTER COLUMN n FIRST", UnsupportedStatementError, "FIRST"),
        ("ALTER COLUMN n AFTER f", UnsupportedStatementError, "AFTER f of .*schema.on.read.enable = true"),
        ("ADD COLUMNS (x INT NOT NULL)", UnsupportedStatementError, "NOT NULL"),
        ("ADD COLUMNS (x INT FIRST)", UnsupportedStatementError, "FIRST"),
        ("ADD COLUMNS (x INT AFTER n)", UnsupportedStatementError, "schema.on.read.enable = true"),
        ("DROP COLUMN s.a", UnsupportedStatementError, "DROP COLUMN s.a"),
        ("ADD COLUMNS (x INT DEFAULT 1)", UnsupportedStatementError, "DEFAULT"),
        pytest.param(
            "ADD COLUMNS (x VARIANT)",
            UnsupportedTableError,
            "column x",
            marks=needs_spark("4.0", "the type VARIANT"),
        ),
        ("DROP COLUMN n", UnsupportedStatementError, "DROP COLUMN"),
        ("RENAME COLUMN n TO m", UnsupportedStatementError, "RENAME COLUMN"),
        ("SET LOCATION '/tmp/elsewhere'", UnsupportedStatementError, "SET LOCATION"),
        ("ADD PARTITION (dt = 'z') LOCATION '/tmp/z'", UnsupportedStatementError, "LOCATION"),
        ("ADD PARTITION (dt = 'z') PARTITION (dt = 'a')", InvalidArgumentError, "has the partition dt=a"),
        ("ADD PARTITION (n = 1)", InvalidArgumentError, "n is not a partition column"),
        ("PARTITION (dt = 'a') RENAME TO PARTITION (dt = 'z')", UnsupportedStatementError, "RENAME TO PART"),
        ("DROP PARTITION (dt = 'z*')", InvalidArgumentError, r"no partition with dt = z\*"),
        ("DROP PARTITION (dt = 'z')", InvalidArgumentError, "no partition with dt = z"),
        ("DROP PARTITION (n = 1)", InvalidArgumentError, "n is not a partition column"),
        ("DROP PARTITION (dt = 'a') PURGE", UnsupportedStatementError, "PURGE"),
        ("RENAME TO default.other", UnsupportedStatementError, "another database"),
    ],
)
def test_what_a_hudi_table_cannot_do_is_refused_by_name(
    session: Session, made: Path, change: str, error: type[HudisqlError], words: str
) -> None:
    with pytest.raises(error, match=words):
        session.sql(f"ALTER TABLE altered.t {change}")
    assert commits_at(made) == [("commit", "INSERT")]


def test_dropped_partitions_are_gone_everywhere_and_can_come_back(session: Session, made: Path) -> None:
    before = sorted(path for path in made.rglob("*.parquet"))
    session.sql("ALTER TABLE altered.t DROP PARTITION (dt = 'a')")
    assert commits_at(made)[-1] == ("replacecommit", "DELETE_PARTITION")
    assert sorted(path for path in made.rglob("*.parquet")) == before
    assert rows(session, "SELECT id, dt FROM altered.t") == [(2, "b")]
    assert rows(session, "SHOW PARTITIONS altered.t") == [("dt=b",)]
    assert session.context.metastore.list_partition_names("altered", "t") == ["dt=b"]
    with pytest.raises(InvalidArgumentError, match="no partition"):
        session.sql("ALTER TABLE altered.t DROP PARTITION (dt = 'a')")
    session.sql("ALTER TABLE altered.t DROP IF EXISTS PARTITION (dt = 'a'), PARTITION (dt = 'z')")
    assert len(commits_at(made)) == 2
    session.sql("INSERT INTO altered.t VALUES (4, 1, 1, 1, 'a')")
    assert rows(session, "SHOW PARTITIONS altered.t") == [("dt=a",), ("dt=b",)]
    assert session.context.metastore.list_partition_names("altered", "t") == ["dt=a", "dt=b"]
    assert rows(session, "SELECT id, dt FROM altered.t ORDER BY id") == [(2, "b"), (4, "a")]


def test_added_partitions_stay_until_they_are_dropped(session: Session, made: Path) -> None:
    session.sql("ALTER TABLE altered.t ADD PARTITION (dt = 'c/d') PARTITION (dt = NULL)")
    session.sql("ALTER TABLE altered.t ADD IF NOT EXISTS PARTITION (dt = 'a') PARTITION (dt = 'c/d')")
    named = ["dt=__HIVE_DEFAULT_PARTITION__", "dt=a", "dt=b", "dt=c%2Fd"]
    shown = [(name,) for name in named]
    assert (made / "dt=c%2Fd" / ".hoodie_partition_metadata").exists()
    assert len(commits_at(made)) == 1
    assert rows(session, "SHOW PARTITIONS altered.t") == shown
    for sync in ("MSCK REPAIR TABLE altered.t", "CALL hive_sync(table => 'altered.t')"):
        session.sql(sync)
        assert sorted(session.context.metastore.list_partition_names("altered", "t")) == named
    session.sql("INSERT INTO altered.t VALUES (3, 1, 1, 1, 'c/d')")
    [filled] = session.context.metastore.find_partitions(entry_of(session), [["c/d"]])
    assert not is_added(filled)
    session.sql("ALTER TABLE altered.t DROP PARTITION (dt = NULL), PARTITION (dt = 'c/d')")
    assert rows(session, "SHOW PARTITIONS altered.t") == [("dt=a",), ("dt=b",)]
    session.sql("MSCK REPAIR TABLE altered.t")
    assert rows(session, "SHOW PARTITIONS altered.t") == [("dt=a",), ("dt=b",)]
    session.sql("ALTER TABLE altered.t ADD PARTITION (dt = 'c/d')")
    assert rows(session, "SHOW PARTITIONS altered.t") == [("dt=a",), ("dt=b",), ("dt=c%2Fd",)]
    assert rows(session, "SELECT id FROM altered.t ORDER BY id") == [(1,), (2,)]


def test_a_partition_is_added_to_each_name_of_a_table_without_commits(
    session: Session, tmp_path: Path
) -> None:
    session.sql(
        f"CREATE TABLE altered.m (id INT, n INT, dt DATE) USING hudi LOCATION '{tmp_path / 'm'}' "
        "PARTITIONED BY (n, dt) TBLPROPERTIES (primaryKey = 'id', type = 'mor')"
    )
    session.sql("ALTER TABLE altered.m ADD PARTITION (dt = '2024-01-02', n = '01')")
    for name in ("m", "m_ro", "m_rt"):
        assert session.context.metastore.list_partition_names("altered", name) == ["n=1/dt=2024-01-02"]
    assert rows(session, "SHOW PARTITIONS altered.m") == [("n=1/dt=2024-01-02",)]
    with pytest.raises(InvalidArgumentError, match="has the partition n=1/dt=2024-01-02"):
        session.sql("ALTER TABLE altered.m ADD PARTITION (n = 1, dt = '2024-01-02')")
    with pytest.raises(InvalidArgumentError, match="no value for dt"):
        session.sql("ALTER TABLE altered.m ADD PARTITION (n = 2)")
    with pytest.raises(InvalidArgumentError, match="'x' is not a value"):
        session.sql("ALTER TABLE altered.m ADD PARTITION (n = 'x', dt = '2024-01-02')")
    session.sql("CREATE TABLE altered.p (id INT) USING hudi")
    with pytest.raises(InvalidArgumentError, match="is not partitioned"):
        session.sql("ALTER TABLE altered.p ADD PARTITION (id = 1)")


def test_a_star_stands_for_any_characters_in_drop_partition(session: Session, tmp_path: Path) -> None:
    session.sql(
        f"CREATE TABLE altered.w (id INT, region STRING, dt DATE) USING hudi LOCATION '{tmp_path / 'w'}' "
        "PARTITIONED BY (region, dt) TBLPROPERTIES (primaryKey = 'id')"
    )
    session.sql(
        "INSERT INTO altered.w VALUES (1, 'eu', DATE'2023-08-01'), (2, 'eu', DATE'2023-08-31'), "
        "(3, 'eu', DATE'2023-09-01'), (4, 'us', DATE'2023-08-02'), (5, 'e.u', DATE'2023-08-02')"
    )
    session.sql("ALTER TABLE altered.w DROP PARTITION (dt = '2023-08-*', region = 'eu')")
    assert rows(session, "SELECT id FROM altered.w ORDER BY id") == [(3,), (4,), (5,)]
    session.sql("ALTER TABLE altered.w DROP PARTITION (region = 'e.*')")
    assert rows(session, "SELECT id FROM altered.w ORDER BY id") == [(3,), (4,)]
    with pytest.raises(InvalidArgumentError, match="is not a value"):
        session.sql("TRUNCATE TABLE altered.w PARTITION (dt = '2023-*')")
    session.sql("ALTER TABLE altered.w DROP PARTITION (dt = '*')")
    assert rows(session, "SHOW PARTITIONS altered.w") == []


def test_truncate_empties_a_table_or_a_partition(session: Session, made: Path) -> None:
    session.sql("TRUNCATE TABLE altered.t PARTITION (dt = 'b')")
    assert rows(session, "SELECT id FROM altered.t") == [(1,)]
    session.sql("TRUNCATE TABLE altered.t")
    assert rows(session, "SELECT id FROM altered.t") == []
    assert rows(session, "SHOW PARTITIONS altered.t") == []
    count = len(commits_at(made))
    session.sql("TRUNCATE TABLE altered.t")
    assert len(commits_at(made)) == count
    session.sql("INSERT INTO altered.t VALUES (1, 1, 1, 1, 'a')")
    assert rows(session, "SELECT id, dt FROM altered.t") == [(1, "a")]


def test_a_table_without_partitions_is_truncated(session: Session, tmp_path: Path) -> None:
    session.sql(
        f"CREATE TABLE altered.p (id INT) USING hudi LOCATION '{tmp_path / 'p'}' "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    session.sql("INSERT INTO altered.p VALUES (1)")
    session.sql("TRUNCATE TABLE altered.p")
    assert rows(session, "SELECT * FROM altered.p") == []
    session.sql("INSERT INTO altered.p VALUES (2)")
    assert rows(session, "SELECT id FROM altered.p") == [(2,)]


def test_a_bootstrapped_table_is_altered_and_its_source_stays(table: ChangedTable) -> None:
    # The fixture compares the source's bytes at the end.
    table.session.sql(f"ALTER TABLE {table.name} ADD COLUMNS (extra INT)")
    table.session.sql(f"ALTER TABLE {table.name} ALTER COLUMN seq COMMENT 'in order'")
    assert table.rows("seq, extra", "seq < 2") == [(0, None), (1, None)]
    table.run("UPDATE {t} SET extra = 5 WHERE seq = 1")
    assert table.rows("seq, extra", "seq < 2") == [(0, None), (1, 5)]
    days = {row[0] for row in table.rows("dt")}
    table.session.sql(f"ALTER TABLE {table.name} DROP PARTITION (dt = '{min(map(str, days))}')")
    assert {row[0] for row in table.rows("dt")} == days - {min(days)}
    table.session.sql(f"TRUNCATE TABLE {table.name}")
    assert table.rows() == []
