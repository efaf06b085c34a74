"""The list of the columns with statistics, and hudisql's notes of them, while a commit that adds columns
completes or is rolled back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from hudisql.format.metadata_table.metadata_records import COLUMN_STATS
from hudisql.format.metadata_table.value_types import digest_of_types
from hudisql.table.metadata_table.index_definitions import set_index_columns
from hudisql.table.metadata_table.metadata_table import STATISTICS_OF_SOURCES, MetadataTable
from hudisql.table.metadata_table.statistics_types import (
    are_types_settled,
    columns_in_schema,
    known_types,
    types_of,
)
from hudisql.table.properties.table_configuration import update_table_properties


def define_statistics(
    metadata: MetadataTable, columns: Sequence[str], schema: pa.Schema, instant_time: str
) -> None:
    """Let the list of the columns with statistics be `columns`, before a commit gives the table this schema.

    The statistics stay those of hudisql whether it completes or not; `settle_statistics` ends that. Raises
    CorruptTableError, StorageError.
    """
    _note_types(
        metadata, types_of(metadata, metadata.table.schema), digest_of_types(schema, columns), instant_time
    )
    set_index_columns(metadata.table, COLUMN_STATS, columns)


def expect_rollback(metadata: MetadataTable, instant_time: str) -> None:
    """Let the statistics be those of hudisql also without the columns that a completed commit has added.

    Called before it is pending again; `settle_statistics` ends that. Raises CorruptTableError, StorageError.
    """
    table = metadata.table
    if not table.timeline.layout.has_completion_times or not known_types(metadata):
        return
    left = tuple(each for each in table.timeline.instants if each.timestamp != instant_time)
    schema = replace(table, timeline=replace(table.timeline, instants=left)).schema
    _note_types(metadata, types_of(metadata, schema), types_of(metadata, table.schema), instant_time)


def _note_types(
    metadata: MetadataTable, without: str | None, with_commit: str | None, instant_time: str
) -> None:
    """Note the digests without, and with, the columns of a commit."""
    if without and with_commit and without != with_commit:
        changes = {STATISTICS_OF_SOURCES: f"{without},{with_commit}@{instant_time}"}
        update_table_properties(metadata.own.storage, metadata.own.base_path, changes)


def settle_statistics(metadata: MetadataTable) -> None:
    """Once a commit that adds columns is completed, or gone, note the types of the table's columns alone.

    The list of the columns with statistics loses those that the table lacks. Nothing is done if the types
    are not known: the next write drops such statistics. Raises CorruptTableError, StorageError.
    """
    if are_types_settled(metadata):
        return
    schema = metadata.table.schema
    if (types := types_of(metadata, schema)) not in known_types(metadata):
        return
    set_index_columns(metadata.table, COLUMN_STATS, columns_in_schema(metadata, schema))
    changes = {STATISTICS_OF_SOURCES: types}
    update_table_properties(metadata.own.storage, metadata.own.base_path, changes)
