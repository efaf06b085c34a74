"""`hudisql services run`: finds tables in the metastore and runs their table services in one process.

Spark starts when the first service needs it: checks, cleans, archiving and rollbacks do not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hudisql.catalog.metastore_table import MetastoreTable, main_entries
from hudisql.errors import InvalidArgumentError, MetastoreError, NoSuchDatabaseError, NoSuchTableError
from hudisql.options.table_call import find_entry
from hudisql.service_process.tables.maintained_table import RegisteredTable
from hudisql.services.schedule.service_loop import ServiceLoop
from hudisql.storage import Storage
from hudisql.storage.hadoop_files import hadoop_settings

if TYPE_CHECKING:
    from hudisql.context import Context

REFRESH_SECONDS: Final = 300.0
DEFAULT_INTERVAL: Final = 60.0
DEFAULT_PARALLELISM: Final = 2


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
    found: list[MetastoreTable] = []
    for database in databases:
        if served.database is not None and context.metastore.get_database(database) is None:
            raise NoSuchDatabaseError(f"the metastore has no database {database}")
        found += context.metastore.get_tables(database, context.metastore.list_tables(database))
    return main_entries(found, storage_without_spark(context))


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
