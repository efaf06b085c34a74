"""ADD COLUMNS and ALTER COLUMN as a change of schema: old schema and request in, new schema out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from hudisql.config.hudi_config import SCHEMA_ON_READ
from hudisql.errors import UnknownColumnError, UnsupportedStatementError
from hudisql.format.schema.avro_schema import comment_of, commented_field, decimal_bytes
from hudisql.format.schema.spark_schema import spark_type_name
from hudisql.format.schema.type_widening import is_safe_widening
from hudisql.sql.schema.alterations import ChangeColumn
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable

LOGS_FORBID: Final = "log files hold it in fewer bytes, and Apache Hudi could no longer read them"
COMPACT_FIRST: Final = "let Apache Hudi compact the table (CALL run_compaction), then run this again"


def with_changed_columns(table: HudiTable, changes: Sequence[ChangeColumn], table_label: str) -> pa.Schema:
    """The table's schema with other comments and wider types.

    Raises InvalidArgumentError for a column that is not there, UnsupportedStatementError for a type that does
    not hold what is stored.
    """
    fields = list(table.schema)
    for change in changes:
        number = next(
            (at for at, field in enumerate(fields) if field.name.lower() == change.name.lower()), None
        )
        if number is None:
            raise UnknownColumnError(
                f"{table_label} has no column '{change.name}'",
                hint=f"its columns are {', '.join(field.name for field in fields)}",
            )
        field = fields[number]
        wanted = field.type if change.type is None else change.type
        _check_type(table, field, wanted, table_label)
        comment = comment_of(field) if change.comment is None else change.comment
        fields[number] = commented_field(field.name, wanted, comment)
    return pa.schema(fields)


def logs_forbid(table: HudiTable, stored: pa.DataType, wanted: pa.DataType) -> bool:
    """True if log files of the table could not be read with the wider type.

    Apache Hudi's Avro reader does not read a decimal from fewer bytes than the schema says.
    """
    if not table.is_merge_on_read or not pa.types.is_decimal(stored) or not pa.types.is_decimal(wanted):
        return False
    if decimal_bytes(stored.precision) == decimal_bytes(wanted.precision):
        return False
    return any(file_slice.has_log_files for file_slice in load_file_slices(table))


def _check_type(table: HudiTable, field: pa.Field, wanted: pa.DataType, table_label: str) -> None:
    if wanted == field.type:
        return
    stored = spark_type_name(field.type)
    types = f"column {field.name} of {table_label} is {stored}, not {spark_type_name(wanted)}"
    if not is_safe_widening(field.type, wanted):
        raise UnsupportedStatementError(
            f"{types}: this change of type is not supported, nothing was run",
            hint="int becomes bigint, float double, and a decimal gains digits before the point; "
            f"{SCHEMA_ON_READ} = true allows more (docs/tables.md, Schema-on-read)",
        )
    if logs_forbid(table, field.type, wanted):
        raise UnsupportedStatementError(f"{types}: {LOGS_FORBID}", hint=COMPACT_FIRST)
    properties = table.properties
    used = [name.split(".")[0].lower() for name in properties.record_key_fields]
    if field.name.lower() in [*used, *(name.lower() for name in properties.partition_fields)]:
        raise UnsupportedStatementError(
            f"{types}: record keys and partition paths hold its values as text, so its type stays"
        )
