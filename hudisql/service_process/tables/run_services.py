"""`hudisql services run`: finds tables in the metastore and runs their table services in one process.

Spark starts when the first service needs it: checks, cleans, archiving and rollbacks do not. A table's
settings are looked up as for its writes: the session's, TBLPROPERTIES, `hoodie.properties`. Checking a table
that has not changed opens nothing: where directories have modification times (local, HDFS) it costs one
status call for `.hoodie`, else one listing of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hudisql.catalog.metastore_table import MetastoreTable, main_entries
from hudisql.errors import (
    InvalidArgumentError,
    MetastoreError,
    NoSuchDatabaseError,
    NoSuchPathError,
    NoSuchTableError,
)
from hudisql.format.timeline.timeline_layout import metadata_directory
from hudisql.options.table_call import find_entry, location_of, open_registered
from hudisql.services.schedule.due_services import Service, service_states
from hudisql.services.schedule.run_service import ServiceRun
from hudisql.services.schedule.service_loop import ServiceLoop, TableLook
from hudisql.storage import Storage
from hudisql.storage.hadoop_files import hadoop_settings
from hudisql.storage.paths import S3_SCHEMES, scheme_of

if TYPE_CHECKING:
    from hudisql.context import Context

REFRESH_SECONDS: Final = 300.0
DEFAULT_INTERVAL: Final = 60.0
DEFAULT_PARALLELISM: Final = 2
_UNSETTLED_MS = 2000


@dataclass(frozen=True, slots=True)
class ServedTables:
    """The selected tables: those named, those of one database, or, with neither, all of the metastore."""

    tables: tuple[str, ...] = ()
    database: str | None = None


def run_services(
    context: Context,
    served: ServedTables,
    stop: threading.Event,
    *,
    once: bool,
    interval: float = DEFAULT_INTERVAL,
    parallelism: int = DEFAULT_PARALLELISM,
) -> bool:
    """Run table services until `stop` is set, or `once`; False if a service failed with `once`.

    `interval` is in seconds. Raises InvalidArgumentError, NoSuchTableError for a named table that does not
    exist, MetastoreError if the metastore does not answer at the start, SettingsError.
    """
    if interval <= 0 or parallelism < 1:
        raise InvalidArgumentError("the interval must be above 0, and the parallelism at least 1")
    registry = TableRegistry(context, served, stop.is_set)
    count = len(registry.tables())
    context.console.info(f"maintaining {count:,} Hudi table{'' if count == 1 else 's'}")
    loop = ServiceLoop(
        registry.tables,
        context.console,
        stop,
        lambda: _cancel_jobs(context),
        interval=interval,
        parallelism=parallelism,
    )
    if once:
        return loop.run_once()
    loop.run()
    return True


@dataclass
class TableRegistry:
    """The maintained tables, looked up from time to time; known tables keep their state."""

    context: Context
    served: ServedTables
    is_stopping: Callable[[], bool]
    clock: Callable[[], float] = time.monotonic
    _tables: dict[str, RegisteredTable] = field(default_factory=dict)
    _looked_up_at: float | None = None

    def tables(self) -> Sequence[RegisteredTable]:
        """The tables by name."""
        now = self.clock()
        if self._looked_up_at is not None and now - self._looked_up_at < REFRESH_SECONDS:
            return list(self._tables.values())
        try:
            entries = served_entries(self.context, self.served)
        except (MetastoreError, NoSuchTableError) as error:
            if self._looked_up_at is None:
                raise
            self.context.console.warning(f"the list of tables could not be refreshed: {error.message}")
        else:
            self._renew(entries)
        self._looked_up_at = now
        return list(self._tables.values())

    def _renew(self, entries: Sequence[MetastoreTable]) -> None:
        known, storage = self._tables, storage_without_spark(self.context)
        self._tables = {}
        for entry in entries:
            table = known.get(entry.full_name)
            if table is None or _described(table.entry) != _described(entry):
                table = RegisteredTable(self.context, storage, entry, self.is_stopping)
            self._tables[entry.full_name] = table


def served_entries(context: Context, served: ServedTables) -> list[MetastoreTable]:
    """One metastore entry of each table. Raises NoSuchTableError, InvalidArgumentError, MetastoreError."""
    named = [find_entry(context, name) for name in served.tables]
    if named:
        return main_entries(named, storage_without_spark(context))
    databases = [served.database] if served.database is not None else context.metastore.list_databases()
    entries: list[MetastoreTable] = []
    for database in databases:
        if served.database is not None and context.metastore.get_database(database) is None:
            raise NoSuchDatabaseError(f"the metastore has no database {database}")
        entries += context.metastore.get_tables(database, context.metastore.list_tables(database))
    return main_entries(entries, storage_without_spark(context))


def storage_without_spark(context: Context) -> Storage:
    """Storage by the settings alone, or Spark's if it runs already."""
    if context.started_spark is not None:
        return context.storage
    return Storage(hadoop_settings(context.settings.conf, context.settings.hiveconf))


