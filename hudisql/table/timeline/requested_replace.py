"""The kind of a requested replacecommit: an overwrite's file is empty, a clustering's file names it.

Follows `HoodieRequestedReplaceMetadata` of Hudi 0.15; with timeline layout 2 a clustering is requested as an
action of its own, and completed as a replacecommit.
"""

from __future__ import annotations

from hudisql.errors import NoSuchPathError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.instant import CLUSTERING, REPLACE_COMMIT, Instant, InstantState
from hudisql.table.meta_client import TableMetaClient


def read_requested_replace(table: TableMetaClient, instant_time: str) -> tuple[bytes, str] | None:
    """Content and path of the requested file of a replacecommit or a clustering; None if it is not there.

    Raises StorageError.
    """
    actions = (
        (CLUSTERING, REPLACE_COMMIT) if table.timeline.layout.has_completion_times else (REPLACE_COMMIT,)
    )
    for action in actions:
        path = table.instant_path(Instant(instant_time, action, InstantState.REQUESTED))
        try:
            return table.storage.read(path), path
        except NoSuchPathError:
            continue
    return None


def is_clustering(table: TableMetaClient, instant: Instant) -> bool:
    """True if the replacecommit, completed or not, was requested as a clustering and not as an overwrite.

    Raises CorruptTableError, StorageError.
    """
    if instant.completed_action != REPLACE_COMMIT:
        return False
    found = read_requested_replace(table, instant.timestamp)
    if found is None or not found[0]:
        return False
    return load_codec("HoodieRequestedReplaceMetadata").decode(*found).get("operationType") == "CLUSTER"
