"""The metadata tables that hudisql's writes keep up to date; other ones are dropped by them.

Kept are the indexes `files`, `column_stats` and `partition_stats` of tables of version 9 if hudisql has made
them: Apache Hudi's statistics of skeletons lack the columns of the external files. If a column changes its
type, ranges of both types would stand side by side, which Hudi 1.2 cannot compare.
"""

from __future__ import annotations

from typing import Final

from hudisql.errors import CorruptTableError, UnsupportedTableError
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, FILES, PARTITION_STATS
from hudisql.format.metadata_table.value_types import digest_of_types
from hudisql.format.table_properties import METADATA_PARTITIONS_INFLIGHT
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.index_definitions import read_index_definitions
from hudisql.table.metadata_table.metadata_table import (
    STATISTICS_OF_SOURCES,
    MetadataTable,
    readable_metadata_table,
)

INDEXES: Final = (COLUMN_STATS, FILES, PARTITION_STATS)
"""The indexes that are kept, in the order of the table's property."""
INDEX_VERSION: Final = "V2"
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
    """True if it knows all commits, no action on it is pending, and its statistics are those of all rows."""
    under_way = {instant.timestamp for instant in metadata.table.timeline.pending}
    if any(instant.timestamp not in under_way for instant in metadata.own.timeline.pending):
        return False
    if not metadata.is_current:
        return False
    if not metadata.has_statistics_of_sources:
        return False
    if COLUMN_STATS not in metadata.indexes:
        return PARTITION_STATS not in metadata.indexes
    definition = read_index_definitions(metadata.table).get(COLUMN_STATS)
    if definition is None or definition.version != INDEX_VERSION:
        return False
    made_for = metadata.own.properties.get(STATISTICS_OF_SOURCES)
    return made_for == digest_of_types(metadata.table.schema, definition.columns)
