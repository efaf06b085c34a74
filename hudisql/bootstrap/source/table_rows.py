"""The rows of a source table that only Spark reads (ORC, CSV, JSON, Avro, text): by the table's name.

Spark's own reader takes the metastore's SerDe or the table's options, so that the rows are those of a query.
Each row comes with the path of its file.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import pyarrow as pa

from hudisql.bootstrap.source.partition_columns import partition_fields
from hudisql.bootstrap.source.source_files import PartitionColumn, TableReadByName
from hudisql.format.schema.internal_columns import internal_column
from hudisql.format.schema.spark_schema import arrow_from_spark_json, quote_name
from hudisql.spark.task_errors import spark_job
from hudisql.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

FILE_COLUMN: Final = internal_column("file")
"""The column of the URI of each row's file."""
_LOSING_ROWS: Final = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.files.ignoreCorruptFiles",
    "spark.files.ignoreMissingFiles",
)


def settings_that_lose_rows(spark: SparkSession) -> tuple[str, ...]:
    """The session's settings by which Spark would leave out rows of files that it cannot read."""
    return tuple(name for name in _LOSING_ROWS if (spark.conf.get(name, "false") or "").lower() == "true")


def rows_by_name(spark: SparkSession, table: TableReadByName, columns: Sequence[str]) -> DataFrame:
    """The rows of the table's chosen partitions: these columns, and `FILE_COLUMN`. Raises QueryError."""
    from pyspark.sql import functions

    with spark_job(f"the table {table.full_name} cannot be read by Spark"):
        frame = _frame(spark, table)
        if table.where is not None:
            frame = frame.where(table.where)
        selected = [functions.col(quote_name(name)).alias(name) for name in columns]
        return frame.select(*selected, functions.input_file_name().alias(FILE_COLUMN))


def schema_by_name(
    spark: SparkSession, table: TableReadByName, partition_columns: Sequence[PartitionColumn]
) -> pa.Schema:
    """The table's columns as a Hudi table stores them, partition columns last.

    Raises QueryError, UnsupportedTableError for a type that a Hudi table cannot hold.
    """
    with spark_job(f"the table {table.full_name} cannot be read by Spark"):
        document = _frame(spark, table).schema.json()
    partitions = {column.name.lower() for column in partition_columns}
    data = [field for field in arrow_from_spark_json(document) if field.name.lower() not in partitions]
    return pa.schema([*data, *partition_fields(partition_columns)])


def path_of_uri(storage: Storage, uri: str, known: Container[str]) -> str:
    """The path of a file by the URI that Spark gives: percent-encoded, but as it is by Hive's readers."""
    plain = storage.qualify(uri) if uri else uri
    return plain if plain in known else storage.qualify(unquote(uri)) if uri else uri


def _frame(spark: SparkSession, table: TableReadByName) -> DataFrame:
    name = f"{quote_name(table.database)}.{quote_name(table.name)}"
    # Spark keeps the lists of files of tables that it has read.
    spark.catalog.refreshTable(name)
    return spark.table(name)
