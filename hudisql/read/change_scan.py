"""Run a change data capture inside Spark tasks; before and after are JSON texts, as Hudi shows them."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hudisql.read.arrow_scan import calendar_settings, spark_struct
from hudisql.read.change_capture import (
    AFTER,
    BEFORE,
    COMMIT,
    OPERATION,
    GroupChange,
    captured_schema,
    read_changes,
)
from hudisql.spark.python_worker import freeze_loaded_modules
from hudisql.spark.task_errors import carry_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudisql.table.hudi_table import HudiTable

_MOST_TASKS = 1000
_TEXT = "to_json({0}, map('ignoreNullFields', 'false')) AS {0}"


def captured_changes(spark: SparkSession, table: HudiTable, changes: Sequence[GroupChange]) -> DataFrame:
    """The changes as rows (op, ts_ms, before, after), all of them texts.

    Errors of reading are raised by the tasks. The rows come in no promised order.
    """
    schema, storage, calendars = table.schema, table.storage, calendar_settings(spark)
    struct = spark_struct(captured_schema(table))
    texts = [OPERATION, COMMIT, _TEXT.format(BEFORE), _TEXT.format(AFTER)]
    if not changes:
        return spark.createDataFrame([], struct).selectExpr(*texts)
    pieces = spark.sparkContext.broadcast([pickle.dumps(each) for each in changes])

    def read_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for position in batch.column(0).to_pylist():
                change = pickle.loads(pieces.value[position])
                yield from carry_errors(read_changes(storage, change, schema, calendars))
        freeze_loaded_modules()

    positions = spark.range(0, len(changes), 1, numPartitions=min(len(changes), _MOST_TASKS))
    return positions.mapInArrow(read_batches, struct).selectExpr(*texts)
