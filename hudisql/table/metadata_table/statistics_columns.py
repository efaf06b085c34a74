"""The columns of which the index `column_stats` of a metadata table has statistics.

From table version 8 on a definition names them. Those of version 6, which Hudi 0.15 writes without one, are
those that the records have.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from hudisql.errors import CorruptTableError
from hudisql.format.metadata_table.metadata_keys import key_parts, partition_key_part
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS
from hudisql.format.metadata_table.value_types import is_measured
from hudisql.format.schema.meta_columns import META_SCHEMA
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.index_definitions import read_index_definitions
from hudisql.table.metadata_table.metadata_table import readable_metadata_table

_DEFINED_VERSION: Final = 8
_COLUMN_PART: Final = 12
_FEW: Final = 8


def statistics_columns(table: HudiTable, paths: Collection[str]) -> tuple[str, ...] | None:
    """The columns with statistics; None without the index, or if it is unknown which they are.

    Of version 6 the records of a few of the partitions with these paths are read, and of the first and the
    last one of the table. Raises CorruptTableError, StorageError.
    """
    if COLUMN_STATS not in table.properties.metadata_partitions:
        return None
    if table.version >= _DEFINED_VERSION:
        definition = read_index_definitions(table).get(COLUMN_STATS)
        return None if definition is None else definition.columns
    metadata = readable_metadata_table(table)
    if metadata is None:
        return None
    try:
        every = metadata.list_partitions()
    except CorruptTableError:
        return None
    looked_at = {*sorted(paths)[:_FEW], *every[:1], *every[-1:]}
    partitions = [partition_key_part(path) for path in looked_at]
    names = [field.name for field in (*META_SCHEMA, *table.schema) if is_measured(field.type)]
    parts = key_parts(names)
    prefixes = [f"{part}{partition}" for part in parts.values() for partition in partitions]
    found = {
        key[:_COLUMN_PART]
        for layers in metadata.read_layers(COLUMN_STATS, prefixes)
        for layer in layers
        for key in layer.keys.to_pylist()
    }
    return tuple(name for name in names if parts[name] in found)
