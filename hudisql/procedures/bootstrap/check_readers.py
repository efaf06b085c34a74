"""`CALL check_readers`: which readers read a table correctly, with which settings, and why not.

A procedure of hudisql; Hudi has none. `hudisql.compatibility` does the work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.errors import UnsupportedTableError
from hudisql.options.table_call import base_path_of, find_entry, open_session_table
from hudisql.procedures.registry import TableArguments, procedure

if TYPE_CHECKING:
    from hudisql.compatibility.reader_state import ReaderState
    from hudisql.context import Context


@dataclass(frozen=True, kw_only=True)
class CheckReadersRow:
    """A reader, for Hive with each name of the table; `reads` is right, wrong, fails, in part or unknown."""

    reader: str
    name: str | None
    reads: str
    settings: str | None
    why: str | None
    looked_at: str


@procedure("Says which readers read a table right, with which settings, and why not.")
def check_readers(context: Context, arguments: TableArguments) -> Iterable[CheckReadersRow]:
    """A row per reader. Raises NoSuchTableError, InvalidArgumentError, CorruptTableError, StorageError."""
    from hudisql.compatibility.reader_rules import answers

    state = _state(context, arguments)
    return [
        CheckReadersRow(
            reader=answer.reader,
            name=answer.name,
            reads=answer.reads.value,
            settings=answer.settings,
            why=answer.why,
            looked_at=state.looked_at,
        )
        for answer in answers(state)
    ]


def _state(context: Context, arguments: TableArguments) -> ReaderState:
    from hudisql.catalog.table_entries import main_name, registered_entries
    from hudisql.compatibility.reader_state import read_reader_state, state_of_properties
    from hudisql.format.table_properties import read_table_properties

    metastore, storage = context.metastore, context.storage
    entry = None if arguments.table is None else find_entry(context, arguments.table)
    path = base_path_of(context, entry, arguments.path)
    try:
        table = open_session_table(context, path)
    except UnsupportedTableError as error:
        entries = () if entry is None else (entry,)
        return state_of_properties(read_table_properties(storage, path), entries, error)
    if entry is None:
        return read_reader_state(table, ())
    name = main_name(metastore, table, entry.database, entry.name)
    return read_reader_state(table, registered_entries(metastore, table, entry.database, name) or (entry,))
