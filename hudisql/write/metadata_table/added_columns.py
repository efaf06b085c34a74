"""Statistics of columns that a commit adds to a table, for the files and partitions that lack them.

Apache Hudi leaves out files that have records of some of a filter's columns only: 0.15 and 1.2 give no row of
them for `added IS NULL AND other > 1`. From version 8 on the index has a list of its columns, to which 1.2
adds all of its own next write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa

from hudisql.format.metadata_table.metadata_keys import key_parts
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, PARTITION_STATS, newest_records
from hudisql.format.metadata_table.metadata_writing import ColumnRange, RangeOfFiles
from hudisql.format.metadata_table.value_types import value_kind
from hudisql.format.schema.meta_columns import META_COLUMNS, RECORD_KEY
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.kept_metadata_table import has_first_form
from hudisql.table.metadata_table.metadata_table import MetadataTable
from hudisql.table.metadata_table.statistics_columns import measured_fields

_MOST_COUNTS: Final = 1024
"""Files and columns with other numbers of rows are encoded one by one."""


def added_columns(table: HudiTable, schema: pa.Schema, columns: Sequence[str]) -> tuple[pa.Field, ...]:
    """The columns of `schema` that the table does not have and that need statistics.

    None do if `columns`, those with statistics, are not all that have them by default, as a writer may have
    chosen, but for those of `columns` that the table lacks, as after another writer has dropped them.
    """
    if table.timeline.layout.has_completion_times:
        by_default = {field.name for field in measured_fields(table, table.schema)}
        needed = measured_fields(table, schema)
    else:
        by_default = {RECORD_KEY, *(each.name for each in table.schema if not pa.types.is_nested(each.type))}
        needed = tuple(each for each in schema if not pa.types.is_nested(each.type))
    if not by_default <= {*columns}:
        needed = ()
    known = {*META_COLUMNS, *table.schema.names}
    listed = (each for each in schema if each.name in columns and each not in needed)
    return tuple(field for field in (*needed, *listed) if field.name not in known)


def nulls_of_files(metadata: MetadataTable, columns: Sequence[pa.Field]) -> dict[str, bytes]:
    """Records of `column_stats` that say that these columns are null in all rows of all files.

    Raises CorruptTableError, StorageError.
    """
    parts = key_parts([column.name for column in columns])
    in_first_form = has_first_form(metadata.table)

    @lru_cache(maxsize=_MOST_COUNTS)
    def nulls(column: pa.Field, rows: int) -> RangeOfFiles:
        return RangeOfFiles(_nulls(column, rows), in_first_form=in_first_form)

    return {
        f"{parts[column.name]}{place}": nulls(column, rows).encode(name)
        for place, name, rows in _known_rows(metadata, COLUMN_STATS)
        for column in columns
    }


def nulls_of_partitions(
    metadata: MetadataTable, columns: Sequence[pa.Field]
) -> dict[str, tuple[ColumnRange, ...]]:
    """The ranges of these columns by partition path, all of nulls. Raises CorruptTableError, StorageError."""
    # The newest record of a partition may be that of deletes alone, without rows.
    return {
        path: tuple(_nulls(column, max(rows, 1)) for column in columns)
        for _, path, rows in _known_rows(metadata, PARTITION_STATS)
    }


def _known_rows(metadata: MetadataTable, index: str) -> Iterator[tuple[str, str, int]]:
    """The last parts of the keys, the names and the rows of the files or partitions.

    They are those of the record keys' statistics.
    """
    known = key_parts([RECORD_KEY])[RECORD_KEY]
    for layers in metadata.read_layers(index, [known]):
        newest = newest_records(layers)
        for key, stored in zip(newest.keys.to_pylist(), newest.values.to_pylist(), strict=True):
            if not stored["isDeleted"]:
                yield key.removeprefix(known), stored["fileName"], stored["valueCount"]


def _nulls(column: pa.Field, rows: int) -> ColumnRange:
    kind = value_kind(column.type)
    assert kind is not None  # a measured column
    return ColumnRange(
        column.name, kind.wrapper, kind.ordinal, None, None, rows, rows, type_details=kind.details
    )
