"""Refreshes the models of a project in the order of their lineage, and runs their tests.

The tables themselves keep the state of a run: a refreshed one has nothing to do, and a test that passed on
the same rows does not run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from hudisql.errors import DataTestFailedError, HudisqlError, InvalidArgumentError
from hudisql.format.schema.meta_columns import is_meta_column
from hudisql.format.schema.spark_schema import quote_name, quote_path
from hudisql.layers.declared_tests import DataTest
from hudisql.layers.model_files import Model
from hudisql.layers.model_plan import CREATE, ModelState, state_of
from hudisql.layers.passed_tests import PassedTests
from hudisql.layers.project import Project
from hudisql.layers.schedule import Piece, Schedule
from hudisql.migrations.listener import StatementOutcome
from hudisql.sql.incremental_tables.definition import properties_clause
from hudisql.sql.text.script import ScriptStatement

if TYPE_CHECKING:
    from hudisql.session import Session

_ROWS_SHOWN: Final = 5
MODEL: Final = "model"
TEST: Final = "test"
OUTCOME_COLUMNS: Final = (
    ("name", "string"),
    ("kind", "string"),
    ("state", "string"),
    ("way", "string"),
    ("reason", "string"),
    ("instant", "string"),
    ("rows_inserted", "bigint"),
    ("rows_updated", "bigint"),
    ("rows_deleted", "bigint"),
    ("seconds", "double"),
)
_ROW_COUNTS: Final = ("rows_inserted", "rows_updated", "rows_deleted")


@dataclass
class ProjectRun:
    """One run over the chosen models and their tests, each in its own session on the same Spark.

    `on_end` receives the outcome of each model and test, from any thread.
    """

    session: Session
    project: Project
    chosen: Sequence[str]
    on_end: Callable[[RunOutcome], None]
    parallelism: int
    is_stopping: Callable[[], bool]

    def __post_init__(self) -> None:
        self._passed = PassedTests(self.session.context, self.project)

    def apply(self) -> bool:
        """Refresh the models, and run the tests that have not passed on the rows; False if one failed."""
        for database in dict.fromkeys(name.split(".")[0] for name in self.chosen):
            if self.session.context.metastore.get_database(database) is None:
                self.session.execute(ScriptStatement(f"CREATE DATABASE IF NOT EXISTS {quote_name(database)}"))
        tests = self.project.tests_of(tuple(self.chosen))
        lineage, chosen = self.project.lineage, set(self.chosen)
        needs: dict[Piece, set[Piece]] = {}
        for name in self.chosen:
            below = {(MODEL, parent) for parent in lineage.parents(name) & chosen}
            before = {(TEST, test) for test in self.project.tests_before[name] if test in tests}
            needs[MODEL, name] = below | before
        for name in tests:
            read = self.project.models_of(self.project.tests[name])
            needs[TEST, name] = {(MODEL, model) for model in read & chosen}
        return self._run(needs, is_forced=False)

    def test(self) -> bool:
        """Run the tests of the chosen models; False if one failed."""
        tests = self.project.tests_of(tuple(self.chosen))
        return self._run({(TEST, name): set() for name in tests}, is_forced=True)

    def _run(self, needs: dict[Piece, set[Piece]], *, is_forced: bool) -> bool:
        def work(piece: Piece) -> bool:
            kind, name = piece
            return self._test(name, is_forced) if kind == TEST else self._refresh(name)

        try:
            return Schedule(needs, work, self._skip, self.parallelism, self.is_stopping).run()
        finally:
            self._passed.save()

    def _refresh(self, name: str) -> bool:
        model, blank = self.project.models[name], self._blank_model(name)
        return self._timed(blank, lambda session: _refreshed(session, model, blank))

    def _test(self, name: str, is_forced: bool) -> bool:
        test = self.project.tests[name]
        blank = self._blank_test(test)

        def run(session: Session) -> RunOutcome:
            fingerprint = self._passed.fingerprint(test)
            if not is_forced and self._passed.has_passed(test, fingerprint):
                return _left_out(blank, "it has passed on these rows")
            found = session.execute(test.statement).df
            shown = found.drop(*filter(is_meta_column, found.columns))
            rows = (shown if shown.columns else found).limit(_ROWS_SHOWN + 1).collect()
            if rows:
                raise _found(test, rows)
            self._passed.add(test, fingerprint)
            return blank

        return self._timed(blank, run)

    def _timed(self, blank: RunOutcome, run: Callable[[Session], RunOutcome]) -> bool:
        from hudisql.sql.text.spark_errors import translated_spark_errors

        started = time.monotonic()
        try:
            with self.session.isolated() as session, translated_spark_errors():
                outcome = run(session)
        except HudisqlError as error:
            outcome = _failed(blank, error)
        except Exception as error:
            outcome = _failed(blank, HudisqlError(f"hudisql itself failed: {type(error).__name__}: {error}"))
        milliseconds = int((time.monotonic() - started) * 1000)
        timed = replace(outcome, statement=replace(outcome.statement, milliseconds=milliseconds))
        self.on_end(timed)
        return timed.statement.state != "failed"

    def _skip(self, piece: Piece, failed: Piece) -> None:
        kind, name = piece
        blank = self._blank_test(self.project.tests[name]) if kind == TEST else self._blank_model(name)
        self.on_end(_left_out(blank, f"{failed[1]} failed"))

    def _blank_model(self, name: str) -> RunOutcome:
        model = self.project.models[name]
        statement = replace(model.statement, text=f"REFRESH INCREMENTAL TABLE {quote_path(name)}")
        return RunOutcome(name, MODEL, StatementOutcome(model.file, 1, statement, "done", label=name))

    def _blank_test(self, test: DataTest) -> RunOutcome:
        statement = StatementOutcome(test.file, test.number, test.statement, "done", label=test.name)
        return RunOutcome(test.name, TEST, statement)


def _refreshed(session: Session, model: Model, blank: RunOutcome) -> RunOutcome:
    """Create, alter and refresh the table of a model."""
    state = state_of(session.context, model)
    if state.refused:
        raise InvalidArgumentError(
            f"{model.name} cannot be changed in place: {state.refused}",
            hint=f"DROP TABLE {model.name} PURGE; the next run creates it again",
        )
    if state.action == CREATE:
        result = session.execute(model.statement)
    else:
        _alter(session, model, state)
        result = session.execute(blank.statement.statement)
    row: dict[str, Any] = result.rows[0].asDict()
    counts = {name: row[name] for name in (*_ROW_COUNTS, "files_written")} | {"way": row["way"]}
    instants = () if row["instant"] is None else (f"{model.name}@{row['instant']}",)
    statement = replace(blank.statement, counts=counts, instants=instants)
    return replace(blank, statement=statement, way=row["way"], reason=row["reason"], instant=row["instant"])


def _alter(session: Session, model: Model, state: ModelState) -> None:
    """Apply the changes of the model's file to its table."""
    name, change = quote_path(model.name), state.change
    if change is not None and change.properties:
        session.execute(ScriptStatement(f"ALTER TABLE {name} SET {properties_clause(change.properties)}"))
        changed = ", ".join(change.properties)
        session.context.console.info(f"{model.name}: properties changed: {changed}")
    if change is not None and change.added:
        columns = ", ".join(f"{quote_name(column)} {kind}" for column, kind in change.added)
        session.execute(ScriptStatement(f"ALTER TABLE {name} ADD COLUMNS ({columns})"))
    if state.alters_query:
        text = f"ALTER INCREMENTAL TABLE {name} AS {model.query}"
        session.execute(replace(model.statement, text=text))


