"""Copies of golden tables that a test may change, and the rows that are in them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from tests.oracle.comparison import our_rows

STORAGE = Storage()
Copy = Callable[[str], HudiTable]


def again(table: HudiTable) -> HudiTable:
    """The table as it is now."""
    return open_table(STORAGE, table.base_path)


def rows_of(table: HudiTable) -> pa.Table:
    """The table's rows as they are now, by record key."""
    return our_rows(again(table)).sort_by("_hoodie_record_key")


def rows_without(table: HudiTable, is_unknown: Callable[[str], bool]) -> pa.Table:
    """The rows that are left if nobody knows of the instants with such times."""
    plain = Path(table.base_path).with_name("plain")
    shutil.rmtree(plain, ignore_errors=True)
    shutil.copytree(table.base_path, plain)
    for file in (plain / ".hoodie").iterdir():
        if file.is_file() and file.name[0].isdigit() and is_unknown(file.name.split(".")[0]):
            file.unlink()
    return rows_of(open_table(STORAGE, str(plain)))
