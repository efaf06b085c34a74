"""`show_ingest`: the declared tables, who writes to them, and how far they are behind their topics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.procedures.registry import Arguments, parameter, procedure
from hudisql.service_process.ingest.ingest_rows import IngestRow, ingest_rows

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True, kw_only=True)
class ShowIngestArguments(Arguments):
    """The parameters of `show_ingest`."""

    table: str | None = parameter(None, help="table of the metastore, database.name; without it all tables")


@procedure("Shows the tables that `hudisql ingest worker` writes to, and their lag.")
def show_ingest(context: Context, arguments: ShowIngestArguments) -> Iterable[IngestRow]:
    """One row for each declared table. Raises MetastoreError, NoSuchTableError."""
    from hudisql.options.table_call import find_entry
    from hudisql.service_process.ingest.declared_table import declared_tables
    from hudisql.service_process.tables.run_services import storage_without_spark

    tables = declared_tables(context, storage_without_spark(context))
    if arguments.table is not None:
        name = find_entry(context, arguments.table).full_name
        tables = [table for table in tables if table.name == name]
    return ingest_rows(tables)
