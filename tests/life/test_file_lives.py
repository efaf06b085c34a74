"""The random life of a table's files, without Spark: commits, cleans, archiving, savepoints, kills.

What a commit writes is files with the names that rows would have; which of them readers see now, and saw as
of each past instant, is held against a model. Milliseconds a step, so that lives are long.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as some
import pytest
from hypothesis import assume
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition

from hudisql.errors import HudisqlError, NoSuchStateError, PendingCleanError, WriteConflictError
from hudisql.format.paths.partition_metadata import PARTITION_METADATA_FILE
from hudisql.format.timeline.instant import CLEAN, SAVEPOINT
from hudisql.read.scan.incremental import incremental_read
from hudisql.services.archive.archive_action import archive_table
from hudisql.services.archive.archive_plan import ArchiveOptions
from hudisql.services.clean.clean_action import clean_table, run_pending_cleans
from hudisql.services.clean.clean_plan import CleanOptions, CleanPolicy, read_clean_plan
from hudisql.services.rollback.restore import restore_to_savepoint
from hudisql.services.rollback.rollback_action import roll_back_commit
from hudisql.services.rollback.savepoint import create_savepoint, delete_savepoint
from hudisql.storage import Storage
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.history.past_state import check_past_state
from hudisql.table.history.timeline_window import timeline_window
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.table.partitions.listed_partitions import list_partition_paths
from hudisql.table.timeline.archived_timeline import archived_commits
from hudisql.write.execution.commit_files import commit_files
from hudisql.write.execution.write_context import WrittenFile
from hudisql.write.overwrite import Overwrite
from hudisql.write.transaction.commit import OpenCommit
from hudisql.write.transaction.concurrency import SINGLE_WRITER
from hudisql.write.transaction.markers import Marker, MarkerKind, create_marker
from tests.life.faults import DyingStorage, ProcessKilled
from tests.life.lives import first_seed, run_lives
from tests.life.steps import DONE, KILLED, REFUSED, StepCounts, failing, step
from tests.table.conftest import SCHEMA, TableDirectory

PARTITIONS = ("dt=a", "dt=b")
STORAGE = Storage()
Files = dict[str, tuple[str, str]]
"""Of each file group the partition and the instant time of its slice."""

numbers = some.integers(0, 20)
steps = some.integers(0, 20)
kills = some.none() | steps


class FileLife(RuleBasedStateMachine):
    """The life of a table's files in a directory of its own below `directory`."""

    directory: Path
    counts: StepCounts
    failed = False

    @initialize(number=numbers)
    def begin(self, number: int) -> None:
        # Hypothesis begins with the simplest of all lives, one insert again and again.
        assume(number)
        self.log: list[str] = []
        self.path = self.directory / uuid.uuid4().hex
        TableDirectory(
            self.path, {"hoodie.table.timeline.timezone": "UTC", "hoodie.table.create.schema": SCHEMA}
        )
        self.states: dict[str, Files] = {}
        self.savepoints: list[str] = []
        self.unsettled: set[str] = set()
        self.kept_from = ""
        for partition in PARTITIONS:
            self.insert(partition=partition, killed=None)

    def teardown(self) -> None:
        if self.failed or not hasattr(self, "states"):
            return
        with failing(self):
            for instant in self.instants:
                self.check_past(instant)
            for begin in self.instants[-6:]:
                self.check_window(begin, self.instants[-1])
        shutil.rmtree(self.path)

    # Commits

    @step(partition=some.sampled_from(PARTITIONS), killed=kills)
    def insert(self, partition: str, killed: int | None) -> str:
        new = str(uuid.uuid4()) + "-0"
        return self.commit({new: partition}, None, killed)

    @step(first=numbers, second=numbers, killed=kills)
    @precondition(lambda self: self.files)
    def update(self, first: int, second: int, killed: int | None) -> str:
        groups = sorted(self.files)
        chosen = {groups[number % len(groups)] for number in (first, second)}
        return self.commit({group: self.files[group][0] for group in chosen}, None, killed)

    @step(
        partition=some.sampled_from(PARTITIONS), scope=some.sampled_from(("touched", "table")), killed=kills
    )
    def overwrite(self, partition: str, scope: Any, killed: int | None) -> str:
        new = str(uuid.uuid4()) + "-0"
        return self.commit({new: partition}, Overwrite(scope), killed)

    # Services

    @step(
        policy=some.sampled_from((CleanPolicy.KEEP_LATEST_COMMITS, CleanPolicy.KEEP_LATEST_FILE_VERSIONS)),
        retained=some.integers(1, 4),
        killed=kills,
    )
    def clean(self, policy: CleanPolicy, retained: int, killed: int | None) -> str:
        options = CleanOptions(policy, commits_retained=retained, versions_retained=retained)
        return self.run(lambda table: clean_table(table, options, SINGLE_WRITER), killed)

    @step(least=some.integers(2, 4), retained=some.integers(1, 4), killed=kills)
    def archive(self, least: int, retained: int, killed: int | None) -> str:
        clean = CleanOptions(commits_retained=retained)
        options = ArchiveOptions(least, least + 1, clean=clean)
        return self.run(lambda table: archive_table(table, options, SINGLE_WRITER), killed)

    @step(number=numbers)
    def save(self, number: int) -> str:
        chosen = self.instants[-1 - number % min(len(self.instants), 3)]
        outcome = self.run(lambda table: create_savepoint(table, chosen), None)
        if outcome == DONE:
            self.savepoints = sorted([*self.savepoints, chosen])
        return outcome

    @step(number=numbers, killed=kills)
    @precondition(lambda self: self.savepoints)
    def forget(self, number: int, killed: int | None) -> str:
        chosen = self.savepoints[number % len(self.savepoints)]
        outcome = self.run(lambda table: delete_savepoint(table, chosen), killed)
        self.savepoints = sorted(self.table.timeline.savepoints)
        return outcome

    @step(killed=kills)
    @precondition(lambda self: self.savepoints)
    def restore(self, killed: int | None) -> str:
        undone = {each for each in self.instants if each > self.savepoints[-1]}
        outcome = self.undo(restore_to_savepoint, undone, killed)
        if any(each.action == "restore" for each in self.table.timeline.pending):
            self.undo(restore_to_savepoint, undone, None)
            # Cleans and deletions of savepoints whose processes have died are completed by the next ones.
            assert {each.action for each in self.table.timeline.pending} <= {CLEAN, SAVEPOINT}
            assert not undone & set(self.instants)
        return outcome

    @step(killed=kills)
    @precondition(lambda self: len(self.instants) > 2)
    def roll_back(self, killed: int | None) -> str:
        latest = self.instants[-1]
        return self.undo(lambda table: roll_back_commit(table, latest), {latest}, killed)

    # Checks

    @invariant()
    def readers_see_the_files_of_the_model(self) -> None:
        if hasattr(self, "states"):
            with failing(self):
                self.settle()
                assert set(self.states) == self.commits()
                assert self.seen(None) == self.files
            self.counts.checks["listings"] += 1

    @step(number=numbers)
    def ask_for_the_past(self, number: int) -> None:
        self.check_past(self.instants[number % len(self.instants)])

    @step(first=numbers, second=numbers)
    def pull(self, first: int, second: int) -> None:
        begin, end = sorted(self.instants[number % len(self.instants)] for number in (first, second))
        self.check_window(begin, end)

    def check_past(self, instant: str) -> None:
        """The files as of an instant are those of the model, or that state is gone as it may be."""
        try:
            found = self.seen(instant)
        except NoSuchStateError:
            if not self.may_be_gone(instant):
                raise
            self.counts.checks["past states that are gone"] += 1
            return
        assert found == self.as_of(instant), f"as of {instant}"
        self.counts.checks["past states"] += 1

    def check_window(self, begin: str, end: str) -> None:
        """An incremental scan reads all files that were written in a window, or says that they are gone."""
        table = self.table
        expected = {(group, time) for group, (_, time) in self.as_of(end).items() if begin < time <= end}
        try:
            read = incremental_read(table, timeline_window(table, begin, end))
            paths = [each.path for each in read.partitions(table)]
            slices = [
                each
                for each in load_file_slices(table, as_of=read.window.as_of)
                if each.partition_path in paths
            ]
            chosen = read.select(table, paths, slices)
        except NoSuchStateError:
            if not self.may_be_gone(end):
                raise
            return
        assert {(each.file_id, each.base_instant_time) for each in chosen} >= expected, (begin, end)
        self.counts.checks["windows"] += 1

    def may_be_gone(self, instant: str) -> bool:
        """True if a clean, or archiving, explains that a state is gone."""
        table = self.table
        if instant in table.timeline.savepoints:
            return False
        if instant < self.kept_from:
            return True
        return bool(archived_commits(table, table.timeline)) and instant < (
            table.timeline.first_active_time or ""
        )

    # What rules are made of

    @property
    def table(self) -> HudiTable:
        return open_table(STORAGE, str(self.path))

    @property
    def instants(self) -> list[str]:
        return sorted(self.states)

    @property
    def files(self) -> Files:
        return self.as_of("9")

    def as_of(self, instant: str) -> Files:
        known = [each for each in self.instants if each <= instant]
        return self.states[known[-1]] if known else {}

    def seen(self, as_of: str | None) -> Files:
        table = self.table
        slices = load_file_slices(table, as_of=as_of)
        if as_of is not None:
            check_past_state(table, as_of, list_partition_paths(table), slices, wanted=set)
        assert all(each.base_file is not None and Path(each.base_file.path).exists() for each in slices)
        return {each.file_id: (each.partition_path, each.base_instant_time) for each in slices}

    def commits(self) -> set[str]:
        table = self.table
        return {each.timestamp for each in table.timeline.commits} | archived_commits(table, table.timeline)

    def commit(self, groups: dict[str, str], overwrite: Overwrite | None, killed: int | None) -> str:
        """A commit of a new slice of each of the file groups, by file id and partition."""
        kind = "INSERT" if overwrite is None else overwrite.operation_type
        chosen = sorted(groups.items())

        def run(table: HudiTable) -> None:
            before = {each.file_id: each.base_instant_time for each in load_file_slices(table)}

            def write(commit: OpenCommit) -> list[WrittenFile]:
                return [_write(table.storage, commit, *each, before.get(each[0])) for each in chosen]

            commit_files(table, kind, table.schema, write, overwrite)

        known = self.commits()
        outcome = self.run(run, killed, retried=True)
        new = self.commits() - known
        assert len(new) == 1 or killed is not None
        for instant in new:
            files = self.files
            if overwrite is not None:
                replaced = set(groups.values()) if overwrite.scope == "touched" else set(PARTITIONS)
                files = {group: each for group, each in files.items() if each[0] not in replaced}
            written = {group: (partition, instant) for group, partition in groups.items()}
            self.states[instant] = {**files, **written}
        return outcome

    def run(self, action: Callable[[HudiTable], object], killed: int | None, *, retried: bool = False) -> str:
        """Run an action, killed before its `killed`-th change; gives how it ended."""
        storage = STORAGE if killed is None else DyingStorage(step=killed)
        try:
            try:
                action(open_table(storage, str(self.path)))
            except PendingCleanError:
                # As statements do.
                run_pending_cleans(open_table(storage, str(self.path)), SINGLE_WRITER)
                action(open_table(storage, str(self.path)))
            except WriteConflictError:
                if not retried or not self.unsettled:
                    raise
                action(open_table(storage, str(self.path)))
        except ProcessKilled:
            return KILLED
        except HudisqlError:
            if retried:
                raise
            return REFUSED
        finally:
            self.look_at_cleans()
            self.settle()
        return DONE

    def undo(self, action: Callable[[HudiTable], object], undone: set[str], killed: int | None) -> str:
        """Roll commits back."""
        self.unsettled |= undone
        outcome = self.run(action, killed)
        assert outcome != DONE or not undone & self.commits()
        return outcome

    def settle(self) -> None:
        """Take over which of the commits that may be rolled back by now are."""
        table = self.table
        gone = set(self.states) - self.commits()
        assert gone <= self.unsettled, f"commits are lost: {sorted(gone - self.unsettled)}"
        for each in gone:
            del self.states[each]
        if not any(each.action in ("rollback", "restore") for each in table.timeline.pending):
            self.unsettled = set()

    def look_at_cleans(self) -> None:
        table = self.table
        for clean in table.timeline.instants:
            if clean.action == CLEAN:
                try:
                    retained = read_clean_plan(table, clean).earliest_retained
                except HudisqlError:
                    continue
                kept = clean.timestamp if retained is None else retained.timestamp
                self.kept_from = max(self.kept_from, kept)


