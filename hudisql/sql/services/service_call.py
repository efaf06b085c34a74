"""What a procedure of a table service looks up once: the opened table, its metastore entry, its settings.

Stands for what `HoodieCLIUtils.createHoodieWriteClient` and `ProcedureUtils` of Hudi 0.15 give its
procedures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import InvalidArgumentError
from hudisql.hudi_config import HudiConfig
from hudisql.procedures.table_argument import NamesTable, base_path_of, find_entry, location_of
from hudisql.sql.config.table_settings import reads_changed_sources, settings_of, syncs_after_commit
from hudisql.sql.config.writer_settings import write_options, writer_concurrency
from hudisql.storage import Storage
from hudisql.table.hudi_table import HudiTable, open_table
from hudisql.write.execution.writer_config import WriteOptions
from hudisql.write.transaction.concurrency import Concurrency

if TYPE_CHECKING:
    from hudisql.catalog.client import MetastoreClient
    from hudisql.context import Context


@dataclass(frozen=True)
class ServiceCall:
    """One call on one table, which is as it was opened; `entry` is None for a table given by its path."""

    context: Context
    table: HudiTable
    entry: MetastoreTable | None
    config: HudiConfig

    def write_options(self) -> WriteOptions:
        """The options of a service that writes data files. Raises SettingsError, UnsupportedTableError."""
        return write_options(self.context, self.table, self.config)

    def concurrency(self) -> Concurrency:
        """How the service shares the table with writers. Raises SettingsError, UnsupportedTableError."""
        return writer_concurrency(self.context, self.table, self.config)

    def sync(self, metastore: MetastoreClient | None = None) -> None:
        """Sync the metastore if the settings say so (`hudisql.sync`) and the table was given by name.

        `metastore` is the client to use, by default the context's. Raises SyncFailedError (what the service
        did stands), SettingsError.
        """
        from hudisql.catalog.sync import sync_registered

        if self.entry is not None and syncs_after_commit(self.config):
            entry, client = self.entry, metastore or self.context.metastore
            sync_registered(client, self.table.reopened(), entry.database, entry.name, incremental=True)


def open_registered(context: Context, entry: MetastoreTable, storage: Storage) -> ServiceCall:
    """Open the table of a metastore entry; `storage` may be one that needs no Spark.

    Raises as `open_service_call`.
    """
    table = open_table(
        storage,
        storage.qualify(location_of(entry)),
        accepts_changed_sources=reads_changed_sources(context),
    )
    return ServiceCall(context, table, entry, settings_of(context, table, entry.parameters))


def open_service_call(
    context: Context,
    arguments: NamesTable,
    options: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> ServiceCall:
    """Open the table that `table` or `path` names.

    `options` is the text of the call's parameter of that name, `settings` are those that other parameters
    stand for; both hold before the settings of the session and the table, `settings` first. Raises
    InvalidArgumentError, NoSuchTableError, UnsupportedTableError, CorruptTableError, StorageError.
    """
    given = {**parse_options(options), **(settings or {})}
    entry = None if arguments.table is None else find_entry(context, arguments.table)
    table = open_table(
        context.storage,
        base_path_of(context, entry, arguments.path),
        accepts_changed_sources=reads_changed_sources(context),
    )
    config = settings_of(context, table, entry.parameters if entry else {}).under(given)
    return ServiceCall(context, table, entry, config)


def parse_options(options: str | None) -> dict[str, str]:
    """The settings in `key=value,key=value`, as Hudi's procedures take them. Raises InvalidArgumentError."""
    given: dict[str, str] = {}
    for part in (options or "").split(","):
        if not part.strip():
            continue
        key, separator, value = part.partition("=")
        if not separator:
            raise InvalidArgumentError(f"options takes key=value pairs, not '{part.strip()}'")
        given[key.strip()] = value.strip()
    return given
