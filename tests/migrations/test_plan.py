"""Scripts against their history, without Spark: what is pending, and what does not agree."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudisql.errors import InvalidArgumentError, MigrationConflictError, TableLockedError
from hudisql.migrations.recovery import Effect, effect_of
from hudisql.migrations.run_checkpoint import CheckpointState, RunCheckpoint
from hudisql.migrations.script_history import BASELINE, FAILED, SUCCESS, HistoryRow, now
from hudisql.migrations.script_plan import MigrationPlan, ScriptState, plan_migrations
from hudisql.migrations.scripts import MigrationScript, Version, checksum_of, load_scripts
from hudisql.sql.text.script import ScriptStatement
from hudisql.storage import Storage


def write(directory: Path, **texts: str) -> None:
    for name, text in texts.items():
        (directory / f"{name}.sql").write_text(text)


def row_of(script: MigrationScript, rank: int, **changes: object) -> HistoryRow:
    version = None if script.version is None else str(script.version)
    row = HistoryRow(
        rank, version, script.description, script.kind.value, script.name, script.checksum, "me", now(), 1,
        SUCCESS, 1, run_id=str(rank),
    )  # fmt: skip
    return replace(row, **changes)  # type: ignore[arg-type]


def states(plan: MigrationPlan) -> dict[str, str]:
    return {each.label: each.state.value for each in plan.statuses}


def test_versions_are_numbers_and_repeatables_come_last(tmp_path: Path) -> None:
    write(tmp_path, V10__c="", V2_1__b="", V2__a="", R__z="", R__y="", U2__u="")
    scripts = load_scripts(tmp_path)
    plan = plan_migrations(scripts, [], CheckpointState())
    assert [script.label for script in plan.pending] == ["2", "2.1", "10", "y", "z"]
    assert Version.parse("1.0") == Version.parse("1")
    write(tmp_path, V2_0__again="")
    with pytest.raises(InvalidArgumentError, match="have the same version"):
        load_scripts(tmp_path)


def test_what_does_not_agree_with_the_history_is_a_conflict(tmp_path: Path) -> None:
    write(tmp_path, V1__a="SELECT 1", V2__b="SELECT 2", V4__d="SELECT 4", R__r="SELECT 5")
    scripts = load_scripts(tmp_path)
    every = [*scripts.versioned, *scripts.repeatable]
    rows = [row_of(script, rank) for rank, script in enumerate(every, start=1)]
    assert plan_migrations(scripts, rows, CheckpointState()).pending == ()
    write(tmp_path, V1__a="SELECT 1\r\n", V2__b="SELECT 20", V3__c="SELECT 3", R__r="SELECT 50")
    (tmp_path / "V4__d.sql").unlink()
    changed = load_scripts(tmp_path)
    plan = plan_migrations(changed, rows, CheckpointState())
    assert states(plan) == {
        "1": "applied",
        "2": "changed",
        "3": "out of order",
        "4": "missing",
        "r": "pending",
    }
    with pytest.raises(MigrationConflictError, match=r"V2__b\.sql was changed .*V3.*older.*V4.*now missing"):
        plan.raise_if_conflicting()
    late = plan_migrations(changed, rows, CheckpointState(), out_of_order=True)
    assert [script.label for script in late.pending] == ["3", "r"]


def test_a_baseline_an_undo_and_a_failure(tmp_path: Path) -> None:
    write(tmp_path, V1__a="", V2__b="", V3__c="SELECT 1; SELECT 2")
    scripts = load_scripts(tmp_path)
    first, second, third = scripts.versioned
    rows = [
        row_of(first, 1, type=BASELINE, checksum=None),
        row_of(second, 2),
        row_of(second, 3, type="UNDO"),
        row_of(third, 4, status=FAILED),
    ]
    done = {"state": "done", "effect": None, "checksum": checksum_of("SELECT 1")}
    run = {"id": "4", "type": "SQL", "label": "3", "script": "V3__c.sql", "rank": 4}
    failed = {**run, "statements": [done, {"state": FAILED}]}
    plan = plan_migrations(scripts, rows, CheckpointState(9, None, failed))
    assert states(plan) == {"1": "below baseline", "2": "pending", "3": "failed"}
    assert (plan.next_rank, plan.conflicts) == (5, ())
    write(tmp_path, V3__c="SELECT 10; SELECT 2")
    changed = load_scripts(tmp_path)
    plan = plan_migrations(changed, rows, CheckpointState(9, None, failed))
    assert plan.conflicts == ("V3__c.sql: statement 1 is done already, and was changed since",)
    ended = [*rows[:3], row_of(changed.versioned[2], 4)]
    plan = plan_migrations(changed, ended, CheckpointState(9, None, failed))
    assert (plan.open_run, plan.statuses[2].state) == (None, ScriptState.APPLIED)


def test_a_runner_of_another_host_is_dead_by_the_clock_of_the_storage_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "checkpoints"
    slow, fast = RunCheckpoint(Storage(), str(directory)), RunCheckpoint(Storage(), str(directory))
    slow.acquire(0, lambda _: None)
    assert slow.state.owner is not None
    slow.state.owner["host"] = "another"
    assert slow._step(slow.state)
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + 600)
    with pytest.raises(TableLockedError, match="on another"):
        fast.acquire(0, lambda _: None)
    heartbeat = directory / f"heartbeat-{slow._id}"
    os.utime(heartbeat, (clock() - 61, clock() - 61))
    monkeypatch.setattr(time, "time", lambda: clock() - 600)
    fast.acquire(0, lambda _: None)
    with pytest.raises(MigrationConflictError, match="another runner took over"):
        slow.advance(None)
    for each in (fast, slow):
        each.release()
    assert [path.name for path in directory.iterdir()] == [f"{fast.state.sequence:010d}.json"]


@pytest.mark.parametrize(
    "text",
    [
        "BEGIN CREATE TABLE IF NOT EXISTS t (id INT); INSERT INTO t VALUES (1); END",
        "EXECUTE IMMEDIATE 'INSERT INTO t SELECT 1'",
    ],
)
def test_of_statements_in_a_block_nobody_knows_what_has_happened(text: str) -> None:
    context: Any = None
    assert effect_of(context, ScriptStatement(text), text).effect is Effect.UNKNOWN


def test_a_runner_that_lost_the_lock_fails_at_its_next_step(tmp_path: Path) -> None:
    directory = str(tmp_path / "checkpoints")
    slow, fast = RunCheckpoint(Storage(), directory), RunCheckpoint(Storage(), directory)
    slow.acquire(0, lambda _: None)
    with pytest.raises(TableLockedError, match="another runner applies migrations since"):
        fast.acquire(0, lambda _: None)
    slow.advance({"script": "V1"})
    assert slow.state.owner is not None
    # The process of the first one seems to have ended.
    slow.state.owner["process_start"] = "another"
    assert slow._step(slow.state)
    fast.acquire(0, lambda _: None)
    assert fast.state.run == {"script": "V1"}
    with pytest.raises(MigrationConflictError, match="another runner took over"):
        slow.advance(None)
    fast.advance(None)
    fast.release()
    slow.release()
    assert slow.read().owner is None
