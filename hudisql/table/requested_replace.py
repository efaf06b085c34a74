"""What a requested replacecommit says of itself: an overwrite's file is empty, a clustering's names it.

Follows `HoodieRequestedReplaceMetadata` of Hudi 0.15.
"""

from __future__ import annotations

from hudisql.errors import NoSuchPathError
from hudisql.format.avro_container import load_codec
from hudisql.format.instant import CLUSTERING, REPLACE_COMMIT, Instant, InstantState
from hudisql.table.hudi_table import HudiTable


def is_clustering(table: HudiTable, instant: Instant) -> bool:
    """True if the replacecommit, completed or not, was requested as a clustering and not as an overwrite.

    Raises CorruptTableError, StorageError.
    """
    if instant.action == CLUSTERING:
        return True
    if instant.action != REPLACE_COMMIT:
        return False
    planned = Instant(instant.timestamp, CLUSTERING, InstantState.REQUESTED)
    if table.timeline.layout.has_completion_times and table.storage.exists(table.instant_path(planned)):
        return True
    path = table.instant_path(instant.in_state(InstantState.REQUESTED))
    try:
        content = table.storage.read(path)
    except NoSuchPathError:
        return False
    if not content:
        return False
    return (
        load_codec("HoodieRequestedReplaceMetadata").decode(content, path).get("operationType") == "CLUSTER"
    )
