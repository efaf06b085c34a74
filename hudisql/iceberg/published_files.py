"""Which files of a Hudi table an Iceberg table would have, and what keeps it from being published.

Skeletons (RFC-12) stand for the source files that they point to; rewritten file groups for their base files.
Slices with log files are named here; `merged_slices` writes files for what the log files change. Only states
that Iceberg readers give as hudisql does are published: all others are refused by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from hudisql.errors import CorruptTableError, SourceChangedError, UnsupportedTableError
from hudisql.format.timeline.instant import DELTA_COMMIT, RESTORE, ROLLBACK
from hudisql.iceberg.data_file import Footer, footer_of, has_only, misread_columns, old_calendar
from hudisql.iceberg.iceberg_schema import assign_ids, children, iceberg_fields, primitive_name
from hudisql.read.files.parquet_rows import read_footer
from hudisql.read.merge.merge_mode import LogMergeConfig, log_merge_config_for
from hudisql.read.slice.slice_reader import check_external_files
from hudisql.storage import Storage
from hudisql.storage.parallel_reads import read_small
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.committed_slices import UNCHANGED_SOURCES, WRITTEN_FOOTERS
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import TablePartition, list_partitions
from hudisql.table.partitions.registered_partitions import (
    RegisteredPartitions,
    registered_partitions,
    registered_slices,
    with_registered,
)

PARTITION_TYPES: Final = frozenset({"string", "int", "long", "date", "boolean"})
_LOG_WRITERS: Final = frozenset({DELTA_COMMIT, ROLLBACK, RESTORE})
_CLUSTER: Final = "rewrite its rows, for instance by CALL run_clustering"
_REWRITE: Final = "CALL rewrite_bootstrap_files rewrites just the partitions of such files"
_LIFT: Final = "CALL resync_bootstrap(…, lift => …) writes the rows of such partitions as files of the table"


class FileKind(Enum):
    """What a published file is."""

    SOURCE = auto()
    """A source file of a skeleton."""
    REGISTERED = auto()
    """A source file of a register-only partition."""
    BASE = auto()
    """A base file of the Hudi table."""
    LOG_ROWS = auto()
    """The rows that the log files of a slice add or change."""
    DELETES = auto()
    """The positions of the rows that the log files of a slice change or delete."""


_WAYS_OUT: Final = {FileKind.SOURCE: _REWRITE, FileKind.REGISTERED: _LIFT}


@dataclass(frozen=True)
class VectorPlace:
    """The blob of a deletion vector in a puffin file, in bytes, and the number of its positions."""

    offset: int
    length: int
    positions: int


@dataclass(frozen=True)
class PublishedFile:
    """A file of the Iceberg table; `length` in bytes, `deletes_from` is the path of the data file that
    position deletes apply to. It is a parquet file, or with a `vector` a puffin file.
    """

    path: str
    length: int
    values: tuple[object | None, ...]
    kind: FileKind
    deletes_from: str | None = None
    vector: VectorPlace | None = None


@dataclass(frozen=True)
class LogSlice:
    """A slice with log files: `name` is another one for each state, `file` is its base or source file."""

    name: str
    file_slice: FileSlice
    values: tuple[object | None, ...]
    file: PublishedFile | None


@dataclass(frozen=True)
class TableFiles:
    """The source and base files to publish, and the slices with log files, which merge by
    `log_merge_config`.
    """

    files: tuple[PublishedFile, ...]
    log_slices: tuple[LogSlice, ...]
    log_merge_config: LogMergeConfig | None


def table_files(table: HudiTable, partitions: Sequence[TablePartition] | None = None) -> TableFiles:
    """The data files of the table as it stands, or of these partitions.

    Raises UnsupportedTableError for a state that Iceberg readers would read otherwise, SourceChangedError,
    CorruptTableError, StorageError.
    """
    _check_table(table)
    partitions = partitions_to_publish(table) if partitions is None else partitions
    by_path = {partition.path: partition.values for partition in partitions}
    slices = load_file_slices(table, partitions)
    for file_slice in slices:
        _check_slice(table, file_slice)
    unchanged = table.list_once(UNCHANGED_SOURCES, set[str])
    unknown = [
        file_slice
        for file_slice in slices
        if file_slice.external_file and file_slice.external_file.path not in unchanged
    ]
    slices += slices_of_registered(table, registered_partitions(table), by_path, slices)
    if changed := check_external_files(table.storage, unknown):
        raise SourceChangedError(
            f"the source file {changed[0]} was modified after the bootstrap, which Iceberg readers do not "
            "notice",
            hint="restore its modification time (cp -p, distcp -pt)",
        )
    config = log_merge_config_for(table, slices)
    files: list[PublishedFile] = []
    log_slices: list[LogSlice] = []
    for file_slice in slices:
        values = by_path[file_slice.partition_path]
        file = _file_of(file_slice, values)
        if file is not None:
            files.append(file)
        if file_slice.has_log_files:
            name = _slice_name(table, file_slice, config)
            log_slices.append(LogSlice(name, file_slice, values, file))
    return TableFiles(tuple(files), tuple(log_slices), config)


def partitions_to_publish(table: HudiTable) -> list[TablePartition]:
    """All partitions, also register-only ones. Raises CorruptTableError, StorageError."""
    return with_registered(table, list_partitions(table), registered_partitions(table))


def slices_of_registered(
    table: HudiTable,
    registered: RegisteredPartitions,
    paths: Iterable[str],
    slices: Iterable[FileSlice],
) -> list[FileSlice]:
    """The files of those of the partitions with these paths that are register-only; `slices` are of Hudi's
    files. Raises the errors of `registered_slices`.
    """
    written = {file_slice.partition_path for file_slice in slices}
    return registered_slices(table, registered.among(paths), written)


def _slice_name(table: HudiTable, file_slice: FileSlice, config: LogMergeConfig | None) -> str:
    """A name of the slice's state: its file group, its base instant and a hash of all that its rows follow
    from.

    Log files may have blocks of pending instants: these count once the instant is completed.
    """
    external, base = file_slice.external_file, file_slice.base_file
    files = [file for file in (external, base, *file_slice.log_files) if file is not None]
    pending = [instant.timestamp for instant in table.timeline.pending if instant.action in _LOG_WRITERS]
    mode = None if config is None else config.merge_mode
    lines = [file_slice.partition_path, str(table.schema), repr(mode), *pending]
    lines += [f"{file.path} {file.length}" for file in files]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return f"{file_slice.file_id}_{file_slice.base_instant_time}_{digest[:16]}"


def _check_table(table: HudiTable) -> None:
    properties = table.properties
    columns = table.partition_columns
    if properties.partition_fields and not columns:
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} is not published as Iceberg: its key generator makes "
            "directory names that are not the values of the partition columns"
        )
    for column in columns:
        if primitive_name(column.type) not in PARTITION_TYPES:
            raise UnsupportedTableError(
                f"the Hudi table at {table.base_path} is not published as Iceberg: its partition column "
                f"{column.name} is {column.type}",
                hint="string, int, bigint, date and boolean are published",
            )
    iceberg_fields(table.schema, assign_ids({}, [table.schema]))


def _check_slice(table: HudiTable, file_slice: FileSlice) -> None:
    where = f"partition '{file_slice.partition_path}' of {table.base_path}"
    stored = file_slice.columns_in_base(table.schema)
    if stored is table.schema:
        return
    change = None
    if not _same_names(stored, table.schema):
        change = "columns were renamed or dropped"
    elif double := _first_double(pa.struct(list(stored)), pa.struct(list(table.schema))):
        change = (
            f"the FLOAT column {double} became a DOUBLE, whose values Hudi takes from the texts of the "
            "floats (1.1) and Iceberg from their bits (1.100000023841858)"
        )
    if change is not None:
        name = file_slice.base_file.path if file_slice.base_file else file_slice.file_id
        raise UnsupportedTableError(
            f"{where} is not published as Iceberg: {name} was written before {change}",
            hint="rewrite its rows, for instance by UPDATE, or by CALL run_clustering",
        )


def _first_double(old: pa.DataType, new: pa.DataType) -> str | None:
    """The path of the first FLOAT of `old` that is a DOUBLE in `new`, which has the same names first."""
    for (name, before), (_, after) in zip(children(old), children(new), strict=False):
        if (before, after) == (pa.float32(), pa.float64()):
            return name
        if below := _first_double(before, after):
            return f"{name}.{below}"
    return None


def _same_names(stored: pa.Schema, current: pa.Schema) -> bool:
    def names(data_type: pa.DataType) -> list[object]:
        return [(name, names(child)) for name, child in children(data_type)]

    as_struct = [names(pa.struct(list(schema))) for schema in (stored, current)]
    return as_struct[0] == as_struct[1]


def _file_of(file_slice: FileSlice, values: tuple[object | None, ...]) -> PublishedFile | None:
    external, base = file_slice.external_file, file_slice.base_file
    file = external or base
    if file is None:
        return None
    kind = FileKind.BASE if external is None else FileKind.SOURCE
    if file_slice.is_register_only:
        kind = FileKind.REGISTERED
    return PublishedFile(file.path, file.length, values, kind)


def read_footers(table: HudiTable, files: Sequence[PublishedFile]) -> list[Footer]:
    """The footers of the files, read in parallel but for those that the statement has written.

    Raises CorruptTableError, StorageError.
    """
    written = table.list_once(WRITTEN_FOOTERS, dict[str, pq.FileMetaData])

    def footer(file: PublishedFile) -> pq.FileMetaData:
        return written.get(file.path) or _metadata(table.storage, file)

    found = read_small(footer, files, files[0].path if files else "")
    footers: list[Footer] = []
    for metadata in found:
        footers.append(footer_of(metadata, footers[-1] if footers else None))
    return footers


@dataclass(frozen=True)
class MisreadFile:
    """A file that Iceberg readers would misread, and why."""

    file: PublishedFile
    problem: str


def read_checked_footers(table: HudiTable, files: Sequence[PublishedFile]) -> list[Footer]:
    """The footers of source and base files.

    Raises UnsupportedTableError that names the first file that Iceberg readers would misread,
    CorruptTableError, StorageError.
    """
    footers = read_footers(table, files)
    if problems := misread_files(table, files, footers):
        refuse_misread(table, problems[0], len(problems))
    return footers


def misread_files(
    table: HudiTable, files: Sequence[PublishedFile], footers: Sequence[Footer]
) -> list[MisreadFile]:
    """Those of the source and base files that Iceberg readers would misread."""
    columns = dict.fromkeys(footer.columns for footer in footers)
    of_columns = {some: misread_columns(some, table.schema) for some in columns}
    return [
        MisreadFile(file, problem)
        for file, footer in zip(files, footers, strict=True)
        if (
            problem := of_columns[footer.columns]
            or old_calendar(footer, table.schema)
            or _partition_column_inside(table, file, footer)
        )
    ]


def refuse_misread(table: HudiTable, first: MisreadFile, count: int) -> NoReturn:
    """Raise UnsupportedTableError for so many files that Iceberg readers would misread; it names one."""
    others = f" ({count} such files)" if count > 1 else ""
    raise UnsupportedTableError(
        f"the Hudi table at {table.base_path} is not published as Iceberg: in {first.file.path} "
        f"{first.problem}{others}",
        hint=_WAYS_OUT.get(first.file.kind, _CLUSTER),
    )


def _partition_column_inside(table: HudiTable, file: PublishedFile, footer: Footer) -> str | None:
    """A problem if readers may take a value of a partition column from the file that differs from the
    directory's.
    """
    paths = footer.columns.paths
    for column, value in zip(table.partition_columns, file.values, strict=True):
        if column.name not in paths:
            continue
        if file.kind is not FileKind.BASE:
            return f"partition column {column.name} is also a column, whose values readers may take"
        if not has_only(footer, paths.index(column.name), value, primitive_name(column.type)):
            return f"partition column {column.name} has other values than {value!r}, that of its directory"
    return None


def _metadata(storage: Storage, file: PublishedFile) -> pq.FileMetaData:
    try:
        return read_footer(storage, file.path, file.length)
    except pa.ArrowException as error:
        raise CorruptTableError(f"cannot read the footer of {file.path}: {error}") from error
