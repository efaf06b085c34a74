"""`show_ingest`: the declared tables, who writes to them, and how far they are behind their topics.

`show_ingest_partitions`: which partitions of a table are split into hash buckets, and into how many.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.errors import InvalidArgumentError
from hudisql.procedures.registry import Arguments, parameter, procedure
from hudisql.service_process.ingest.ingest_rows import IngestRow, ingest_rows

if TYPE_CHECKING:
    from hudisql.context import Context
    from hudisql.table.file_slice import FileSlice
    from hudisql.table.hudi_table import HudiTable


@dataclass(frozen=True, kw_only=True)
class ShowIngestArguments(Arguments):
    """The parameters of `show_ingest`."""

    table: str | None = parameter(None, help="table of the metastore, database.name; without it all tables")


@procedure("Shows the tables that `hudisql ingest worker` writes to, and their lag.")
def show_ingest(context: Context, arguments: ShowIngestArguments) -> Iterable[IngestRow]:
    """One row for each declared table. Raises MetastoreError, NoSuchTableError."""
    from hudisql.options.table_call import find_entry
    from hudisql.service_process.ingest.declared_table import declared_tables
    from hudisql.service_process.tables.run_services import storage_without_spark

    tables = declared_tables(context, storage_without_spark(context))
    if arguments.table is not None:
        name = find_entry(context, arguments.table).full_name
        tables = [table for table in tables if table.name == name]
    return ingest_rows(tables)


@dataclass(frozen=True, kw_only=True)
class ShowIngestPartitionsArguments(Arguments):
    """The parameters of `show_ingest_partitions`."""

    table: str = parameter(help="Hudi table of the metastore, database.name")
    limit: int = parameter(100, help="at most this many partitions, those with the highest paths")


@dataclass(frozen=True)
class IngestPartitionRow:
    """A partition; `split_at` is the instant time of its last split, None if it is not split.

    `foreign_file_groups` have rows of other writers, which are found by look-up. `index_bytes` is the size of
    the partition's index in the worker's memory at its last commit, if the active timeline has it.
    """

    partition: str
    split_at: str | None
    buckets: int | None
    file_groups: int
    foreign_file_groups: int
    bytes: int
    index_bytes: int | None


@procedure("Shows which partitions of a table are split into hash buckets, and what their indexes take.")
def show_ingest_partitions(
    context: Context, arguments: ShowIngestPartitionsArguments
) -> Iterable[IngestPartitionRow]:
    """One row for each partition, the last one first. Raises NoSuchTableError, InvalidArgumentError,
    MetastoreError, CorruptTableError, StorageError.
    """
    from hudisql.ingest.split.partition_split import find_split
    from hudisql.options.table_call import find_entry, open_registered
    from hudisql.service_process.tables.run_services import storage_without_spark
    from hudisql.table.files.snapshot import list_file_slices
    from hudisql.table.partitions.listed_partitions import list_partitions

    if arguments.limit < 1:
        raise InvalidArgumentError("limit must be at least 1")
    entry = find_entry(context, arguments.table)
    table = open_registered(context, entry, storage_without_spark(context)).table
    paths = sorted((partition.path for partition in list_partitions(table)), reverse=True)[: arguments.limit]
    index_bytes = _index_bytes(table)
    slices: dict[str, list[FileSlice]] = {path: [] for path in paths}
    for file_slice in list_file_slices(table, paths, None):
        slices[file_slice.partition_path].append(file_slice)
    rows = []
    for path, own in slices.items():
        split = find_split(path, own)
        rows.append(
            IngestPartitionRow(
                path,
                None if split is None else split.instant_time,
                None if split is None else split.buckets,
                len(own),
                0 if split is None else len(split.foreign),
                sum(own_slice.length for own_slice in own),
                0 if split is not None else index_bytes.get(path),
            )
        )
    return rows


def _index_bytes(table: HudiTable) -> Mapping[str, int]:
    """The index sizes in the workers' commits of the active timeline, the newest of each partition."""
    from hudisql.ingest.table_index import INDEX_BYTES_KEY
    from hudisql.table.timeline.instant_files import read_extra_metadata

    found: dict[str, int] = {}
    for extra_metadata in read_extra_metadata(table, table.timeline.commits):
        found.update(json.loads(extra_metadata.get(INDEX_BYTES_KEY) or "{}"))
    return found
