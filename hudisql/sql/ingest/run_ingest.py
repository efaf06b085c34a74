"""`hudisql ingest worker`: finds the declared tables in the metastore and feeds them. Starts no Spark."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hudisql.errors import InvalidArgumentError
from hudisql.ingest.kafka.group_ownership import GroupOwnership
from hudisql.ingest.kafka.kafka_source import KafkaSource
from hudisql.ingest.watch.commit_log import CommitLog
from hudisql.ingest.watch.group_reports import GroupReports
from hudisql.ingest.watch.metrics import WorkerMetrics
from hudisql.ingest.watch.observer import IngestObserver, Observers
from hudisql.ingest.watch.watch_server import WorkerHealth, watch_server
from hudisql.ingest.worker import IngestWorker
from hudisql.sql.ingest.declared_table import DeclaredTable, declared_tables
from hudisql.sql.services.run_services import storage_without_spark
from hudisql.storage import Storage

if TYPE_CHECKING:
    from hudisql.context import Context

DEFAULT_GROUP: Final = "default"
DEFAULT_MEMORY: Final = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker runs.

    Workers of one `group` share the tables; `coordinator` are the Kafka brokers that know the group, by
    default those of the declared tables. Rows in memory take at most about `memory` bytes. `metrics` is the
    HOST:PORT at which metrics and health are served.
    """

    group: str = DEFAULT_GROUP
    coordinator: str | None = None
    until_caught_up: bool = False
    memory: int = DEFAULT_MEMORY
    refresh_seconds: float = 10.0
    metrics: str | None = None

    def check(self) -> None:
        """Raise InvalidArgumentError for values that cannot be."""
        if self.memory < 1 << 20 or self.refresh_seconds <= 0:
            raise InvalidArgumentError("memory must be at least 1 MB, and the time between two looks above 0")


def run_worker(context: Context, stop: threading.Event, **options: Any) -> bool:
    """Feed tables until `stop` is set, or until their topics' ends; False if a table has failed at the end.

    `options` are those of WorkerOptions. Raises InvalidArgumentError, KafkaError, MetastoreError if the
    metastore does not answer at the start.
    """
    given = WorkerOptions(**options)
    given.check()
    storage = storage_without_spark(context)
    with ExitStack() as stack:
        health = WorkerHealth()
        observers: list[IngestObserver] = [CommitLog(context.console), health]
        if given.metrics is not None:
            metrics = WorkerMetrics()
            observers.append(metrics)
            address = stack.enter_context(watch_server(given.metrics, metrics, health))
            context.console.info(f"metrics and health at http://{address}/metrics, /healthz and /readyz")
        tables = _first_tables(context, storage, stop, given, health)
        if not tables:
            return True
        owner = f"{socket.gethostname()}:{os.getpid()}"
        servers, clients = given.coordinator or coordinator_of(tables), tables[0].clients
        ownership = GroupOwnership(servers, given.group, owner, clients.kafka(servers))
        observers.append(GroupReports(ownership))
        worker = IngestWorker(
            lambda: declared_tables(context, storage),
            ownership,
            context.console,
            stop,
            owner,
            memory=given.memory,
            refresh_seconds=given.refresh_seconds,
            observer=Observers(observers),
            open_source=lambda servers: KafkaSource(servers, clients.kafka(servers)),
        )
        return worker.run(until_caught_up=given.until_caught_up)


def _first_tables(
    context: Context, storage: Storage, stop: threading.Event, options: WorkerOptions, health: WorkerHealth
) -> list[DeclaredTable]:
    """The declared tables, once there are some; none at the end."""
    tables = declared_tables(context, storage)
    context.console.info(f"{len(tables):,} table{'' if len(tables) == 1 else 's'} with a declaration")
    while not tables and not options.until_caught_up and not stop.wait(options.refresh_seconds):
        health.seen()
        tables = declared_tables(context, storage)
    return tables


def coordinator_of(tables: Sequence[DeclaredTable]) -> str:
    """The brokers of all tables. Raises InvalidArgumentError if they are not the same."""
    servers = sorted({each.declaration.bootstrap_servers or "" for each in tables} - {""})
    if len(servers) != 1:
        raise InvalidArgumentError(
            f"the declared tables have {len(servers)} different bootstrap_servers: which of them knows the "
            "group of workers?",
            hint="hudisql ingest worker --coordinator HOST:PORT, the same for all workers",
        )
    return servers[0]
