"""The columns of tables and views for `GetColumns`.

Those of a Hudi table come from its timeline: the metastore may have other types (a TIMESTAMP as BIGINT) and
may lack the columns of the last commit. Those of other tables and of views are as Spark stored them there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from hudisql.catalog.metastore_table import MetastoreColumn, MetastoreTable, is_hudi_table
from hudisql.errors import HudisqlError
from hudisql.spark.jvm import session_state
from hudisql.storage.parallel_reads import read_many

if TYPE_CHECKING:
    from hudisql.context import Context

# Spark's `CharVarcharUtils`: CHAR and VARCHAR are strings whose declared type is in the metadata.
_OWN_TYPE: Final = "__CHAR_VARCHAR_TYPE_STRING"

Columns = tuple[MetastoreColumn, ...]


def columns_of_tables(context: Context, tables: Sequence[MetastoreTable]) -> list[Columns]:
    """The columns of each table, partition columns last.

    For a Hudi table that cannot be opened, the columns of its metastore entry.
    """
    if sum(is_hudi_table(table) for table in tables) < 2:
        return [_columns_of(context, table) for table in tables]
    return read_many(lambda table: _columns_of(context, table), tables)


def columns_of_view(spark: Any, name: str) -> Columns:
    """The columns of a temporary view as it was created, even if its tables are gone."""
    view = session_state(spark).catalog().getTempView(name)
    return _columns_of_schema(str(view.get().desc().schema().json())) if view.isDefined() else ()


def _columns_of(context: Context, table: MetastoreTable) -> Columns:
    if is_hudi_table(table):
        return _own_columns(context, table) or (*table.columns, *table.partition_columns)
    from hudisql.sql.query.views import stored_schema

    text = stored_schema(table.parameters)
    if not text:
        return (*table.columns, *table.partition_columns)
    return _columns_of_schema(text)


def _columns_of_schema(text: str) -> Columns:
    """The columns of a Spark schema, given as JSON."""
    from pyspark.sql.types import StructType

    return tuple(
        MetastoreColumn(field.name, _type_of(field), field.metadata.get("comment"))
        for field in StructType.fromJson(json.loads(text)).fields
    )


def _own_columns(context: Context, table: MetastoreTable) -> Columns:
    from hudisql.sql.ddl.table_statements import described_columns
    from hudisql.sql.query.target_table import open_hudi_entry

    try:
        columns = described_columns(open_hudi_entry(context, table), table)
    except HudisqlError:
        return ()
    return tuple(MetastoreColumn(name, type_name, comment) for name, type_name, comment in columns)


def _type_of(field: Any) -> str:
    return str(field.metadata.get(_OWN_TYPE) or field.dataType.simpleString())
