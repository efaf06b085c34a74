"""Applies scripts: one statement after the other, each recorded before and after it runs.

A run that failed or was killed resumes at the first statement that is not done; `recovery` finds what a
killed one has done. The lock is held from reading the history to the end.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hudisql.errors import MigrationConflictError
from hudisql.migrations.listener import Listener
from hudisql.migrations.run_checkpoint import RunCheckpoint, current_user
from hudisql.migrations.script_history import FAILED, SUCCESS, History, HistoryRow, now
from hudisql.migrations.script_plan import MigrationPlan, plan_migrations
from hudisql.migrations.script_run import ScriptRunner
from hudisql.migrations.script_run import StatementFailedError as StatementFailedError
from hudisql.migrations.scripts import (
    MigrationScript,
    MigrationScripts,
    Version,
    identity_of,
    refuse_shell_commands,
)

if TYPE_CHECKING:
    from hudisql.session import Session

DEFAULT_WAIT_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class ApplyOptions:
    """How scripts are applied; `target` is the last version, `wait_seconds` the wait for another runner."""

    target: Version | None = None
    out_of_order: bool = False
    wait_seconds: float = DEFAULT_WAIT_SECONDS


def apply_migrations(
    session: Session,
    history: History,
    scripts: MigrationScripts,
    options: ApplyOptions,
    listener: Listener,
) -> MigrationPlan:
    """Apply the pending scripts; returns the plan that was run.

    Raises MigrationConflictError before anything is run, StatementFailedError, TableLockedError and others.
    """
    with locked_checkpoint(history, options.wait_seconds, listener) as checkpoint:
        plan = plan_migrations(scripts, history.read(), checkpoint.state, out_of_order=options.out_of_order)
        plan.raise_if_conflicting()
        forget_ended_run(checkpoint, plan)
        chosen = up_to(plan, options.target)
        for script in chosen:
            refuse_shell_commands(script)
        for number, script in enumerate(chosen):
            run_script(session, history, checkpoint, script, listener, rank=plan.next_rank + number)
    return plan


def forget_ended_run(checkpoint: RunCheckpoint, plan: MigrationPlan) -> None:
    """Clear the checkpoint of a run that was killed after it wrote its row of the history."""
    if checkpoint.state.run is not None and plan.open_run is None:
        checkpoint.advance(None)


def up_to(plan: MigrationPlan, target: Version | None) -> list[MigrationScript]:
    """The pending scripts, without versions after the target; an unfinished one comes first."""
    wanted = [
        instant
        for instant in plan.pending
        if target is None or instant.version is None or instant.version <= target
    ]
    run = plan.open_run
    return sorted(
        wanted,
        key=lambda migration_script: (
            run is None or (run["type"], run["label"]) != identity_of(migration_script)
        ),
    )


@contextmanager
def locked_checkpoint(history: History, wait_seconds: float, listener: Listener) -> Iterator[RunCheckpoint]:
    """The checkpoint with its lock held; the history table is created if it is missing."""
    checkpoint = history.checkpoint(history.create())
    try:
        checkpoint.acquire(
            wait_seconds, lambda who: listener.note(f"waiting for another runner of migrations: {who}")
        )
        yield checkpoint
    finally:
        checkpoint.release()


def run_script(
    session: Session,
    history: History,
    checkpoint: RunCheckpoint,
    script: MigrationScript,
    listener: Listener,
    *,
    rank: int,
) -> None:
    """Run a script, or resume it where its last run ended. Raises StatementFailedError and others."""
    run = _begun_run(checkpoint, script, rank)
    done = sum(statement["state"] == "done" for statement in run["statements"])
    listener.script_begins(script, done)
    try:
        with session.isolated() as isolated:
            ScriptRunner(isolated, checkpoint, script, run, listener).run_statements()
    except StatementFailedError:
        history.write(_row(script, run, FAILED))
        raise
    history.write(_row(script, run, SUCCESS))
    checkpoint.advance(None)


def _begun_run(checkpoint: RunCheckpoint, script: MigrationScript, rank: int) -> dict[str, Any]:
    found = checkpoint.state.run
    if found is not None and (found["type"], found["label"]) == identity_of(script):
        # The corrected script replaces it.
        run: dict[str, Any] = {**found, "checksum": script.checksum, "script": script.name}
    elif found is not None:
        # Only its checkpoint knows which of its statements are done.
        raise MigrationConflictError(
            f"{found['script']} has begun and not ended, and {script.name} would run before its end",
            hint="finish it first (apply without --target, or undo), or hudisql migrate repair DIR --discard "
            "forgets that it began",
        )
    else:
        run = {
            "id": uuid.uuid4().hex,
            "rank": rank,
            "type": script.kind.value,
            "label": script.label,
            "script": script.name,
            "checksum": script.checksum,
            "user": current_user(),
            "statements": [],
        }
    checkpoint.advance(run)
    return run


def _row(script: MigrationScript, run: Mapping[str, Any], status: str) -> HistoryRow:
    statements = run["statements"]
    return HistoryRow(
        installed_rank=run["rank"],
        version=None if script.version is None else str(script.version),
        description=script.description,
        type=script.kind.value,
        script=script.name,
        checksum=script.checksum,
        installed_by=run["user"],
        installed_on=now(),
        execution_ms=sum(statement["ms"] for statement in statements),
        status=status,
        statements=sum(statement["state"] == "done" for statement in statements),
        instants=[tuple(commit) for statement in statements for commit in statement["commits"]],
        run_id=run["id"],
    )
