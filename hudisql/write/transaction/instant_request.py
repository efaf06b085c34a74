"""A new instant at a time that no other writer has: the first step of every action.

Follows `HoodieActiveTimeline.createNewInstant` of Hudi 0.15.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Final

from hudisql.errors import PathExistsError, WriteConflictError
from hudisql.format.timeline.active_timeline import timeline_file_names
from hudisql.format.timeline.instant import WRITE_ACTIONS, Instant, InstantState, new_instant_time
from hudisql.table.hudi_table import HudiTable
from hudisql.table.properties.timeline_clock import now_on_timeline
from hudisql.table.properties.written_versions import check_written
from hudisql.write.transaction.concurrency import SINGLE_WRITER, Concurrency
from hudisql.write.transaction.heartbeat import Heartbeat, heartbeat_path, start_heartbeat, stop_heartbeat

_ATTEMPTS: Final = 100
_MOST_SECONDS_APART: Final = 0.02


def request_instant(
    table: HudiTable,
    action: str,
    content: bytes,
    concurrency: Concurrency = SINGLE_WRITER,
    operation: str | None = None,
) -> tuple[Instant, Heartbeat | None]:
    """Create a requested instant at the first free instant time, which no other writer can then use.

    `content` is that of its file, `operation` as in `check_writable`, by default the action. The instant gets
    a heartbeat if the table's writers use heartbeats. Raises UnsupportedTableError, WriteConflictError,
    StorageError.
    """
    storage, base_path = table.storage, table.base_path
    check_written(table, operation or action)
    after = table.timeline.latest_time
    for _ in range(_ATTEMPTS):
        instant_time = new_instant_time(after, now_on_timeline(table))
        requested = Instant(instant_time, action, InstantState.REQUESTED)
        heartbeat = None
        if concurrency.gives_heartbeats:
            # Before the instant, which must never be visible without a heartbeat.
            interval, tolerance = concurrency.heartbeat_interval_ms, concurrency.heartbeat_tolerance_ms
            path = heartbeat_path(base_path, instant_time)
            heartbeat = start_heartbeat(storage, path, interval, tolerance)
        try:
            storage.create(table.instant_path(requested), content)
            if not _is_instant_time_taken(table, requested):
                return requested, heartbeat
            storage.delete_file(table.instant_path(requested))
        except PathExistsError:
            pass
        except BaseException:
            stop_heartbeat(heartbeat)
            raise
        # The other writer uses the same heartbeat file.
        stop_heartbeat(heartbeat, keeps_file=True)
        after = instant_time
        # Two writers that chose the same time retry after different delays.
        time.sleep(random.uniform(0, _MOST_SECONDS_APART))
    raise WriteConflictError(f"no free instant time on the timeline of {base_path}")


def _is_instant_time_taken(table: HudiTable, requested: Instant) -> bool:
    """True if another write on the timeline has this instant time: both would share markers."""
    layout = table.timeline.layout
    others = (replace(requested, action=action) for action in WRITE_ACTIONS - {requested.action})
    names = timeline_file_names(table.storage, table.base_path, layout)
    return not {layout.file_name(other) for other in others}.isdisjoint(names)
