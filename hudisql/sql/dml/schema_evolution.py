"""Schema evolution by a write: new and missing columns, and wider types.

Follows what Hudi 0.15 does by default when a DataFrame is written: new columns are added, missing ones are
null, types are widened. Unlike Hudi it accepts only changes that every reader handles correctly in existing
files, and keeps the table's column order. ALTER TABLE does the same on request (`alter_columns`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hudisql.config.config_key import HudiConfig
from hudisql.config.hudi_config import COLUMN_DROP, NULL_FOR_MISSING
from hudisql.errors import UnsupportedTableError, WriteRefusedError
from hudisql.format.schema.meta_columns import is_meta_column
from hudisql.format.schema.spark_schema import arrow_from_spark_json, spark_type_name
from hudisql.format.schema.type_widening import is_safe_widening
from hudisql.options.insert_options import missing_columns
from hudisql.options.table_settings import syncs_after_commit
from hudisql.sql.schema.alter_columns import COMPACT_FIRST, LOGS_FORBID, logs_forbid
from hudisql.sql.schema.table_definition import as_nullable, column_schema
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.schema_change import with_added_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def evolved_schema(
    table: HudiTable, rows: StructType, table_label: str, *, into_structs: bool = True
) -> pa.Schema:
    """The schema for the table's rows and the new ones; the table's own if it fits both.

    Columns are matched by name, ignoring case. Those of the record key and of partitions keep their types.
    With `into_structs` structs gain members, which a Hive Metastore refuses. `table_label` names the table in
    errors. Raises WriteRefusedError for a duplicate column or one whose old and new values have no common
    type, UnsupportedTableError for a new column of a type or name that a Hudi table can't hold.
    """
    documents = _documents_of(rows, table_label)
    known = {field.name.lower(): field for field in table.schema}
    added = [documents[name] for name in documents if name not in known]
    wider = {
        field.name: wanted
        for name, field in known.items()
        if name in documents
        and not _is_text_elsewhere(table, field)
        and (wanted := _wider_type(field, documents[name], rows, table, table_label, into_structs))
        is not None
    }
    extended = with_added_columns(table, column_schema(added), table_label) if added else table.schema
    return pa.schema(
        [field.with_type(wider[field.name]) if field.name in wider else field for field in extended]
    )


def evolved_table(config: HudiConfig, table: HudiTable, rows: StructType, table_label: str) -> HudiTable:
    """The table with its `evolved_schema`; structs gain members if the metastore is not synced.

    Columns that the rows lack are kept, unless the settings say otherwise (`missing_columns`). Raises
    SettingsError.
    """
    follows = syncs_after_commit(config)
    schema = evolved_schema(table, rows, table_label, into_structs=not follows)
    missing = missing_columns(config)
    lacking = [] if missing == "null" else list(_lacking(table, rows, table_label))
    if lacking and missing == "refuse":
        raise WriteRefusedError(
            f"the rows for {table_label} lack {', '.join(lacking)}, and {NULL_FOR_MISSING} is false: "
            f"{describe_difference(table, rows)}",
            hint=f"SET {NULL_FOR_MISSING} = true fills them with NULL",
        )
    if lacking:
        schema = _without_columns(table, schema, lacking, table_label, follows=follows)
    return table.with_schema(schema)


def _lacking(table: HudiTable, rows: StructType, table_label: str) -> Iterator[str]:
    """The columns, and the members as `column.member`, that the rows lack."""
    documents = _documents_of(rows, table_label)
    for field in table.schema:
        document = documents.get(field.name.lower())
        given = None if document is None else _arrow_type(document)
        if document is None:
            yield field.name
        elif given is not None:
            yield from _lacking_members(field.name, field.type, given)


def _lacking_members(path: str, stored: pa.DataType, given: pa.DataType) -> Iterator[str]:
    kinds = pa.types
    if kinds.is_struct(stored) and kinds.is_struct(given):
        members = {field.name.lower(): field.type for field in given}
        for field in stored:
            if field.name.lower() in members:
                yield from _lacking_members(f"{path}.{field.name}", field.type, members[field.name.lower()])
            else:
                yield f"{path}.{field.name}"
    elif kinds.is_list(stored) and kinds.is_list(given):
        yield from _lacking_members(path, stored.value_type, given.value_type)
    elif kinds.is_map(stored) and kinds.is_map(given):
        yield from _lacking_members(path, stored.item_type, given.item_type)


def _without_columns(
    table: HudiTable, schema: pa.Schema, lacking: list[str], table_label: str, *, follows: bool
) -> pa.Schema:
    """The schema without columns that the rows lack."""
    in_case = {field.name for field in table.schema}
    members = [name for name in lacking if name not in in_case]
    properties = table.properties
    used = [*properties.record_key_fields, *properties.partition_fields, *properties.ordering_fields]
    needed = {each.split(".")[0].lower() for each in used}
    kept = [name for name in lacking if name.lower() in needed]
    if members or kept:
        why = "a member of a struct stays" if members else "the table needs it"
        raise WriteRefusedError(
            f"{COLUMN_DROP} is true, and the rows for {table_label} lack {(members or kept)[0]}: {why}",
            hint="give it in the rows",
        )
    narrower = pa.schema([field for field in schema if field.name not in lacking])
    partitions = {name.lower() for name in properties.partition_fields}
    before, after = (
        [column.type for column in columns if column.name.lower() not in partitions]
        for columns in (table.schema, narrower)
    )
    if follows and any(old != new for old, new in zip(before, after, strict=False)):
        raise WriteRefusedError(
            f"{table_label} would lose the column {', '.join(lacking)}, and a Hive Metastore, which compares "
            "columns by their places, does not take that",
            hint=f"SET hudisql.sync = false and write the rows. {_anew(table, table_label)}",
        )
    return narrower


def _anew(table: HudiTable, table_label: str) -> str:
    return (
        f"Then note what SHOW TBLPROPERTIES {table_label} says, DROP TABLE {table_label} (its files stay), "
        f"CALL hive_sync(table => '{table_label}', path => '{table.base_path}'), and set again "
        "what you had set"
    )


def describe_difference(table: HudiTable, rows: StructType) -> str:
    """Both schemas in one line, for errors."""
    ours = ", ".join(f"{field.name} {spark_type_name(field.type)}" for field in table.schema)
    theirs = ", ".join(
        f"{field.name} {field.dataType.simpleString()}" for field in rows if not is_meta_column(field.name)
    )
    return f"the table has ({ours}), the rows have ({theirs})"


def _documents_of(rows: StructType, table_label: str) -> dict[str, dict[str, Any]]:
    """The columns in Spark's JSON by their names in lower case, without meta columns."""
    documents: dict[str, dict[str, Any]] = {}
    for document in rows.jsonValue()["fields"]:
        name = document["name"]
        if is_meta_column(name):
            continue
        if name.lower() in documents:
            raise WriteRefusedError(f"the rows for {table_label} have the column '{name}' twice")
        documents[name.lower()] = as_nullable(document)
    return documents


