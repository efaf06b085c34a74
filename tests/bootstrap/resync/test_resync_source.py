"""The source of a resync: found by the table's properties, and compared with what the table has taken."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from hudisql.bootstrap.blockers import blockers_of
from hudisql.bootstrap.resync.resync_plan import NewFile, ResyncRequest, plan_resync
from hudisql.bootstrap.resync.resync_rows import SourceRows
from hudisql.bootstrap.resync.run_resync import check_sources_unchanged
from hudisql.bootstrap.resync.source_comparison import scan_table_source
from hudisql.bootstrap.source.source_files import external_file
from hudisql.context import Context
from hudisql.errors import InvalidArgumentError, SourceChangedError, SourceError
from hudisql.format import table_properties as keys
from hudisql.format.timeline.instant import FULL_BOOTSTRAP_INSTANT_TIME
from hudisql.services.archive.archive_action import archive_table
from hudisql.services.archive.archive_plan import ArchiveOptions
from hudisql.services.clean.clean_plan import CleanOptions
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from tests.sources import orders, write_parquet
from tests.table.conftest import TableDirectory
from tests.write.crashed_commits import commit_a_file

STORAGE = Storage()
NO_CONTEXT = cast("Context", None)
"""A source by path, without a filter, needs neither Spark nor a metastore."""


def table_of(source: Path, **properties: Any) -> HudiTable:
    made = TableDirectory(source.parent / "table", {keys.BOOTSTRAP_BASE_PATH: str(source), **properties})
    made.commit("00000000000001")
    return open_table(STORAGE, str(made.path))


def test_a_source_that_changed_its_layout_is_a_blocker(tmp_path: Path) -> None:
    source = tmp_path / "source"
    write_parquet(source / "dt=a" / "a.parquet", orders())
    assert blockers_of(scan_table_source(NO_CONTEXT, table_of(source)).findings) == ()
    write_parquet(source / "dt=a" / "hour=1" / "a.parquet", orders())
    (found,) = blockers_of(scan_table_source(NO_CONTEXT, table_of(source)).findings)
    assert "data files at different depths" in found.message
    flat = table_of(source, **{keys.PARTITION_FIELDS: ""})
    (source / "dt=a" / "hour=1" / "a.parquet").unlink()
    found = blockers_of(scan_table_source(NO_CONTEXT, flat).findings)[-1]
    assert found.message == "the source is now partitioned by dt, and the table by nothing"


def test_a_table_of_partitions_in_several_places_needs_its_source_table(tmp_path: Path) -> None:
    write_parquet(tmp_path / "source" / "dt=a" / "a.parquet", orders())
    table = table_of(tmp_path / "source", **{keys.BOOTSTRAP_SOURCE_DIRECTORIES: '["/elsewhere"]'})
    with pytest.raises(InvalidArgumentError, match="partitions in several places"):
        scan_table_source(NO_CONTEXT, table)


def test_a_source_that_is_gone_is_an_error_that_names_the_table(tmp_path: Path) -> None:
    table = table_of(tmp_path / "source")
    with pytest.raises(SourceError, match=rf"Hudi table at {table.base_path} cannot be looked at: no such"):
        scan_table_source(NO_CONTEXT, table)


@pytest.mark.parametrize("is_archived", [False, True])
def test_partitions_that_another_writer_rewrote_without_a_list_are_a_blocker(
    golden: Callable[[str], Any], tmp_path: Path, is_archived: bool
) -> None:
    made = golden("cow_bootstrap_mixed")
    path = tmp_path / "table"
    shutil.copytree(made.table, path)
    table = open_table(STORAGE, str(path))
    if is_archived:
        for _ in range(6):
            commit_a_file(STORAGE, str(path))
        kept = ArchiveOptions(2, 3, clean=CleanOptions(commits_retained=1))
        assert archive_table(open_table(STORAGE, str(path)), kept, SINGLE_WRITER)
        table = open_table(STORAGE, str(path))
    assert (FULL_BOOTSTRAP_INSTANT_TIME in {each.timestamp for each in table.timeline.commits}) != is_archived
    plan = plan_resync(NO_CONTEXT, table, ResyncRequest(name="lake.t"))
    (found,) = plan.blockers
    assert "left no list of the source files" in found.message
    assert plan.partitions == ()


def test_a_file_that_changes_while_it_is_taken_is_an_error(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", orders())
    entry = STORAGE.info(str(path))
    assert entry is not None
    files = [SourceRows(NewFile(external_file(entry), 20), "", {})]
    check_sources_unchanged(STORAGE, files)
    os.utime(path, (1e9, 1e9))
    with pytest.raises(SourceChangedError, match=r"changed or removed during the resync: 1 file: .*a\.pa"):
        check_sources_unchanged(STORAGE, files)
    path.unlink()
    with pytest.raises(SourceChangedError):
        check_sources_unchanged(STORAGE, files)
