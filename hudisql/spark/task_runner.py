"""Work on many files in Spark tasks, with progress on the driver.

Items are grouped into few tasks, so that ten thousand small files do not cost ten thousand task starts; each
task returns small results. A task's own HudisqlError or OSError comes back as a value and is raised on the
driver with its own message instead of a Java stack trace. Knows nothing of Hudi.
"""

from __future__ import annotations

import math
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from hudisql.console import Console, SilentConsole
from hudisql.errors import HudisqlError, QueryError, StorageError
from hudisql.spark.python_worker import complete_input, freeze_loaded_modules

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

SILENT: Final = SilentConsole()
_POLL_SECONDS = 0.5
_TASKS_PER_CORE = 16
_EXCEPTION_LINE = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit): ")


@dataclass(frozen=True, slots=True)
class _Failure:
    error: HudisqlError


def run_on_files(
    spark: Any,
    items: Sequence[Item],
    work: Callable[[Iterable[Item]], Iterator[Outcome]],
    *,
    weight: Callable[[Item], int],
    label: str,
    console: Console = SILENT,
    describe: Callable[[int, int, float], str] | None = None,
    measure: Callable[[Outcome], tuple[int, int]] | None = None,
    parallelism: int | None = None,
) -> list[Outcome]:
    """Run `work` over the items in Spark tasks and return its outcomes, in the order of the items.

    `weight` (bytes) balances the tasks; `measure` returns two amounts of an outcome (rows, bytes), which
    progress sums and `describe(first, second, seconds)` formats. Raises the first task's HudisqlError.
    """
    if not items:
        return []
    context = spark.sparkContext
    groups = _group(items, weight, parallelism or context.defaultParallelism * _TASKS_PER_CORE)
    totals = context.accumulator((0, 0, 0), _amounts())
    measured = measure or _nothing

    def run_group(group: Iterable[tuple[int, list[Item]]]) -> Iterator[list[Outcome] | _Failure]:
        for _, members in group:
            try:
                outcomes = []
                for outcome in work(members):
                    outcomes.append(outcome)
                    totals.add((1, *measured(outcome)))
                yield outcomes
            except HudisqlError as error:
                yield _Failure(error)
            except OSError as error:
                yield _Failure(StorageError(f"a task failed to read or write: {error}"))
        freeze_loaded_modules()

    rdd = context.parallelize(list(enumerate(groups)), len(groups)).mapPartitions(run_group)
    return _collect_with_progress(rdd, totals, console, label, len(items), describe)


def exchange_between_tasks(
    spark: Any,
    items: Sequence[Item],
    scatter: Callable[[Iterable[Item]], Iterator[tuple[int, bytes]]],
    gather: Callable[[Iterator[bytes]], Outcome],
    *,
    buckets: int,
    weight: Callable[[Item], int],
    console: Console,
    label: str,
    parallelism: int | None = None,
) -> list[Outcome]:
    """Let tasks `scatter` the items into numbered buckets, and one task for each bucket `gather` its pieces.

    Spark moves the pieces, on disk if memory is short, so they should be large: whole columns instead of
    rows. Progress counts the items scattered. Returns the buckets' outcomes, in their order; raises the first
    HudisqlError of `scatter` and `gather`. An attempt of a task whose pieces are cut short does not end.
    """
    if not items:
        return []
    context = spark.sparkContext
    groups = _group(items, weight, parallelism or context.defaultParallelism * _TASKS_PER_CORE)
    totals = context.accumulator((0, 0, 0), _amounts())

    def taken(members: Iterable[Item]) -> Iterator[Item]:
        for member in members:
            yield member
            totals.add((1, 0, 0))

    def scatter_groups(
        numbered: Iterable[tuple[int, list[Item]]],
    ) -> Iterator[tuple[int, bytes | _Failure]]:
        for _, members in numbered:
            try:
                yield from scatter(taken(members))
            except HudisqlError as error:
                yield 0, _Failure(error)
            except OSError as error:
                yield 0, _Failure(StorageError(f"a task failed to read or write: {error}"))

    def gather_bucket(pieces: Iterable[tuple[int, bytes | _Failure]]) -> Iterator[list[Outcome] | _Failure]:
        failures: list[_Failure] = []

        def contents() -> Iterator[bytes]:
            for _, piece in complete_input(pieces):
                if isinstance(piece, _Failure):
                    failures.append(piece)
                else:
                    yield piece

        try:
            outcome = gather(contents())
        except HudisqlError as error:
            failures.append(_Failure(error))
        except OSError as error:
            failures.append(_Failure(StorageError(f"a task failed to read or write: {error}")))
        yield failures[0] if failures else [outcome]

    scattered = context.parallelize(list(enumerate(groups)), len(groups)).mapPartitions(scatter_groups)
    rdd = scattered.partitionBy(buckets, int).mapPartitions(gather_bucket)
    return _collect_with_progress(rdd, totals, console, label, len(items))


