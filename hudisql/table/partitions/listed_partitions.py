"""The partitions of a table with their typed values.

A wide table is asked for the partitions that a statement needs, not for all of them: by a filter of
directories, by their paths, or by the names of directories alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from hudisql.errors import CorruptTableError
from hudisql.format.paths.file_names import is_data_file
from hudisql.format.paths.partition_path import (
    HIVE_DEFAULT_PARTITION,
    parse_partition_value,
    split_partition_path,
    unescape_partition_value,
)
from hudisql.format.table_properties import KEY_GENERATOR_PREFIXES
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.storage import join
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.path_glob import glob_pattern
from hudisql.table.partitions.table_directories import (
    directories_at_depth,
    list_table_directories,
)

_MOST_TOGETHER: Final = 256
_ISO_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
DirectoryFilter: TypeAlias = Callable[[Sequence[str]], Sequence[bool]]
"""For paths of directories of one depth: True where one of the wanted partitions may be, or may be below."""


@dataclass(frozen=True, slots=True)
class TablePartition:
    """A partition: its path relative to the base path ("" if not partitioned) and its typed values.

    `values` go with `HudiTable.partition_columns`; None is the NULL partition.
    """

    path: str
    values: tuple[object | None, ...]


def list_partitions(table: HudiTable, leads_to: DirectoryFilter | None = None) -> list[TablePartition]:
    """The partitions of the table that the filter keeps, sorted by path; without a filter all of them.

    Directories are listed level by level and in parallel, and only once for a table with a `listing`. Raises
    CorruptTableError for a directory whose name is not a value of its column's type, StorageError.
    """
    if leads_to is None:
        return list(
            table.list_once(
                "partitions", lambda: [partition_of(table, path) for path in list_partition_paths(table)]
            )
        )
    return [partition_of(table, path) for path in list_partition_paths(table, leads_to)]


def few_partitions(table: HudiTable, most: int) -> list[TablePartition] | None:
    """The partitions; None if there are more than `most`, as soon as a level of directories has more.

    Errors as above.
    """
    is_few = True

    def leads_to(paths: Sequence[str]) -> Sequence[bool]:
        nonlocal is_few
        is_few = is_few and len(paths) <= most
        return [is_few] * len(paths)

    partitions = list_partitions(table, leads_to)
    return partitions if is_few and len(partitions) <= most else None


def partitions_at(table: HudiTable, paths: Iterable[str]) -> list[TablePartition]:
    """The partitions among these paths, sorted; no other directories are listed. Errors as above."""
    asked = sorted(set(paths))
    listed = list_table_directories(table, asked)
    return [
        partition_of(table, path)
        for path, directory in zip(asked, listed, strict=True)
        if directory.is_partition
    ]


def named_partitions(table: HudiTable) -> list[TablePartition] | None:
    """All partitions by the names of directories: a directory without the marker may be among them.

    None if the names do not tell: a text may take several directories, as in `eu/berlin`, or a key generator
    names the directories. Raises CorruptTableError, StorageError.
    """
    columns = table.partition_columns
    if not columns or not _has_directory_for_each_value(table):
        return None
    paths = directories_at_depth(table, len(columns))
    if paths is None:
        return None
    if len(columns) == 1 and pa.types.is_temporal(columns[0].type) and not all(map(is_whole_time, paths)):
        return list_partitions(table)
    partitions = (_partition_named(table, path) for path in paths)
    return [partition for partition in partitions if partition is not None]


def first_directories(table: HudiTable) -> list[TablePartition]:
    """The directories in the base path as partitions, of a table with one partition column.

    A directory may lack the marker, and may be the first of a value with slashes.
    """
    paths = directories_at_depth(table, 1) or []
    partitions = (_partition_named(table, path) for path in paths)
    return [partition for partition in partitions if partition is not None]


def walk_partitions(table: HudiTable) -> Iterator[list[TablePartition]]:
    """The partitions in the order of a walk, some at a time: directories are listed as far as it is consumed.

    Raises CorruptTableError, StorageError.
    """
    left, some, is_any_found = [""], 1, False
    while left:
        paths, left = left[:some], left[some:]
        partition_paths, below = _partitions_and_below(table, paths)
        yield [partition_of(table, path) for path in partition_paths]
        is_any_found = is_any_found or bool(partition_paths)
        # Few directories lead down to the first partition.
        left, some = [*below, *left], min(2 * some, _MOST_TOGETHER) if is_any_found else 2


def partitions_along(table: HudiTable, path: str) -> list[TablePartition]:
    """The partitions at this path, above it and below it; no other directories are listed."""
    parts = path.split("/")
    above = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
    for directory, listed in zip(above, list_table_directories(table, above), strict=True):
        if listed.is_partition:
            return [partition_of(table, directory)]
    return [partition_of(table, partition_path) for partition_path in list_partition_paths(table, start=path)]


def possible_partitions(table: HudiTable) -> list[TablePartition]:
    """`named_partitions` if the names of directories tell them, else `list_partitions`."""
    named = named_partitions(table)
    return list_partitions(table) if named is None else named


def is_whole_time(path: str) -> bool:
    """False for `2024`, which is a day since the epoch, or the first directory of `2024/03/01`."""
    return _ISO_DATE.search(path) is not None or path.endswith(HIVE_DEFAULT_PARTITION)


def _has_directory_for_each_value(table: HudiTable) -> bool:
    columns = table.partition_columns
    if len(columns) > 1:
        return True
    return table.properties.url_encode_partitioning or not _is_text(columns[0].type)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _partition_named(table: HudiTable, path: str) -> TablePartition | None:
    try:
        return partition_of(table, path)
    except CorruptTableError:
        return None


def partition_of(table: HudiTable, path: str) -> TablePartition:
    """The partition at a path relative to the base path. Raises CorruptTableError if the values don't fit."""
    return TablePartition(path, leading_values(table, path, table.partition_columns))


