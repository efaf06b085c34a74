"""The part of a timeline that an incremental query reads, and the file groups that its commits wrote.

Follows `IncrementalRelation`, `MergeOnReadIncrementalRelation` and `TimelineUtils.handleHollowCommitIfNeeded`
of Hudi 0.15: commits after `begin` up to and with `end`; rows come from the file slices as of the last of
them. A bootstrap is a commit like any other. With timeline layout 2 (`IncrementalQueryAnalyzer` of Hudi 1.2)
windows go by completion times, and no commit is hollow. Reads commits and no data files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from hudisql.errors import HollowCommitError, InvalidArgumentError
from hudisql.format.paths.file_names import is_log_file, parse_base_file_name, parse_log_file_name
from hudisql.format.timeline.instant import COMMIT_ACTIONS, Instant, parse_point_in_time
from hudisql.table.history.past_state import is_archived, state_gone_error
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.archived_timeline import archived_commits
from hudisql.table.timeline.completion_times import (
    archived_completion_times,
    completion_times,
    completions_archived_since,
    first_active_completion,
)
from hudisql.table.timeline.instant_files import read_commits
from hudisql.table.timeline.requested_plans import is_clustering

EARLIEST = "earliest"
"""As `begin`: before the first commit."""
BEFORE_ALL = "000"
HOLLOW_COMMIT_POLICY = "hoodie.read.timeline.holes.resolution.policy"
MOVING_OPERATIONS = frozenset({"COMPACT", "CLUSTER"})
"""Operation types of commits that move rows without changing them."""


@dataclass(frozen=True)
class TimelineWindow:
    """Completed commits of the active timeline that an incremental query reads, oldest first.

    `begin` is exclusive. With `is_open` archived commits may belong to the window, too, and all slices are
    read. `last_archived` is the newest archived commit if the whole window is before the active timeline.
    With `by_transition_time` a row belongs to the window if its commit is in `commits` or `archived` (instant
    times); otherwise its commit time must be after `begin` and at most that of the last commit. With
    `merges_own_records` rows and log records of other commits are ignored before records merge.
    """

    begin: str
    commits: tuple[Instant, ...]
    is_open: bool = False
    by_transition_time: bool = False
    last_archived: str = ""
    archived: frozenset[str] = frozenset()
    merges_own_records: bool = False

    @property
    def instant_times(self) -> frozenset[str]:
        """The instant times of all commits that are known individually."""
        return self.archived | {commit.timestamp for commit in self.commits}

    @property
    def as_of(self) -> str:
        """The instant whose file slices are read: the newest of the window; `begin` if it is empty."""
        return max(self.last_archived, *(commit.timestamp for commit in self.commits), "") or self.begin


@dataclass(frozen=True)
class ChangedGroups:
    """The newest version that a window's commits wrote of each file group, by partition path and file id.

    `moved` are the commits that only moved rows, such as compactions and clusterings.
    """

    versions: Mapping[str, Mapping[str, str]]
    moved: frozenset[str]


def timeline_window(
    table: HudiTable,
    begin: str,
    end: str | None = None,
    policy: str = "FAIL",
    hint: str = f"wait for it, or set {HOLLOW_COMMIT_POLICY} to BLOCK (read the commits before it) or "
    "USE_TRANSITION_TIME (begin and end are completion times)",
) -> TimelineWindow:
    """The commits after `begin` up to and with `end` (the newest by default), both as users write them.

    `policy` is Hudi's policy for pending commits before completed ones; `hint` is the hint of the error that
    FAIL raises. Raises InvalidArgumentError for texts that are not times, HollowCommitError, NoSuchStateError
    (for completion times, if commits of the window are archived).
    """
    is_earliest = begin.strip().lower() == EARLIEST
    first = BEFORE_ALL if is_earliest else instant_time_of_bound(begin, "the begin of an incremental query")
    last = None if end is None else instant_time_of_bound(end, "the end of an incremental query")
    if table.timeline.layout.has_completion_times:
        return _window_by_completion(table, first, last)
    if policy == "USE_TRANSITION_TIME":
        times = completion_times(table, table.timeline.commits)
        chosen = [commit for commit in table.timeline.commits if first < times[commit]]
        chosen = [instant for instant in chosen if last is None or times[instant] <= last]
        starts = table.timeline.first_active_time
        if starts is not None and first < starts and is_archived(table):
            raise state_gone_error(
                table, first, "commits after it are archived, and their completion times with them", None
            )
        return TimelineWindow(first, tuple(chosen), by_transition_time=True)
    commits = _without_hollow_commits(table, last, policy, hint)
    chosen = [
        commit
        for commit in commits
        if first < commit.timestamp and (last is None or commit.timestamp <= last)
    ]
    starts = table.timeline.first_active_time
    if starts is None or first >= starts or not is_archived(table):
        return TimelineWindow(first, tuple(chosen))
    if last is None or last >= starts:
        return TimelineWindow(first, tuple(chosen), is_open=bool(chosen))
    archived = [commit for commit in archived_commits(table, table.timeline) if first < commit <= last]
    return TimelineWindow(first, tuple(chosen), bool(archived), last_archived=max(archived, default=""))


def _window_by_completion(table: HudiTable, first: str, last: str | None) -> TimelineWindow:
    def is_inside(time: str) -> bool:
        return first < time and (last is None or time <= last)

    times = completion_times(table, table.timeline.commits)
    chosen = tuple(sorted(instant for instant, time in times.items() if is_inside(time)))
    active = {instant.timestamp for instant in times}
    starts = first_active_completion(table, times)
    reaches_back = starts is None or first < starts
    known = archived_completion_times(table) if reaches_back else completions_archived_since(table, first)
    archived = {
        instant_time: time
        for instant_time, time in known.items()
        if is_inside(time) and instant_time not in active
    }
    return TimelineWindow(
        first,
        chosen,
        is_open=bool(archived),
        by_transition_time=True,
        # Slices as of the last completion: a log file belongs to its commit's completion time.
        last_archived=max([*archived.values(), *(times[instant] for instant in chosen)], default=""),
        archived=frozenset(archived),
        merges_own_records=True,
    )


def changed_groups(table: HudiTable, window: TimelineWindow) -> ChangedGroups:
    """The file groups that the window's commits wrote. Raises CorruptTableError, StorageError."""
    versions: dict[str, dict[str, str]] = defaultdict(dict)
    moved = set()
    read = read_commits(table, window.commits)
    for commit, metadata in zip(window.commits, read, strict=True):
        if metadata.operation_type in MOVING_OPERATIONS:
            moved.add(commit.timestamp)
        for partition, stats in metadata.partition_to_write_stats.items():
            for stat in stats:
                version = version_of_write(table, stat.path)
                known = versions[partition].get(stat.file_id, "")
                versions[partition][stat.file_id] = max(known, version)
    return ChangedGroups(versions, frozenset(moved))


