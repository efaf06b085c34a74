"""The Hudi table of a procedure: a name in the metastore or a path, as Hudi's procedures take them.

Every procedure with `table` and `path` parameters finds its table here. Reads only the metastore entry and
what opening a table reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.catalog.metastore_table import hudi_base_path
from hudisql.errors import InvalidArgumentError, NoSuchTableError
from hudisql.procedures.registry import Arguments, parameter
from hudisql.table.hudi_table import HudiTable, open_table

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True, kw_only=True)
class TableArguments(Arguments):
    """The first two parameters of Hudi's `show_…` procedures."""

    table: str | None = parameter(None, help="table of the metastore, database.name")
    path: str | None = parameter(None, help="the table's directory, instead of table")


def find_table(context: Context, table: str | None, path: str | None = None) -> HudiTable:
    """Open the Hudi table of that name, or at that path if no name is given.

    Raises InvalidArgumentError if neither is given, NoSuchTableError if there is no such Hudi table.
    """
    if table is None:
        if path is None:
            raise InvalidArgumentError(
                "give table or path", hint="table => 'db.name' or path => '/directory'"
            )
        return open_table(context.storage, context.storage.qualify(path))
    database, name = context.qualify_table_name(table)
    entry = context.metastore.get_table(database, name)
    if entry is None:
        raise NoSuchTableError(
            f"the metastore has no table {database}.{name}", hint="check the name, or give path"
        )
    base_path = hudi_base_path(entry)
    if base_path is None:
        raise NoSuchTableError(f"{database}.{name} is not a Hudi table")
    return open_table(context.storage, context.storage.qualify(base_path))
