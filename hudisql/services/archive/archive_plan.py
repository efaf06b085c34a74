"""Which instants of the active timeline are archived.

Follows `HoodieTimelineArchiver`, `ArchivalUtils`, `CompactionUtils.getOldestInstantToRetainForCompaction` and
`ClusteringUtils.getOldestInstantToRetainForClustering` of Hudi 0.15. Archiving stops before commits that the
next clean reads, savepoints, pending writes, instants that are being rolled back, delta commits that the next
compaction counts, and replaced file groups that are not cleaned yet. Deletes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from hudisql.config.config_key import HudiConfig
from hudisql.config.table_service_keys import KEEP_MAX_COMMITS, KEEP_MIN_COMMITS
from hudisql.errors import SettingsError
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.format.timeline.instant import (
    CLEAN,
    COMMIT,
    DELTA_COMMIT,
    REPLACE_COMMIT,
    ROLLBACK,
    WRITE_ACTIONS,
    Instant,
    InstantState,
    second_of,
)
from hudisql.services.clean.clean_plan import (
    CleanOptions,
    clean_options,
    earliest_commit_to_retain,
    read_clean_plan,
)
from hudisql.services.compaction.compaction_action import (
    CompactionOptions,
    CompactionTrigger,
    compaction_options,
)
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.metadata_table.kept_metadata_table import find_kept
from hudisql.table.slicing.file_groups import group_files
from hudisql.table.timeline.instant_files import read_commit
from hudisql.write.transaction.pending_rollbacks import pending_rollbacks


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """How many commits stay in the active timeline, and the services that need them there.

    The defaults are those of the settings.
    """

    min_commits: int = KEEP_MIN_COMMITS.default_value
    max_commits: int = KEEP_MAX_COMMITS.default_value
    clean: CleanOptions = CleanOptions()  # noqa: RUF009 (a frozen value)
    compaction: CompactionOptions = CompactionOptions()  # noqa: RUF009


def archive_options(config: HudiConfig) -> ArchiveOptions:
    """The options of Hudi's settings. Raises SettingsError."""
    least, most = config.get(KEEP_MIN_COMMITS), config.get(KEEP_MAX_COMMITS)
    if least < 1:
        raise SettingsError(f"{KEEP_MIN_COMMITS} ({least}) must be 1 or more: a table keeps its last commit")
    if least >= most:
        raise SettingsError(f"{KEEP_MAX_COMMITS} ({most}) must be greater than {KEEP_MIN_COMMITS} ({least})")
    return ArchiveOptions(least, most, clean_options(config), compaction_options(config))


def may_archive(timeline: Timeline, options: ArchiveOptions) -> bool:
    """False if the number of instants on the timeline is certainly too small."""
    counts = [sum(instant.action == action for instant in timeline.completed) for action in (CLEAN, ROLLBACK)]
    return max(len(timeline.commits), *counts) > options.max_commits


def plan_archive(table: HudiTable, options: ArchiveOptions) -> list[Instant]:
    """The completed instants to archive, oldest first. Raises CorruptTableError, StorageError."""
    timeline = table.timeline
    least, most = _instants_to_keep(timeline, options)
    if timeline.layout.has_completion_times:
        commits = _commits(table, options, least, most)
        bound = compacted_until(table) if commits else None
        return _with_cleans_and_rollbacks(timeline, _before(commits, bound))
    chosen: list[Instant] = []
    for action in (CLEAN, ROLLBACK):
        instants = [instant for instant in timeline.completed if instant.action == action]
        if len(instants) > most:
            chosen += instants[: len(instants) - least]
    chosen += _commits(table, options, least, most)
    bound = compacted_until(table) if chosen else None
    return sorted(_before(chosen, bound))


def compacted_until(table: HudiTable) -> str | None:
    """The first instant that a metadata table that hudisql keeps still needs; it stays, with all later ones.

    None if it needs none. Of version 6 it is the last compaction, "" before a first one: records of other
    instants count as long as they are active. In layout 2 they count, too, as long as they are on the
    timeline of the metadata table, from which Hudi 1.2 archives what is older than its last compaction and
    all active commits of the table. So the commits stay that were requested before the last compaction, and
    have completed after it: it has not compacted them. Raises StorageError.
    """
    metadata = find_kept(table)
    if metadata is None:
        return None
    last, completed = metadata.last_compaction, metadata.own.timeline.completed
    if not table.timeline.layout.has_completion_times:
        return last
    return min(
        (instant.timestamp for instant in completed if instant.timestamp < last < instant.completion_time),
        default=None,
    )


def _before(instants: Iterable[Instant], bound: str | None) -> list[Instant]:
    return [instant for instant in instants if bound is None or instant.timestamp < bound]


def _with_cleans_and_rollbacks(timeline: Timeline, commits: list[Instant]) -> list[Instant]:
    """The commits, and the cleans and rollbacks before the last one (`TimelineArchiverV2` of Hudi 1.2)."""
    last = commits[-1].timestamp if commits else ""
    others = [
        instant
        for instant in timeline.completed
        if instant.action in (CLEAN, ROLLBACK) and instant.timestamp < last
    ]
    return sorted([*commits, *others])


