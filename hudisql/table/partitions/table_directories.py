"""The directories of a table, each listed once for a table with a `listing`.

Every writer leaves a marker file in a partition. One listing of a directory tells whether it is a partition,
what its files are and which directories are in it. Follows
`FileSystemBackedTableMetadata.getAllPartitionPaths` of Hudi 0.15: a directory with
`.hoodie_partition_metadata` is a partition, whatever the layout of directories is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hudisql.format.paths.partition_metadata import PARTITION_METADATA_FILE
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.storage import FileInfo, join
from hudisql.table.hudi_table import HudiTable

_MARKERS = (PARTITION_METADATA_FILE, f"{PARTITION_METADATA_FILE}.parquet")


@dataclass(slots=True)
class TableDirectory:
    """A listed directory: is it a partition, the paths of the directories in it, its files.

    `files` is None once they are taken. Paths are relative to the base path.
    """

    is_partition: bool
    children: tuple[str, ...]
    files: list[FileInfo] | None


def list_table_directories(table: HudiTable, paths: Sequence[str]) -> list[TableDirectory]:
    """The directories with these paths, in parallel; a missing one below the base path is empty.

    Raises NoSuchPathError if the base path is missing, StorageError.
    """
    known = table.list_once("directories", dict[str, TableDirectory])
    missing = [path for path in paths if path not in known]
    if table.lister is not None:
        listings = table.lister.list_directories(missing)
    else:
        listings = table.storage.list_directories(
            [join(table.base_path, path) for path in missing], missing_ok=missing != [""]
        )
    for path, entries in zip(missing, listings, strict=True):
        known[path] = _directory_of(table, path, entries)
    return [known[path] for path in paths]


def _directory_of(table: HudiTable, path: str, entries: Sequence[FileInfo]) -> TableDirectory:
    files = [entry for entry in entries if not entry.is_directory]
    markers = _MARKERS if table.properties.partition_metafile_use_base_format else _MARKERS[:1]
    return TableDirectory(
        any(file.name in markers for file in files),
        tuple(
            f"{path}/{entry.name}" if path else entry.name
            for entry in entries
            if entry.is_directory and entry.name != METADATA_DIRECTORY
        ),
        files,
    )


def take_files(table: HudiTable, paths: Sequence[str]) -> list[list[FileInfo]]:
    """The files of the directories with these paths; those that were listed are given once."""
    known = table.list_once("directories", dict[str, TableDirectory])
    for path in paths:
        if path in known and known[path].files is None:
            del known[path]
    taken = []
    for directory in list_table_directories(table, paths):
        taken.append(directory.files or [])
        directory.files = None
    return taken


def directories_at_depth(table: HudiTable, depth: int) -> list[str] | None:
    """The paths of all directories of this depth, which are not listed; None if one above is a partition."""
    level = [""]
    for _ in range(depth):
        listed = list_table_directories(table, level)
        if any(table_directory.is_partition for table_directory in listed):
            return None
        level = [path for table_directory in listed for path in table_directory.children]
    return sorted(level)
