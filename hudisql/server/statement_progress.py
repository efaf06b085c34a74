"""The progress of a statement's Spark jobs: lines for its log, and rows that clients draw as bars.

Jobs are those with the statement's tag. A row has the nine columns that beeline's
`org.apache.hadoop.hive.common.log.InPlaceUpdate` prints, whatever their names are.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hudisql.server.thrift_binary import DOUBLE, I32, I64, LIST, STRING, ListOf, StructValue
from hudisql.spark.jvm import java_context

if TYPE_CHECKING:
    from hudisql.server.operation import Operation

HEADERS: Final = (
    *("STAGES", "ATTEMPT", "STATUS", "TOTAL", "COMPLETED"),
    *("RUNNING", "PENDING", "FAILED", "ROWS"),
)
IN_PROGRESS: Final = 0
NOT_AVAILABLE: Final = 2
# The first line comes after this time, the next ones at this interval.
QUIET_SECONDS: Final = 1.0
_SECONDS_BETWEEN_LINES: Final = 5.0


@dataclass(frozen=True)
class StageProgress:
    """One stage of a job: its tasks, and the rows read from files and shuffles."""

    stage: int
    attempt: int
    status: str
    tasks: int
    done: int
    running: int
    failed: int
    rows: int

    @property
    def cells(self) -> tuple[str, ...]:
        """The stage as a row under `HEADERS`."""
        pending = max(0, self.tasks - self.done - self.running)
        counts = (self.tasks, self.done, self.running, pending, self.failed, self.rows)
        return (f"Stage-{self.stage}", str(self.attempt), self.status, *(str(count) for count in counts))


def stages_of_tag(spark: Any, tag: str) -> list[StageProgress]:
    """The stages of the jobs with the tag, in their order, without skipped ones."""
    context = java_context(spark.sparkContext).sc()
    tracker, store = context.statusTracker(), context.statusStore()
    stages: set[int] = set()
    for job in tracker.getJobIdsForTag(tag):
        info = tracker.getJobInfo(job)
        if info.isDefined():
            stages.update(info.get().stageIds())
    found = []
    for stage in sorted(stages):
        # Spark removes the oldest stages, and does not list stages that wait for others yet.
        with suppress(Exception):
            attempt = store.lastStageAttempt(stage)
            if str(attempt.status().toString()) != "SKIPPED":
                found.append(_progress_of(stage, attempt))
    return found


def _progress_of(stage: int, attempt: Any) -> StageProgress:
    return StageProgress(
        stage,
        int(attempt.attemptId()),
        str(attempt.status().toString()),
        int(attempt.numTasks()),
        int(attempt.numCompleteTasks()),
        int(attempt.numActiveTasks()),
        int(attempt.numFailedTasks()),
        int(attempt.inputRecords()) + int(attempt.shuffleReadRecords()),
    )


def progress_line(stages: Sequence[StageProgress], seconds: float) -> str:
    """Tasks done, rows read and rows a second, for a log."""
    tasks, done = sum(stage.tasks for stage in stages), sum(stage.done for stage in stages)
    rows = sum(stage.rows for stage in stages)
    return f"Spark tasks: {done}/{tasks} ({rows:,} rows, {rows / max(seconds, 1.0):,.0f} rows/s)"


def progress_response(operation: Operation, spark: Any) -> StructValue:
    """`TProgressUpdateResp` of a statement; without rows in the first second and after its end."""
    seconds = time.time() - operation.started_at
    stages: list[StageProgress] = []
    if not operation.has_ended and seconds >= QUIET_SECONDS:
        stages = stages_of_tag(spark, operation.tag)
    if not stages:
        return _response((), 0.0, NOT_AVAILABLE, "", operation)
    tasks, done = sum(stage.tasks for stage in stages), sum(stage.done for stage in stages)
    rows = [stage.cells for stage in stages]
    share = done / tasks if tasks else 0.0
    return _response(rows, share, IN_PROGRESS, f"ELAPSED TIME: {seconds:.1f} s", operation)


def log_progress(operation: Operation, spark: Any) -> None:
    """Write a line into the statement's log, if one is due and it has stages."""
    now = time.time()
    due = max(operation.started_at + QUIET_SECONDS, operation.progress_told_at + _SECONDS_BETWEEN_LINES)
    if operation.has_ended or now < due:
        return
    operation.progress_told_at = now
    stages = stages_of_tag(spark, operation.tag)
    if stages:
        operation.log.write(progress_line(stages, now - operation.started_at))


def _response(
    rows: Sequence[Sequence[str]], share: float, status: int, footer: str, operation: Operation
) -> StructValue:
    return (
        (1, LIST, ListOf(STRING, HEADERS)),
        (2, LIST, ListOf(LIST, [ListOf(STRING, row) for row in rows])),
        (3, DOUBLE, share),
        (4, I32, status),
        (5, STRING, footer),
        (6, I64, int(operation.started_at * 1000)),
    )
