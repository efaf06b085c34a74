"""A table that `hudisql services run` maintains: which services are due by its settings, and their runs.

Settings are looked up as for the table's writes: the session's, TBLPROPERTIES, `hoodie.properties`. Checking
a table that has not changed opens nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hudisql.catalog.metastore_table import MetastoreTable
from hudisql.errors import NoSuchTableError
from hudisql.options.table_call import location_of, open_registered
from hudisql.services.schedule.due_services import Service, service_states
from hudisql.services.schedule.run_service import ServiceRun
from hudisql.services.schedule.service_loop import TableLook
from hudisql.services.schedule.table_watch import TableWatch
from hudisql.storage import Storage

if TYPE_CHECKING:
    from hudisql.context import Context


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
