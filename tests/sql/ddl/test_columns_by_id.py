"""What was planned or seen before columns got other names by schema-on-read, and what a rollback leaves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

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
