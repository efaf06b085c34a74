"""Reads the rows of new source files in Spark tasks: complete rows, or only their record keys.

A task reads source files one after the other with pyarrow, as full-record partitions are read; nothing is
shuffled. Knows no commits.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.bootstrap.files.full_record import read_source_file
from hudisql.bootstrap.resync.resync_plan import NewFile, NewPartitionFiles
from hudisql.format.keys.record_keys import render_record_keys
from hudisql.format.schema.internal_columns import internal_column
from hudisql.read.calendar.hybrid_calendar import CalendarSettings
from hudisql.read.scan.arrow_scan import spark_struct
from hudisql.spark.python_worker import freeze_loaded_modules
from hudisql.spark.task_errors import carry_errors
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable
from hudisql.write.changes import COMBINED, PARTITION, RECORD_KEY
from hudisql.write.keygen.new_row_keys import null_key_error
from hudisql.write.keygen.partition_paths import PartitionPaths

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_NUMBER: Final = internal_column("file_number")
TASKS_A_CORE: Final = 4
_KEY_FIELDS: Final = (
    pa.field(RECORD_KEY, pa.string()),
    pa.field(PARTITION, pa.string()),
    pa.field(COMBINED, pa.int64()),
    pa.field(FILE_NUMBER, pa.int32()),
)


@dataclass(frozen=True, slots=True)
class SourceRows:
    """A new source file, and the partition of its rows."""

    new_file: NewFile
    partition_path: str
    partition_values: Mapping[str, object]

    def read(
        self, storage: Storage, schema: pa.Schema, calendars: CalendarSettings
    ) -> Iterator[pa.RecordBatch]:
        """The file's rows in these columns of the table."""
        read = read_source_file(storage, self.new_file.file, schema, self.partition_values, calendars)
        yield from (batch for _, batch in read)


def source_rows(partitions: Sequence[NewPartitionFiles], paths: PartitionPaths) -> list[SourceRows]:
    """Each new file with its partition in the table.

    Raises WriteRefusedError for partition values that the table cannot have.
    """
    found = []
    for partition in partitions:
        path, named = paths.path(partition.values), paths.named(partition.values)
        found += [SourceRows(file, path, named) for file in partition.files]
    return found


def row_frame(
    spark: SparkSession, table: HudiTable, files: Sequence[SourceRows], calendars: CalendarSettings
) -> DataFrame:
    """All rows of the files, with the table's columns."""
    storage, schema = table.storage, table.schema

    def read(_: int, file: SourceRows) -> Iterator[pa.RecordBatch]:
        return file.read(storage, schema, calendars)

    return _frame(spark, files, read, schema)


def key_frame(
    spark: SparkSession,
    table: HudiTable,
    files: Sequence[SourceRows],
    calendars: CalendarSettings,
    *,
    complex_keys: bool,
) -> DataFrame:
    """Record key, partition path and file number of each row; null keys are a WriteRefusedError of a task."""
    storage, fields = table.storage, table.properties.record_key_fields
    names = {field.split(".")[0] for field in fields}
    columns = pa.schema([field for field in table.schema if field.name in names])

    def read(number: int, file: SourceRows) -> Iterator[pa.RecordBatch]:
        for batch in file.read(storage, columns, calendars):
            rendered = render_record_keys(batch, fields, complex_keys=complex_keys)
            if rendered.null_keys.count:
                raise null_key_error(fields, file.partition_path, rendered.null_keys.count)
            rows = len(rendered.keys)
            constants = ((file.partition_path, pa.string()), (0, pa.int64()), (number, pa.int32()))
            repeated = [pa.repeat(pa.scalar(value, value_type), rows) for value, value_type in constants]
            yield pa.record_batch([rendered.keys, *repeated], schema=pa.schema(_KEY_FIELDS))

    return _frame(spark, files, read, pa.schema(_KEY_FIELDS))


def _frame(
    spark: SparkSession,
    files: Sequence[SourceRows],
    read: Callable[[int, SourceRows], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    shared = spark.sparkContext.broadcast([pickle.dumps(file) for file in files])

    def read_files(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from carry_errors(read(number, pickle.loads(shared.value[number])))
        freeze_loaded_modules()

    return file_numbers(spark, len(files)).mapInArrow(read_files, spark_struct(schema))


def file_numbers(spark: SparkSession, count: int) -> DataFrame:
    """The numbers 0 to `count` - 1, spread over tasks."""
    parts = min(count, TASKS_A_CORE * spark.sparkContext.defaultParallelism)
    return spark.range(0, count, 1, numPartitions=parts)
