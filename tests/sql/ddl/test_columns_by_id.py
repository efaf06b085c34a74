"""What was planned or seen before columns got other names by schema-on-read, and what a rollback leaves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from hudisql.errors import UnsupportedStatementError, UnsupportedTableError
from tests.soak import parameters

pytestmark = [pytest.mark.spark, pytest.mark.hms]

ENABLE = "hoodie.schema.on.read.enable"
_NUMBERS = count()


@pytest.fixture
def by_ids(session: Any) -> Iterator[Any]:
    """The session, in which columns are changed by ids."""
    session.sql("CREATE DATABASE IF NOT EXISTS ids")
    session.sql(f"SET {ENABLE} = true")
    yield session
    session.sql(f"RESET {ENABLE}")


def _table(session: Any, kind: str = "cow") -> str:
    name = f"ids.t{next(_NUMBERS)}"
    session.sql(
        f"CREATE TABLE {name} (id INT, a STRING, b STRING, ts BIGINT) USING hudi "
        f"TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', type = '{kind}')"
    )
    session.sql(f"INSERT INTO {name} VALUES (1, 'a1', 'b1', 1), (2, 'a2', 'b2', 1), (3, 'a3', 'b3', 1)")
    return name


def _rows(session: Any, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in session.sql(text).rows]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_clustering_that_was_planned_before_keeps_the_values(by_ids: Any, kind: str) -> None:
    name = _table(by_ids, kind)
    assert by_ids.sql(f"CALL run_clustering(table => '{name}', op => 'schedule')").rows
    by_ids.sql(f"ALTER TABLE {name} RENAME COLUMN a TO c")
    by_ids.sql(f"ALTER TABLE {name} RENAME COLUMN b TO a")
    assert by_ids.sql(f"CALL run_clustering(table => '{name}', op => 'execute')").rows
    assert _rows(by_ids, f"SELECT id, c, a FROM {name} ORDER BY id") == [
        (1, "a1", "b1"),
        (2, "a2", "b2"),
        (3, "a3", "b3"),
    ]


def test_after_a_rollback_of_the_first_change_the_table_is_as_before(by_ids: Any) -> None:
    name = _table(by_ids)
    by_ids.sql(f"ALTER TABLE {name} RENAME COLUMN a TO c")
    (commit, *_) = by_ids.sql(f"CALL show_commits(table => '{name}')").rows
    by_ids.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{commit[0]}')")
    assert "a" in [row[0] for row in by_ids.sql(f"DESCRIBE {name}").rows]
    for number in range(5):
        by_ids.sql(f"UPDATE {name} SET a = 'x{number}' WHERE id = 1")
    by_ids.sql(f"CALL run_clean(table => '{name}', retain_commits => 1)")
    by_ids.sql(f"CALL archive_commits(table => '{name}', min_commits => 2, max_commits => 3)")
    by_ids.sql(f"UPDATE {name} SET a = 'last' WHERE id = 1")
    by_ids.sql(f"ALTER TABLE {name} RENAME COLUMN a TO d")
    assert _rows(by_ids, f"SELECT id, d, b FROM {name} ORDER BY id") == [
        (1, "last", "b1"),
        (2, "a2", "b2"),
        (3, "a3", "b3"),
    ]


def test_an_incremental_table_over_changed_names_is_computed_anew(by_ids: Any) -> None:
    name = _table(by_ids)
    by_ids.sql(f"CREATE INCREMENTAL TABLE {name}_counts AS SELECT a, count(*) AS c FROM {name} GROUP BY a")
    for before, after in (("a", "x"), ("b", "a"), ("x", "b")):
        by_ids.sql(f"ALTER TABLE {name} RENAME COLUMN {before} TO {after}")
    by_ids.sql(f"DELETE FROM {name} WHERE id = 2")
    by_ids.sql(f"REFRESH INCREMENTAL TABLE {name}_counts")
    assert _rows(by_ids, f"SELECT a, c FROM {name}_counts ORDER BY a") == [("b1", 1), ("b3", 1)]


def test_a_type_has_to_hold_the_values_of_all_types_that_the_column_has_had(by_ids: Any) -> None:
    name = _table(by_ids)
    by_ids.sql(f"ALTER TABLE {name} ADD COLUMNS (n INT)")
    by_ids.sql(f"UPDATE {name} SET n = 12345 WHERE id = 1")
    by_ids.sql(f"ALTER TABLE {name} ALTER COLUMN n TYPE STRING")
    for kind in ("DATE", "DECIMAL(5, 2)"):
        with pytest.raises(UnsupportedStatementError, match="is or was int, not"):
            by_ids.sql(f"ALTER TABLE {name} ALTER COLUMN n TYPE {kind}")
    by_ids.sql(f"ALTER TABLE {name} ALTER COLUMN n TYPE DECIMAL(12, 2)")
    assert _rows(by_ids, f"SELECT CAST(n AS STRING) FROM {name} WHERE n > 12344") == [("12345.00",)]
    with pytest.raises(UnsupportedStatementError, match="not supported"):
        by_ids.sql(f"ALTER TABLE {name} DROP COLUMN ts")
    by_ids.sql(f"ALTER TABLE {name} DROP COLUMN IF EXISTS a.x")


# The column's new type, and a filter that finds the rows of files from before the change.
CHANGES = [
    ("l", "double", "l > 1.5D", [(2,), (3,)]),
    ("d", "decimal(10, 2)", "d = 2.01BD", [(2,)]),
    ("s", "date", "s >= date'2024-01-02'", [(2,), (3,)]),
    ("n", "decimal(10, 1)", "n < 2.5BD", [(1,), (2,)]),
]


@pytest.mark.parametrize("kind", parameters(["cow", "mor"], in_ci=["mor"]))
def test_filters_find_the_rows_of_files_from_before_a_change_of_type(by_ids: Any, kind: str) -> None:
    name = f"ids.t{next(_NUMBERS)}"
    by_ids.sql(
        f"CREATE TABLE {name} (id INT, l BIGINT, d DOUBLE, s STRING, n STRING) USING hudi "
        f"TBLPROPERTIES (primaryKey = 'id', type = '{kind}', 'hoodie.write.table.version' = '9')"
    )
    by_ids.sql(f"CALL create_metadata_table(table => '{name}')")
    by_ids.sql(f"CREATE INDEX by_l ON {name} (l)")
    rows = ", ".join(f"({i}, {i}L, {i}.005D, '2024-01-0{i}', '{i}.25')" for i in (1, 2, 3))
    by_ids.sql(f"INSERT INTO {name} VALUES {rows}")
    by_ids.sql(f"UPDATE {name} SET d = 3.115 WHERE id = 3")
    for column, wanted, condition, expected in CHANGES:
        by_ids.sql(f"ALTER TABLE {name} ALTER COLUMN {column} TYPE {wanted}")
        assert _rows(by_ids, f"SELECT id FROM {name} WHERE {condition} ORDER BY id") == expected
    # Its statistics and index are of the old types.
    assert not by_ids.sql(f"SHOW INDEXES FROM {name}").rows
    by_ids.sql(f"UPDATE {name} SET l = 0.5 WHERE s = date'2024-01-02'")
    by_ids.sql(
        f"MERGE INTO {name} t USING (SELECT 1 AS id, 1.01BD AS d) s ON t.id = s.id AND t.d = s.d "
        "WHEN MATCHED THEN UPDATE SET n = 9.5BD"
    )
    assert _rows(by_ids, f"SELECT id, l, string(d), string(s), string(n) FROM {name} ORDER BY id") == [
        (1, 1.0, "1.01", "2024-01-01", "9.5"),
        (2, 0.5, "2.01", "2024-01-02", "2.3"),
        (3, 3.0, "3.12", "2024-01-03", "3.3"),
    ]


def test_a_text_that_is_no_date_fails_reads_until_the_change_is_rolled_back(by_ids: Any) -> None:
    name = _table(by_ids)
    by_ids.sql(f"ALTER TABLE {name} ALTER COLUMN a TYPE date")
    with pytest.raises(UnsupportedTableError, match=r"column a is string in older files and date now.*'a1'"):
        _rows(by_ids, f"SELECT a FROM {name}")
    assert _rows(by_ids, f"SELECT count(*) FROM {name} WHERE id > 1") == [(2,)]
    (commit, *_) = by_ids.sql(f"CALL show_commits(table => '{name}')").rows
    by_ids.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{commit[0]}')")
    assert _rows(by_ids, f"SELECT a FROM {name} WHERE id = 1") == [("a1",)]


def test_types_that_apache_hudi_reads_wrong_are_refused(by_ids: Any) -> None:
    name = f"ids.t{next(_NUMBERS)}"
    by_ids.sql(
        f"CREATE TABLE {name} (id INT, f FLOAT, l BIGINT, d DECIMAL(9, 3), e DECIMAL(8, 2), s STRING) "
        "USING hudi TBLPROPERTIES (primaryKey = 'id')"
    )
    refused = {
        "f TYPE decimal(10, 2)": "reads other digits in base files than in log files",
        "l TYPE decimal(20, 2)": "reads numbers that do not fit as others",
        "d TYPE decimal(10, 5)": "is not supported",
        "e TYPE decimal(9, 3)": "both have as many bytes in log files",
        "s TYPE int": "is not supported",
        "id TYPE string": "a record key column",
    }
    for change, reason in refused.items():
        with pytest.raises(UnsupportedStatementError, match=reason):
            by_ids.sql(f"ALTER TABLE {name} ALTER COLUMN {change}")


def test_members_of_structs_are_dropped_and_moved(by_ids: Any) -> None:
    name = f"ids.t{next(_NUMBERS)}"
    by_ids.sql(
        f"CREATE TABLE {name} (st STRUCT<a: INT, b: STRUCT<c: INT, d: INT>>, id INT) USING hudi "
        "TBLPROPERTIES (primaryKey = 'id')"
    )
    by_ids.sql(f"INSERT INTO {name} VALUES (named_struct('a', 1, 'b', named_struct('c', 2, 'd', 3)), 1)")
    by_ids.sql(f"ALTER TABLE {name} DROP COLUMN st.b.c")
    by_ids.sql(f"ALTER TABLE {name} ALTER COLUMN st.a AFTER b")
    assert by_ids.sql(f"SELECT st FROM {name}").arrow()["st"].to_pylist() == [{"b": {"d": 3}, "a": 1}]
    assert ("st", "struct<b:struct<d:int>,a:int>") in [row[:2] for row in _rows(by_ids, f"DESCRIBE {name}")]
    with pytest.raises(UnsupportedStatementError, match=r"st\.b has had a member c"):
        by_ids.sql(f"ALTER TABLE {name} ADD COLUMNS (st.b.c STRING)")
