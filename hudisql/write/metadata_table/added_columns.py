"""Statistics of columns that a commit adds to a table of version 6, for the files that lack them.

Hudi 0.15 expects statistics of all columns: it leaves out files that have records of some of a filter's
columns only. From version 8 on the index has a list of its columns, and added ones are not in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hudisql.format.metadata_table.metadata_keys import key_parts
from hudisql.format.metadata_table.metadata_records import COLUMN_STATS, newest_records
from hudisql.format.metadata_table.metadata_writing import ColumnRange, encode_range, first_form
from hudisql.format.metadata_table.value_types import value_kind
from hudisql.format.schema.meta_columns import RECORD_KEY
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.metadata_table import MetadataTable


def added_columns(table: HudiTable, schema: pa.Schema, columns: Sequence[str]) -> tuple[pa.Field, ...]:
    """The columns of `schema` that the table does not have and that need statistics.

    Empty if `columns`, those with statistics, are not all of the table, as a writer may have chosen.
    """
    known = {field.name for field in table.schema if not pa.types.is_nested(field.type)}
    if table.timeline.layout.has_completion_times or not {RECORD_KEY, *known} <= {*columns}:
        return ()
    names = {*table.schema.names}
    return tuple(field for field in schema if field.name not in names and not pa.types.is_nested(field.type))


def records_of_nulls(metadata: MetadataTable, columns: Sequence[pa.Field]) -> dict[str, bytes]:
    """Records of `column_stats` that say that these columns are null in all rows of all files.

    The files and their rows are those of the record keys' statistics. Raises CorruptTableError, StorageError.
    """
    parts = key_parts([RECORD_KEY, *(column.name for column in columns)])
    known = parts[RECORD_KEY]
    records: dict[str, bytes] = {}
    for layers in metadata.read_layers(COLUMN_STATS, [known]):
        newest = newest_records(layers)
        for key, stored in zip(newest.keys.to_pylist(), newest.values.to_pylist(), strict=True):
            if stored["isDeleted"]:
                continue
            for column in columns:
                file = key.removeprefix(known)
                nulls = _nulls(column, stored["valueCount"])
                records[f"{parts[column.name]}{file}"] = encode_range(nulls, stored["fileName"])
    return records


def _nulls(column: pa.Field, rows: int) -> ColumnRange:
    kind = value_kind(column.type)
    assert kind is not None  # a measured column
    column_range = ColumnRange(
        column.name, kind.wrapper, kind.ordinal, None, None, rows, rows, type_details=kind.details
    )
    return first_form(column_range)
