"""Avro payloads of the timeline that writers make: requested replacecommits and rollbacks.

Follows `HoodieRequestedReplaceMetadata`, `HoodieRollbackPlan` and `HoodieRollbackMetadata` of Hudi 0.15: one
record in an Avro object container. Values and bytes only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hudisql.errors import CorruptTableError, NoSuchPathError
from hudisql.format.avro_container import load_codec
from hudisql.format.file_names import parse_log_file_name
from hudisql.format.instant import COMPACTION, Instant, InstantState
from hudisql.table.hudi_table import HudiTable


def render_requested_replace() -> bytes:
    """The content of a requested replacecommit of an overwrite, whose file groups are not known yet."""
    record = {"operationType": None, "clusteringPlan": None, "extraMetadata": None, "version": None}
    return load_codec("HoodieRequestedReplaceMetadata").encode(record)


def planned_file_groups(table: HudiTable, instant: Instant) -> frozenset[tuple[str, str]]:
    """The file groups that a pending compaction or clustering is going to rewrite.

    As (partition path, file id); empty for other replacecommits. Raises CorruptTableError, StorageError.
    """
    plan = _read_plan(table, instant) or {}
    if instant.action == COMPACTION:
        slices = plan.get("operations") or []
    else:
        groups = (plan.get("clusteringPlan") or {}).get("inputGroups") or []
        slices = [each for group in groups for each in group.get("slices") or []]
    return frozenset((each["partitionPath"] or "", each["fileId"]) for each in slices)


def _read_plan(table: HudiTable, instant: Instant) -> Mapping[str, Any] | None:
    """The Avro record of the requested instant; None if its file is gone or empty."""
    requested = instant.in_state(InstantState.REQUESTED)
    path = table.instant_path(requested)
    try:
        content = table.storage.read(path)
    except NoSuchPathError:
        return None
    record = table.timeline.layout.avro_record(requested)
    return load_codec(record).decode(content, path) if content and record else None


@dataclass(frozen=True, slots=True)
class FailedFiles:
    """The files of a failed write in one partition, as absolute URIs; log files with their length."""

    base_files: list[str] = field(default_factory=list)
    log_files: dict[str, int] = field(default_factory=dict)


def render_rollback_plan(instant: Instant, files: Mapping[str, FailedFiles]) -> bytes:
    """The plan to roll back `instant` and its `files` (by partition path).

    If Apache Hudi executes it, it deletes base files and appends rollback blocks to log files.
    """
    requests = []
    for partition, failed in files.items():
        if failed.base_files:
            requests.append(_rollback_request(partition, deleted=failed.base_files))
        requests += [
            _rollback_request(partition, log_file=uri, length=length)
            for uri, length in failed.log_files.items()
        ]
    record = {"instantToRollback": _instant_info(instant), "RollbackRequests": requests, "version": 1}
    return load_codec("HoodieRollbackPlan").encode(record)


def _rollback_request(
    partition: str, *, deleted: Sequence[str] = (), log_file: str | None = None, length: int = 0
) -> dict[str, object]:
    name = parse_log_file_name(log_file.rpartition("/")[2]) if log_file else None
    return {
        "partitionPath": partition,
        "fileId": name.file_id if name else "",
        "latestBaseInstant": name.base_instant_time if name else "",
        "filesToBeDeleted": list(deleted),
        "logBlocksToBeDeleted": {log_file: length} if log_file else {},
    }


@dataclass(frozen=True, slots=True)
class RequestedRollback:
    """The plan of a requested rollback: the instant to roll back, as an inflight one, and its data files.

    Files as (partition path, file name). `names_all` is False if the plan rolls back log blocks without
    naming their files.
    """

    target: Instant
    files: tuple[tuple[str, str], ...]
    names_all: bool


def parse_requested_rollback(content: bytes, path: str) -> RequestedRollback | None:
    """The plan of a requested rollback; None if it names no instant. Raises CorruptTableError."""
    found = load_codec("HoodieRollbackPlan").decode(content, path)
    target = found.get("instantToRollback")
    if target is None:
        return None
    instant_time = str(target["commitTime"])
    if not instant_time.isdigit():
        raise CorruptTableError(
            f"{path} is the plan to roll back '{instant_time}', which is not an instant time",
            hint="nothing was deleted; find out who wrote that file, and remove it by hand",
        )
    requests = found.get("RollbackRequests") or []
    named = [(each, (*each["filesToBeDeleted"], *each["logBlocksToBeDeleted"])) for each in requests]
    return RequestedRollback(
        target=Instant(instant_time, str(target["action"]), InstantState.INFLIGHT),
        files=tuple(
            (str(request["partitionPath"]), str(uri).rpartition("/")[2])
            for request, uris in named
            for uri in uris
        ),
        names_all=all(uris or not request["fileId"] for request, uris in named),
    )


def render_rollback_metadata(
    instant: Instant, rollback_time: str, milliseconds: int, files: Mapping[str, FailedFiles]
) -> bytes:
    """The content of a completed rollback."""
    partitions = {
        partition: {
            "partitionPath": partition,
            "successDeleteFiles": failed.base_files,
            "failedDeleteFiles": [],
            "rollbackLogFiles": {},
            "logFilesFromFailedCommit": dict.fromkeys(failed.log_files, 0),
        }
        for partition, failed in files.items()
    }
    record = {
        "startRollbackTime": rollback_time,
        "timeTakenInMillis": milliseconds,
        "totalFilesDeleted": sum(len(failed.base_files) for failed in files.values()),
        "commitsRollback": [instant.timestamp],
        "partitionMetadata": partitions,
        "version": 1,
        "instantsRollback": [_instant_info(instant)],
    }
    return load_codec("HoodieRollbackMetadata").encode(record)


def _instant_info(instant: Instant) -> dict[str, str]:
    return {"commitTime": instant.timestamp, "action": instant.action}
