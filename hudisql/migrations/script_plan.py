"""Compares scripts with their history: the scripts to apply, and conflicts, as a value. Nothing is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from hudisql.errors import MigrationConflictError
from hudisql.migrations.run_checkpoint import CheckpointState
from hudisql.migrations.script_history import BASELINE, DELETED, FAILED, SUCCESS, HistoryRow
from hudisql.migrations.scripts import (
    MigrationScript,
    MigrationScripts,
    ScriptKind,
    Version,
    checksum_of,
    identity_of,
)

INFO_COLUMNS: Final = (
    ("version", "string"),
    ("description", "string"),
    ("type", "string"),
    ("state", "string"),
    ("statements", "int"),
    ("done", "int"),
    ("installed_on", "string"),
    ("installed_by", "string"),
    ("commits", "int"),
)


class ScriptState(Enum):
    """The state of a script, or of a row of the history."""

    APPLIED = "applied"
    PENDING = "pending"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    CHANGED = "changed"
    MISSING = "missing"
    OUT_OF_ORDER = "out of order"
    BELOW_BASELINE = "below baseline"
    BASELINE = "baseline"


@dataclass(frozen=True)
class ScriptStatus:
    """One line of `migrate info`: the script, the row of the history, or both."""

    state: ScriptState
    script: MigrationScript | None
    row: HistoryRow | None

    @property
    def label(self) -> str:
        """The version, or the description of a repeatable script."""
        if self.script is not None:
            return self.script.label
        assert self.row is not None
        return self.row.version or self.row.description


@dataclass(frozen=True)
class MigrationPlan:
    """The scripts' states, and those that `apply` runs, in their order; `conflicts` say why it must not."""

    statuses: tuple[ScriptStatus, ...]
    pending: tuple[MigrationScript, ...]
    conflicts: tuple[str, ...]
    next_rank: int
    open_run: Mapping[str, Any] | None = field(default=None)

    def raise_if_conflicting(self) -> None:
        """Raise MigrationConflictError that lists the conflicts."""
        if self.conflicts:
            raise MigrationConflictError(
                f"the scripts do not agree with their history: {'; '.join(self.conflicts)}",
                hint="put the scripts back as they were applied, or, if the history is what is wrong, "
                "run hudisql migrate repair DIR",
            )


def plan_migrations(
    scripts: MigrationScripts,
    rows: Sequence[HistoryRow],
    checkpoint: CheckpointState,
    *,
    out_of_order: bool = False,
) -> MigrationPlan:
    """Compare the scripts with the history and the checkpoint."""
    run = open_run_of(rows, checkpoint)
    planner = _Planner(scripts, rows, run, out_of_order)
    statuses = (*planner.versioned(), *planner.repeatable())
    wanted = (ScriptState.PENDING, ScriptState.FAILED, ScriptState.INTERRUPTED)
    pending = [status.script for status in statuses if status.state in wanted and status.script is not None]
    conflicts = [*_conflicts(statuses), *planner.open_run_conflicts()]
    next_rank = max([row.installed_rank for row in rows], default=0) + 1
    return MigrationPlan(statuses, tuple(pending), tuple(conflicts), next_rank, run)


def applied_versions(rows: Sequence[HistoryRow]) -> dict[Version, HistoryRow]:
    """The row of each version that is applied and not undone."""
    applied: dict[Version, HistoryRow] = {}
    for row in rows:
        if row.version is None or row.status != SUCCESS:
            continue
        version = Version.parse(row.version)
        if row.type == ScriptKind.VERSIONED.value:
            applied[version] = row
        elif row.type == ScriptKind.UNDO.value:
            applied.pop(version, None)
    return applied


def baseline_of(rows: Sequence[HistoryRow]) -> Version | None:
    """The highest version up to which scripts count as applied."""
    versions = [Version.parse(row.version) for row in rows if row.type == BASELINE and row.version]
    return max(versions, default=None)


def changed_statement(script: MigrationScript, run: Mapping[str, Any]) -> int | None:
    """The number of the first statement that is done and was changed since; None if there is none."""
    for number, done in enumerate(run["statements"], start=1):
        # A setting changes only the session, and is applied again.
        if done["state"] != "done" or done["effect"] == "session":
            continue
        statements = script.statements
        if number > len(statements) or checksum_of(statements[number - 1].text) != done["checksum"]:
            return number
    return None


def open_run_of(rows: Sequence[HistoryRow], checkpoint: CheckpointState) -> Mapping[str, Any] | None:
    """The unfinished run; None if its row is written and only its checkpoint is left."""
    run = checkpoint.run
    ended = {row.run_id for row in rows if row.status in (SUCCESS, DELETED)}
    return None if run is None or run["id"] in ended else run


