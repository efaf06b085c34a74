"""Avro payloads of restores.

Follows `HoodieRestorePlan` (version 2) and `HoodieRestoreMetadata` of Hudi 0.15:
one record in an Avro object container. Values and bytes only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hudisql.errors import CorruptTableError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.timeline.instant import Instant, InstantState
from hudisql.write.transaction.timeline_payloads import instant_info

_RESTORE_PLAN_VERSION: Final = 2


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
            Instant(instant_time, str(each["action"]), InstantState.INFLIGHT)
            for instant_time, each in zip(times, infos, strict=True)
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
            instant.timestamp: _list_of(rollbacks.get(instant.timestamp)) for instant in plan.instants
        },
        "version": 1,
        "restoreInstantInfo": [instant_info(instant) for instant in plan.instants],
    }
    return load_codec("HoodieRestoreMetadata").encode(record)


def _list_of(rollback: Mapping[str, Any] | None) -> Sequence[Mapping[str, Any]]:
    return [] if rollback is None else [rollback]
