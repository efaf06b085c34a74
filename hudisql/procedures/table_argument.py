"""The Hudi table of a procedure: a name in the metastore or a path, as Hudi's procedures take them.

Every procedure with `table` and `path` parameters finds its table here. Reads only the metastore entry and
what opening a table reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hudisql.catalog.metastore_table import MetastoreTable, hudi_base_path, is_hudi_table
from hudisql.errors import CorruptTableError, InvalidArgumentError, NoSuchTableError
from hudisql.procedures.registry import Arguments, parameter

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.table.hudi_table import HudiTable


class NamesTable(Protocol):
    """Arguments that name a table of the metastore, or else a table's directory."""

    @property
    def table(self) -> str | None:
        """The table's name in the metastore."""

    @property
    def path(self) -> str | None:
        """The table's directory."""


@dataclass(frozen=True, kw_only=True)
class TableArguments(Arguments):
    """The first two parameters of Hudi's `show_…` procedures."""

    table: str | None = parameter(None, help="table of the metastore, database.name")
    path: str | None = parameter(None, help="the table's directory, instead of table")


def find_table(context: Context, table: str | None, path: str | None = None) -> HudiTable:
    """Open the Hudi table of that name, or at that path if no name is given.

    Raises InvalidArgumentError if neither is given, NoSuchTableError if there is no such Hudi table.
    """
    from hudisql.table.hudi_table import open_table

    entry = None if table is None else find_entry(context, table)
    return open_table(context.storage, base_path_of(context, entry, path))


def find_entry(context: Context, table: str) -> MetastoreTable:
    """The metastore entry of the Hudi table of that name.

    Raises NoSuchTableError if there is no such entry, or it is none of a Hudi table.
    """
    database, name = context.qualify_table_name(table)
    entry = context.metastore.get_table(database, name)
    if entry is None:
        raise NoSuchTableError(
            f"the metastore has no table {database}.{name}",
            hint="check the name; a procedure with a path parameter takes a table that is not registered",
        )
    if not is_hudi_table(entry):
        raise NoSuchTableError(f"{database}.{name} is not a Hudi table")
    return entry


def base_path_of(context: Context, entry: MetastoreTable | None, path: str | None) -> str:
    """The qualified base path of the entry's table, or else `path`.

    Raises InvalidArgumentError if neither is given, CorruptTableError for an entry without a location.
    """
    if entry is None:
        if path is None:
            raise InvalidArgumentError(
                "give table or path", hint="table => 'db.name' or path => '/directory'"
            )
        return context.storage.qualify(path)
    return context.storage.qualify(location_of(entry))


def location_of(entry: MetastoreTable) -> str:
    """The location of the entry's table, not qualified. Raises CorruptTableError if the entry has none."""
    location = hudi_base_path(entry)
    if location is None:
        raise CorruptTableError(f"the metastore knows no location of the Hudi table {entry.full_name}")
    return location
