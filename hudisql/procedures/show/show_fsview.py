"""Procedures that show the file slices of a table: `show_fsview_all` and `show_fsview_latest`.

Columns are those of Hudi 0.15 (`ShowFileSystemViewProcedure`), parameters those of 1.2, where a partition
need not be named. Unlike Hudi 0.15 a missing partition is not created, and `show_fsview_latest` shows log
files written after a compaction was planned as readers see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hudisql.errors import InvalidArgumentError
from hudisql.options.table_call import find_table
from hudisql.procedures.registry import TableArguments, parameter, procedure
from hudisql.procedures.show.shown_rows import filter_parameter, first_rows, limit_parameter
from hudisql.storage import Storage

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.table.file_slice import FileSlice, LogFile
    from hudisql.table.hudi_table import HudiTable
    from hudisql.table.slicing.file_groups import FileGroupVersions

_ALL_PARTITIONS: Final = ("ALL_PARTITIONS", "*/*/*", "")


@dataclass(frozen=True, kw_only=True)
class FileSystemViewArguments(TableArguments):
    """The parameters of `show_fsview_all`."""

    max_instant: str = parameter("", help="only slices of instants before this one")
    include_max: bool = parameter(False, help="include slices of max_instant")
    include_in_flight: bool = parameter(False, help="include slices of incomplete instants")
    exclude_compaction: bool = parameter(False, help="exclude slices of pending compactions")
    limit: int = limit_parameter(10)
    path_regex: str = parameter("ALL_PARTITIONS", help="pattern of partition paths, such as dt=2024-*")
    filter: str = filter_parameter()


@dataclass(frozen=True, kw_only=True)
class LatestFileSystemViewArguments(FileSystemViewArguments):
    """The parameters of `show_fsview_latest`."""

    partition_path: str = parameter("ALL_PARTITIONS", help="only this partition; or a pattern")
    merge: bool = parameter(True, help="include the log files written after a pending compaction was planned")
    include_inflight: bool = parameter(False, help="include_in_flight, as Hudi 0.15 calls it here")


@dataclass(frozen=True)
class FileSliceRow:
    """A file slice; sizes in bytes, the latest log file first."""

    partition: str
    file_id: str
    base_instant: str
    data_file: str
    data_file_size: int
    num_delta_files: int
    total_delta_file_size: int
    delta_files: str


@dataclass(frozen=True)
class LatestFileSliceRow:
    """The latest slice of a file group; `scheduled` log files belong to the slice itself.

    `unscheduled` ones came after a compaction of it was planned. Ratios to the base file are -1 without one.
    """

    partition: str
    file_id: str
    base_instant: str
    data_file: str
    data_file_size: int
    num_delta_files: int
    total_delta_file_size: int
    delta_size_compaction_scheduled: int
    delta_size_compaction_unscheduled: int
    delta_to_base_radio_compaction_scheduled: float
    delta_to_base_radio_compaction_unscheduled: float
    delta_files_compaction_scheduled: str
    delta_files_compaction_unscheduled: str


@procedure("Shows all file slices of a table: its base files and log files.")
def show_fsview_all(context: Context, arguments: FileSystemViewArguments) -> Iterable[FileSliceRow]:
    """A row for each slice, the newest of a group first, including replaced groups until a clean.

    Raises NoSuchTableError, InvalidArgumentError, CorruptTableError, StorageError.
    """
    table = _view_of(find_table(context, arguments.table, arguments.path), arguments)
    shows_planned = arguments.include_in_flight and not arguments.exclude_compaction
    planned = _planned_slices(table) if shows_planned else {}
    rows = (
        _slice_row(table.storage, file_slice)
        for path, file_id, versions in _file_groups(
            table, _partitions(table, arguments.path_regex), replaced_too=True
        )
        for file_slice in _slices(table, path, file_id, versions, planned.get((path, file_id)))
    )
    return first_rows(context, rows, FileSliceRow, arguments.filter, arguments.limit)


@procedure("Shows the latest file slice of each file group.")
def show_fsview_latest(
    context: Context, arguments: LatestFileSystemViewArguments
) -> Iterable[LatestFileSliceRow]:
    """A row for each file group. Raises NoSuchTableError, InvalidArgumentError, StorageError."""
    from hudisql.table.slicing.latest_slice import latest_slice

    arguments = replace(
        arguments, include_in_flight=arguments.include_in_flight or arguments.include_inflight
    )
    if {"path_regex", "partition_path"} <= arguments.given:
        raise InvalidArgumentError("path_regex and partition_path cannot be used together")
    table = _view_of(find_table(context, arguments.table, arguments.path), arguments)
    pattern = arguments.path_regex if "path_regex" in arguments.given else arguments.partition_path
    latest = (
        latest_slice(table, path, file_id, versions)
        if arguments.merge
        else next(_slices(table, path, file_id, versions), None)
        for path, file_id, versions in _file_groups(table, _partitions(table, pattern))
    )
    rows = (_latest_row(table.storage, file_slice) for file_slice in latest if file_slice is not None)
    return first_rows(context, rows, LatestFileSliceRow, arguments.filter, arguments.limit)


def _view_of(table: HudiTable, arguments: FileSystemViewArguments) -> HudiTable:
    """The table restricted to the instants of the arguments; inflight writes count as completed."""
    from hudisql.format.timeline.instant import (
        CLUSTERING,
        COMPACTION,
        REPLACE_COMMIT,
        WRITE_ACTIONS,
        InstantState,
    )

    limit = arguments.max_instant
    instants = []
    for instant in table.timeline.instants:
        time = instant.timestamp
        if limit and not (time < limit or (arguments.include_max and time == limit)):
            continue
        counts = arguments.include_in_flight and instant.action in WRITE_ACTIONS
        is_plan = instant.action in (COMPACTION, CLUSTERING, REPLACE_COMMIT)
        if counts and not instant.is_completed and not is_plan:
            instant = instant.in_state(InstantState.COMPLETED)
        instants.append(instant)
    return replace(table, timeline=replace(table.timeline, instants=tuple(instants)))


def _partitions(table: HudiTable, pattern: str) -> list[str]:
    from hudisql.table.partitions.listed_partitions import list_matching_paths, list_partition_paths

    if pattern in _ALL_PARTITIONS:
        return list_partition_paths(table)
    return list_matching_paths(table, pattern.strip("/"))


def _file_groups(
    table: HudiTable, paths: Sequence[str], *, replaced_too: bool = False
) -> Iterator[tuple[str, str, FileGroupVersions]]:
    """Partition path, file id and versions of the file groups, with replaced ones on request."""
    from hudisql.table.files.snapshot import list_file_versions
    from hudisql.table.timeline.replaced_groups import replaced_file_groups

    replaced = frozenset() if replaced_too else replaced_file_groups(table, None)
    for path, groups in list_file_versions(table, paths).items():
        for file_id in sorted(groups):
            if (path, file_id) not in replaced:
                yield path, file_id, groups[file_id]


def _planned_slices(table: HudiTable) -> dict[tuple[str, str], str]:
    """The instant time of the pending compaction of each file group, by partition path and file id."""
    from hudisql.format.timeline.instant import COMPACTION
    from hudisql.table.timeline.requested_plans import planned_file_groups

    return {
        group: instant.timestamp
        for instant in table.timeline.pending
        if instant.action == COMPACTION
        for group in planned_file_groups(table, instant)
    }


def _slices(
    table: HudiTable,
    path: str,
    file_id: str,
    versions: FileGroupVersions,
    planned: str | None = None,
) -> Iterator[FileSlice]:
    """The visible slices of a file group, and the one of the `planned` compaction, newest first."""
    from hudisql.table.file_slice import FileSlice
    from hudisql.table.slicing.file_groups import FileVersion

    timeline = table.timeline
    for time in sorted({*versions, *([planned] if planned else ())}, reverse=True):
        if time != planned and (time in timeline.pending_compactions or not timeline.is_visible(time)):
            continue
        version = versions.get(time) or FileVersion()
        base_file = None if time == planned else next(iter(version.base_files), None)
        logs = sorted(version.log_files, key=lambda log: (log.version, log.write_token))
        yield FileSlice(path, file_id, time, base_file, tuple(logs))


def _slice_row(storage: Storage, found: FileSlice) -> FileSliceRow:
    base = found.base_file
    return FileSliceRow(
        found.partition_path,
        found.file_id,
        found.base_instant_time,
        "" if base is None else storage.hadoop_uri(base.path),
        0 if base is None else base.length,
        len(found.log_files),
        sum(log_file.length for log_file in found.log_files),
        _as_text(storage, found.log_files, ", "),
    )


def _latest_row(storage: Storage, found: FileSlice) -> LatestFileSliceRow:
    row = _slice_row(storage, found)
    own = [log_file for log_file in found.log_files if log_file.base_instant_time == found.base_instant_time]
    later = [
        log_file for log_file in found.log_files if log_file.base_instant_time != found.base_instant_time
    ]
    own_size, later_size = (sum(log.length for log in logs) for logs in (own, later))
    base_size = row.data_file_size
    return LatestFileSliceRow(
        row.partition,
        row.file_id,
        row.base_instant,
        row.data_file,
        base_size,
        row.num_delta_files,
        row.total_delta_file_size,
        own_size,
        later_size,
        own_size / base_size if base_size else -1.0,
        later_size / base_size if base_size else -1.0,
        _as_text(storage, own, ","),
        _as_text(storage, later, ","),
    )


def _as_text(storage: Storage, log_files: Sequence[LogFile], separator: str) -> str:
    """The text of a Java list of Hudi's `HoodieLogFile`, the latest first."""
    shown = [
        f"HoodieLogFile{{pathStr='{storage.hadoop_uri(log_file.path)}', fileLen={log_file.length}}}"
        for log_file in reversed(log_files)
    ]
    return f"[{separator.join(shown)}]"
