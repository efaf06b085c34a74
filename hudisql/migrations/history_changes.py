"""Manual changes of the history: a baseline, and repairs. No script's statement is run."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hudisql.errors import MigrationConflictError
from hudisql.migrations.apply_scripts import locked_checkpoint
from hudisql.migrations.listener import Listener
from hudisql.migrations.run_checkpoint import RunCheckpoint, current_user
from hudisql.migrations.script_history import BASELINE, DELETED, FAILED, SUCCESS, History, HistoryRow, now
from hudisql.migrations.script_plan import (
    MigrationPlan,
    ScriptState,
    applied_versions,
    open_run_of,
    plan_migrations,
)
from hudisql.migrations.scripts import MigrationScript, MigrationScripts, Version, checksum_of, identity_of

Resolution = Literal["done", "again", "discard"]


@dataclass(frozen=True)
class RepairOptions:
    """`resolution` says what to do with a statement whose outcome is unknown, or with the run (`discard`)."""

    resolution: Resolution | None = None
    dry_run: bool = False
    wait_seconds: float = 3600.0


def baseline(
    history: History, version: Version, description: str, listener: Listener, wait_seconds: float
) -> None:
    """Record that everything up to `version` counts as applied.

    Raises MigrationConflictError if scripts were applied already or one has begun, TableLockedError,
    HudisqlError.
    """
    with locked_checkpoint(history, wait_seconds, listener) as checkpoint:
        rows = history.read()
        same = [row for row in rows if row.type == BASELINE and row.version == str(version)]
        if same:
            listener.note(f"the baseline is {version} already")
            return
        if applied_versions(rows) or any(row.type == BASELINE for row in rows):
            raise MigrationConflictError(
                f"{history.full_name} has scripts or a baseline already",
                hint="a baseline is the first row of a history; migrate info DIR lists the rows",
            )
        run = open_run_of(rows, checkpoint.state)
        if run is not None:
            raise MigrationConflictError(
                f"{run['script']} has begun and not ended, and a baseline is the first row of a history",
                hint="finish it first (hudisql migrate apply DIR), or hudisql migrate repair DIR --discard "
                "forgets that it began",
            )
        rank = max([row.installed_rank for row in rows], default=0) + 1
        history.write(
            HistoryRow(
                installed_rank=rank,
                version=str(version),
                description=description,
                type=BASELINE,
                script=description,
                checksum=None,
                installed_by=current_user(),
                installed_on=now(),
                execution_ms=0,
                status=SUCCESS,
                statements=0,
                run_id=uuid.uuid4().hex,
            )
        )


def repair(history: History, scripts: MigrationScripts, options: RepairOptions, listener: Listener) -> int:
    """Update the history to the current scripts; returns the number of repairs.

    Checksums of changed scripts are accepted, rows of missing scripts are marked as deleted, and the
    unfinished run is resolved as the options say. Raises TableLockedError, HudisqlError.
    """
    if options.dry_run:
        path = history.base_path()
        if path is None:
            return 0
        checkpoint = history.checkpoint(path)
        checkpoint.state = checkpoint.read()
        return _repair(history, scripts, checkpoint, options, listener)
    with locked_checkpoint(history, options.wait_seconds, listener) as checkpoint:
        return _repair(history, scripts, checkpoint, options, listener)


def _repair(
    history: History,
    scripts: MigrationScripts,
    checkpoint: RunCheckpoint,
    options: RepairOptions,
    listener: Listener,
) -> int:
    rows = history.read()
    plan = plan_migrations(scripts, rows, checkpoint.state)
    changed = _repaired_rows(plan)
    for row, why in changed:
        listener.note(f"{row.script}: {why}")
        if not options.dry_run:
            history.write(row)
    if plan.open_run is None:
        return len(changed)
    return len(changed) + _repair_run(history, rows, scripts, checkpoint, plan, options, listener)


def _repaired_rows(plan: MigrationPlan) -> list[tuple[HistoryRow, str]]:
    found = []
    for status in plan.statuses:
        if status.row is None:
            continue
        if status.state is ScriptState.CHANGED and status.script is not None:
            row = replace(status.row, checksum=status.script.checksum, script=status.script.name)
            found.append((row, "its new checksum is accepted"))
        elif status.state is ScriptState.MISSING:
            found.append((replace(status.row, status=DELETED), "is missing: its row is marked as deleted"))
    return found


def _repair_run(
    history: History,
    rows: Sequence[HistoryRow],
    scripts: MigrationScripts,
    checkpoint: RunCheckpoint,
    plan: MigrationPlan,
    options: RepairOptions,
    listener: Listener,
) -> int:
    assert plan.open_run is not None
    run: dict[str, Any] = json.loads(json.dumps(plan.open_run))
    if options.resolution == "discard":
        listener.note(f"{run['script']}: its unfinished run is forgotten, its effects stay")
        if not options.dry_run:
            for row in rows:
                if row.run_id == run["id"]:
                    history.write(replace(row, status=DELETED))
            checkpoint.advance(None)
        return 1
    repaired = _accept_changes(scripts, run, listener)
    last = run["statements"][-1] if run["statements"] else None
    if last is not None and last["state"] == "started" and options.resolution is not None:
        last["state"] = "done" if options.resolution == "done" else FAILED
        said = "counts as done" if options.resolution == "done" else "runs again"
        listener.note(f"{run['script']}:{last['line']}: {said}: {last['text']}")
        repaired += 1
    if repaired and not options.dry_run:
        checkpoint.advance(run)
    return repaired


def _accept_changes(scripts: MigrationScripts, run: dict[str, Any], listener: Listener) -> int:
    """Accept the changed texts of statements that are done."""
    every = (*scripts.versioned, *scripts.repeatable, *scripts.undo)
    script: MigrationScript | None = next(
        (
            migration_script
            for migration_script in every
            if identity_of(migration_script) == (run["type"], run["label"])
        ),
        None,
    )
    if script is None:
        return 0
    accepted = 0
    done = [statement for statement in run["statements"] if statement["state"] == "done"]
    for number, (record, statement) in enumerate(zip(done, script.statements, strict=False), start=1):
        checksum = checksum_of(statement.text)
        if record["checksum"] != checksum:
            listener.note(f"{script.name}: the new text of statement {number} is accepted, it does not run")
            record["checksum"] = checksum
            accepted += 1
    return accepted
