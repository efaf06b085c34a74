"""When a pending instant's writer was last active: its heartbeat, or else its files below `.hoodie`.

A process beside writers uses this to find failed writes. Writes nothing.
"""

from __future__ import annotations

from hudisql.errors import NoSuchPathError
from hudisql.format.timeline.instant import Instant, InstantState
from hudisql.table.hudi_table import HudiTable
from hudisql.write.transaction.heartbeat import heartbeat_path
from hudisql.write.transaction.markers import marker_directory


def has_expired(table: HudiTable, instant: Instant, before_ms: float) -> bool | None:
    """True if the instant's last heartbeat is older than that time (epoch ms), None if it has none.

    Raises StorageError.
    """
    beat = table.storage.info(heartbeat_path(table.base_path, instant.timestamp))
    return None if beat is None else beat.modification_time_ms < before_ms


def is_silent(table: HudiTable, instant: Instant, before_ms: float) -> bool:
    """True if neither the instant's files nor its markers have changed since that time (epoch ms).

    Markers are only listed for an instant that is older. Raises StorageError.
    """
    storage = table.storage
    states = [instant.in_state(state) for state in (InstantState.REQUESTED, InstantState.INFLIGHT)]
    found = storage.infos([table.instant_path(each) for each in states])
    if any(each is not None and each.modification_time_ms >= before_ms for each in found):
        return False
    try:
        markers = storage.list_files(marker_directory(table.base_path, instant.timestamp))
    except NoSuchPathError:
        return True
    return all(marker.modification_time_ms < before_ms for marker in markers)
