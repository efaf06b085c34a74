"""Keys that another writer leaves out of the record index; Apache Hudi itself does in `tests/oracle`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.metadata_table.metadata_records import RECORD_INDEX
from hudisql.format.paths.file_names import FileGroup
from hudisql.format.timeline.active_timeline import timeline_of
from hudisql.format.timeline.instant import COMMIT, Instant, InstantState
from hudisql.read.scan import data_skipping
from hudisql.table.metadata_table import incomplete_groups as searched
from hudisql.table.metadata_table.incomplete_groups import incomplete_groups, indexed_commits
from hudisql.table.metadata_table.kept_metadata_table import has_partitioned_records
from hudisql.write.metadata_table import left_out_keys, metadata_commit
from hudisql.write.metadata_table.deltacommit_files import IndexUpdate
from tests.opened import open_at, open_kept
from tests.sql.changed_tables import setting
from tests.write.metadata_table.kept_indexes import assert_finds_all_keys, assert_finds_all_rows_by_partition

pytestmark = [pytest.mark.spark, pytest.mark.hms]
INTO = "hoodie.spark.sql.insert.into.operation"
OTHERS = "UPDATE {t} SET seq = seq + 1 WHERE id IN (2, 7, 12)"


@contextmanager
def _another_writer() -> Iterator[None]:
    """Commits take their keys out of the record index, and do not say that it is complete."""

    def without_keys(metadata: Any, keys: Any, _instant_time: str) -> dict[str, IndexUpdate]:
        deleted = keys.present.keys.cast(pa.string())
        if not has_partitioned_records(metadata.table):
            return {RECORD_INDEX: IndexUpdate(deleted=deleted)}
        none = pa.array([], pa.string()).dictionary_encode()
        paths = keys.present.paths(pa.array([path for path, _ in keys.groups]).dictionary_encode())
        return {RECORD_INDEX: IndexUpdate(deleted=deleted, paths=none, deleted_paths=paths)}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(metadata_commit, "_record_updates", without_keys)
        patched.setattr(metadata_commit, "read_left_out_keys", lambda _: None)
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture(params=["record_index", "record_level_index"])
def name(session: Any, request: pytest.FixtureRequest, path: Path) -> Iterator[str]:
    session.sql("CREATE DATABASE IF NOT EXISTS left_out")
    name = "left_out.visits"
    session.sql(
        f"CREATE TABLE {name} (id INT, seq INT, dt STRING) USING hudi PARTITIONED BY (dt) "
        f"LOCATION '{path}' TBLPROPERTIES (type = 'mor', primaryKey = 'id', "
        "'hoodie.write.table.version' = '9')"
    )
    session.sql(f"INSERT INTO {name} SELECT CAST(id AS INT), 1, concat('p', id % 5) FROM range(20)")
    session.sql(f"CALL create_metadata_table(table => '{name}', indexes => '{request.param}')")
    yield name
    session.sql(f"DROP TABLE {name}")


@pytest.fixture(autouse=True)
def skips_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a few files the index is not asked otherwise."""
    monkeypatch.setattr(data_skipping, "FEWEST_TO_SKIP", 1)


def _incomplete(path: Path) -> frozenset[FileGroup] | None:
    return incomplete_groups(open_at(path))


def _indexed(path: Path) -> list[str]:
    return sorted(open_kept(path).read_records(RECORD_INDEX).keys.to_pylist())


def _found(session: Any, name: str, condition: str) -> list[tuple[int, int]]:
    return sorted(tuple(row) for row in session.sql(f"SELECT id, seq FROM {name} WHERE {condition}").rows)


