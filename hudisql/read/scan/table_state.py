"""The state of a table that is read: the latest, that of an instant, or the changes of a window.

The schema is that of the state, as Hudi 0.15 takes it (`HoodieBaseRelation.tableAvroSchema`).
"""

from __future__ import annotations

from dataclasses import dataclass

from hudisql.read.scan.incremental import IncrementalRead, incremental_read
from hudisql.table.history.past_schema import at_past_schema
from hudisql.table.history.past_state import check_timeline_reaches
from hudisql.table.history.timeline_window import TimelineWindow
from hudisql.table.hudi_table import HudiTable


@dataclass(frozen=True)
class TableState:
    """The state of a table that a reference reads; `table` has the schema of that state.

    `as_of` is None for the latest state; with `changes` only the rows of a window are read.
    """

    table: HudiTable
    as_of: str | None = None
    changes: IncrementalRead | None = None


def state_as_of(table: HudiTable, as_of: str) -> TableState:
    """The state at an instant time. Raises NoSuchStateError if the timeline does not reach back to it."""
    check_timeline_reaches(table, as_of)
    return TableState(at_past_schema(table, as_of), as_of)


def changes_of_window(
    table: HudiTable, window: TimelineWindow, *, schema_of_end: bool = False, path_glob: str = ""
) -> TableState:
    """The rows that the window's commits wrote; with the latest schema, or that of the window's last commit.

    Raises UnsupportedTableError, CorruptTableError, StorageError.
    """
    read = incremental_read(table, window, path_glob)
    if schema_of_end and window.commits:
        table = at_past_schema(table, window.as_of)
    return TableState(table, window.as_of, read)
