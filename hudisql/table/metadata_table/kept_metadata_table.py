"""The metadata tables that hudisql's writes keep up to date; they drop the other ones, or the other indexes.

Kept are the indexes `files`, `column_stats`, `partition_stats`, `record_index`, `bloom_filters`, secondary
ones and those of known expressions. Of bootstrapped tables the statistics, and from version 8 on secondary
indexes and those of expressions, are kept if hudisql has made the statistics: those that Apache Hudi makes of
skeletons lack the columns of the external files. If a column changes its type, ranges of both types would
stand side by side, which Hudi 1.2 cannot compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from hudisql.errors import CorruptTableError, UnsupportedTableError
from hudisql.format.metadata_table.metadata_records import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
)
from hudisql.format.metadata_table.value_types import digest_of_types, fits_first_form, is_measured
from hudisql.format.table_properties import METADATA_PARTITIONS_INFLIGHT
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.expression_indexes import is_expression, served_expressions
from hudisql.table.metadata_table.index_definitions import IndexDefinition, read_index_definitions
from hudisql.table.metadata_table.metadata_table import (
    STATISTICS_OF_SOURCES,
    MetadataTable,
    readable_metadata_table,
)
from hudisql.table.metadata_table.secondary_indexes import is_secondary, served_indexes
from hudisql.table.metadata_table.statistics_types import known_types

INDEXES: Final = (BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX)
"""The indexes that are kept, in the order of the table's property."""
_KEPT_OF_HUDI: Final = frozenset({BLOOM_FILTERS, FILES, RECORD_INDEX})
"""The indexes of a bootstrapped table from version 8 on that are kept if Apache Hudi has made them."""
FIRST_VERSION: Final = "V1"
INDEX_VERSION: Final = "V2"
RECORD_INDEX_VERSION: Final = FIRST_VERSION
IS_PARTITIONED: Final = "isPartitioned"
"""An option of a record index: whether it has file groups for each partition of the table."""
MOST_BLOOM_BYTES: Final = 256 << 20
"""Larger bloom filters are not kept: a compaction holds them in memory, and stores them uncompressed."""
NEWEST_VERSION: Final = 9
"""The table version whose metadata tables hudisql makes with the table itself."""
STATISTICS_VERSIONS: Final[Mapping[int, str]] = MappingProxyType(
    {6: FIRST_VERSION, 8: FIRST_VERSION, NEWEST_VERSION: INDEX_VERSION}
)
"""The form of the statistics by table version."""


def find_kept(table: HudiTable) -> MetadataTable | None:
    """The table's metadata table if hudisql keeps all its indexes.

    None if there is none, or writes drop it or some of its indexes. Raises StorageError.
    """
    if not has_kept_indexes(table):
        return None
    metadata = _find_sound(table)
    return None if metadata is None or _unkept(metadata) else metadata


def has_kept_indexes(table: HudiTable) -> bool:
    """True if the table's own properties name a metadata table of the kept kind; no request is sent."""
    return all(map(is_kept_kind, table.properties.metadata_partitions)) and _may_be_kept(table)


def is_kept_kind(index: str) -> bool:
    """True for the names of indexes of the kinds that are kept."""
    return index in INDEXES or is_secondary(index) or is_expression(index)


def has_partitioned_records(table: HudiTable) -> bool:
    """True if the table's record index has file groups of its own for each partition of the table.

    Raises CorruptTableError, StorageError.
    """
    definition = read_index_definitions(table).get(RECORD_INDEX)
    return definition is not None and _is_partitioned(definition)


def has_first_form(table: HudiTable) -> bool:
    """True if the statistics of the table's metadata table are in the form of version V1."""
    return STATISTICS_VERSIONS.get(table.version) == FIRST_VERSION


def has_statistics_form(table: HudiTable, kind: pa.DataType) -> bool:
    """True for types of columns whose statistics the table's metadata table can hold."""
    return fits_first_form(kind) if has_first_form(table) else is_measured(kind)


def has_trusted_statistics(metadata: MetadataTable) -> bool:
    """True if hudisql made the statistics of a kept metadata table, and the columns have the types of then.

    Raises CorruptTableError, StorageError.
    """
    if COLUMN_STATS not in metadata.indexes or not metadata.has_statistics_of_sources:
        return False
    if metadata.table.version >= 8:
        # `find_kept` has compared the types.
        return True
    definition = read_index_definitions(metadata.table).get(COLUMN_STATS)
    types = None if definition is None else digest_of_types(metadata.table.schema, definition.columns)
    return types is not None and types in known_types(metadata)


