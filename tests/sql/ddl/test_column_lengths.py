"""VARCHAR(n) in CREATE TABLE: the length is kept with the table, and longer values are refused on write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hudisql.errors import HudisqlError, TableExistsError, UnsupportedTableError
from hudisql.session import Session
from tests.rows import rows
from tests.sql.changed_tables import own_database

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def database(session: Session, tmp_path: Path) -> Iterator[None]:
    with own_database(session, "sized"):
        session.sql(
            "CREATE TABLE sized.t (id INT, v VARCHAR(3) COMMENT 'short', free STRING) USING hudi "
            f"LOCATION '{tmp_path / 't'}' TBLPROPERTIES (primaryKey = 'id')"
        )
        session.sql("INSERT INTO sized.t VALUES (1, 'abc', 'longer text'), (2, NULL, NULL), (3, 'é', '')")
        yield


def test_the_length_is_shown_and_kept(session: Session, tmp_path: Path) -> None:
    described = {row[0]: row[1:] for row in rows(session, "DESCRIBE sized.t")}
    assert described["v"] == ("varchar(3)", "short")
    [(text,)] = rows(session, "SHOW CREATE TABLE sized.t")
    assert "v varchar(3) COMMENT 'short'" in text
    session.sql("DROP TABLE sized.t")
    session.sql(text)
    session.sql("CREATE TABLE sized.u LIKE sized.t")
    for name in ("t", "u"):
        with pytest.raises(HudisqlError, match=r"VARCHAR\(3\)"):
            session.sql(f"INSERT INTO sized.{name} VALUES (4, 'abcd', '')")
    with pytest.raises(TableExistsError, match=r"column v is varchar\(3\), not varchar\(4\)"):
        session.sql(
            f"CREATE TABLE sized.w (id INT, v VARCHAR(4), free STRING) USING hudi LOCATION '{tmp_path / 't'}'"
        )


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO sized.t VALUES (4, 'abcd', 'x')",
        "INSERT INTO sized.t SELECT id + 10, concat(v, 'x'), free FROM sized.t",
        "UPDATE sized.t SET v = 'abcd' WHERE id = 1",
        "UPDATE sized.t SET v = concat(v, free) WHERE id = 1",
        "MERGE INTO sized.t USING (SELECT 1 id, 'abcd' v) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v",
        "MERGE INTO sized.t USING (SELECT 5 id, 'abcd' v, '' free) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *",
    ],
)  # fmt: skip
def test_longer_values_are_refused_with_the_column(session: Session, statement: str) -> None:
    before = rows(session, "SELECT id, v, free FROM sized.t ORDER BY id")
    with pytest.raises(HudisqlError, match=r"column 'v' of sized\.t is VARCHAR\(3\): .* characters"):
        session.sql(statement)
    assert rows(session, "SELECT id, v, free FROM sized.t ORDER BY id") == before


def test_spaces_beyond_the_length_are_cut_off_as_in_spark(session: Session) -> None:
    session.sql("INSERT INTO sized.t VALUES (4, 'ab    ', 'x'), (5, 'äöü', 'y')")
    session.sql("UPDATE sized.t SET v = 'abc   ' WHERE id = 3")
    session.sql("UPDATE sized.t SET free = 'changed' WHERE id < 3")
    assert rows(session, "SELECT v FROM sized.t ORDER BY id") == [
        ("abc",),
        (None,),
        ("abc",),
        ("ab ",),
        ("äöü",),
    ]
    session.sql("DELETE FROM sized.t WHERE v = 'abc'")
    assert rows(session, "SELECT count(*) FROM sized.t") == [(3,)]


def test_written_frames_are_checked(session: Session) -> None:
    frame = session.spark.createDataFrame([(6, "abcd", "")], "id int, v string, free string")
    with pytest.raises(HudisqlError, match=r"VARCHAR\(3\)"):
        session.write(frame, "sized.t", "insert")
    assert rows(session, "SELECT count(*) FROM sized.t") == [(3,)]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("c CHAR(3)", r"column c: .* CHAR\(3\)"),
        ("c ARRAY<VARCHAR(3)>", r"column c: .* VARCHAR\(3\)"),
        ("c STRUCT<a: CHAR(2)>", r"column c\.a: .* CHAR\(2\)"),
    ],
)
def test_other_lengths_are_refused_by_name(session: Session, column: str, message: str) -> None:
    if not column.startswith("c CHAR"):
        with pytest.raises(UnsupportedTableError, match=message):
            session.sql(f"CREATE TABLE sized.n (id INT, {column}) USING hudi")
    with pytest.raises(UnsupportedTableError, match=message):
        session.sql(f"ALTER TABLE sized.t ADD COLUMNS ({column})")
    with pytest.raises(UnsupportedTableError, match="use STRING"):
        session.sql("ALTER TABLE sized.t ADD COLUMNS (c VARCHAR(3))")
