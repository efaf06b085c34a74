"""Past states of a table: which ones can still be read, and the error that names the earliest of them.

A state is gone if a clean deleted a file that was visible then, or if its instants were archived, so that the
timeline no longer has them. Follows the deletions of `CleanPlanner` and `HoodieTimelineArchiver` of Hudi
0.15; savepointed instants stay. Hudi itself returns the remaining rows for such a query.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from hudisql.errors import NoSuchStateError
from hudisql.format.avro.avro_container import load_codec
from hudisql.format.paths.file_names import FileGroup, parse_base_file_name, parse_log_file_name
from hudisql.format.timeline.instant import CLEAN, Instant, InstantState
from hudisql.storage import join
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import list_file_slices, list_file_versions
from hudisql.table.hudi_table import HudiTable
from hudisql.table.timeline.archived_timeline import (
    archived_cleans_after,
    archived_replacements,
    list_archive_files,
)
from hudisql.table.timeline.instant_files import read_instant
from hudisql.table.timeline.replaced_groups import replaced_file_groups

_PREFER_LATER = "read that state or a later one; savepoints keep the files of a state"
DOWNGRADED_LOGS: Final = (
    "log files of {group} have names of table version 9, and the table was downgraded since: version 6 would "
    "not merge them with their base file"
)
"""Why states before the compaction of a downgrade cannot be used."""


@dataclass(frozen=True, slots=True)
class _DeletedFile:
    """A file that a clean deleted, or plans to delete."""

    clean_time: str
    partition: str
    name: str


@dataclass(frozen=True)
class _Deletions:
    """The files that cleans deleted; and the file groups that archived commits replaced, read if needed."""

    table: HudiTable
    files: Sequence[_DeletedFile]

    @cached_property
    def archived_replacements(self) -> Mapping[FileGroup, str]:
        """The instant time at which each of these file groups was replaced."""
        return archived_replacements(self.table)


@dataclass(slots=True)
class _DeletedVersion:
    """The newest slice of a file group, up to an instant time, that has lost files by a clean."""

    base_instant_time: str = ""
    names: set[str] = field(default_factory=set)


def check_past_state(
    table: HudiTable,
    as_of: str,
    partitions: Sequence[str] | None,
    slices: Collection[FileSlice],
    wanted: Callable[[Collection[str]], Collection[str]] = lambda _: (),
) -> None:
    """Check that `slices` of `partitions` (paths; all for None) are all that was visible at `as_of`.

    `wanted` selects further partitions of the read among those that cleans have named, which are gone. Raises
    NoSuchStateError that names the earliest state.
    """
    check_timeline_reaches(table, as_of)
    deleted = _files_deleted_after(table, as_of)
    concerned = partitions
    if partitions is not None:
        named = {file.partition for file in deleted.files}
        concerned = [*partitions, *wanted(named.difference(partitions))]
    lost = _lost_groups(table, as_of, deleted, slices, concerned)
    if lost:
        partition, file_id = min(lost)
        raise state_gone_error(
            table,
            as_of,
            f"a clean deleted files of {len(lost)} file groups that were visible then, such as "
            f"{join(partition, file_id) if partition else file_id}",
            None if partitions is None else sorted({partition for partition, _ in lost}),
        )
    groups = groups_without_base(table, slices)
    if groups:
        raise state_gone_error(
            table, as_of, DOWNGRADED_LOGS.format(group="/".join(filter(None, min(groups)))), partitions
        )


def groups_without_base(table: HudiTable, slices: Collection[FileSlice]) -> set[FileGroup]:
    """The file groups with a slice of log files only, although base files were written before.

    A downgrade leaves such slices: version 9 names log files after their commits, so with layout 1 the rows
    of the base file seem to be missing. Raises StorageError.
    """
    chosen = [file_slice for file_slice in slices if file_slice.base_file is None]
    if table.timeline.layout.has_completion_times or not chosen:
        return set()
    versions = list_file_versions(table, sorted({file_slice.partition_path for file_slice in chosen}))
    return {
        file_slice.file_group
        for file_slice in chosen
        if any(
            version.base_files and time < file_slice.base_instant_time and table.timeline.is_visible(time)
            for time, version in versions[file_slice.partition_path].get(file_slice.file_id, {}).items()
        )
    }


def check_timeline_reaches(table: HudiTable, as_of: str) -> None:
    """Raise NoSuchStateError if `as_of` is before the first commit, or its instants were archived."""
    timeline = table.timeline
    if not timeline.commits:
        raise NoSuchStateError(
            f"the Hudi table at {table.base_path} has no state as of {as_of}: it has no commit yet"
        )
    if as_of in timeline.savepoints:
        return
    first = timeline.first_active_time or timeline.commits[0].timestamp
    if as_of >= first:
        if as_of < _retained_from(table) and is_archived(table):
            raise state_gone_error(table, as_of, "its files were cleaned, by a clean that is archived", None)
    elif is_archived(table):
        raise state_gone_error(table, as_of, "its instants are archived", None)
    elif as_of < timeline.commits[0].timestamp:
        raise NoSuchStateError(
            f"the Hudi table at {table.base_path} has no state as of {as_of}; its first commit, "
            f"{timeline.commits[0].timestamp}, is the earliest state",
            hint="read that instant or a later one",
        )


def is_archived(table: HudiTable) -> bool:
    """True if instants of the table were archived. Raises StorageError."""
    return bool(list_archive_files(table))


def state_gone_error(
    table: HudiTable, as_of: str, why: str, partitions: Sequence[str] | None
) -> NoSuchStateError:
    """The error that names the earliest remaining state of `partitions` (paths; all for None)."""
    earliest = _earliest_state(table, as_of, partitions)
    found = f"the earliest remaining state is that of {earliest}" if earliest else "no past state can be read"
    return NoSuchStateError(
        f"the state of the Hudi table at {table.base_path} as of {as_of} is gone: {why}; {found}",
        hint=_PREFER_LATER,
    )


def _earliest_state(table: HudiTable, after: str, partitions: Sequence[str] | None) -> str | None:
    """The first commit after an instant time whose state can be read, in all partitions for None."""
    from hudisql.table.partitions.listed_partitions import list_partition_paths

    paths = list_partition_paths(table) if partitions is None else list(partitions)
    deleted = _files_deleted_after(table, after)
    retained, first = _retained_from(table), table.timeline.first_active_time or ""
    for commit in table.timeline.commits:
        time = commit.timestamp
        if time <= after or (time < max(retained, first) and time not in table.timeline.savepoints):
            continue
        slices = list_file_slices(table, paths, time)
        if not _lost_groups(table, time, deleted, slices, partitions) and not groups_without_base(
            table, slices
        ):
            return time
    return None


def lost_file_groups(table: HudiTable, as_of: str, slices: Collection[FileSlice]) -> set[FileGroup]:
    """The file groups whose latest slice at the instant time `as_of` was deleted by a clean.

    `slices` are the remaining ones of that state in `partitions` (paths; all for None). Reads the cleans of
    the timeline and of the archive. Raises CorruptTableError, StorageError.
    """
    return _lost_groups(table, as_of, _files_deleted_after(table, as_of), slices, None)


def _lost_groups(
    table: HudiTable,
    as_of: str,
    deleted: _Deletions,
    slices: Collection[FileSlice],
    partitions: Collection[str] | None,
) -> set[FileGroup]:
    versions = _deleted_versions(deleted.files, as_of, None if partitions is None else set(partitions))
    if not versions:
        return set()
    file_slices = {file_slice.file_group: file_slice for file_slice in slices}
    lost = {group for group, version in versions.items() if not _is_whole(file_slices.get(group), version)}
    lost -= replaced_file_groups(table, as_of)
    # The archive is read only for file groups that seem to be lost.
    return {group for group in lost if deleted.archived_replacements.get(group, "9") > as_of}


def _is_whole(file_slice: FileSlice | None, deleted: _DeletedVersion) -> bool:
    if file_slice is None or file_slice.base_instant_time < deleted.base_instant_time:
        return False
    if file_slice.base_instant_time > deleted.base_instant_time:
        return True
    # A pending clean has not yet deleted all its files.
    files = [log_file.path for log_file in file_slice.log_files]
    if file_slice.base_file is not None:
        files.append(file_slice.base_file.path)
    return deleted.names <= {path.rpartition("/")[2] for path in files}


def _deleted_versions(
    deleted: Collection[_DeletedFile], as_of: str, partitions: set[str] | None
) -> dict[FileGroup, _DeletedVersion]:
    """For each file group the newest slice up to `as_of` that a later clean deleted or plans to delete."""
    deleted_versions: dict[FileGroup, _DeletedVersion] = defaultdict(_DeletedVersion)
    for deleted_file in deleted:
        # Files that an earlier clean deleted were no longer visible.
        is_later = deleted_file.clean_time > as_of
        if not is_later or (partitions is not None and deleted_file.partition not in partitions):
            continue
        file_id, instant_time = _version_of(deleted_file.name)
        version = deleted_versions[deleted_file.partition, file_id]
        if version.base_instant_time < instant_time <= as_of:
            version.base_instant_time, version.names = instant_time, {deleted_file.name}
        elif instant_time == version.base_instant_time:
            version.names.add(deleted_file.name)
    return {group: version for group, version in deleted_versions.items() if version.base_instant_time}


def _files_deleted_after(table: HudiTable, as_of: str) -> _Deletions:
    """The files of the cleans after an instant time, archived ones too; each clean is read once."""
    deleted_files = [
        _DeletedFile(clean.timestamp, partition, name)
        for clean in table.timeline.instants
        if clean.action == CLEAN and clean.timestamp > as_of
        for partition, name in _files_of_clean(table, clean)
    ]
    # No clean deletes what a savepoint protects.
    if as_of not in table.timeline.savepoints:
        deleted_files += [
            _DeletedFile(entry.instant.timestamp, partition, name)
            for entry in archived_cleans_after(table, as_of)
            for partition, name in _files_deleted(entry.record.get("hoodieCleanMetadata") or {})
        ]
    return _Deletions(table, deleted_files)


def _version_of(name: str) -> tuple[str, str]:
    """File id and base instant time of a data file's name; empty for other files."""
    if (base := parse_base_file_name(name)) is not None:
        return base.file_id, base.instant_time
    if (log := parse_log_file_name(name)) is not None:
        return log.file_id, log.base_instant_time
    return "", ""


