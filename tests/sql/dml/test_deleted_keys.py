"""Rows of keys that log files deleted: which file group gets them, and as what file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hudisql.format.schema.meta_columns import RECORD_KEY
from hudisql.session import Session
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.timeline.instant_files import read_commit
from hudisql.write.execution import deleted_keys_by_tasks
from tests.opened import open_at
from tests.sql.changed_tables import database_fixture, setting

pytestmark = [pytest.mark.spark, pytest.mark.hms]
deleted_keys = database_fixture("deleted_keys", autouse=True)
TABLE = "deleted_keys.t"
EVENT_TIME, COMMIT_TIME = "seq", ""


@dataclass
class KeyedTable:
    """A merge-on-read table of two partitions; with `tags` its changes are made by Spark's tasks."""

    session: Session
    path: str

    def run(self, text: str) -> dict[str, Any]:
        """The row counts of the statement, and of base files that it wrote."""
        before = self._base_files()
        row = self.session.sql(text.replace("{t}", TABLE)).rows[0].asDict()
        counts = {name.removeprefix("rows_"): value for name, value in row.items() if value}
        written = len(self._base_files() - before)
        return {
            **{name: count for name, count in counts.items() if name not in ("instant", "bytes_written")},
            "base_files": written,
        }

    def _base_files(self) -> set[Path]:
        return {*Path(self.path).rglob("dt=*/*.parquet")}

    def rows(self) -> list[tuple[Any, ...]]:
        """All rows."""
        return [
            tuple(row) for row in self.session.sql(f"SELECT id, seq, dt FROM {TABLE} ORDER BY id, dt").rows
        ]

    def groups(self, key: str, day: str) -> int:
        """The number of file groups whose base files have the key."""
        slices = [each for each in load_file_slices(open_at(self.path)) if each.partition_path == f"dt={day}"]
        files = [each.base_file.path for each in slices if each.base_file is not None]
        return sum(key in pq.read_table(path, columns=[RECORD_KEY]).column(0).to_pylist() for path in files)


@pytest.fixture(params=["driver", "tasks"])
def is_by_tasks(request: pytest.FixtureRequest) -> bool:
    return request.param == "tasks"


def _make(
    session: Session, path: Path, ordering: str, *, is_by_tasks: bool = False, version: int = 9
) -> KeyedTable:
    tags = ", tags ARRAY<STRING>" if is_by_tasks else ""
    ordered = f", preCombineField = '{ordering}'" if ordering else ""
    session.sql(
        f"CREATE TABLE {TABLE} (id STRING, seq INT{tags}, dt STRING) USING hudi PARTITIONED BY (dt) "
        f"LOCATION '{path}' TBLPROPERTIES (primaryKey = 'id', type = 'mor'{ordered}, "
        f"'hoodie.write.table.version' = '{version}')"
    )
    empty = ", array()" if is_by_tasks else ""
    rows = ", ".join(f"('k{number}', 10{empty}, 'd{number % 2}')" for number in range(8))
    session.sql(f"INSERT INTO {TABLE} VALUES {rows}")
    return KeyedTable(session, str(path))


def _merge(*rows: tuple[str, int | None, str], on: str = "t.id = s.id") -> str:
    values = ", ".join(
        f"('{key}', {'CAST(NULL AS INT)' if seq is None else seq}, '{day}')" for key, seq, day in rows
    )
    return (
        f"MERGE INTO {{t}} t USING (VALUES {values} AS s (id, seq, dt)) s ON {on} WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (id, seq, dt) VALUES (s.id, s.seq, s.dt)"
    )


@pytest.mark.parametrize(
    ("ordering", "seq", "files", "is_by_tasks"),
    [
        (COMMIT_TIME, 1, 0, False),
        (EVENT_TIME, 10, 0, True),
        # The row in the base file would be newer for readers of the log.
        (EVENT_TIME, 9, 1, False),
        (EVENT_TIME, None, 1, True),
    ],
)
def test_a_row_of_a_deleted_key_is_appended_to_the_log_unless_it_would_lose_there(
    session: Session, tmp_path: Path, ordering: str, seq: int | None, files: int, is_by_tasks: bool
) -> None:
    table = _make(session, tmp_path / "t", ordering, is_by_tasks=is_by_tasks)
    before = table.rows()
    table.run("DELETE FROM {t} WHERE id IN ('k0', 'k2')")
    written = table.run(_merge(("k0", seq, "d0")))
    assert written == {"inserted": 1, "files_written": 1, "base_files": files}
    assert table.rows() == [("k0", seq, "d0"), *(row for row in before if row[0] not in ("k0", "k2"))]
    assert table.groups("k0", "d0") == 1
    # New keys still go to a file group without log files.
    assert table.run(_merge(("k8", 1, "d1")))["base_files"] == 1


def test_a_key_that_the_statement_itself_deletes_stays_in_its_file_group(
    session: Session, tmp_path: Path, is_by_tasks: bool
) -> None:
    table = _make(session, tmp_path / "t", COMMIT_TIME, is_by_tasks=is_by_tasks)
    with setting(session, "hoodie.parquet.small.file.limit", "0"):
        table.run(_merge(("k10", 1, "d0")))
        swapped = "UPDATE {t} SET id = CASE id WHEN 'k0' THEN 'k10' ELSE 'k0' END WHERE id IN ('k0', 'k10')"
        assert table.run(swapped)["base_files"] == 2
        merged = table.run(_merge(("k0", 1, "d0"), ("k0", 3, "d0"), on="t.id = s.id AND s.seq = t.seq"))
    assert merged == {"inserted": 1, "deleted": 1, "files_written": 1, "base_files": 1}
    assert [row for row in table.rows() if row[0] in ("k0", "k10")] == [("k0", 3, "d0"), ("k10", 10, "d0")]
    assert [table.groups(key, "d0") for key in ("k0", "k10")] == [1, 1]


