"""Run a change data capture inside Spark tasks; before and after are JSON texts, as Hudi shows them."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hudisql.format.log_file.change_log import AFTER, BEFORE, COMMIT, OPERATION
from hudisql.read.changes.change_capture import (
    GroupChange,
    captured_schema,
    read_changes,
)
from hudisql.read.files.few_batches import few_batches
from hudisql.read.scan.arrow_scan import calendar_settings, spark_struct
from hudisql.spark.python_worker import freeze_loaded_modules
from hudisql.spark.task_errors import carry_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudisql.table.hudi_table import HudiTable

_MOST_TASKS = 1000
# The most bytes of images in memory and in Spark's plan.
_MOST_BYTES_HELD = 16 << 20
_TEXT = "to_json({0}, map('ignoreNullFields', 'false')) AS {0}"


def captured_changes(spark: SparkSession, table: HudiTable, changes: Sequence[GroupChange]) -> DataFrame:
    """The changes as rows (op, ts_ms, before, after), all of them texts.

    Errors of reading are raised by the tasks. The order of the rows is not defined.
    """
    texts = [OPERATION, COMMIT, _TEXT.format(BEFORE), _TEXT.format(AFTER)]
    return _captured(spark, table, table.schema, changes).selectExpr(*texts)


def few_changed_images(
    spark: SparkSession, table: HudiTable, schema: pa.Schema, changes: Sequence[GroupChange], most_bytes: int
) -> pa.Table | None:
    """The rows before and after each change, in the columns of `schema` (some of the table's), read now.

    None if columns are nested, the file slices are larger than `most_bytes` together, or the rows are too
    many for Spark's plan.
    """
    sides = [side for change in changes for side in (change.before, change.after) if side is not None]
    is_nested = any(pa.types.is_nested(field.type) for field in schema)
    if is_nested or sum(side.length for side in sides) > most_bytes:
        return None
    calendars = calendar_settings(spark)
    read = (batch for change in changes for batch in read_changes(table.storage, change, schema, calendars))
    batches = few_batches(read, _MOST_BYTES_HELD)
    if batches is None:
        return None
    images = [
        pa.RecordBatch.from_struct_array(image.drop_null())
        for batch in batches
        for image in (batch.column(2), batch.column(3))
    ]
    return pa.Table.from_batches(images, schema)


def changed_images(
    spark: SparkSession, table: HudiTable, schema: pa.Schema, changes: Sequence[GroupChange]
) -> DataFrame:
    """As `few_changed_images`, read by tasks: any number of rows and all types."""
    captured = _captured(spark, table, schema, changes)
    before, after = (captured.where(f"{side} IS NOT NULL").select(f"{side}.*") for side in (BEFORE, AFTER))
    return before.unionAll(after)


def _captured(
    spark: SparkSession, table: HudiTable, schema: pa.Schema, changes: Sequence[GroupChange]
) -> DataFrame:
    storage, calendars = table.storage, calendar_settings(spark)
    struct = spark_struct(captured_schema(schema))
    if not changes:
        return spark.createDataFrame([], struct)
    pieces = spark.sparkContext.broadcast([pickle.dumps(group_change) for group_change in changes])

    def read_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for position in batch.column(0).to_pylist():
                change = pickle.loads(pieces.value[position])
                yield from carry_errors(read_changes(storage, change, schema, calendars))
        freeze_loaded_modules()

    positions = spark.range(0, len(changes), 1, numPartitions=min(len(changes), _MOST_TASKS))
    return positions.mapInArrow(read_batches, struct)
