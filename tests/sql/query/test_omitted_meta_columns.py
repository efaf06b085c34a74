"""Tables whose entries omit Hudi's meta columns: `*` leaves them out, a query may still name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import HudisqlError, SyncFailedError, UnsupportedStatementError
from hudisql.format.schema.meta_columns import META_COLUMNS

pytestmark = [pytest.mark.spark, pytest.mark.hms, pytest.mark.usefixtures("omitted")]
OMIT = "'hoodie.datasource.hive_sync.omit_metadata_fields' = 'true'"
COLUMNS = ["id", "note", "ts", "day"]


@pytest.fixture(scope="module")
def omitted(session: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Partitioned tables of two rows: `omit.t` without meta columns in its entry, `omit.shown` with."""
    session.sql("CREATE DATABASE IF NOT EXISTS omit")
    for name, property_ in (("t", f", {OMIT}"), ("shown", "")):
        place = tmp_path_factory.mktemp("omit") / name
        session.sql(
            f"CREATE TABLE omit.{name} (id INT, note STRING, ts BIGINT, day STRING) USING hudi "
            f"PARTITIONED BY (day) LOCATION '{place}' "
            f"TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts'{property_})"
        )
        session.sql(f"INSERT INTO omit.{name} VALUES (1, 'a', 10, 'x'), (2, 'b', 20, 'y')")


def _columns(session: Any, query: str) -> list[str]:
    return list(session.sql(query).names)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM omit.t",
        "TABLE omit.t",
        "SELECT t.* FROM omit.t",
        "SELECT omit.t.* FROM omit.t",
        "SELECT u.* FROM omit.t AS u",
        "SELECT * FROM (SELECT * FROM omit.t)",
        "WITH c AS (SELECT * FROM omit.t) SELECT * FROM c",
        "SELECT * FROM omit.t WHERE _hoodie_record_key = '1'",
        "SELECT u.* FROM omit.t u WHERE u._hoodie_record_key = '1'",
        "SELECT omit.t.* FROM omit.t WHERE omit.t._hoodie_record_key = '1'",
        "SELECT * FROM omit.t TIMESTAMP AS OF '2999-01-01' WHERE _hoodie_commit_time > '2'",
        "SELECT u.* FROM omit.t u JOIN omit.shown s ON u._hoodie_record_key = s._hoodie_record_key",
        "SELECT * FROM omit.t u LEFT SEMI JOIN omit.shown s ON u._hoodie_record_key = s.id",
        "SELECT DISTINCT * FROM omit.t ORDER BY id",
    ],
)
def test_a_star_gives_the_tables_own_columns(session: Any, query: str) -> None:
    assert _columns(session, query) == COLUMNS


def test_meta_columns_can_be_named_beside_a_star(session: Any) -> None:
    assert _columns(session, "SELECT *, _hoodie_record_key AS k FROM omit.t") == [*COLUMNS, "k"]
    query = "SELECT count(*) AS n, max(_hoodie_record_key) AS k FROM omit.t"
    assert [tuple(row) for row in session.sql(query).rows] == [(2, "2")]
    query = "SELECT count(DISTINCT *) AS n, max(_hoodie_record_key) AS k FROM omit.t"
    assert [tuple(row) for row in session.sql(query).rows] == [(2, "2")]
    query = "SELECT struct(*) AS s FROM omit.t WHERE _hoodie_record_key = '1'"
    assert list(session.sql(query).rows[0][0].asDict()) == COLUMNS
    assert [
        tuple(row) for row in session.sql("SELECT _hoodie_record_key, id FROM omit.t ORDER BY id").rows
    ] == [
        ("1", 1),
        ("2", 2),
    ]


def test_a_star_over_a_join_leaves_out_those_of_the_omitting_table_alone(session: Any) -> None:
    query = "SELECT * FROM omit.t u JOIN (SELECT id AS other FROM omit.shown) s ON {} = s.other"
    assert _columns(session, query.format("u.id")) == [*COLUMNS, "other"]
    assert _columns(session, query.format("u._hoodie_record_key")) == [*COLUMNS, "other"]
    query = "SELECT * FROM omit.t JOIN omit.shown USING (id)"
    assert _columns(session, query) == ["id", "note", "ts", "day", *META_COLUMNS, "note", "ts", "day"]


def test_a_star_over_merged_columns_is_refused_in_a_query_that_names_a_meta_column(session: Any) -> None:
    with pytest.raises(UnsupportedStatementError, match="meta columns of t here") as refused:
        session.sql("SELECT *, t._hoodie_record_key FROM omit.t JOIN omit.shown USING (id)")
    assert "subquery" in str(refused.value.hint)
    inner = "(SELECT * FROM omit.t JOIN omit.shown s USING (id))"
    assert "_hoodie_record_key" in _columns(session, f"SELECT *, _hoodie_record_key AS k FROM {inner}")


def test_describe_show_columns_and_views_have_the_tables_own_columns(session: Any) -> None:
    assert [row[0] for row in session.sql("SHOW COLUMNS IN omit.t").rows] == COLUMNS
    assert [row[0] for row in session.sql("DESCRIBE omit.t").rows][: len(COLUMNS)] == COLUMNS
    assert META_COLUMNS[0] in [row[0] for row in session.sql("SHOW COLUMNS IN omit.shown").rows]
    session.sql("CREATE OR REPLACE TEMPORARY VIEW omitting AS SELECT * FROM omit.t")
    assert _columns(session, "SELECT * FROM omitting") == COLUMNS
    (text,) = session.sql("SHOW CREATE TABLE omit.t").rows[0]
    assert "omit_metadata_fields' = 'true'" in text


