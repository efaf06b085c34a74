"""Undoes versions: by their U scripts, or by restoring the tables to the instants before the script.

A restore needs no script: each table returns to its latest commit before the script first committed to it. It
is refused if another writer has committed since. Statements without a commit (DDL of the metastore, settings)
are not undone by it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hudisql.errors import (
    MigrationConflictError,
    NoSuchTableError,
    RollbackRefusedError,
)
from hudisql.migrations.apply_scripts import forget_ended_run, locked_checkpoint, run_script
from hudisql.migrations.listener import Listener
from hudisql.migrations.run_checkpoint import CheckpointState, RunCheckpoint, current_user
from hudisql.migrations.script_history import SUCCESS, History, HistoryRow, now
from hudisql.migrations.script_plan import MigrationPlan, applied_versions, plan_migrations
from hudisql.migrations.scripts import (
    MigrationScript,
    MigrationScripts,
    ScriptKind,
    Version,
    refuse_shell_commands,
)
from hudisql.options.table_call import open_session_table
from hudisql.sql_literals import quote_string
from hudisql.table.hudi_table import HudiTable

if TYPE_CHECKING:
    from hudisql.session import Session

RESTORED: Final = "restored to the instants before it"


@dataclass(frozen=True)
class TableRestore:
    """A table and the instant to restore it to, None if the script created it; `made` are its commits."""

    base_path: str
    before: str | None
    made: frozenset[str]


@dataclass(frozen=True)
class UndoOptions:
    """Versions above `target` are undone; None undoes only the latest version."""

    target: Version | None = None
    restores: bool = False
    dry_run: bool = False
    wait_seconds: float = 3600.0


def undo_migrations(
    session: Session,
    history: History,
    scripts: MigrationScripts,
    options: UndoOptions,
    listener: Listener,
) -> int:
    """Undo versions, the latest first; returns their number.

    Raises MigrationConflictError if there is no U script or another run is unfinished, RollbackRefusedError
    if a restore would lose commits of others, StatementFailedError, TableLockedError, HudisqlError.
    """
    undoing = _Undoing(session, history, scripts, options, listener)
    if options.dry_run:
        return undoing.run(history.state(), None)
    with locked_checkpoint(history, options.wait_seconds, listener) as checkpoint:
        return undoing.run(checkpoint.state, checkpoint)


@dataclass(frozen=True)
class _Undoing:
    session: Session
    history: History
    scripts: MigrationScripts
    options: UndoOptions
    listener: Listener

    def run(self, state: CheckpointState, checkpoint: RunCheckpoint | None) -> int:
        """Undo the chosen versions; a dry run writes no checkpoint."""
        rows = self.history.read()
        plan = plan_migrations(self.scripts, rows, state)
        _check_no_other_run(plan)
        if checkpoint is not None:
            forget_ended_run(checkpoint, plan)
        chosen = list(_chosen(rows, self.options.target))
        for rank, (version, row) in enumerate(chosen, start=plan.next_rank):
            if self.options.restores:
                dry_run = checkpoint is None
                _restore(self.session, self.history, row, rank, self.listener, dry_run=dry_run)
                continue
            script = _undo_script(self.scripts, version)
            if checkpoint is None:
                self.listener.note(f"{script.name} would run: {len(script.statements)} statements")
            else:
                run_script(self.session, self.history, checkpoint, script, self.listener, rank=rank)
        return len(chosen)


def _check_no_other_run(plan: MigrationPlan) -> None:
    if plan.open_run is not None and plan.open_run["type"] != ScriptKind.UNDO.value:
        raise MigrationConflictError(
            f"{plan.open_run['script']} has begun and not ended",
            hint="apply it to its end first, or hudisql migrate repair DIR --discard forgets that it began",
        )


def _chosen(rows: Sequence[HistoryRow], target: Version | None) -> Iterator[tuple[Version, HistoryRow]]:
    applied = applied_versions(rows)
    latest_first = sorted(applied, reverse=True)
    for version in latest_first if target is not None else latest_first[:1]:
        if target is None or version > target:
            yield version, applied[version]


def _undo_script(scripts: MigrationScripts, version: Version) -> MigrationScript:
    for script in scripts.undo:
        if script.version == version:
            refuse_shell_commands(script)
            return script
    raise MigrationConflictError(
        f"there is no U{version}__… script in {scripts.directory} that undoes version {version}",
        hint="write one, or undo --restore brings its tables back to the instants before it",
    )


def restores_of(row: HistoryRow) -> list[TableRestore]:
    """The tables that a script committed to, the last one first."""
    by_path: dict[str, TableRestore] = {}
    for path, before, instant_time in row.instants:
        known = by_path.get(path, TableRestore(path, before, frozenset()))
        by_path[path] = replace(known, made=known.made | {instant_time})
    return list(reversed(by_path.values()))


def _restore(
    session: Session, history: History, row: HistoryRow, rank: int, listener: Listener, *, dry_run: bool
) -> None:
    planned = [(restore, _open(session, restore)) for restore in restores_of(row)]
    for restore, table in planned:
        if table is not None:
            _check_nothing_else(restore, table)
    for restore, table in planned:
        to = "removed: the script created it" if restore.before is None else f"restored to {restore.before}"
        listener.note(f"  {restore.base_path}: {'would be ' if dry_run else ''}{to}")
        if not dry_run and table is not None:
            _restore_table(session, restore, table)
    if not dry_run:
        history.write(
            replace(
                row,
                installed_rank=rank,
                type=ScriptKind.UNDO.value,
                description=RESTORED,
                installed_by=current_user(),
                installed_on=now(),
                execution_ms=0,
                status=SUCCESS,
                instants=(),
                run_id=uuid.uuid4().hex,
            )
        )


def _open(session: Session, restore: TableRestore) -> HudiTable | None:
    try:
        return open_session_table(session.context, restore.base_path)
    except NoSuchTableError:
        return None  # an interrupted restore has already removed it


def _check_nothing_else(restore: TableRestore, table: HudiTable) -> None:
    """Raise RollbackRefusedError if there are commits since `before` that the script did not make."""
    since = [
        commit.timestamp for commit in table.timeline.commits if commit.timestamp > (restore.before or "")
    ]
    others = [instant_time for instant_time in since if instant_time not in restore.made]
    if others:
        raise RollbackRefusedError(
            f"{restore.base_path} has commits that the script did not make: {', '.join(others[:3])}",
            hint="a restore would lose them: undo the later scripts first, or write a U script",
        )


def _restore_table(session: Session, restore: TableRestore, table: HudiTable) -> None:
    path, before = quote_string(restore.base_path), restore.before
    name = _registered_name(session, table)
    if before is None:
        if table.is_bootstrapped:
            named = f"path => {path}" if name is None else f"table => {quote_string(name)}"
            session.sql(f"CALL rollback_bootstrap({named}, force => true)")
        elif name is not None:
            session.sql(f"DROP TABLE {name} PURGE")
        return
    if not any(commit.timestamp in restore.made for commit in table.timeline.commits):
        return
    target = f"path => {path}" if name is None else f"table => {quote_string(name)}"
    own = before not in table.timeline.savepoints
    if own:
        session.sql(f"CALL create_savepoint({target}, commit_time => '{before}', comments => 'migrate undo')")
    session.sql(f"CALL rollback_to_savepoint({target}, instant_time => '{before}')")
    if own:
        session.sql(f"CALL delete_savepoint({target}, instant_time => '{before}')")


def _registered_name(session: Session, table: HudiTable) -> str | None:
    """The name of the table in the metastore, if its entry names this directory."""
    from hudisql.options.table_call import location_of

    context = session.context
    database = table.properties.database_name or "default"
    entry = context.metastore.get_table(database.lower(), table.name.lower())
    if entry is None:
        return None
    same = context.storage.resolve(context.storage.qualify(location_of(entry))) == context.storage.resolve(
        table.base_path
    )
    return entry.full_name if same else None
