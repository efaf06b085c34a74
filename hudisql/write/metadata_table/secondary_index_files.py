"""New secondary indexes: their definitions, and how the keys of their base files are read.

Follows `HoodieSparkIndexClient` and `HoodieBackedTableMetadataWriter.initializeSecondaryIndexPartition` of
Hudi 1.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from hudisql.errors import InvalidArgumentError, UnsupportedTableError
from hudisql.format.metadata_table.metadata_records import SECONDARY_PREFIX
from hudisql.read.merge.merge_mode import LogMergeConfig
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.index_definitions import IndexDefinition, read_index_definitions
from hudisql.table.metadata_table.kept_metadata_table import STATISTICS_VERSIONS
from hudisql.table.metadata_table.secondary_indexes import SECONDARY_INDEX, index_of, secondary_indexes
from hudisql.write.metadata_table.record_index_files import KeysOfIndex
from hudisql.write.metadata_table.secondary_changes import SecondaryKeyReader

_FUNCTION: Final = "identity"
_FIRST_VERSION: Final = 8
"""The first table version with secondary indexes."""


def define_secondary_index(table: HudiTable, name: str, column: str) -> IndexDefinition:
    """The definition of a new index with the name that CREATE INDEX has, of a column (`a.b`: a field).

    Raises UnsupportedTableError for tables of version 6, InvalidArgumentError for types of columns of which
    Hudi makes none, and for meta columns and partition columns.
    """
    if table.version < _FIRST_VERSION:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} has table version {table.version}, and secondary indexes "
            f"exist from version {_FIRST_VERSION} on",
            hint="CALL upgrade_table upgrades the table",
        )
    definition = _definition(table, f"{SECONDARY_PREFIX}{name}", column)
    if index_of(table, definition) is None:
        raise InvalidArgumentError(
            f"hudisql makes no secondary index of the column {column} of the Hudi table at {table.base_path}",
            hint="a secondary index is of a data column of whole numbers, FLOAT, DOUBLE, STRING, DATE or "
            "TIMESTAMP, but not of partition columns",
        )
    return definition


def kept_definitions(table: HudiTable) -> list[IndexDefinition]:
    """The definitions of the secondary indexes that the table has, to make them again.

    Raises CorruptTableError, StorageError.
    """
    definitions = read_index_definitions(table)
    return [_definition(table, name, definitions[name].columns[0]) for name in secondary_indexes(table)]


def _definition(table: HudiTable, name: str, column: str) -> IndexDefinition:
    version = STATISTICS_VERSIONS[table.version]
    return IndexDefinition(name, SECONDARY_INDEX, (column,), version, function=_FUNCTION)


@dataclass(frozen=True, slots=True)
class _KeysOfSlice:
    """Reads the keys of one index."""

    read: SecondaryKeyReader

    def __call__(self, storage: Storage, config: LogMergeConfig, file_slice: FileSlice) -> pa.Array:
        return self.read(storage, config, file_slice)[0]


def keys_to_index(table: HudiTable, definition: IndexDefinition) -> KeysOfIndex:
    """How the keys of the index are read, whose definition is one of those above."""
    index = index_of(table, definition)
    assert index is not None  # of a checked definition
    schema = pa.schema([table.schema.field(index.column[0])])
    return KeysOfIndex(index.name, _KeysOfSlice(SecondaryKeyReader((index,), schema)), index.file_groups_of)
