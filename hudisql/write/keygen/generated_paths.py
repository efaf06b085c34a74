"""The generated partition paths of new rows as a Spark column.

Spark moves only the columns of the paths to Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from hudisql.errors import HudisqlError
from hudisql.format.schema.internal_columns import internal_column
from hudisql.spark.task_errors import encode_error
from hudisql.spark.versions import arrow_column
from hudisql.table.hudi_table import HudiTable
from hudisql.write.changes import NEW_ROWS, OPERATION
from hudisql.write.keygen.key_generator import KeyGenerator

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

GENERATED_PATH: Final = internal_column("generated_path")


def with_generated_paths(changes: DataFrame, table: HudiTable, generator: KeyGenerator) -> DataFrame:
    """The changes with the partition path of each new row; NULL for changes of stored rows."""
    from pyspark.sql import functions as sf

    is_new = sf.col(OPERATION).isin(*NEW_ROWS)
    return changes.withColumn(GENERATED_PATH, sf.when(is_new, path_column(table, generator)))


def path_column(table: HudiTable, generator: KeyGenerator) -> Column:
    """The partition path of a row of the table, as a column."""
    wanted = {name.split(".")[0].lower() for name, _ in generator.fields}

    def path_of(batch: pa.RecordBatch) -> pa.Array:
        try:
            return generator.paths(batch)
        except HudisqlError as error:
            raise encode_error(error) from None

    fields = [field for field in table.schema if field.name.lower() in wanted]
    return arrow_column(path_of, "string", fields)


def key_and_path_columns(table: HudiTable, generator: KeyGenerator | None) -> list[pa.Field]:
    """The table's columns that the record key and the partition path of a row are made of."""
    if generator is None:
        sources = [column.name for column in table.partition_columns]
    else:
        sources = [name for name, _ in generator.fields]
    wanted = {name.split(".")[0].lower() for name in (*table.properties.record_key_fields, *sources)}
    return [field for field in table.schema if field.name.lower() in wanted]


def partition_source_columns(changes: DataFrame, table: HudiTable) -> Sequence[pa.Field]:
    """The columns that determine the partition of a new row."""
    if GENERATED_PATH in changes.columns:
        return (pa.field(GENERATED_PATH, pa.string()),)
    return table.partition_columns
