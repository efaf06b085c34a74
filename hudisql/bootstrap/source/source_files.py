"""The source of a bootstrap: a directory of parquet files with its partitions, as values.

Follows Spark's rules for data files (names that begin with `_` or `.` are hidden, empty files have no rows)
and partition values (`key=value` directories, Hive-escaped), and adds layouts whose columns the user names.
Directories of other table formats are refused by name. Knows no Spark and no metastore; `hive_source` handles
tables of the metastore.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from hudisql.bootstrap.blockers import Finding, blocker, name_some, warning
from hudisql.errors import HudisqlError, SourceError, StorageError
from hudisql.format.paths.external_file import ExternalFile
from hudisql.format.paths.file_names import is_hidden
from hudisql.format.paths.ignored_names import is_ignored
from hudisql.format.paths.partition_metadata import PARTITION_METADATA_FILE
from hudisql.format.paths.partition_path import split_partition_path, unescape_partition_value
from hudisql.format.table_properties import PROPERTIES_FILE
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.storage import FileInfo, Storage, ancestors_of, is_inside, join
from hudisql.storage.parallel_reads import read_small

_ACID_DIRECTORY: Final = re.compile(r"(base_\d+|(delete_)?delta_\d+_\d+(_\d+)?)(_v\d+)?")
_KEY_VALUE: Final = re.compile(r"([^=/]+)=(.*)")
# A link back to a parent repeats below itself: the many directories of the first levels are not checked.
_CIRCLES_SHOW_FROM: Final = 2
_PARQUET_MAGIC: Final = b"PAR1"


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition column: its name and the Arrow type its directory texts are read as."""

    name: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """One partition of the source.

    `path` is its partition path in the target, `source_path` its directory relative to the source's base
    path, `location` its absolute directory, `values` the unescaped texts of its partition columns (None for
    NULL).
    """

    path: str
    source_path: str
    location: str
    values: tuple[str | None, ...]
    files: tuple[ExternalFile, ...]


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A data column as the metastore declares it, in the metastore's order."""

    name: str
    type_text: str
    comment: str | None


@dataclass(frozen=True, slots=True)
class TableReadByName:
    """A source table whose files only Spark reads; `kind` as in "an ORC table".

    `ignore` are patterns of file names that are left out, `where` is a condition that chooses the partitions.
    """

    database: str
    name: str
    kind: str
    ignore: tuple[str, ...] = ()
    where: str | None = None

    @property
    def full_name(self) -> str:
        """`database.name`."""
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class BootstrapSource:
    """A whole source: base path, partition columns, chosen partitions and findings.

    `other_locations` are the directories of other partitions (not chosen, or without files); `read_by_name`
    is set if the files are not parquet.
    """

    base_path: str
    partition_columns: tuple[PartitionColumn, ...]
    partitions: tuple[SourcePartition, ...]
    is_hive_style: bool
    is_url_encoded: bool
    declared_columns: tuple[DeclaredColumn, ...] | None = None
    findings: tuple[Finding, ...] = ()
    other_locations: tuple[str, ...] = ()
    read_by_name: TableReadByName | None = None


ChoosePartitions = Callable[[Sequence[PartitionColumn], Sequence[tuple[str | None, ...]]], Sequence[bool]]


@dataclass(frozen=True, slots=True)
class SourceListing:
    """Data files of one directory, by relative directory path; `empty` are zero-byte files, which have no
    rows, `ignored` those that are left out by name.
    """

    directories: tuple[tuple[str, tuple[FileInfo, ...]], ...]
    empty: tuple[str, ...]
    ignored: tuple[FileInfo, ...] = ()


