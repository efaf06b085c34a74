"""DROP DATABASE, which keeps the database's directory; the metastore itself would delete it with its files.

That directory may contain files of external tables, or files that bootstrapped tables read. So each Hudi
table is dropped as by DROP TABLE, each other one by Spark, which deletes a managed table's files; then the
database's entry is removed, and the directory only if it is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudisql.bootstrap.lease.protected_sources import refuse_touching_sources
from hudisql.catalog.metastore_table import is_hudi_table, loses_files_when_dropped, main_entries
from hudisql.errors import NoSuchDatabaseError, UnsupportedStatementError
from hudisql.sql.ddl.drop_table import TableDropPlan, plan_drop, run_drop
from hudisql.sql.query.path_guard import directories_of
from hudisql.sql.text.statements import DropDatabaseStatement

if TYPE_CHECKING:
    from hudisql.context import Context


def drop_database(context: Context, statement: DropDatabaseStatement) -> None:
    """Drop the database's entry, with CASCADE its tables first.

    Raises NoSuchDatabaseError if it is missing, UnsupportedStatementError if it has tables (without CASCADE)
    or is the database default, SourceProtectedError if files would be deleted that bootstrapped tables read:
    nothing was dropped then.
    """
    name = statement.database.lower()
    if name == "default":
        # The metastore says so too, but only after its tables are gone.
        raise UnsupportedStatementError("DROP DATABASE: the database default cannot be dropped")
    database = context.metastore.get_database(name)
    if database is None:
        if statement.if_exists:
            return
        raise NoSuchDatabaseError(f"there is no database '{statement.database}'")
    tables = context.metastore.list_tables(name)
    if tables and not statement.cascade:
        raise UnsupportedStatementError(
            f"DROP DATABASE: {name} is not empty, it has {_listed(tables)}",
            hint="drop them first, or all at once with CASCADE",
        )
    entries = [entry for table in tables if (entry := context.metastore.get_table(name, table)) is not None]
    managed = [entry for entry in entries if loses_files_when_dropped(entry)]
    others = (entry for entry in managed if not is_hudi_table(entry))
    directories = (directory for entry in others for directory in directories_of(context, entry))
    refuse_touching_sources(context, directories, f"DROP DATABASE {name} CASCADE would delete files")
    for plan in [plan_drop(context, entry) for entry in main_entries(managed, context.storage)]:
        run_drop(context, plan)
    remaining = set(context.metastore.list_tables(name))
    for entry in (entry for entry in entries if entry.name in remaining):
        if is_hudi_table(entry):
            run_drop(context, TableDropPlan((entry,)))
        else:
            kind = "VIEW" if entry.is_view else "TABLE"
            context.spark.sql(f"DROP {kind} IF EXISTS `{name}`.`{entry.name}`")
    if context.current_database.lower() == name:
        context.spark.catalog.setCurrentDatabase("default")
    context.metastore.drop_database(name)
    if database.location is not None:
        _remove_empty_directory(context, database.location)


def _remove_empty_directory(context: Context, location: str) -> None:
    directory = context.storage.qualify(location)
    if context.storage.exists(directory) and not context.storage.list_directory(directory):
        context.storage.delete_directory(directory)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