def test_rows_without_keys_are_found_and_a_commit_adds_the_keys(session: Any, name: str, path: Path) -> None:
    assert _incomplete(path) == frozenset()
    with _another_writer():
        session.sql(OTHERS.replace("{t}", name))
    assert len(_indexed(path)) == 17
    assert {group for group, _ in _incomplete(path) or ()} == {"dt=p2"}
    assert _found(session, name, "id = 7") == [(7, 2)]
    assert _found(session, name, "id IN (1, 7, 99)") == [(1, 1), (7, 2)]
    session.sql(f"UPDATE {name} SET seq = 5 WHERE id = 1")
    assert _incomplete(path) == frozenset()
    assert sorted(map(int, _indexed(path))) == [*range(20)]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {t} VALUES (7, 9, 'p2'), (40, 9, 'p2')",
        "MERGE INTO {t} t USING (SELECT 7 AS id, 'p2' AS dt UNION ALL SELECT 40, 'p2') s "
        "ON t.id = s.id AND t.dt = s.dt WHEN MATCHED THEN UPDATE SET seq = 9 "
        "WHEN NOT MATCHED THEN INSERT (id, seq, dt) VALUES (s.id, 9, s.dt)",
        "UPDATE {t} SET seq = 9 WHERE id = 7",
        "DELETE FROM {t} WHERE id = 7",
    ],
)
def test_changes_find_the_rows(session: Any, name: str, path: Path, statement: str) -> None:
    kind = "RECORD_LEVEL_INDEX" if has_partitioned_records(open_at(path)) else "RECORD_INDEX"
    with _another_writer():
        session.sql(OTHERS.replace("{t}", name))
    with setting(session, "hoodie.index.type", kind), setting(session, INTO, "upsert"):
        session.sql(statement.replace("{t}", name))
    changed = [] if statement.startswith("DELETE") else [(7, 9)]
    added = [(40, 9)] if "40" in statement else []
    assert _found(session, name, "seq > 1") == [(2, 2), *changed, (12, 2), *added]
    assert _found(session, name, "id = 7") == changed
    assert _incomplete(path) == frozenset()
    check = assert_finds_all_rows_by_partition if kind == "RECORD_LEVEL_INDEX" else assert_finds_all_keys
    check(open_kept(path))
    assert len(_indexed(path)) == 19 + len(changed) + len(added)


def test_keys_that_are_too_many_to_add_are_still_found(
    session: Any, name: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_out_keys, "_MOST_BYTES", 1)
    with _another_writer():
        session.sql(OTHERS.replace("{t}", name))
    session.sql(f"UPDATE {name} SET seq = 5 WHERE id = 1")
    assert {group for group, _ in _incomplete(path) or ()} == {"dt=p2", "dt=p1"}
    assert _found(session, name, "id = 7") == [(7, 2)]
    # As if the commits before were archived: of these only the metadata table tells.
    monkeypatch.setattr(searched, "list_archive_files", lambda _: [(1, None)])
    assert {group for group, _ in _incomplete(path) or ()} == {"dt=p2", "dt=p1"}
    monkeypatch.setattr(searched.IndexedCommits, "have_all_before", lambda _, __: False)
    assert _incomplete(path) is None
    assert _found(session, name, "id = 7") == [(7, 2)]
    with setting(session, INTO, "upsert"):
        session.sql(f"INSERT INTO {name} VALUES (12, 9, 'p2')")
    assert _found(session, name, "seq > 1") == [(1, 5), (2, 2), (7, 2), (12, 9)]


def test_a_new_index_is_complete(session: Any, name: str, path: Path) -> None:
    with _another_writer():
        session.sql(OTHERS.replace("{t}", name))
    assert _incomplete(path)
    session.sql(f"CALL create_metadata_table(table => '{name}', indexes => 'record_index')")
    assert _incomplete(path) == frozenset()
    assert len(_indexed(path)) == 20


def commit(time: str, state: InstantState = InstantState.COMPLETED) -> Instant:
    return Instant(time, COMMIT, state)


def test_a_commit_that_is_still_pending_is_not_in_the_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched, "list_archive_files", lambda _: [(1, None)])
    pending = timeline_of([commit("01", InstantState.INFLIGHT), commit("02"), commit("03")])
    known = [indexed_commits(pending)]
    archived = timeline_of([commit("02"), commit("03")])
    tables: list[Any] = [SimpleNamespace(timeline=timeline) for timeline in (pending, archived)]
    assert [searched._know_archived(table, known) for table in tables] == [True, False]


def test_the_commits_that_an_index_has() -> None:
    indexed = indexed_commits(
        timeline_of([commit("01"), commit("02", InstantState.INFLIGHT), commit("03"), commit("05")])
    )
    assert searched._parse(indexed.render()) == indexed
    assert [time for time in ("00", "01", "02", "03", "04", "05", "06") if indexed.have(commit(time))] == [
        *("00", "01", "03", "05")
    ]
    assert indexed.have_all_before("01")
    assert not indexed.have_all_before("03")
    assert not indexed.have_all_before("06")
    many = indexed_commits(timeline_of([commit(f"{number:02}") for number in range(10, 50)]))
    assert many.before == "30"
    assert many.have_all_before("12")
    assert many.have_all_before("49")
    assert not many.have(commit("50"))
    assert indexed_commits(timeline_of([])).render() == ""