def _files_of_clean(table: HudiTable, clean: Instant) -> Iterator[tuple[str, str]]:
    """Partition path and name of each file that a clean deleted, or plans to delete if it is pending."""
    if clean.is_completed:
        yield from _files_deleted(_clean_record(table, clean))
        return
    plan = _clean_record(table, clean)
    for partition, infos in (plan.get("filePathsToBeDeletedPerPartition") or {}).items():
        for info in infos:
            yield partition, str(info["filePath"]).rpartition("/")[2]
    for partition, names in (plan.get("filesToBeDeletedPerPartition") or {}).items():
        for name in names:
            yield partition, str(name).rpartition("/")[2]


def _files_deleted(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for partition, metadata in (record.get("partitionMetadata") or {}).items():
        for path in metadata.get("successDeleteFiles") or ():
            yield partition, str(path).rpartition("/")[2]


def _clean_record(table: HudiTable, clean: Instant) -> Mapping[str, Any]:
    schema = "HoodieCleanMetadata" if clean.is_completed else "HoodieCleanerPlan"
    instant = clean if clean.is_completed else clean.in_state(InstantState.REQUESTED)
    content = read_instant(table, instant)
    return load_codec(schema).decode(content, table.instant_path(instant)) if content else {}


def _retained_from(table: HudiTable) -> str:
    """The instant from which the oldest clean of the active timeline kept all states; empty without a clean.

    Earlier cleans, which may be archived, kept these states, too. Cleans by file versions name no instant: if
    some may be archived, no state before the oldest remaining clean is known to be kept.
    """
    for instant in table.timeline.completed:
        if instant.action == CLEAN:
            retained = str(_clean_record(table, instant).get("earliestCommitToRetain") or "")
            return retained or (instant.timestamp if is_archived(table) else "")
    return ""
