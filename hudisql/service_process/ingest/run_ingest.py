"""`hudisql ingest worker`: finds the declared tables in the metastore and feeds them. Starts no Spark."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from hudisql.errors import InvalidArgumentError
from hudisql.ingest.client_config import ClientConfig, read_client_config
from hudisql.ingest.declaration import PUSH
from hudisql.ingest.event_source import EventSource
from hudisql.ingest.kafka.group_ownership import GroupOwnership
from hudisql.ingest.kafka.kafka_source import KafkaSource
from hudisql.ingest.ownership import Ownership, OwnershipBySource
from hudisql.ingest.push.push_service import PushOptions, PushService
from hudisql.ingest.watch.metrics import WorkerMetrics
from hudisql.ingest.watch.observer import IngestObserver, Observers
from hudisql.ingest.watch.watch_server import WorkerHealth, watch_server
from hudisql.ingest.watch.worker_reports import CommitLog, GroupReports
from hudisql.ingest.worker import IngestWorker
from hudisql.service_process.ingest.background_syncs import BackgroundSyncs
from hudisql.service_process.ingest.declared_table import DeclaredTable, WorkerParts, declared_tables
from hudisql.service_process.tables.run_services import storage_without_spark
from hudisql.storage import Storage

if TYPE_CHECKING:
    from hudisql.context import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of a worker.

    Workers of one `group` share the tables of topics; `coordinator` are the Kafka brokers that know the
    group, by default those of the declared tables. With `push` the tables that are declared for pushes are
    fed, too. Rows in memory take at most about `memory` bytes. `metrics` is the HOST:PORT of the server of
    metrics and health. `compact` is called with the name of a table whose compaction is due,
    `is_compacting` is True while that is going on.
    """

    group: str = "default"
    coordinator: str | None = None
    until_caught_up: bool = False
    memory: int = 512 << 20
    refresh_seconds: float = 10.0
    metrics: str | None = None
    compact: Callable[[str], None] | None = None
    is_compacting: Callable[[str], bool] = lambda _table: False
    push: PushOptions | None = None

    def __post_init__(self) -> None:
        if self.memory < 1 << 20 or self.refresh_seconds <= 0:
            raise InvalidArgumentError(
                "memory must be at least 1 MB, and the seconds between two looks above 0"
            )


def run_worker(context: Context, stop: threading.Event, options: WorkerOptions) -> bool:
    """Feed tables until `stop` is set, or until their sources' ends; False if a table has failed at the end.

    Raises InvalidArgumentError, KafkaError, StorageError, MetastoreError if the metastore does not answer at
    the start.
    """
    with ExitStack() as resources:
        service = None
        if options.push is not None:
            service = PushService(options.push, context.console)
            resources.callback(service.close)
        health = WorkerHealth()
        metrics = WorkerMetrics()
        observers: list[IngestObserver] = [CommitLog(context.console), health]
        if options.metrics is not None:
            observers.append(metrics)
            address = resources.enter_context(watch_server(options.metrics, metrics, health))
            context.console.info(f"metrics and health at http://{address}/metrics, /healthz and /readyz")
        syncs = BackgroundSyncs(context.metastore, context.console)
        resources.callback(syncs.close)
        parts = WorkerParts(syncs, options.compact, service.accepted if service else None)
        look = WorkersTables(context, storage_without_spark(context), parts, service)
        if not _find_tables(look, stop, options, health):
            return True
        owner = f"{socket.gethostname()}:{os.getpid()}"
        clients = read_client_config(context.settings.kafka_config)
        ownership = _ownership(look, options, owner, clients)
        observers.append(GroupReports(ownership))
        if service is not None:
            service.start_servers(None if options.metrics is None else metrics.page)
        worker = IngestWorker(
            look,
            ownership,
            context.console,
            stop,
            owner,
            memory=options.memory,
            refresh_seconds=options.refresh_seconds,
            observer=Observers(observers),
            open_source=partial(_open_source, service, clients),
            is_compacting=options.is_compacting,
            settle=syncs.settle,
        )
        return worker.run(until_caught_up=options.until_caught_up)


def _find_tables(
    look: WorkersTables, stop: threading.Event, options: WorkerOptions, health: WorkerHealth
) -> bool:
    """Wait until there is a table to feed; False if there is none at the end."""
    tables = look()
    look.context.console.info(f"{len(tables):,} table{'' if len(tables) == 1 else 's'} with a declaration")
    if look.service is not None and not options.until_caught_up:
        return True
    while not tables and not options.until_caught_up and not stop.wait(options.refresh_seconds):
        health.seen()
        tables = look()
    return bool(tables)


def _ownership(look: WorkersTables, options: WorkerOptions, owner: str, clients: ClientConfig) -> Ownership:
    def join_group() -> Ownership:
        servers = options.coordinator or coordinator_of(look.of_topics)
        return GroupOwnership(servers, options.group, owner, clients.kafka(servers))

    if look.service is None:
        return join_group()
    pushed = look.service.ownership(look.context.metastore)
    return OwnershipBySource(join_group, pushed, look.context.console.warning)


def _open_source(service: PushService | None, clients: ClientConfig, name: str) -> EventSource:
    if service is not None and name == PUSH:
        return service.events
    return KafkaSource(name, clients.kafka(name))


def coordinator_of(tables: Sequence[DeclaredTable]) -> str:
    """The brokers of all tables. Raises InvalidArgumentError if they differ."""
    servers = sorted({table.declaration.bootstrap_servers or "" for table in tables} - {""})
    if len(servers) != 1:
        raise InvalidArgumentError(
            f"the declared tables have {len(servers)} different bootstrap_servers, and the group of workers "
            "needs one",
            hint="hudisql ingest worker --coordinator HOST:PORT, the same for all workers",
        )
    return servers[0]


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
