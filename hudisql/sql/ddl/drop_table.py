"""DROP TABLE of a Hudi table and DROP DATABASE: the entries, of managed tables or with PURGE their own files.

A managed table is one that was created without LOCATION (MANAGED_TABLE in the metastore), or has the property
`external.table.purge`, which Hive 3 and later follow. DROP TABLE is planned first, so that DROP DATABASE …
CASCADE refuses before it drops anything.

Hudi's DropHoodieTableCommand drops the names `_ro` and `_rt` only with PURGE. Here CREATE TABLE creates them,
so DROP TABLE always drops them. A bootstrap's source files are never removed:
`bootstrap.rollback.table_removal` says which files a table has made.

DROP DATABASE keeps the database's directory, which the metastore itself would delete: it may contain files of
external tables, or files that bootstrapped tables read. Each Hudi table is dropped as by DROP TABLE, each
other one by Spark; then the database's entry is removed, and the directory only if it is empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.bootstrap.lease.protected_sources import refuse_touching_sources
from hudisql.bootstrap.lease.target_state import TargetState, read_target_state
from hudisql.bootstrap.rollback.table_removal import (
    TableRemovalPlan,
    check_source_is_outside,
    names_of_interrupted_removal,
    names_of_table,
    plan_removal,
    run_removal,
)
from hudisql.bootstrap.rollback.table_sources import read_table_sources
from hudisql.catalog.metastore_table import (
    MetastoreTable,
    hudi_base_path,
    iceberg_base_path,
    is_hudi_table,
    loses_files_when_dropped,
    main_entries,
)
from hudisql.errors import (
    CorruptTableError,
    NoSuchDatabaseError,
    NoSuchTableError,
    RollbackRefusedError,
    UnsupportedStatementError,
)
from hudisql.options.table_call import open_session_table
from hudisql.spark.jvm import spark_sql
from hudisql.sql.query.path_guard import directories_of
from hudisql.sql.query.target_table import check_is_main_name, entries_of_table, find_entry, iceberg_entry_of
from hudisql.sql.text.statements import DropDatabaseStatement, TableName

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True)
class TableDropPlan:
    """What DROP TABLE removes: `entries` alone, or what `removal` lists, entries included."""

    entries: tuple[MetastoreTable, ...]
    removal: TableRemovalPlan | None = None


def plan_drop(context: Context, entry: MetastoreTable, *, purge: bool = False) -> TableDropPlan:
    """Plan DROP TABLE of the Hudi table, or the rest of one that was killed; nothing is changed.

    With `purge` an external table's own files go, too. Raises UnsupportedStatementError for one of a
    merge-on-read table's further names, NoSuchTableError for PURGE where no table is, RollbackRefusedError if
    a bootstrap's source lies in the table's directory, or files that a managed table has not made,
    SourceProtectedError for source files of another table, CorruptTableError, StorageError.
    """
    is_managed = loses_files_when_dropped(entry)
    if not (is_managed or purge):
        return TableDropPlan(_registered_entries(context, entry))
    verb = "DROP TABLE … PURGE" if purge else "DROP TABLE"
    check_is_main_name(context, entry, verb)
    location = hudi_base_path(entry)
    if location is None:
        raise CorruptTableError(f"the metastore knows no location of the Hudi table {entry.full_name}")
    base_path = context.storage.qualify(location)
    refuse_touching_sources(context, [base_path], f"{verb} would delete files", except_of=base_path)
    state = read_target_state(context.storage, base_path)
    if state in (TargetState.NOTHING, TargetState.RUN):
        if not is_managed:
            raise NoSuchTableError(
                f"there is no Hudi table at {base_path}", hint="DROP TABLE without PURGE removes the entry"
            )
        _refuse_files(entry, base_path, _some_file(context, base_path))
        return TableDropPlan(_registered_entries(context, entry))
    removal = plan_removal(context, base_path, state, _names_to_drop(context, entry, base_path, state))
    # An interrupted removal is completed, even if files were added to the directory since.
    if is_managed and state is TargetState.TABLE:
        _refuse_files(entry, base_path, next(iter(removal.kept_files), None))
    return TableDropPlan((), removal)


def _registered_entries(context: Context, entry: MetastoreTable) -> tuple[MetastoreTable, ...]:
    iceberg_entry = iceberg_entry_of(context, entry)
    return (*entries_of_table(context, entry), *([] if iceberg_entry is None else [iceberg_entry]))


def drop_iceberg_entry(context: Context, name: TableName) -> bool:
    """Drop the entry of a Hudi table's Iceberg table, and no file; False if the name is another table's.

    Raises MetastoreError.
    """
    entry = find_entry(context, name)
    if entry is None or iceberg_base_path(entry) is None:
        return False
    run_drop(context, TableDropPlan((entry,)))
    return True


def run_drop(context: Context, plan: TableDropPlan) -> None:
    """Remove what the plan lists; after a kill, planning and running again completes it.

    Raises StorageError, MetastoreError.
    """
    # The named entry goes last: a killed DROP is completed by running it again.
    for entry in reversed(plan.entries):
        context.metastore.drop_table(entry.database, entry.name)
        files = "there are no files" if loses_files_when_dropped(entry) else "the files stay"
        context.console.info(
            f"{entry.full_name}: the metastore entry is dropped, {files} in {entry.location}"
        )
    removal = plan.removal
    if removal is None:
        return
    run_removal(context, removal)
    kept = removal.kept_files
    names = ", ".join(f"{database}.{name}" for database, name in removal.entries)
    context.console.info(
        f"{names}: the table at {removal.base_path} is removed"
        + (f"; {len(kept)} files that no Hudi table makes stay, such as {kept[0]}" if kept else "")
    )


def _names_to_drop(
    context: Context, entry: MetastoreTable, base_path: str, state: TargetState
) -> set[tuple[str, str]]:
    """The `(database, name)` by which the metastore may know the table."""
    names = {(entry.database, entry.name)}
    if state is TargetState.ROLLBACK:
        return names | names_of_interrupted_removal(context.storage, base_path)
    table = open_session_table(context, base_path)
    if table.is_bootstrapped:
        check_source_is_outside(table, read_table_sources(table))
    return names | names_of_table(table)


def _some_file(context: Context, directory: str) -> str | None:
    """A file in the directory; None if there is none, or no directory."""
    if not context.storage.exists(directory):
        return None
    return next((file.path for file in context.storage.list_files(directory)), None)


def _refuse_files(entry: MetastoreTable, base_path: str, path: str | None) -> None:
    """Raise RollbackRefusedError if there is a file, at `path`, that the managed table has not written."""
    if path is not None:
        raise RollbackRefusedError(
            f"DROP TABLE {entry.full_name} would delete the directory of the managed table, {base_path}, "
            f"which holds files that the table has not made, such as {path}; nothing was removed",
            hint="move them elsewhere; or keep all files: ALTER TABLE "
            f"{entry.full_name} SET TBLPROPERTIES ('EXTERNAL' = 'TRUE', 'external.table.purge' = 'false'), "
            "and then DROP TABLE, which removes the entry alone, or DROP TABLE … PURGE, which removes the "
            "table's own files",
        )


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
        if is_hudi_table(entry) or iceberg_base_path(entry) is not None:
            run_drop(context, TableDropPlan((entry,)))
        else:
            kind = "VIEW" if entry.is_view else "TABLE"
            spark_sql(context.spark, f"DROP {kind} IF EXISTS `{name}`.`{entry.name}`")
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
