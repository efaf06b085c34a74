"""SHOW and DESCRIBE of Hudi tables, answered from the table itself.

The columns are those of Spark's own statements; the rows follow the table's timeline, so that they are
correct even if the metastore lags behind the last commit. Only SHOW PARTITIONS begins with the metastore's
partitions, and adds what commits since the last sync have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from hudisql.catalog.added_partitions import is_added
from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.catalog.sync_changes import changed_partitions, is_incremental
from hudisql.catalog.sync_entries import omits_meta_columns
from hudisql.catalog.thrift_values import partition_name
from hudisql.errors import CorruptTableError, UnknownColumnError
from hudisql.format.paths.partition_path import (
    parse_partition_value,
    partition_path,
    render_partition_value,
    split_partition_path,
)
from hudisql.format.schema.avro_schema import comment_of
from hudisql.format.schema.spark_schema import quote_name, spark_type_name
from hudisql.format.table_properties import (
    DROP_PARTITION_COLUMNS,
    HIVE_STYLE_PARTITIONING,
    KEY_GENERATOR_CLASS,
    LEGACY_PAYLOAD_CLASS,
    URL_ENCODE_PARTITIONING,
    WRITE_VERSION,
)
from hudisql.result import LocalResult
from hudisql.sql.ddl.generator_options import kept_generator_settings
from hudisql.sql.ddl.partition_clauses import partition_filter
from hudisql.sql.ddl.table_options import KNOWN_PROPERTIES, user_properties
from hudisql.sql.query.target_table import open_hudi_entry
from hudisql.sql.text.statements import DescribeStatement, ShowPartitionsStatement, ShowPropertiesStatement
from hudisql.sql_literals import quote_string
from hudisql.table.hudi_table import WRITTEN_VERSION, HudiTable
from hudisql.table.partitions.listed_partitions import directory_columns, directory_values
from hudisql.table.partitions.non_empty_partitions import list_non_empty_partitions
from hudisql.table.properties.new_table import DEFAULT_PAYLOAD
from hudisql.write.keygen.key_generator import PARTITION_SPEC, generates_paths

if TYPE_CHECKING:
    from hudisql.context import Context

_DESCRIBE_COLUMNS = (("col_name", "string"), ("data_type", "string"), ("comment", "string"))


def show_partitions(
    context: Context, entry: MetastoreTable, statement: ShowPartitionsStatement
) -> LocalResult:
    """The partitions as `column=value/…`, sorted; a given specification selects among them.

    An unpartitioned table has none, as for Hudi's `ShowHoodieTablePartitionsCommand`. Raises
    InvalidArgumentError for columns that the table lacks, or for a value that does not fit its column's type.
    """
    table = open_hudi_entry(context, entry)
    selects = partition_filter(table, statement.partition, entry.full_name)
    found = _partition_values(context, entry, table) if directory_columns(table) else []
    rows = sorted({(_partition_name(table, values),) for values in found if selects(values)})
    return LocalResult(lambda: context.spark, (("partition", "string"),), rows)


def _partition_values(context: Context, entry: MetastoreTable, table: HudiTable) -> list[tuple[object, ...]]:
    """The `directory_values` of the table's partitions.

    The store is listed only if the metastore does not say up to which commit it follows the table, or names
    partitions that the table cannot have.
    """
    columns = directory_columns(table)
    is_registered = [column.name for column in entry.partition_columns] == [
        column.name.lower() for column in columns
    ]
    if not is_registered:
        return [directory_values(table, partition) for partition in list_non_empty_partitions(table)]
    stored = _stored_values(context, entry, columns) if is_incremental(table, entry) else None
    if stored is None:
        filled = [directory_values(table, partition) for partition in list_non_empty_partitions(table)]
        return filled + _added_values(context, entry, columns)
    changed = changed_partitions(table, entry)
    present, dropped = (
        [directory_values(table, partition) for partition in some]
        for some in (changed.present, changed.dropped)
    )
    gone = {_partition_name(table, values) for values in dropped}
    return [*present, *(values for values in stored if _partition_name(table, values) not in gone)]


def _stored_values(
    context: Context, entry: MetastoreTable, columns: Sequence[pa.Field]
) -> list[tuple[object, ...]] | None:
    """The values of the metastore's partitions; None if the table cannot have some of them."""
    names = context.metastore.list_partition_names(entry.database, entry.name)
    try:
        return [_values_of_name(columns, name) for name in names]
    except (ValueError, OverflowError, CorruptTableError):
        return None  # others have added a partition by hand


