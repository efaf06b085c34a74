"""Rollbacks of completed commits keep the metadata table, killed at each of their steps."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudisql.format.metadata_table.metadata_records import FILES
from hudisql.format.timeline.instant import ROLLBACK
from hudisql.services.rollback import rollback_action
from hudisql.services.rollback.rollback_action import roll_back_commit
from hudisql.table.files.listing_comparison import compare_listings
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.metadata_table.kept_metadata_table import find_kept
from hudisql.write.metadata_table import metadata_compaction, metadata_rollback
from hudisql.write.metadata_table.deltacommit_files import has_instant
from hudisql.write.metadata_table.new_metadata_table import create_metadata_table
from hudisql.write.transaction import instant_rollback
from hudisql.write.transaction.commit import begin_commit
from hudisql.write.transaction.failed_writes import roll_back_failed_writes
from hudisql.write.transaction.instant_rollback import roll_back_instant
from hudisql.write.transaction.rollback_files import InstantFiles, find_files
from tests.fault_injection import run_and_kill
from tests.opened import open_at, open_kept
from tests.oracle.comparison import our_rows
from tests.soak import parameters
from tests.write.metadata_table.test_kept_metadata_table import (
    _add_a_column,
    _clean,
    _commit,
    _compact,
    _overwrite,
    assert_kept,
)

MOST_STEPS = 80
UNDONE: dict[str, tuple[str, Callable[[HudiTable], object]]] = {
    "commit": ("v9_cow_upsert_delete", _commit),
    "overwrite": ("v9_cow_upsert_delete", _overwrite),
    "compaction": ("v9_mor_avro_logs_deletes", _compact),
    "added column": ("v9_cow_upsert_delete", _add_a_column),
    "added column of version 8": ("v8_mor_avro_logs_deletes", _add_a_column),
    "added column of version 6": ("mor_bootstrap_meta", _add_a_column),
    "commit of version 8": ("v8_mor_avro_logs_deletes", _commit),
    "commit of version 6": ("v6_mor_mdt_logs", _commit),
    "overwrite of version 6": ("v6_mor_mdt_logs", _overwrite),
    "compaction of version 6": ("v6_mor_mdt_logs", _compact),
    "overwrite of skeletons of version 6": ("cow_bootstrap_meta", _overwrite),
    "commit beside skeletons of version 6": ("mor_bootstrap_meta", _commit),
}
Golden = Callable[[str], Any]


def _copied(golden: Golden, name: str, path: Path, *, with_record_index: bool = False) -> str:
    """A table with a metadata table: that of Apache Hudi in version 6 if there is one."""
    copied = str(shutil.copytree(golden(name).table, path))
    table = open_at(copied)
    if table.timeline.layout.has_completion_times or not table.properties.metadata_partitions:
        create_metadata_table(table, with_record_index=with_record_index)
    return copied


def _records(path: str) -> dict[str, Any]:
    """All records of the metadata table, by index."""
    metadata = open_kept(path)
    found: dict[str, Any] = {
        index: metadata.read_records(index) for index in metadata.indexes if index != FILES
    }
    texts = {name: (each.keys.to_pylist(), each.values.to_pylist()) for name, each in found.items()}
    listed = {
        partition: sorted(zip(files.names.to_pylist(), files.sizes.to_pylist(), strict=True))
        for partition, files in metadata.list_files().items()
    }
    return {**texts, FILES: {partition: files for partition, files in listed.items() if files}}


def _rows(path: str) -> list[dict[str, Any]]:
    rows = our_rows(open_at(path))
    return rows.sort_by([("_hoodie_record_key", "ascending"), ("_hoodie_file_name", "ascending")]).to_pylist()


def _latest(path: str) -> str:
    return open_at(path).timeline.commits[-1].timestamp


@pytest.mark.parametrize(
    ("action", "with_record_index"),
    parameters(
        [
            *((action, False) for action in UNDONE),
            *((action, True) for action in ("overwrite", "compaction")),
        ],
        in_ci=[("overwrite", True), ("overwrite of version 6", False), ("added column", False)],
    ),
)
def test_a_killed_rollback_of_a_commit_keeps_the_metadata_table(
    golden: Golden, tmp_path: Path, action: str, with_record_index: bool
) -> None:
    name, run = UNDONE[action]
    original = _copied(golden, name, tmp_path / "original", with_record_index=with_record_index)
    assert_kept(original)
    rows, records = _rows(original), _records(original)
    run(open_at(original))
    assert_kept(original)
    # Two rows of a key have ended the record index.
    records = {name: records[name] for name in open_kept(original).indexes}
    undone, later = _latest(original), _rows(original)
    path = str(tmp_path / "table")
    for step in range(MOST_STEPS):
        shutil.copytree(original, path)
        is_killed = run_and_kill(
            path, lambda storage: roll_back_commit(open_table(storage, path), undone), step
        )
        table = open_at(path)
        metadata = find_kept(table)
        assert metadata is not None
        assert _rows(path) in (rows, later)
        # What readers plan by it is what they plan by the storage.
        listed = {found for files in metadata.list_files().values() for found in files.names.to_pylist()}
        live = {file.path.rpartition("/")[2] for each in load_file_slices(table) for file in _files(each)}
        assert live <= listed
        if is_killed and undone in {each.timestamp for each in table.timeline.instants}:
            if step % 2:
                roll_back_commit(table, undone)
            else:
                _undo_or_complete(table, undone)
        elif is_killed:
            roll_back_failed_writes(table)
        assert open_at(path).timeline.pending == ()
        assert undone not in {each.timestamp for each in open_at(path).timeline.instants}
        assert _rows(path) == rows
        assert _records(path) == records
        assert_kept(path)
        _commit(open_at(path))
        assert_kept(path)
        shutil.rmtree(path)
        if not is_killed:
            assert step > 8
            return
    raise AssertionError("the rollback never came to its end")


def _undo_or_complete(table: HudiTable, undone: str) -> None:
    if not roll_back_failed_writes(table):
        roll_back_commit(table.reopened(), undone)


def _files(file_slice: Any) -> list[Any]:
    return [file for file in (file_slice.base_file, *file_slice.log_files) if file is not None]


@pytest.mark.parametrize("name", ["v9_cow_upsert_delete", "v6_mor_mdt_logs"])
def test_commits_are_rolled_back_beneath_a_clean(golden: Golden, tmp_path: Path, name: str) -> None:
    path = _copied(golden, name, tmp_path / "table")
    _overwrite(open_at(path))
    cleaned = str(shutil.copytree(path, tmp_path / "cleaned"))
    _clean(open_at(cleaned))
    records = _records(cleaned)
    for run in (_commit, _commit, _clean):
        run(open_at(path))
    for _ in range(2):
        roll_back_commit(open_at(path), _latest(path))
        assert_kept(path)
    assert _records(path) == {name: records[name] for name in open_kept(path).indexes}


@pytest.mark.parametrize("name", ["v9_cow_upsert_delete", "v6_mor_mdt_logs"])
def test_a_commit_that_was_compacted_is_rolled_back_without_the_metadata_table(
    golden: Golden, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apache Hudi refuses it then, and all later writes."""
    original = _copied(golden, name, tmp_path / "original")
    rows = _rows(original)
    _overwrite(open_at(original))
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 1)
    metadata_compaction.prepare_metadata_table(open_at(original))
    assert open_kept(original).last_compaction
    undone = _latest(original)
    path = str(shutil.copytree(original, tmp_path / "table"))
    roll_back_commit(open_at(path), undone)
    assert open_at(path).properties.metadata_partitions == ()
    assert not Path(path, ".hoodie/metadata").exists()
    assert _rows(path) == rows
    # As Apache Hudi leaves it.
    path = str(shutil.copytree(original, tmp_path / "left"))
    monkeypatch.setattr(rollback_action, "prepare_rollback", lambda *_: False)
    assert run_and_kill(path, lambda storage: roll_back_commit(open_table(storage, path), undone), 3)
    assert [each.action for each in open_at(path).timeline.pending] == [ROLLBACK]
    assert open_at(path).properties.metadata_partitions
    assert roll_back_failed_writes(open_at(path))
    assert open_at(path).properties.metadata_partitions == ()
    assert _rows(path) == rows


