"""Avro payloads of requested replacecommits, of rollbacks and of restores.

Follows `HoodieRequestedReplaceMetadata`, `HoodieRollbackPlan`, `HoodieRollbackMetadata`, `HoodieRestorePlan`
(version 2) and `HoodieRestoreMetadata` of Hudi 0.15: one record in an Avro object container. Values and bytes
only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hudisql.errors import CorruptTableError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.paths.file_names import parse_log_file_name
from hudisql.format.timeline.instant import Instant, InstantState

_RESTORE_PLAN_VERSION: Final = 2


def render_requested_replace() -> bytes:
    """The content of an overwrite's requested replacecommit, whose file groups are not known yet."""
    record = {"operationType": None, "clusteringPlan": None, "extraMetadata": None, "version": None}
    return load_codec("HoodieRequestedReplaceMetadata").encode(record)


@dataclass(frozen=True, slots=True)
class RollbackFiles:
    """A rollback's files in one partition: files to delete, and log files (with their length) that stay.

    Both as absolute URIs. The log files have blocks of the instant that readers are to ignore.
    """

    deleted: list[str] = field(default_factory=list)
    log_files: dict[str, int] = field(default_factory=dict)


def render_rollback_plan(instant: Instant, files: Mapping[str, RollbackFiles]) -> bytes:
    """The plan to roll back `instant` and its `files` (by partition path).

    If Apache Hudi executes it, it deletes files and appends rollback blocks to log files.
    """
    requests = []
    for partition, found in files.items():
        if found.deleted:
            requests.append(_rollback_request(partition, deleted=found.deleted))
        requests += [
            _rollback_request(partition, log_file=uri, length=length)
            for uri, length in found.log_files.items()
        ]
    record = {"instantToRollback": instant_info(instant), "RollbackRequests": requests, "version": 1}
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

    Files as (partition path, file name): those to delete, and log files with blocks of the instant.
    `names_all` is False if the plan rolls back log blocks in files that it does not name.
    """

    target: Instant
    deleted: tuple[tuple[str, str], ...]
    log_files: tuple[tuple[str, str], ...]
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
            hint="nothing was deleted; find out who wrote that file, and delete it by hand",
        )
    requests = found.get("RollbackRequests") or []
    return RequestedRollback(
        target=Instant(instant_time, str(target["action"]), InstantState.INFLIGHT),
        deleted=_named(requests, "filesToBeDeleted"),
        log_files=_named(requests, "logBlocksToBeDeleted"),
        names_all=all(
            request["filesToBeDeleted"] or request["logBlocksToBeDeleted"] or not request["fileId"]
            for request in requests
        ),
    )


def _named(requests: Sequence[Mapping[str, Any]], field_name: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (str(request["partitionPath"]), str(uri).rpartition("/")[2])
        for request in requests
        for uri in request[field_name] or ()
    )


def render_rollback_metadata(
    instant: Instant,
    rollback_time: str,
    milliseconds: int,
    files: Mapping[str, RollbackFiles],
    rollback_blocks: Mapping[str, Mapping[str, int]],
) -> bytes:
    """The content of a completed rollback.

    `rollback_blocks` are log files, with their length, that hold its rollback blocks, by partition path.
    """
    partitions = {
        partition: {
            "partitionPath": partition,
            "successDeleteFiles": found.deleted,
            "failedDeleteFiles": [],
            "rollbackLogFiles": dict(rollback_blocks.get(partition, {})),
            "logFilesFromFailedCommit": dict.fromkeys(found.log_files, 0),
        }
        for partition, found in files.items()
    }
    record = {
        "startRollbackTime": rollback_time,
        "timeTakenInMillis": milliseconds,
        "totalFilesDeleted": sum(len(file.deleted) for file in files.values()),
        "commitsRollback": [instant.timestamp],
        "partitionMetadata": partitions,
        "version": 1,
        "instantsRollback": [instant_info(instant)],
    }
    return load_codec("HoodieRollbackMetadata").encode(record)


def instant_info(instant: Instant) -> dict[str, str]:
    """The record `HoodieInstantInfo`."""
    return {"commitTime": instant.timestamp, "action": instant.action}


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The instants that a restore to a savepoint rolls back, in this order, in state inflight."""

    savepoint_time: str
    instants: tuple[Instant, ...]

    def to_avro(self) -> bytes:
        """The content of `<t>.restore.requested`."""
        record = {
            "instantsToRollback": [instant_info(instant) for instant in self.instants],
            "version": _RESTORE_PLAN_VERSION,
            "savepointToRestoreTimestamp": self.savepoint_time,
        }
        return load_codec("HoodieRestorePlan").encode(record)


def parse_restore_plan(content: bytes, path: str) -> RestorePlan:
    """The plan of a requested restore. Raises CorruptTableError, also for a plan without a savepoint."""
    found = load_codec("HoodieRestorePlan").decode(content, path)
    savepoint_time = found.get("savepointToRestoreTimestamp")
    infos = found.get("instantsToRollback") or []
    times = [str(info["commitTime"]) for info in infos]
    if savepoint_time is None or not all(time.isdigit() for time in times):
        raise CorruptTableError(
            f"{path} is a restore plan that does not name its savepoint and its instants",
            hint="complete the restore with the version of Apache Hudi that requested it",
        )
    return RestorePlan(
        str(savepoint_time),
        tuple(
            Instant(instant_time, str(info["action"]), InstantState.INFLIGHT)
            for instant_time, info in zip(times, infos, strict=True)
        ),
    )


def render_restore_metadata(
    restore_time: str,
    milliseconds: int,
    plan: RestorePlan,
    rollbacks: Mapping[str, Mapping[str, Any]],
) -> bytes:
    """The content of a completed restore; `rollbacks` are `HoodieRollbackMetadata` by undone instant."""
    record = {
        "startRestoreTime": restore_time,
        "timeTakenInMillis": milliseconds,
        "instantsToRollback": [instant.timestamp for instant in plan.instants],
        "hoodieRestoreMetadata": {
            instant.timestamp: [rollbacks[instant.timestamp]] if instant.timestamp in rollbacks else []
            for instant in plan.instants
        },
        "version": 1,
        "restoreInstantInfo": [instant_info(instant) for instant in plan.instants],
    }
    return load_codec("HoodieRestoreMetadata").encode(record)