def _added_values(
    context: Context, entry: MetastoreTable, columns: Sequence[pa.Field]
) -> list[tuple[object, ...]]:
    """The `directory_values` of partitions of ADD PARTITION, which hold no rows."""
    stored = context.metastore.list_partitions(entry.database, entry.name)
    names = [partition_name(entry, partition.values) for partition in stored if is_added(partition)]
    return [_values_of_name(columns, name) for name in names]


def _values_of_name(columns: Sequence[pa.Field], name: str) -> tuple[object, ...]:
    texts = split_partition_path(name, [column.name for column in columns])
    return tuple(
        parse_partition_value(text, column.type) for text, column in zip(texts, columns, strict=True)
    )


def show_columns(context: Context, entry: MetastoreTable) -> LocalResult:
    """The names of all columns, meta columns first unless the entry omits them."""
    schema = _shown_schema(open_hudi_entry(context, entry), entry)
    return LocalResult(lambda: context.spark, (("col_name", "string"),), [(name,) for name in schema.names])


def describe_table(context: Context, entry: MetastoreTable, statement: DescribeStatement) -> LocalResult:
    """Columns, partition columns and, if extended, what kind of Hudi table it is.

    Raises InvalidArgumentError for a column that is not there.
    """
    table = open_hudi_entry(context, entry)
    columns = described_columns(table, entry)
    if statement.column is not None:
        return _describe_column(context, entry, statement.column, columns)
    rows: list[tuple[str, str, str | None]] = list(columns)
    if table.properties.partition_fields:
        names = set(table.properties.partition_fields)
        rows += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        rows += [column for column in columns if column[0] in names]
    if statement.extended:
        rows += [("", "", ""), ("# Detailed Table Information", "", "")]
        rows += [(name, value, "") for name, value in describe_details(table, entry)]
    return LocalResult(lambda: context.spark, _DESCRIBE_COLUMNS, rows)


def described_columns(table: HudiTable, entry: MetastoreTable) -> list[tuple[str, str, str | None]]:
    """Name, type and comment of each column, meta columns first unless the entry omits them.

    A comment of the metastore has priority.
    """
    comments = {column.name.lower(): column.comment for column in (*entry.columns, *entry.partition_columns)}
    return [
        (field.name, declared_type_name(table, field), comments.get(field.name.lower()) or comment_of(field))
        for field in _shown_schema(table, entry)
    ]


def declared_type_name(table: HudiTable, field: pa.Field) -> str:
    """Spark's name of the column's type, `varchar(n)` or `char(n)` for a text that was declared so."""
    sized = table.properties.column_lengths.get(field.name)
    return spark_type_name(field.type) if sized is None else sized.name


def _shown_schema(table: HudiTable, entry: MetastoreTable) -> pa.Schema:
    return table.schema if omits_meta_columns(entry) else table.full_schema


def describe_details(table: HudiTable, entry: MetastoreTable) -> list[tuple[str, str]]:
    """The properties of a Hudi table, as name and text: comment, location, type, keys, latest commit."""
    properties = table.properties
    latest = table.timeline.latest_commit
    details: list[tuple[str, object]] = [
        ("Catalog", "spark_catalog"),
        ("Database", entry.database),
        ("Table", entry.name),
        ("Owner", entry.owner),
        ("Type", "EXTERNAL" if entry.is_external else "MANAGED"),
        ("Provider", "hudi"),
        ("Comment", entry.parameters.get("comment")),
        ("Location", table.base_path),
        ("Table Type", properties.table_type),
        ("Table Version", properties.version),
        ("Record Key", ",".join(properties.record_key_fields) or "(generated)"),
        ("Precombine Field", properties.precombine_field),
        ("Bootstrap Source", properties.bootstrap_base_path),
        ("Latest Commit", None if latest is None else f"{latest.timestamp} ({latest.action})"),
    ]
    return [(name, str(value)) for name, value in details if value not in (None, "")]


