"""New expression indexes: their definitions, and their records of the files that a table has.

Follows `HoodieSparkIndexClient` and `HoodieBackedTableMetadataWriter.initializeExpressionIndexPartition` of
Hudi 1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from hudisql.errors import InvalidArgumentError, UnsupportedTableError
from hudisql.format.hfile.hfile_cells import EncodedCells, cells_of
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, EXPRESSION_PREFIX
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.expression_indexes import (
    EXPRESSION_OPTION,
    expression_index_of,
    expression_indexes,
)
from hudisql.table.metadata_table.index_definitions import IndexDefinition, read_index_definitions
from hudisql.table.metadata_table.kept_metadata_table import STATISTICS_VERSIONS
from hudisql.write.metadata_table.expression_ranges import expression_records
from hudisql.write.metadata_table.measured_files import FilesToMeasure

_FIRST_VERSION: Final = 8
"""The first table version with expression indexes."""


def define_expression_index(
    table: HudiTable, name: str, column: str, options: Mapping[str, str]
) -> IndexDefinition:
    """The definition of a new index with the name that CREATE INDEX has, of a column.

    `options` are those of the index, `expr` among them. Raises UnsupportedTableError for tables of version 6,
    InvalidArgumentError for expressions and columns of which hudisql makes none.
    """
    if table.version < _FIRST_VERSION:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} has table version {table.version}, and expression indexes "
            f"exist from version {_FIRST_VERSION} on",
            hint="CALL upgrade_table upgrades the table",
        )
    function = options.get(EXPRESSION_OPTION, "").lower()
    version = STATISTICS_VERSIONS[table.version]
    stored = {**options, EXPRESSION_OPTION: function}
    definition = IndexDefinition(
        f"{EXPRESSION_PREFIX}{name}", COLUMN_STATS, (column,), version, stored, function
    )
    if expression_index_of(table, definition) is None or _fails_in_hudi(table, column):
        listed = ", ".join(f"{key}='{value}'" for key, value in options.items())
        raise InvalidArgumentError(
            f"hudisql makes no expression index of the column {column} of the Hudi table at "
            f"{table.base_path} with the options ({listed})",
            hint="expr is upper, lower, trim, ltrim, rtrim, length or substring (pos, len) of a STRING; "
            "year, month, day, hour, to_date or date_format (format) of a DATE or TIMESTAMP; date_add or "
            "date_sub (days) of a DATE; from_unixtime (format) of INT or BIGINT. Patterns begin with yyyy, "
            "as yyyy-MM-dd. In table version 8 there are none of a DATE or TIMESTAMP",
        )
    return definition


def _fails_in_hudi(table: HudiTable, column: str) -> bool:
    """True in version 8, where Hudi 1.2 takes the values of expressions for those of the column."""
    kind = table.schema.field(column).type
    return table.version == _FIRST_VERSION and bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def kept_expressions(table: HudiTable) -> list[IndexDefinition]:
    """The definitions of the expression indexes that the table has, to make them again.

    Raises CorruptTableError, StorageError.
    """
    definitions = read_index_definitions(table)
    return [definitions[name] for name in expression_indexes(table)]


def records_to_index(
    table: HudiTable,
    definition: IndexDefinition,
    files: FilesToMeasure,
    spark: Callable[[], Any] | None,
    console: Any,
) -> EncodedCells:
    """The records of a new index, whose definition is one of those above, of all files of the table.

    Raises SourceChangedError, CorruptTableError, StorageError.
    """
    index = expression_index_of(table, definition)
    assert index is not None  # of a checked definition
    column = table.schema.field(index.column)
    return cells_of(expression_records(table, index, column, files, spark, console))
