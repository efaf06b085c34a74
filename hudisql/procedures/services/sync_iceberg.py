"""The procedure `sync_iceberg`: publishes a Hudi table as an Iceberg table over the same data files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.errors import InvalidArgumentError
from hudisql.options.table_call import open_table_call
from hudisql.procedures.registry import Arguments, parameter, path_parameter, procedure, table_parameter

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True, kw_only=True)
class SyncIcebergArguments(Arguments):
    """The parameters of `sync_iceberg`."""

    table: str | None = table_parameter()
    path: str | None = path_parameter()
    dry_run: bool = parameter(False, help="check and count only: nothing is written")
    register: bool = parameter(
        False, help="make the metastore entry <table>_iceberg, which later calls update"
    )
    format_version: int | None = parameter(
        None,
        help="Iceberg's format version, 2 or 3 (deletion vectors, row ids); by default that of the last"
        " publication, or 2",
    )


@dataclass(frozen=True)
class SyncIcebergRow:
    """The Iceberg table: its metadata file, the commit of the Hudi table that it shows, its files, and its
    entry in the metastore.

    For slices with log files there are files of their rows, and of the rows that these replace.
    """

    result: str
    metadata_file: str
    instant: str
    source_files: int
    base_files: int
    log_row_files: int
    delete_files: int
    rows: int
    entry: str | None


@procedure("Publishes the present state of a table as an Iceberg table over the same data files.")
def sync_iceberg(context: Context, arguments: SyncIcebergArguments) -> Iterable[SyncIcebergRow]:
    """One row. A state that is published already is not published again.

    Raises InvalidArgumentError, NoSuchTableError, UnsupportedTableError for a state that Iceberg readers
    would misread, SourceChangedError, CorruptTableError, TableLockedError, TableExistsError if another table
    has the name of the entry, MetastoreError if the entry could not follow (the next call does it),
    StorageError.
    """
    from hudisql.iceberg.manifest_files import FORMAT_VERSIONS
    from hudisql.options.iceberg_sync import publish_table, spark_tasks

    if arguments.format_version not in (None, *FORMAT_VERSIONS):
        raise InvalidArgumentError(
            f"format_version {arguments.format_version} is unknown", hint="it is 2 or 3"
        )
    call = open_table_call(context, arguments.table, arguments.path)
    if arguments.register and call.entry is None:
        raise InvalidArgumentError("register needs the table's name", hint="table => 'db.name'")
    metastore = None if call.entry is None else context.metastore
    published, entry = publish_table(
        metastore,
        call.table,
        call.entry,
        call.concurrency(),
        register=arguments.register,
        dry_run=arguments.dry_run,
        format_version=arguments.format_version,
        tasks=spark_tasks(lambda: context.spark, context.console),
    )
    verb = "would be published" if arguments.dry_run else "published"
    result = verb if published.is_new else "already published"
    return [
        SyncIcebergRow(
            result,
            published.metadata_path,
            published.instant,
            published.source_files,
            published.base_files,
            published.log_row_files,
            published.delete_files,
            published.rows,
            entry,
        )
    ]
