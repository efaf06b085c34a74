import threading
import time
from collections.abc import Iterable, Iterator

import pytest

from hudisql.console import SilentConsole
from hudisql.errors import QueryError, SourceError, StorageError
from hudisql.spark.task_runner import _group, run_on_files


def _double(items: Iterable[int]) -> Iterator[int]:
    for item in items:
        yield item * 2


def _fail_on_seven(items: Iterable[int]) -> Iterator[int]:
    for item in items:
        if item == 7:
            raise SourceError("seven is bad", hint="take another")
        yield item


def _fail_to_write(items: Iterable[int]) -> Iterator[int]:
    for item in items:
        raise OSError(28, "No space left on device")
        yield item


def _sleep(items: Iterable[int]) -> Iterator[int]:
    for item in items:
        time.sleep(20)
        yield item


def _crash(items: Iterable[int]) -> Iterator[int]:
    for item in items:
        yield item // 0


class _Recorder(SilentConsole):
    """Adds up what progress is told."""

    def __init__(self):
        self.done = 0
        self.details = []

    def progress(self, _label, _total_units):
        from contextlib import contextmanager

        @contextmanager
        def open_progress():
            yield self

        return open_progress()

    def advance(self, units=1, detail=""):
        self.done += units
        self.details.append(detail)


def _run(spark, items, work, **options):
    console = options.pop("console", SilentConsole())
    return run_on_files(
        spark, items, work, weight=lambda _item: 1, console=console, label="Testing", parallelism=3, **options
    )


@pytest.mark.spark
def test_outcomes_come_back_in_the_order_of_the_items_and_progress_adds_up(spark):
    console = _Recorder()
    found = _run(
        spark,
        list(range(100)),
        _double,
        console=console,
        measure=lambda outcome: (outcome, 1),
        describe=lambda first, second, _seconds: f"{first}/{second}",
    )
    assert found == [number * 2 for number in range(100)]
    assert console.done == 100
    assert console.details[-1] == "9900/100"
    assert _run(spark, [], _double) == []


@pytest.mark.spark
def test_errors_of_tasks_come_out_as_themselves(spark):
    with pytest.raises(SourceError, match="seven is bad") as raised:
        _run(spark, list(range(10)), _fail_on_seven)
    assert raised.value.hint == "take another"
    with pytest.raises(StorageError, match="No space left on device"):
        _run(spark, [1], _fail_to_write)
    with pytest.raises(QueryError, match="Testing: ZeroDivisionError: integer"):
        _run(spark, [1], _crash)


def test_items_are_cut_into_runs_of_similar_weight():
    sizes = [1 << 30] + [1] * 1000
    groups = _group(sizes, lambda size: size, 8)
    assert [item for group in groups for item in group] == sizes
    assert groups[0] == [1 << 30]
    assert 2 <= len(groups) <= 12
    assert len(_group(list(range(10)), lambda _item: 0, 100)) == 10


@pytest.mark.spark
def test_jobs_carry_the_tags_of_their_statement(spark):
    def cancel():
        while not spark.sparkContext.statusTracker().getActiveJobsIds():
            time.sleep(0.05)
        spark.sparkContext.cancelJobsWithTag("a-statement")

    began = time.monotonic()
    canceller = threading.Thread(target=cancel)
    spark.sparkContext.addJobTag("a-statement")
    try:
        canceller.start()
        with pytest.raises(QueryError):
            _run(spark, [1], _sleep)
    finally:
        spark.sparkContext.removeJobTag("a-statement")
        canceller.join()
    assert time.monotonic() - began < 15
