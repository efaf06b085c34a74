"""A table that lives: statements and services by hudisql or Apache Hudi, each held against the model."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.context import Context
from hudisql.errors import (
    HollowCommitError,
    HudisqlError,
    NoSuchStateError,
    SyncFailedError,
    WriteConflictError,
)
from hudisql.format.timeline.commit_metadata import read_commit_metadata
from hudisql.format.timeline.instant import CLEAN, InstantState
from hudisql.service_process.tables.run_services import ServedTables, run_services
from hudisql.session import Session
from hudisql.sql.dispatch import execute
from hudisql.storage import Storage
from hudisql.table.hudi_table import WRITTEN_VERSION, HudiTable, open_table
from hudisql.table.timeline.archived_timeline import archived_commits, read_archived_entries
from hudisql.table.timeline.completion_times import completion_times_of_writes
from tests.life.faults import DyingStorage, ProcessKilled, SharedStorage
from tests.life.model import Change, History, State, Values, nothing, rewrite
from tests.life.steps import DONE, KILLED, REFUSED

COLUMNS = {"id": "BIGINT", "note": "STRING", "price": "DOUBLE", "ts": "BIGINT", "dt": "STRING"}
ARROW_TYPES = {"BIGINT": pa.int64(), "INT": pa.int32(), "STRING": pa.string(), "DOUBLE": pa.float64()}
SERVICE_OPERATIONS = {"COMPACT", "CLUSTER"}


@dataclass
class LivingTable:
    """A table, what it should hold, and what its statements have said.

    A bootstrapped table has the directory of its `source`; `taken` are the files that came to it later, with
    the instant times of the resyncs that took them.
    """

    session: Session
    name: str
    path: str
    source: Path | None = None
    taken: dict[Path, str] = field(default_factory=dict)
    history: History = field(default_factory=lambda: History(COLUMNS))
    refusals: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    unsettled: set[str] = field(default_factory=set)
    kept_from: str = ""
    is_archived: bool = False
    was_saved: bool = False

    @property
    def opened(self) -> HudiTable:
        return open_table(Storage(), self.path)

    @property
    def version(self) -> int:
        return self.opened.version

    @property
    def state(self) -> State:
        return self.history.latest

    def commits(self) -> set[str]:
        """The instant times of the completed commits, the archived ones, too."""
        table = self.opened
        return {each.timestamp for each in table.timeline.commits} | archived_commits(table, table.timeline)

    def run(
        self,
        text: str,
        change: Change = nothing,
        *,
        refusals: tuple[type[HudisqlError], ...] = (),
        on_driver: bool = True,
    ) -> bool:
        """Run a statement; False if it was refused with one of those errors, having changed nothing."""
        with self.path_of_changes(on_driver):
            try:
                try:
                    self.session.sql(self._named(text))
                except WriteConflictError:
                    # It had read the table before it completed the rollback of a process that died.
                    if not self.unsettled:
                        raise
                    self.session.sql(self._named(text))
            except refusals as error:
                self.refusals.append(f"{type(error).__name__}: {error.message}")
                change = nothing
                self.take_over()
                return False
        if not self.take_over(change):
            assert change(self.state, "").as_read() == self.state.as_read(), "nothing was committed"
        return True

    def killed(
        self,
        step: int,
        text: str,
        change: Change = nothing,
        *,
        refusals: tuple[type[HudisqlError], ...] = (),
        on_driver: bool = True,
        gone: Collection[str] = (),
    ) -> str:
        """Run a statement whose process dies before its `step`-th change, unless it ends before; gives how.

        The commits `gone` may be rolled back.
        """
        outcome = DONE
        context = self.session.context
        dying = DyingStorage(context.storage.hadoop_configuration, step)
        with self.path_of_changes(on_driver):
            try:
                execute(Context(context.spark, context.metastore, dying, context.settings), self._named(text))
            except ProcessKilled:
                self.expire_heartbeats()
                self.unsettled |= set(gone)
                outcome = KILLED
            except refusals as error:
                self.refusals.append(f"{type(error).__name__}: {error.message}")
                outcome, change = REFUSED, nothing
            else:
                self.expect_gone(gone)
        self.take_over(change)
        return outcome

    def tried(
        self, text: str, refusals: tuple[type[HudisqlError], ...], context: Context | None = None
    ) -> bool:
        """Run a statement; False if it was refused with one of those errors. The history stays as it is."""
        try:
            execute(context or self.session.context, self._named(text))
        except SyncFailedError as error:
            # Hive refuses to narrow the type of a column, whose widening was undone.
            self.refusals.append(f"{type(error).__name__}: {error.message}")
            self.session.sql(f"DROP TABLE {self.name}")
            self.session.sql(f"CALL hive_sync(table => '{self.name}', path => '{self.path}')")
        except refusals as error:
            self.refusals.append(f"{type(error).__name__}: {error.message}")
            return False
        return True

    def shared(
        self,
        step: int,
        first: tuple[str, Change],
        run_second: Callable[[], bool],
        change: Change,
        refusals: tuple[type[HudisqlError], ...],
    ) -> tuple[bool, bool]:
        """Run the first statement, and all of a second one, with its `change`, before the first's `step`-th.

        Gives which of them were done; the others were refused.
        """
        done: dict[str, bool] = {}
        seen: set[str] = set()

        def meanwhile() -> None:
            before = self.commits()
            done["second"] = run_second()
            seen.update(self._data_commits(self.commits() - before))

        context = self.session.context
        storage = SharedStorage(context.storage.hadoop_configuration, step, [meanwhile])
        sharing = Context(context.spark, context.metastore, storage, context.settings)
        done["first"] = self.tried(first[0], refusals, sharing)
        self.settle()
        changes = dict.fromkeys(seen, change)
        new = self._data_commits(self.commits() - set(self.history.instants))
        changes |= {instant: first[1] for instant in new if instant not in seen}
        assert len(seen) <= 1, seen
        assert len(changes) - len(seen) <= 1, changes
        for instant in sorted(changes):
            self.history.commit(instant, changes[instant])
        self.take_over()
        return done["first"], done.get("second", False)

    def run_due_services(self) -> None:
        """Run what is due, as the process does that looks after tables."""
        run_services(self.session.context, ServedTables((self.name,)), threading.Event(), once=True)
        self.take_over()

    @contextmanager
    def new_source_files(self, rows: list[Values]) -> Iterator[list[Values]]:
        """Files with these rows, by partition, that come to the source; gives their rows as they are there.

        Those of before go that were not taken, or whose commit may be rolled back.
        """
        assert self.source is not None
        for path, instant in list(self.taken.items()):
            if instant not in self.history or self.unsettled:
                path.unlink()
                del self.taken[path]
        columns = {name: kind for name, kind in COLUMNS.items() if name != "dt"}
        schema = pa.schema([(name, ARROW_TYPES[kind]) for name, kind in columns.items()])
        paths = []
        for day in sorted({row["dt"] for row in rows}):
            paths.append(self.source / f"dt={day}" / f"part-{rows[0]['ts']}.parquet")
            listed = [{name: row[name] for name in columns} for row in rows if row["dt"] == day]
            pq.write_table(pa.Table.from_pylist(listed, schema), paths[-1])
        before = self.commits()
        yield [{name: row[name] for name in COLUMNS} for row in rows]
        made = self._data_commits(self.commits() - before)
        self.taken |= dict.fromkeys(paths, next(iter(made), ""))

    def take_over(self, change: Change = nothing) -> bool:
        """Add what was committed to the history: `change`, if there is a commit that is no service's."""
        self.settle()
        new = self.commits() - set(self.history.instants)
        data = self._data_commits(new)
        assert len(data) <= 1, f"one statement made the commits {sorted(data)}"
        for instant in [*data, *sorted(new - data)]:
            self.history.commit(instant, change if instant in data else rewrite(self.state.columns))
        self._look_at_cleans()
        return bool(data)

    def settle(self) -> None:
        """Take over what the next statement made of an undoing whose process had died."""
        self.expect_gone(self.unsettled)
        if not any(each.action in ("rollback", "restore") for each in self.opened.timeline.pending):
            self.unsettled = set()

    def expect_gone(self, undone: Collection[str]) -> None:
        """Take over that commits were rolled back; all others must be there."""
        gone = set(self.history.instants) - self.commits()
        assert gone <= set(undone), f"commits are lost: {sorted(gone - set(undone))}"
        self.history.undo(gone)

    def check(self) -> None:
        """The rows are those of the model."""
        self.settle()
        assert set(self.history.instants) == self.commits()
        assert_same(self.read(), self.state.as_read(), "now")

    def read(self, clause: str = "") -> dict[int, tuple[str, Values]]:
        """Commit time and values of each row; no id is there twice."""
        return by_id(self.session.sql(f"SELECT * FROM {self.name} {clause}").arrow())

    def check_past(self, instant: str) -> bool:
        """The rows as of an instant are those of the model; False if that state is gone, as it may be."""
        try:
            found = self.read(f"TIMESTAMP AS OF '{instant}'")
        except NoSuchStateError:
            if not self._may_be_gone(instant):
                raise
            return False
        assert_same(found, self.history.as_of(instant).as_read(), f"as of {instant}")
        return True

    def check_changes(self, begin: str, end: str) -> bool:
        """The changes of a window add up; False if they cannot be told any more."""
        bounds = self._bounds(begin, end)
        if bounds is None:
            return False
        window = f"'{bounds[0]}', '{bounds[1]}'"
        expected = {id_: row for id_, row in self.history.as_of(end).as_read().items() if row[0] > begin}
        try:
            latest = self.session.sql(
                f"SELECT * FROM hudi_table_changes('{self.name}', 'latest_state', {window})"
            ).arrow()
        except (NoSuchStateError, HollowCommitError):
            if not self._may_be_gone(end) and not self.opened.timeline.pending:
                raise
            return False
        assert_same(_without_nulls(by_id(latest)), _without_nulls(expected), f"latest_state of {window}")
        try:
            changes = self.session.sql(
                f"SELECT op, ts_ms, before, after FROM hudi_table_changes('{self.name}', 'cdc', {window})"
            ).arrow()
        except (NoSuchStateError, HollowCommitError):
            if not self._may_be_gone(begin, savepoints_stay=False) and not self.opened.timeline.pending:
                raise
            return False
        self._check_sum(changes.to_pylist(), begin, end)
        return True

    def _bounds(self, begin: str, end: str) -> tuple[str, str] | None:
        """The window that has the commits after `begin` up to `end`: versions 8 and 9 go by completion.

        None if commits were completed in another order, so that there is no such window.
        """
        if self.version == WRITTEN_VERSION:
            return begin, end
        instants = self.history.instants
        times = completion_times_of_writes(self.opened, instants)
        for bound in (begin, end):
            if any((each <= bound) != (times[each] <= times[bound]) for each in instants):
                return None
        return times[begin], times[end]

    def _check_sum(self, changes: list[dict[str, Any]], begin: str, end: str) -> None:
        rows = {id_: _values(row) for id_, row in self.history.as_of(begin).rows.items()}
        for change in sorted(changes, key=lambda each: (each["ts_ms"], "diu".index(each["op"]))):
            before, after = (
                None if change[side] is None else _values(json.loads(change[side]))
                for side in ("before", "after")
            )
            if before is not None:
                assert rows.pop(before["id"], None) == before, (begin, end, change)
            if after is not None:
                assert after["id"] not in rows, (begin, end, change)
                rows[after["id"]] = after
        expected = {id_: _values(row) for id_, row in self.history.as_of(end).rows.items()}
        assert_same(rows, expected, f"changes from {begin} to {end}")

    def rows_of(self, rows: list[Values]) -> pa.Table:
        """Rows for Apache Hudi, with all columns of the table."""
        columns = self.state.columns
        schema = pa.schema([(name, ARROW_TYPES[kind]) for name, kind in columns.items()])
        return pa.Table.from_pylist([{name: row.get(name) for name in columns} for row in rows], schema)

    @contextmanager
    def path_of_changes(self, on_driver: bool) -> Iterator[None]:
        """Small statements are run on the driver, or by Spark's tasks."""
        self.session.sql(f"SET hudisql.driver.max.bytes = {8 << 20 if on_driver else 0}")
        try:
            yield
        finally:
            self.session.sql("RESET hudisql.driver.max.bytes")

    @contextmanager
    def settings(self, values: Mapping[str, str]) -> Iterator[None]:
        """Settings of the session."""
        for key, value in values.items():
            self.session.sql(f"SET {key} = {value}")
        try:
            yield
        finally:
            for key in values:
                self.session.sql(f"RESET {key}")

    def expire_heartbeats(self) -> None:
        """Let all writers of the table count as dead, and their lock as left behind."""
        hidden = Path(self.path, ".hoodie")
        for each in [*hidden.glob(".heartbeat/*"), *hidden.glob("lock")]:
            os.utime(each, (0, 0))

    def _named(self, text: str) -> str:
        self.log.append(f"  {text}")
        return text.replace("{t}", self.name)

    def _data_commits(self, instants: set[str]) -> set[str]:
        table = self.opened
        operations = {
            each.timestamp: read_commit_metadata(Storage(), table.instant_path(each)).operation_type
            for each in table.timeline.commits
            if each.timestamp in instants
        }
        if instants - operations.keys():
            # A compaction of an old plan may be archived in the round of services that ran it.
            operations |= {
                each.instant.timestamp: each.commit_metadata.operation_type
                for each in read_archived_entries(table)
                if each.commit_metadata is not None
            }
        return {each for each in instants if operations[each] not in SERVICE_OPERATIONS}

    def _look_at_cleans(self) -> None:
        table = self.opened
        for clean in table.timeline.instants:
            plan = Path(table.instant_path(clean.in_state(InstantState.REQUESTED)))
            # Archiving that was killed may have deleted the plan of a clean, but not yet the rest.
            if clean.action == CLEAN and plan.exists():
                self.kept_from = max(self.kept_from, _kept_from(table, clean))
        self.is_archived = self.is_archived or bool(archived_commits(table, table.timeline))

    def _may_be_gone(self, instant: str, *, savepoints_stay: bool = True) -> bool:
        timeline = self.opened.timeline
        if savepoints_stay and instant in timeline.savepoints:
            return False
        if instant < self.kept_from or instant < timeline.commits[0].timestamp:
            return True
        return self.is_archived and instant < (timeline.first_active_time or "")


