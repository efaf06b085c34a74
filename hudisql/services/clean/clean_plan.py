"""Clean plans: which old file slices are deleted, and which commits stay readable.

Follows `CleanPlanner`, `CleanPlanActionExecutor` and `CleanerUtils` of Hudi 0.15, and `HoodieCleanerPlan`.
Reads the timeline, commit metadata and directories; opens no data file, and deletes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from hudisql.config.config_key import HudiConfig
from hudisql.config.table_service_keys import (
    CLEAN_COMMITS,
    CLEAN_HOURS,
    CLEAN_INCREMENTAL,
    CLEAN_POLICY,
    CLEAN_TRIGGER,
    CLEAN_TRIGGER_COMMITS,
    CLEAN_VERSIONS,
)
from hudisql.errors import CorruptTableError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.paths.file_names import FileGroup
from hudisql.format.timeline.active_timeline import Timeline
from hudisql.format.timeline.instant import (
    BOOTSTRAP_INSTANT_TIMES,
    CLEAN,
    COMPACTION,
    WRITE_ACTIONS,
    Instant,
    InstantState,
    instant_time_at,
)
from hudisql.services.clean.clean_metadata import SAVEPOINTED_TIMESTAMPS, CleanMetadata, read_clean_metadata
from hudisql.services.clean.clean_sources import SourceDeletion, plan_source_files
from hudisql.services.compaction.compaction_plan import read_compaction_plan
from hudisql.storage import FileInfo, join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import list_partition_paths
from hudisql.table.partitions.table_directories import take_files
from hudisql.table.slicing.completion_slicing import completion_slicing
from hudisql.table.slicing.file_groups import FileGroupVersions, group_files
from hudisql.table.slicing.latest_slice import latest_slice
from hudisql.table.timeline.instant_files import read_commit, read_instant
from hudisql.table.timeline.replaced_groups import replacement_times
from hudisql.table.timeline.savepoint_files import savepointed_files

_PLAN_VERSION: Final = 2
_AT_ONCE: Final = 500


class CleanPolicy(StrEnum):
    """What a clean retains besides the newest slice of each file group (Hudi's `HoodieCleaningPolicy`)."""

    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


@dataclass(frozen=True, slots=True)
class CleanOptions:
    """When a clean is due and what it retains; the defaults are those of the settings."""

    policy: CleanPolicy = CleanPolicy[CLEAN_POLICY.default_value]
    commits_retained: int = CLEAN_COMMITS.default_value
    hours_retained: int = CLEAN_HOURS.default_value
    versions_retained: int = CLEAN_VERSIONS.default_value
    trigger_commits: int = CLEAN_TRIGGER_COMMITS.default_value
    incremental: bool = CLEAN_INCREMENTAL.default_value


def clean_options(config: HudiConfig) -> CleanOptions:
    """The options of Hudi's settings. Raises SettingsError."""
    config.get(CLEAN_TRIGGER)
    return CleanOptions(
        policy=CleanPolicy(config.get(CLEAN_POLICY)),
        commits_retained=config.get(CLEAN_COMMITS),
        hours_retained=config.get(CLEAN_HOURS),
        versions_retained=config.get(CLEAN_VERSIONS),
        trigger_commits=config.get(CLEAN_TRIGGER_COMMITS),
        incremental=config.get(CLEAN_INCREMENTAL),
    )


@dataclass(frozen=True, slots=True)
class FileToClean:
    """A file to delete, as URI; `is_source` marks an external file of a bootstrap."""

    uri: str
    is_source: bool = False


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """The files that one clean deletes, by partition, and the partitions that become empty.

    `earliest_retained` is the oldest commit whose state can be read afterwards; None with
    KEEP_LATEST_FILE_VERSIONS. `last_completed` is the newest commit that the plan has read.
    """

    earliest_retained: Instant | None
    last_completed: str
    policy: str
    files: Mapping[str, tuple[FileToClean, ...]]
    partitions_to_delete: tuple[str, ...] = ()
    extra_metadata: Mapping[str, str] | None = field(default=None)
    version: int = _PLAN_VERSION

    def to_avro(self) -> bytes:
        """The content of `<t>.clean.requested`."""
        earliest = self.earliest_retained
        record = {
            "earliestInstantToRetain": None
            if earliest is None
            else {
                "timestamp": earliest.timestamp,
                "action": earliest.action,
                "state": earliest.state.name,
            },
            "lastCompletedCommitTimestamp": self.last_completed,
            "policy": self.policy,
            "filesToBeDeletedPerPartition": {},
            "version": self.version,
            "filePathsToBeDeletedPerPartition": {
                partition: [{"filePath": file.uri, "isBootstrapBaseFile": file.is_source} for file in files]
                for partition, files in self.files.items()
            },
            "partitionsToBeDeleted": list(self.partitions_to_delete),
            "extraMetadata": None if self.extra_metadata is None else dict(self.extra_metadata),
        }
        return load_codec("HoodieCleanerPlan").encode(record)


def parse_clean_plan(content: bytes, path: str, table: HudiTable) -> CleanPlan:
    """A plan of hudisql or Apache Hudi, version 1 or 2. Raises CorruptTableError."""
    found = load_codec("HoodieCleanerPlan").decode(content, path)
    try:
        return clean_plan_of(found, table)
    except KeyError as error:
        raise CorruptTableError(f"cannot decode {path}: {error}") from error


def clean_plan_of(found: Mapping[str, Any], table: HudiTable) -> CleanPlan:
    """The Avro record of a plan. Raises KeyError for a missing field or an unknown value."""
    earliest = found.get("earliestInstantToRetain")
    by_path = found.get("filePathsToBeDeletedPerPartition") or {}
    files = {
        partition: tuple(
            FileToClean(str(record["filePath"]), bool(record["isBootstrapBaseFile"])) for record in some
        )
        for partition, some in by_path.items()
    }
    # Version 1 has names, relative to the partition's directory.
    for partition, names in (found.get("filesToBeDeletedPerPartition") or {}).items() if not files else ():
        directory = join(table.base_path, partition) if partition else table.base_path
        files[partition] = tuple(FileToClean(join(directory, name)) for name in names)
    return CleanPlan(
        earliest_retained=earliest
        and Instant(earliest["timestamp"], earliest["action"], InstantState[earliest["state"]]),
        last_completed=found.get("lastCompletedCommitTimestamp") or "",
        policy=str(found["policy"]),
        files=files,
        partitions_to_delete=tuple(found.get("partitionsToBeDeleted") or ()),
        extra_metadata=found.get("extraMetadata"),
        version=found.get("version") or 1,
    )


def read_clean_plan(table: HudiTable, instant: Instant) -> CleanPlan:
    """The plan of a clean that is pending or completed."""
    requested = instant.in_state(InstantState.REQUESTED)
    return parse_clean_plan(read_instant(table, requested), table.instant_path(requested), table)


def last_clean(table: HudiTable) -> CleanMetadata | None:
    """The metadata of the newest completed clean. Raises CorruptTableError, StorageError."""
    for instant in reversed(table.timeline.completed):
        if instant.action == CLEAN:
            return read_clean_metadata(table, instant)
    return None


def earliest_commit_to_retain(
    timeline: Timeline, options: CleanOptions, now: datetime, *, counts_compactions: bool = True
) -> Instant | None:
    """The oldest commit whose state stays readable (`CleanerUtils.getEarliestCommitToRetain`).

    None if there are not enough commits, or the policy counts file versions. `now` is the current time on the
    timeline's clock. A pending write, and with `counts_compactions` a pending compaction, keeps the commit
    before it.
    """
    commits = timeline.commits
    if options.policy is CleanPolicy.KEEP_LATEST_COMMITS and len(commits) > options.commits_retained:
        number = len(commits) - options.commits_retained
        # Without a commit to retain Hudi does not find one, either.
        chosen = commits[number] if number < len(commits) else None
        pending = [
            instant.timestamp
            for instant in timeline.pending
            if instant.action in WRITE_ACTIONS and (counts_compactions or instant.action != COMPACTION)
        ]
        if chosen is not None and pending and chosen.timestamp > pending[0]:
            before = [commit for commit in commits if commit.timestamp < pending[0]]
            return before[-1] if before else None
        return chosen
    if options.policy is CleanPolicy.KEEP_LATEST_BY_HOURS:
        least = instant_time_at(now - timedelta(hours=options.hours_retained))
        return next((commit for commit in commits if commit.timestamp >= least), None)
    return None


def is_clean_due(table: HudiTable, options: CleanOptions) -> bool:
    """True if enough commits were completed since the last clean (Hudi's trigger NUM_COMMITS).

    Raises CorruptTableError, StorageError.
    """
    return commits_since_clean(table) >= options.trigger_commits


def commits_since_clean(table: HudiTable) -> int:
    """The number of commits that completed after the last clean."""
    last = last_clean(table)
    since = "" if last is None else last.last_completed
    return sum(commit.timestamp > since for commit in table.timeline.commits)


def plan_clean(
    table: HudiTable,
    options: CleanOptions,
    now: datetime,
    looked_at_until: str = "",
    sources: SourceDeletion | None = None,
) -> CleanPlan | None:
    """The files that a clean of the opened table deletes; None if there is nothing to delete.

    `looked_at_until` is an earlier plan's earliest commit to retain, if that plan found nothing to delete.
    With `sources` the plan includes the source files that are not needed afterwards. Raises
    CorruptTableError, StorageError, MetastoreError.
    """
    earliest = earliest_commit_to_retain(table.timeline, options, now)
    if earliest is None and options.policy is not CleanPolicy.KEEP_LATEST_FILE_VERSIONS:
        return None
    table = table.listed_once()
    partitions = _partitions_to_look_at(table, options, earliest, looked_at_until)
    paths, emptied = _superfluous_files(table, partitions, options, earliest)
    external = {} if sources is None else plan_source_files(table, paths, sources)
    if not paths and not external:
        return None
    savepoints = sorted(table.timeline.savepoints) if table.properties.partition_fields else []
    return CleanPlan(
        earliest_retained=earliest,
        last_completed=table.timeline.commits[-1].timestamp,
        policy=options.policy.value,
        files={
            partition: (
                *(FileToClean(table.storage.hadoop_uri(path)) for path in paths.get(partition, ())),
                *(FileToClean(table.storage.hadoop_uri(path), True) for path in external.get(partition, ())),
            )
            for partition in {**paths, **external}
        },
        partitions_to_delete=tuple(emptied),
        extra_metadata={SAVEPOINTED_TIMESTAMPS: ",".join(savepoints)} if savepoints else {},
    )


def _superfluous_files(
    table: HudiTable, partitions: Sequence[str], options: CleanOptions, earliest: Instant | None
) -> tuple[dict[str, list[str]], list[str]]:
    """The paths of the files to delete by partition, and the partitions that become empty."""
    files: dict[str, list[str]] = {}
    emptied: list[str] = []
    if not partitions:
        return files, emptied
    planner = _Planner(table, options, earliest)
    for start in range(0, len(partitions), _AT_ONCE):
        some = partitions[start : start + _AT_ONCE]
        # A commit may name a partition that an earlier clean has deleted: it has no files.
        for path, entries in zip(some, take_files(table, some), strict=True):
            found = planner.files_to_clean(path, entries)
            if found:
                files[path] = found
            if found and path and planner.is_emptied(path, entries, found):
                emptied.append(path)
    return files, emptied


def _partitions_to_look_at(
    table: HudiTable, options: CleanOptions, earliest: Instant | None, looked_at_until: str
) -> list[str]:
    """The partitions in which slices may have become superfluous since the last clean, or all of them."""
    first = table.timeline.first_active_time
    if not options.incremental or earliest is None or first is None:
        return list_partition_paths(table)
    last = last_clean(table)
    since = max(looked_at_until, "" if last is None else last.earliest_retained)
    # The first commit of a bootstrapped table: nothing is archived before it.
    if since < first and (last is not None or first not in BOOTSTRAP_INSTANT_TIMES):
        return list_partition_paths(table)
    written = {
        instant.timestamp: instant
        for instant in table.timeline.commits
        # A bootstrap writes the first slice of each file group.
        if since <= instant.timestamp < earliest.timestamp
        and instant.timestamp not in BOOTSTRAP_INSTANT_TIMES
    }
    respected = frozenset() if last is None else last.savepoints
    for instant_time in respected - table.timeline.savepoints:
        # Partitions that a deleted savepoint protected are checked again.
        commit = next(
            (instant for instant in table.timeline.commits if instant.timestamp == instant_time), None
        )
        if commit is None:
            return list_partition_paths(table)
        written[instant_time] = commit
    # Files that the last clean could not delete are tried again.
    found = (
        set()
        if last is None
        else {partition.partition_path for partition in last.partitions if partition.failed}
    )
    for commit in written.values():
        metadata = read_commit(table, commit)
        found |= metadata.partition_to_write_stats.keys()
        found |= (metadata.partition_to_replace_file_ids or {}).keys()
    return sorted(found)


class _Planner:
    """The state that all partitions of one plan share: savepoints, replacements and pending compactions."""

    def __init__(self, table: HudiTable, options: CleanOptions, earliest: Instant | None) -> None:
        self._table = table
        self._options = options
        self._earliest = None if earliest is None else earliest.timestamp
        self._savepointed = savepointed_files(table)
        self._replaced = replacement_times(table)
        self._compacted = dict(_pending_compactions(table))
        self._slicing = completion_slicing(table) if table.timeline.layout.has_completion_times else None
        self._replaced_lately = {
            partition for (partition, _), time in self._replaced.items() if not self._is_over(time)
        }

    def files_to_clean(self, partition: str, entries: Collection[FileInfo]) -> list[str]:
        """The paths of the partition's files to delete."""
        found: list[str] = []
        for file_id, versions in sorted(self._file_groups(partition, entries).items()):
            committed = self._committed(versions)
            replaced_at = self._replaced.get((partition, file_id))
            if replaced_at is not None:
                if self._is_over(replaced_at):
                    compaction = self._compacted.get((partition, file_id))
                    chosen = [
                        time
                        for time in committed
                        if not _is_needed(time, compaction) and not self._is_savepointed(versions, time)
                    ]
                    found += [path for time in chosen for path in versions[time].paths]
                continue
            chosen = self._versions_to_clean(partition, file_id, versions, committed)
            found += [path for time in chosen for path in versions[time].paths]
        return found

    def _file_groups(self, partition: str, entries: Collection[FileInfo]) -> dict[str, FileGroupVersions]:
        groups = group_files(entries)
        return groups if self._slicing is None else self._slicing.slice_partition(partition, groups)

    def is_emptied(self, partition: str, entries: Collection[FileInfo], deleted: Collection[str]) -> bool:
        """True if all data files of the partition, also uncommitted ones, are in `deleted`."""
        gone = set(deleted)
        return partition not in self._replaced_lately and all(
            gone.issuperset(version.paths)
            for versions in group_files(entries).values()
            for version in versions.values()
        )

    def _is_over(self, replaced_at: str) -> bool:
        """True if no retained state needs the groups that were replaced at that time."""
        return self._earliest is None or replaced_at < self._earliest

    def _committed(self, versions: FileGroupVersions) -> list[str]:
        """The instants of the committed slices, newest first; a pending compaction begins one as well."""
        timeline = self._table.timeline
        return [
            time
            for time in sorted(versions, reverse=True)
            if time in timeline.pending_compactions or timeline.is_visible(time)
        ]

    def _versions_to_clean(
        self, partition: str, file_id: str, versions: FileGroupVersions, committed: list[str]
    ) -> list[str]:
        compaction = self._compacted.get((partition, file_id))
        if compaction is not None and compaction[0] not in committed:
            # As in Hudi's view: the compaction's slice exists before its first log file.
            committed = sorted([*committed, compaction[0]], reverse=True)
        if self._earliest is None:
            chosen = self._beyond_versions(committed, compaction)
        else:
            chosen = self._before_earliest(committed, compaction, self._earliest)
        # Whatever the timeline says: files that readers see now stay.
        latest = latest_slice(self._table, partition, file_id, versions) if chosen else None
        return [
            time
            for time in chosen
            if time in versions
            and not self._is_savepointed(versions, time)
            and (latest is None or time < latest.base_instant_time)
        ]

    def _before_earliest(
        self, committed: list[str], compaction: tuple[str, str] | None, earliest: str
    ) -> list[str]:
        """All slices that no state since the earliest retained commit needs."""
        older = [time for time in committed if time < earliest]
        kept = {committed[0], older[0]} if older else set()
        return [time for time in older if time not in kept and not _is_needed(time, compaction)]

    def _beyond_versions(self, committed: list[str], compaction: tuple[str, str] | None) -> list[str]:
        """All slices but the newest ones; those that a pending compaction needs count as one."""
        free = [time for time in committed if not _is_needed(time, compaction)]
        kept = self._options.versions_retained - (compaction is not None)
        return free[max(kept, 0) :]

    def _is_savepointed(self, versions: FileGroupVersions, time: str) -> bool:
        return any(path.rpartition("/")[2] in self._savepointed for path in versions[time].paths)


def _is_needed(time: str, compaction: tuple[str, str] | None) -> bool:
    return compaction is not None and time >= compaction[1]


def _pending_compactions(table: HudiTable) -> Iterator[tuple[FileGroup, tuple[str, str]]]:
    """The file groups of pending compactions: the compaction's instant, and that of the slice it merges."""
    for instant_time in sorted(table.timeline.pending_compactions):
        for operation in read_compaction_plan(table, instant_time).operations:
            yield (operation.partition_path, operation.file_id), (instant_time, operation.base_instant_time)
