"""The changes of a table since an entry's last sync, for incremental syncs.

Follows `HiveSyncTool` and `TimelineUtils.getCommitsTimelineAfter` of Hudi 0.15: a commit counts by its
instant time, and one that began before the last sync and was completed after it by its completion time, which
is the modification time of its file, or in its name. Reads the timeline, no metastore.
"""

from __future__ import annotations

from dataclasses import dataclass

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.format.timeline.active_timeline import timeline_file_times
from hudisql.format.timeline.instant import REPLACE_COMMIT, Instant
from hudisql.table.files.changed_partitions import partitions_of_commits
from hudisql.table.files.committed_slices import TIMELINE_FILE_TIMES
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition, partition_of
from hudisql.table.partitions.non_empty_partitions import choose_non_empty
from hudisql.table.timeline.completion_times import instant_time_of_millis

LAST_COMMIT_PROPERTY = "last_commit_time_sync"
LAST_COMPLETION_PROPERTY = "last_commit_completion_time_sync"
COMMIT_PROPERTIES = (LAST_COMMIT_PROPERTY, LAST_COMPLETION_PROPERTY)


def commit_properties(table: HudiTable) -> dict[str, str]:
    """The properties for Hudi's own incremental sync: the last commit's time and the last completion time."""
    latest = table.timeline.latest_commit
    if latest is None:
        return {}
    properties = {LAST_COMMIT_PROPERTY: latest.timestamp}
    if completed := _completion_times(table):
        properties[LAST_COMPLETION_PROPERTY] = max(completed.values())
    return properties


def is_synced(table: HudiTable, entry: MetastoreTable) -> bool:
    """True if the entry's last sync was of the table's latest commit."""
    latest = table.timeline.latest_commit
    return latest is None or entry.parameters.get(LAST_COMMIT_PROPERTY) == latest.timestamp


@dataclass(frozen=True)
class ChangedPartitions:
    """The partitions that commits changed: those that hold rows, and those whose file groups are all gone."""

    present: tuple[TablePartition, ...] = ()
    dropped: tuple[TablePartition, ...] = ()


def is_incremental(table: HudiTable, entry: MetastoreTable) -> bool:
    """True if all commits since the entry's last sync are in the active timeline.

    False also if the last synced commit has been rolled back since, and if a commit replaces file groups of a
    table with register-only partitions: its metadata does not name all that have ended.
    """
    if not _has_commits_since(table, entry):
        return False
    return not table.properties.has_register_only_partitions or all(
        commit.action != REPLACE_COMMIT for commit in _commits_since(table, entry)
    )


def changed_partitions(table: HudiTable, entry: MetastoreTable) -> ChangedPartitions:
    """The partitions that commits since the entry's last sync changed, by path.

    Only partitions whose file groups were replaced, and that were not written to afterwards, are listed.
    Raises CorruptTableError, StorageError.
    """
    if not entry.partition_columns:
        return ChangedPartitions()
    synced = [entry.parameters.get(key, "") for key in COMMIT_PROPERTIES]
    return table.list_once(f"changed since {synced}", lambda: _read_changes(table, entry))


def _read_changes(table: HudiTable, entry: MetastoreTable) -> ChangedPartitions:
    commits = sorted(_commits_since(table, entry), key=lambda instant: instant.timestamp)
    written: set[str] = set()
    replaced: set[str] = set()
    for partitions in partitions_of_commits(table, commits):
        replaced |= partitions.replaced
        replaced -= partitions.written
        written |= partitions.written
    in_doubt = [partition_of(table, path) for path in sorted(replaced)]
    filled = {partition.path for partition in choose_non_empty(table, in_doubt)}
    paths = sorted((written - replaced) | filled)
    return ChangedPartitions(
        tuple(partition_of(table, path) for path in paths),
        tuple(partition for partition in in_doubt if partition.path not in filled),
    )


def partitions_changed_since(table: HudiTable, entry: MetastoreTable) -> frozenset[str] | None:
    """The paths of the partitions that commits since the entry's last sync wrote to or replaced.

    None if these commits are not all in the active timeline. Raises CorruptTableError.
    """
    if not _has_commits_since(table, entry):
        return None
    commits = partitions_of_commits(table, _commits_since(table, entry))
    return frozenset[str]().union(*(partitions.changed for partitions in commits))


def _has_commits_since(table: HudiTable, entry: MetastoreTable) -> bool:
    """True if the active timeline has the synced commit, and therefore all later commits.

    False also for an entry of Hudi before 0.14, which does not tell when the last commit was completed.
    """
    synced = entry.parameters.get(LAST_COMMIT_PROPERTY)
    if LAST_COMPLETION_PROPERTY not in entry.parameters:
        return False
    first, latest = table.timeline.first_active_time, table.timeline.latest_commit
    if synced is None or first is None or latest is None or not first <= synced <= latest.timestamp:
        return False
    return any(commit.timestamp == synced for commit in table.timeline.commits)


def _commits_since(table: HudiTable, entry: MetastoreTable) -> list[Instant]:
    synced = entry.parameters.get(LAST_COMMIT_PROPERTY, "")
    completed = entry.parameters.get(LAST_COMPLETION_PROPERTY, "")
    times = _completion_times(table)
    return [
        commit
        for commit in table.timeline.commits
        # S3 tells whole seconds: the sync may have missed a commit that was completed in its last one.
        if commit.timestamp > synced or (commit.timestamp < synced and times.get(commit, "") >= completed)
    ]


def _completion_times(table: HudiTable) -> dict[Instant, str]:
    return table.list_once("completion times", lambda: _read_completion_times(table))


def _read_completion_times(table: HudiTable) -> dict[Instant, str]:
    layout, commits = table.timeline.layout, table.timeline.commits
    if all(commit.completion_time for commit in commits):
        return {commit: commit.completion_time for commit in commits if commit.completion_time}
    modified_ms = table.list_once(
        TIMELINE_FILE_TIMES, lambda: timeline_file_times(table.storage, table.base_path, layout)
    )
    return {
        commit: commit.completion_time or instant_time_of_millis(table, modified_ms[layout.file_name(commit)])
        for commit in commits
        if layout.file_name(commit) in modified_ms
    }