def test_a_row_that_comes_back_to_its_partition_is_appended(
    session: Session, tmp_path: Path, is_by_tasks: bool
) -> None:
    table = _make(session, tmp_path / "t", COMMIT_TIME, is_by_tasks=is_by_tasks)
    assert table.run("UPDATE {t} SET dt = 'd1' WHERE id = 'k0'")["base_files"] == 1
    back = table.run("UPDATE {t} SET dt = 'd0' WHERE id = 'k0'")
    assert back == {"moved": 1, "files_written": 2, "base_files": 0}
    assert ("k0", 10, "d0") in table.rows()
    assert len(table.rows()) == 8


def test_rows_that_are_deleted_twice_go_to_the_log_with_a_row_of_a_deleted_key(
    session: Session, tmp_path: Path
) -> None:
    table = _make(session, tmp_path / "t", COMMIT_TIME)
    table.run("DELETE FROM {t} WHERE id = 'k0'")
    merged = table.run(_merge(("k0", 1, "d0"), ("k2", 1, "d0"), ("k2", 2, "d0")))
    assert merged == {"inserted": 1, "deleted": 1, "combined": 1, "files_written": 1, "base_files": 0}
    assert [row[0] for row in table.rows()] == ["k0", "k1", "k3", "k4", "k5", "k6", "k7"]


def test_a_plain_insert_looks_up_no_keys(session: Session, tmp_path: Path) -> None:
    table = _make(session, tmp_path / "t", COMMIT_TIME)
    table.run("DELETE FROM {t} WHERE id = 'k0'")
    assert table.run("INSERT INTO {t} VALUES ('k0', 1, 'd0')")["base_files"] == 1
    assert table.groups("k0", "d0") == 2


@pytest.mark.parametrize("ordering", [COMMIT_TIME, EVENT_TIME])
def test_a_change_of_one_of_several_rows_of_a_key_is_no_log_record_beside_a_new_row(
    session: Session, tmp_path: Path, ordering: str
) -> None:
    table = _make(session, tmp_path / "t", ordering)
    with setting(session, "hoodie.spark.sql.insert.into.operation", "insert"):
        table.run("INSERT INTO {t} VALUES ('k2', 20, 'd0')")
    table.run("DELETE FROM {t} WHERE id = 'k0'")
    before = table.rows()
    assert [row for row in before if row[0] == "k2"] == [("k2", 10, "d0"), ("k2", 20, "d0")]
    written = table.run(_merge(("k0", 30, "d0"), ("k2", 20, "d0"), on="t.id = s.id AND t.seq = s.seq"))
    assert written == {"inserted": 1, "deleted": 1, "files_written": 1, "base_files": 1}
    assert table.rows() == [("k0", 30, "d0"), *(row for row in before if row != ("k2", 20, "d0"))]


@pytest.mark.parametrize("version", [6, 9])
def test_a_row_of_a_deleted_key_does_not_wait_for_a_pending_compaction(
    session: Session, tmp_path: Path, version: int
) -> None:
    table = _make(session, tmp_path / "t", COMMIT_TIME, version=version)
    before = table.rows()
    table.run("DELETE FROM {t} WHERE id = 'k0'")
    options = "options => 'hoodie.compact.inline.max.delta.commits=1'"
    session.sql(f"CALL run_compaction(op => 'schedule', table => '{TABLE}', {options})")
    assert table.run(_merge(("k0", 1, "d0"))) == {"inserted": 1, "files_written": 1, "base_files": 1}
    expected = [("k0", 1, "d0"), *before[1:]]
    assert table.rows() == expected
    session.sql(f"CALL run_compaction(op => 'execute', table => '{TABLE}')")
    assert table.rows() == expected
    assert table.groups("k0", "d0") == 1


def test_a_new_row_with_the_mark_of_deletes_is_read(session: Session, tmp_path: Path) -> None:
    session.sql(
        f"CREATE TABLE {TABLE} (id INT, _hoodie_is_deleted BOOLEAN) USING hudi LOCATION '{tmp_path / 't'}' "
        "TBLPROPERTIES (primaryKey = 'id', type = 'mor')"
    )
    session.sql(f"INSERT INTO {TABLE} VALUES (1, false), (2, false)")
    session.sql(f"DELETE FROM {TABLE} WHERE id = 1")
    session.sql(
        f"MERGE INTO {TABLE} t USING (VALUES (1), (3) AS s (id)) s ON t.id = s.id WHEN NOT MATCHED THEN "
        "INSERT (id, _hoodie_is_deleted) VALUES (s.id, true)"
    )
    assert [row[0] for row in session.sql(f"SELECT id FROM {TABLE} ORDER BY id").rows] == [1, 2, 3]


def test_many_slices_are_searched_by_tasks(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleted_keys_by_tasks, "_MOST_SLICES", 0)
    table = _make(session, tmp_path / "t", EVENT_TIME)
    table.run("DELETE FROM {t} WHERE id IN ('k0', 'k1')")
    written = table.run(_merge(("k0", 11, "d0"), ("k1", 11, "d1"), ("k9", 1, "d1")))
    assert written == {"inserted": 3, "files_written": 3, "base_files": 1}
    stats = read_commit(open_at(table.path), open_at(table.path).timeline.completed[-1]).write_stats
    assert sorted((stat.num_writes, stat.num_inserts, stat.num_update_writes) for stat in stats) == [
        *[(1, 1, 0)] * 3
    ]