def _is_text_elsewhere(table: HudiTable, field: pa.Field) -> bool:
    """True for columns whose values are in record keys or directory names, too."""
    keys = [name.split(".")[0] for name in table.properties.record_key_fields]
    names = {name.lower() for name in (*keys, *table.properties.partition_fields)}
    return field.name.lower() in names


def _wider_type(
    field: pa.Field,
    document: dict[str, Any],
    rows: StructType,
    table: HudiTable,
    table_label: str,
    into_structs: bool,
) -> pa.DataType | None:
    """The new type of the column; None if its type stays."""
    given = _arrow_type(document)
    if given is None:
        return None
    lost = next(_losses(field.type, given), None)
    if lost is not None:
        raise WriteRefusedError(
            f"column '{field.name}' of {table_label} is {spark_type_name(field.type)}, and {lost}: "
            f"{describe_difference(table, rows)}",
            hint=f"CAST it AS {spark_type_name(field.type)} if that is what is meant",
        )
    is_wider = is_safe_widening(field.type, given)
    wanted = given if is_wider else _with_members(field.type, given)
    if wanted == field.type:
        return None
    if logs_forbid(table, field.type, wanted):
        raise WriteRefusedError(
            f"column '{field.name}' of {table_label} is {spark_type_name(field.type)}, not "
            f"{spark_type_name(wanted)}: {LOGS_FORBID}",
            hint=COMPACT_FIRST,
        )
    if pa.types.is_nested(wanted) and not into_structs:
        raise WriteRefusedError(
            f"column '{field.name}' of {table_label} would gain members, which a Hive Metastore does not "
            f"take: {describe_difference(table, rows)}",
            hint="SET hudisql.sync = false and write the rows by name or as a DataFrame. "
            f"{_anew(table, table_label)}",
        )
    return wanted


