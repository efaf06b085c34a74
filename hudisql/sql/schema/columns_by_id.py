"""ALTER TABLE by the ids of columns (schema-on-read): old internal schema and request in, new one out.

Follows `AlterTableCommand` and `TableSchemaChangeUtils` of Hudi 0.15. Only changes that Apache Hudi's readers
take right in files and log blocks from before them: of top-level columns, and new members of structs, in
tables without bootstrapped slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from hudisql.config.hudi_config import SCHEMA_ON_READ
from hudisql.errors import InvalidArgumentError, UnsupportedStatementError
from hudisql.format.schema.avro_schema import decimal_bytes
from hudisql.format.schema.internal_schema import InternalSchema, arrow_schema
from hudisql.format.schema.internal_schema_changes import (
    had_member,
    has_column,
    id_of,
    initial_schema,
    place_of,
    with_comment,
    with_moved,
    with_new_column,
    with_renamed,
    with_type,
    without_column,
)
from hudisql.format.schema.meta_columns import IS_DELETED, is_meta_column
from hudisql.format.schema.spark_schema import spark_type_name
from hudisql.format.table_properties import DELETE_FIELD
from hudisql.sql.schema import alterations as al
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable

_DIGITS: Final = {pa.int32(): 10, pa.int64(): 19}
_WIDER: Final = (
    (pa.int32(), pa.int64()),
    (pa.int32(), pa.float32()),
    (pa.int32(), pa.float64()),
    (pa.int64(), pa.float32()),
    (pa.int64(), pa.float64()),
    (pa.float32(), pa.float64()),
    (pa.string(), pa.date32()),
)


def changed_by_ids(table: HudiTable, alteration: al.ColumnAlteration, table_label: str) -> InternalSchema:
    """The table's internal schema after the change; its version id is not yet that of the commit.

    `table_label` names the table in errors. Raises UnknownColumnError, InvalidArgumentError, and
    UnsupportedStatementError for columns of keys, partitions and orders, and for types that do not hold what
    is stored.
    """
    _check_slices(table, table_label)
    columns = table.file_columns
    schema = initial_schema(table.schema) if columns is None else columns.current
    if isinstance(alteration, al.AddColumns):
        return _with_added(table, schema, alteration)
    if isinstance(alteration, al.DropColumns):
        for name in alteration.names:
            if alteration.if_exists and not has_column(schema, name):
                continue
            _check_unused(table, name, f"DROP COLUMN {name}", table_label)
            schema = without_column(schema, name)
        return schema
    if isinstance(alteration, al.RenameColumn):
        _check_unused(table, alteration.name, f"RENAME COLUMN {alteration.name}", table_label)
        _check_name(alteration.new_name)
        return with_renamed(schema, alteration.name, alteration.new_name)
    for change in alteration.columns:
        schema = _with_change(table, schema, change, table_label)
    return schema


def _with_added(table: HudiTable, schema: InternalSchema, adding: al.AddColumns) -> InternalSchema:
    for field in adding.columns:
        _check_name(field.name)
        after = adding.places.get(field.name)
        if parents := adding.parents.get(field.name):
            schema = with_new_column(schema, field, after, parents)
            _check_is_new(table, schema, parents, field.name)
            continue
        if after is not None:
            _check_place(table, after)
        schema = with_new_column(schema, field, after or _last_data_column(table, schema))
    return schema


def _check_is_new(table: HudiTable, schema: InternalSchema, parents: Sequence[str], name: str) -> None:
    """Refuse the name of a member that the struct has had: Apache Hudi fails on the files that have both."""
    columns = table.file_columns
    if columns is not None and had_member(columns.versions, id_of(schema, parents), name):
        raise UnsupportedStatementError(
            f"{'.'.join(parents)} has had a member {name}: Apache Hudi could not read files from before "
            "it was dropped, nothing was run",
            hint="take another name",
        )


def _last_data_column(table: HudiTable, schema: InternalSchema) -> str | None:
    """The column before trailing partition columns; None if these are not last."""
    names = [str(field["name"]) for field in schema.fields]
    partitions = {name.lower() for name in table.properties.partition_fields}
    trailing = [name.lower() for name in names[len(names) - len(partitions) :]]
    return names[-len(partitions) - 1] if partitions and set(trailing) == partitions else None


def _with_change(
    table: HudiTable, schema: InternalSchema, change: al.ChangeColumn, table_label: str
) -> InternalSchema:
    name = change.name
    if "." in name:
        return with_moved(schema, name, change.after)
    stored = arrow_schema(schema).field(schema.fields[place_of(schema, name)]["name"])
    if change.comment is not None:
        schema = with_comment(schema, name, change.comment)
    if change.type is not None and change.type != stored.type:
        _check_unused(table, name, f"ALTER COLUMN {name} TYPE", table_label)
        for kind in _types_of(table, schema, name):
            _check_type(stored.with_type(kind), change.type, table_label)
        schema = with_type(schema, name, change.type)
    if change.after is not None:
        _check_unused(table, name, f"moving {name}", table_label)
        _check_place(table, change.after)
        schema = with_moved(schema, name, change.after)
    return schema


def _check_slices(table: HudiTable, table_label: str) -> None:
    if table.properties.has_register_only_partitions or (
        table.is_bootstrapped and any(file_slice.is_bootstrapped for file_slice in load_file_slices(table))
    ):
        raise UnsupportedStatementError(
            f"{table_label} has file groups whose rows are still in source files, which Apache Hudi 0.15 "
            "reads by the names of columns and 1.2 not at all then: nothing was run",
            hint=f"CALL rewrite_bootstrap_files(table => '{table_label}', only_unsafe => false) rewrites "
            f"them first; columns are added and widened with {SCHEMA_ON_READ} = false, too",
        )


def _check_unused(table: HudiTable, name: str, what: str, table_label: str) -> None:
    """Refuse a change of a column by which rows are found, placed or merged."""
    properties = table.properties
    used: Sequence[tuple[str, Sequence[str]]] = (
        ("record key", properties.record_key_fields),
        ("partition", properties.partition_fields),
        ("ordering", properties.ordering_fields),
        ("VARCHAR or CHAR", tuple(properties.column_lengths)),
        ("delete", (properties.get(DELETE_FIELD) or "", IS_DELETED)),
    )
    for role, fields in used:
        if any(_overlap(name, field) for field in fields):
            raise UnsupportedStatementError(
                f"{what} of {table_label} is not supported: it is a {role} column, nothing was run"
            )
    if is_meta_column(name):
        raise UnsupportedStatementError(f"{what} of {table_label} is not supported: it is a meta column")


def _overlap(name: str, other: str) -> bool:
    """True if one of the columns or members is the other, or inside it."""
    pairs = zip(name.lower().split("."), other.lower().split("."), strict=False)
    return all(part == other_part for part, other_part in pairs)


def _check_place(table: HudiTable, after: str) -> None:
    if after.lower() in (name.lower() for name in table.properties.partition_fields):
        raise UnsupportedStatementError(
            f"AFTER {after} is not supported: partition columns come last, nothing was run"
        )


def _check_name(name: str) -> None:
    if is_meta_column(name):
        raise InvalidArgumentError(f"{name} is the name of a meta column")


def _types_of(table: HudiTable, schema: InternalSchema, name: str) -> set[pa.DataType]:
    """The types that the column has had: files that were written since have each of them."""
    versions = (schema, *(() if table.file_columns is None else table.file_columns.versions))
    own_id = id_of(schema, (name,))
    return {
        arrow_schema(version).field(field["name"]).type
        for version in versions
        for field in version.fields
        if field["id"] == own_id
    }


def _check_type(field: pa.Field, wanted: pa.DataType, table_label: str) -> None:
    before, after = spark_type_name(field.type), spark_type_name(wanted)
    if field.type != wanted and not _holds(field.type, wanted):
        raise UnsupportedStatementError(
            f"column {field.name} of {table_label} is or was {before}, not {after}: "
            f"{_reason(field.type, wanted)}, "
            "nothing was run",
            hint="int becomes bigint, float, double, decimal or string, bigint float, double, decimal or "
            "string, float double or string, double decimal or string, string date or decimal, date string, "
            "decimal string or a decimal with as many digits before and after the point or more",
        )


def _reason(stored: pa.DataType, wanted: pa.DataType) -> str:
    kinds = pa.types
    if stored == pa.float32() and kinds.is_decimal(wanted):
        return "Apache Hudi reads other digits in base files than in log files"
    if stored in _DIGITS and kinds.is_decimal(wanted):
        return (
            f"Apache Hudi reads numbers that do not fit as others, and {_DIGITS[stored]} digits may be needed"
        )
    if kinds.is_decimal(stored) and kinds.is_decimal(wanted) and _keeps_bytes(stored, wanted):
        return "both have as many bytes in log files, where Apache Hudi 0.15 reads 1.12 as 0.112"
    return "this change of type is not supported"


def _keeps_bytes(stored: pa.Decimal128Type, wanted: pa.Decimal128Type) -> bool:
    return decimal_bytes(stored.precision) == decimal_bytes(wanted.precision)


def _holds(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """True for the types whose values every reader converts alike."""
    kinds = pa.types
    if kinds.is_decimal(wanted):
        if kinds.is_decimal(stored):
            more_before = (wanted.precision - wanted.scale) - (stored.precision - stored.scale)
            more_behind = wanted.scale - stored.scale
            moves_point = more_behind > 0 and not _keeps_bytes(stored, wanted)
            return bool(more_before >= 0 and (more_behind == 0 or moves_point))
        if stored in _DIGITS:
            return bool(wanted.precision - wanted.scale >= _DIGITS[stored])
        return stored in (pa.float64(), pa.string())
    if kinds.is_string(wanted):
        return bool(
            kinds.is_integer(stored)
            or kinds.is_floating(stored)
            or kinds.is_date(stored)
            or kinds.is_decimal(stored)
        )
    return (stored, wanted) in _WIDER