def version_of_write(table: HudiTable, path: str | None) -> str:
    """`version_of_file` of a file that a commit of the table has written.

    With timeline layout 2 a log file's name does not have its slice's instant: the result is then lower than
    all versions.
    """
    is_untold = table.timeline.layout.has_completion_times and is_log_file(path or "")
    return "0" if is_untold else version_of_file(path)


def version_of_file(path: str | None) -> str:
    """The base instant of a written file's slice; empty if the file name does not have it."""
    name = (path or "").rpartition("/")[2]
    if (base := parse_base_file_name(name)) is not None:
        return base.instant_time
    log = parse_log_file_name(name)
    return log.base_instant_time if log is not None else ""


def newest_commit_time(table: HudiTable, policy: str = "FAIL") -> str | None:
    """The newest commit of a window without an end; None without commits. Raises HollowCommitError.

    With timeline layout 2 it is the last completion time.
    """
    if table.timeline.layout.has_completion_times:
        return max(completion_times(table, table.timeline.commits).values(), default=None)
    hint = f"wait for it, or set {HOLLOW_COMMIT_POLICY} to BLOCK (read the commits before it)"
    commits = _without_hollow_commits(table, None, policy, hint)
    return commits[-1].timestamp if commits else None


def instant_time_of_bound(text: str, what: str) -> str:
    """The instant time that users write as a begin or an end; `what` names it in errors.

    Raises InvalidArgumentError.
    """
    point = parse_point_in_time(text.strip())
    if point is None and text.strip().isdigit():
        # Hudi compares texts: 000 is before all instants.
        return text.strip()
    if point is None:
        raise InvalidArgumentError(
            f"{what} is '{text}', which is not an instant time",
            hint="write an instant time (yyyyMMddHHmmssSSS), '2024-03-01 12:00:00', '2024-03-01', or for "
            "a begin 'earliest'",
        )
    return point


def _without_hollow_commits(
    table: HudiTable, last: str | None, policy: str, hint: str
) -> tuple[Instant, ...]:
    """The completed commits before the first one that is pending, or all if none of them comes after it."""
    commits = table.timeline.commits
    hollow = _first_pending_commit(table)
    if hollow is None or all(commit.timestamp < hollow.timestamp for commit in commits):
        return commits
    if policy == "FAIL" and (last is None or hollow.timestamp <= last):
        raise HollowCommitError(
            f"the commit {hollow.timestamp} of the Hudi table at {table.base_path} is pending, while later "
            "ones are completed: a pull that goes on from these would never see its rows",
            hint=hint,
        )
    return tuple(commit for commit in commits if commit.timestamp < hollow.timestamp)


def _first_pending_commit(table: HudiTable) -> Instant | None:
    for instant in table.timeline.pending:
        if instant.action in COMMIT_ACTIONS and not is_clustering(table, instant):
            return instant
    return None