def show_create_table(context: Context, entry: MetastoreTable) -> LocalResult:
    """The CREATE TABLE of the table, for hudisql and engines with Hudi's own DDL.

    As in Spark, that of a managed table has no LOCATION.
    """
    table = open_hudi_entry(context, entry)
    lines = [
        f"  {_quoted(field.name)} {declared_type_name(table, field)}{_comment_clause(comment_of(field))}"
        for field in table.schema
    ]
    options = creation_properties(table, entry)
    name = f"{_quoted(entry.database)}.{_quoted(entry.name)}"
    text = f"CREATE TABLE {name} (\n" + ",\n".join(lines) + ")\nUSING hudi\n"
    if table.properties.partition_fields:
        text += f"PARTITIONED BY ({', '.join(map(_quoted, table.properties.partition_fields))})\n"
    if entry.is_external:
        text += f"LOCATION {quote_string(table.base_path)}\n"
    if comment := entry.parameters.get("comment"):
        text += f"COMMENT {quote_string(comment)}\n"
    text += "TBLPROPERTIES (\n"
    text += (
        ",\n".join(f"  {quote_string(key)} = {quote_string(value)}" for key, value in options.items()) + ")\n"
    )
    return LocalResult(lambda: context.spark, (("createtab_stmt", "string"),), [(text,)])


def show_properties(
    context: Context, entry: MetastoreTable, statement: ShowPropertiesStatement
) -> LocalResult:
    """Properties as CREATE TABLE accepts them, or only the requested one."""
    options = creation_properties(open_hudi_entry(context, entry), entry)
    if statement.key is not None:
        none = f"Table {entry.full_name} does not have property: {statement.key}"
        options = {statement.key: options.get(statement.key, none)}
    return LocalResult(
        lambda: context.spark, (("key", "string"), ("value", "string")), sorted(options.items())
    )


def creation_properties(table: HudiTable, entry: MetastoreTable) -> dict[str, str]:
    """The properties by which CREATE TABLE makes such a table: its own, and those a user has set."""
    options = _own_options(table)
    known = {name.lower() for names in KNOWN_PROPERTIES for name in names} | set(options)
    if generates_paths(table):
        known.discard(PARTITION_SPEC)
    return options | {
        key: value for key, value in user_properties(entry.parameters).items() if key.lower() not in known
    }


def _own_options(table: HudiTable) -> dict[str, str]:
    """The table's own properties by their names in CREATE TABLE; no defaults but the type."""
    properties = table.properties
    options = {"type": "mor" if table.is_merge_on_read else "cow"}
    if properties.record_key_fields:
        options["primaryKey"] = ",".join(properties.record_key_fields)
    if properties.precombine_field:
        options["preCombineField"] = properties.precombine_field
    payload = properties.payload_class or properties.get(LEGACY_PAYLOAD_CLASS)
    # In version 9 a missing payload class means another rule than this one.
    if payload is not None and (payload != DEFAULT_PAYLOAD or table.version > WRITTEN_VERSION):
        options["payloadClass"] = payload
    if table.version > WRITTEN_VERSION:
        options[WRITE_VERSION] = str(table.version)
    if properties.drop_partition_columns:
        options[DROP_PARTITION_COLUMNS] = "true"
    if properties.partition_fields and not properties.hive_style_partitioning:
        options[HIVE_STYLE_PARTITIONING] = "false"
    if properties.partition_fields and properties.url_encode_partitioning == generates_paths(table):
        options[URL_ENCODE_PARTITIONING] = str(properties.url_encode_partitioning).lower()
    if generates_paths(table) and properties.key_generator_class:
        options[KEY_GENERATOR_CLASS] = properties.key_generator_class
        options |= kept_generator_settings(properties.values)
    return options


def _comment_clause(comment: str | None) -> str:
    return f" COMMENT {quote_string(comment)}" if comment else ""


def _describe_column(
    context: Context,
    entry: MetastoreTable,
    name: str,
    columns: Sequence[tuple[str, str, str | None]],
) -> LocalResult:
    found = next((column for column in columns if column[0].lower() == name.lower()), None)
    if found is None:
        raise UnknownColumnError(
            f"{entry.full_name} has no column '{name}'",
            hint=f"its columns are {', '.join(column[0] for column in columns)}",
        )
    rows = [("col_name", found[0]), ("data_type", found[1]), ("comment", found[2] or "NULL")]
    return LocalResult(lambda: context.spark, (("info_name", "string"), ("info_value", "string")), rows)


def _partition_name(table: HudiTable, values: Sequence[object]) -> str:
    """The name in the metastore of the partition with these `directory_values`."""
    columns = directory_columns(table)
    texts = [
        render_partition_value(value, column.type) for value, column in zip(values, columns, strict=True)
    ]
    return partition_path([column.name for column in columns], texts, hive_style=True, url_encode=True)


def _quoted(name: str) -> str:
    return name if name.isidentifier() else quote_name(name)
