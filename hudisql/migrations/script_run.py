"""Runs the statements of one script: each is recorded in the checkpoint before and after it runs.

`recovery` finds out what a statement of a killed run has done.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from hudisql.errors import HudisqlError, MigrationConflictError, SyncFailedError
from hudisql.migrations.listener import Listener, StatementOutcome, counts_of
from hudisql.migrations.recovery import (
    MARK,
    Effect,
    FoundCommit,
    StatementEffect,
    effect_of,
    find_marked_commit,
    has_happened,
    settle_made_table,
    sync_target,
    targets_before,
)
from hudisql.migrations.run_checkpoint import RunCheckpoint
from hudisql.migrations.script_history import FAILED
from hudisql.migrations.scripts import (
    MigrationScript,
    checksum_of,
)
from hudisql.sql.text import statements as st
from hudisql.sql.text.parser import parse_statement
from hudisql.sql.text.script import ScriptStatement
from hudisql.write.transaction.commit_annotations import annotate_commits

if TYPE_CHECKING:
    from hudisql.session import Session


_TEXT_SHOWN: Final = 200


class StatementFailedError(Exception):
    """A statement failed: the outcome has its error. The listener already has it."""

    def __init__(self, outcome: StatementOutcome, error: HudisqlError) -> None:
        super().__init__(str(error))
        self.outcome = outcome
        self.error = error


@dataclass
class ScriptRunner:
    """Runs the statements of one script in its own session."""

    session: Session
    checkpoint: RunCheckpoint
    script: MigrationScript
    run: dict[str, Any]
    listener: Listener
    executing: int = 0
    """The number of the statement that this run has begun."""

    def run_statements(self) -> None:
        """Run the statements that are not done. Raises StatementFailedError, MigrationConflictError."""
        for number, statement in enumerate(self.script.statements, start=1):
            started = time.monotonic()
            try:
                outcome = self._run(number, statement)
            except HudisqlError as error:
                if isinstance(error, MigrationConflictError):
                    raise
                outcome = self._failed(number, statement, error, started)
            except Exception as error:
                own = HudisqlError(f"hudisql itself failed: {type(error).__name__}: {error}")
                outcome = self._failed(number, statement, own, started)
            self.listener.statement_ended(outcome)
            if outcome.error is not None:
                raise StatementFailedError(outcome, outcome.error)

    def _run(self, number: int, statement: ScriptStatement) -> StatementOutcome:
        text = self.session.substitute(statement)
        effect = effect_of(self.session.context, statement, text)
        known = self._known(number)
        if known is not None:
            self._refuse_replacing(number, statement, effect.effect, known)
        outcome = StatementOutcome(self.script, number, statement, "done")
        if effect.effect is Effect.SESSION:
            result = self.session.execute(replace(statement, text=text))
            if result.has_rows:
                self.listener.result(result)
            self._record(number, statement, "done", effect=effect.effect)
            return outcome
        if known is not None and known["effect"] == Effect.SESSION.value:
            known = None  # another statement is now in its place
        if known is not None and known["state"] == "done":
            return replace(outcome, state="skipped", instants=_instants(known))
        if known is not None and self._recover(number, statement, effect, known):
            return replace(outcome, state="recovered", instants=_instants(self._known(number) or known))
        if effect.effect is Effect.BOOTSTRAP and known is not None:
            text = _resumed(text)
        return self._execute(number, replace(statement, text=text), effect, outcome, statement)

    def _refuse_replacing(
        self, number: int, statement: ScriptStatement, effect: Effect, known: Mapping[str, Any]
    ) -> None:
        """Raise MigrationConflictError if the statement replaces one that may have taken effect."""
        was = Effect(known["effect"] or Effect.COMMIT)
        is_started = known["state"] == "started"
        is_open = is_started or (known["state"] == FAILED and effect is Effect.SESSION)
        is_changed = known["checksum"] != checksum_of(statement.text)
        if not (is_open and is_changed) or was in (Effect.SESSION, Effect.REPEATABLE):
            return
        found_commit = find_marked_commit(self.session.context, list(known["before"]), self._mark(number))
        is_unknown = is_started and was in (Effect.MAKES, Effect.REMOVES, Effect.UNKNOWN)
        if found_commit is not None or is_unknown:
            happened = (
                f"has committed as {found_commit.instant_time}" if found_commit else "may have happened"
            )
            raise MigrationConflictError(
                f"{self.script.path}:{statement.line}: statement {number} was changed, but the one that "
                f"stood there {happened}: {known['text']}",
                hint="put it back, and write what is new behind it; or hudisql migrate repair DIR --done (it "
                "has happened) or --again (it has not)",
            )

    def _execute(
        self,
        number: int,
        bound: ScriptStatement,
        effect: StatementEffect,
        outcome: StatementOutcome,
        statement: ScriptStatement,
    ) -> StatementOutcome:
        before = targets_before(self.session.context, effect)
        checksum = checksum_of(statement.text)
        self._record(number, statement, "started", before=before, effect=effect.effect)
        self.executing = number
        started = time.monotonic()

        def makes_table(path: str) -> None:
            self._record(number, statement, "started", before=before, effect=effect.effect, makes=path)

        mark = {MARK: f"{self._mark(number)}/{checksum}"}
        with annotate_commits(mark, makes_table) as annotations:
            result = self.session.execute(bound)
            if result.has_rows:
                self.listener.result(result)
            counts = counts_of(result)
        milliseconds = round((time.monotonic() - started) * 1000)
        commits = [list(astuple(commit)) for commit in annotations.commits]
        if result.error is not None:
            self._record(number, statement, FAILED, before=before, ms=milliseconds, commits=commits)
            return replace(
                outcome, state=FAILED, milliseconds=milliseconds, counts=counts, error=result.error
            )
        self._record(number, statement, "done", before=before, ms=milliseconds, commits=commits)
        known = self._known(number)
        assert known is not None
        return replace(outcome, milliseconds=milliseconds, counts=counts, instants=_instants(known))

    def _recover(
        self, number: int, statement: ScriptStatement, effect: StatementEffect, known: Mapping[str, Any]
    ) -> bool:
        """Whether an earlier run of the statement, which recorded no result or failed, has happened."""
        context, checksum = self.session.context, checksum_of(statement.text)
        names = list({*(str(table) for table in effect.tables), *known["before"]})
        found_commit = None
        if effect.effect is not Effect.REPEATABLE:
            found_commit = find_marked_commit(context, names, self._mark(number))
        if found_commit is not None and found_commit.checksum != checksum:
            raise MigrationConflictError(
                f"{self.script.path}:{statement.line}: statement {number} was changed, but the one that "
                f"stood there has committed already, as {found_commit.instant_time} of "
                f"{found_commit.base_path}",
                hint="put it back, and write what is new as another statement",
            )
        if found_commit is None and known["state"] != FAILED:
            found_commit = self._settle_made_table(number, statement, known)
        if found_commit is not None and effect.effect is not Effect.UNKNOWN:
            sync_target(context, names)
            commits = [[found_commit.base_path, found_commit.before, found_commit.instant_time]]
            self._record(number, statement, "done", before=known["before"], commits=commits)
            return True
        if known["state"] == FAILED:
            return False
        happened = has_happened(context, effect, known["before"])
        if happened is None and (found_commit is not None or known["checksum"] == checksum):
            raise self._unknown(number, statement)
        if happened:
            self._record(number, statement, "done", before=known["before"])
        return bool(happened)

    def _settle_made_table(
        self, number: int, statement: ScriptStatement, known: Mapping[str, Any]
    ) -> FoundCommit | None:
        path, checksum = known.get("makes"), checksum_of(statement.text)
        if path is None or known["checksum"] != checksum:
            return None
        parsed = parse_statement(self.session.substitute(statement), line=statement.line)
        if not isinstance(parsed, st.CreateTableAsStatement):
            return None
        return settle_made_table(self.session.context, parsed, path, self._mark(number), checksum)

    def _unknown(self, number: int, statement: ScriptStatement) -> MigrationConflictError:
        directory = self.script.path.parent
        return MigrationConflictError(
            f"{self.script.path}:{statement.line}: the last run was interrupted in statement {number}, and "
            f"whether it has happened is unknown: {_shown(statement.text)}",
            hint=f"look at its table; then hudisql migrate repair {directory} --done (it has happened) or "
            "--again (run it again)",
        )

    def _failed(
        self, number: int, statement: ScriptStatement, error: HudisqlError, started: float
    ) -> StatementOutcome:
        milliseconds = round((time.monotonic() - started) * 1000)
        known = self._known(number) or {}
        if known.get("state") == "started" and self.executing != number:
            # This run has not reached it: what the killed one did is still unknown.
            return StatementOutcome(self.script, number, statement, FAILED, milliseconds, error=error)
        # After a failed sync the commit exists: the next run finds its mark.
        state = "started" if isinstance(error, SyncFailedError) else FAILED
        self._record(
            number, statement, state, before=known.get("before", {}), ms=milliseconds, error=str(error)
        )
        return StatementOutcome(self.script, number, statement, FAILED, milliseconds, error=error)

    def _known(self, number: int) -> dict[str, Any] | None:
        statements = self.run["statements"]
        return statements[number - 1] if number <= len(statements) else None

    def _mark(self, number: int) -> str:
        return f"{self.run['id']}/{number}"

    def _record(
        self,
        number: int,
        statement: ScriptStatement,
        state: str,
        *,
        before: Mapping[str, str | None] | None = None,
        ms: int = 0,
        commits: list[list[str | None]] | None = None,
        error: str | None = None,
        effect: Effect | None = None,
        makes: str | None = None,
    ) -> None:
        record = {
            "effect": None if effect is None else effect.value,
            "checksum": checksum_of(statement.text),
            "line": statement.line,
            "text": _shown(statement.text),
            "state": state,
            "before": dict(before or {}),
            "ms": ms,
            "commits": commits or [],
            "error": error,
            "makes": makes,
        }
        self.run["statements"][number - 1 : number] = [record]
        # A copy: the recorded state must not change with the run.
        self.checkpoint.advance(json.loads(json.dumps(self.run)))


def _instants(record: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{path}@{instant}" for path, _, instant in record["commits"])


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_SHOWN else f"{line[:_TEXT_SHOWN]}…"


def _resumed(text: str) -> str:
    """A bootstrap's CALL with `resume => true`, unless it has that argument or is a dry run."""
    call = parse_statement(text)
    assert isinstance(call, st.CallStatement)
    if any(name.lower() in ("resume", "dry_run") for name, _ in call.named):
        return text
    end = call.span[1] - 1
    return f"{call.text[:end]}, resume => true{call.text[end:]}"
