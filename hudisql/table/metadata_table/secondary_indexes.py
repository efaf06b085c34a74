"""The secondary indexes of a table's metadata table that hudisql keeps, by their definitions.

Follows `HoodieSparkIndexClient` of Hudi 1.2: an index is of one column, in whose type hudisql must know the
text of each value. It tells record keys, which the record index then looks up: there is none without that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudisql.format.metadata_table.metadata_keys import Counts, file_groups_of
from hudisql.format.metadata_table.metadata_records import SECONDARY_PREFIX
from hudisql.format.metadata_table.secondary_keys import has_secondary_keys, value_parts_of_keys
from hudisql.format.schema.column_path import type_of_path
from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.index_definitions import IndexDefinition, read_index_definitions

SECONDARY_INDEX: Final = "secondary_index"
"""The kind of these indexes in their definitions."""
_GROUPED_BY_KEY, _GROUPED_BY_VALUE = "V1", "V2"


@dataclass(frozen=True, slots=True)
class SecondaryIndex:
    """A secondary index: its name in the metadata table, and its column.

    `column` has the names down to a field of structs. With `is_grouped_by_value` all keys with
    one value are in one file group.
    """

    name: str
    column: tuple[str, ...]
    is_grouped_by_value: bool

    def values_in(self, column: pa.Array) -> pa.Array:
        """The values of the indexed column in the table's column that it is or is within."""
        return column if len(self.column) == 1 else pc.struct_field(column, list(self.column[1:]))

    def file_groups_of(self, keys: pa.Array, groups: Counts) -> npt.NDArray[np.int64]:
        """The number of the file group, from 0 on, that holds each of the keys."""
        return file_groups_of(value_parts_of_keys(keys) if self.is_grouped_by_value else keys, groups)


def is_secondary(index: str) -> bool:
    """True for the name of a secondary index."""
    return index.startswith(SECONDARY_PREFIX)


def secondary_indexes(table: HudiTable) -> dict[str, SecondaryIndex]:
    """The secondary indexes of the table that can be kept, by name.

    Raises CorruptTableError, StorageError.
    """
    if not any(map(is_secondary, table.properties.metadata_partitions)):
        return {}
    return served_indexes(table, read_index_definitions(table))


def served_indexes(table: HudiTable, definitions: Mapping[str, IndexDefinition]) -> dict[str, SecondaryIndex]:
    """`secondary_indexes` by the table's definitions."""
    served = {}
    for name in filter(is_secondary, table.properties.metadata_partitions):
        index = index_of(table, definitions[name]) if name in definitions else None
        if index is not None:
            served[name] = index
    return served


def index_of(table: HudiTable, definition: IndexDefinition) -> SecondaryIndex | None:
    """The index of this definition; None if hudisql does not keep it, as of meta and partition columns."""
    version = definition.version or _GROUPED_BY_KEY
    if len(definition.columns) != 1 or version not in (_GROUPED_BY_KEY, _GROUPED_BY_VALUE):
        return None
    column = tuple(definition.columns[0].split("."))
    index = SecondaryIndex(definition.name, column, version == _GROUPED_BY_VALUE)
    kind = type_of_path(table.schema, index.column)
    partition_columns = {partition_column.name for partition_column in table.partition_columns}
    if kind is None or not has_secondary_keys(kind) or column[0] in {*META_COLUMNS, *partition_columns}:
        return None
    return index
