"""A commit killed at any of its steps: readers see before or after, and the next writer clears up."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import TableLockedError
from hudisql.format.paths.file_names import parse_base_file_name
from hudisql.format.timeline.instant import Instant
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable, open_table
from tests.oracle.line_process import LineProcess
from tests.write.crashed_commits import commit_a_file, crash

STORAGE = Storage()
SILENT_SECONDS = 600


@dataclass
class CrashedTable:
    """A table whose commits crash, shared by its writers as the parameter says."""

    path: str
    is_shared: bool
    committer: LineProcess

    def crash(self, step: int, **more: object) -> bool:
        """A commit that is killed before that step; False if it had fewer."""
        return crash(self.committer, self.path, step, is_shared=self.is_shared, **more)

    def commit(self, **more: Any) -> None:
        """A commit of the next writer."""
        commit_a_file(STORAGE, self.path, is_shared=self.is_shared, **more)

    @property
    def table(self) -> HudiTable:
        return open_table(STORAGE, self.path)

    def hidden(self, name: str) -> Path:
        return Path(self.path, ".hoodie", name)

    @property
    def commits(self) -> int:
        """How many commits stand."""
        return len(self.table.timeline.commits)

    def may_be_alive(self, instant: Instant) -> bool:
        """True for a rollback that has just been begun, and a commit whose heartbeat is fresh."""
        beat = self.hidden(".heartbeat") / instant.timestamp
        return instant.action == "rollback" or (
            beat.exists() and time.time() - beat.stat().st_mtime < SILENT_SECONDS / 2
        )

    def visible(self) -> set[str]:
        """The base files that readers take."""
        return {each.base_file.path for each in load_file_slices(self.table) if each.base_file is not None}

    def files_of_no_commit(self) -> list[Path]:
        completed = {each.timestamp for each in self.table.timeline.completed}
        return [
            path
            for path in Path(self.path).glob("*/*.parquet")
            if (found := parse_base_file_name(path.name)) is None or found.instant_time not in completed
        ]

    def left(self) -> list[Path]:
        """What only a commit that is under way may have: files of no commit, markers, heartbeats, locks."""
        directories = [self.hidden(".temp"), self.hidden(".heartbeat")]
        entries = [entry for directory in directories if directory.exists() for entry in directory.iterdir()]
        return [*self.files_of_no_commit(), *entries, *self.hidden("").glob("*lock*")]

    def metadata_table(self) -> str | None:
        """A hash of the metadata table that the properties send readers to."""
        if not self.table.properties.metadata_partitions:
            return None
        digest = hashlib.sha256()
        for path in sorted(self.hidden("metadata").rglob("*.*")):
            digest.update(str(path).encode() + (path.read_bytes() if path.is_file() else b""))
        return digest.hexdigest()


@pytest.fixture(params=[pytest.param(False, marks=pytest.mark.soak), True], ids=["alone", "shared"])
def make_table(
    request: pytest.FixtureRequest, golden: Callable[[str], Any], tmp_path: Path, committer: LineProcess
) -> Callable[[], CrashedTable]:
    """Gives the table as it was before it was crashed, again and again."""

    def make(name: str = "cow_bootstrap_then_upsert_delete") -> CrashedTable:
        path = tmp_path / "table"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(golden(name).table, path)
        return CrashedTable(str(path), request.param, committer)

    return make


def _make_old(*paths: Path) -> None:
    """As if their writer had been silent for ten minutes."""
    for path in paths:
        os.utime(path, (time.time() - SILENT_SECONDS, time.time() - SILENT_SECONDS))


def _assert_the_next_writers_go_on(crashed: CrashedTable) -> None:
    """They wait for what may be alive, clear up what is dead, and lose nothing that stands."""
    seen, lock = crashed.visible(), crashed.hidden("lock")
    alive = {each for each in crashed.table.timeline.pending if crashed.may_be_alive(each)}
    if lock.exists():
        with pytest.raises(TableLockedError, match=r"hudisql .* process .*never expires"):
            crashed.commit()
        _make_old(lock)
        with pytest.raises(TableLockedError, match=r"for 10 minutes.*never expires"):
            crashed.commit()
    assert crashed.visible() == seen
    if crashed.is_shared:
        crashed.commit(expire_minutes=5)
        assert alive <= set(crashed.table.timeline.pending)
        assert len(crashed.visible() - seen) == 1
        _make_old(*crashed.hidden(".heartbeat").iterdir(), *crashed.hidden("").glob("*.rollback.*"))
    crashed.commit()
    assert seen < crashed.visible()
    assert crashed.table.timeline.pending == ()
    assert crashed.left() == []


@pytest.mark.parametrize(
    ("overwrites", "end"), [(False, "committed"), (True, "committed"), (False, "failed")]
)
def test_a_commit_that_is_killed_at_any_step_is_seen_atomically(
    make_table: Callable[[], CrashedTable], overwrites: bool, end: str
) -> None:
    step, is_crashed = 0, True
    while is_crashed:
        crashed = make_table()
        before, commits = crashed.visible(), crashed.commits
        is_crashed = crashed.crash(step, overwrites=overwrites, end=end)
        is_committed = crashed.commits > commits
        assert not (end == "failed" and is_committed)
        assert is_committed is not (crashed.visible() == before)
        _assert_the_next_writers_go_on(crashed)
        step += 1
    assert step > 10


def test_a_writer_that_is_killed_while_it_clears_up_is_cleared_up_after(
    make_table: Callable[[], CrashedTable],
) -> None:
    step, is_crashed = 0, True
    while is_crashed:
        crashed = make_table()
        before, commits = crashed.visible(), crashed.commits
        assert crashed.crash(-1, end="killed")
        assert len(crashed.files_of_no_commit()) == 2
        if crashed.is_shared:
            _make_old(*crashed.hidden(".heartbeat").iterdir())
        is_crashed = crashed.crash(step)
        assert (crashed.commits > commits) is not (crashed.visible() == before)
        _assert_the_next_writers_go_on(crashed)
        step += 1
    assert step > 16


def test_a_metadata_table_never_outlives_the_commit_that_it_does_not_know(
    make_table: Callable[..., CrashedTable],
) -> None:
    step, is_crashed = 0, True
    states = set()
    while is_crashed:
        crashed = make_table("cow_bootstrap_meta_mdt")
        # It lacks the bootstrap, and is not kept.
        crashed.hidden("metadata/.hoodie/00000000000001.deltacommit").unlink()
        known, commits = crashed.metadata_table(), crashed.commits
        assert known is not None
        is_crashed = crashed.crash(step)
        left, is_committed = crashed.metadata_table(), crashed.commits > commits
        # Readers are sent to it only while it is whole and knows every file.
        assert left is None or (left == known and not is_committed)
        assert not (is_committed and crashed.hidden("metadata").exists())
        states.add((left is None, crashed.hidden("metadata").exists(), is_committed))
        _assert_the_next_writers_go_on(crashed)
        assert crashed.metadata_table() is None
        assert not crashed.hidden("metadata").exists()
        step += 1
    assert states == {(False, True, False), (True, True, False), (True, False, False), (True, False, True)}
