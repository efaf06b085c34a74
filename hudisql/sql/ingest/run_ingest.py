"""`hudisql ingest worker`: finds the declared tables in the metastore and feeds them. Starts no Spark."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from hudisql.console import Console
from hudisql.errors import InvalidArgumentError
from hudisql.ingest.declaration import PUSH
from hudisql.ingest.kafka.group_ownership import GroupOwnership
from hudisql.ingest.kafka.kafka_source import KafkaSource
from hudisql.ingest.ownership import Ownership, OwnershipBySource
from hudisql.ingest.push.push_service import PushOptions, PushService
from hudisql.ingest.worker import IngestWorker
from hudisql.sql.ingest.declared_table import DeclaredTable, declared_tables
from hudisql.sql.services.run_services import storage_without_spark
from hudisql.storage import Storage
from hudisql.write.execution.commit_files import WriteResult

if TYPE_CHECKING:
    from hudisql.context import Context

DEFAULT_GROUP: Final = "default"
DEFAULT_MEMORY: Final = 512 << 20


def run_worker(
    context: Context,
    stop: threading.Event,
    *,
    group: str = DEFAULT_GROUP,
    coordinator: str | None = None,
    until_caught_up: bool = False,
    memory: int = DEFAULT_MEMORY,
    refresh_seconds: float = 10.0,
    push: PushOptions | None = None,
) -> bool:
    """Feed tables until `stop` is set, or until their sources' ends; False if a table has failed at the end.

    Workers of one `group` share the tables of topics; `coordinator` are the Kafka brokers that know the
    group, by default those of the declared tables. With `push` those that are declared for pushes are fed,
    too. Rows in memory take at most about `memory` bytes. Raises InvalidArgumentError, KafkaError,
    StorageError, MetastoreError if the metastore does not answer at the start.
    """
    if memory < 1 << 20 or refresh_seconds <= 0:
        raise InvalidArgumentError("memory must be at least 1 MB, and the time between two looks above 0")
    with ExitStack() as resources:
        service = None
        if push is not None:
            service = PushService(push, context.console)
            resources.callback(service.close)
        look = WorkersTables(context, storage_without_spark(context), service)
        tables = look()
        context.console.info(f"{len(tables):,} table{'' if len(tables) == 1 else 's'} with a declaration")
        while service is None and not tables and not until_caught_up and not stop.wait(refresh_seconds):
            tables = look()
        if not tables and (service is None or until_caught_up):
            return True

        def join_group() -> Ownership:
            return GroupOwnership(coordinator or _coordinator_of(look.of_topics), group)

        ownership: Ownership
        if service is None:
            ownership = join_group()
        else:
            pushed = service.ownership(context.metastore)
            ownership = OwnershipBySource(join_group, pushed, context.console.warning)
            service.start_servers()
        worker = IngestWorker(
            look,
            ownership,
            context.console,
            stop,
            f"{socket.gethostname()}:{os.getpid()}",
            memory=memory,
            refresh_seconds=refresh_seconds,
            committed=partial(_tell_commit, context.console),
            open_source=lambda name: service.events if service and name == PUSH else KafkaSource(name),
        )
        return worker.run(until_caught_up=until_caught_up)


@dataclass
class WorkersTables:
    """Looks for the declared tables that a worker may feed; those of pushes only with a `service`.

    `of_topics` are those of topics, as the last look found them.
    """

    context: Context
    storage: Storage
    service: PushService | None
    of_topics: Sequence[DeclaredTable] = ()

    def __call__(self) -> Sequence[DeclaredTable]:
        """The tables as they are now. Raises MetastoreError."""
        service = self.service
        tables = declared_tables(self.context, self.storage, service.accepted if service else None)
        self.of_topics = [each for each in tables if each.declaration.source != PUSH]
        if service is None:
            return self.of_topics
        service.read_tokens_again()
        service.accepted.declare(
            {each.name: each.declaration.paused for each in tables if each.declaration.source == PUSH}
        )
        self._discard_rows_of_dropped_tables(service, {each.name for each in tables})
        return tables

    def _discard_rows_of_dropped_tables(self, service: PushService, declared: set[str]) -> None:
        """Rows of a table that the metastore does not have would keep the log's segments for ever."""
        for name in set(service.log.tables()) - declared:
            database, _, table = name.partition(".")
            if self.context.metastore.get_table(database, table) is None:
                rows = service.events.discard(name)
                self.context.console.warning(
                    f"{name} was dropped, and with it {rows:,} rows that were pushed and not committed"
                )


def _tell_commit(console: Console, name: str, result: WriteResult) -> None:
    console.info(
        f"{name}: commit {result.instant_time}: {result.inserted:,} rows inserted, "
        f"{result.updated:,} updated, {result.deleted:,} deleted, {result.files} files"
    )


def _coordinator_of(tables: Sequence[DeclaredTable]) -> str:
    """The brokers of all tables. Raises InvalidArgumentError if they are not the same."""
    servers = sorted({each.declaration.bootstrap_servers or "" for each in tables} - {""})
    if len(servers) != 1:
        raise InvalidArgumentError(
            f"the declared tables have {len(servers)} different bootstrap_servers: which of them knows the "
            "group of workers?",
            hint="hudisql ingest worker --coordinator HOST:PORT, the same for all workers",
        )
    return servers[0]
