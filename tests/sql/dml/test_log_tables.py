"""Merge-on-read tables with log files, by their three names in the metastore."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hudisql.read.scan import scan_method
from hudisql.session import Session
from tests.sql.changed_tables import own_database

pytestmark = [pytest.mark.spark, pytest.mark.hms]

NAME = "mor_upsert_only_updates"


@pytest.fixture(scope="module")
def rides(
    session: Session, golden: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
    copied = tmp_path_factory.mktemp("rides") / "table"
    shutil.copytree(golden(NAME).table, copied)
    with own_database(session, "rides"):
        session.sql(f"CALL hive_sync(table => 'rides.t', path => '{copied}')")
        yield session


def _rows(session: Session, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in session.sql(text).arrow().to_pylist()]


@pytest.mark.parametrize("name", ["t", "t_rt"])
def test_snapshot_names_show_merged_rows(rides: Session, golden: Callable[[str], Any], name: str) -> None:
    expected = sorted((row["id"], row["seq"], row["fare"], row["dt"]) for row in golden(NAME).rows)
    assert sorted(_rows(rides, f"SELECT id, seq, fare, dt FROM rides.{name}")) == expected
    updated = [row for row in expected if row[1] == 100]
    assert sorted(_rows(rides, f"SELECT id, seq, fare, dt FROM rides.{name} WHERE seq = 100")) == updated
    count = f"SELECT count(*), count(DISTINCT _hoodie_commit_time) FROM rides.{name} WHERE dt = '2024-03-01'"
    assert _rows(rides, count) == [(sum(row[3] == "2024-03-01" for row in expected), 3)]


def test_the_read_optimized_name_shows_base_files_alone(rides: Session) -> None:
    assert _rows(rides, "SELECT count(*), max(_hoodie_commit_time) FROM rides.t_ro") == [
        (600, "00000000000001")
    ]
    both = "SELECT count(*) FROM rides.t JOIN rides.t_ro USING (id, dt) WHERE t.fare <> t_ro.fare"
    assert _rows(rides, both) == [(20,)]


def test_explain_says_what_is_merged(rides: Session) -> None:
    text = str(rides.sql("EXPLAIN EXTENDED SELECT id FROM rides.t").arrow().to_pylist())
    assert "6 of 6 (6 bootstrapped, 1 with log files)" in text
    assert "native" in text
    text = str(rides.sql("EXPLAIN EXTENDED SELECT id FROM rides.t_ro").arrow().to_pylist())
    assert "log files" not in text


def test_a_row_group_that_a_filter_rules_out_may_still_be_updated_by_a_log(rides: Session) -> None:
    assert _rows(rides, "SELECT count(*) FROM rides.t_ro WHERE note = 'upd'") == [(0,)]
    assert _rows(rides, "SELECT count(*) FROM rides.t WHERE note = 'upd'") == [(20,)]


def test_views_over_both_names_are_read_right(rides: Session) -> None:
    rides.sql("CREATE VIEW rides.changed AS SELECT t.id FROM rides.t t LEFT ANTI JOIN rides.t_ro o "
              "ON t.id = o.id AND t.note = o.note AND t.seq = o.seq")  # fmt: skip
    try:
        assert _rows(rides, "SELECT count(*) FROM rides.changed WHERE id IN ('k000000', 'k000001')") == [(1,)]
    finally:
        rides.sql("DROP VIEW rides.changed")


@pytest.mark.parametrize("kind", ["STRUCT<file_path: STRING, row_index: BIGINT>", "STRING"])
def test_a_column_named_like_sparks_metadata_is_read_like_any(
    session: Session, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(scan_method, "_LEAST_BYTES_TO_MERGE", 0)
    monkeypatch.setattr(scan_method, "_MOST_LOG_SHARE", 1e9)
    name = f"odd_names_{kind[:6].lower()}"
    with own_database(session, name):
        session.sql(
            f"CREATE TABLE {name}.t (id INT, n INT, `_metadata` {kind}) USING hudi "
            "TBLPROPERTIES (primaryKey = 'id', type = 'mor')"
        )
        session.sql(f"INSERT INTO {name}.t VALUES (1, 1, NULL), (2, 2, NULL)")
        session.sql(f"UPDATE {name}.t SET n = 5 WHERE id = 1")
        assert sorted(_rows(session, f"SELECT id, n FROM {name}.t")) == [(1, 5), (2, 2)]
