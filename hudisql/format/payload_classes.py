"""Hudi's payload classes as rules of merging, and the table properties that replace them in version 9.

Follows the classes of `org.apache.hudi.common.model` of Hudi 0.15, and `HoodieTableConfig` and
`EightToNineUpgradeHandler` of Hudi 1.2. Values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_PACKAGE: Final = "org.apache.hudi.common.model."
_PACKAGES: Final = (_PACKAGE, "org.apache.hudi.", "")
LATEST_PAYLOAD: Final = f"{_PACKAGE}OverwriteWithLatestAvroPayload"
"""The record payload that keeps the row written last."""
EVENT_TIME_PAYLOAD: Final = f"{_PACKAGE}DefaultHoodieRecordPayload"
"""The record payload that compares rows by the ordering column."""
COMMIT_TIME_ORDERING: Final = "COMMIT_TIME_ORDERING"
"""The merge mode of Hudi 1.x that keeps the row written last."""
EVENT_TIME_ORDERING: Final = "EVENT_TIME_ORDERING"
"""The merge mode of Hudi 1.x that compares rows by the ordering columns."""


@dataclass(frozen=True, slots=True)
class PayloadRule:
    """How a payload class merges an incoming row with the stored row of its key.

    A stored row with a higher ordering value stays if rows are ordered `by_event_time`, with
    `keeps_equal_rows` also one with an equal value. With `fills_nulls` the row that wins takes the values of
    its null columns from the other one; with `fills_incoming` also of several incoming rows, or log records.
    Rows whose column has the value of `delete_mark` (column, value) are deletes.
    """

    by_event_time: bool = False
    keeps_equal_rows: bool = False
    fills_nulls: bool = False
    fills_incoming: bool = False
    delete_mark: tuple[str, str] | None = None


PAYLOAD_RULES: Final[Mapping[str, PayloadRule]] = {
    LATEST_PAYLOAD: PayloadRule(),
    EVENT_TIME_PAYLOAD: PayloadRule(by_event_time=True),
    f"{_PACKAGE}EventTimeAvroPayload": PayloadRule(by_event_time=True),
    f"{_PACKAGE}FirstValueAvroPayload": PayloadRule(by_event_time=True, keeps_equal_rows=True),
    f"{_PACKAGE}PartialUpdateAvroPayload": PayloadRule(
        by_event_time=True, fills_nulls=True, fills_incoming=True
    ),
    f"{_PACKAGE}OverwriteNonDefaultsWithLatestAvroPayload": PayloadRule(fills_nulls=True),
    f"{_PACKAGE}AWSDmsAvroPayload": PayloadRule(delete_mark=("Op", "D")),
}
"""The rules of the supported payload classes."""


def payload_rule(payload_class: str | None) -> PayloadRule | None:
    """The rule of the class, None for an unknown one; without a class the row written last is kept."""
    if payload_class is None:
        return PAYLOAD_RULES[LATEST_PAYLOAD]
    package, dot, name = payload_class.rpartition(".")
    return PAYLOAD_RULES.get(_PACKAGE + name) if package + dot in _PACKAGES else None
