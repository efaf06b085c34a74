"""The metadata tables that hudisql's writes keep up to date; other ones are dropped by them.

Kept are the indexes `files`, `column_stats`, `partition_stats` and `record_index` of tables of version 9; of
bootstrapped tables if hudisql has made the statistics: those that Apache Hudi makes of skeletons lack the
columns of the external files. If a column changes its type, ranges of both types would stand side by side,
which Hudi 1.2 cannot compare.
"""

from __future__ import annotations

from typing import Final

from hudisql.errors import CorruptTableError, UnsupportedTableError
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX
from hudisql.format.metadata_table.value_types import digest_of_types
from hudisql.format.table_properties import METADATA_PARTITIONS_INFLIGHT
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.index_definitions import IndexDefinition, read_index_definitions
from hudisql.table.metadata_table.metadata_table import (
    STATISTICS_OF_SOURCES,
    MetadataTable,
    readable_metadata_table,
)

INDEXES: Final = (COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX)
"""The indexes that are kept, in the order of the table's property."""
INDEX_VERSION: Final = "V2"
RECORD_INDEX_VERSION: Final = "V1"
IS_PARTITIONED: Final = "isPartitioned"
"""An option of a record index: whether it has file groups for each partition of the table."""
KEPT_VERSION: Final = 9
"""The table version whose metadata tables are kept."""


def find_kept(table: HudiTable) -> MetadataTable | None:
    """The table's metadata table if hudisql keeps it; None if there is none, or writes drop it.

    Raises StorageError.
    """
    if not has_kept_indexes(table):
        return None
    metadata = readable_metadata_table(table)
    try:
        return metadata if metadata is not None and _is_sound(metadata) else None
    except (CorruptTableError, UnsupportedTableError):
        return None


def has_kept_indexes(table: HudiTable) -> bool:
    """True if the table's own properties name a metadata table of the kept kind; no request is sent."""
    indexes = set(table.properties.metadata_partitions)
    if table.version != KEPT_VERSION or not indexes or not indexes <= set(INDEXES):
        return False
    return not table.properties.get(METADATA_PARTITIONS_INFLIGHT) and table.file_columns is None


def _is_sound(metadata: MetadataTable) -> bool:
    """True if it knows all commits, no action on it is pending, and its indexes can be kept."""
    under_way = {instant.timestamp for instant in metadata.table.timeline.pending}
    if any(instant.timestamp not in under_way for instant in metadata.own.timeline.pending):
        return False
    if not metadata.is_current:
        return False
    definitions = read_index_definitions(metadata.table)
    return _keeps_statistics(metadata, definitions.get(COLUMN_STATS)) and (
        RECORD_INDEX not in metadata.indexes or _keeps_records(definitions.get(RECORD_INDEX))
    )


def _keeps_statistics(metadata: MetadataTable, definition: IndexDefinition | None) -> bool:
    """True if the statistics are those of all rows, also in files that a bootstrap has left in place."""
    if metadata.table.properties.bootstrap_base_path and not metadata.has_statistics_of_sources:
        return False
    if COLUMN_STATS not in metadata.indexes:
        return PARTITION_STATS not in metadata.indexes
    if definition is None or definition.version != INDEX_VERSION:
        return False
    types = digest_of_types(metadata.table.schema, definition.columns)
    return types is not None and metadata.own.properties.get(STATISTICS_OF_SOURCES, types) == types


def _keeps_records(definition: IndexDefinition | None) -> bool:
    """True if the index is one of all keys of the table."""
    return (
        definition is not None
        and definition.version == RECORD_INDEX_VERSION
        and definition.options.get(IS_PARTITIONED, "false") == "false"
    )