def unkept_indexes(table: HudiTable) -> frozenset[str] | None:
    """The indexes that writes drop to keep the others; None if they drop the whole metadata table.

    Raises StorageError.
    """
    metadata = _find_sound(table) if _may_be_kept(table) else None
    unkept = None if metadata is None else _unkept(metadata)
    return None if unkept is None or FILES in unkept else unkept


def _may_be_kept(table: HudiTable) -> bool:
    return (
        table.version in STATISTICS_VERSIONS
        and FILES in table.properties.metadata_partitions
        and not table.properties.get(METADATA_PARTITIONS_INFLIGHT)
        and table.file_columns is None
    )


def _find_sound(table: HudiTable) -> MetadataTable | None:
    """The metadata table if it knows all commits and no action on it is pending."""
    metadata = readable_metadata_table(table)
    if metadata is None:
        return None
    under_way = {instant.timestamp for instant in table.timeline.pending}
    if any(instant.timestamp not in under_way for instant in metadata.own.timeline.pending):
        return None
    try:
        return metadata if metadata.is_current else None
    except (CorruptTableError, UnsupportedTableError):
        return None


def _unkept(metadata: MetadataTable) -> frozenset[str]:
    """The indexes that are not kept."""
    indexes = frozenset(metadata.indexes)
    try:
        definitions = read_index_definitions(metadata.table)
        keeps_statistics = _keeps_statistics(metadata, definitions.get(COLUMN_STATS))
    except (CorruptTableError, UnsupportedTableError):
        return indexes
    unkept = frozenset(index for index in indexes if not is_kept_kind(index))
    is_old = metadata.table.version < 8
    if not keeps_statistics:
        unkept |= {COLUMN_STATS, PARTITION_STATS}
    if metadata.table.is_bootstrapped and not is_old and not metadata.has_statistics_of_sources:
        unkept |= indexes - _KEPT_OF_HUDI
    if not _keeps_records(definitions.get(RECORD_INDEX), is_old=is_old):
        unkept |= {RECORD_INDEX}
    if BLOOM_FILTERS in indexes and not _keeps_bloom_filters(metadata):
        unkept |= {BLOOM_FILTERS}
    unkept |= frozenset(filter(is_secondary, indexes)) - {*served_indexes(metadata.table, definitions)}
    expressions = frozenset(filter(is_expression, indexes))
    unkept |= expressions - {*served_expressions(metadata.table, definitions)}
    of_records = definitions.get(RECORD_INDEX)
    is_global = of_records is None or not _is_partitioned(of_records)
    if RECORD_INDEX in unkept or RECORD_INDEX not in indexes or not is_global:
        unkept |= frozenset(filter(is_secondary, indexes))
    return unkept & indexes


def _keeps_bloom_filters(metadata: MetadataTable) -> bool:
    slices = metadata.latest_slices(BLOOM_FILTERS)
    return bool(slices) and sum(file_slice.length for file_slice in slices) <= MOST_BLOOM_BYTES


def _keeps_statistics(metadata: MetadataTable, definition: IndexDefinition | None) -> bool:
    """True if the statistics are those of all rows, also in files that a bootstrap has left in place."""
    table, has_statistics = metadata.table, COLUMN_STATS in metadata.indexes
    is_old = table.version < 8
    if not has_statistics:
        return is_old or PARTITION_STATS not in metadata.indexes
    if table.is_bootstrapped and not metadata.has_statistics_of_sources:
        return False
    if is_old:
        # Hudi 0.15 has no definitions: the records themselves tell their columns.
        return all(
            pa.types.is_nested(field.type) or has_statistics_form(table, field.type) for field in table.schema
        )
    if definition is None or (definition.version or FIRST_VERSION) != STATISTICS_VERSIONS[table.version]:
        return False
    types = digest_of_types(table.schema, definition.columns)
    is_of_hudi = not metadata.own.properties.get(STATISTICS_OF_SOURCES)
    if types is None or not (is_of_hudi or types in known_types(metadata)):
        return False
    named = (field for field in table.schema if field.name in definition.columns)
    return all(has_statistics_form(table, field.type) for field in named)


def _keeps_records(definition: IndexDefinition | None, *, is_old: bool) -> bool:
    """True for an index of the whole table, and from version 8 on for a partitioned one."""
    if definition is None:
        return is_old
    is_known = (definition.version or FIRST_VERSION) == RECORD_INDEX_VERSION
    return is_known and not (is_old and _is_partitioned(definition))


def _is_partitioned(definition: IndexDefinition) -> bool:
    return definition.options.get(IS_PARTITIONED, "false") != "false"
