"""The generated partition paths of new rows as a column of Spark's.

Spark moves the columns that paths are made of to Python, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from hudisql.errors import HudisqlError
from hudisql.format.spark_schema import quote_name
from hudisql.spark.task_errors import encode_error
from hudisql.table.hudi_table import HudiTable
from hudisql.write.changes import NEW_ROWS, OPERATION
from hudisql.write.keygen.key_generator import KeyGenerator

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

GENERATED_PATH: Final = "__hudisql_generated_path"


def with_generated_paths(changes: DataFrame, table: HudiTable, generator: KeyGenerator) -> DataFrame:
    """The changes with the partition path of each new row; NULL for changes of stored rows."""
    from pyspark.sql import functions as sf

    is_new = sf.col(OPERATION).isin(*NEW_ROWS)
    return changes.withColumn(GENERATED_PATH, sf.when(is_new, path_column(table, generator)))


def path_column(table: HudiTable, generator: KeyGenerator) -> Column:
    """The partition path of a row of the table, as a column."""
    from pyspark.sql import functions as sf
    from pyspark.sql.pandas.functions import arrow_udf

    wanted = {name.split(".")[0].lower() for name, _ in generator.fields}
    names = [name for name in table.schema.names if name.lower() in wanted]

    def path_of(*columns: pa.Array) -> pa.Array:
        try:
            return generator.paths(pa.RecordBatch.from_arrays(list(columns), names=names))
        except HudisqlError as error:
            raise encode_error(error) from None

    make_udf: Any = arrow_udf  # its types know no variable arguments
    column: Column = make_udf(path_of, "string")(*(sf.col(quote_name(name)) for name in names))
    return column


def partition_source_columns(changes: DataFrame, table: HudiTable) -> Sequence[pa.Field]:
    """The columns whose values say which partition a new row belongs to."""
    if GENERATED_PATH in changes.columns:
        return (pa.field(GENERATED_PATH, pa.string()),)
    return table.partition_columns
