"""Archiving of metadata tables' own timelines: what leaves them, and that they are kept all the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudisql.format.metadata_table.metadata_records import FILES
from hudisql.format.paths.file_names import parse_log_file_name
from hudisql.format.timeline.instant import COMMIT, DELTA_COMMIT, Instant
from hudisql.services.archive.archive_action import archive_table
from hudisql.services.archive.archive_plan import ArchiveOptions, compacted_until, plan_archive
from hudisql.services.archive.metadata_archive_plan import plan_metadata_archive
from hudisql.services.clean.clean_plan import CleanOptions
from hudisql.services.rollback.restore import restore_to_savepoint
from hudisql.services.rollback.savepoint import create_savepoint
from hudisql.storage import Storage
from hudisql.table.files.listing_comparison import compare_listings
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.metadata_table.metadata_table import MetadataTable, find_metadata_table
from hudisql.table.timeline.archived_timeline import read_archived_entries
from hudisql.write.metadata_table import metadata_compaction
from hudisql.write.metadata_table.new_metadata_table import create_metadata_table
from hudisql.write.transaction.commit import OpenCommit
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.fault_injection import run_and_kill
from tests.opened import open_at, open_kept
from tests.soak import parameters
from tests.write.crashed_commits import commit_a_file

OPTIONS = ArchiveOptions(2, 3, clean=CleanOptions(commits_retained=1))
TABLES = {6: "v6_mor_mdt_logs", 8: "v8_mor_avro_logs_deletes", 9: "v9_cow_upsert_delete"}
MOST_STEPS = 80


@pytest.fixture(autouse=True)
def compacts_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 2)


@pytest.fixture
def copy(golden: Callable[[str], Any], tmp_path: Path) -> Callable[[int], str]:
    def make(version: int) -> str:
        path = str(shutil.copytree(golden(TABLES[version]).table, tmp_path / "original"))
        if version > 6:
            create_metadata_table(open_at(path))
        return path

    return make


def _commit(path: str, times: int = 1) -> None:
    for _ in range(times):
        commit_a_file(Storage(), path)


def _archive(table: HudiTable) -> list[Instant]:
    return archive_table(table, OPTIONS, SINGLE_WRITER)


def _kept(path: str) -> MetadataTable:
    """The metadata table, which lists the files of the storage."""
    metadata = open_kept(path)
    assert [found for found in compare_listings(metadata) if found.differs] == []
    return metadata


def _archived(metadata: MetadataTable) -> list[Instant]:
    found = {entry.instant for entry in read_archived_entries(metadata.own)}
    return sorted(instant for instant in found if instant.is_completed)


@pytest.mark.parametrize("version", parameters(list(TABLES), in_ci=[6, 9]))
def test_what_the_table_has_archived_is_archived_from_its_metadata_table(
    copy: Callable[[int], str], version: int
) -> None:
    path = copy(version)
    _commit(path, 9)
    before = _kept(path)
    _archive(open_at(path))
    after = _kept(path)
    left = after.own.timeline.instants
    assert 3 <= len(left) < len(before.own.timeline.instants) - 5
    gone = [each for each in before.own.timeline.instants if each not in left]
    assert {each.action for each in gone} == {COMMIT, DELTA_COMMIT}
    assert max(gone) < min(left)
    assert _archived(after) == gone
    assert max(each.timestamp for each in gone) < open_at(path).timeline.commits[0].timestamp
    # Nothing that is not compacted, and all instants that count do so still.
    assert gone[-1].timestamp < max(each.timestamp for each in left if each.action == COMMIT)
    _commit(path, 9)
    _archive(open_at(path))
    assert len(_kept(path).own.timeline.instants) <= len(left) + 3


@pytest.mark.parametrize("version", parameters(list(TABLES), in_ci=[6, 9]))
def test_a_killed_archiving_of_a_metadata_table_is_completed_by_the_next(
    copy: Callable[[int], str], tmp_path: Path, version: int
) -> None:
    original = copy(version)
    _commit(original, 8)
    path = str(tmp_path / "table")
    for step in range(MOST_STEPS):
        shutil.copytree(original, path)
        known = {*open_kept(path).own.timeline.completed}
        is_killed = run_and_kill(path, lambda storage: _archive(open_table(storage, path)), step)
        _kept(path)
        _commit(path, 6)
        _archive(open_at(path))
        metadata = _kept(path)
        archived = _archived(metadata)
        assert len({*archived}) == len(archived)
        assert known <= {*archived, *metadata.own.timeline.completed}
        assert metadata.own.timeline.instants[0] > max(archived)
        assert metadata.own.timeline.pending == ()
        shutil.rmtree(path)
        if not is_killed:
            assert step > 15
            return
    raise AssertionError("archiving never came to its end")


@pytest.mark.parametrize("version", parameters(list(TABLES), in_ci=[6, 9]))
def test_rollbacks_and_restores_find_the_metadata_table_as_they_need_it(
    copy: Callable[[int], str], version: int
) -> None:
    path = copy(version)
    _commit(path, 8)
    _archive(open_at(path))
    for step in range(6, 30, 4):
        run_and_kill(path, lambda storage: commit_a_file(storage, path), step)
        shutil.rmtree(Path(path, ".hoodie/.heartbeat"), ignore_errors=True)
        _commit(path, 2)
        _archive(open_at(path))
        _kept(path)
    create_savepoint(open_at(path))
    _commit(path, 8)
    (saved,) = open_at(path).timeline.savepoints
    _archive(open_at(path))
    assert saved in {each.timestamp for each in _kept(path).own.timeline.commits}
    restore_to_savepoint(open_at(path))
    create_metadata_table(open_at(path))
    _commit(path, 9)
    _archive(open_at(path))
    _kept(path)


@pytest.mark.parametrize("version", [6, 9])
def test_nothing_is_archived_that_the_metadata_table_still_needs(
    copy: Callable[[int], str], version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy(version)
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 100)
    _commit(path, 9)
    _archive(open_at(path))
    assert plan_metadata_archive(_kept(path), OPTIONS) == []
    monkeypatch.setattr(metadata_compaction, "LEAST_DELTA_COMMITS", 2)
    _commit(path)
    _archive(open_at(path))
    compaction = max(each for each in _kept(path).own.timeline.completed if each.action == COMMIT)
    assert open_kept(path).own.timeline.instants[0] <= compaction
    if version == 9:
        # Of those log files, too, which the slice before has until the compaction after next.
        metadata = open_kept(path)
        (latest,) = metadata.latest_slices(FILES)
        parsed = [parse_log_file_name(each.name) for each in metadata.entries(FILES)]
        oldest = min(each.base_instant_time for each in parsed if each is not None)
        assert oldest < latest.base_instant_time
        assert oldest >= metadata.own.timeline.instants[0].timestamp


def test_a_commit_that_the_last_compaction_came_before_stays(copy: Callable[[int], str]) -> None:
    """It was requested first: Hudi 1.2 would archive it from the metadata table, with its log files."""
    path = copy(9)

    def meanwhile(_commit: OpenCommit) -> dict[str, str]:
        for _ in range(4):
            commit_a_file(Storage(), path, is_shared=True)
        return {}

    result = commit_a_file(Storage(), path, is_shared=True, begun=meanwhile)
    late = result.instant_time or ""
    assert compacted_until(open_at(path)) == late
    for _ in range(4):
        assert all(each.timestamp < late for each in plan_archive(open_at(path), OPTIONS))
        _archive(open_at(path))
    assert late in {each.timestamp for each in open_at(path).timeline.commits}
    _commit(path, 4)
    assert compacted_until(open_at(path)) is None
    _archive(open_at(path))
    assert late not in {each.timestamp for each in open_at(path).timeline.commits}
    _kept(path)


def test_an_index_made_after_the_first_instant_was_archived_is_not_taken_for_that_of_hudisql(
    copy: Callable[[int], str],
) -> None:
    """Apache Hudi gives the first index that it makes then the first instant time once more."""
    path = copy(9)
    _commit(path, 9)
    _archive(open_at(path))
    metadata = _kept(path)
    assert metadata.has_statistics_of_sources
    own = metadata.own
    later = own.timeline.completed[-1]
    first = own.instant_path(later).replace(later.timestamp, "0" * 17)
    shutil.copy(own.instant_path(later), first)
    metadata = find_metadata_table(open_at(path))
    assert metadata.own.timeline.instants[0].timestamp == "0" * 17
    assert not metadata.has_statistics_of_sources
    assert not metadata.has_active_first_listing
    assert plan_metadata_archive(metadata, OPTIONS) == []
    # A commit records it, so that it is known when its instant is archived.
    _commit(path, 12)
    _archive(open_at(path))
    metadata = find_metadata_table(open_at(path))
    assert metadata.own.timeline.instants[0].timestamp > "0" * 17
    assert not metadata.has_statistics_of_sources
