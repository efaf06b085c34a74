"""What writers that died leave beside the timeline: markers and heartbeats of commits that are over.

The real Hudi reads neither of them again, but nobody would ever remove them. Which commits are to be rolled
back, `write/commit` knows; here an instant is either at work or not.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from hudisql.errors import StorageError
from hudisql.format.timeline import TIMELINE_FOLDER, load_timeline
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable
from hudisql.write.heartbeat import delete_heartbeat, heartbeat_instants, is_alive
from hudisql.write.markers import delete_markers, marked_instants
from hudisql.write.pending_rollbacks import pending_rollbacks

# A file is staged for the moment in which it is created; clocks may differ.
_STAGED_FOR_LONG_MS: Final = 3_600_000


def clear_leftovers(table: HudiTable, heartbeat_tolerance_ms: int | None) -> None:
    """Remove the markers and the expired heartbeats of all instants that are neither pending nor being rolled
    back, and what killed writers have staged in the timeline's folder.

    Without a tolerance the table's writers go by no heartbeats. Whoever is at work made his instant before
    his markers, and keeps his heartbeat fresh; what cannot be removed is only litter.
    """
    storage, base_path = table.storage, table.base_path
    with suppress(StorageError):
        timeline_folder = join(base_path, TIMELINE_FOLDER)
        storage.delete_staged(timeline_folder, int(time.time() * 1000) - _STAGED_FOR_LONG_MS)
        marked = marked_instants(storage, base_path)
        silent: list[str] = []
        if heartbeat_tolerance_ms is not None:
            silent = [
                each
                for each in heartbeat_instants(storage, base_path)
                if not is_alive(storage, base_path, each, heartbeat_tolerance_ms)
            ]
        if not marked and not silent:
            return
        # Asked after the listings: an instant that is not there now was over then, or has no markers yet.
        timeline = load_timeline(storage, base_path)
        pending = {each.timestamp for each in timeline.pending}
        pending |= {each.target.timestamp for each in pending_rollbacks(table, timeline)}
        for instant_time in set(marked) - pending:
            delete_markers(storage, base_path, instant_time)
        for instant_time in set(silent) - pending:
            delete_heartbeat(storage, base_path, instant_time)
