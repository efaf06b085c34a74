"""The table of a procedure call: opened by name or path, with the settings that apply to it.

Procedures, table services and ingest find and open their tables here. Replaces
`HoodieCLIUtils.createHoodieWriteClient` and `ProcedureUtils` of Hudi 0.15.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hudisql.catalog.metastore_table import (
    ICEBERG_SUFFIX,
    MetastoreTable,
    hudi_base_path,
    iceberg_base_path,
    is_hudi_table,
)
from hudisql.config.config_key import ConfigKey, HudiConfig
from hudisql.config.hudi_config import ICEBERG_SYNC, METADATA_ENABLE
from hudisql.errors import CorruptTableError, InvalidArgumentError, NoSuchTableError, UnsupportedTableError

if TYPE_CHECKING:
    from hudisql.catalog.client import MetastoreClient
    from hudisql.context import Context
    from hudisql.storage import Storage
    from hudisql.table.hudi_table import HudiTable
    from hudisql.write.execution.writer_config import WriteOptions
    from hudisql.write.transaction.concurrency import Concurrency


def find_table(context: Context, table: str | None, path: str | None = None) -> HudiTable:
    """Open the Hudi table of that name, or at that path if no name is given.

    Raises InvalidArgumentError if neither is given, NoSuchTableError if there is no such Hudi table.
    """
    entry = None if table is None else find_entry(context, table)
    return open_session_table(context, base_path_of(context, entry, path))


def open_session_table(context: Context, path: str, storage: Storage | None = None) -> HudiTable:
    """Open the Hudi table at `path` by the settings of the session; `storage` may be one without Spark.

    Raises NoSuchTableError, UnsupportedTableError, CorruptTableError, SettingsError, StorageError.
    """
    from hudisql.read.slice.changed_sources import accepts_changed_sources
    from hudisql.table.hudi_table import open_table

    accepts = accepts_changed_sources(HudiConfig(context.setting))
    return open_table(storage or context.storage, path, accepts_changed_sources=accepts)


def open_queried_table(context: Context, path: str) -> HudiTable:
    """`open_session_table` for a query, which lists the table by its metadata table if a setting says so."""
    from hudisql.table.metadata_table.metadata_listing import listed_by_metadata

    table = open_session_table(context, path)
    return listed_by_metadata(table) if HudiConfig(context.setting).get(METADATA_ENABLE) else table


def find_entry(context: Context, table: str) -> MetastoreTable:
    """The metastore entry of the Hudi table of that name.

    Raises NoSuchTableError if there is no such entry, or it is not that of a Hudi table.
    """
    database, name = context.qualify_table_name(table)
    entry = context.metastore.get_table(database, name)
    if entry is None:
        raise NoSuchTableError(
            f"the metastore has no table {database}.{name}",
            hint="check the name; a procedure with a path parameter takes a table that is not registered",
        )
    refuse_iceberg_entry(entry)
    if not is_hudi_table(entry):
        raise NoSuchTableError(f"{database}.{name} is not a Hudi table")
    return entry


def refuse_iceberg_entry(entry: MetastoreTable) -> None:
    """Raise UnsupportedTableError if the entry is the Iceberg table of a Hudi table, for other engines."""
    base_path = iceberg_base_path(entry)
    if base_path is None:
        return
    main = entry.full_name.removesuffix(ICEBERG_SUFFIX)
    raise UnsupportedTableError(
        f"{entry.full_name} is the Iceberg table of the Hudi table {main} at {base_path}, for readers of "
        "Iceberg: nothing was run",
        hint=f"name the Hudi table, {main}; DROP TABLE {entry.full_name} drops the entry alone",
    )


def base_path_of(context: Context, entry: MetastoreTable | None, path: str | None) -> str:
    """The qualified base path of the entry's table, or else `path`.

    Raises InvalidArgumentError if neither is given, CorruptTableError for an entry without a location.
    """
    if entry is None:
        if path is None:
            raise InvalidArgumentError(
                "give table or path", hint="table => 'db.name' or path => '/directory'"
            )
        return context.storage.qualify(path)
    return context.storage.qualify(location_of(entry))


def location_of(entry: MetastoreTable) -> str:
    """The location of the entry's table, not qualified. Raises CorruptTableError if the entry has none."""
    location = hudi_base_path(entry)
    if location is None:
        raise CorruptTableError(f"the metastore knows no location of the Hudi table {entry.full_name}")
    return location


