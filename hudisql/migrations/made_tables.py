"""Recovers a CREATE TABLE AS SELECT whose run was killed.

The checkpoint has the table's path, written after the statement found nothing there, before it created
anything. A commit with the statement's mark says that the rows are complete, and only the metastore sync is
missing; without one, the files are an unfinished attempt of the statement, which runs again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudisql.errors import MigrationConflictError, NoSuchTableError
from hudisql.migrations.recovery import FoundCommit, marked_commit
from hudisql.options.table_call import open_session_table
from hudisql.sql.ddl.create_table import drop_incomplete_table, register_table_as
from hudisql.sql.text import statements as st
from hudisql.write.transaction.commit import roll_back_failed_writes

if TYPE_CHECKING:
    from hudisql.context import Context


def settle_made_table(
    context: Context, statement: st.CreateTableAsStatement, path: str, mark: str, checksum: str
) -> FoundCommit | None:
    """Register the table at `path` and return the commit that filled it; None if the table is removed.

    `mark` and `checksum` are those of the statement. Files without a commit are removed. Raises
    MigrationConflictError if others have committed to the table, StorageError, SyncFailedError.
    """
    try:
        table = open_session_table(context, path)
    except NoSuchTableError:
        return None
    found = marked_commit(table, mark)
    if found is not None and found.checksum == checksum:
        register_table_as(context, statement, table)
        return found
    if found is not None or table.timeline.commits:
        raise MigrationConflictError(
            f"CREATE TABLE {statement.table} was interrupted, and the table at {path} has a commit that is "
            "not the statement's",
            hint="look at the table; then hudisql migrate repair DIR --done (it has happened), or remove it "
            "and run this again",
        )
    roll_back_failed_writes(table)
    drop_incomplete_table(context, table)
    return None
