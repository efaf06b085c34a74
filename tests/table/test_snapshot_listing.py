"""A table with a listing lists its directories once, and again only when its timeline has changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import open_table
from hudisql.table.partitions.listed_partitions import list_partitions
from hudisql.write.transaction.commit import begin_commit


class CountingStorage(Storage):
    """Counts the directories that are listed below a table's partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[str] = []

    def list_directories(self, paths: Any, *, missing_ok: bool = False) -> Any:
        self.listed += [path for path in paths if "/.hoodie" not in path]
        return super().list_directories(paths, missing_ok=missing_ok)


@pytest.fixture
def table_path(golden: Callable[[str], Any], tmp_path: Path) -> str:
    return str(shutil.copytree(golden("cow_bootstrap_meta").table, tmp_path / "table"))


def test_a_listing_answers_for_partitions_and_slices_as_storage_does(table_path: str) -> None:
    storage = CountingStorage()
    table = open_table(storage, table_path)
    expected = list_partitions(table), load_file_slices(table)
    listed = table.listed_once()
    storage.listed.clear()
    first = list_partitions(listed)[:1]
    assert load_file_slices(listed, first) == [
        each for each in expected[1] if each.partition_path == first[0].path
    ]
    assert (list_partitions(listed), load_file_slices(listed)) == expected
    once = list(storage.listed)
    assert (list_partitions(listed), load_file_slices(listed)) == expected
    assert storage.listed == once
    assert len(once) == len(set(once))


def test_a_reopened_table_lists_again_only_if_its_timeline_has_changed(table_path: str) -> None:
    storage = CountingStorage()
    table = open_table(storage, table_path).listed_once()
    load_file_slices(table)
    storage.listed.clear()
    assert load_file_slices(table.reopened()) == load_file_slices(table)
    assert storage.listed == []
    begin_commit(open_table(storage, table_path), "UPSERT")
    assert load_file_slices(table.reopened()) == load_file_slices(table)
    assert storage.listed != []
