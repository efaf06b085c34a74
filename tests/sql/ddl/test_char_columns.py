"""CHAR(n) columns: values and comparisons are those of Spark's own parquet tables."""

from __future__ import annotations

import pytest

from hudisql.errors import HudisqlError, UnsupportedTableError
from hudisql.session import Session
from tests.rows import rows
from tests.soak import parameters
from tests.sql.changed_tables import database_fixture

pytestmark = pytest.mark.spark

COLUMNS = "(id INT, c CHAR(5), v VARCHAR(5), n INT)"
VALUES = (
    "(1, 'ab', 'ab', 1), (2, 'abcde', 'abcde', 1), (3, 'abc  ', 'abc  ', 1), (4, NULL, NULL, 1), "
    "(5, 'é', 'ab', 1)"
)
CONDITIONS = (
    "c = 'ab'",
    "c = 'ab   '",
    "'abc' = c",
    "c IN ('ab', 'abcde')",
    "c < 'abc'",
    "c LIKE 'ab%'",
    "c IS NULL",
    "c = v",
    "length(c) = 5",
    "c BETWEEN 'ab' AND 'abc'",
)


database = database_fixture("chars", autouse=True)


def _make(session: Session, kind: str) -> None:
    session.sql(
        f"CREATE TABLE chars.ours {COLUMNS} USING hudi "
        f"TBLPROPERTIES (primaryKey = 'id', preCombineField = 'n', type = '{kind}')"
    )
    session.sql(f"CREATE TABLE chars.sparks {COLUMNS} USING parquet")
    for name in ("ours", "sparks"):
        session.sql(f"INSERT INTO chars.{name} VALUES {VALUES}")


@pytest.mark.parametrize("kind", parameters(["cow", "mor"], in_ci=["cow"]))
def test_queries_give_what_sparks_own_table_gives(session: Session, kind: str) -> None:
    _make(session, kind)
    queries = [
        f"SELECT id, concat('<', c, '>'), v FROM chars.NAME WHERE {condition} ORDER BY id"
        for condition in CONDITIONS
    ]
    queries += [
        "SELECT concat('<', c, '>'), length(c) FROM chars.NAME ORDER BY id",
        "SELECT a.id, b.id FROM chars.NAME a JOIN chars.NAME b ON a.c = b.v ORDER BY 1, 2",
        "SELECT c, count(*) FROM chars.NAME GROUP BY c ORDER BY c",
        "SELECT x.id FROM (SELECT * FROM chars.NAME) x WHERE x.c = 'ab'",
    ]
    for query in queries:
        found, expected = (rows(session, query.replace("NAME", name)) for name in ("ours", "sparks"))
        assert found == expected, query
    assert rows(session, "SELECT id FROM chars.ours WHERE c = 'ab'") == [(1,)]


def test_changes_fill_and_compare_as_spark_does(session: Session) -> None:
    _make(session, "cow")
    session.sql("UPDATE chars.ours SET c = 'zz', n = 2 WHERE c = 'ab'")
    session.sql(
        "MERGE INTO chars.ours t USING (SELECT 2 id, 'm' c, 'm' v, 3 n UNION ALL SELECT 6, 'n', 'n', 3) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    session.sql("DELETE FROM chars.ours WHERE c = 'abc'")
    session.sql("INSERT INTO chars.ours VALUES (7, 'abcde     ', 'x', 1)")
    assert rows(session, "SELECT id, concat('<', c, '>') FROM chars.ours ORDER BY id") == [
        (1, "<zz   >"),
        (2, "<m    >"),
        (4, None),
        (5, "<é    >"),
        (6, "<n    >"),
        (7, "<abcde>"),
    ]
    with pytest.raises(HudisqlError, match=r"column 'c' of chars\.ours is CHAR\(5\): it cannot hold"):
        session.sql("INSERT INTO chars.ours VALUES (8, 'abcdef', 'x', 1)")
    frame = session.spark.createDataFrame([(9, "f", "f", 1)], "id int, c string, v string, n int")
    session.write(frame, "chars.ours", "upsert")
    assert rows(session, "SELECT id FROM chars.ours WHERE c = 'f'") == [(9,)]


def test_the_type_is_shown_and_kept(session: Session) -> None:
    _make(session, "cow")
    assert ("c", "char(5)") in [row[:2] for row in rows(session, "DESCRIBE chars.ours")]
    [(text,)] = rows(session, "SHOW CREATE TABLE chars.ours")
    assert "c char(5)" in text
    session.sql("CREATE TABLE chars.likewise LIKE chars.ours")
    session.sql("INSERT INTO chars.likewise VALUES (1, 'a', 'a', 1)")
    assert rows(session, "SELECT length(c) FROM chars.likewise") == [(5,)]
    query = "SELECT id, c, v FROM chars.ours"
    session.sql(f"CREATE TABLE chars.copy USING hudi TBLPROPERTIES (primaryKey = 'id') AS {query}")
    assert ("c", "string") in [row[:2] for row in rows(session, "DESCRIBE chars.copy")]
    assert rows(session, "SELECT c FROM chars.copy WHERE id = 1") == [("ab   ",)]


@pytest.mark.parametrize(
    ("clauses", "role"),
    [
        ("TBLPROPERTIES (primaryKey = 'C')", "record key"),
        ("PARTITIONED BY (c) TBLPROPERTIES (primaryKey = 'id')", "partition"),
        ("TBLPROPERTIES (primaryKey = 'id', preCombineField = 'c')", "ordering"),
    ],
)
def test_columns_that_find_or_order_rows_cannot_be_chars(session: Session, clauses: str, role: str) -> None:
    with pytest.raises(UnsupportedTableError, match=f"column c: a {role} column .* cannot be a CHAR"):
        session.sql(f"CREATE TABLE chars.t {COLUMNS} USING hudi {clauses}")
