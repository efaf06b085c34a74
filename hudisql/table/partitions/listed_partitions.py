"""The partitions of a table, found by the marker file that every writer leaves in them.

Follows `FileSystemBackedTableMetadata.getAllPartitionPaths` of Hudi 0.15: a directory with
`.hoodie_partition_metadata` is a partition, whatever the layout of directories is. It does not list data
files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from hudisql.errors import CorruptTableError
from hudisql.format.paths.file_names import is_data_file
from hudisql.format.paths.partition_metadata import PARTITION_METADATA_FILE
from hudisql.format.paths.partition_path import parse_partition_value, split_partition_path
from hudisql.format.table_properties import KEY_GENERATOR_PREFIXES
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.storage import FileInfo, join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.path_glob import glob_pattern


@dataclass(frozen=True, slots=True)
class TablePartition:
    """A partition: its path relative to the base path ("" if not partitioned) and its typed values.

    `values` go with `HudiTable.partition_columns`; None is the NULL partition.
    """

    path: str
    values: tuple[object | None, ...]


def list_partitions(table: HudiTable) -> list[TablePartition]:
    """All partitions of the table, sorted by path.

    Directories are listed level by level and in parallel, and only once for a table with a `listing`. Raises
    CorruptTableError for a directory whose name is not a value of its column's type, StorageError.
    """
    return list(
        table.list_once(
            "partitions", lambda: [partition_of(table, path) for path in list_partition_paths(table)]
        )
    )


def partition_of(table: HudiTable, path: str) -> TablePartition:
    """The partition at a path relative to the base path. Raises CorruptTableError if the values don't fit."""
    columns = table.partition_columns
    texts = split_partition_path(path, [column.name for column in columns], url_encode=reads_escaped(table))
    values = []
    for text, column in zip(texts, columns, strict=True):
        try:
            values.append(parse_partition_value(text, column.type))
        except (ValueError, OverflowError) as error:
            raise CorruptTableError(
                f"partition '{path}' of {table.base_path}: '{text}' is not a value of column {column.name} "
                f"({column.type})"
            ) from error
    return TablePartition(path, tuple(values))


def directory_columns(table: HudiTable) -> tuple[pa.Field, ...]:
    """The columns of the directories: the partition columns, or text columns if a key generator names
    directories.

    Text columns have the partition fields' names, and Hive shows them instead of the files' values, as after
    a sync by Hudi itself. Empty if directories cannot be assigned to fields.
    """
    properties = table.properties
    names = properties.partition_fields
    if table.partition_columns or not names:
        return table.partition_columns
    patterns = [properties.get(f"{prefix}output.dateformat") for prefix in KEY_GENERATOR_PREFIXES]
    pattern = next((each for each in patterns if each), None)
    is_clear = len(names) == 1 or properties.hive_style_partitioning or (pattern and "/" not in pattern)
    if any("." in name for name in names) or not is_clear:
        return ()
    return tuple(pa.field(name, pa.string()) for name in names)


def directory_values(table: HudiTable, partition: TablePartition) -> tuple[object, ...]:
    """The value of each of `directory_columns`: typed, or a text (or None) if a key generator names
    directories.

    Raises CorruptTableError.
    """
    return partition.values if table.partition_columns else _directory_texts(table, partition.path)


def _directory_texts(table: HudiTable, path: str) -> tuple[str | None, ...]:
    names = [column.name for column in directory_columns(table)]
    properties = table.properties
    escaped = properties.url_encode_partitioning
    if len(names) < 2 or not properties.hive_style_partitioning:
        return split_partition_path(path, names, url_encode=escaped)
    found = re.fullmatch("/".join(f"{re.escape(name)}=(.*)" for name in names), path)
    if found is None:
        raise CorruptTableError(
            f"partition path '{path}' of {table.base_path} does not name {', '.join(names)}"
        )
    return tuple(
        split_partition_path(text, [name], url_encode=escaped)[0]
        for name, text in zip(names, found.groups(), strict=True)
    )


def reads_escaped(table: HudiTable) -> bool:
    """True if directory names hold escaped values.

    A bootstrap keeps the source's directories, which Hive and Spark have escaped, whatever the table's
    setting is.
    """
    return table.properties.url_encode_partitioning or table.is_bootstrapped


def list_partition_paths(table: HudiTable) -> list[str]:
    """The paths of all partitions, read from storage."""
    storage = table.storage
    found: list[str] = []
    level = [""]
    while level:
        directories = [join(table.base_path, path) for path in level]
        marks = _find_markers(table, directories)
        found += [path for path, mark in zip(level, marks, strict=True) if mark is not None]
        unmarked = [
            (path, directory)
            for path, directory, mark in zip(level, directories, marks, strict=True)
            if mark is None
        ]
        listings = storage.list_directories([directory for _, directory in unmarked])
        level = [
            f"{path}/{entry.name}" if path else entry.name
            for (path, _), entries in zip(unmarked, listings, strict=True)
            for entry in entries
            if entry.is_directory and entry.name != METADATA_DIRECTORY
        ]
    return sorted(found)


def list_matching_paths(table: HudiTable, glob: str) -> list[str]:
    """The paths of the partitions that the glob matches; if one has exactly this path, only that one.

    Raises InvalidArgumentError for a bad glob, StorageError.
    """
    paths = list_partition_paths(table)
    if glob in paths:
        return [glob]
    pattern = glob_pattern(glob)
    return [path for path in paths if pattern.fullmatch(path)]


def _find_markers(table: HudiTable, directories: Sequence[str]) -> list[FileInfo | None]:
    """The marker file of each directory, or None; a text file or a parquet file, as in Hudi."""
    marks = table.storage.infos([join(directory, PARTITION_METADATA_FILE) for directory in directories])
    if not table.properties.partition_metafile_use_base_format:
        return marks
    names = [join(directory, f"{PARTITION_METADATA_FILE}.parquet") for directory in directories]
    return [mark or other for mark, other in zip(marks, table.storage.infos(names), strict=True)]


def list_data_directories(table: HudiTable) -> list[str]:
    """The paths of the directories that hold base files or log files, marked as partitions or not."""
    found: list[str] = []
    level = [""]
    while level:
        listings = table.storage.list_directories([join(table.base_path, path) for path in level])
        by_path = list(zip(level, listings, strict=True))
        found += [path for path, entries in by_path if any(is_data_file(each.path) for each in entries)]
        level = [
            f"{path}/{entry.name}" if path else entry.name
            for path, entries in by_path
            for entry in entries
            if entry.is_directory and entry.name != METADATA_DIRECTORY
        ]
    return sorted(found)
