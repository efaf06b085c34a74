"""CHAR(n) columns as Spark reads and compares them (`CharVarcharUtils`, `ApplyCharTypePadding`).

Values are filled with spaces, since other writers store them without; the type in a column's metadata makes
Spark fill the texts that a query compares with it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hudisql.format.schema.spark_schema import quote_name
from hudisql.table.hudi_table import HudiTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Spark's key of a column's declared type.
_DECLARED_TYPE: Final = "__CHAR_VARCHAR_TYPE_STRING"


def with_chars(frame: DataFrame, table: HudiTable) -> DataFrame:
    """The rows with the table's CHAR columns filled to their length."""
    chars = {name: sized for name, sized in table.properties.column_lengths.items() if sized.is_char}
    if not chars.keys() & set(frame.columns):
        return frame
    from pyspark.sql import functions as sf

    columns = []
    for name in frame.columns:
        column = sf.col(quote_name(name))
        sized = chars.get(name)
        if sized is not None:
            is_short = sf.char_length(column) < sized.length
            filled = sf.when(is_short, sf.rpad(column, sized.length, " ")).otherwise(column)
            column = filled.alias(name, metadata={_DECLARED_TYPE: sized.name})
        columns.append(column)
    return frame.select(*columns)
