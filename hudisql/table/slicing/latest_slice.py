"""The latest slice of a file group.

Follows `AbstractTableFileSystemView` and `HoodieFileGroup` of Hudi 0.15: what is committed or archived
counts, and log files on top of a pending compaction are merged with the slice before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hudisql.storage import join
from hudisql.table.file_slice import BaseFile, FileSlice, LogFile
from hudisql.table.hudi_table import HudiTable
from hudisql.table.slicing.file_groups import FileGroupVersions
from hudisql.table.timeline.instant_files import read_commit


def latest_slice(
    table: HudiTable,
    partition_path: str,
    file_id: str,
    versions: FileGroupVersions,
    as_of: str | None = None,
) -> FileSlice | None:
    """The slice of a file group that readers see, without its external file; None if none is committed.

    Raises CorruptTableError, StorageError.
    """
    timeline = table.timeline
    diverted: list[LogFile] = []
    diverted_from: str | None = None
    for instant_time in sorted(versions, reverse=True):
        if as_of is not None and instant_time > as_of:
            continue
        version = versions[instant_time]
        if instant_time in timeline.pending_compactions:
            # The compaction's own base file, if any, is not finished; its logs go on top of the slice before.
            diverted = version.log_files + diverted
            diverted_from = instant_time
            continue
        if not timeline.is_visible(instant_time):
            continue
        base_file = _committed_base_file(table, version.base_files)
        logs = in_merge_order(version.log_files + diverted)
        if base_file is not None or _holds_rows(logs):
            return FileSlice(partition_path, file_id, instant_time, base_file, logs)
    if diverted_from is None or not _holds_rows(diverted):
        return None
    return FileSlice(partition_path, file_id, diverted_from, None, in_merge_order(diverted))


def _holds_rows(log_files: Iterable[LogFile]) -> bool:
    """False if all log files were rolled back."""
    return any(log_file.holds_rows for log_file in log_files)


def in_merge_order(log_files: Sequence[LogFile]) -> tuple[LogFile, ...]:
    """The log files of a slice in the order in which they are merged.

    With timeline layout 2 it is that in which their commits were requested.
    """
    return tuple(sorted(log_files, key=lambda log: (log.base_instant_time, log.version, log.write_token)))


def _committed_base_file(table: HudiTable, base_files: list[BaseFile]) -> BaseFile | None:
    if len(base_files) < 2:
        return base_files[0] if base_files else None
    # Two attempts of one task have left a file each: the commit metadata names the valid one.
    instant_time = base_files[0].instant_time
    for commit in table.timeline.commits:
        if commit.timestamp == instant_time:
            stats = read_commit(table, commit).write_stats
            written = {join(table.base_path, stat.path) for stat in stats if stat.path}
            base_files = [file for file in base_files if file.path in written] or base_files
    return max(base_files, key=lambda file: file.write_token)
