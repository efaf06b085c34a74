"""Runs migrations in processes of their own on the suite's warm JVM, killed at a step of the checkpoint."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.fault_injection import ROOT, _attach, environment_of_jvm


def start_run(
    spark: Any,
    metastore_uri: str,
    directory: Path,
    history: str,
    *,
    kill_before: int = 0,
    kill_in: str = "",
) -> subprocess.Popen[str]:
    """Apply a directory; with `kill_before` the process is killed before this step of the checkpoint.

    With `kill_in` (`module:function`) it is killed where it would call this function.

    Steps: 1 the lock, 2 the script begins, then two for each statement with an effect (one for settings),
    then the checkpoint is cleared behind the history's row.
    """
    fields = json.dumps([metastore_uri, str(directory), history, kill_before, kill_in])
    return subprocess.Popen(
        [sys.executable, "-m", "tests.migrations.killed_runs", fields],
        env=environment_of_jvm(spark),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _kill(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _main(metastore_uri: str, directory: str, history: str, kill_before: int, kill_in: str) -> None:
    from hudisql.catalog.client import MetastoreClient
    from hudisql.cli.migrate import Terminal
    from hudisql.context import Context
    from hudisql.migrations.apply_scripts import ApplyOptions, apply_migrations
    from hudisql.migrations.run_checkpoint import RunCheckpoint
    from hudisql.migrations.script_history import History
    from hudisql.migrations.scripts import load_scripts
    from hudisql.session import Session

    original, steps = RunCheckpoint._step, 0

    def step(self: RunCheckpoint, state: Any) -> bool:
        nonlocal steps
        steps += 1
        if steps == kill_before:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(self, state)

    RunCheckpoint._step = step  # type: ignore[method-assign]
    if kill_in:
        module, _, function = kill_in.partition(":")
        setattr(importlib.import_module(module), function, _kill)
    session = Session(Context(_attach(), MetastoreClient(metastore_uri)))
    found = History(session, *history.split("."))
    terminal = Terminal("csv")
    plan = apply_migrations(session, found, load_scripts(Path(directory)), ApplyOptions(), terminal)
    print(f"applied {len(plan.pending)}", flush=True)


if __name__ == "__main__":
    _main(*json.loads(sys.argv[1]))
    # The JVM belongs to the suite: nothing is stopped.
    sys.stdout.flush()
    os._exit(0)
