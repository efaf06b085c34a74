"""Procedures that show and check the metadata table that Apache Hudi's writers keep for a table.

Names, parameters and columns are those of Hudi 1.2 (0.15 has all but the statistics of columns). They need
no `hoodie.metadata.enable`. Dates, timestamps and decimals are shown as such; Hudi shows what it stores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from hudisql.config.config_key import split_names
from hudisql.errors import InvalidArgumentError
from hudisql.options.table_call import find_table
from hudisql.procedures.registry import NamedTableArguments, TableArguments, parameter, procedure
from hudisql.procedures.show.shown_rows import filter_parameter, filter_rows, first_rows, limit_parameter

if TYPE_CHECKING:
    import pyarrow as pa

    from hudisql.context import Context
    from hudisql.format.metadata_table.column_statistics import ColumnStatistics
    from hudisql.format.metadata_table.listed_files import ListedFiles
    from hudisql.table.hudi_table import HudiTable
    from hudisql.table.metadata_table.metadata_table import MetadataTable


@dataclass(frozen=True, kw_only=True)
class MetadataTableArguments(TableArguments):
    """The parameters of `show_metadata_table_partitions` and `show_metadata_table_stats`."""

    filter: str = filter_parameter()


@dataclass(frozen=True, kw_only=True)
class MetadataTableFilesArguments(TableArguments):
    """The parameters of `show_metadata_table_files`."""

    partition: str = parameter("", help="the path of the partition; empty for a table without partitions")
    limit: int = limit_parameter(100)
    filter: str = filter_parameter()


@dataclass(frozen=True, kw_only=True)
class MetadataTableColumnStatsArguments(TableArguments):
    """The parameters of `show_metadata_table_column_stats` and `show_metadata_column_stats_overlap`."""

    partition: str = parameter("", help="only files of this partition")
    targetColumns: str = parameter("", help="only these columns, separated by commas")  # noqa: N815
    filter: str = filter_parameter()


@dataclass(frozen=True, kw_only=True)
class ValidateMetadataTableArguments(NamedTableArguments):
    """The parameters of `validate_metadata_table_files`."""

    verbose: bool = parameter(False, help="show the files on which both agree, too")


@dataclass(frozen=True)
class MetadataTablePartitionRow:
    """A partition that the metadata table lists."""

    partition: str


@dataclass(frozen=True)
class MetadataTableFileRow:
    """The name of a file that the metadata table lists."""

    file_path: str


@dataclass(frozen=True)
class MetadataTableStatRow:
    """A size in bytes or a number of files, of an index of the metadata table."""

    stat_key: str
    stat_value: str


@dataclass(frozen=True)
class MetadataTableColumnStatRow:
    """The least and greatest value of a column in a base file, and its number of nulls."""

    file_name: str
    column_name: str
    min_value: str | None
    max_value: str | None
    null_number: int


@dataclass(frozen=True)
class IndexRow:
    """An index of the metadata table; `col_name` are the columns of a secondary or an expression index."""

    index_name: str
    index_type: str
    col_name: str


@dataclass(frozen=True)
class ValidatedFileRow:
    """A file in the storage or in the metadata table; sizes in bytes, -1 where it is not."""

    partition: str
    file_name: str
    is_present_in_fs: bool
    is_present_in_metadata: bool
    fs_size: int
    metadata_size: int


@procedure("Shows the partitions that the table's metadata table lists.")
def show_metadata_table_partitions(
    context: Context, arguments: MetadataTableArguments
) -> Iterable[MetadataTablePartitionRow]:
    """A row for each partition. Raises NoSuchTableError, InvalidArgumentError, CorruptTableError."""
    metadata = metadata_table_of(context, arguments)
    rows = [MetadataTablePartitionRow(path) for path in metadata.list_partitions()]
    return filter_rows(context, rows, MetadataTablePartitionRow, arguments.filter)


@procedure("Shows the files of a partition that the table's metadata table lists.")
def show_metadata_table_files(
    context: Context, arguments: MetadataTableFilesArguments
) -> Iterable[MetadataTableFileRow]:
    """A row for each file, sorted by name.

    Raises NoSuchTableError, InvalidArgumentError for a partition that is not listed, CorruptTableError.
    """
    metadata = metadata_table_of(context, arguments)
    listed = _listed_files(metadata, arguments.partition.strip("/"))
    names = [] if listed is None else sorted(listed.names.to_pylist())
    rows = (MetadataTableFileRow(name) for name in names)
    return first_rows(context, rows, MetadataTableFileRow, arguments.filter, arguments.limit)


@procedure("Shows the number and the size of the files of each index in the table's metadata table.")
def show_metadata_table_stats(
    context: Context, arguments: MetadataTableArguments
) -> Iterable[MetadataTableStatRow]:
    """Four rows for each index. Raises NoSuchTableError, InvalidArgumentError, CorruptTableError."""
    metadata = metadata_table_of(context, arguments)
    rows = [row for index in sorted(metadata.indexes) for row in _stats_of(metadata, index)]
    return filter_rows(context, rows, MetadataTableStatRow, arguments.filter)


@procedure("Shows the statistics of columns of the latest base files that the table's metadata table holds.")
def show_metadata_table_column_stats(
    context: Context, arguments: MetadataTableColumnStatsArguments
) -> Iterable[MetadataTableColumnStatRow]:
    """A row for each base file and column that has statistics, sorted by both.

    Raises NoSuchTableError, InvalidArgumentError for a partition that is not listed, for an unknown column
    and if the metadata table has no index `column_stats`, CorruptTableError, StorageError.
    """
    metadata = metadata_table_of(context, arguments)
    types = {field.name: field.type for field in metadata.table.schema}
    rows = []
    for _, statistic in statistics_of_base_files(metadata, arguments):
        least, greatest = (
            _as_text(value, types.get(statistic.column_name))
            for value in (statistic.least, statistic.greatest)
        )
        rows.append(
            MetadataTableColumnStatRow(
                statistic.file_name, statistic.column_name, least, greatest, statistic.nulls
            )
        )
    return filter_rows(context, rows, MetadataTableColumnStatRow, arguments.filter)


def statistics_of_base_files(
    metadata: MetadataTable, arguments: MetadataTableColumnStatsArguments
) -> list[tuple[str, ColumnStatistics]]:
    """The statistics of the latest base files with the paths of their partitions, sorted by file and column.

    Raises as `show_metadata_table_column_stats`.
    """
    from hudisql.format.metadata_table.column_statistics import column_statistics
    from hudisql.format.metadata_table.metadata_records import COLUMN_STATS
    from hudisql.table.files.snapshot import load_file_slices
    from hudisql.table.partitions.listed_partitions import partitions_at

    table = metadata.table
    if COLUMN_STATS not in metadata.indexes:
        raise InvalidArgumentError(
            f"the metadata table of {table.base_path} has no index {COLUMN_STATS}; it has "
            f"{', '.join(sorted(metadata.indexes))}"
        )
    path, partitions = arguments.partition.strip("/"), None
    if path:
        _listed_files(metadata, path)
        partitions = partitions_at(table, [path])
    slices = load_file_slices(table, partitions)
    paths = {
        file_slice.base_file.path.rpartition("/")[2]: file_slice.partition_path
        for file_slice in slices
        if file_slice.base_file is not None
    }
    columns = {*split_names(arguments.targetColumns)}
    stored = list(column_statistics(metadata.read_records(COLUMN_STATS)))
    _check_columns(table, columns, {statistic.column_name for statistic in stored})
    chosen = (
        statistic
        for statistic in stored
        if statistic.file_name in paths and (not columns or statistic.column_name in columns)
    )
    ordered = sorted(chosen, key=lambda statistic: (statistic.file_name, statistic.column_name))
    return [(paths[statistic.file_name], statistic) for statistic in ordered]


@procedure("Shows the indexes in the table's metadata table, as SHOW INDEXES does.")
def show_indexes(context: Context, arguments: TableArguments) -> Iterable[IndexRow]:
    """A row for each index but the listing of files; none without a metadata table.

    Raises NoSuchTableError, CorruptTableError, StorageError.
    """
    from hudisql.format.metadata_table.metadata_records import FILES
    from hudisql.table.metadata_table.index_definitions import read_index_definitions

    table = find_table(context, arguments.table, arguments.path)
    definitions = read_index_definitions(table)
    for name in sorted(set(table.properties.metadata_partitions) - {FILES}):
        index_definition = definitions.get(name)
        if index_definition is None or not index_definition.is_named:
            yield IndexRow(name, name, "")
        else:
            yield IndexRow(name, index_definition.kind, ",".join(index_definition.columns))


@procedure("Compares the files that the table's metadata table lists with those in the storage.")
def validate_metadata_table_files(
    context: Context, arguments: ValidateMetadataTableArguments
) -> Iterable[ValidatedFileRow]:
    """A row for each file that only one of both has, or that has another size; with `verbose` for all files.

    Raises NoSuchTableError, InvalidArgumentError, CorruptTableError, StorageError.
    """
    from hudisql.table.files.listing_comparison import compare_listings
    from hudisql.table.metadata_table.metadata_table import find_metadata_table

    name = ".".join(context.qualify_table_name(arguments.table))
    metadata = find_metadata_table(find_table(context, arguments.table), name)
    for listing in compare_listings(metadata):
        if arguments.verbose or listing.differs:
            yield ValidatedFileRow(
                listing.partition_path,
                listing.name,
                listing.stored_bytes is not None,
                listing.listed_bytes is not None,
                -1 if listing.stored_bytes is None else listing.stored_bytes,
                -1 if listing.listed_bytes is None else listing.listed_bytes,
            )


def metadata_table_of(context: Context, arguments: TableArguments) -> MetadataTable:
    """The metadata table of the table that is named. Raises NoSuchTableError, InvalidArgumentError."""
    from hudisql.table.metadata_table.metadata_table import find_metadata_table

    table = find_table(context, arguments.table, arguments.path)
    if arguments.table is None:
        return find_metadata_table(table)
    return find_metadata_table(table, ".".join(context.qualify_table_name(arguments.table)))


def _listed_files(metadata: MetadataTable, path: str) -> ListedFiles | None:
    """The files of a partition; None if it has none. Raises InvalidArgumentError if it is not listed."""
    listed = metadata.list_files([path]).get(path)
    if listed is None and path not in metadata.list_partitions():
        raise InvalidArgumentError(
            f"the metadata table of {metadata.table.base_path} does not list the partition '{path}'",
            hint="CALL show_metadata_table_partitions shows those that it lists",
        )
    return listed


def _check_columns(table: HudiTable, columns: Iterable[str], with_statistics: Collection[str]) -> None:
    from hudisql.format.schema.meta_columns import META_COLUMNS

    known = {*table.schema.names, *META_COLUMNS, *with_statistics}
    unknown = sorted(set(columns) - known)
    if unknown:
        raise InvalidArgumentError(
            f"the Hudi table at {table.base_path} has no column '{unknown[0]}'",
            hint=f"its columns are {', '.join(table.schema.names)}",
        )


def _stats_of(metadata: MetadataTable, index: str) -> Iterator[MetadataTableStatRow]:
    slices = metadata.latest_slices(index)
    bases = [file_slice.base_file.length for file_slice in slices if file_slice.base_file is not None]
    logs = [log_file.length for file_slice in slices for log_file in file_slice.log_files]
    for name, value in (
        ("baseFileCount", len(bases)),
        ("logFileCount", len(logs)),
        ("totalBaseFileSizeInBytes", sum(bases)),
        ("totalLogFileSizeInBytes", sum(logs)),
    ):
        yield MetadataTableStatRow(f"{index}.{name}", str(value))


def _as_text(value: Any, kind: pa.DataType | None) -> str | None:
    if value is None:
        return None
    if isinstance(value, int) and str(kind).startswith("timestamp"):
        # Statistics of versions 6 and 8 do not say that their numbers are microseconds.
        with suppress(OverflowError):
            value = datetime(1970, 1, 1, tzinfo=UTC if getattr(kind, "tz", None) else None) + timedelta(
                microseconds=value
            )
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat(" ") if isinstance(value, datetime) else str(value)