def _with_members(stored: pa.DataType, given: pa.DataType) -> pa.DataType:
    # Values inside of lists, maps and structs are not widened: Apache Hudi 0.15 cannot read that.
    kinds = pa.types
    if kinds.is_list(stored) and kinds.is_list(given):
        return pa.list_(stored.value_field.with_type(_with_members(stored.value_type, given.value_type)))
    if kinds.is_map(stored) and kinds.is_map(given):
        item = stored.item_field.with_type(_with_members(stored.item_type, given.item_type))
        return pa.map_(stored.key_field, item)
    if kinds.is_struct(stored) and kinds.is_struct(given):
        added = {field.name.lower(): field for field in given}
        kept = []
        for field in stored:
            match = added.pop(field.name.lower(), None)
            kept.append(field if match is None else field.with_type(_with_members(field.type, match.type)))
        return pa.struct([*kept, *added.values()])
    return stored


def _arrow_type(document: dict[str, Any]) -> pa.DataType | None:
    """The type; None for one that columns cannot have. Whether values can be stored is checked elsewhere."""
    import json

    try:
        return arrow_from_spark_json(json.dumps({"type": "struct", "fields": [document]})).field(0).type
    except UnsupportedTableError:
        return None


def _losses(stored: pa.DataType, given: pa.DataType, *, is_member: bool = False) -> Iterator[str]:
    """What values of the given type would lose in the stored one, though a cast exists.

    Values that do not fit (a bigint in an int) fail in the cast.
    """
    kinds = pa.types
    if kinds.is_struct(stored) and kinds.is_struct(given):
        members = {field.name.lower(): field.type for field in given}
        for field in stored:
            if (member := members.get(field.name.lower())) is not None:
                yield from _losses(field.type, member, is_member=True)
    elif kinds.is_list(stored) and kinds.is_list(given):
        yield from _losses(stored.value_type, given.value_type, is_member=True)
    elif kinds.is_map(stored) and kinds.is_map(given):
        yield from _losses(stored.item_type, given.item_type, is_member=True)
    elif is_member or not is_safe_widening(stored, given):
        lost = _lost_part(stored, given)
        if lost is not None:
            inside = " in it" if is_member else ""
            yield f"the rows' {spark_type_name(given)}{inside} would lose {lost}"


def _lost_part(stored: pa.DataType, given: pa.DataType) -> str | None:
    kinds = pa.types
    scale = given.scale if kinds.is_decimal(given) else 0
    if kinds.is_integer(stored) and (kinds.is_floating(given) or scale > 0):
        return "its fraction"
    if kinds.is_decimal(stored) and (kinds.is_floating(given) or scale > stored.scale):
        return "digits behind the point"
    if kinds.is_date(stored) and kinds.is_timestamp(given):
        return "its time"
    if kinds.is_floating(stored) and (kinds.is_decimal(given) or kinds.is_int64(given)):
        return "digits"
    if kinds.is_float32(stored) and (kinds.is_int32(given) or kinds.is_float64(given)):
        return "digits"
    return None
