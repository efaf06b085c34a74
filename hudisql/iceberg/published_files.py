"""Which files of a Hudi table an Iceberg table would have, and what keeps it from being published.

Skeletons (RFC-12) stand for the source files that they point to; rewritten file groups for their base files.
Only states that Iceberg readers give as hudisql does are published: all others are refused by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from hudisql.errors import CorruptTableError, SourceChangedError, UnsupportedTableError
from hudisql.iceberg.data_file import Footer, footer_of, misread
from hudisql.iceberg.iceberg_schema import children, primitive_name
from hudisql.read.files.parquet_rows import read_footer
from hudisql.read.slice.slice_reader import check_external_files
from hudisql.storage import Storage
from hudisql.table.file_slice import FileSlice
from hudisql.table.files.snapshot import load_file_slices
from hudisql.table.hudi_table import HudiTable
from hudisql.table.partitions.listed_partitions import list_partitions
from hudisql.table.partitions.registered_partitions import registered_partitions

PARTITION_TYPES: Final = frozenset({"string", "int", "long", "date", "boolean"})
_READERS_AT_ONCE: Final = 16
_REWRITE: Final = "CALL rewrite_bootstrap_files rewrites just the partitions of such files"


@dataclass(frozen=True)
class PublishedFile:
    """A data file: path, length in bytes, partition values, and whether it is a file of the source."""

    path: str
    length: int
    partition_path: str
    values: tuple[object | None, ...]
    is_source: bool


@dataclass(frozen=True)
class TableFiles:
    """The state to publish: its newest commit's time and its files; `digest` differs if the state does."""

    instant: str
    files: tuple[PublishedFile, ...]
    digest: str


def table_files(table: HudiTable) -> TableFiles:
    """The data files of the table as it stands.

    Raises UnsupportedTableError for a state that Iceberg readers would read otherwise, SourceChangedError,
    CorruptTableError, StorageError.
    """
    _check_table(table)
    partitions = {partition.path: partition.values for partition in list_partitions(table)}
    slices = load_file_slices(table)
    for file_slice in slices:
        _check_slice(table, file_slice)
    if changed := check_external_files(table.storage, slices):
        raise SourceChangedError(
            f"the source file {changed[0]} was modified after the bootstrap, which Iceberg readers do not "
            "notice",
            hint="restore its modification time (cp -p, distcp -pt)",
        )
    files = [_file_of(file_slice, partitions[file_slice.partition_path]) for file_slice in slices]
    published_files = tuple(sorted((file for file in files if file is not None), key=lambda file: file.path))
    commits = table.timeline.commits
    instant = commits[-1].timestamp if commits else ""
    lines = [instant, str(table.schema), *(f"{file.path} {file.length}" for file in published_files)]
    return TableFiles(instant, published_files, hashlib.sha256("\n".join(lines).encode()).hexdigest())


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
    if registered := sorted(registered_partitions(table).by_path):
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} is not published as Iceberg: partition '{registered[0]}' "
            "is register-only",
            hint="CALL resync_bootstrap(…, lift => …) makes its files part of the table",
        )


def _check_slice(table: HudiTable, file_slice: FileSlice) -> None:
    where = f"partition '{file_slice.partition_path}' of {table.base_path}"
    if file_slice.has_log_files:
        name = next(log.path for log in file_slice.log_files if log.length)
        raise UnsupportedTableError(
            f"{where} is not published as Iceberg: it has the log file {name}",
            hint="CALL run_compaction(op => 'scheduleandexecute', table => …, options => "
            "'hoodie.compact.inline.max.delta.commits=1'), then publish again",
        )
    if not _same_names(file_slice.columns_in_base(table.schema), table.schema):
        name = file_slice.base_file.path if file_slice.base_file else file_slice.file_id
        raise UnsupportedTableError(
            f"{where} is not published as Iceberg: {name} was written before columns were renamed or dropped",
            hint="rewrite its rows, for instance by UPDATE, or by CALL run_clustering",
        )


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
    return PublishedFile(file.path, file.length, file_slice.partition_path, values, external is not None)


def read_footers(table: HudiTable, files: Sequence[PublishedFile]) -> list[Footer]:
    """The footers of the files, read in parallel and checked.

    Raises UnsupportedTableError that names the first file that Iceberg readers would misread,
    CorruptTableError, StorageError.
    """
    with ThreadPoolExecutor(_READERS_AT_ONCE) as pool:
        footers = list(pool.map(lambda file: _footer(table.storage, file), files))
    problems = [
        (file, problem)
        for file, footer in zip(files, footers, strict=True)
        if (problem := misread(footer, table.schema) or _partition_column_inside(table, file, footer))
    ]
    if problems:
        file, problem = problems[0]
        others = f" ({len(problems)} such files)" if len(problems) > 1 else ""
        raise UnsupportedTableError(
            f"the Hudi table at {table.base_path} is not published as Iceberg: in {file.path} "
            f"{problem}{others}",
            hint=_REWRITE if file.is_source else "rewrite its rows, for instance by CALL run_clustering",
        )
    return footers


def _partition_column_inside(table: HudiTable, file: PublishedFile, footer: Footer) -> str | None:
    """A problem if a source file holds a partition column, where the directory's value may be another."""
    for column in table.partition_columns:
        if file.is_source and column.name in footer.schema.names:
            return f"partition column {column.name} is also a column, whose values readers may take"
    return None


def _footer(storage: Storage, file: PublishedFile) -> Footer:
    try:
        return footer_of(read_footer(storage, file.path, file.length))
    except pa.ArrowException as error:
        raise CorruptTableError(f"cannot read the footer of {file.path}: {error}") from error
