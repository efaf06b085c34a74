"""Results of write tasks: written files as small pickled values, errors with their own messages."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.errors import HudisqlError, StorageError
from hudisql.spark.python_worker import complete_input, freeze_loaded_modules
from hudisql.spark.task_errors import encode_error, translate_task_error
from hudisql.write.execution.write_context import WrittenFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMN: Final = "written"


def encode_written_files(files: Iterable[WrittenFile]) -> Iterator[pa.RecordBatch]:
    """The files as a task's output rows; hudisql's own errors are encoded so that they survive Spark."""
    try:
        for written in files:
            # Footers have the files' bloom filters, which the driver does not need.
            small = pickle.dumps(replace(written, footer=None))
            yield pa.record_batch([pa.array([small], pa.binary())], names=[_COLUMN])
    except HudisqlError as error:
        raise encode_error(error) from None
    except OSError as error:
        raise encode_error(StorageError(f"a task failed to read or write: {error}")) from error
    freeze_loaded_modules()


def collect_files(
    rows: DataFrame, write: Callable[[int, int, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
) -> list[WrittenFile]:
    """Write each partition of `rows` in a task, and collect the written files.

    `write` gets the partition's number, the number of the task's attempt and the rows. Raises the tasks'
    errors as hudisql's own classes where they are known, else Spark's exceptions.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    def write_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        running = TaskContext.get()
        if running is None:
            return write(0, 0, batches)
        return write(running.partitionId(), int(running.taskAttemptId()), complete_input(batches))

    try:
        given = rows.mapInArrow(write_partition, f"{_COLUMN} binary").collect()
    except (PySparkException, Py4JError) as error:
        own = translate_task_error(error)
        if own is not None:
            raise own from error
        raise
    return [pickle.loads(row[0]) for row in given]
