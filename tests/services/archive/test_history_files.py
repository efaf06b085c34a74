"""The history of timeline layout 2: files as Hudi 1.2 writes them, merged in layers, whole after a crash."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hudisql.format.timeline.timeline_history import HistoryInstant, read_history
from hudisql.services.archive.history_files import append_to_history
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.completion_times import history_files
from tests.opened import open_at


@pytest.fixture
def table(golden: Callable[[str], Any], tmp_path: Path) -> HudiTable:
    """A table with four files of layer 0."""
    path = shutil.copytree(golden("v9_mor_archived_lsm").table, tmp_path / "table")
    return open_at(path)


def _instant(number: int) -> HistoryInstant:
    time = f"202611220000{number:02d}000"
    return HistoryInstant(time, f"{time[:-1]}1", "deltacommit", b"metadata", b"plan" if number % 2 else None)


def _instants(table: HudiTable) -> list[HistoryInstant]:
    return read_history(table.storage, history_files(table), contents=True)


def test_a_file_has_the_form_of_hudis(table: HudiTable) -> None:
    theirs = pq.ParquetFile(history_files(table)[0].path)
    append_to_history(table, [_instant(0)])
    added = history_files(table)[-1]
    ours = pq.ParquetFile(added.path)
    assert added.length == Path(added.path).stat().st_size
    assert [str(ours.schema.column(each)) for each in range(6)] == [
        str(theirs.schema.column(each)) for each in range(6)
    ]
    assert ours.metadata.metadata == theirs.metadata.metadata
    assert ours.metadata.row_group(0).column(3).compression == "GZIP"


def test_ten_files_of_a_layer_become_one_of_the_next(table: HudiTable) -> None:
    expected = _instants(table)
    for number in range(9):
        append_to_history(table, [_instant(number)])
        expected.append(_instant(number))
        assert _instants(table) == expected
    assert sorted(each.layer for each in history_files(table)) == [0, 0, 0, 1]
    for number in range(9, 12):
        append_to_history(table, [_instant(number)])
    directory = Path(history_files(table)[0].path).parent
    assert len(list(directory.glob("manifest_*"))) == 3
    # The ten files that were merged are gone with the last manifest that named them.
    assert len(list(directory.glob("*.parquet"))) == len(history_files(table)) == 7


@pytest.mark.parametrize("crash", ["before the manifest", "before the version", "without a version"])
def test_a_crash_between_the_files_is_no_hindrance(table: HudiTable, crash: str) -> None:
    before, directory = _instants(table), Path(history_files(table)[0].path).parent
    version, newest = directory / "_version_", directory / "manifest_5"
    old = version.read_text()
    append_to_history(table, [_instant(0)])
    assert (old, version.read_text()) == ("4", "5")
    if crash == "without a version":
        version.unlink()
        assert _instants(table) == [*before, _instant(0)]
    else:
        version.write_text(old)
        if crash == "before the manifest":
            newest.unlink()
        assert _instants(table) == before
        append_to_history(table, [_instant(0)])
        assert (version.read_text(), _instants(table)) == ("5", [*before, _instant(0)])
    append_to_history(table, [_instant(1)])
    assert _instants(table) == [*before, _instant(0), _instant(1)]
