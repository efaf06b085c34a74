"""The file groups in the plans of pending compactions and clusterings.

Follows `HoodieCompactionPlan` and `HoodieClusteringPlan` of Hudi 0.15 and 1.2. Reads plans only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hudisql.errors import NoSuchPathError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.instant import COMPACTION, Instant, InstantState
from hudisql.table.meta_client import TableMetaClient


def planned_file_groups(table: TableMetaClient, instant: Instant) -> frozenset[tuple[str, str]]:
    """The file groups that a pending compaction or clustering is going to rewrite.

    As (partition path, file id); empty for other replacecommits. Raises CorruptTableError, StorageError.
    """
    plan = _read_plan(table, instant) or {}
    if instant.action == COMPACTION:
        slices = plan.get("operations") or []
    else:
        groups = (plan.get("clusteringPlan") or {}).get("inputGroups") or []
        slices = [each for group in groups for each in group.get("slices") or []]
    return frozenset((file_slice["partitionPath"] or "", file_slice["fileId"]) for file_slice in slices)


def _read_plan(table: TableMetaClient, instant: Instant) -> Mapping[str, Any] | None:
    """The Avro record of the requested instant; None if its file is gone or empty."""
    requested = instant.in_state(InstantState.REQUESTED)
    path = table.instant_path(requested)
    try:
        content = table.storage.read(path)
    except NoSuchPathError:
        return None
    record = table.timeline.layout.avro_record(requested)
    return load_codec(record).decode(content, path) if content and record else None
