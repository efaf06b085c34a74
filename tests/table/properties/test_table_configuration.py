"""Changes of hoodie.properties that fail half-way, again and again: readers always find whole ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from hudisql.errors import StorageError
from hudisql.format.table_properties import PROPERTIES_FILE, read_table_properties
from hudisql.storage import Storage
from hudisql.table.properties.table_configuration import update_table_properties


class FullDisk(Storage):
    """Makes the file, but its content does not fit."""

    def write(self, path: str, content: bytes) -> None:
        if path.endswith(PROPERTIES_FILE):
            Path(path).touch()
            raise StorageError(f"cannot write {path}: No space left on device")
        super().write(path, content)


def test_properties_outlive_two_updates_that_the_disk_does_not_take(
    golden: Callable[[str], Any], tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    copytree(golden("cow_bootstrap_then_upsert_delete").table, path)
    before = read_table_properties(Storage(), path)
    for _ in range(2):
        with pytest.raises(StorageError, match="No space left"):
            update_table_properties(FullDisk(), path, {"a.b": "c"})
        assert read_table_properties(Storage(), path) == before
    update_table_properties(Storage(), path, {"a.b": "c"})
    assert read_table_properties(Storage(), path).values == {**before.values, "a.b": "c"}
    assert list(Path(path, ".hoodie").glob("*.backup")) == []