def leading_values(table: HudiTable, path: str, columns: Sequence[pa.Field]) -> tuple[object | None, ...]:
    """The values of the first partition columns, whose directories the path has.

    Raises CorruptTableError if the path does not have a directory for each, or a name is not a value.
    """
    texts = _texts_of(table, path, columns)
    values = []
    for text, column in zip(texts, columns, strict=True):
        try:
            values.append(parse_partition_value(text, column.type))
        except (ValueError, OverflowError) as error:
            raise CorruptTableError(
                f"partition '{path}' of {table.base_path}: '{text}' is not a value of column {column.name} "
                f"({column.type})"
            ) from error
    return tuple(values)


def texts_of_path(table: HudiTable, path: str) -> tuple[str | None, ...]:
    """The unescaped text of each partition column in a path, None for NULL. Raises CorruptTableError."""
    return _texts_of(table, path, table.partition_columns)


def _texts_of(table: HudiTable, path: str, columns: Sequence[pa.Field]) -> tuple[str | None, ...]:
    """The texts of the first partition columns; those of timestamps are escaped in any table."""
    is_escaped = reads_escaped(table)
    texts = split_partition_path(path, [column.name for column in columns], url_encode=is_escaped)
    if is_escaped:
        return texts
    return tuple(
        unescape_partition_value(text) if text and pa.types.is_timestamp(column.type) else text
        for text, column in zip(texts, columns, strict=True)
    )


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
    pattern = next((pattern for pattern in patterns if pattern), None)
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


def list_partition_paths(
    table: HudiTable, leads_to: DirectoryFilter | None = None, *, start: str = ""
) -> list[str]:
    """The sorted paths of the table's partitions, level by level; only of those that `leads_to` keeps.

    `start` is the path at or below which they are.

    Raises NoSuchPathError if the base path is missing, StorageError.
    """
    partition_paths: list[str] = []
    level = [start]
    while level:
        found, level = _partitions_and_below(table, level)
        partition_paths += found
        if leads_to is not None:
            level = [path for path, is_kept in zip(level, leads_to(level), strict=True) if is_kept]
    return sorted(partition_paths)


def _partitions_and_below(table: HudiTable, paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Those of the directories that are partitions, and the children of the others."""
    listed = list_table_directories(table, paths)
    below = [path for directory in listed if not directory.is_partition for path in directory.children]
    return [path for path, directory in zip(paths, listed, strict=True) if directory.is_partition], below


def list_matching_paths(table: HudiTable, glob: str) -> list[str]:
    """The paths of the partitions that the glob matches; if one has exactly this path, only that one.

    Raises InvalidArgumentError for a bad glob, StorageError.
    """
    paths = list_partition_paths(table)
    if glob in paths:
        return [glob]
    pattern = glob_pattern(glob)
    return [path for path in paths if pattern.fullmatch(path)]


def list_data_directories(table: HudiTable) -> list[str]:
    """The paths of the directories that hold base files or log files, marked as partitions or not."""
    found: list[str] = []
    level = [""]
    while level:
        listings = table.storage.list_directories([join(table.base_path, path) for path in level])
        by_path = list(zip(level, listings, strict=True))
        found += [path for path, entries in by_path if any(is_data_file(entry.path) for entry in entries)]
        level = [
            f"{path}/{entry.name}" if path else entry.name
            for path, entries in by_path
            for entry in entries
            if entry.is_directory and entry.name != METADATA_DIRECTORY
        ]
    return sorted(found)