def test_a_commit_names_the_metadata_table_that_a_failed_write_has_ended(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = _copied(golden, "v9_cow_upsert_delete", tmp_path / "original")
    path = str(tmp_path / "table")
    for step in range(MOST_STEPS):
        shutil.copytree(original, path)
        assert run_and_kill(path, lambda storage: _commit(open_table(storage, path)), step)
        (*_, failed) = open_at(path).timeline.pending or (None,)
        shutil.rmtree(Path(path, ".hoodie/.heartbeat"), ignore_errors=True)
        if failed is not None and has_instant(open_kept(path), failed.timestamp):
            break
        shutil.rmtree(path)
    monkeypatch.setattr(metadata_rollback, "undo", lambda *_: False)
    assert begin_commit(open_at(path), "INSERT").dropped_metadata_table


@pytest.mark.parametrize("name", ["v9_cow_upsert_delete", "v6_mor_mdt_logs"])
def test_a_commit_before_the_metadata_table_is_rolled_back_without_it(
    golden: Golden, tmp_path: Path, name: str
) -> None:
    path = str(shutil.copytree(golden(name).table, tmp_path / "table"))
    _overwrite(open_at(path))
    create_metadata_table(open_at(path), with_record_index=name.startswith("v9"))
    assert_kept(path)
    roll_back_commit(open_at(path), _latest(path))
    assert open_at(path).properties.metadata_partitions == ()


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_log_file_with_a_rollback_block_is_listed(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    """Commits of version 6 may have written to one log file; the block that ends one is in another."""
    path = _copied(golden, "v6_mor_mdt_logs", tmp_path / "table")
    (shared, *_) = sorted(map(str, Path(path).glob("dt=*/.*.log.*")))
    _commit(open_at(path))
    undone, rows = _latest(path), _rows(path)

    def find_with_shared(*given: Any, **options: Any) -> InstantFiles:
        return replace(find_files(*given, **options), shared=frozenset({shared}))

    monkeypatch.setattr(instant_rollback, "find_files", find_with_shared)
    if not is_kept:
        monkeypatch.setattr(metadata_rollback, "find_kept", lambda _: None)
        roll_back_instant(open_at(path), open_at(path).timeline.commits[-1], undoes_completed=True)
        assert open_at(path).properties.metadata_partitions == ()
        return
    roll_back_commit(open_at(path), undone)
    assert len(list(Path(shared).parent.glob(".*.log.*_1-0-1"))) == 1
    assert len(_rows(path)) < len(rows)
    assert [found for found in compare_listings(open_kept(path)) if found.differs] == []


STATEMENTS = (
    "INSERT INTO {t} VALUES (50, 'new', 2, 'p0'), (51, 'new', 2, 'x/y=%')",
    "UPDATE {t} SET label = 'new', dt = 'p1' WHERE id IN (2, 3)",
    "DELETE FROM {t} WHERE id IN (4, 5)",
    "INSERT OVERWRITE {t} PARTITION (dt = 'p0') SELECT id, 'new', seq FROM {t} WHERE dt = 'p0' AND id < 10",
    "ALTER TABLE {t} DROP PARTITION (dt = 'p1')",
    "ALTER TABLE {t} ADD COLUMNS (late INT)",
    "CALL run_clustering(table => '{t}')",
)


@pytest.mark.spark
@pytest.mark.hms
@pytest.mark.parametrize(
    ("table_type", "is_partitioned"),
    parameters(
        [(table_type, by) for table_type in ("cow", "mor") for by in (False, True)], in_ci=[("mor", True)]
    ),
)
def test_all_indexes_are_kept(session: Any, tmp_path: Path, table_type: str, is_partitioned: bool) -> None:
    name, path = f"undone.all_{table_type}_{int(is_partitioned)}", str(tmp_path / "t")
    session.sql("CREATE DATABASE IF NOT EXISTS undone")
    session.sql(
        f"CREATE TABLE {name} (id INT, label STRING, seq INT, dt STRING) USING hudi PARTITIONED BY (dt) "
        f"LOCATION '{path}' TBLPROPERTIES (type = '{table_type}', primaryKey = 'id', "
        "preCombineField = 'seq', 'hoodie.write.table.version' = '9')"
    )
    session.sql(
        f"INSERT INTO {name} SELECT CAST(id AS INT), concat('l', id), 1, concat('p', id % 2) FROM range(40)"
    )
    kind = "record_level_index" if is_partitioned else "record_index"
    session.sql(f"CALL create_metadata_table(table => '{name}', indexes => '{kind}')")
    if not is_partitioned:
        session.sql(f"CREATE INDEX by_upper ON {name} USING column_stats(label) OPTIONS (expr = 'upper')")
        session.sql(f"CREATE INDEX by_label ON {name} (label)")
    # Its deltacommit comes before those that are rolled back.
    session.sql(f"UPDATE {name} SET label = 'kept' WHERE id = 0")
    indexes = open_kept(path).indexes
    assert len(indexes) == (4 if is_partitioned else 6)
    rows, records = _rows(path), _records(path)
    for statement in STATEMENTS:
        session.sql(statement.replace("{t}", name))
        assert open_kept(path).indexes == indexes
        session.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{_latest(path)}')")
        assert open_kept(path).indexes == indexes, statement
        assert _rows(path) == rows, statement
        assert _records(path) == records, statement
        assert_kept(path)
    session.sql(f"DROP TABLE {name}")
