"""The columns of which the index `column_stats` of a metadata table has statistics.

From table version 8 on a definition names them. Those of version 6, which Hudi 0.15 writes without one, are
those that the records have.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from hudisql.errors import CorruptTableError
from hudisql.format.metadata_table.metadata_keys import key_parts, partition_key_part
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS
from hudisql.format.metadata_table.value_types import FIRST_DIGITS, is_measured
from hudisql.format.schema.meta_columns import COMMIT_TIME, META_SCHEMA, PARTITION_PATH, RECORD_KEY
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.index_definitions import read_index_definitions
from hudisql.table.metadata_table.kept_metadata_table import has_first_form, has_statistics_form
from hudisql.table.metadata_table.metadata_table import readable_metadata_table

MAX_COLUMNS: Final = 32
"""The number of data columns with statistics from version 8 on, as Hudi 1.2 limits it by default."""
MEASURED_META_COLUMNS: Final = (COMMIT_TIME, PARTITION_PATH, RECORD_KEY)
"""The meta columns with statistics from version 8 on; in version 6 all have them."""
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


def measured_fields(table: HudiTable, schema: pa.Schema) -> tuple[pa.Field, ...]:
    """The columns that have statistics by default if the table has this schema.

    Empty if version 6 cannot have those of all columns that are not nested. In the form of version V1 no
    decimals that may have too many digits for it.
    """
    if table.version < _DEFINED_VERSION:
        columns = [field for field in schema if not pa.types.is_nested(field.type)]
        is_whole = all(has_statistics_form(table, field.type) for field in columns)
        return (*META_SCHEMA, *columns) if is_whole else ()
    fields = [field for field in schema if has_statistics_form(table, field.type)]
    if has_first_form(table):
        fields = [
            field
            for field in fields
            if not pa.types.is_decimal(field.type) or field.type.precision - field.type.scale <= FIRST_DIGITS
        ]
    return (*(META_SCHEMA.field(name) for name in MEASURED_META_COLUMNS), *fields[:MAX_COLUMNS])
