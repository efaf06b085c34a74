"""The compaction of one table in this process, without Spark: slice after slice, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hudisql.format.timeline.instant import COMPACTION, InstantState
from hudisql.ingest.declaration import declaration_of
from hudisql.options.table_call import find_entry, open_registered
from hudisql.service_process.ingest.declared_table import ingest_options
from hudisql.service_process.tables.run_services import storage_without_spark
from hudisql.services.compaction.compaction_action import (
    compaction_options,
    run_compaction,
    schedule_compaction,
)

if TYPE_CHECKING:
    from hudisql.context import Context


def compact_if_due(context: Context, name: str) -> str | None:
    """Run the pending compactions of a table, then the one that is due; gives a line on the last one.

    It skips a table that was paused or drained since, or has no declaration any more.
    A compaction that has begun may be running elsewhere, and is skipped. Raises SyncFailedError.
    """
    entry = find_entry(context, name)
    declaration = declaration_of(entry.parameters)
    if declaration is None or declaration.is_paused:
        return None
    call = open_registered(context, entry, storage_without_spark(context))
    table, options = call.table, ingest_options(call, call.write_options())
    if not table.is_merge_on_read:
        return None
    times = [
        instant.timestamp
        for instant in table.timeline.pending
        if instant.action == COMPACTION and instant.state is InstantState.REQUESTED
    ]
    done = [run_compaction(None, table.reopened(), time, options) for time in times]
    scheduled = schedule_compaction(table.reopened(), compaction_options(call.config), options.concurrency)
    if scheduled is not None:
        done.append(run_compaction(None, table.reopened(), scheduled.timestamp, options))
    if not done:
        return None
    call.sync()
    slices, size = (
        sum(compaction_result.operations for compaction_result in done),
        sum(compaction_result.bytes for compaction_result in done),
    )
    return f"compaction {done[-1].instant_time}: {slices:,} file slices, {size:,} bytes"
