"""The table that a CREATE TABLE AS SELECT was making when its run was killed.

The checkpoint has the table's path, written after the statement found nothing there, before it made anything.
A commit with the statement's mark says that the rows are there, and only the metastore lags; without one,
what is there are the beginnings of the statement, which runs again.
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
    """The commit that filled the table at `path`, which is then registered; None if there is none any more.

    `mark` and `checksum` are those of the statement. What it has left without a commit is removed. Raises
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
