"""The declared tables that one worker may feed: those of topics, and those of pushes if it accepts pushes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudisql.ingest.declaration import PUSH
from hudisql.ingest.push.push_service import PushService
from hudisql.service_process.ingest.declared_table import DeclaredTable, WorkerParts, declared_tables
from hudisql.storage import Storage

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass
class WorkersTables:
    """Finds the declared tables that a worker may feed; those of pushes only with a `service`.

    `parts` are those of the worker. `of_topics` are the tables of topics that the last look found.
    """

    context: Context
    storage: Storage
    parts: WorkerParts
    service: PushService | None = None
    of_topics: Sequence[DeclaredTable] = ()

    def __call__(self) -> Sequence[DeclaredTable]:
        """The current tables. Raises MetastoreError, SettingsError."""
        service = self.service
        tables = declared_tables(self.context, self.storage, self.parts)
        self.of_topics = [table for table in tables if table.declaration.source != PUSH]
        if service is None:
            return self.of_topics
        service.read_tokens_again()
        service.accepted.declare(
            {table.name: table.declaration.is_paused for table in tables if table.declaration.source == PUSH}
        )
        self._discard_rows_of_dropped_tables(service, {table.name for table in tables})
        return tables

    def _discard_rows_of_dropped_tables(self, service: PushService, declared: set[str]) -> None:
        """Discard rows of dropped tables, which would keep the log's segments forever."""
        for name in set(service.log.tables()) - declared:
            database, _, table = name.partition(".")
            if self.context.metastore.get_table(database, table) is None:
                rows = service.events.discard(name)
                self.context.console.warning(
                    f"{name} was dropped, and with it {rows:,} rows that were pushed and not committed"
                )
