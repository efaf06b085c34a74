"""Requested files of actions: the file groups and partitions in their plans, and the kind of a replacecommit.

Follows `HoodieCompactionPlan`, `HoodieClusteringPlan`, `HoodieCleanerPlan` and
`HoodieRequestedReplaceMetadata` of Hudi 0.15 and 1.2. The requested file of an overwrite is empty, that of a
clustering names it; with timeline layout 2 a clustering is requested as an action of its own, and completed
as a replacecommit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hudisql.errors import NoSuchPathError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.instant import (
    CLEAN,
    CLUSTERING,
    COMPACTION,
    REPLACE_COMMIT,
    Instant,
    InstantState,
)
from hudisql.table.meta_client import TableMetaClient
from hudisql.table.timeline.instant_files import read_instant

_PLANS: Final[Mapping[str, str]] = {
    CLEAN: "HoodieCleanerPlan",
    CLUSTERING: "HoodieRequestedReplaceMetadata",
    COMPACTION: "HoodieCompactionPlan",
    REPLACE_COMMIT: "HoodieRequestedReplaceMetadata",
}


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
    requested_replace = read_requested_replace(table, instant.timestamp)
    if requested_replace is None or not requested_replace[0]:
        return False
    return (
        load_codec("HoodieRequestedReplaceMetadata").decode(*requested_replace).get("operationType")
        == "CLUSTER"
    )


def planned_file_groups(table: TableMetaClient, instant: Instant) -> frozenset[tuple[str, str]]:
    """The file groups that a pending compaction or clustering is going to rewrite.

    As (partition path, file id); empty for other replacecommits. Raises CorruptTableError, StorageError.
    """
    plan = _read_plan(table, instant) or {}
    if instant.action == COMPACTION:
        slices = plan.get("operations") or []
    else:
        groups = (plan.get("clusteringPlan") or {}).get("inputGroups") or []
        slices = [file_slice for group in groups for file_slice in group.get("slices") or []]
    return frozenset((file_slice["partitionPath"] or "", file_slice["fileId"]) for file_slice in slices)


def deleted_partitions(table: TableMetaClient, clean: Instant) -> frozenset[str]:
    """The partitions whose directories a clean deletes: a pending one by its plan, a completed one did so.

    Never the directory of a table without partitions. Raises CorruptTableError, StorageError.
    """
    planned = frozenset((_read_plan(table, clean) or {}).get("partitionsToBeDeleted") or ()) - {""}
    if not planned or not clean.is_completed:
        return planned
    content = read_instant(table, clean)
    if not content:
        return planned
    record = load_codec("HoodieCleanMetadata").decode(content, table.instant_path(clean))
    kept = {path for path, each in record["partitionMetadata"].items() if not each.get("isPartitionDeleted")}
    return planned - kept


def _read_plan(table: TableMetaClient, instant: Instant) -> Mapping[str, Any] | None:
    """The Avro record of the requested instant; None if its file is gone, or it has no plan."""
    record = _PLANS.get(instant.action)
    if record is None:
        return None
    path = table.instant_path(instant.in_state(InstantState.REQUESTED))
    try:
        content = table.storage.read(path)
    except NoSuchPathError:
        return None
    return load_codec(record).decode(content, path) if content else None
