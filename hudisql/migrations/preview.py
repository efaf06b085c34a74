"""Shows what `apply` would do: the statements that would run, and dry runs of their bootstraps.

Writes nothing. A bootstrap cannot be previewed if an earlier statement creates its source.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hudisql.errors import BootstrapBlockedError, HudisqlError
from hudisql.migrations.apply_scripts import ApplyOptions, up_to
from hudisql.migrations.listener import Listener, StatementOutcome, counts_of
from hudisql.migrations.recovery import Effect, effect_of
from hudisql.migrations.script_history import History
from hudisql.migrations.script_plan import MigrationPlan, plan_migrations
from hudisql.migrations.scripts import MigrationScript, MigrationScripts, identity_of, refuse_shell_commands
from hudisql.sql.text import statements as st
from hudisql.sql.text.database_names import created_database, used_database
from hudisql.sql.text.parser import parse_statement
from hudisql.sql.text.script import ScriptStatement

if TYPE_CHECKING:
    from hudisql.session import Session


def read_plan(history: History, scripts: MigrationScripts, *, out_of_order: bool = False) -> MigrationPlan:
    """The current plan, without the lock. Raises HudisqlError."""
    return plan_migrations(scripts, history.read(), history.state(), out_of_order=out_of_order)


def preview(
    session: Session,
    history: History,
    scripts: MigrationScripts,
    options: ApplyOptions,
    listener: Listener,
) -> list[StatementOutcome]:
    """Report each statement that would run to the listener; returns those whose bootstrap is blocked.

    Raises MigrationConflictError, SqlSyntaxError and others.
    """
    plan = read_plan(history, scripts, out_of_order=options.out_of_order)
    plan.raise_if_conflicting()
    blocked = []
    made: set[str] = set()
    for script in up_to(plan, options.target):
        refuse_shell_commands(script)
        done = _done(plan, script)
        listener.script_begins(script, done)
        with session.isolated() as isolated:
            previewer = _Previewer(isolated, script, listener, made)
            outcomes = [
                previewer.look_at(number, statement, is_done=number <= done)
                for number, statement in enumerate(script.statements, start=1)
            ]
        blocked += [outcome for outcome in outcomes if isinstance(outcome.error, BootstrapBlockedError)]
    return blocked


def _done(plan: MigrationPlan, script: MigrationScript) -> int:
    run = plan.open_run
    if run is None or (run["type"], run["label"]) != identity_of(script):
        return 0
    return sum(statement["state"] == "done" for statement in run["statements"])


@dataclass
class _Previewer:
    """Previews the statements of one script; `made` are the databases that earlier ones would create."""

    session: Session
    script: MigrationScript
    listener: Listener
    made: set[str]
    absent: str | None = None
    """The current database, if it is one of `made` that does not exist yet."""

    def look_at(self, number: int, statement: ScriptStatement, *, is_done: bool) -> StatementOutcome:
        outcome = StatementOutcome(self.script, number, statement, "skipped" if is_done else "planned")
        text = self.session.substitute(statement)
        effect = effect_of(self.session.context, statement, text)
        head = text.split()[0].upper()
        if (database := created_database(text)) is not None:
            self.made.add(database)
        if effect.effect is Effect.SESSION and head == "USE":
            self._use(replace(statement, text=text))
        elif effect.effect is Effect.SESSION and head == "SET":
            self.session.execute(replace(statement, text=text))
        elif effect.effect is Effect.BOOTSTRAP and not is_done:
            outcome = self._bootstrap(outcome, replace(statement, text=_as_dry_run(text)))
        self.listener.statement_ended(outcome)
        return outcome

    def _use(self, statement: ScriptStatement) -> None:
        """Change the database, unless an earlier statement, which has not run, creates it."""
        database = used_database(statement.text)
        is_absent = database in self.made and self.session.context.metastore.get_database(database) is None
        self.absent = database if is_absent else None
        if not is_absent:
            self.session.execute(statement)

    def _bootstrap(self, outcome: StatementOutcome, dry_run: ScriptStatement) -> StatementOutcome:
        if self.absent is not None and _has_unqualified_table(dry_run.text):
            why = f"the database {self.absent} does not exist yet"
            self.listener.note(f"  {outcome.place}: cannot be previewed yet: {why}")
            return outcome
        try:
            result = self.session.execute(dry_run)
            self.listener.result(result)
        except BootstrapBlockedError as error:
            return replace(outcome, error=error)
        except HudisqlError as error:
            self.listener.note(f"  {outcome.place}: cannot be previewed yet: {error.message}")
            return outcome
        return replace(outcome, counts=counts_of(result), error=result.error)


def _has_unqualified_table(text: str) -> bool:
    call = parse_statement(text)
    assert isinstance(call, st.CallStatement)
    named = {name.lower(): str(value) for name, value in call.named}
    tables = [
        named.get("table", str(call.positional[0]) if call.positional else ""),
        named.get("source_table"),
    ]
    return any(table is not None and "." not in table for table in tables)


def _as_dry_run(text: str) -> str:
    call = parse_statement(text)
    assert isinstance(call, st.CallStatement)
    if any(name.lower() == "dry_run" for name, _ in call.named):
        return text
    end = call.span[1] - 1
    return f"{call.text[:end]}, dry_run => true{call.text[end:]}"
