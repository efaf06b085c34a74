"""What DROP TABLE … PURGE removes: the files and metastore entries of any Hudi table, bootstrapped or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudisql.bootstrap.rollback.table_removal import (
    TableRemovalPlan,
    check_source_is_outside,
    names_of_interrupted_removal,
    names_of_table,
    plan_removal,
)
from hudisql.bootstrap.rollback.table_sources import read_table_sources
from hudisql.bootstrap.target.protected_sources import refuse_touching_sources
from hudisql.bootstrap.target.target_state import TargetState, read_target_state
from hudisql.errors import NoSuchTableError
from hudisql.table.hudi_table import open_table

if TYPE_CHECKING:
    from hudisql.context import Context


def plan_purge(context: Context, base_path: str, name: tuple[str, str]) -> TableRemovalPlan:
    """Plan DROP TABLE … PURGE of `name` (database, table), or the rest of a removal that was killed.

    Raises NoSuchTableError if no table is there, RollbackRefusedError if a bootstrap's source files lie
    inside, SourceProtectedError for those of another table, CorruptTableError, StorageError.
    """
    storage = context.storage
    state = read_target_state(storage, base_path)
    names = {name}
    refuse_touching_sources(
        context, [base_path], "DROP TABLE … PURGE would delete files", except_of=base_path
    )
    if state is TargetState.TABLE:
        table = open_table(storage, base_path)
        if table.is_bootstrapped:
            check_source_is_outside(table, read_table_sources(table))
        names |= names_of_table(table)
    elif state is TargetState.ROLLBACK:
        names |= names_of_interrupted_removal(storage, base_path)
    else:
        raise NoSuchTableError(
            f"there is no Hudi table at {base_path}", hint="DROP TABLE without PURGE removes the entry"
        )
    return plan_removal(context, base_path, state, names)
