"""Estimates the time of a bootstrap, from a sample of its own files.

A few files of about the median size are processed as by the run, but into a temporary local directory; the
rest is extrapolated by rows (skeletons) or bytes (rewritten partitions), spread over the cores. Nothing is
written at the target. Knows plans, and of Spark only the number of cores.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hudisql.bootstrap.blockers import count_files
from hudisql.bootstrap.files.full_record import FullRecordInput, write_full_records
from hudisql.bootstrap.files.skeleton import write_skeleton
from hudisql.bootstrap.plan.bootstrap_plan import BootstrapPlan, PlannedFile, PlannedPartition
from hudisql.bootstrap.run.full_record_tasks import plan_full_records
from hudisql.bootstrap.run.skeleton_tasks import planned_files, skeleton_task
from hudisql.errors import HudisqlError
from hudisql.storage import Storage, join

if TYPE_CHECKING:
    from hudisql.context import Context

_SAMPLED_FILES: Final = 3
_SAMPLED_SECONDS: Final = 5.0
# A file that alone would take longer than the sample may is not sampled.
_LARGEST_ROWS: Final = 4_000_000
_LARGEST_BYTES: Final = 64 << 20
# Opening a file and closing its skeleton costs about as much as this many keys.
_ROWS_PER_FILE: Final = 5_000
_BYTES_PER_FILE: Final = 1 << 20

_Files = Sequence[tuple[PlannedPartition, PlannedFile]]


@dataclass(frozen=True, slots=True)
class TimeEstimate:
    """The approximate seconds of the run on `cores`, and the files and rows of the measurement."""

    seconds: float
    files: int
    rows: int
    cores: int
    sampled_files: int
    sampled_rows: int

    def __str__(self) -> str:
        cores = f"{self.cores:,} core{'' if self.cores == 1 else 's'}"
        return (
            f"about {_describe_seconds(self.seconds)} for {count_files(self.files)} with {self.rows:,} rows"
            f" on {cores}, from a sample of {count_files(self.sampled_files)} with {self.sampled_rows:,} rows"
        )


@dataclass(frozen=True, slots=True)
class _Sample:
    """The measurement: `weight` is the measure of work, in rows or bytes."""

    files: int
    rows: int
    weight: int
    seconds: float

    def seconds_for(self, weight: int) -> float:
        return self.seconds * weight / self.weight


def estimate_time(context: Context, plan: BootstrapPlan) -> TimeEstimate | None:
    """Process a few of the plan's files and extrapolate; None if it is blocked, or no file is small enough.

    It excludes the comparison of files whose keys overlap, the commit and the verification.
    """
    if plan.blockers:
        return None
    skeletons = [file for file in planned_files(plan) if file[1].rows]
    rewritten = [
        (full_record_partition, file)
        for full_record_partition in plan.full_record_partitions
        for file in full_record_partition.files
        if file.rows
    ]
    if not skeletons and not rewritten:
        return None
    cores = min(int(context.spark.sparkContext.defaultParallelism), len(skeletons) + len(rewritten))
    if plan.request.parallelism is not None:
        cores = min(cores, plan.request.parallelism)
    samples = []
    seconds = longest = 0.0
    try:
        with tempfile.TemporaryDirectory(prefix="hudisql-sample-") as directory:
            if skeletons:
                samples.append(_sample_skeletons(context.storage, plan, skeletons, directory))
                weights = [_skeleton_weight(file) for _, file in skeletons]
                seconds += samples[-1].seconds_for(sum(weights))
                longest = samples[-1].seconds_for(max(weights))
            if rewritten:
                samples.append(_sample_rewriting(context.storage, plan, rewritten, directory))
                seconds += samples[-1].seconds_for(sum(_rewriting_weight(file) for _, file in rewritten))
    except (_NothingToSampleError, HudisqlError):
        return None  # the run itself reports what is wrong with a file
    return TimeEstimate(
        # A skeleton is one task's work: more cores than files do not help.
        max(seconds / max(cores, 1), longest),
        len(skeletons) + len(rewritten),
        sum(file.rows for _, file in (*skeletons, *rewritten)),
        max(cores, 1),
        sum(sample.files for sample in samples),
        sum(sample.rows for sample in samples),
    )


class _NothingToSampleError(Exception):
    """No file is small enough."""


def _skeleton_weight(file: PlannedFile) -> int:
    return file.rows + _ROWS_PER_FILE


def _rewriting_weight(file: PlannedFile) -> int:
    return file.source.length + _BYTES_PER_FILE


def _sample_skeletons(storage: Storage, plan: BootstrapPlan, files: _Files, directory: str) -> _Sample:
    small = [planned for planned in files if planned[1].rows <= _LARGEST_ROWS]

    def write(number: int, partition: PlannedPartition, file: PlannedFile) -> None:
        task = skeleton_task(plan, partition, file, number, 0)
        write_skeleton(storage, replace(task, target_path=join(directory, f"{number}.parquet")))

    return _measure(small, write, _skeleton_weight)


def _sample_rewriting(storage: Storage, plan: BootstrapPlan, files: _Files, directory: str) -> _Sample:
    small = [
        (partition, file)
        for partition, file in files
        if file.source.length <= _LARGEST_BYTES and not file.has_hybrid_calendar
    ]
    work = plan_full_records(plan)
    some = (*work.tasks, *work.by_spark.tasks)[0]

    def write(_number: int, _partition: PlannedPartition, file: PlannedFile) -> None:
        given = (FullRecordInput(file.source, file.rows),)
        write_full_records(
            storage, replace(some, inputs=given, naming=replace(some.naming, directory=directory))
        )

    return _measure(small, write, _rewriting_weight)


def _measure(
    files: _Files,
    write: Callable[[int, PlannedPartition, PlannedFile], None],
    weight: Callable[[PlannedFile], int],
) -> _Sample:
    """Write for a few files around the median."""
    if not files:
        raise _NothingToSampleError
    ordered = sorted(files, key=lambda planned: weight(planned[1]))
    write(0, *ordered[0])  # the first file also compiles and loads what the others find ready
    first = max(0, (len(ordered) - _SAMPLED_FILES) // 2)
    done: list[PlannedFile] = []
    started = time.perf_counter()
    for number, (partition, file) in enumerate(ordered[first : first + _SAMPLED_FILES], start=1):
        write(number, partition, file)
        done.append(file)
        if time.perf_counter() - started > _SAMPLED_SECONDS:
            break
    seconds = time.perf_counter() - started
    return _Sample(len(done), sum(file.rows for file in done), sum(map(weight, done)), seconds)


def _describe_seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
