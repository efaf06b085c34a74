"""A live bar for the Spark jobs of a statement on a terminal: tasks done, rows read a second, time left.

Without jobs, a spinner shows that the statement runs. Both are hidden while work that reports its own
progress (bootstrap, services) shows a bar. The numbers come from Spark's status store, which exists with and
without Spark's web UI.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hudisql.console import TerminalConsole
from hudisql.spark.jvm import java_context

if TYPE_CHECKING:
    from hudisql.session import Session

_SECONDS_BETWEEN: Final = 0.3
# A statement that takes less shows no bar.
_QUIET_SECONDS: Final = 1.0


@dataclass(frozen=True)
class StageTotals:
    """Tasks and rows of a statement's stages; rows are those read and shuffled."""

    tasks: int = 0
    done: int = 0
    rows: int = 0


@contextmanager
def job_progress(session: Session) -> Iterator[None]:
    """Show the progress of the Spark jobs that run inside; nothing unless the console is a terminal's."""
    console = session.context.console
    if not isinstance(console, TerminalConsole):
        yield
        return
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(session, console, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join(timeout=2)


def _watch(session: Session, console: TerminalConsole, ended: threading.Event) -> None:
    """Show that a statement takes long: its stages, or that it runs or waits for Spark."""
    stages = _Stages(session)
    while not ended.wait(_QUIET_SECONDS):
        # The status store of a session that is being closed is gone.
        with suppress(Exception):
            if not console.shown_progress:
                _wait(session, stages, console, ended)
                _show(stages, console, ended)


def _wait(session: Session, stages: _Stages, console: TerminalConsole, ended: threading.Event) -> None:
    """Show a spinner until there are tasks, or other progress is shown."""
    if stages.totals().tasks:
        return
    label = "running" if session.context.started_spark is not None else "Spark is starting"
    with console.spinner(label):
        while not ended.wait(_SECONDS_BETWEEN) and console.shown_progress == 1:
            if stages.totals().tasks:
                return


def _show(stages: _Stages, console: TerminalConsole, ended: threading.Event) -> None:
    started, before = time.monotonic(), StageTotals()
    if ended.is_set() or console.shown_progress:
        return
    with console.live_progress("Spark tasks") as progress:
        while True:
            now = stages.totals()
            rate = now.rows / max(time.monotonic() - started, _QUIET_SECONDS)
            progress.expect(now.tasks - before.tasks)
            progress.advance(now.done - before.done, f"{now.rows:,} rows, {rate:,.0f} rows/s")
            before = now
            if ended.wait(_SECONDS_BETWEEN) or console.shown_progress > 1:
                return


class _Stages:
    """The stages that were seen running, with their numbers."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._active: set[int] = set()
        self._seen: dict[int, StageTotals] = {}

    def totals(self) -> StageTotals:
        """The current sum over all stages that were seen."""
        spark: Any = self._session.context.started_spark
        if spark is not None:
            active = set(spark.sparkContext.statusTracker().getActiveStageIds())
            store = java_context(spark.sparkContext).sc().statusStore()
            # Read the stages that have ended since for the last time.
            for stage in active | self._active:
                self._seen[stage] = _totals_of(store.lastStageAttempt(stage))
            self._active = active
        seen = self._seen.values()
        return StageTotals(
            sum(stage_totals.tasks for stage_totals in seen),
            sum(stage_totals.done for stage_totals in seen),
            sum(stage_totals.rows for stage_totals in seen),
        )


def _totals_of(stage: Any) -> StageTotals:
    rows = stage.inputRecords() + stage.shuffleReadRecords()
    return StageTotals(stage.numTasks(), stage.numCompleteTasks(), rows)