def scan_path_source(
    storage: Storage,
    path: str,
    partition_by: Sequence[PartitionColumn] | None,
    choose: ChoosePartitions | None = None,
    ignore: Sequence[str] = (),
) -> BootstrapSource:
    """Find the partitions and files of a parquet directory.

    `partition_by` names the partition columns in order (None: read from `key=value` directories, as strings),
    `choose` selects partitions, `ignore` are patterns of file names that are left out. Raises SourceError if
    there is no such directory or it belongs to another table format; all other problems are findings.
    """
    check_is_plain_directory(storage, path)
    listing = list_source_files(storage, path, ignore)
    findings = list(describe_left_out(storage, path, [listing], ignore))
    if not listing.directories:
        findings.append(blocker(f"there are no data files in {path}"))
        return BootstrapSource(path, tuple(partition_by or ()), (), False, False, None, tuple(findings))
    layout, problems = _find_layout(path, listing, None if partition_by is None else tuple(partition_by))
    findings += problems
    if layout is None:
        return BootstrapSource(path, tuple(partition_by or ()), (), False, False, None, tuple(findings))
    partitions = [
        SourcePartition(
            directory,
            directory,
            join(path, directory),
            _values_of(directory, layout),
            tuple(external_file(entry) for entry in files),
        )
        for directory, files in listing.directories
    ]
    if choose is not None:
        chosen = choose(layout.columns, [partition.values for partition in partitions])
        partitions = [partition for partition, taken in zip(partitions, chosen, strict=True) if taken]
    is_encoded = any(
        unescape_partition_value(part) != part
        for partition in partitions
        for part in partition.path.split("/")
    )
    return BootstrapSource(
        path,
        layout.columns,
        tuple(partitions),
        layout.is_hive_style,
        is_encoded,
        None,
        tuple(findings),
    )


def check_is_plain_directory(storage: Storage, path: str) -> None:
    """Raise SourceError unless `path` is a directory that no other table format owns."""
    entry = storage.info(path)
    if entry is None:
        raise SourceError(
            f"no such source: {path}", hint="check the path; it must be a directory of parquet files"
        )
    if not entry.is_directory:
        raise SourceError(
            f"the source {path} is a file", hint="give the directory that holds the parquet files"
        )
    names = {child.name: child for child in storage.list_directory(path)}
    if METADATA_DIRECTORY in names or PARTITION_METADATA_FILE in names:
        raise SourceError(f"the source {path} is a Hudi table already", hint="query it as it is")
    kind = "a Delta" if "_delta_log" in names else "an Iceberg" if _is_iceberg_table(storage, path) else None
    if kind is not None:
        raise SourceError(
            f"the source {path} is {kind} table: its directory also holds files that left the table",
            hint="export it as plain parquet first",
        )
    _check_is_not_inside_a_table(storage, path)


def _is_iceberg_table(storage: Storage, path: str) -> bool:
    metadata = storage.info(join(path, "metadata"))
    return (
        metadata is not None
        and metadata.is_directory
        and any(child.name.endswith(".metadata.json") for child in storage.list_directory(metadata.path))
    )


def _check_is_not_inside_a_table(storage: Storage, path: str) -> None:
    for directory in ancestors_of(path):
        # A user who may read the source need not be allowed to read its parent directories.
        with suppress(StorageError):
            if storage.exists(join(directory, PROPERTIES_FILE)):
                raise SourceError(
                    f"the source {path} lies in the Hudi table {directory}", hint="query that table"
                )
            is_delta = storage.exists(join(directory, "_delta_log"))
            if is_delta or _is_iceberg_table(storage, directory):
                raise SourceError(
                    f"the source {path} lies in the {'Delta' if is_delta else 'Iceberg'} table {directory}",
                    hint="export it as plain parquet first",
                )


