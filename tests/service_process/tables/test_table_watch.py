"""What a look at a table that has not changed costs, and that no change is missed."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from hudisql.service_process.tables.run_services import TableWatch
from hudisql.storage import FileInfo, Storage
from tests.table.conftest import TableDirectory


@dataclass(frozen=True)
class CountingStorage(Storage):
    """Counts what a watch asks; without `has_times` directories have no modification time, as on S3."""

    calls: Counter[str] = field(default_factory=Counter, compare=False)
    has_times: bool = True

    def info(self, path: str) -> FileInfo | None:
        self.calls["info"] += 1
        found = super().info(path)
        return found if self.has_times or found is None else FileInfo(path, 0, 0, is_directory=True)

    def list_directory(self, path: str) -> list[FileInfo]:
        self.calls["list"] += 1
        return super().list_directory(path)


def _settle(table: TableDirectory) -> None:
    hoodie, then = table.path / ".hoodie", time.time() - 10
    os.utime(hoodie, (then, then))


def test_an_unchanged_table_costs_one_look_at_its_directory(
    make_table: Callable[..., TableDirectory],
) -> None:
    table, storage = make_table(), CountingStorage()
    table.commit("20240301000001000")
    _settle(table)
    watch = TableWatch(storage, str(table.path))
    first = watch.signature()
    storage.calls.clear()
    assert [watch.signature() for _ in range(10)] == [first] * 10
    assert storage.calls == {"info": 10}


@pytest.mark.parametrize("has_times", [True, False])
def test_every_change_is_seen(make_table: Callable[..., TableDirectory], has_times: bool) -> None:
    table, storage = make_table(), CountingStorage(has_times=has_times)
    watch = TableWatch(storage, str(table.path))
    signatures = [watch.signature()]
    # Far faster than the clock of the file system ticks.
    for number in range(50):
        table.instant(f"202403010000{number:02d}000.commit.requested")
        signatures.append(watch.signature())
    (table.path / ".hoodie" / "hoodie.properties").unlink()
    signatures.append(watch.signature())
    assert len(set(signatures)) == len(signatures)
    storage.calls.clear()
    assert watch.signature() == signatures[-1]
    assert storage.calls["list"] == 1, "the directory has changed a moment ago, or has no time"


def test_a_table_that_is_gone_has_no_signature(
    make_table: Callable[..., TableDirectory], tmp_path: Any
) -> None:
    assert TableWatch(Storage(), str(tmp_path / "nowhere")).signature() == 0
    assert TableWatch(Storage(), str(make_table().path)).signature() != 0
