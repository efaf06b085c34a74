"""What hudisql notes of the statistics that it made, in the properties of the metadata table.

`STATISTICS_OF_SOURCES` has digests of the types of the columns with statistics. While a commit that adds such
columns completes, or is rolled back, there are two, and that with these columns names the commit's instant
(`digest@instant`): it counts as long as the commit is completed.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final

import pyarrow as pa

from hudisql.format.metadata_table.metadata_keys import key_parts
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, newest_records
from hudisql.format.metadata_table.value_types import digest_of_types
from hudisql.format.schema.meta_columns import META_COLUMNS
from hudisql.table.metadata_table.index_definitions import read_index_definitions
from hudisql.table.metadata_table.metadata_table import STATISTICS_OF_SOURCES, MetadataTable

OTHER_COLUMNS: Final = "hudisql.statistics.other.columns"
"""A JSON list of the columns, in lower case, that files had beside those of the table when hudisql made the
statistics: those that had been dropped before, or that a table schema leaves out.
"""


def known_types(metadata: MetadataTable) -> frozenset[str]:
    """The digests that count; empty if hudisql did not make the statistics."""
    completed = {instant.timestamp for instant in metadata.table.timeline.completed}
    noted = (metadata.own.properties.get(STATISTICS_OF_SOURCES) or "").split(",")
    entries = (entry.partition("@") for entry in noted if entry)
    return frozenset(digest for digest, _, instant in entries if not instant or instant in completed)


def are_types_settled(metadata: MetadataTable) -> bool:
    """False while a commit that adds columns completes or is rolled back, or if that was interrupted."""
    return "@" not in (metadata.own.properties.get(STATISTICS_OF_SOURCES) or "")


def columns_in_schema(metadata: MetadataTable, schema: pa.Schema) -> tuple[str, ...]:
    """The columns that the definition of the statistics names, without top-level ones that the schema lacks.

    Raises CorruptTableError, StorageError.
    """
    definition = read_index_definitions(metadata.table).get(COLUMN_STATS)
    columns = () if definition is None else definition.columns
    return tuple(name for name in columns if "." in name or name in {*META_COLUMNS, *schema.names})


def types_of(metadata: MetadataTable, schema: pa.Schema) -> str | None:
    """The digest of the columns with statistics if the table has this schema.

    None if one of them has a type without statistics. Raises CorruptTableError, StorageError.
    """
    return digest_of_types(schema, columns_in_schema(metadata, schema))


def may_be_in_files(metadata: MetadataTable, names: Collection[str]) -> bool:
    """False if no file has a column of one of these names, which the table lacks.

    Neither had one when hudisql made the statistics, nor has another writer measured one since. Raises
    CorruptTableError, StorageError.
    """
    noted = metadata.own.properties.get(OTHER_COLUMNS)
    if noted is None or not metadata.has_statistics_of_sources:
        return True
    if any(json.dumps(name.lower()) in noted for name in names):
        return True
    parts = key_parts([*names])
    groups = metadata.read_layers(COLUMN_STATS, [*parts.values()])
    return any(len(newest_records(layers).keys) for layers in groups)
