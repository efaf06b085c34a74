"""Rows of one record key: UPDATE, DELETE and MERGE change the rows that they select, and no others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hudisql.errors import WriteRefusedError
from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.session import Session
from tests.opened import open_at
from tests.soak import parameters
from tests.sql.changed_tables import database_fixture

pytestmark = [pytest.mark.spark, pytest.mark.hms]

KINDS = ("cow", "mor")


database = database_fixture("repeated", scope="module")


def _create(session: Session, database: str, kind: str, columns: str, keys: str, partitions: str = "") -> str:
    name = f"{database}.t{uuid4().hex[:8]}"
    session.sql(
        f"CREATE TABLE {name} ({columns}) USING hudi {partitions} "
        f"TBLPROPERTIES (type = '{kind}', primaryKey = '{keys}')"
    )
    return name


def _rows(session: Session, name: str, columns: str = "") -> list[tuple[Any, ...]]:
    """The rows in order, by default without meta columns."""
    found = session.sql(f"SELECT {columns or '*'} FROM {name}").rows
    return sorted(tuple(row)[0 if columns else len(META_COLUMNS) :] for row in found)


@dataclass(frozen=True)
class Row:
    """`n` is unique; `id` is the record key and `p` the partition."""

    id: int
    v: int
    n: int
    p: str


@dataclass(frozen=True)
class Change:
    """A statement, and what it makes of the rows for which `selects` holds."""

    verb: str
    modulus: int
    remainder: int
    value: int

    def selects(self, row: Row) -> bool:
        return row.n % self.modulus == self.remainder

    def statement(self, name: str) -> str:
        where = f"n % {self.modulus} = {self.remainder}"
        match self.verb:
            case "update":
                return f"UPDATE {name} SET v = v + {self.value} WHERE {where}"
            case "key":
                return f"UPDATE {name} SET id = {self.value % 4} WHERE {where}"
            case "partition":
                return f"UPDATE {name} SET p = 'p{self.value % 2}' WHERE {where}"
            case "delete":
                return f"DELETE FROM {name} WHERE {where}"
        action = "DELETE" if self.verb == "merge delete" else "UPDATE SET v = t.v + s.d"
        return (
            f"MERGE INTO {name} t USING (SELECT n, {self.value} AS d FROM {name} WHERE {where}) s "
            f"ON t.n = s.n WHEN MATCHED THEN {action}"
        )

    def model(self, rows: list[Row]) -> list[Row]:
        return [changed for row in rows for changed in ([row] if not self.selects(row) else self._of(row))]

    def _of(self, row: Row) -> list[Row]:
        match self.verb:
            case "key":
                return [replace(row, id=self.value % 4)]
            case "partition":
                return [replace(row, p=f"p{self.value % 2}")]
            case "delete" | "merge delete":
                return []
        return [replace(row, v=row.v + self.value)]


_CHANGES = st.builds(
    Change,
    st.sampled_from(["update", "key", "partition", "delete", "merge", "merge delete"]),
    st.integers(2, 4),
    st.integers(0, 1),
    st.integers(1, 90),
)


@pytest.mark.parametrize("kind", parameters(KINDS, in_ci=["mor"]))
@settings(
    max_examples=max(2, settings().max_examples // 40),
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=3, max_size=8),
        min_size=2,
        max_size=2,
    ),
    changes=st.lists(_CHANGES, min_size=4, max_size=5),
)
def test_changes_of_tables_with_repeated_keys_are_those_of_a_plain_model(
    session: Session, database: str, kind: str, batches: list[list[tuple[int, int]]], changes: list[Change]
) -> None:
    name = _create(session, database, kind, "id INT, v INT, n INT, p STRING", "id", "PARTITIONED BY (p)")
    rows: list[Row] = []
    for batch in batches:
        new = [Row(key, len(rows) + at, len(rows) + at, f"p{p}") for at, (key, p) in enumerate(batch)]
        values = ", ".join(f"({each.id}, {each.v}, {each.n}, '{each.p}')" for each in new)
        session.sql(f"INSERT INTO {name} VALUES {values}")
        rows += new
    for change in changes:
        counts = session.sql(change.statement(name)).rows[0]
        selected = sum(change.selects(row) for row in rows)
        assert counts.rows_updated + counts.rows_deleted + counts.rows_moved == selected, change
        rows = change.model(rows)
        assert _rows(session, name, "id, v, n, p") == sorted((r.id, r.v, r.n, r.p) for r in rows), change
    session.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("kind", parameters(KINDS, in_ci=["mor"]))
def test_composite_keys_that_render_alike_are_told_apart(session: Session, database: str, kind: str) -> None:
    name = _create(session, database, kind, "a STRING, b STRING, v STRING", "a,b")
    session.sql(f"INSERT INTO {name} VALUES ('x,b:y', 'z', 'one'), ('x', 'y,b:z', 'two')")
    assert len({row[0] for row in _rows(session, name, "_hoodie_record_key")}) == 1
    session.sql(f"UPDATE {name} SET v = 'changed' WHERE b = 'z'")
    assert _rows(session, name) == [("x", "y,b:z", "two"), ("x,b:y", "z", "changed")]
    session.sql(f"DELETE FROM {name} WHERE a = 'x'")
    assert _rows(session, name) == [("x,b:y", "z", "changed")]


@pytest.mark.parametrize("kind", parameters(KINDS, in_ci=["mor"]))
def test_several_source_rows_for_one_of_several_rows_of_a_key_stop_the_merge(
    session: Session, database: str, kind: str
) -> None:
    name = _create(session, database, kind, "id INT, v STRING", "id")
    session.sql(f"INSERT INTO {name} VALUES (1, 'a'), (1, 'b')")
    before = _rows(session, name, "*")
    merge = (
        f"MERGE INTO {name} t USING (VALUES ('a', 'x'), ('a', 'y')) s(v, w) ON t.v = s.v "
        "WHEN MATCHED THEN UPDATE SET v = s.w"
    )
    with pytest.raises(WriteRefusedError, match=r"several source rows change one row.*'1'"):
        session.sql(merge)
    assert _rows(session, name, "*") == before
    session.sql(merge.replace("UPDATE SET v = s.w", "DELETE"))
    assert _rows(session, name) == [(1, "b")]


def test_writes_by_key_concern_all_rows_of_the_key(session: Session, database: str) -> None:
    """As in Hudi 0.15: an upsert gives all rows of a key the new values, a delete removes them all."""
    name = _create(session, database, "cow", "id INT, v STRING", "id")
    session.sql(f"INSERT INTO {name} VALUES (1, 'a'), (1, 'b'), (2, 'c'), (2, 'd')")
    spark = session.context.spark
    session.write(spark.sql("SELECT 1 AS id, 'new' AS v"), name, "upsert")
    assert _rows(session, name) == [(1, "new"), (1, "new"), (2, "c"), (2, "d")]
    session.write(spark.sql("SELECT 2 AS id, CAST(NULL AS STRING) AS v"), name, "delete")
    assert _rows(session, name) == [(1, "new"), (1, "new")]
    # Each got a sequence number of its own, so that they are two rows still.
    session.sql(f"UPDATE {name} SET v = 'both' WHERE v = 'new'")
    assert _rows(session, name) == [(1, "both"), (1, "both")]


def test_rows_that_nothing_tells_apart_are_deleted_together_and_not_updated(
    session: Session, database: str
) -> None:
    """On merge-on-read tables one log record takes the place of all base rows of its key."""
    name = _create(session, database, "mor", "id INT, v STRING", "id")
    session.sql(f"INSERT INTO {name} VALUES (1, 'a'), (1, 'b'), (2, 'c')")
    session.write(session.context.spark.sql("SELECT 1 AS id, 'new' AS v"), name, "upsert")
    assert _rows(session, name) == [(1, "new"), (1, "new"), (2, "c")]
    entry = session.context.metastore.get_table(*name.split("."))
    assert entry is not None
    assert entry.location is not None
    commits = open_at(entry.location).timeline.commits
    with pytest.raises(WriteRefusedError, match=r"'1'.*file group") as caught:
        session.sql(f"UPDATE {name} SET v = 'x' WHERE id = 1")
    assert "DELETE" in str(caught.value.hint)
    assert open_at(entry.location).timeline.commits == commits
    session.sql(f"DELETE FROM {name} WHERE id = 1")
    assert _rows(session, name) == [(2, "c")]
