"""The expression indexes of a table's metadata table that hudisql keeps, by their definitions.

Follows `HoodieSparkIndexClient` and `HoodieSparkExpressionIndex` of Hudi 1.2: as `column_stats` an index has
the ranges of one expression of a column in files, and in further records those in partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from hudisql.format.metadata_table.expression_values import expression_type
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, EXPRESSION_PREFIX
from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.index_definitions import IndexDefinition, read_index_definitions

EXPRESSION_OPTION: Final = "expr"
"""The option of an index that names its function."""
_FIRST_VERSION: Final = "V1"
_VERSIONS: Final[Mapping[int, str]] = MappingProxyType({8: _FIRST_VERSION, 9: "V2"})


@dataclass(frozen=True, slots=True)
class ExpressionIndex:
    """An expression index: its name in the metadata table, its column, function and the function's options.

    `in_first_form` is true if its records are of version V1.
    """

    name: str
    column: str
    function: str
    options: Mapping[str, str]
    in_first_form: bool

    def type_of(self, schema: pa.Schema) -> pa.DataType | None:
        """The type of the expression's values; None if hudisql does not know them."""
        at = schema.get_field_index(self.column)
        return None if at < 0 else expression_type(self.function, self.options, schema.field(at).type)


def is_expression(index: str) -> bool:
    """True for the name of an expression index."""
    return index.startswith(EXPRESSION_PREFIX)


def expression_indexes(table: HudiTable) -> dict[str, ExpressionIndex]:
    """The expression indexes of the table that can be kept, by name.

    Raises CorruptTableError, StorageError.
    """
    if not any(map(is_expression, table.properties.metadata_partitions)):
        return {}
    return served_expressions(table, read_index_definitions(table))


def served_expressions(
    table: HudiTable, definitions: Mapping[str, IndexDefinition]
) -> dict[str, ExpressionIndex]:
    """`expression_indexes` by the table's definitions."""
    found = {
        name: expression_index_of(table, definitions[name])
        for name in filter(is_expression, table.properties.metadata_partitions)
        if name in definitions
    }
    return {name: index for name, index in found.items() if index is not None}


def expression_index_of(table: HudiTable, definition: IndexDefinition) -> ExpressionIndex | None:
    """The index of this definition; None if hudisql does not keep it, as bloom filters of expressions."""
    version = definition.version or _FIRST_VERSION
    if definition.kind != COLUMN_STATS or version != _VERSIONS.get(table.version):
        return None
    partition_columns = {partition_column.name for partition_column in table.partition_columns}
    if len(definition.columns) != 1 or definition.columns[0] in {*META_COLUMNS, *partition_columns}:
        return None
    options = {key: value for key, value in definition.options.items() if key != EXPRESSION_OPTION}
    index = ExpressionIndex(
        definition.name,
        definition.columns[0],
        definition.function,
        options,
        version == _FIRST_VERSION,
    )
    return None if index.type_of(table.schema) is None else index
