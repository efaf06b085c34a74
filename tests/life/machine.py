"""The state machine: what may happen to a table, in any order.

Every rule draws what it needs: hypothesis prints a failure as a script of rules that can be run again.
A rule that has nothing to do returns: an assumption that fails would end the life.
Ids are unique in the table; every row that is written has a greater `ts` than all before it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as some
from hypothesis import assume
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

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
from hudisql.write.transaction.concurrency import FILE_SYSTEM_PROVIDER
from tests.life.model import Change, Values, add_column, assign, both, put, remove
from tests.life.table import LivingTable
from tests.oracle.client import HudiOracle

DAYS = ("2024-03-01", "2024-03-02")
SHARED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": FILE_SYSTEM_PROVIDER,
    "hoodie.write.lock.client.wait_time_ms_between_retry": "10",
    "hoodie.write.lock.client.num_retries": "1",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
CLUSTERED = (UnsupportedTableError,)
"""What changes of file groups of a planned clustering raise."""
NOT_UNDONE = (
    RollbackRefusedError,
    InvalidArgumentError,
    NoSuchInstantError,
    NoSuchStateError,
    WriteConflictError,
    UnsupportedTableError,
)

ids = some.sets(some.integers(0, 19), min_size=1, max_size=6)
days = some.sampled_from(DAYS)
numbers = some.integers(0, 99)
steps = some.integers(0, 24)
booleans = some.booleans()

Statement = tuple[str, Change]
MakeTable = Callable[[str, bool, dict[str, str]], LivingTable]


class RandomLife(RuleBasedStateMachine):
    """A table's life; `make_table` makes the table of a type, bootstrapped or not, with properties."""

    make_table: MakeTable
    oracle: HudiOracle | None = None
    table: LivingTable

    @initialize(
        type_=some.sampled_from(("cow", "mor")),
        bootstrapped=booleans,
        retained=some.integers(1, 3),
        least=some.integers(2, 4),
        compacts=booleans,
        clusters=some.sampled_from((False, False, True)),
        beyond=booleans,
    )
    def begin(
        self,
        type_: str,
        bootstrapped: bool,
        retained: int,
        least: int,
        compacts: bool,
        clusters: bool,
        beyond: bool,
    ) -> None:
        # Hypothesis begins with the simplest of all lives, one insert again and again.
        assume(type_ == "mor" or bootstrapped or compacts or clusters or beyond or retained + least > 3)
        properties = {
            "hoodie.clean.commits.retained": str(retained),
            "hoodie.keep.min.commits": str(least),
            "hoodie.keep.max.commits": str(least + 1),
            "hoodie.compact.inline": str(compacts).lower(),
            "hoodie.compact.inline.max.delta.commits": "2",
            "hoodie.clustering.inline": str(clusters).lower(),
            "hoodie.archive.beyond.savepoint": str(beyond).lower(),
        }
        self.ts = 100
        self.is_mor = type_ == "mor"
        self.savepoints: list[str] = []
        self.table = self.make_table(type_, bootstrapped, properties)

    def teardown(self) -> None:
        if hasattr(self, "table"):
            try:
                # The files of a table that failed stay.
                self.end()
                shutil.rmtree(self.table.path)
            finally:
                self.table.session.sql(f"DROP TABLE IF EXISTS {self.table.name}")

    def end(self) -> None:
        """All that the table still knows of its past is right."""
        table = self.table
        table.check()
        answers = [instant for instant in table.history.instants if table.check_past(instant)]
        if self.oracle is not None:
            table.check_oracle(self.oracle)
        for begin, end in zip(["000", *answers], answers, strict=False):
            if begin != end and begin != "000":
                table.check_changes(begin, end)
        if len(answers) > 1:
            table.check_changes(answers[0], answers[-1])
        self.count("past states", len(answers))

    def count(self, name: str, number: int = 1) -> None:
        """Count for the report of a run."""
        counts = type(self).counts
        counts[name] = counts.get(name, 0) + number

    counts: dict[str, int] = {}  # noqa: RUF012

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        if hasattr(self, "table"):
            self.table.check()
            self.count("steps")

    # Changes of rows

    @rule(chosen=ids, day=days, number=numbers, on_driver=booleans)
    def insert(self, chosen: set[int], day: str, number: int, on_driver: bool) -> None:
        self.change(self.insertion(chosen, day, number), on_driver)

    @rule(chosen=ids, number=numbers, on_driver=booleans)
    def update(self, chosen: set[int], number: int, on_driver: bool) -> None:
        self.change(self.updating(chosen, number), on_driver)

    @rule(chosen=ids, day=days, on_driver=booleans)
    def move(self, chosen: set[int], day: str, on_driver: bool) -> None:
        self.ts += 1
        text = f"UPDATE {{t}} SET dt = '{day}', ts = {self.ts} WHERE id IN ({_listed(chosen)})"
        self.change((text, assign(chosen, dt=day, ts=self.ts)), on_driver)

    @rule(chosen=ids, on_driver=booleans)
    def delete(self, chosen: set[int], on_driver: bool) -> None:
        self.change(self.deletion(chosen), on_driver)

    @rule(chosen=ids, deleted=ids, day=days, number=numbers, on_driver=booleans)
    def merge(self, chosen: set[int], deleted: set[int], day: str, number: int, on_driver: bool) -> None:
        self.change(self.merging(chosen, deleted, day, number), on_driver)

    @rule(chosen=ids, day=days, number=numbers, on_driver=booleans)
    def overwrite_partition(self, chosen: set[int], day: str, number: int, on_driver: bool) -> None:
        new = self.new_rows(chosen - (set(self.table.state.rows) - self.table.state.ids(day)), day, number)
        if not new:
            return
        names = [name for name in self.table.state.columns if name != "dt"]
        text = f"INSERT OVERWRITE {{t}} PARTITION (dt = '{day}') ({', '.join(names)}) {_select(new, names)}"
        self.change((text, both(remove(lambda row: row["dt"] == day), put(new))), on_driver)

    @rule(chosen=ids, day=days, number=numbers, on_driver=booleans)
    def overwrite_table(self, chosen: set[int], day: str, number: int, on_driver: bool) -> None:
        new = self.new_rows(chosen, day, number)
        names = list(self.table.state.columns)
        text = f"INSERT OVERWRITE {{t}} ({', '.join(names)}) {_select(new, names)}"
        self.change((text, both(remove(lambda _: True), put(new))), on_driver)

    @rule(day=days)
    def drop_partition(self, day: str) -> None:
        if not self.table.state.ids(day):
            return
        text = f"ALTER TABLE {{t}} DROP PARTITION (dt = '{day}')"
        self.change((text, remove(lambda row: row["dt"] == day)), True)

    @rule()
    @precondition(lambda self: len(self.table.state.columns) < 8)
    def add_column(self) -> None:
        name = f"c{len(self.table.state.columns)}"
        self.change((f"ALTER TABLE {{t}} ADD COLUMNS ({name} BIGINT)", add_column(name)), True)

    # Table services

    @rule(op=some.sampled_from(("schedule", "run", "scheduleandexecute")))
    @precondition(lambda self: self.is_mor)
    def compact(self, op: str) -> None:
        self.serve(self.compaction(op))

    @rule(op=some.sampled_from(("schedule", "execute", "scheduleAndExecute")), order=booleans)
    def cluster(self, op: str, order: bool) -> None:
        self.serve(self.clustering(op, order))

    @rule(retained=some.integers(1, 3))
    def clean(self, retained: int) -> None:
        self.serve(f"CALL run_clean(table => '{{t}}', retain_commits => {retained})")

    @rule(versions=some.integers(1, 2))
    def clean_by_versions(self, versions: int) -> None:
        self.serve(self.cleaning_by_versions(versions))

    @rule(least=some.integers(2, 4), retained=some.integers(1, 3))
    def archive(self, least: int, retained: int) -> None:
        self.serve(self.archiving(least, retained))

    @rule(retained=some.integers(1, 4))
    def set_retention(self, retained: int) -> None:
        self.serve(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('hoodie.clean.commits.retained' = '{retained}')")

    # Undoing

    @rule(number=some.integers(0, 3))
    def create_savepoint(self, number: int) -> None:
        chosen = self.table.history.instants[-1 - min(number, len(self.table.history.instants) - 1)]
        text = f"CALL create_savepoint(table => '{{t}}', commit_time => '{chosen}')"
        if self.table.run(text, refusals=NOT_UNDONE):
            self.savepoints = sorted([*self.savepoints, chosen])

    @rule(number=some.integers(0, 2))
    @precondition(lambda self: self.savepoints)
    def delete_savepoint(self, number: int) -> None:
        chosen = self.savepoints[number % len(self.savepoints)]
        text = f"CALL delete_savepoint(table => '{{t}}', instant_time => '{chosen}')"
        if self.table.run(text, refusals=NOT_UNDONE):
            self.savepoints.remove(chosen)

    @rule(step=some.none() | steps)
    @precondition(lambda self: self.savepoints)
    def restore(self, step: int | None) -> None:
        saved = self.savepoints[-1]
        text = "CALL rollback_to_savepoint(table => '{t}')"
        later = {each for each in self.table.history.instants if each > saved}
        if step is None:
            self.undo(text, later)
        elif self.killed_undoing(step, text, later) and self.pending("restore"):
            assert not self.table.run(*self.insertion({1}, DAYS[0], 1), refusals=(UnsupportedTableError,))
            self.undo(text, later)

    @rule(step=some.none() | steps)
    @precondition(lambda self: len(self.table.history.instants) > 1)
    def roll_back(self, step: int | None) -> None:
        latest = self.table.history.instants[-1]
        text = f"CALL rollback_to_instant(table => '{{t}}', instant_time => '{latest}')"
        if step is None:
            self.undo(text, {latest})
        else:
            self.killed_undoing(step, text, {latest})

    # Faults

    @rule(data=some.data(), step=steps, on_driver=booleans)
    def kill_a_change(self, data: Any, step: int, on_driver: bool) -> None:
        text, change = data.draw(self.statements(), label="killed")
        if self.table.killed(step, text, change, refusals=CLUSTERED, on_driver=on_driver):
            self.count("killed changes")

    @rule(data=some.data(), step=steps)
    def kill_a_service(self, data: Any, step: int) -> None:
        calls = [
            "CALL run_clean(table => '{t}', retain_commits => 1)",
            self.cleaning_by_versions(1),
            self.archiving(2, 1),
            self.clustering("scheduleAndExecute", False),
        ]
        if self.is_mor:
            calls.append(self.compaction("scheduleandexecute"))
        if self.table.killed(step, data.draw(some.sampled_from(calls), label="killed"), refusals=CLUSTERED):
            self.count("killed services")

    @rule(data=some.data(), step=steps, on_driver=booleans)
    def two_writers(self, data: Any, step: int, on_driver: bool) -> None:
        first = data.draw(self.statements(0), label="first")
        second = data.draw(self.statements(1), label="second")
        refusals = (WriteConflictError, TableLockedError, *CLUSTERED)
        with self.table.settings(SHARED), self.table.path_of_changes(on_driver):
            done = self.table.shared(step, first, second, refusals=refusals)
        self.count(f"two writers, {sum(done)} done")

    # Questions

    @rule(number=numbers)
    def ask_for_the_past(self, number: int) -> None:
        instants = self.table.history.instants
        self.table.check_past(instants[-1 - number % min(len(instants), 4)])

    @rule(first=numbers, second=numbers)
    def pull_changes(self, first: int, second: int) -> None:
        instants = self.table.history.instants[-6:]
        begin, end = sorted((first % len(instants), second % len(instants)))
        if begin != end and self.table.check_changes(instants[begin], instants[end]):
            self.count("pulls")

    # Apache Hudi

    @rule(chosen=ids, day=days, number=numbers)
    @precondition(lambda self: self.oracle is not None and not self.pending("replacecommit"))
    def hudi_upserts(self, chosen: set[int], day: str, number: int) -> None:
        assert self.oracle is not None
        new = self.new_rows(chosen, day, number, keeps_days=True)
        options = {
            "hoodie.table.name": self.table.opened.name,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": "dt",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ" if self.is_mor else "COPY_ON_WRITE",
            "hoodie.clean.automatic": str(number % 2 == 0).lower(),
            "hoodie.clean.commits.retained": "2",
            "hoodie.archive.automatic": str(number % 3 == 0).lower(),
            "hoodie.keep.min.commits": "3",
            "hoodie.keep.max.commits": "4",
            "hoodie.compact.inline": "false",
        }
        self.oracle.upsert(self.table.rows_of(new), self.table.path, options)
        assert self.table.take_over(put(new))
        self.count("upserts by Hudi")

    @rule(op=some.sampled_from(("schedule", "run")))
    @precondition(lambda self: self.oracle is not None and self.is_mor)
    def hudi_compacts(self, op: str) -> None:
        self.serve_by_hudi(
            f"CALL run_compaction(op => '{op}', path => '{self.table.path}', options => "
            "'hoodie.metadata.enable=false,hoodie.compact.inline.max.delta.commits=1')"
        )

    @rule(op=some.sampled_from(("schedule", "execute")))
    @precondition(lambda self: self.oracle is not None)
    def hudi_clusters(self, op: str) -> None:
        self.serve_by_hudi(
            f"CALL run_clustering(op => '{op}', path => '{self.table.path}', "
            "options => 'hoodie.metadata.enable=false')"
        )

    @rule(retained=some.integers(1, 3))
    @precondition(lambda self: self.oracle is not None)
    def hudi_cleans(self, retained: int) -> None:
        self.serve_by_hudi(f"CALL run_clean(table => '{self.table.name}', retain_commits => {retained})")

    # What rules are made of

    def change(self, statement: Statement, on_driver: bool) -> None:
        """A change of rows, which a planned clustering may refuse."""
        refusals = CLUSTERED if self.pending("replacecommit") else ()
        done = self.table.run(*statement, refusals=refusals, on_driver=on_driver)
        self.count("changes" if done else "refused changes")

    def serve(self, call: str) -> None:
        """A table service, which changes no row."""
        refusals: tuple[type[HudisqlError], ...] = ()
        self.table.run(call, refusals=refusals)
        self.count("services")

    def serve_by_hudi(self, call: str) -> None:
        """A table service of Apache Hudi's."""
        assert self.oracle is not None
        self.oracle.sql("SET hoodie.metadata.enable = false")
        self.oracle.sql(call)
        self.table.take_over()
        self.count("services of Hudi")

    def undo(self, text: str, undone: set[str]) -> None:
        """Roll commits back; nothing changes if that is refused."""
        unsettled = self.table.unsettled
        try:
            self.table.session.sql(text.replace("{t}", self.table.name))
        except NOT_UNDONE as error:
            self.table.refusals.append(f"{type(error).__name__}: {error.message}")
            self.table.take_over()
            self.count("refused undoings")
            return
        self.table.expect_gone(undone | unsettled)
        left = set(self.table.history.instants) & undone
        assert not left, f"not rolled back: {sorted(left)}"
        self.table.take_over()
        self.count("undoings")

    def killed_undoing(self, step: int, text: str, undone: set[str]) -> bool:
        """Roll commits back in a process that dies; True if it did."""
        killed = self.table.killed(step, text, refusals=NOT_UNDONE, gone=undone)
        self.count("killed undoings", killed)
        return killed

    def pending(self, action: str) -> bool:
        """True if such an instant is planned or not complete."""
        return any(each.action == action for each in self.table.opened.timeline.pending)

    def statements(self, remainder: int | None = None) -> Any:
        """A change of rows; of those ids only that have a remainder by 2."""

        def keep(chosen: set[int]) -> set[int]:
            return chosen if remainder is None else {2 * (id_ // 2) + remainder for id_ in chosen}

        chosen = ids.map(keep)
        return some.one_of(
            some.builds(self.insertion, chosen, days, numbers),
            some.builds(self.updating, chosen, numbers),
            some.builds(self.deletion, chosen),
            some.builds(self.merging, chosen, chosen, days, numbers),
        )

    def insertion(self, chosen: set[int], day: str, number: int) -> Statement:
        new = self.new_rows(chosen, day, number, keeps_days=True)
        names = list(self.table.state.columns)
        return f"INSERT INTO {{t}} ({', '.join(names)}) {_select(new, names)}", put(new)

    def updating(self, chosen: set[int], number: int) -> Statement:
        text = f"UPDATE {{t}} SET price = {number}.5, note = 'u{number}' WHERE id IN ({_listed(chosen)})"
        return text, assign(chosen, price=number + 0.5, note=f"u{number}")

    def deletion(self, chosen: set[int]) -> Statement:
        return f"DELETE FROM {{t}} WHERE id IN ({_listed(chosen)})", remove(lambda row: row["id"] in chosen)

    def merging(self, chosen: set[int], deleted: set[int], day: str, number: int) -> Statement:
        new = self.new_rows(chosen, day, number, keeps_days=True)
        gone = deleted & set(self.table.state.rows) & chosen
        names = list(self.table.state.columns)
        text = (
            f"MERGE INTO {{t}} t USING ({_select(new, names)}) s ON t.id = s.id "
            f"WHEN MATCHED AND s.id IN ({_listed(gone | {-1})}) THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        kept = [row for row in new if row["id"] not in gone]
        return text, both(put(kept), remove(lambda row: row["id"] in gone))

    def new_rows(self, chosen: set[int], day: str, number: int, *, keeps_days: bool = False) -> list[Values]:
        """Rows of these ids, in the partition that they are in if there they are."""
        self.ts += 1
        state = self.table.state
        added = dict.fromkeys(state.columns[5:], number)
        return [
            {
                "id": id_,
                "note": None if (id_ + number) % 5 == 0 else f"n{number}",
                "price": float(number + id_),
                "ts": self.ts,
                "dt": state.rows[id_]["dt"] if keeps_days and id_ in state.rows else day,
                **added,
            }
            for id_ in sorted(chosen)
        ]

    def compaction(self, op: str) -> str:
        return (
            f"CALL run_compaction(op => '{op}', table => '{{t}}', "
            "options => 'hoodie.compact.inline.max.delta.commits=1')"
        )

    def clustering(self, op: str, order: bool) -> str:
        ordered = ", order => 'price,id'" if order else ""
        return f"CALL run_clustering(op => '{op}', table => '{{t}}'{ordered})"

    def cleaning_by_versions(self, versions: int) -> str:
        return (
            "CALL run_clean(table => '{t}', clean_policy => 'KEEP_LATEST_FILE_VERSIONS', "
            f"file_versions_retained => {versions})"
        )

    def archiving(self, least: int, retained: int) -> str:
        return (
            f"CALL archive_commits(table => '{{t}}', min_commits => {least}, max_commits => {least + 1}, "
            f"retain_commits => {retained})"
        )


def _listed(values: set[int]) -> str:
    return ", ".join(map(str, sorted(values)))


def _select(rows: list[Values], names: list[str]) -> str:
    """The rows as literals of a query."""
    types = {"id": "BIGINT", "note": "STRING", "price": "DOUBLE", "ts": "BIGINT", "dt": "STRING"}
    listed = [
        ", ".join(f"CAST({_literal(row[name])} AS {types.get(name, 'BIGINT')}) AS {name}" for name in names)
        for row in rows
    ]
    return " UNION ALL ".join(f"SELECT {each}" for each in listed)


def _literal(value: Any) -> str:
    return "NULL" if value is None else repr(value)
