"""Instants: the points on a Hudi timeline.

Follows `HoodieInstant` and `HoodieTimeline` of Hudi 0.15. `timeline_layout` knows their files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum

METADATA_BOOTSTRAP_INSTANT_TIME = "00000000000001"
"""Instant of a metadata-only bootstrap: base files of this instant are skeletons."""
FULL_BOOTSTRAP_INSTANT_TIME = "00000000000002"
"""Instant of a full-record bootstrap."""
BOOTSTRAP_INSTANT_TIMES = frozenset({METADATA_BOOTSTRAP_INSTANT_TIME, FULL_BOOTSTRAP_INSTANT_TIME})

COMMIT = "commit"
DELTA_COMMIT = "deltacommit"
REPLACE_COMMIT = "replacecommit"
CLUSTERING = "clustering"
"""A pending clustering of layout 2; it completes as a replacecommit."""
COMPACTION = "compaction"
LOG_COMPACTION = "logcompaction"
CLEAN = "clean"
SAVEPOINT = "savepoint"
ROLLBACK = "rollback"
RESTORE = "restore"
INDEXING = "indexing"
SCHEMA_COMMIT = "schemacommit"

COMMIT_ACTIONS = frozenset({COMMIT, DELTA_COMMIT, REPLACE_COMMIT})
"""Actions whose completed file carries commit metadata."""
WRITE_ACTIONS = COMMIT_ACTIONS | {COMPACTION, LOG_COMPACTION, CLUSTERING}
"""Actions that add data files."""

ACTIONS = WRITE_ACTIONS | {CLEAN, SAVEPOINT, ROLLBACK, RESTORE, INDEXING, SCHEMA_COMMIT}
"""All actions that a timeline may hold."""
# The action under which the completed file of a two-phase action is named.
_COMPLETED_ACTION = {COMPACTION: COMMIT, LOG_COMPACTION: DELTA_COMMIT, CLUSTERING: REPLACE_COMMIT}


class InstantState(IntEnum):
    """How far an action has come; later states are greater."""

    REQUESTED = 1
    INFLIGHT = 2
    COMPLETED = 3


_INSTANT_TIME = re.compile(r"\d{14}(\d{3})?", re.ASCII)
_DATE_OR_TIME = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d{3})?)?", re.ASCII)


@dataclass(frozen=True, order=True, slots=True)
class Instant:
    """One action on the timeline; `timestamp` is `yyyyMMddHHmmssSSS` (or one of the bootstrap constants).

    `completion_time` comes from the file name of a completed action in layout 2; it is empty if the name has
    none (`table/timeline/completion_times` then finds it).
    """

    timestamp: str
    action: str
    state: InstantState
    completion_time: str = field(default="", compare=False)

    @property
    def is_completed(self) -> bool:
        """True if the action is done and visible."""
        return self.state is InstantState.COMPLETED

    @property
    def completed_action(self) -> str:
        """The action's name once completed: a compaction completes as a commit."""
        return _COMPLETED_ACTION.get(self.action, self.action)

    def in_state(self, state: InstantState) -> Instant:
        """The same action in another state."""
        return Instant(self.timestamp, self.action, state)


def parse_point_in_time(text: str) -> str | None:
    """The instant time of a text in one of Hudi's forms, or None for another text.

    `yyyyMMddHHmmss[SSS]` (kept as it is), `yyyy-MM-dd HH:mm:ss[.SSS]` or `yyyy-MM-dd`, in the time zone of
    the table's timeline. Follows `HoodieSqlCommonUtils.formatQueryInstant` of Hudi 0.15.
    """
    if _INSTANT_TIME.fullmatch(text):
        return text
    if not _DATE_OR_TIME.fullmatch(text):
        return None
    try:
        return instant_time_at(datetime.fromisoformat(text))
    except ValueError:
        return None


def new_instant_time(after: str | None, now: datetime) -> str:
    """A new 17-digit UTC instant time for `now` that is greater than `after`.

    `now` must be timezone-aware. If the clock stands at or before `after` (another writer's, or a clock that
    was set back), the result is one millisecond past `after`.
    """
    candidate = instant_time_at(now.astimezone(UTC))
    if after is None or candidate > after:
        return candidate
    return instant_time_at(_parse(after) + timedelta(milliseconds=1))


def instant_time_before(instant_time: str) -> str:
    """The instant time one millisecond earlier."""
    return instant_time_at(_parse(instant_time) - timedelta(milliseconds=1))


def moment_of(instant_time: str, timeline_timezone: str) -> datetime:
    """When an instant began, timezone-aware; `timeline_timezone` is the table's: `UTC` or `LOCAL`."""
    moment = _parse(instant_time)
    return moment if timeline_timezone == "UTC" else moment.replace(tzinfo=None).astimezone(UTC)


def second_of(instant_time: str) -> datetime:
    """The second in which an instant began, its digits read as UTC; as in Hudi the epoch for bootstraps.

    Raises ValueError for text that is not a time.
    """
    if instant_time in BOOTSTRAP_INSTANT_TIMES:
        return datetime.fromtimestamp(0, UTC)
    return datetime.strptime(instant_time[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def instant_time_at(moment: datetime) -> str:
    """The 17 digits of a moment, in its own time zone."""
    return f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}"


def _parse(instant_time: str) -> datetime:
    # Writers before Hudi 0.10 wrote whole seconds: such an instant ends with its second.
    millis = instant_time[14:17].ljust(3, "0") if len(instant_time) > 14 else "999"
    moment = datetime.strptime(instant_time[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    return moment + timedelta(milliseconds=int(millis))
