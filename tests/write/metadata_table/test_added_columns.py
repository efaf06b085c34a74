"""Columns that a commit adds have statistics of all files and partitions."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.format.metadata_table.column_statistics import column_statistics
from hudisql.format.metadata_table.metadata_keys import key_parts
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, PARTITION_STATS
from hudisql.format.schema.meta_columns import RECORD_KEY
from hudisql.services.compaction import compaction_action
from hudisql.services.compaction.compaction_action import (
    CompactionOptions,
    run_compaction,
    schedule_compaction,
)
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.metadata_table.index_definitions import read_index_definitions, set_index_columns
from hudisql.table.metadata_table.kept_metadata_table import find_kept, has_trusted_statistics
from hudisql.table.metadata_table.metadata_table import (
    STATISTICS_OF_SOURCES,
    open_metadata_table,
)
from hudisql.table.metadata_table.statistics_columns import MAX_COLUMNS, statistics_columns
from hudisql.table.metadata_table.statistics_types import OTHER_COLUMNS, may_be_in_files
from hudisql.table.properties.table_configuration import update_table_properties
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.metadata_table import metadata_commit, metadata_compaction, metadata_rollback
from hudisql.write.metadata_table.metadata_commit import PreparedCommit
from hudisql.write.metadata_table.new_metadata_table import create_metadata_table
from hudisql.write.transaction import commit, schema_change
from hudisql.write.transaction.commit import complete_commit, publish_commit
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from hudisql.write.transaction.failed_writes import roll_back_failed_writes
from hudisql.write.transaction.schema_change import commit_schema
from tests.fault_injection import run_and_kill
from tests.opened import open_at, open_kept
from tests.write.crashed_commits import commit_a_file
from tests.write.metadata_table.test_kept_metadata_table import _clean, _overwrite, assert_kept


def _table(golden: Callable[[str], Any], name: str, tmp_path: Path) -> str:
    path = str(shutil.copytree(golden(name).table, tmp_path / "table"))
    create_metadata_table(open_at(path))
    return path


def _add(path: str, *columns: str) -> None:
    table = open_at(path)
    added = [pa.field(column, pa.decimal128(12, 2)) for column in columns]
    commit_schema(table, pa.schema([*table.schema, *added]))


@pytest.mark.parametrize(
    "name",
    ["cow_bootstrap_meta", "v8_mor_avro_logs_deletes", "v9_cow_upsert_delete", "v9_cow_bootstrap_meta"],
)
def test_an_added_column_has_statistics_of_all_files(
    golden: Callable[[str], Any], tmp_path: Path, name: str
) -> None:
    """Apache Hudi leaves out files that have records of the other columns of a filter only."""
    path = _table(golden, name, tmp_path)
    _add(path, "added")
    assert "added" in (statistics_columns(open_at(path), ()) or ())
    assert_kept(path)
    if name != "v8_mor_avro_logs_deletes":
        commit_a_file(Storage(), path)
    assert_kept(path)
    metadata = open_kept(path)
    assert has_trusted_statistics(metadata)
    every = list(column_statistics(metadata.read_records(COLUMN_STATS)))
    found = [statistics for statistics in every if statistics.column_name == "added"]
    rows = {each.file_name: each.values for each in every if each.column_name == RECORD_KEY}
    slices = load_file_slices(open_at(path))
    live = [file for each in slices for file in (each.base_file, *each.log_files) if file and file.length]
    assert {file.path.rpartition("/")[2] for file in live} <= {each.file_name for each in found}
    assert all(each.nulls == each.values == rows[each.file_name] for each in found)
    if PARTITION_STATS not in metadata.indexes:
        return
    (part,) = key_parts(["added"]).values()
    records = metadata.read_records(PARTITION_STATS)
    of_added = [
        stored
        for key, stored in zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True)
        if key.startswith(part)
    ]
    partitions = {each.partition_path for each in load_file_slices(open_at(path))}
    assert {stored["fileName"] for stored in of_added} == partitions
    assert all(stored["nullCount"] > 0 and stored["maxValue"] is None for stored in of_added)


@pytest.mark.parametrize(
    "name",
    [
        "cow_bootstrap_meta",
        "mor_bootstrap_meta",
        "v8_mor_avro_logs_deletes",
        "v9_cow_upsert_delete",
        "v9_cow_bootstrap_meta",
    ],
)
def test_the_statistics_of_a_column_that_files_have_are_not_made_up(
    golden: Callable[[str], Any], tmp_path: Path, name: str
) -> None:
    path = _table(golden, name, tmp_path)
    before = open_at(path).schema
    commit_schema(open_at(path), pa.schema([each for each in before if each.name != "fare"]))
    assert open_at(path).properties.metadata_partitions == ()
    create_metadata_table(open_at(path))
    _add(path, "other")
    assert "other" in (statistics_columns(open_at(path), ()) or ())
    commit_schema(open_at(path), open_at(path).schema.append(before.field("fare").with_name("FARE")))
    assert statistics_columns(open_at(path), ()) is None
    assert open_kept(path).indexes == ("files",)


@pytest.mark.parametrize("name", ["v6_mor_mdt_logs", "v9_cow_mdt_compacted"])
def test_what_files_have_beside_the_columns_of_hudis_statistics_is_unknown(
    golden: Callable[[str], Any], tmp_path: Path, name: str
) -> None:
    path = str(shutil.copytree(golden(name).table, tmp_path / "table"))
    assert COLUMN_STATS in open_kept(path).indexes
    _add(path, "added")
    assert not {COLUMN_STATS, PARTITION_STATS} & {*open_kept(path).indexes}


def _kill_adding(path: str) -> None:
    """Kill a process that adds a column before its commit completes."""
    for step in range(80):
        copied = str(shutil.copytree(path, f"{path}_{step}"))
        assert run_and_kill(copied, partial(_add_at, copied), step)
        if "added" in (statistics_columns(open_at(copied), ()) or ()):
            shutil.rmtree(path)
            shutil.move(copied, path)
            return
        shutil.rmtree(copied)
    raise AssertionError("the list of the columns with statistics never had the new one")


def _add_at(path: str, storage: Storage) -> None:
    _add_to(open_table(storage, path))


def _add_to(table: HudiTable) -> None:
    commit_schema(table, table.schema.append(pa.field("added", pa.int64())))


@pytest.mark.parametrize("is_rolled_back_by_hudi", [False, True])
def test_a_commit_that_was_killed_says_nothing_of_the_columns_of_others(
    golden: Callable[[str], Any], tmp_path: Path, is_rolled_back_by_hudi: bool
) -> None:
    path = _table(golden, "v9_cow_upsert_delete", tmp_path)
    types = open_kept(path).own.properties.get(STATISTICS_OF_SOURCES)
    _kill_adding(path)
    assert "@" in (open_kept(path).own.properties.get(STATISTICS_OF_SOURCES) or "")
    if is_rolled_back_by_hudi:
        # It does not know hudisql's property, nor does it change the list.
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(metadata_rollback, "settle_statistics", lambda _: None)
            assert roll_back_failed_writes(open_at(path))
    else:
        assert roll_back_failed_writes(open_at(path))
        assert "added" not in (statistics_columns(open_at(path), ()) or ())
        assert open_kept(path).own.properties.get(STATISTICS_OF_SOURCES) == types
        assert_kept(path)
    # The other writer adds a column of this name, of which only its own files have statistics.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(metadata_commit, "added_columns", lambda *_: ())
        patched.setattr(metadata_compaction, "settle_statistics", lambda _: None)
        _add_to(open_at(path))
    set_index_columns(open_at(path), COLUMN_STATS, [*(statistics_columns(open_at(path), ()) or ()), "added"])
    assert find_kept(open_at(path)) is None
    commit_a_file(Storage(), path)
    assert open_kept(path).indexes == ("files",)


@pytest.mark.parametrize(
    "name", ["mor_upsert_only_updates", "v8_mor_avro_logs_deletes", "v9_mor_avro_logs_deletes"]
)
def test_a_compaction_beside_a_commit_that_adds_a_column_has_its_statistics(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = _table(golden, name, tmp_path)
    planned = schedule_compaction(open_at(path), CompactionOptions(max_delta_commits=1), SINGLE_WRITER)
    assert planned is not None

    def add_first(*given: Any) -> object:
        _add(path, "added")
        return publish_commit(*given)

    monkeypatch.setattr(compaction_action, "publish_commit", add_first)
    run_compaction(None, open_at(path), planned.timestamp, WriteOptions())
    assert "added" in (statistics_columns(open_at(path), ()) or ())
    assert_kept(path)


@pytest.mark.parametrize(
    "name", ["mor_upsert_only_updates", "v8_mor_avro_logs_deletes", "v9_mor_avro_logs_deletes"]
)
def test_a_commit_that_adds_a_column_has_statistics_of_what_was_compacted_beside_it(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = _table(golden, name, tmp_path)
    planned = schedule_compaction(open_at(path), CompactionOptions(max_delta_commits=1), SINGLE_WRITER)
    assert planned is not None

    def compact_first(*given: Any) -> object:
        run_compaction(None, open_at(path), planned.timestamp, WriteOptions())
        return complete_commit(*given)

    monkeypatch.setattr(schema_change, "complete_commit", compact_first)
    _add(path, "added")
    assert "added" in (statistics_columns(open_at(path), ()) or ())
    assert_kept(path)


@pytest.mark.parametrize(
    ("name", "is_new"),
    [("cow_bootstrap_meta", False), ("v9_cow_upsert_delete", True), ("v8_mor_avro_logs_deletes", True)],
)
def test_another_writer_may_have_dropped_the_column_since_the_statistics_were_made(
    golden: Callable[[str], Any], tmp_path: Path, name: str, is_new: bool
) -> None:
    path = _table(golden, name, tmp_path)
    field = pa.field("amount", pa.decimal128(12, 2)) if is_new else open_at(path).schema.field("fare")
    if is_new:
        _add(path, "amount")
    with pytest.MonkeyPatch.context() as patched:
        # Apache Hudi keeps the metadata table.
        patched.setattr(commit, "prepare_commit", lambda *_: PreparedCommit({}))
        patched.setattr(commit, "write_commit", lambda *_: True)
        commit_schema(
            open_at(path), pa.schema([each for each in open_at(path).schema if each.name != field.name])
        )
    metadata = open_metadata_table(open_at(path))
    assert metadata is not None
    assert may_be_in_files(metadata, [field.name])
    assert not may_be_in_files(metadata, ["other"])


@pytest.mark.parametrize("name", ["mor_bootstrap_meta", "v9_cow_upsert_delete", "v9_mor_avro_logs_deletes"])
def test_a_column_is_new_after_a_clean(golden: Callable[[str], Any], tmp_path: Path, name: str) -> None:
    """A clean deletes the records of all columns with statistics in one block."""
    path = _table(golden, name, tmp_path)
    _overwrite(open_at(path))
    before = open_at(path).timeline.completed
    _clean(open_at(path))
    assert open_at(path).timeline.completed != before
    _add(path, "added")
    assert "added" in (statistics_columns(open_at(path), ()) or ())
    assert_kept(path)


def test_dropped_statistics_are_no_longer_those_of_hudisql(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    """Those that Apache Hudi makes again may have columns of its own: hudisql must not drop them, too."""
    path = _table(golden, "v9_cow_upsert_delete", tmp_path)
    assert open_kept(path).has_statistics_of_sources
    own = open_kept(path).own
    update_table_properties(own.storage, own.base_path, {OTHER_COLUMNS: None})
    _add(path, "added")
    assert open_kept(path).indexes == ("files",)
    assert open_kept(path).own.properties.get(STATISTICS_OF_SOURCES) is None


def test_a_commit_that_adds_a_column_may_drop_an_index(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(shutil.copytree(golden("v9_cow_upsert_delete").table, tmp_path / "table"))
    create_metadata_table(open_at(path), with_record_index=True)
    monkeypatch.setattr(metadata_commit, "_MOST_NEW_KEYS", -1)
    _add(path, "added")
    assert {*read_index_definitions(open_at(path))} == {COLUMN_STATS}
    assert_kept(path)


def test_columns_beyond_those_that_hudi_measures_have_none(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    path = _table(golden, "v9_cow_upsert_delete", tmp_path)
    _add(path, *(f"c{number:02}" for number in range(MAX_COLUMNS)))
    columns = statistics_columns(open_at(path), ())
    assert columns is not None
    assert "c00" in columns
    assert f"c{MAX_COLUMNS - 1:02}" not in columns
    before = columns
    _add(path, "later")
    assert statistics_columns(open_at(path), ()) == before
    assert_kept(path)


def test_a_column_beside_chosen_ones_has_none(golden: Callable[[str], Any], tmp_path: Path) -> None:
    """Apache Hudi with `hoodie.metadata.index.column.stats.column.list` adds none either."""
    path = str(shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / "table"))
    chosen = statistics_columns(open_at(path), ())
    assert chosen
    set_index_columns(open_at(path), COLUMN_STATS, chosen[:-1])
    _add(path, "added")
    assert statistics_columns(open_at(path), ()) == chosen[:-1]