def test_changes_of_a_table_keep_their_columns(session: Any) -> None:
    for kind in ("latest_state", "cdc"):
        found = _columns(session, f"SELECT * FROM hudi_table_changes('omit.t', '{kind}', 'earliest')")
        assert found == _columns(
            session, f"SELECT * FROM hudi_table_changes('omit.shown', '{kind}', 'earliest')"
        )


@pytest.mark.soak
def test_statements_change_the_table_and_its_entry_stays(session: Any, tmp_path: Path) -> None:
    def rows() -> list[tuple[Any, ...]]:
        return [tuple(row) for row in session.sql("SELECT * FROM omit.w ORDER BY id").rows]

    def entry_columns() -> list[str]:
        entry = session.context.metastore.get_table("omit", "w")
        return [column.name for column in (*entry.columns, *entry.partition_columns)]

    session.sql(
        "CREATE TABLE omit.w (id INT, note STRING, ts BIGINT, day STRING) USING hudi PARTITIONED BY (day) "
        f"LOCATION '{tmp_path / 'w'}' TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', {OMIT})"
    )
    session.sql("INSERT INTO omit.w SELECT * FROM omit.t")
    session.sql("INSERT INTO omit.w SELECT id + 2, note, ts, day FROM omit.t")
    session.sql("UPDATE omit.w SET note = 'u' WHERE id = 1")
    session.sql("DELETE FROM omit.w WHERE id = 2")
    merge = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    session.sql(f"MERGE INTO omit.w w USING (SELECT * FROM omit.t WHERE id = 2) s ON w.id = s.id {merge}")
    session.sql(
        "MERGE INTO omit.w w USING (SELECT 3 AS id, 'm' AS note, 99L AS ts, 'x' AS day) s ON w.id = s.id "
        f"AND w.day = s.day {merge}"
    )
    assert rows() == [(1, "u", 10, "x"), (2, "b", 20, "y"), (3, "m", 99, "x"), (4, "b", 20, "y")]
    assert entry_columns() == COLUMNS
    session.sql("ALTER TABLE omit.w ADD COLUMNS (extra STRING)")
    assert entry_columns() == ["id", "note", "ts", "extra", "day"]
    assert _columns(session, "SELECT * FROM omit.w") == ["id", "note", "ts", "extra", "day"]
    session.sql("CALL hive_sync(table => 'omit.w', sync_incremental => 'false')")
    assert entry_columns() == ["id", "note", "ts", "extra", "day"]


def test_the_value_of_the_property_is_true_or_false(session: Any, tmp_path: Path) -> None:
    with pytest.raises(HudisqlError, match="omit_metadata_fields is neither true nor false: 'maybe'"):
        session.sql(
            f"CREATE TABLE omit.bad (id INT) USING hudi LOCATION '{tmp_path}/bad' "
            f"TBLPROPERTIES (primaryKey = 'id', {OMIT.replace('true', 'maybe')})"
        )
    assert session.context.metastore.get_table("omit", "bad") is None


def test_an_existing_table_is_altered_by_hive_sync_alone(session: Any) -> None:
    with pytest.raises(HudisqlError, match="cannot be changed by ALTER TABLE") as refused:
        session.sql(f"ALTER TABLE omit.shown SET TBLPROPERTIES ({OMIT})")
    assert "CALL hive_sync" in str(refused.value.hint)


def test_merge_on_read_tables_keep_their_meta_columns(session: Any, tmp_path: Path) -> None:
    with pytest.raises(HudisqlError, match="is for copy-on-write tables"):
        session.sql(
            f"CREATE TABLE omit.mor (id INT) USING hudi LOCATION '{tmp_path}/mor' "
            f"TBLPROPERTIES (primaryKey = 'id', type = 'mor', {OMIT})"
        )
    assert not (tmp_path / "mor").exists()
    session.sql(
        f"CREATE TABLE omit.mor (id INT) USING hudi LOCATION '{tmp_path}/mor' "
        "TBLPROPERTIES (primaryKey = 'id', type = 'mor')"
    )
    with pytest.raises(HudisqlError, match="is for copy-on-write tables"):
        session.sql(f"CALL hive_sync(table => 'omit.mor', options => map({OMIT.replace(' =', ',')}))")
    assert META_COLUMNS[0] in [row[0] for row in session.sql("SHOW COLUMNS IN omit.mor").rows]


def test_hive_sync_puts_the_meta_columns_back_and_takes_them_away(session: Any, tmp_path: Path) -> None:
    def sync(value: str, name: str = "omit.back") -> list[str]:
        option = OMIT.replace(" =", ",").replace("'true'", f"'{value}'")
        session.sql(f"CALL hive_sync(table => '{name}', options => map({option}))")
        entry = session.context.metastore.get_table(*name.split("."))
        return [column.name for column in entry.columns]

    session.sql(
        f"CREATE TABLE omit.back (id INT, note STRING) USING hudi LOCATION '{tmp_path}/back' "
        f"TBLPROPERTIES (primaryKey = 'id', {OMIT})"
    )
    session.sql("INSERT INTO omit.back VALUES (1, 'a')")
    assert sync("false") == ["id", "note", *META_COLUMNS]
    assert _columns(session, "SELECT * FROM omit.back") == [*META_COLUMNS, "id", "note"]
    assert sync("true") == ["id", "note"]
    assert _columns(session, "SELECT * FROM omit.back") == ["id", "note"]
    with pytest.raises(SyncFailedError, match="incompatible") as refused:
        sync("true", "omit.shown")
    assert "DROP TABLE omit.shown" in str(refused.value.hint)
