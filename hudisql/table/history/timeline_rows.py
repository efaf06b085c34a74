"""The rows of `hudi_query_timeline` and `hudi_filesystem_view`: the timeline and the file slices of a table.

Follows `TimelineRelation` and `FileSystemRelation` of Hudi 1.x (0.15 has neither); values only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hudisql.format.timeline.commit_metadata import CommitMetadata
from hudisql.format.timeline.instant import COMMIT_ACTIONS, Instant, InstantState
from hudisql.table.files.snapshot import list_file_versions
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import list_matching_paths
from hudisql.table.slicing.file_groups import FileVersion
from hudisql.table.timeline.archived_timeline import read_archived_entries
from hudisql.table.timeline.completion_times import instant_time_of_millis
from hudisql.table.timeline.instant_files import read_commit


@dataclass(frozen=True, slots=True)
class QueryTimelineRow:
    """One instant with the counts of its commit metadata; the fields are Hudi's columns, in order."""

    Timestamp: str
    Action: str
    State: str
    Completion_Time: str | None
    File_Name: str
    Total_Bytes_Written: int
    Total_Files_Updated: int
    Total_Partitions_Written: int
    Total_Records_Written: int
    Total_Updated_Records_Written: int
    Total_Write_Errors: int


@dataclass(frozen=True, slots=True)
class FileSystemViewRow:
    """One version of a file group; sizes in bytes. The fields are Hudi's columns, in order."""

    File_ID: str
    Partition_Path: str
    Base_Instant_Time: str
    Base_File_Path: str
    Base_File_Size: int
    Log_File_Count: int
    Log_File_Size: int
    Log_File_Scheduled: int
    Log_File_Unscheduled: int


def timeline_rows(table: HudiTable, *, with_archived: bool = False) -> Iterator[QueryTimelineRow]:
    """The instants of the active timeline, oldest first; each action stands once, in its latest state.

    `with_archived` puts the completed instants of the archive before them. `Completion_Time` is when the file
    of that state was written; the counts of actions that write no rows are -1. Raises CorruptTableError,
    UnsupportedTableError, StorageError.
    """
    if with_archived:
        yield from _archived_rows(table)
    instants = table.timeline.instants
    infos = table.storage.infos([table.instant_path(instant) for instant in instants])
    for instant, info in zip(instants, infos, strict=True):
        counts = _counts_of(_metadata_of(table, instant)) if instant.action in COMMIT_ACTIONS else (-1,) * 6
        yield QueryTimelineRow(
            instant.timestamp,
            instant.completed_action if instant.is_completed else instant.action,
            instant.state.name,
            instant.completion_time
            or (None if info is None else instant_time_of_millis(table, info.modification_time_ms)),
            table.timeline.layout.file_name(instant),
            *counts,
        )


def _archived_rows(table: HudiTable) -> Iterator[QueryTimelineRow]:
    """The completed instants of the archive that are not on the active timeline, too."""
    active = {(instant.timestamp, instant.completed_action) for instant in table.timeline.instants}
    for entry in read_archived_entries(table):
        instant, metadata = entry.instant, entry.commit_metadata
        if not instant.is_completed or (instant.timestamp, instant.completed_action) in active:
            continue
        yield QueryTimelineRow(
            instant.timestamp,
            instant.completed_action,
            instant.state.name,
            instant.completion_time or entry.transition_time,
            table.timeline.layout.file_name(instant),
            *((-1,) * 6 if metadata is None else _counts_of(metadata)),
        )


def _counts_of(metadata: CommitMetadata) -> tuple[int, int, int, int, int, int]:
    stats = list(metadata.write_stats)
    return (
        sum(stat.total_write_bytes for stat in stats),
        sum(stat.prev_commit not in (None, "null") for stat in stats),
        len(metadata.partition_to_write_stats),
        sum(stat.num_writes for stat in stats),
        sum(stat.num_update_writes for stat in stats),
        sum(stat.total_write_errors for stat in stats),
    )


def _metadata_of(table: HudiTable, instant: Instant) -> CommitMetadata:
    if instant.state is InstantState.REQUESTED:
        return CommitMetadata(partition_to_write_stats={})
    return read_commit(table, instant)


def file_system_view_rows(table: HudiTable, subpath: str = "*") -> Iterator[FileSystemViewRow]:
    """The committed versions of all file groups in partitions whose path matches the glob, newest first.

    Replaced file groups are among them until they are cleaned. Raises InvalidArgumentError for a bad glob,
    StorageError.
    """
    for path, groups in list_file_versions(table, list_matching_paths(table, subpath)).items():
        for file_id, versions in sorted(groups.items()):
            for instant_time in sorted(versions, reverse=True):
                if table.timeline.is_visible(instant_time):
                    yield _row_of(table, path, file_id, instant_time, versions[instant_time])


def _row_of(
    table: HudiTable, path: str, file_id: str, instant_time: str, version: FileVersion
) -> FileSystemViewRow:
    base_file = version.base_files[0] if version.base_files else None
    logs = sum(log_file.length for log_file in version.log_files)
    return FileSystemViewRow(
        File_ID=file_id,
        Partition_Path=path,
        Base_Instant_Time=instant_time,
        Base_File_Path="" if base_file is None else table.storage.hadoop_uri(base_file.path),
        Base_File_Size=0 if base_file is None else base_file.length,
        Log_File_Count=len(version.log_files),
        Log_File_Size=logs,
        Log_File_Scheduled=logs,
        Log_File_Unscheduled=0,
    )