@dataclass(frozen=True)
class _Planner:
    scripts: MigrationScripts
    rows: Sequence[HistoryRow]
    run: Mapping[str, Any] | None
    out_of_order: bool

    def versioned(self) -> list[ScriptStatus]:
        applied, baseline = applied_versions(self.rows), baseline_of(self.rows)
        highest = max([*applied, *([baseline] if baseline else [])], default=None)
        script_statuses: dict[Version, ScriptStatus] = {}
        for version, row in applied.items():
            script_statuses[version] = ScriptStatus(ScriptState.MISSING, None, row)
        for script in self.scripts.versioned:
            assert script.version is not None
            own = applied.get(script.version)
            script_statuses[script.version] = ScriptStatus(
                self._state(script, own, baseline, highest), script, own
            )
        if baseline is not None:
            rows = [row for row in self.rows if row.type == BASELINE]
            script_statuses.setdefault(baseline, ScriptStatus(ScriptState.BASELINE, None, rows[-1]))
        return [script_statuses[version] for version in sorted(script_statuses)]

    def _state(
        self,
        script: MigrationScript,
        row: HistoryRow | None,
        baseline: Version | None,
        highest: Version | None,
    ) -> ScriptState:
        assert script.version is not None
        if row is not None:
            return ScriptState.APPLIED if row.checksum == script.checksum else ScriptState.CHANGED
        if self._is_open(script):
            return self._open_state()
        if baseline is not None and script.version <= baseline:
            return ScriptState.BELOW_BASELINE
        if highest is not None and script.version < highest and not self._was_undone(script.version):
            return ScriptState.PENDING if self.out_of_order else ScriptState.OUT_OF_ORDER
        return ScriptState.PENDING

    def _was_undone(self, version: Version) -> bool:
        return any(
            row.version is not None
            and row.type == ScriptKind.UNDO.value
            and Version.parse(row.version) == version
            for row in self.rows
        )

    def repeatable(self) -> list[ScriptStatus]:
        latest = {
            row.description: row
            for row in self.rows
            if row.type == ScriptKind.REPEATABLE.value and row.status == SUCCESS
        }
        script_statuses = []
        for script in self.scripts.repeatable:
            row = latest.get(script.description)
            state = ScriptState.PENDING
            if self._is_open(script):
                state = self._open_state()
            elif row is not None and row.checksum == script.checksum:
                state = ScriptState.APPLIED
            script_statuses.append(ScriptStatus(state, script, row))
        return script_statuses

    def _is_open(self, script: MigrationScript) -> bool:
        return self.run is not None and (self.run["type"], self.run["label"]) == identity_of(script)

    def _open_state(self) -> ScriptState:
        assert self.run is not None
        last = self.run["statements"][-1]["state"] if self.run["statements"] else "done"
        return ScriptState.FAILED if last == FAILED else ScriptState.INTERRUPTED

    def open_run_conflicts(self) -> list[str]:
        """Why the unfinished run cannot resume with the current scripts."""
        if self.run is None:
            return []
        every = (*self.scripts.versioned, *self.scripts.repeatable, *self.scripts.undo)
        script = next(
            (migration_script for migration_script in every if self._is_open(migration_script)), None
        )
        done = sum(statement["state"] == "done" for statement in self.run["statements"])
        if script is None:
            return [f"{self.run['script']} has begun ({done} statements done) and is now missing"]
        number = changed_statement(script, self.run)
        if number is not None:
            return [f"{script.name}: statement {number} is done already, and was changed since"]
        return []


def _conflicts(statuses: Sequence[ScriptStatus]) -> list[str]:
    said = {
        ScriptState.CHANGED: "was changed after it was applied",
        ScriptState.MISSING: "was applied and is now missing",
        ScriptState.OUT_OF_ORDER: "is older than the last one applied (--out-of-order applies it)",
    }
    conflicts = []
    for status in statuses:
        if status.state in said:
            source = status.script if status.script is not None else status.row
            assert source is not None
            name = source.name if isinstance(source, MigrationScript) else source.script
            conflicts.append(f"{name} {said[status.state]}")
    return conflicts


def info_rows(plan: MigrationPlan) -> Iterator[tuple[object, ...]]:
    """A row for each script, and for each applied one that is missing, in their order."""
    run = plan.open_run
    for status in plan.statuses:
        script, row = status.script, status.row
        statements = None if script is None else len(script.statements)
        done = 0 if row is None else row.statements
        if script is not None and run is not None and (run["type"], run["label"]) == identity_of(script):
            done = sum(statement["state"] == "done" for statement in run["statements"])
        yield (
            str(script.version) if script and script.version else (row.version if row else None),
            script.description if script is not None else (row.description if row else None),
            script.kind.value if script is not None else (row.type if row else None),
            status.state.value,
            statements,
            done,
            None if row is None else f"{row.installed_on:%Y-%m-%d %H:%M:%S}",
            None if row is None else row.installed_by,
            None if row is None else len(row.instants),
        )