def _kept_from(table: HudiTable, clean: Any) -> str:
    from hudisql.services.clean.clean_plan import read_clean_plan

    retained = read_clean_plan(table, clean).earliest_retained
    return clean.timestamp if retained is None else retained.timestamp


def by_id(rows: pa.Table) -> dict[int, tuple[str, Values]]:
    """Commit time and values of each row by id; no id is there twice."""
    listed = rows.to_pylist()
    found: dict[int, tuple[str, Values]] = {
        row["id"]: (
            row["_hoodie_commit_time"],
            {name: value for name, value in row.items() if not name.startswith("_hoodie_")},
        )
        for row in listed
    }
    assert len(found) == len(listed), f"ids are repeated: {sorted(row['id'] for row in listed)}"
    return found


def assert_same(found: Mapping[int, Any], expected: Mapping[int, Any], what: str) -> None:
    """Fail with the ids that differ."""
    ids = sorted(found.keys() | expected.keys())
    different = [
        f"{id_}: {found.get(id_)} instead of {expected.get(id_)}"
        for id_ in ids
        if found.get(id_) != expected.get(id_)
    ]
    assert not different, "\n".join([f"{what}:", *different])


def _values(row: Values) -> Values:
    return {name: value for name, value in row.items() if value is not None}


def _without_nulls(rows: Mapping[int, tuple[str, Values]]) -> dict[int, tuple[str, Values]]:
    return {id_: (time, _values(row)) for id_, (time, row) in rows.items()}