@dataclass(frozen=True)
class TableCall:
    """One call on one opened table; `entry` is None for a table given by its path."""

    context: Context
    table: HudiTable
    entry: MetastoreTable | None
    config: HudiConfig

    def write_options(self) -> WriteOptions:
        """The options of a service that writes data files. Raises SettingsError, UnsupportedTableError."""
        from hudisql.options.writer_settings import write_options

        return write_options(self.context, self.table, self.config)

    def concurrency(self) -> Concurrency:
        """How the service shares the table with writers. Raises SettingsError, UnsupportedTableError."""
        from hudisql.options.writer_settings import writer_concurrency

        return writer_concurrency(self.context, self.table, self.config)

    def sync(self, metastore: MetastoreClient | None = None) -> None:
        """What follows a commit: its publication (`publish`), then the sync of the metastore.

        The metastore is synced if the settings say so (`hudisql.sync`) and the table was given by name.
        `metastore` is the client to use, by default the context's. Raises SyncFailedError, SettingsError. The
        result of the service stays.
        """
        from hudisql.catalog.sync import sync_registered
        from hudisql.options.table_settings import syncs_after_commit

        self.publish(metastore)
        if self.entry is not None and syncs_after_commit(self.config):
            entry, client = self.entry, metastore or self.context.metastore
            sync_registered(client, self.table.reopened(), entry.database, entry.name, incremental=True)

    def publish(self, metastore: MetastoreClient | None = None, *, is_just_committed: bool = False) -> bool:
        """Publish the table as an Iceberg table if the settings say so (`hudisql.iceberg.sync`).

        With `is_just_committed` the table is as a commit of this process has left it a moment ago. True if
        this is done and the table has no Iceberg entry, so that it is needless until the next commit.

        A failure is a warning, also of a setting that is neither true nor false: the commit stands, and the
        next publication brings all up to date.
        """
        from hudisql.options.iceberg_sync import publish_table, spark_tasks

        try:
            if not self.config.get(ICEBERG_SYNC):
                return True
            client = None if self.entry is None else metastore or self.context.metastore
            started, console = self.context.started_spark, self.context.console
            _, followed = publish_table(
                client,
                self.table,
                self.entry,
                self.concurrency(),
                is_just_committed=is_just_committed,
                tasks=None if started is None else spark_tasks(lambda: self.context.spark, console),
            )
        except Exception as error:
            self._warn_of_failed(error)
            return False
        return followed is None

    def publish_held(self) -> bool | None:
        """`publish` by the holder of the table's lock, whose commit has just left the table so.

        None if that would take long: then `publish` does it once the lock is released.
        """
        from hudisql.options.iceberg_sync import publish_held_table

        try:
            client = None if self.entry is None else self.context.metastore
            published = publish_held_table(client, self.table, self.entry)
        except Exception as error:
            self._warn_of_failed(error)
            return False
        return None if published is None else published[1] is None

    def warn_if_metadata_table_dropped(self) -> None:
        """Warn of the metadata table, or indexes, that the table had when the call began, and has no more."""
        from hudisql.format.table_properties import read_table_properties

        table, indexes = self.table, self.table.properties.metadata_partitions
        left = read_table_properties(table.storage, table.base_path).metadata_partitions
        dropped = ", ".join(index for index in indexes if index not in left)
        if dropped:
            name = table.base_path if self.entry is None else self.entry.full_name
            what = f"{dropped} of its metadata table" if left else f"its metadata table ({dropped})"
            self.context.console.warning(
                f"{name}: {what} is dropped, since it cannot be rolled back, or hudisql does not keep it; "
                "CALL create_metadata_table and CREATE INDEX make indexes again"
            )

    def _warn_of_failed(self, error: Exception) -> None:
        from hudisql.options.iceberg_sync import failure_text

        label = "" if self.entry is None else self.entry.full_name
        self.context.console.warning(failure_text(label, self.table.base_path, error))


def open_registered(context: Context, entry: MetastoreTable, storage: Storage) -> TableCall:
    """Open the table of a metastore entry; `storage` may be one that needs no Spark.

    Raises NoSuchTableError, UnsupportedTableError, CorruptTableError, StorageError.
    """
    from hudisql.options.table_settings import settings_of

    table = open_session_table(context, storage.qualify(location_of(entry)), storage)
    return TableCall(context, table, entry, settings_of(context, table, entry.parameters))


def open_table_call(
    context: Context,
    table: str | None,
    path: str | None = None,
    options: str | None = None,
    settings: Mapping[ConfigKey[Any], object] | None = None,
) -> TableCall:
    """Open the table of that name, or at that path if no name is given.

    `options` is the text of the call's parameter of that name, `settings` are the settings of other
    parameters (None: not given); both override those of the session and the table, `settings` first. Raises
    InvalidArgumentError, NoSuchTableError, UnsupportedTableError, CorruptTableError, StorageError.
    """
    from hudisql.options.table_settings import settings_of

    given = parse_options(options)
    given |= {key.name: str(value) for key, value in (settings or {}).items() if value is not None}
    entry = None if table is None else find_entry(context, table)
    opened = open_session_table(context, base_path_of(context, entry, path))
    config = settings_of(context, opened, entry.parameters if entry else {}).under(given)
    return TableCall(context, opened, entry, config)


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