def _collect_with_progress(
    rdd: Any,
    totals: Any,
    console: Console,
    label: str,
    count: int,
    describe: Callable[[int, int, float], str] | None = None,
) -> list[Any]:
    """The tasks' outcomes in order; `totals` are the finished items of `count` and both amounts."""
    with console.progress(label, count) as progress:
        started = time.monotonic()
        done = 0

        def report() -> None:
            nonlocal done
            items, first, second = totals.value
            if items > done:
                seconds = time.monotonic() - started
                progress.advance(items - done, describe(first, second, seconds) if describe else "")
                done = items

        collected = _collect(rdd.context, rdd, label, report)
        report()
    return _in_order(collected)


def describe_rows_written(rows: int, written_bytes: int, seconds: float) -> str:
    """The progress text of writing rows: rows, their rate and bytes."""
    return f"{rows:,} rows, {rows / max(seconds, 0.001):,.0f} rows/s, {written_bytes / 1e6:,.1f} MB written"


def _nothing(_outcome: object) -> tuple[int, int]:
    return 0, 0


def _amounts() -> Any:
    from pyspark.accumulators import AccumulatorParam

    class Amounts(AccumulatorParam):  # type: ignore[type-arg]
        def zero(self, value: Any) -> Any:  # noqa: ARG002
            return (0, 0, 0)

        def addInPlace(self, value1: Any, value2: Any) -> Any:  # noqa: N802
            return tuple(one + other for one, other in zip(value1, value2, strict=True))

    return Amounts()


def _group(items: Sequence[Item], weight: Callable[[Item], int], tasks: int) -> list[list[Item]]:
    """Cut the items, in their order, into at most about `tasks` runs of similar weight."""
    # An empty file has a cost, too: opening it weighs as much as reading 1 MB.
    weights = [weight(item) + (1 << 20) for item in items]
    share = max(math.ceil(sum(weights) / max(1, tasks)), 1)
    groups: list[list[Item]] = [[]]
    filled = 0
    for item, size in zip(items, weights, strict=True):
        if groups[-1] and filled + size > share:
            groups.append([])
            filled = 0
        groups[-1].append(item)
        filled += size
    return groups


def _collect(context: Any, rdd: Any, label: str, report: Callable[[], None]) -> list[Any]:
    """Collect in a thread of its own, calling `report` meanwhile; an interrupt cancels the Spark job."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    group = f"hudisql-{uuid.uuid4().hex}"
    tags = context.getJobTags()

    def collect() -> list[Any]:
        # The job group is a property of this thread only: the caller's job group does not change.
        context.setJobGroup(group, label, interruptOnCancel=True)
        # The tags allow the caller's statement to be cancelled.
        for tag in tags:
            context.addJobTag(tag)
        found: list[Any] = rdd.collect()
        return found

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(collect)
        try:
            while not future.done():
                wait([future], timeout=_POLL_SECONDS)
                report()
        except BaseException:
            context.cancelJobGroup(group)
            raise
        try:
            return future.result()
        except (Py4JError, PySparkException) as error:
            raise QueryError(f"{label}: {_last_words(error)}") from error


def _last_words(error: Exception) -> str:
    """The Python exception in a failed task's long message, or the first line of Spark's own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if _EXCEPTION_LINE.match(line)]
    return raised[-1] if raised else lines[0] if lines else type(error).__name__


def _in_order(collected: list[Any]) -> list[Any]:
    outcomes: list[Any] = []
    for group in collected:
        if isinstance(group, _Failure):
            raise group.error
        outcomes.extend(group)
    return outcomes
