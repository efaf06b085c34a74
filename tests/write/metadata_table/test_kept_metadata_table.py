"""Writes and services of tables with a metadata table that hudisql keeps, killed at each of their steps."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import UnsupportedTableError
from hudisql.format.metadata_table.column_statistics import column_statistics
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, PARTITION_STATS, RECORD_INDEX
from hudisql.services.clean.clean_action import clean_table
from hudisql.services.clean.clean_plan import CleanOptions, CleanPolicy
from hudisql.services.compaction.compaction_action import (
    CompactionOptions,
    run_compaction,
    schedule_compaction,
)
from hudisql.services.compaction.compaction_plan import parse_compaction_plan
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.listing_comparison import compare_listings
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.metadata_table import merged_records
from hudisql.table.metadata_table.kept_metadata_table import find_kept, has_partitioned_records
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.table.metadata_table.statistics_columns import statistics_columns
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.metadata_table import key_changes, metadata_commit, metadata_compaction
from hudisql.write.metadata_table.new_metadata_table import create_metadata_table
from hudisql.write.transaction.commit import OpenCommit
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from hudisql.write.transaction.schema_change import commit_schema
from tests.fault_injection import run_and_kill
from tests.opened import open_at, open_kept
from tests.oracle.comparison import our_rows
from tests.soak import parameters
from tests.write.crashed_commits import commit_a_file
from tests.write.metadata_table.kept_indexes import assert_finds_all_keys, stored_keys

MADE = ("column_stats", "files", "partition_stats", "record_index")
MOST_STEPS = 80


def _commit(table: HudiTable) -> object:
    return commit_a_file(table.storage, table.base_path)


def _overwrite(table: HudiTable) -> object:
    return commit_a_file(table.storage, table.base_path, overwrites=True)


def _compact(table: HudiTable) -> object:
    pending = sorted(table.timeline.pending_compactions)
    if not pending:
        scheduled = schedule_compaction(table, CompactionOptions(max_delta_commits=1), SINGLE_WRITER)
        pending = [] if scheduled is None else [scheduled.timestamp]
    return [run_compaction(None, table.reopened(), each, WriteOptions()) for each in pending]


def _clean(table: HudiTable) -> object:
    options = CleanOptions(CleanPolicy.KEEP_LATEST_FILE_VERSIONS, versions_retained=1)
    return clean_table(table, options, SINGLE_WRITER)


def _add_a_column(table: HudiTable) -> object:
    if "added" not in table.schema.names:
        commit_schema(table, table.schema.append(pa.field("added", pa.decimal128(12, 2))))
    return None


ACTIONS: dict[str, tuple[str, Callable[[HudiTable], object]]] = {
    "commit": ("v9_cow_upsert_delete", _commit),
    "overwrite": ("v9_cow_upsert_delete", _overwrite),
    "clean": ("v9_cow_upsert_delete", _clean),
    "compaction": ("v9_mor_avro_logs_deletes", _compact),
    "added column": ("v9_cow_upsert_delete", _add_a_column),
    "added column of version 8": ("v8_mor_avro_logs_deletes", _add_a_column),
    "added column of version 6": ("mor_bootstrap_meta", _add_a_column),
    "commit of version 8": ("v8_mor_avro_logs_deletes", _commit),
    "clean of version 8": ("v8_mor_avro_logs_deletes", _clean),
    "compaction of version 8": ("v8_mor_avro_logs_deletes", _compact),
    "commit of version 6": ("v6_mor_mdt_logs", _commit),
    "overwrite of version 6": ("v6_mor_mdt_logs", _overwrite),
    "clean of version 6": ("v6_mor_mdt_logs", _clean),
    "compaction of version 6": ("v6_mor_mdt_logs", _compact),
    "overwrite of skeletons of version 6": ("cow_bootstrap_meta", _overwrite),
    "commit beside skeletons of version 6": ("mor_bootstrap_meta", _commit),
}
IN_CI = ("commit", "clean", "compaction", "added column")


def assert_kept(path: str) -> None:
    """The metadata table is kept, lists the files of the storage, and has statistics of all live files."""
    table = open_at(path)
    metadata = find_kept(table)
    assert metadata is not None
    assert [found for found in compare_listings(metadata) if found.differs] == []
    columns = statistics_columns(table, ())
    assert columns
    known = {
        (found.file_name, found.column_name)
        for found in column_statistics(metadata.read_records(COLUMN_STATS))
    }
    files = [
        file
        for each in load_file_slices(table)
        for file in (each.base_file, *each.log_files)
        if file is not None and file.length
    ]
    names = {file.path.rpartition("/")[2] for file in files}
    assert names
    if RECORD_INDEX in metadata.indexes and not has_partitioned_records(table):
        assert_finds_all_keys(metadata)
    assert {(name, column) for name in names for column in columns} <= known


@pytest.mark.parametrize(
    ("action", "with_record_index"),
    parameters(
        [
            *((action, False) for action in ACTIONS),
            *((action, True) for action in ("commit", "overwrite", "clean", "compaction")),
            ("compaction of version 8", True),
        ],
        in_ci=[(action, False) for action in IN_CI],
    ),
)
def test_a_killed_action_leaves_the_metadata_table_as_before_or_after(
    golden: Callable[[str], Any], tmp_path: Path, action: str, with_record_index: bool
) -> None:
    name, run = ACTIONS[action]
    original = str(shutil.copytree(golden(name).table, tmp_path / "original"))
    table = open_at(original)
    if table.timeline.layout.has_completion_times or not table.properties.metadata_partitions:
        create_metadata_table(table, with_record_index=with_record_index)
    if action.startswith("clean of"):
        # Without it there is nothing to clean.
        _compact(open_at(original))
    assert_kept(original)
    before = _count(original)
    path = str(tmp_path / "table")
    for step in range(MOST_STEPS):
        shutil.copytree(original, path)
        is_killed = run_and_kill(path, lambda storage: run(open_table(storage, path)), step)
        shutil.rmtree(Path(path, ".hoodie/.heartbeat"), ignore_errors=True)
        table = open_at(path)
        metadata = find_kept(table)
        assert metadata is not None
        if RECORD_INDEX in metadata.indexes:
            assert_finds_all_keys(metadata)
        # What readers plan by it is what they plan by the storage.
        listed = metadata.list_files()
        live = {file.path.rpartition("/")[2] for each in load_file_slices(table) for file in _files(each)}
        assert live <= {found for files in listed.values() for found in files.names.to_pylist()}
        assert _count(path) == before or action.partition(" ")[0] in ("commit", "overwrite")
        run(open_at(path))
        assert_kept(path)
        shutil.rmtree(path)
        if not is_killed:
            assert step > 5
            return
    raise AssertionError("the action never came to its end")


def _files(file_slice: Any) -> list[Any]:
    return [file for file in (file_slice.base_file, *file_slice.log_files) if file is not None]


def _count(path: str) -> int:
    return our_rows(open_at(path)).num_rows


def test_deltacommits_are_compacted_and_old_files_deleted(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 2)
    path = str(shutil.copytree(golden("v9_cow_upsert_delete").table, tmp_path / "table"))
    create_metadata_table(open_at(path))
    for number in range(9):
        (_overwrite if number % 2 else _commit)(open_at(path))
        if number == 5:
            _clean(open_at(path))
        assert_kept(path)
    indexes = Path(path, ".hoodie/metadata")
    for index in ("files", "column_stats", "partition_stats"):
        bases = {found.name.split("_")[0]: 0 for found in (indexes / index).glob("*.hfile")}
        for found in (indexes / index).glob("*.hfile"):
            bases[found.name.split("_")[0]] += 1
        assert set(bases.values()) == {2}
        assert len(list((indexes / index).glob(".*.log.*"))) < 12


def test_a_compaction_leaves_no_log_files_in_any_file_group(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi 1.2 archives all instants before it, and skips the records of their log files."""
    path = str(shutil.copytree(golden("v9_cow_upsert_delete").table, tmp_path / "table"))
    create_metadata_table(open_at(path), with_record_index=True)
    for _ in range(3):
        _overwrite(open_at(path))
    metadata = open_kept(path)
    sizes = [
        (file_slice.log_length, file_slice.length - file_slice.log_length)
        for index in metadata.indexes
        for file_slice in metadata.latest_slices(index)
        if file_slice.log_length
    ]
    # Together they are large beside the base files, and one of them is not.
    factor = sum(base for _, base in sizes) / sum(logs for logs, _ in sizes)
    assert any(logs * factor < base for logs, base in sizes)
    monkeypatch.setattr(metadata_compaction, "_BASE_BYTES_PER_LOG_BYTE", factor * 0.99)
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 2)
    metadata_compaction.prepare_metadata_table(open_at(path))
    assert not any(found.action == "commit" for found in open_kept(path).own.timeline.completed)
    monkeypatch.setattr(metadata_compaction, "_BASE_BYTES_PER_LOG_BYTE", factor * 1.01)
    metadata_compaction.prepare_metadata_table(open_at(path))
    metadata = open_kept(path)
    assert any(found.action == "commit" for found in metadata.own.timeline.completed)
    assert not any(found.log_files for index in metadata.indexes for found in metadata.latest_slices(index))
    assert_kept(path)