def _described(entry: MetastoreTable) -> tuple[object, ...]:
    return dict(entry.parameters), entry.location, dict(entry.serde_properties)


def _cancel_jobs(context: Context) -> None:
    spark = context.started_spark
    if spark is not None:
        with suppress(Exception):
            spark.sparkContext.cancelAllJobs()


@dataclass
class RegisteredTable:
    """A `MaintainedTable`; `entry` is its metastore entry, `storage` needs no Spark."""

    context: Context
    storage: Storage
    entry: MetastoreTable
    is_stopping: Callable[[], bool]
    _watch: TableWatch | None = field(default=None, repr=False)
    _look: TableLook | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """`database.name`."""
        return self.entry.full_name

    def look(self) -> TableLook:
        """What is due. Raises NoSuchTableError, UnsupportedTableError, CorruptTableError, StorageError."""
        if self._watch is None:
            self._watch = TableWatch(self.storage, self.storage.qualify(location_of(self.entry)))
        signature, known = self._watch.signature(), self._look
        if known is not None and known.signature == signature and not known.changes_with_time:
            return known
        self._look = None
        call = open_registered(self.context, self.entry, self.storage)
        self._look = TableLook(signature, service_states(call.table, call.config, call.concurrency))
        return self._look

    def run(self, service: Service) -> str | None:
        """Run the service by the table's current settings, and sync the metastore if they say so.

        Raises NoSuchTableError for a table that was dropped; SyncFailedError if only the sync failed.
        """
        entry = self.context.metastore.get_table(self.entry.database, self.entry.name)
        if entry is None:
            raise NoSuchTableError(f"the table {self.name} was dropped")
        self.entry = entry
        call = open_registered(self.context, entry, self.storage)
        if service is Service.PUBLICATION:
            from hudisql.options.iceberg_sync import publish_table

            published, _ = publish_table(self.context.metastore, call.table, entry, call.concurrency())
            return f"{published.instant}, {published.rows:,} rows" if published.is_new else None
        done = ServiceRun(
            call.table,
            call.config,
            call.concurrency,
            call.write_options,
            lambda: self.context.spark,
            self.is_stopping,
        ).run(service)
        if done is not None:
            call.sync()
        return done


@dataclass(frozen=True, slots=True)
class _Seen:
    modified_ms: int
    is_settled: bool
    signature: int


@dataclass(slots=True)
class TableWatch:
    """Watches the table at `base_path`, which is qualified. `now_ms` is the time since the epoch."""

    storage: Storage
    base_path: str
    now_ms: Callable[[], float] = lambda: time.time() * 1000
    _seen: _Seen | None = field(default=None, repr=False)

    def signature(self) -> int:
        """A number that stays the same until a file directly in `.hoodie` changes.

        0 for a missing table. Raises StorageError.
        """
        directory = metadata_directory(self.base_path)
        modified = self._modification_time(directory)
        if self._seen is not None and self._seen.is_settled and self._seen.modified_ms == modified:
            return self._seen.signature
        listed_at = self.now_ms()
        try:
            entries = self.storage.list_directory(directory)
        except NoSuchPathError:
            self._seen = None
            return 0
        files = [
            (entry.name, entry.length, entry.modification_time_ms)
            for entry in entries
            if not entry.is_directory
        ]
        # A change within the clock's resolution of the listing does not change the modification time.
        is_settled = modified > 0 and listed_at - modified > _UNSETTLED_MS
        self._seen = _Seen(modified, is_settled, hash(tuple(files)) or 1)
        return self._seen.signature

    def _modification_time(self, directory: str) -> int:
        """The modification time; 0 where directories have none."""
        if scheme_of(directory) in S3_SCHEMES:
            return 0
        info = self.storage.info(directory)
        return 0 if info is None else info.modification_time_ms
