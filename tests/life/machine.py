"""The state machine: what may happen to a table, in any order.

Every rule draws what it needs: hypothesis prints a failure as a script of rules that can be run again.
A rule that has nothing to do returns: an assumption that fails would end the life.
Every row that is written has a greater `ts` than all before it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as some
from hypothesis import assume
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition

from hudisql.errors import (
    HudisqlError,
    InvalidArgumentError,
    NoSuchInstantError,
    NoSuchStateError,
    RollbackRefusedError,
    TableLockedError,
    UnsupportedTableError,
    WriteConflictError,
)
from hudisql.format.timeline.instant import (
    CLUSTERING,
    COMMIT,
    COMPACTION,
    REPLACE_COMMIT,
    SAVEPOINT,
    InstantState,
)
from hudisql.table.hudi_table import WRITTEN_VERSION
from hudisql.table.timeline.completion_times import completion_times
from hudisql.write.transaction.concurrency import FILE_SYSTEM_PROVIDER
from tests.life.hudi_actor import HudiActor, may_clean
from tests.life.model import put
from tests.life.service_calls import (
    archiving,
    cleaning,
    cleaning_by_versions,
    clustering,
    compaction,
    service_calls,
)
from tests.life.statements import DAYS, MOST_COLUMNS, Statement, Statements, days, ids, numbers
from tests.life.steps import DONE, IDLE, KILLED, REFUSED, StepCounts, failing, step
from tests.life.table import LivingTable

SHARED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": FILE_SYSTEM_PROVIDER,
    "hoodie.write.lock.client.wait_time_ms_between_retry": "10",
    "hoodie.write.lock.client.num_retries": "1",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
CLUSTERINGS = (REPLACE_COMMIT, CLUSTERING)
"""The actions of pending clusterings."""
CLUSTERED = (UnsupportedTableError,)
"""What changes of file groups of a planned clustering raise."""
CONFLICTS = (WriteConflictError, TableLockedError, *CLUSTERED)
NOT_UNDONE = (
    RollbackRefusedError,
    InvalidArgumentError,
    NoSuchInstantError,
    NoSuchStateError,
    WriteConflictError,
    UnsupportedTableError,
)

UPGRADED_VERSION = 8
"""Which hudisql does not make new tables in."""

steps = some.integers(0, 24)
booleans = some.booleans()

MakeTable = Callable[[str, bool, dict[str, str], int], LivingTable]


class RandomLife(RuleBasedStateMachine):
    """A table's life; `make_table` makes the table of a type, bootstrapped or not, with properties.

    Tables of version 8 are tables of version 6 that Apache Hudi has upgraded.
    """

    make_table: MakeTable
    type_: str
    bootstrapped: bool
    version: int
    hudi: HudiActor | None = None
    counts = StepCounts()
    failed = False
    table: LivingTable

    @initialize(
        retained=some.integers(1, 6),
        least=some.integers(2, 4),
        compacts=booleans,
        clusters=some.sampled_from((False, False, True)),
    )
    def begin(
        self,
        retained: int,
        least: int,
        compacts: bool,
        clusters: bool,
    ) -> None:
        # Hypothesis begins with the simplest of all lives, one insert again and again.
        assume(compacts or clusters or retained + least > 3)
        properties = {
            "hoodie.clean.commits.retained": str(retained),
            "hoodie.keep.min.commits": str(least),
            "hoodie.keep.max.commits": str(least + 1),
            "hoodie.compact.inline": str(compacts).lower(),
            "hoodie.compact.inline.max.delta.commits": "2",
            "hoodie.clustering.inline": str(clusters).lower(),
        }
        kind = f"{self.type_}, bootstrapped={self.bootstrapped}, version {self.version}"
        self.log = [f"begin({properties}), {kind}"]
        self.ts = 100
        self.is_mor = self.type_ == "mor"
        self.savepoints: list[str] = []
        made_in = WRITTEN_VERSION if self.version == UPGRADED_VERSION else self.version
        self.table = self.make_table(self.type_, self.bootstrapped, properties, made_in)
        self.table.log = self.log
        if self.version == UPGRADED_VERSION:
            assert self.hudi is not None
            rows = self.statements.rows({1, 9}, DAYS[0], 0)
            self.hudi.upgrade(self.table, self.version, rows)
            assert self.table.take_over(put(rows))
        assert self.table.version == self.version
        self.begun()
        self.counts.checks[f"lives of {self.type_}{', bootstrapped' if self.bootstrapped else ''}"] += 1

    def begun(self) -> None:
        """What else happens to a new table."""

    def teardown(self) -> None:
        if hasattr(self, "table"):
            try:
                # The files of a table that failed stay.
                if not self.failed:
                    with failing(self):
                        self.end()
                    shutil.rmtree(self.table.path)
            finally:
                self.table.session.sql(f"DROP TABLE IF EXISTS {self.table.name}")

    def end(self) -> None:
        """All that the table still knows of its past is right."""
        table = self.table
        table.check()
        answers = [instant for instant in table.history.instants if self.asked_for(instant)]
        if self.hudi is not None:
            self.hudi.check(table)
            self.counts.checks["reads by Hudi"] += 1
        for begin, end in zip(["000", *answers], answers, strict=False):
            if begin != end and begin != "000":
                self.pulled(begin, end)
        if len(answers) > 1:
            self.pulled(answers[0], answers[-1])

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        if hasattr(self, "table"):
            with failing(self):
                self.table.check()
            self.counts.checks["reads"] += 1

    # Changes of rows

    # A rollback that the statement completes may bring rows back, which are then in partitions of their own.
    @step(chosen=ids, day=days, number=numbers, on_driver=booleans)
    @precondition(lambda self: not self.table.unsettled)
    def insert(self, chosen: set[int], day: str, number: int, on_driver: bool) -> str:
        return self.change(self.statements.insert(chosen, day, number), on_driver)

    @step(chosen=ids, number=numbers, on_driver=booleans)
    def update(self, chosen: set[int], number: int, on_driver: bool) -> str:
        return self.change(self.statements.update(chosen, number), on_driver)

    @step(chosen=ids, day=days, on_driver=booleans)
    def move(self, chosen: set[int], day: str, on_driver: bool) -> str:
        return self.change(self.statements.move(chosen, day), on_driver)

    @step(chosen=ids, on_driver=booleans)
    def delete(self, chosen: set[int], on_driver: bool) -> str:
        return self.change(self.statements.delete(chosen), on_driver)

    @step(chosen=ids, deleted=ids, day=days, number=numbers, on_driver=booleans)
    def merge(self, chosen: set[int], deleted: set[int], day: str, number: int, on_driver: bool) -> str:
        return self.change(self.statements.merge(chosen, deleted, day, number), on_driver)

    @step(chosen=ids, day=days, number=numbers, on_driver=booleans)
    @precondition(lambda self: not self.table.unsettled)
    def overwrite_partition(self, chosen: set[int], day: str, number: int, on_driver: bool) -> str:
        return self.change(self.statements.overwrite_partition(chosen, day, number), on_driver)

    @step(chosen=ids, day=days, number=numbers, on_driver=booleans)
    def overwrite_table(self, chosen: set[int], day: str, number: int, on_driver: bool) -> str:
        return self.change(self.statements.overwrite_table(chosen, day, number), on_driver)

    @step(day=some.none() | days)
    def drop_partition_or_truncate(self, day: str | None) -> str:
        made = self.statements
        return self.change(made.truncate() if day is None else made.drop_partition(day), True)

    @step(kind=some.sampled_from(("INT", "BIGINT")))
    @precondition(lambda self: len(self.table.state.columns) < MOST_COLUMNS)
    def add_column(self, kind: str) -> str:
        return self.change(self.statements.add_column(kind), True)

    @step()
    @precondition(lambda self: "INT" in self.table.state.columns.values())
    def widen_column(self) -> str:
        widened = self.statements.widen_column()
        assert widened is not None
        return self.change(widened, True)

    @step(chosen=ids, day=days, number=numbers, killed=some.none() | steps)
    @precondition(lambda self: self.table.source is not None)
    def resync(self, chosen: set[int], day: str, number: int, killed: int | None) -> str:
        """New files come to the source, and the table takes them."""
        with self.table.new_source_files(self.statements.rows(chosen, day, number)) as rows:
            text = "CALL resync_bootstrap(table => '{t}', mode => 'upsert', on_schema_drift => 'widen')"
            if killed is None:
                return self.change((text, put(rows)), True)
            return self.kill(killed, (text, put(rows)), CLUSTERED)

    # Table services

    @step(op=some.sampled_from(("schedule", "run", "scheduleandexecute")))
    @precondition(lambda self: self.is_mor)
    def compact(self, op: str) -> str:
        return self.serve(compaction(op))

    @step(op=some.sampled_from(("schedule", "execute", "scheduleAndExecute")), order=booleans)
    def cluster(self, op: str, order: bool) -> str:
        return self.serve(clustering(op, order))

    @step(retained=some.integers(1, 3))
    def clean(self, retained: int) -> str:
        return self.serve(cleaning(retained))

    @step(versions=some.integers(1, 2))
    def clean_by_versions(self, versions: int) -> str:
        return self.serve(cleaning_by_versions(versions))

    @step(least=some.integers(2, 4), retained=some.integers(1, 3))
    def archive(self, least: int, retained: int) -> str:
        return self.serve(archiving(least, retained))

    @step()
    def run_due_services(self) -> None:
        """One round of the process that looks after tables."""
        self.table.run_due_services()

    @step(retained=some.integers(1, 4))
    def set_retention(self, retained: int) -> None:
        key = "hoodie.clean.commits.retained"
        self.table.run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{key}' = '{retained}')")

    # Undoing

    @step(number=some.integers(0, 3))
    def create_savepoint(self, number: int) -> str:
        instants = self.table.history.instants
        chosen = instants[-1 - min(number, len(instants) - 1)]
        text = f"CALL create_savepoint(table => '{{t}}', commit_time => '{chosen}')"
        if not self.table.run(text, refusals=NOT_UNDONE):
            return REFUSED
        self.savepoints = sorted([*self.savepoints, chosen])
        self.table.was_saved = True
        return DONE

    @step(number=some.integers(0, 2))
    @precondition(lambda self: self.savepoints)
    def delete_savepoint(self, number: int) -> str:
        chosen = self.savepoints[number % len(self.savepoints)]
        text = f"CALL delete_savepoint(table => '{{t}}', instant_time => '{chosen}')"
        if not self.table.run(text, refusals=NOT_UNDONE):
            return REFUSED
        self.savepoints.remove(chosen)
        return DONE

    @step(killed=some.none() | steps)
    @precondition(lambda self: self.savepoints)
    def restore(self, killed: int | None) -> str:
        text = "CALL rollback_to_savepoint(table => '{t}')"
        later = self.later_than_savepoint()
        if killed is None:
            return self.undo(text, later)
        outcome = self.kill_undoing(killed, text, later)
        if outcome == KILLED and self.pending("restore"):
            refused = not self.table.run(*self.statements.insert({1}, DAYS[0], 1), refusals=CLUSTERED)
            assert refused, "a write during a restore"
            self.undo(text, later)
        return outcome

    @step(killed=some.none() | steps)
    @precondition(lambda self: len(self.table.history.instants) > 1)
    def roll_back(self, killed: int | None) -> str:
        latest = self.table.history.instants[-1]
        text = f"CALL rollback_to_instant(table => '{{t}}', instant_time => '{latest}')"
        if killed is None:
            return self.undo(text, {latest})
        return self.kill_undoing(killed, text, {latest})

    @step(with_plan=booleans)
    @precondition(lambda self: self.planned())
    def undo_planned_service(self, with_plan: bool) -> str:
        text = (
            "CALL run_rollback_inflight_tableservice(table => '{t}', "
            f"pending_instant => '{self.planned()}', "
            f"delete_request_instant_file => {str(with_plan).lower()})"
        )
        return DONE if self.table.run(text, refusals=NOT_UNDONE) else REFUSED

    # Faults

    @step(data=some.data(), killed=steps, on_driver=booleans, shared=booleans)
    def kill_a_change(self, data: Any, killed: int, on_driver: bool, shared: bool) -> str:
        statement = data.draw(self.statements.any(), label="killed")
        with self.table.settings(SHARED if shared else {}):
            refusals = CONFLICTS if shared else CLUSTERED
            return self.kill(killed, statement, refusals, on_driver=on_driver)

    @step(data=some.data(), killed=steps)
    def kill_a_service(self, data: Any, killed: int) -> str:
        return self.kill(killed, data.draw(service_calls(is_mor=self.is_mor), label="killed"), CLUSTERED)

    @step(data=some.data(), at=steps, on_driver=booleans)
    def two_writers(self, data: Any, at: int, on_driver: bool) -> str:
        first = data.draw(self.statements.any_of_rows(0), label="first")
        second = data.draw(self.statements.any_of_rows(1), label="second")
        return self.two_at_once(at, first, second, on_driver=on_driver)

    @step(data=some.data(), at=steps, on_driver=booleans, service_first=booleans)
    def writer_and_service(self, data: Any, at: int, on_driver: bool, service_first: bool) -> str:
        change = data.draw(self.statements.any(), label="change")
        service = data.draw(service_calls(is_mor=self.is_mor), label="service")
        first, second = (service, change) if service_first else (change, service)
        return self.two_at_once(at, first, second, on_driver=on_driver)

    # Questions

    @step(number=numbers)
    def ask_for_the_past(self, number: int) -> str:
        instants = self.table.history.instants
        return DONE if self.asked_for(instants[-1 - number % min(len(instants), 4)]) else REFUSED

    @step(first=numbers, second=numbers)
    def pull_changes(self, first: int, second: int) -> str:
        instants = self.table.history.instants[-6:]
        begin, end = sorted((first % len(instants), second % len(instants)))
        if begin == end:
            return IDLE
        return DONE if self.pulled(instants[begin], instants[end]) else REFUSED

    # Apache Hudi

    @step(chosen=ids, day=days, number=numbers)
    @precondition(lambda self: self.hudi is not None and not self.pending(*CLUSTERINGS))
    def hudi_upserts(self, chosen: set[int], day: str, number: int) -> None:
        assert self.hudi is not None
        rows = self.statements.rows(chosen, day, number)
        self.hudi.upsert(self.table, rows, number)
        assert self.table.take_over(put(rows))

    @step(chosen=ids, number=numbers)
    @precondition(lambda self: self.hudi is not None and not self.pending(*CLUSTERINGS))
    def hudi_deletes(self, chosen: set[int], number: int) -> str:
        assert self.hudi is not None
        made = self.statements
        rows = made.rows(chosen & set(self.table.state.rows), DAYS[0], number)
        if not rows:
            return IDLE
        if not self.hudi.delete(self.table, rows, number):
            return REFUSED
        assert self.table.take_over(made.delete(chosen)[1])
        return DONE

    @step(op=some.sampled_from(("schedule", "run")))
    @precondition(lambda self: self.hudi is not None and self.is_mor)
    def hudi_compacts(self, op: str) -> None:
        assert self.hudi is not None
        self.hudi.compact(self.table, op)

    @step(op=some.sampled_from(("schedule", "execute")))
    @precondition(lambda self: self.hudi is not None)
    def hudi_clusters(self, op: str) -> None:
        assert self.hudi is not None
        self.hudi.cluster(self.table, op)

    @step(retained=some.integers(1, 3))
    @precondition(lambda self: self.hudi is not None)
    def hudi_cleans(self, retained: int) -> str:
        assert self.hudi is not None
        if not may_clean(self.table):
            return IDLE
        self.hudi.clean(self.table, retained)
        return DONE

    @step(least=some.integers(2, 4))
    @precondition(lambda self: self.hudi is not None)
    def hudi_archives(self, least: int) -> str:
        assert self.hudi is not None
        if self.table.was_saved:
            return IDLE
        self.hudi.archive(self.table, least)
        return DONE

    @step()
    @precondition(lambda self: self.hudi is not None and self.savepoints)
    def hudi_restores(self) -> str:
        assert self.hudi is not None
        later = self.later_than_savepoint()
        # Hudi undoes the commits of the active timeline alone, of those that were archived none.
        if later - {each.timestamp for each in self.table.opened.timeline.commits}:
            return IDLE
        if not self.hudi.restore(self.table, self.savepoints[-1]):
            # It has planned the restore, and undone some of the commits: hudisql does the rest.
            assert self.undo("CALL rollback_to_savepoint(table => '{t}')", later) == DONE
            return REFUSED
        self.table.expect_gone(later | self.table.unsettled)
        assert not later & set(self.table.history.instants)
        return DONE

    @step()
    @precondition(lambda self: self.hudi is not None)
    def hudi_reads(self) -> None:
        assert self.hudi is not None
        self.hudi.check(self.table)

    @step(data=some.data(), at=steps, chosen=ids, day=days, number=numbers)
    @precondition(lambda self: self.hudi is not None and not self.pending(*CLUSTERINGS))
    def hudi_writes_meanwhile(self, data: Any, at: int, chosen: set[int], day: str, number: int) -> str:
        assert self.hudi is not None
        hudi, table = self.hudi, self.table
        first = data.draw(self.statements.any_of_rows(0), label="first")
        rows = self.statements.rows({2 * (id_ // 2) + 1 for id_ in chosen}, day, number)
        with table.settings(SHARED):
            done = table.shared(
                at, first, lambda: hudi.upsert_beside(table, rows, number, SHARED), put(rows), CONFLICTS
            )
        if not done[1]:
            # What Apache Hudi could not commit it leaves to be rolled back, with a fresh heartbeat.
            table.expire_heartbeats()
        return _of_two(done)

    # What rules are made of

    @property
    def statements(self) -> Statements:
        self.ts += 1
        return Statements(self.table.state, self.ts)

    def change(self, statement: Statement, on_driver: bool) -> str:
        """A change of rows, which a planned clustering may refuse."""
        refusals = CLUSTERED if self.pending(*CLUSTERINGS) else ()
        done = self.table.run(*statement, refusals=refusals, on_driver=on_driver)
        return DONE if done else REFUSED

    def serve(self, call: str) -> str:
        """A table service, which changes no row."""
        before = self.table.opened.timeline.instants
        self.table.run(call)
        return DONE if self.table.opened.timeline.instants != before else IDLE

    def kill(
        self,
        killed: int,
        statement: Statement,
        refusals: tuple[type[HudisqlError], ...],
        *,
        on_driver: bool = True,
    ) -> str:
        """Run a statement whose process dies before a step; it may have fewer."""
        return self.table.killed(killed, *statement, refusals=refusals, on_driver=on_driver)

    def two_at_once(self, at: int, first: Statement, second: Statement, *, on_driver: bool) -> str:
        """Run the second statement before a step of the first."""
        table = self.table
        with table.settings(SHARED), table.path_of_changes(on_driver):
            done = table.shared(at, first, lambda: table.tried(second[0], CONFLICTS), second[1], CONFLICTS)
        return _of_two(done)

    def undo(self, text: str, undone: set[str]) -> str:
        """Roll commits back; nothing changes if that is refused."""
        unsettled = self.table.unsettled
        if not self.table.tried(text, NOT_UNDONE):
            self.table.take_over()
            return REFUSED
        self.table.expect_gone(undone | unsettled)
        left = set(self.table.history.instants) & undone
        assert not left, f"not rolled back: {sorted(left)}"
        self.table.take_over()
        return DONE

    def kill_undoing(self, killed: int, text: str, undone: set[str]) -> str:
        """Roll commits back in a process that dies."""
        return self.table.killed(killed, text, refusals=NOT_UNDONE, gone=undone)

    def later_than_savepoint(self) -> set[str]:
        """What a restore rolls back: with completion times what was complete later, but for compactions."""
        table, last = self.table.opened, self.savepoints[-1]
        later = {each for each in self.table.history.instants if each > last}
        commits = {each.timestamp: each for each in table.timeline.commits}
        if not table.timeline.layout.has_completion_times or last not in commits:
            return later
        times = completion_times(table, table.timeline.commits)
        [savepoint] = [
            each for each in table.timeline.instants if (each.action, each.timestamp) == (SAVEPOINT, last)
        ]
        made = completion_times(table, [savepoint])[savepoint]
        for name, commit in commits.items():
            if not (self.is_mor and COMMIT in (commit.action, commits[last].action)):
                is_saved = name < last and times[commit] < made
                is_later = times[commit] > times[commits[last]] and not is_saved
                later = later | {name} if is_later else later - {name}
        return later

    def pending(self, *actions: str) -> bool:
        """True if such an instant is planned or not complete."""
        return any(each.action in actions for each in self.table.opened.timeline.pending)

    def planned(self) -> str | None:
        """The instant time of the first compaction or clustering that is requested or inflight."""
        planned = [
            each.timestamp
            for each in self.table.opened.timeline.pending
            if each.action in (COMPACTION, *CLUSTERINGS) and each.state is not InstantState.COMPLETED
        ]
        return planned[0] if planned else None

    def asked_for(self, instant: str) -> bool:
        answered = self.table.check_past(instant)
        self.counts.checks[f"past states{'' if answered else ' that are gone'}"] += 1
        return answered

    def pulled(self, begin: str, end: str) -> bool:
        answered = self.table.check_changes(begin, end)
        self.counts.checks[f"pulls{'' if answered else ' of changes that are gone'}"] += 1
        return answered


def _of_two(done: tuple[bool, bool]) -> str:
    return (REFUSED, "one of two done", DONE)[sum(done)]