def list_source_files(storage: Storage, path: str, ignore: Sequence[str] = ()) -> SourceListing:
    """The data files below a directory, grouped by directory and sorted; hidden files and directories left
    out, and files whose name is in a pattern of `ignore`.

    Raises SourceError if a directory is one of Hive's ACID directories, a table of another format or a link
    to a directory above it.
    """
    found: list[tuple[str, tuple[FileInfo, ...]]] = []
    empty: list[str] = []
    ignored: list[FileInfo] = []
    level = [path]
    depth = 0
    while level:
        next_level: list[str] = []
        for directory, entries in zip(level, storage.list_directories(level), strict=True):
            _refuse_table_directory(path, directory, entries)
            shown = [entry for entry in entries if not is_hidden(entry.name)]
            directories = [entry for entry in shown if entry.is_directory]
            for entry in directories:
                _refuse_acid_directory(path, entry)
                if depth >= _CIRCLES_SHOW_FROM:
                    _refuse_circle(storage, path, directory, entry)
            next_level += [entry.path for entry in directories]
            files = [entry for entry in shown if not entry.is_directory]
            ignored += [entry for entry in files if is_ignored(entry.name, ignore)]
            files = [entry for entry in files if not is_ignored(entry.name, ignore)]
            empty += [entry.path for entry in files if entry.length == 0]
            if data_files := tuple(entry for entry in files if entry.length > 0):
                found.append((directory[len(path) :].strip("/"), data_files))
        level = next_level
        depth += 1
    return SourceListing(tuple(sorted(found)), tuple(empty), tuple(ignored))


def _refuse_table_directory(root: str, directory: str, entries: Sequence[FileInfo]) -> None:
    kinds = {METADATA_DIRECTORY: "Hudi", PARTITION_METADATA_FILE: "Hudi", "_delta_log": "Delta"}
    found = next((kinds[entry.name] for entry in entries if entry.name in kinds), None)
    if found is not None:
        raise SourceError(
            f"the source {root} holds the {found} table {directory}, whose directory also has "
            "files that left it",
            hint="give the directory of plain parquet files alone",
        )


def _refuse_acid_directory(root: str, directory: FileInfo) -> None:
    if _ACID_DIRECTORY.fullmatch(directory.name):
        raise SourceError(
            f"the source {root} is a Hive ACID (transactional) table: {directory.path} holds its changes",
            hint="copy it into a plain parquet table first",
        )


def _refuse_circle(storage: Storage, root: str, directory: str, entry: FileInfo) -> None:
    if is_inside(storage.resolve(directory), storage.resolve(entry.path)):
        raise SourceError(
            f"the directories of the source {root} never end: {entry.path} links to a directory above it",
            hint="remove the symbolic link",
        )


def external_file(entry: FileInfo) -> ExternalFile:
    """The source file as the bootstrap index will record it."""
    return ExternalFile(entry.path, entry.length, entry.modification_time_ms)


def describe_left_out(
    storage: Storage, base_path: str, listings: Sequence[SourceListing], ignore: Sequence[str]
) -> Iterator[Finding]:
    """Warnings of files that were left out: of zero bytes, which Apache Hudi cannot read, and by name.

    Ignored files that are parquet have rows that the table lacks: a warning of its own names them.
    """

    def named(paths: Iterable[str]) -> str:
        return name_some([path[len(base_path) :].lstrip("/") for path in paths])

    if empty := [path for listing in listings for path in listing.empty]:
        yield warning(f"zero bytes long, left out: {named(empty)}")
    ignored = [entry for listing in listings for entry in listing.ignored]
    if not ignored:
        return
    yield warning(f"ignored by '{','.join(ignore)}': {named(entry.path for entry in ignored)}")
    are_parquet = read_small(partial(_is_parquet, storage), ignored, ignored[0].path)
    parquet = [entry.path for entry, found in zip(ignored, are_parquet, strict=True) if found]
    if parquet:
        yield warning(
            f"ignored, but parquet, so that the table lacks their rows: {named(parquet)}",
            hint="give a pattern that leaves fewer files out",
        )


def _is_parquet(storage: Storage, entry: FileInfo) -> bool:
    if entry.name.endswith(".parquet"):
        return True
    try:
        with storage.open_input(entry.path, entry.length) as source:
            return bytes(source.read(len(_PARQUET_MAGIC))) == _PARQUET_MAGIC
    except (HudisqlError, OSError):
        return False