def _left_out(blank: RunOutcome, reason: str) -> RunOutcome:
    statement = replace(blank.statement, state="skipped", skipped_because=reason)
    return replace(blank, statement=statement, reason=reason)


def _failed(blank: RunOutcome, error: HudisqlError) -> RunOutcome:
    return replace(
        blank, statement=replace(blank.statement, state="failed", error=error), reason=error.message
    )


def _found(test: DataTest, rows: Sequence[Any]) -> DataTestFailedError:
    shown = "\n".join(
        "  " + ", ".join(f"{name} = {value}" for name, value in row.asDict().items())
        for row in rows[:_ROWS_SHOWN]
    )
    count = f"more than {_ROWS_SHOWN}" if len(rows) > _ROWS_SHOWN else str(len(rows))
    return DataTestFailedError(
        f"{test.name}: the query found {count} {'row' if count == '1' else 'rows'}:\n{shown}",
        hint=f"{test.place} has the test: fix the rows, or the test",
    )


@dataclass(frozen=True)
class RunOutcome:
    """How a model's refresh or a test ended: `state` is done, failed or skipped.

    `way` and `instant` describe the refresh; a test has none.
    """

    name: str
    kind: str
    statement: StatementOutcome
    way: str | None = None
    reason: str | None = None
    instant: str | None = None

    @property
    def has_changed(self) -> bool:
        """False if nothing had to be done."""
        return self.instant is not None or self.statement.state == "failed"

    @property
    def row(self) -> tuple[object, ...]:
        """The values of OUTCOME_COLUMNS."""
        said = self.statement
        counts = (said.counts.get(name) for name in _ROW_COUNTS)
        seconds = round(said.milliseconds / 1000, 2)
        return (self.name, self.kind, said.state, self.way, self.reason, self.instant, *counts, seconds)
