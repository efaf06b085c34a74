"""The procedure `sync_iceberg`: publishes a Hudi table as an Iceberg table over the same data files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

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


@dataclass(frozen=True)
class SyncIcebergRow:
    """The Iceberg table: its metadata file, the commit of the Hudi table that it shows, its files.

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


@procedure("Publishes the present state of a table as an Iceberg table over the same data files.")
def sync_iceberg(context: Context, arguments: SyncIcebergArguments) -> Iterable[SyncIcebergRow]:
    """One row. A state that is published already is not published again.

    Raises InvalidArgumentError, NoSuchTableError, UnsupportedTableError for a state that Iceberg readers
    would misread, SourceChangedError, CorruptTableError, TableLockedError, StorageError.
    """
    from hudisql.iceberg.publication import publish
    from hudisql.write.transaction.lock import hold_lock

    call = open_table_call(context, arguments.table, arguments.path)
    concurrency = call.concurrency()
    with hold_lock(concurrency.lock, concurrency.lock_retry_policy):
        published = publish(call.table.reopened().listed_once(), dry_run=arguments.dry_run)
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
        )
    ]
