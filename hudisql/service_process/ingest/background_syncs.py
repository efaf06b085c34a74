"""Syncs tables with the metastore in parallel to the commits of a worker.

A sync waits for the metastore's answers, five times as long as a small commit takes: a worker of many tables
goes on with commits meanwhile. A sync that fails is a warning, and the next commit syncs again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from hudisql.catalog.client import MetastoreClient
from hudisql.console import Console
from hudisql.errors import SyncFailedError

_THREADS: Final = 4
_TIMEOUT_SECONDS: Final = 600.0
# A worker that leaves tables must answer Kafka's group in time.
_SETTLE_SECONDS: Final = 60.0

Sync = Callable[[MetastoreClient], None]


class BackgroundSyncs:
    """Runs syncs in threads with their own connections, at most one per table at a time.

    Commits of a table whose sync has not begun share that sync.
    """

    def __init__(self, metastore: MetastoreClient, console: Console) -> None:
        self._metastore = metastore
        self._console = console
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sync")
        self._connections = threading.local()
        self._opened: list[MetastoreClient] = []
        self._changed = threading.Condition()
        self._waiting: dict[str, Sync] = {}
        self._busy: set[str] = set()

    def submit(self, table: str, sync: Sync) -> None:
        """Queue the sync of the table."""
        with self._changed:
            self._waiting[table] = sync
            if table not in self._busy:
                self._busy.add(table)
                self._threads.submit(self._run, table)

    def settle(self, tables: Collection[str]) -> None:
        """Wait for the syncs of the tables, for at most a minute."""
        with self._changed:
            self._changed.wait_for(lambda: self._busy.isdisjoint(tables), _SETTLE_SECONDS)

    def close(self) -> None:
        """Wait for all syncs, and close the connections."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy)
        self._threads.shutdown()
        for metastore_client in self._opened:
            metastore_client.close()

    def _run(self, table: str) -> None:
        with self._changed:
            sync = self._waiting.pop(table)
        try:
            sync(self._client())
        except SyncFailedError as error:
            self._warn(table, error.message)
        except Exception as error:
            self._warn(table, f"the sync with the metastore failed: {error}")
        finally:
            self._ended(table)

    def _ended(self, table: str) -> None:
        with self._changed:
            if table in self._waiting:
                self._threads.submit(self._run, table)
                return
            self._busy.remove(table)
            self._changed.notify_all()

    def _client(self) -> MetastoreClient:
        if not hasattr(self._connections, "client"):
            self._connections.client = self._metastore.another(timeout=_TIMEOUT_SECONDS)
            self._opened.append(self._connections.client)
        client: MetastoreClient = self._connections.client
        return client

    def _warn(self, table: str, problem: str) -> None:
        self._console.warning(f"{table}: {problem}; the next commit syncs again")
