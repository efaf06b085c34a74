"""`hudisql ingest drain` and `resume`: stops workers from writing to tables, with all read events committed.

A drained table has a mark in its declaration. Workers that see the mark commit the events in memory, leave
the table, and report that to their group; a table without a worker has no events in memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hudisql.errors import InvalidArgumentError
from hudisql.service_process.ingest.declaration_changes import change_declaration
from hudisql.service_process.ingest.ingest_status import chosen_tables, find_workers

if TYPE_CHECKING:
    from hudisql.context import Context

_LOOK_SECONDS: Final = 0.5


def drain_tables(
    context: Context,
    stop: threading.Event,
    *,
    tables: Sequence[str] = (),
    group: str = "default",
    coordinator: str | None = None,
    timeout: float = 300.0,
) -> list[str]:
    """Drain the declared tables, or the named ones; returns those that a worker may still write to.

    It waits up to `timeout` seconds, or until `stop` is set. Raises InvalidArgumentError, MetastoreError,
    NoSuchTableError, KafkaError.
    """
    if timeout < 0:
        raise InvalidArgumentError("timeout must be 0 or more")
    chosen = chosen_tables(context, tables)
    if not chosen:
        return []
    # Before any table is marked: nothing is drained if the group cannot be asked.
    find_workers(context, chosen, group, coordinator)
    for declared_table in chosen:
        if not declared_table.declaration.drained:
            change_declaration(context, declared_table.name, drained=True)
    deadline, left = time.monotonic() + timeout, chosen
    while True:
        state = find_workers(context, left, group, coordinator)
        for drained in [declared_table for declared_table in left if state.is_left(declared_table)]:
            context.console.info(f"{drained.name}: drained")
            left = [other for other in left if other is not drained]
        if not left or time.monotonic() >= deadline or stop.wait(_LOOK_SECONDS):
            return [declared_table.name for declared_table in left]


def resume_tables(context: Context, tables: Sequence[str] = ()) -> list[str]:
    """Resume the drained tables, or the named ones; returns their names.

    A table that `pause_ingest` has paused stays paused. Raises InvalidArgumentError, MetastoreError,
    NoSuchTableError.
    """
    drained = [table.name for table in chosen_tables(context, tables) if table.declaration.drained]
    for name in drained:
        change_declaration(context, name, drained=False)
    return drained