@dataclass(frozen=True, slots=True)
class _Layout:
    columns: tuple[PartitionColumn, ...]
    is_hive_style: bool


def _find_layout(
    root: str,
    listing: SourceListing,
    partition_by: tuple[PartitionColumn, ...] | None,
) -> tuple[_Layout | None, list[Finding]]:
    """How the directories name partition values: `key=value`, or bare values whose columns the user named."""
    by_depth: dict[int, list[str]] = {}
    for directory, files in listing.directories:
        depth = len(directory.split("/")) if directory else 0
        by_depth.setdefault(depth, []).append(join(root, directory, files[0].name)[len(root) + 1 :])
    if len(by_depth) > 1:
        found = "; ".join(
            f"depth {depth}: {name_some(names, 'directory')}" for depth, names in sorted(by_depth.items())
        )
        return None, [
            blocker(
                f"the source has data files at different depths, {found}",
                hint="give the directory of one layout, or move the others away; ignore => 'NAME' leaves out"
                " files of other kinds by name",
            )
        ]
    depth = next(iter(by_depth))
    directories = [directory for directory, _ in listing.directories]
    if depth == 0:
        if partition_by:
            return None, [blocker(f"partition_by is given, but {root} has no partition directories")]
        return _Layout((), False), []
    keyed = [
        directory
        for directory in directories
        if all(_KEY_VALUE.fullmatch(part) for part in directory.split("/"))
    ]
    if not keyed:
        return _name_bare_layout(directories, depth, partition_by)
    if len(keyed) < len(directories) or len({_keys_of(directory) for directory in directories}) > 1:
        different = sorted({"/".join(_keys_of(directory)) or directory for directory in directories})
        return None, [blocker(f"the partition directories do not agree: {name_some(different, 'form')}")]
    keys = _keys_of(keyed[0])
    return _type_hive_layout(keys, partition_by)


def _type_hive_layout(
    keys: tuple[str, ...], partition_by: tuple[PartitionColumn, ...] | None
) -> tuple[_Layout | None, list[Finding]]:
    if len({key.lower() for key in keys}) < len(keys):
        return None, [blocker(f"the partition directories repeat a column: {'/'.join(keys)}")]
    if partition_by is None:
        return _Layout(tuple(PartitionColumn(key, pa.string()) for key in keys), True), []
    if [column.name.lower() for column in partition_by] != [key.lower() for key in keys]:
        named = ", ".join(column.name for column in partition_by)
        found = "/".join(f"{key}=…" for key in keys)
        return None, [
            blocker(
                f"partition_by names {named or 'no column'}, but the directories are {found}",
                hint="name the directories' columns in their order, or leave partition_by out",
            )
        ]
    typed = (PartitionColumn(key, column.type) for key, column in zip(keys, partition_by, strict=True))
    return _Layout(tuple(typed), True), []


def _name_bare_layout(
    directories: list[str], depth: int, partition_by: tuple[PartitionColumn, ...] | None
) -> tuple[_Layout | None, list[Finding]]:
    if not partition_by:
        return None, [
            blocker(
                f"the partition directories are not key=value: {name_some(directories, 'directory')}",
                hint=f"name their {depth} column(s) in order, such as partition_by => 'year, month'",
            )
        ]
    if len(partition_by) != depth:
        named = ", ".join(column.name for column in partition_by)
        return None, [
            blocker(
                f"partition_by names {len(partition_by)} column(s), {named}, but the directories are "
                f"{depth} deep"
            )
        ]
    return _Layout(partition_by, False), []


def _keys_of(directory: str) -> tuple[str, ...]:
    matches = [_KEY_VALUE.fullmatch(part) for part in directory.split("/")]
    return tuple(unescape_partition_value(match.group(1)) for match in matches if match is not None)


def _values_of(directory: str, layout: _Layout) -> tuple[str | None, ...]:
    return (
        split_partition_path(directory, [column.name for column in layout.columns]) if layout.columns else ()
    )
