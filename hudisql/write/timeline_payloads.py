"""Avro payloads of the timeline that writers make: requested replacecommits and rollbacks.

Follows `HoodieRequestedReplaceMetadata`, `HoodieRollbackPlan` and `HoodieRollbackMetadata` of Hudi 0.15: one
record in an Avro object container. Values and bytes only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hudisql.errors import NoSuchPathError
from hudisql.format.avro_container import load_codec
from hudisql.format.instant import COMPACTION, Instant, InstantState
from hudisql.format.timeline import instant_path
from hudisql.storage import Storage


def render_requested_replace() -> bytes:
    """The content of `<t>.replacecommit.requested` for an overwrite: which groups go is known at its end."""
    record = {"operationType": None, "clusteringPlan": None, "extraMetadata": None, "version": None}
    return load_codec("HoodieRequestedReplaceMetadata").encode(record)


def requested_operation(storage: Storage, path: str) -> str | None:
    """The operation type that a `.replacecommit.requested` file names. Raises CorruptTableError."""
    try:
        content = storage.read(path)
    except NoSuchPathError:
        return None
    if not content:
        return None
    found = load_codec("HoodieRequestedReplaceMetadata").decode(content, path).get("operationType")
    return None if found is None else str(found)


def planned_file_groups(storage: Storage, base_path: str, instant: Instant) -> frozenset[tuple[str, str]]:
    """The file groups that a pending compaction or clustering is going to rewrite.

    As (partition path, file id); empty for other replacecommits. Raises CorruptTableError, StorageError.
    """
    path = instant_path(base_path, instant.in_state(InstantState.REQUESTED))
    try:
        content = storage.read(path)
    except NoSuchPathError:
        return frozenset()
    if not content:
        return frozenset()
    if instant.action == COMPACTION:
        slices = load_codec("HoodieCompactionPlan").decode(content, path).get("operations") or []
    else:
        plan = load_codec("HoodieRequestedReplaceMetadata").decode(content, path).get("clusteringPlan")
        groups = (plan or {}).get("inputGroups") or []
        slices = [each for group in groups for each in group.get("slices") or []]
    return frozenset((each["partitionPath"] or "", each["fileId"]) for each in slices)


def render_rollback_plan(instant: Instant, files: Mapping[str, Sequence[str]]) -> bytes:
    """The plan to roll back `instant`: `files` are absolute URIs by partition path."""
    requests = [
        {
            "partitionPath": partition,
            "fileId": "",
            "latestBaseInstant": "",
            "filesToBeDeleted": list(names),
            "logBlocksToBeDeleted": {},
        }
        for partition, names in files.items()
    ]
    record = {"instantToRollback": _instant_info(instant), "RollbackRequests": requests, "version": 1}
    return load_codec("HoodieRollbackPlan").encode(record)


def rolled_back_instant(content: bytes, path: str) -> tuple[str, str] | None:
    """Time and action of the instant that a rollback plan is about. Raises CorruptTableError."""
    found = load_codec("HoodieRollbackPlan").decode(content, path).get("instantToRollback")
    return None if found is None else (str(found["commitTime"]), str(found["action"]))


def render_rollback_metadata(
    instant: Instant, rollback_time: str, milliseconds: int, files: Mapping[str, Sequence[str]]
) -> bytes:
    """What a completed rollback has deleted."""
    partitions = {
        partition: {
            "partitionPath": partition,
            "successDeleteFiles": list(names),
            "failedDeleteFiles": [],
            "rollbackLogFiles": {},
            "logFilesFromFailedCommit": {},
        }
        for partition, names in files.items()
    }
    record = {
        "startRollbackTime": rollback_time,
        "timeTakenInMillis": milliseconds,
        "totalFilesDeleted": sum(len(names) for names in files.values()),
        "commitsRollback": [instant.timestamp],
        "partitionMetadata": partitions,
        "version": 1,
        "instantsRollback": [_instant_info(instant)],
    }
    return load_codec("HoodieRollbackMetadata").encode(record)


def _instant_info(instant: Instant) -> dict[str, str]:
    return {"commitTime": instant.timestamp, "action": instant.action}
