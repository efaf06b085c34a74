"""The file groups of a partition with all their versions, as a listing of the directory shows them.

Follows `HoodieFileGroup` of Hudi 0.15. `snapshot` decides which versions are committed and visible.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from hudisql.format.paths.file_names import (
    PARQUET,
    LogFileName,
    parse_base_file_name,
    parse_change_log_name,
    parse_log_file_name,
)
from hudisql.storage import FileInfo
from hudisql.table.file_slice import BaseFile, LogFile


@dataclass(slots=True)
class FileVersion:
    """The files of one file group with one base instant; `change_logs` are the paths of its change logs."""

    base_files: list[BaseFile] = field(default_factory=list)
    log_files: list[LogFile] = field(default_factory=list)
    change_logs: list[str] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        """All of them."""
        return [
            *(file.path for file in self.base_files),
            *(file.path for file in self.log_files),
            *self.change_logs,
        ]


FileGroupVersions = dict[str, FileVersion]
"""The versions of one file group by base instant time."""


def group_files(entries: Iterable[FileInfo], extension: str = PARQUET) -> dict[str, FileGroupVersions]:
    """The data files among the entries of a partition's directory, by file id and base instant time.

    `extension` is that of the base files.
    """
    groups: dict[str, FileGroupVersions] = defaultdict(lambda: defaultdict(FileVersion))
    change_logs: list[tuple[str, LogFileName]] = []
    for entry in entries:
        if entry.is_directory:
            continue
        name = entry.name
        if (base := parse_base_file_name(name, extension)) is not None:
            groups[base.file_id][base.instant_time].base_files.append(
                BaseFile(entry.path, entry.length, *base)
            )
        elif (log := parse_log_file_name(name)) is not None:
            groups[log.file_id][log.base_instant_time].log_files.append(
                LogFile(entry.path, entry.length, *log)
            )
        elif (log := parse_change_log_name(name)) is not None:
            change_logs.append((entry.path, log))
    for path, log in change_logs:
        if log.file_id in groups and log.base_instant_time in groups[log.file_id]:
            groups[log.file_id][log.base_instant_time].change_logs.append(path)
    return groups