def _write(
    storage: Storage, commit: OpenCommit, file_id: str, partition: str, previous: str | None
) -> WrittenFile:
    base_path = commit.table.base_path
    name = f"{file_id}_0-0-0_{commit.instant_time}.parquet"
    create_marker(storage, base_path, commit.instant_time, Marker(partition, name, MarkerKind.CREATE))
    path = f"{base_path}/{partition}/{name}"
    storage.write(f"{base_path}/{partition}/{PARTITION_METADATA_FILE}", b"")
    storage.write(path, b"PAR1")
    counts: Any = dict.fromkeys(
        ("rows", "inserted", "updated", "deleted", "late_arriving", "moved", "changes"), 0
    )
    return WrittenFile(file_id, path, partition, previous, bytes=4, milliseconds=1, **counts)


def _machine(counts_: StepCounts, directory_: Path) -> type[FileLife]:
    class Life(FileLife):
        directory = directory_
        counts = counts_

    return Life


def test_short_lives_of_files(tmp_path: Path, report: Callable[[str], None]) -> None:
    counts = StepCounts()
    run_lives(
        lambda _: _machine(counts, tmp_path),
        counts,
        report,
        seed_of_first=1,
        length=40,
        is_enough=lambda: counts.lives == 10,
    )
    assert counts.total > 200, counts


@pytest.mark.soak
def test_long_lives_of_files(tmp_path: Path, report: Callable[[str], None]) -> None:
    lives = int(os.environ.get("HUDISQL_FILE_LIVES") or 500)
    counts = StepCounts()
    run_lives(
        lambda _: _machine(counts, tmp_path),
        counts,
        report,
        seed_of_first=first_seed(),
        length=60,
        is_enough=lambda: counts.lives == lives,
    )
