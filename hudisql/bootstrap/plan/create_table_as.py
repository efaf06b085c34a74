"""The CREATE TABLE … USING hudi AS SELECT that makes the table of a bootstrap's request, for its errors.

Takes keys, type, partition columns, filter, location and `hoodie.*` settings from the call. Values only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hudisql.bootstrap.plan.request import BootstrapRequest
from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.catalog.sync_entries import OMIT_META_COLUMNS_OPTION
from hudisql.catalog.sync_settings import SYNC_PREFIX
from hudisql.format import table_properties as keys
from hudisql.format.schema.spark_schema import quote_name
from hudisql.sql_literals import quote_string
from hudisql.table.hudi_table import WRITTEN_VERSION

_SHORT_TYPES: Final = {keys.COPY_ON_WRITE: "cow", keys.MERGE_ON_READ: "mor"}
_OF_A_BOOTSTRAP: Final = ("hoodie.bootstrap.", "hoodie.meta.sync.", SYNC_PREFIX)


def create_table_as(request: BootstrapRequest, source: MetastoreTable) -> str:
    """The statement, on one line and without its end."""
    parts = [f"CREATE TABLE {request.full_name} USING hudi"]
    if source.partition_columns:
        parts.append(
            f"PARTITIONED BY ({', '.join(_name(column.name) for column in source.partition_columns)})"
        )
    if request.target_path is not None:
        parts.append(f"LOCATION {quote_string(request.target_path)}")
    properties = ", ".join(f"{name} = {quote_string(value)}" for name, value in _properties(request))
    parts += [
        f"TBLPROPERTIES ({properties})",
        f"AS SELECT * FROM {_name(source.database)}.{_name(source.name)}",
    ]
    if request.partition_filter is not None:
        parts.append(f"WHERE {request.partition_filter}")
    return " ".join(parts)


def _properties(request: BootstrapRequest) -> Iterator[tuple[str, str]]:
    yield "type", _SHORT_TYPES[request.table_type]
    if request.record_key:
        yield "primaryKey", ",".join(request.record_key)
    if request.precombine is not None:
        yield "preCombineField", request.precombine
    if request.table_version != WRITTEN_VERSION:
        yield quote_string(keys.WRITE_VERSION), str(request.table_version)
    for name, value in request.options.items():
        if name == OMIT_META_COLUMNS_OPTION or not name.startswith(_OF_A_BOOTSTRAP):
            yield quote_string(name), value


def _name(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else quote_name(name)
