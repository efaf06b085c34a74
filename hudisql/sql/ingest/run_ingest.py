"""`hudisql ingest worker`: finds the declared tables in the metastore and feeds them. Starts no Spark."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hudisql.errors import InvalidArgumentError
from hudisql.ingest.kafka.group_ownership import GroupOwnership
from hudisql.ingest.worker import IngestWorker
from hudisql.sql.ingest.declared_table import DeclaredTable, declared_tables
from hudisql.sql.services.run_services import storage_without_spark
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
) -> bool:
    """Feed tables until `stop` is set, or until their topics' ends; False if a table has failed at the end.

    Workers of one `group` share the tables; `coordinator` are the Kafka brokers that know the group, by
    default those of the declared tables. Rows in memory take at most about `memory` bytes. Raises
    InvalidArgumentError, KafkaError, MetastoreError if the metastore does not answer at the start.
    """
    if memory < 1 << 20 or refresh_seconds <= 0:
        raise InvalidArgumentError("memory must be at least 1 MB, and the time between two looks above 0")
    storage = storage_without_spark(context)
    tables = declared_tables(context, storage)
    context.console.info(f"{len(tables):,} table{'' if len(tables) == 1 else 's'} with a declaration")
    while not tables and not until_caught_up and not stop.wait(refresh_seconds):
        tables = declared_tables(context, storage)
    if not tables:
        return True

    def committed(name: str, result: WriteResult) -> None:
        context.console.info(
            f"{name}: commit {result.instant_time}: {result.inserted:,} rows inserted, "
            f"{result.updated:,} updated, {result.deleted:,} deleted, {result.files} files"
        )

    worker = IngestWorker(
        lambda: declared_tables(context, storage),
        GroupOwnership(coordinator or _coordinator_of(tables), group),
        context.console,
        stop,
        f"{socket.gethostname()}:{os.getpid()}",
        memory=memory,
        refresh_seconds=refresh_seconds,
        committed=committed,
    )
    return worker.run(until_caught_up=until_caught_up)


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