def test_none_is_made_while_another_writer_may_be_active(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    """One that has begun without a metadata table need not write to the new one."""
    path = str(shutil.copytree(golden("v9_cow_upsert_delete").table, tmp_path / "table"))
    timeline = Path(path, ".hoodie/timeline")
    for state in ("commit.requested", "inflight"):
        (timeline / f"20991124160300180.{state}").touch()
    with pytest.raises(UnsupportedTableError, match="unfinished commit 20991124160300180"):
        create_metadata_table(open_at(path))
    assert not Path(path, ".hoodie/metadata").exists()


def test_an_index_of_a_column_that_is_not_measured_is_not_kept(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    """Readers would leave out new files, which have statistics of the other columns only."""
    path = str(shutil.copytree(golden("v9_cow_upsert_delete").table, tmp_path / "table"))
    create_metadata_table(open_at(path))
    assert_kept(path)
    definitions = Path(path, ".hoodie/.index_defs/index.json")
    document = json.loads(definitions.read_text())
    document["indexDefinitions"][COLUMN_STATS]["sourceFields"].append("place.city")
    definitions.write_text(json.dumps(document))
    assert find_kept(open_at(path)) is None
    _commit(open_at(path))
    metadata = open_kept(path)
    assert metadata.indexes == ("files",)
    assert [found for found in compare_listings(metadata) if found.differs] == []


def test_partitions_named_by_a_key_generator_have_statistics(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    """Hudi 1.2 would make those that are missing, of a bootstrapped table without the external files."""
    path = str(shutil.copytree(golden("v9_cow_upsert_delete").table, tmp_path / "table"))
    properties = Path(path, ".hoodie/hoodie.properties")
    properties.write_text(properties.read_text().replace("type=SIMPLE", "type=TIMESTAMP"))
    table = open_at(path)
    assert table.partition_columns == ()
    assert PARTITION_STATS in create_metadata_table(table).indexes
    assert_kept(path)


def test_a_killed_compaction_is_on_the_timeline_before_its_files_are_there(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hudi 1.2 reads no log files beside a newer base file of no instant, and runs a plan that is there."""
    original = str(shutil.copytree(golden("v9_cow_upsert_delete").table, tmp_path / "original"))
    create_metadata_table(open_at(original))
    _commit(open_at(original))
    path = str(tmp_path / "table")
    for step in range(MOST_STEPS):
        monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 1)
        shutil.copytree(original, path)
        is_killed = run_and_kill(
            path, lambda storage: metadata_compaction.prepare_metadata_table(open_table(storage, path)), step
        )
        metadata = Path(path, ".hoodie/metadata")
        bases = {found.stem.rpartition("_")[2] for found in metadata.glob("*/*.hfile")} - {"0" * 17}
        timeline = metadata / ".hoodie/timeline"
        plans = [found for found in timeline.glob("*.compaction.requested") if found.name[0] != "."]
        assert bases <= {found.name.partition(".")[0] for found in plans}
        for plan in plans:
            operations = parse_compaction_plan(plan.read_bytes(), str(plan)).operations
            assert all(each.metrics["TOTAL_LOG_FILES_SIZE"] > 0 for each in operations)
        monkeypatch.undo()
        _commit(open_at(path))
        assert_kept(path)
        shutil.rmtree(path)
        if not is_killed:
            assert bases
            return
    raise AssertionError("the compaction never came to its end")


def test_a_compaction_of_blocks_that_cannot_be_read_leaves_nothing(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(shutil.copytree(golden("v9_cow_upsert_delete").table, tmp_path / "table"))
    create_metadata_table(open_at(path))
    _commit(open_at(path))
    metadata = Path(path, ".hoodie/metadata")
    before = {found for found in metadata.rglob("*") if not found.name.startswith(".")}
    read = merged_records.read_record_layers

    def read_some(own: MetadataTable, found: FileSlice) -> list[merged_records.RecordLayer]:
        if found.partition_path == PARTITION_STATS:
            raise UnsupportedTableError("a block of another type")
        return read(own, found)

    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 1)
    monkeypatch.setattr(merged_records, "read_record_layers", read_some)
    metadata_compaction.prepare_metadata_table(open_at(path))
    assert {found for found in metadata.rglob("*") if not found.name.startswith(".")} == before
    assert_kept(path)


def test_two_writers_at_once_keep_the_metadata_table(golden: Callable[[str], Any], tmp_path: Path) -> None:
    path = str(shutil.copytree(golden("v9_cow_upsert_delete").table, tmp_path / "table"))
    create_metadata_table(open_at(path))

    def meanwhile(_: OpenCommit) -> dict[str, str]:
        commit_a_file(Storage(), path, is_shared=True)
        assert find_kept(open_at(path)) is not None
        return {}

    commit_a_file(Storage(), path, is_shared=True, begun=meanwhile)
    assert_kept(path)
    assert len(open_at(path).timeline.pending) == 0


def test_a_record_index_is_kept_until_a_key_has_two_rows(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of Apache Hudi; without it the other indexes are kept."""
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 2)
    path = str(shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / "table"))
    for _ in range(4):
        _overwrite(open_at(path))
        metadata = open_kept(path)
        assert_finds_all_keys(metadata)
    assert list(Path(path, ".hoodie/metadata/record_index").glob("*.hfile"))
    # The rows of a file once more.
    _commit(open_at(path))
    metadata = open_kept(path)
    assert metadata.indexes == ("column_stats", "files", "partition_stats")
    assert not Path(path, ".hoodie/metadata/record_index").exists()
    assert [found for found in compare_listings(metadata) if found.differs] == []


def test_a_commit_of_too_many_rows_drops_the_record_index_alone(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / "table"))
    # The statistics of this commit name no rows.
    for most, indexes in ((0, MADE), (-1, MADE[:3])):
        monkeypatch.setattr(metadata_commit, "_MOST_NEW_KEYS", most)
        _overwrite(open_at(path))
        metadata = open_kept(path)
        assert metadata.indexes == indexes


def test_a_record_index_that_cannot_be_read_is_dropped_by_the_next_commit(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    path = str(shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / "table"))
    files = list(Path(path, ".hoodie/metadata/record_index").glob("*record-index-0000-0*"))
    assert files
    for file in files:
        file.unlink()
    _overwrite(open_at(path))
    metadata = open_kept(path)
    assert metadata.indexes == ("column_stats", "files", "partition_stats")


def test_no_record_index_is_made_of_keys_that_two_rows_have(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    path = str(shutil.copytree(golden("v9_cow_upsert_delete").table, tmp_path / "table"))
    _commit(open_at(path))
    create_metadata_table(open_at(path))
    made = create_metadata_table(open_at(path), with_record_index=True)
    assert made.indexes == ("column_stats", "files", "partition_stats")
    assert "row(s) have a record key that another row has" in str(made.refusal)
    assert find_kept(open_at(path)) is not None
    assert not Path(path, ".hoodie/metadata/record_index").exists()


def test_keys_that_are_too_long_for_an_index_drop_it(
    golden: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(shutil.copytree(golden("v9_cow_mdt_compacted").table, tmp_path / "table"))
    longest = max(map(len, stored_keys(open_at(path))))
    for most, indexes in ((longest, MADE), (longest - 1, MADE[:3])):
        monkeypatch.setattr(key_changes, "_MOST_KEY_BYTES", most)
        _overwrite(open_at(path))
        assert open_at(path).properties.metadata_partitions == indexes
    path = str(shutil.copytree(golden("v9_cow_upsert_delete").table, tmp_path / "other"))
    made = create_metadata_table(open_at(path), with_record_index=True)
    assert "a record key has more than the 32767 bytes" in str(made.refusal)
