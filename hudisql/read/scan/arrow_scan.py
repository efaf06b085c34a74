"""Run a scan plan by the slice reader inside Spark tasks (`mapInArrow`).

Each Spark partition reads one ScanTask. The tasks travel as one broadcast of pickled pieces, of which a task
unpickles only its own. Unlike the slice reader this module knows Spark.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from hudisql.format.schema.spark_schema import (
    quote_name,
    spark_json_from_arrow,
    spark_type_name,
    with_local_zone,
)
from hudisql.read.calendar.hybrid_calendar import DEFAULT_CALENDARS, Calendar, CalendarSettings
from hudisql.read.files.conform import conform_batch
from hudisql.read.files.few_batches import few_batches
from hudisql.read.files.predicates import Predicate
from hudisql.read.files.splits import ScanTask
from hudisql.read.merge.merge_mode import LogMergeConfig
from hudisql.read.slice.slice_reader import SliceRead, read_file_slice
from hudisql.spark.few_rows import MOST_BYTES, local_frame
from hudisql.spark.jvm import java_class
from hudisql.spark.python_worker import freeze_loaded_modules
from hudisql.spark.task_errors import carry_errors
from hudisql.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from hudisql.read.scan.scan_plan import ScanPlan


SliceReader = Callable[[Storage, SliceRead], Iterator[pa.RecordBatch]]


def arrow_dataframe(
    spark: SparkSession, plan: ScanPlan, read_slice: SliceReader = read_file_slice
) -> DataFrame:
    """The plan's rows as `read_slice` reads them; see `scan_to_dataframe` for the columns."""
    read_schema = plan.columns
    output = pa.schema([plan.output_schema.field(name) for name in read_schema.names])
    if not output.names:
        # Spark needs at least one column for the rows: the first of the table is used.
        read_schema = output = pa.schema([plan.output_schema.field(0)])
    if not plan.tasks:
        return complete_columns(spark.createDataFrame([], spark_struct(output)), plan, output.names)
    rows = read_in_tasks(spark, replace(plan, columns=read_schema), output, read_slice)
    return complete_columns(rows, plan, output.names)


def read_in_tasks(
    spark: SparkSession, plan: ScanPlan, output: pa.Schema, read_slice: SliceReader
) -> DataFrame:
    """What `read_slice` yields for the slices of the plan's tasks, widened to `output`."""
    pieces = spark.sparkContext.broadcast([pickle.dumps(task) for task in plan.tasks])
    storage, schema, predicate = plan.storage, plan.columns, plan.predicate
    calendars, log_merge_config = calendar_settings(spark), plan.log_merge_config

    def read_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for position in batch.column(0).to_pylist():
                task = pickle.loads(pieces.value[position])
                rows = read_task(storage, task, schema, predicate, calendars, log_merge_config, read_slice)
                for error in carry_errors(rows):
                    yield conform_batch(error, output)
        freeze_loaded_modules()

    positions = spark.range(0, len(plan.tasks), 1, numPartitions=len(plan.tasks))
    return positions.mapInArrow(read_batches, spark_struct(output))


def driver_dataframe(spark: SparkSession, plan: ScanPlan) -> DataFrame | None:
    """The rows of a small plan with all columns, read on the driver into Spark's plan.

    None if the rows are too many for Spark's plan. Columns and errors are those of `arrow_dataframe`.
    """
    schema = pa.schema([plan.output_schema.field(name) for name in plan.columns.names])
    read = read_plan(plan, calendar_settings(spark))
    found = few_batches(read, MOST_BYTES)
    if found is None:
        return None
    batches = [conform_batch(each, schema) for each in found]
    return local_frame(spark, pa.Table.from_batches(batches, schema), spark_struct(schema))


def read_plan(plan: ScanPlan, calendars: CalendarSettings) -> Iterator[pa.RecordBatch]:
    """The rows of all the plan's tasks, read here, one after the other."""
    for task in plan.tasks:
        yield from read_task(
            plan.storage, task, plan.columns, plan.predicate, calendars, plan.log_merge_config
        )


def read_task(
    storage: Storage,
    task: ScanTask,
    schema: pa.Schema,
    predicate: Predicate | None,
    calendars: CalendarSettings = DEFAULT_CALENDARS,
    log_merge_config: LogMergeConfig | None = None,
    read_slice: SliceReader = read_file_slice,
) -> Iterator[pa.RecordBatch]:
    """The rows of all the task's pieces, one after the other.

    Raises UnsupportedTableError, SourceChangedError, CorruptTableError, StorageError.
    """
    for work in task.works:
        read = SliceRead(
            work.file_slice, schema, work.partition_values, predicate, work.split, calendars, log_merge_config
        )
        yield from read_slice(storage, read)


def calendar_settings(spark: SparkSession) -> CalendarSettings:
    """The session's calendar for files that do not name theirs, as in Spark's own parquet scan."""
    of_dates, of_int96 = (
        Calendar(str(spark.conf.get(f"spark.sql.parquet.{name}RebaseModeInRead")).upper())
        for name in ("datetime", "int96")
    )
    # As Spark does, use the driver's time zone for files without one.
    zone = java_class(spark, "java.util.TimeZone").getDefault().getID()
    return CalendarSettings(of_dates, of_int96, zone)


def complete_columns(
    frame: DataFrame, plan: ScanPlan, present: list[str], unpushable: Collection[str] = ()
) -> DataFrame:
    """`frame` with every column of the table in order; those outside `present` raise if evaluated.

    Filters on the floating-point columns of `unpushable` are not pushed into the scan.
    """
    if frame.columns == plan.output_schema.names and not unpushable:
        return frame
    columns = []
    for field in plan.output_schema:
        column = quote_name(field.name)
        if field.name not in present:
            text = f"hudisql planned this query without the column '{field.name}': please report the query"
            literal = text.replace("\\", r"\\").replace("'", r"\'")
            kind = with_local_zone(spark_type_name(field.type))
            column = f"CAST(raise_error('{literal}') AS {kind}) AS {column}"
        elif field.name in unpushable:
            column = f"nanvl({column}, {column}) AS {column}"
        columns.append(column)
    # As SQL text: one call instead of several for each column.
    return frame.selectExpr(*columns)


def spark_struct(schema: pa.Schema) -> StructType:
    """The Arrow schema as Spark's type."""
    import json

    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(spark_json_from_arrow(schema)))