def _instants_to_keep(timeline: Timeline, options: ArchiveOptions) -> tuple[int, int]:
    """The least and the most commits to keep: the next clean starts at its earliest commit to retain."""
    latest = timeline.latest_commit
    now = datetime.now(UTC) if latest is None else second_of(latest.timestamp)
    earliest = earliest_commit_to_retain(timeline, options.clean, now, counts_compactions=False)
    if earliest is None:
        return options.min_commits, options.max_commits
    for_clean = sum(commit.timestamp > earliest.timestamp for commit in timeline.commits) + 2
    extra = max(for_clean - options.min_commits, 0)
    return options.min_commits + extra, options.max_commits + extra


def _commits(table: HudiTable, options: ArchiveOptions, least: int, most: int) -> list[Instant]:
    commits = table.timeline.commits
    if len(commits) <= most:
        return []
    bounds = [
        _oldest_before_pending(table),
        _oldest_for_compaction(table, options.compaction),
        _oldest_for_replaced(table),
        *(rollback.target.timestamp for rollback in pending_rollbacks(table, table.timeline)),
    ]
    # Apache Hudi takes what is archived after an active commit for never committed, also beyond a savepoint.
    bounds.append(min(table.timeline.savepoints, default=None))
    bound = min((bound for bound in bounds if bound is not None), default=None)
    return until_files_are_left(table, _before(commits[: len(commits) - least], bound))


def _oldest_before_pending(table: HudiTable) -> str | None:
    """The newest commit that the oldest pending write has certainly read, or else that write.

    It stays, with all later ones. Commits that completed after the write's request may conflict with it; Hudi
    archives them.
    """
    pending = next((instant for instant in table.timeline.pending if instant.action in WRITE_ACTIONS), None)
    if pending is None:
        return None
    before = [commit for commit in table.timeline.commits if commit.timestamp < pending.timestamp]
    requested = table.instant_path(pending.in_state(InstantState.REQUESTED))
    begin, *completions = table.storage.infos(
        [requested, *(table.instant_path(instant) for instant in before)]
    )
    since = [
        number
        for number, info in enumerate(completions)
        if begin is not None and info is not None and info.modification_time_ms >= begin.modification_time_ms
    ]
    known = before[: since[0]] if since else before
    return (
        known[-1].timestamp if known else next((instant.timestamp for instant in before), pending.timestamp)
    )


def _oldest_for_compaction(table: HudiTable, options: CompactionOptions) -> str | None:
    """The oldest instant that the compaction's trigger counts."""
    counting = (CompactionTrigger.NUM_COMMITS, CompactionTrigger.NUM_AND_TIME)
    if not table.is_merge_on_read or options.trigger not in counting:
        return None
    timeline = table.timeline
    compactions = [instant.timestamp for instant in timeline.completed if instant.action == COMMIT]
    deltas = [instant.timestamp for instant in timeline.instants if instant.action == DELTA_COMMIT]
    if compactions:
        deltas = [time for time in deltas if time > compactions[-1]]
    elif not deltas:
        return None
    if len(deltas) < options.max_delta_commits:
        return compactions[-1] if compactions else deltas[0]
    return deltas[len(deltas) - max(options.max_delta_commits, 1)]


def _oldest_for_replaced(table: HudiTable) -> str | None:
    """The oldest replacecommit whose replaced file groups may still have files.

    Without its instant their rows would become visible again.
    """
    timeline = table.timeline
    replacements = [instant for instant in timeline.instants if instant.completed_action == REPLACE_COMMIT]
    if not replacements:
        return None
    cleans = [instant for instant in timeline.completed if instant.action == CLEAN]
    cleaned_until = ""
    if cleans:
        earliest = read_clean_plan(table, cleans[-1]).earliest_retained
        cleaned_until = cleans[-1].timestamp if earliest is None else earliest.timestamp
    oldest = next(
        (replacement.timestamp for replacement in replacements if replacement.timestamp >= cleaned_until),
        None,
    )
    pending = next(
        (replacement.timestamp for replacement in replacements if not replacement.is_completed), None
    )
    if pending is not None:
        before = [commit.timestamp for commit in timeline.commits if commit.timestamp < pending]
        if before and (oldest is None or before[-1] < oldest):
            return before[-1]
    return oldest


def until_files_are_left(table: HudiTable, chosen: list[Instant]) -> list[Instant]:
    """The instants before the first replacecommit of which a replaced file group still has files.

    Hudi does not check: a file that a clean could not delete, or a savepoint protected, becomes visible
    again.
    """
    for number, instant in enumerate(chosen):
        if instant.action != REPLACE_COMMIT:
            continue
        metadata = read_commit(table, instant)
        replaced = metadata.partition_to_replace_file_ids or {}
        directories = {path: join(table.base_path, path) for path in replaced if replaced[path]}
        infos = table.storage.infos(list(directories.values()))
        for (path, directory), info in zip(directories.items(), infos, strict=True):
            if info is None and path:
                continue
            if group_files(table.storage.list_directory(directory)).keys() & set(replaced[path]):
                return chosen[:number]
    return chosen
