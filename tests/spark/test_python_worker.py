"""Python workers notice an input that was cut short, and keep loaded modules out of garbage collections."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudisql.errors import StorageError
from hudisql.spark.python_worker import complete_input
from tests.processes import wait_for
from tests.spark_versions import needs_spark

FREEZE = """
import gc
from hudisql.spark.python_worker import freeze_loaded_modules

begun = gc.get_freeze_count()  # Python 3.12 freezes some objects of its own
freeze_loaded_modules()
first = gc.get_freeze_count()
assert first > begun + 1000, first
tracked_after = [[] for _ in range(1000)]
freeze_loaded_modules()
assert gc.get_freeze_count() <= first, "frozen twice without new modules"
import decimal, xml.dom.minidom
freeze_loaded_modules()
assert gc.get_freeze_count() > first, "new modules left to the collector"
"""


def _slowly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(0.05)
        yield batch


def test_outside_of_a_task_batches_are_passed_on() -> None:
    assert list(complete_input([1, 2, 3])) == [1, 2, 3]


@pytest.mark.spark
def test_rows_that_end_are_complete_in_tasks_without_rows_too(spark: Any) -> None:
    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = sum(batch.num_rows for batch in complete_input(batches))
        yield pa.record_batch([pa.array([rows])], names=["rows"])

    # Workers are used again, after an input that nobody reads to its end as well.
    for _ in range(2):
        found = spark.range(0, 3, 1, 5).mapInArrow(count, "rows long").collect()
        assert sorted(row.rows for row in found) == [0, 0, 1, 1, 1]
        assert spark.range(0, 100_000, 1, 2).mapInArrow(count, "rows long").limit(1).collect()


@needs_spark("4.0", "an end of cut batches that differs from that of all batches")
@pytest.mark.spark
@pytest.mark.parametrize("interrupts", [True, False])
def test_rows_of_a_task_that_is_killed_are_cut_short(spark: Any, tmp_path: Path, interrupts: bool) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        said = "complete"
        try:
            for _ in complete_input(batches):
                begun.touch()
        except StorageError as error:
            said = error.message
        ended.with_name("ending").write_text(said)
        ended.with_name("ending").rename(ended)
        yield from ()

    rows = spark.range(0, 10_000_000, 1, 1).mapInArrow(_slowly, "id long").mapInArrow(write, "id long")
    context = spark.sparkContext

    def run() -> None:
        context.setJobGroup("to be killed", "to be killed", interruptOnCancel=interrupts)
        with pytest.raises(Exception, match=r"(?i)cancel"):
            rows.collect()

    thread = threading.Thread(target=run)
    thread.start()
    wait_for(begun.exists)
    context.cancelJobGroup("to be killed")
    thread.join()
    wait_for(ended.exists)
    assert "before it had all its rows" in ended.read_text()


def test_loaded_modules_are_frozen_once_and_again_only_when_more_are_loaded() -> None:
    # In a process of its own: frozen objects stay frozen.
    done = subprocess.run([sys.executable, "-c", FREEZE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
