"""Small tables of empty files, copies of golden tables, and a process whose commits are killed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudisql.table.hudi_table import HudiTable, open_table
from tests.services.copied_tables import STORAGE, Copy
from tests.table.conftest import make_table as make_table


@pytest.fixture
def copy(golden: Callable[[str], Any], tmp_path: Path) -> Copy:
    def make(name: str) -> HudiTable:
        shutil.rmtree(tmp_path / "table", ignore_errors=True)
        shutil.copytree(golden(name).table, tmp_path / "table")
        return open_table(STORAGE, str(tmp_path / "table"))

    return make
