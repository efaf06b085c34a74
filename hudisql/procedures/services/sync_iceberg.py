"""The procedure `sync_iceberg`: publishes a Hudi table as an Iceberg table over the same data files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.errors import InvalidArgumentError
from hudisql.options.table_call import TableCall, open_table_call
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
    from hudisql.iceberg.publication import publish
    from hudisql.write.transaction.lock import hold_lock

    call = open_table_call(context, arguments.table, arguments.path)
    if arguments.register and call.entry is None:
        raise InvalidArgumentError("register needs the table's name", hint="table => 'db.name'")
    if arguments.register:
        _check_name(call)
    concurrency = call.concurrency()
    with hold_lock(concurrency.lock, concurrency.lock_retry_policy):
        published = publish(call.table.reopened().listed_once(), dry_run=arguments.dry_run)
        entry = None if arguments.dry_run else _sync_entry(call, arguments.register, published.metadata_path)
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


def _check_name(call: TableCall) -> None:
    from hudisql.catalog.iceberg_entry import check_iceberg_name

    check_iceberg_name(call.context.metastore, call.table, *_names_of(call))


def _sync_entry(call: TableCall, register: bool, metadata_file: str) -> str | None:
    """Let the Iceberg entry show the metadata file, if there is one or with `register`; its name."""
    from hudisql.catalog.iceberg_entry import find_iceberg_entry, sync_iceberg_entry

    if call.entry is None:
        return None
    metastore, names = call.context.metastore, _names_of(call)
    table = call.table
    if not register and find_iceberg_entry(metastore, table.storage, table.base_path, *names) is None:
        return None
    return sync_iceberg_entry(metastore, table.reopened(), *names, metadata_file).full_name


def _names_of(call: TableCall) -> tuple[str, str]:
    """The database and the main name of the table."""
    from hudisql.catalog.table_entries import main_name

    assert call.entry is not None  # the call names a table
    database = call.entry.database
    return database, main_name(call.context.metastore, call.table, database, call.entry.name)
