"""Small tables of empty files, copies of golden tables, and a process whose commits are killed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hudisql.table.hudi_table import HudiTable, open_table
from tests.oracle.line_process import LineProcess
from tests.services.copied_tables import STORAGE, Copy
from tests.table.conftest import make_table as make_table
from tests.write.crashed_commits import start_committer


@pytest.fixture
def copy(golden: Callable[[str], Any], tmp_path: Path) -> Copy:
    def make(name: str) -> HudiTable:
        shutil.rmtree(tmp_path / "table", ignore_errors=True)
        shutil.copytree(golden(name).table, tmp_path / "table")
        return open_table(STORAGE, str(tmp_path / "table"))

    return make


@pytest.fixture(scope="module")
def committer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LineProcess]:
    process = start_committer(tmp_path_factory.mktemp("committer"))
    yield process
    process.close()
