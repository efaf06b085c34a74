"""`hudisql ingest drain` and `resume`: stops workers from writing to tables, with all read events committed.

A drained table has a mark in its declaration. Workers that see the mark commit the events in memory, leave
the table, and report that to their group; a table without a worker has no events in memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from hudisql.errors import InvalidArgumentError
from hudisql.service_process.ingest.declaration_changes import change_declaration
from hudisql.service_process.ingest.ingest_status import chosen_tables
from hudisql.service_process.ingest.workers_state import find_workers

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
    clock: Callable[[], float] = time.monotonic,
) -> list[str]:
    """Drain the declared tables, or those named; gives those that a worker may still write to.

    It waits up to `timeout` seconds, or until `stop` is set. Raises InvalidArgumentError, MetastoreError,
    NoSuchTableError, KafkaError.
    """
    if timeout < 0:
        raise InvalidArgumentError("timeout must be 0 or more")
    chosen = chosen_tables(context, tables)
    if not chosen:
        return []
    # Before a table is marked: a group that cannot be asked drains nothing.
    find_workers(context, chosen, group, coordinator)
    for each in chosen:
        if not each.declaration.drained:
            change_declaration(context, each.name, drained=True)
    deadline, left = clock() + timeout, chosen
    while True:
        state = find_workers(context, left, group, coordinator)
        for each in [each for each in left if state.is_left(each)]:
            context.console.info(f"{each.name}: drained")
            left = [other for other in left if other is not each]
        if not left or clock() >= deadline or stop.wait(_LOOK_SECONDS):
            return [each.name for each in left]


def resume_tables(context: Context, tables: Sequence[str] = ()) -> list[str]:
    """Let workers go on with the drained tables, or with those named; gives their names.

    A table that `pause_ingest` has paused stays paused. Raises InvalidArgumentError, MetastoreError,
    NoSuchTableError.
    """
    drained = [each.name for each in chosen_tables(context, tables) if each.declaration.drained]
    for name in drained:
        change_declaration(context, name, drained=False)
    return drained
