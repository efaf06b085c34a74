"""DROP TABLE of a Hudi table: its metastore entries, and with PURGE the table's own files.

Hudi's own (DropHoodieTableCommand) takes the names `_ro` and `_rt` along with PURGE only. Here CREATE TABLE
makes them, so DROP TABLE always does. A bootstrap's source files are never removed:
`bootstrap.rollback.table_removal` says which files a table has made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudisql.bootstrap.rollback.table_removal import run_removal
from hudisql.catalog.metastore_table import MetastoreTable, hudi_base_path
from hudisql.errors import CorruptTableError
from hudisql.result import LocalResult, Result
from hudisql.sql.ddl.purge_table import plan_purge
from hudisql.sql.query.target_table import check_is_main_name, entries_of_table

if TYPE_CHECKING:
    from hudisql.context import Context


def drop_entries(context: Context, entry: MetastoreTable) -> Result:
    """Remove the entry and the table's further names that build on it; the files stay.

    Raises MetastoreError.
    """
    # The named entry goes last: a DROP that was killed is ended by running it again.
    for each in reversed(entries_of_table(context, entry)):
        context.metastore.drop_table(each.database, each.name, delete_data=False)
        context.console.info(
            f"{each.full_name}: the metastore entry is dropped, the files stay in {each.location}"
        )
    return LocalResult(context.spark, (), ())


def purge_table(context: Context, entry: MetastoreTable) -> Result:
    """Remove the table's files and all its entries.

    Raises UnsupportedStatementError for one of a merge-on-read table's further names, RollbackRefusedError
    if a bootstrap's source lies in the table's directory, and what removing files raises.
    """
    location = hudi_base_path(entry)
    if location is None:
        raise CorruptTableError(f"the metastore knows no location of the Hudi table {entry.full_name}")
    base_path = context.storage.qualify(location)
    check_is_main_name(context, entry, "DROP TABLE … PURGE")
    plan = plan_purge(context, base_path, (entry.database, entry.name))
    run_removal(context, plan)
    kept = plan.kept_files
    names = ", ".join(f"{database}.{name}" for database, name in plan.entries)
    context.console.info(
        f"{names}: the table at {base_path} is removed"
        + (f"; {len(kept)} files that no Hudi table makes stay, such as {kept[0]}" if kept else "")
    )
    return LocalResult(context.spark, (), ())
