"""CREATE TABLE … LIKE: the definition of a new Hudi table that is made like another table or view.

Follows `CreateHoodieTableLikeCommand` of Hudi 0.15. It makes no table: `create_table.py` does that.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import NoSuchTableError, UnsupportedStatementError
from hudisql.format.schema.meta_columns import is_meta_column
from hudisql.format.schema.spark_schema import quote_name
from hudisql.format.table_properties import WRITE_VERSION
from hudisql.spark.jvm import pairs_of
from hudisql.spark.versions import storage_of_table_like
from hudisql.sql.ddl.table_options import KNOWN_PROPERTIES, PROVIDERS
from hudisql.sql.ddl.table_statements import creation_properties
from hudisql.sql.query import query_plan as query
from hudisql.sql.query.references import parse_plan
from hudisql.sql.query.target_table import (
    find_entry,
    find_hudi_entry,
    is_temporary_view,
    open_hudi_entry,
)
from hudisql.sql.schema.table_definition import TableDefinition, definition_of_columns
from hudisql.sql.text import statements as st
from hudisql.sql.text.spark_errors import SourceText
from hudisql.table.properties.version_properties import NEW_TABLE_VERSIONS

if TYPE_CHECKING:
    from hudisql.context import Context

_OWN_NAMES = frozenset(name for names in KNOWN_PROPERTIES for name in names)


def makes_hudi_table(context: Context, statement: st.CreateTableStatement) -> bool:
    """True if the new table is a Hudi table: by USING, or by the table it is made like without USING."""
    if statement.provider or statement.like is None:
        return statement.provider in PROVIDERS
    return find_hudi_entry(context, statement.like) is not None and not _has_storage_clause(statement)


def read_definition_like(context: Context, statement: st.CreateTableStatement) -> TableDefinition:
    """The definition of the table that a `CREATE TABLE … LIKE` makes.

    Columns and partition columns are the source's. Of a Hudi table its own properties and those that start
    with `hoodie.` are taken over; properties of the statement win.

    Raises NoSuchTableError without the source, UnsupportedStatementError for STORED AS and ROW FORMAT,
    UnsupportedTableError for types that a Hudi table can't hold.
    """
    plan = parse_plan(context.spark, statement.text)
    storage = storage_of_table_like(plan)
    if storage.has_format:
        raise UnsupportedStatementError(
            "CREATE TABLE LIKE … USING hudi with STORED AS or ROW FORMAT is not supported: nothing was run",
            hint="leave the clause out: Hudi tables are parquet files",
        )
    given = {str(name): str(value) for name, value in pairs_of(plan.properties())}
    assert statement.like is not None
    hudi_entry = find_hudi_entry(context, statement.like)
    if hudi_entry is not None:
        return _like_hudi_table(context, hudi_entry, given, storage.location)
    return _like_relation(context, statement.like, given, storage.location)


def _has_storage_clause(statement: st.CreateTableStatement) -> bool:
    words = [token.name.upper() for token in statement.tokens]
    return any(pair in (("STORED", "AS"), ("ROW", "FORMAT")) for pair in pairwise(words))


def _like_hudi_table(
    context: Context, entry: MetastoreTable, given: Mapping[str, str], location: str | None
) -> TableDefinition:
    table = open_hudi_entry(context, entry)
    partitions = table.properties.partition_fields
    data = [field for field in table.schema if field.name not in partitions]
    columns = pa.schema([*data, *(table.schema.field(name) for name in partitions)])
    properties = {**_inherited(creation_properties(table, entry), given), **given}
    lengths = table.properties.column_lengths
    return TableDefinition(columns, partitions, properties, location, lengths=lengths)


def _inherited(source: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The source's properties of Hudi that the statement sets by none of their names."""
    lower = {name.lower() for name in given}
    replaced = {name for names in KNOWN_PROPERTIES if lower & set(names) for name in names} | lower
    return {
        name: value
        for name, value in source.items()
        if (name.lower() in _OWN_NAMES or name.startswith("hoodie."))
        and name.lower() not in replaced
        and (name != WRITE_VERSION or int(value) in NEW_TABLE_VERSIONS)
    }


def _like_relation(
    context: Context, name: st.TableName, given: Mapping[str, str], location: str | None
) -> TableDefinition:
    """The definition with the columns of a table or view that is not a Hudi table."""
    entry = find_entry(context, name)
    if entry is None and not (len(name.parts) == 1 and is_temporary_view(context, name.parts[0])):
        raise NoSuchTableError(f"there is no table {name} to make one like", hint="SHOW TABLES lists them")
    select = st.Statement(f"SELECT * FROM {'.'.join(quote_name(part) for part in name.parts)}")
    prepared = query.prepare_query(context, select, SourceText(select.text))
    frame = query.run_prepared(context, prepared, SourceText(select.text))
    rows = frame.drop(*(column for column in frame.columns if is_meta_column(column))).schema
    partitions = [] if entry is None else [column.name for column in entry.partition_columns]
    return definition_of_columns(rows, partitions, given, location)
