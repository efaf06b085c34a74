"""The merge mode that CREATE TABLE gives a table, as the payload class that stands for it.

Follows `HoodieTableConfig.inferMergingConfigsForPreV9Table` of Hudi 1.2: `recordMergeMode` says what
`payloadClass` says, in every table version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hudisql.errors import InvalidArgumentError, UnsupportedTableError
from hudisql.format.payload_classes import (
    COMMIT_TIME_ORDERING,
    EVENT_TIME_ORDERING,
    EVENT_TIME_PAYLOAD,
    LATEST_PAYLOAD,
    payload_rule,
)
from hudisql.format.table_properties import PAYLOAD_CLASS, RECORD_MERGE_MODE

_MODES: Final = {COMMIT_TIME_ORDERING: LATEST_PAYLOAD, EVENT_TIME_ORDERING: EVENT_TIME_PAYLOAD}
MERGE_MODE: Final = ("recordmergemode", RECORD_MERGE_MODE, "hoodie.write.record.merge.mode")
"""The names of the merge mode as a property or option, in lower case."""
_PAYLOAD_NAMES: Final = ("payloadclass", "hoodie.datasource.write.payload.class", PAYLOAD_CLASS)


def with_payload_of_mode(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties, with the payload class of their merge mode if they name a mode and no class.

    Raises UnsupportedTableError for a custom mode, InvalidArgumentError for a mode that contradicts the
    payload class.
    """
    given = {name.lower(): (name, value) for name, value in properties.items()}
    name, value = next((given[name] for name in MERGE_MODE if name in given), ("", ""))
    if not name:
        return dict(properties)
    wanted = _MODES.get(value.strip().upper())
    if wanted is None:
        raise UnsupportedTableError(
            f"{name} = {value} is not supported: hudisql makes tables with {' or '.join(_MODES)}",
            hint="choose one of them, or name a payloadClass instead",
        )
    payload = next((given[key][1] for key in _PAYLOAD_NAMES if key in given), None)
    if payload is None:
        return {**properties, "payloadClass": wanted}
    rule = payload_rule(payload)
    if rule is not None and rule.by_event_time != (wanted == EVENT_TIME_PAYLOAD):
        raise InvalidArgumentError(
            f"{name} = {value} contradicts the payload class {payload}", hint="leave one of them out"
        )
    return dict(properties)
