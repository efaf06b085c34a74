"""A lock around the change of a metastore entry, for servers that do not compare what they replace.

It is one of the metastore's own locks, on a name in a database that need not exist: a writer may hold Hive's
lock on the table itself meanwhile. Not every server removes locks of clients that have ended, so a waiting
client removes those that are older than Hive's own limit (`hive.txn.timeout`, five minutes).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.connection import user_name
from hudisql.catalog.metastore_lock import lock_name
from hudisql.errors import MetastoreError, MetastoreUnavailableError, TableLockedError

LOCK_DATABASE: Final = "hudisql_alter"
WAIT_SECONDS: Final = 60.0
DEAD_SECONDS: Final = 300.0
_FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 1.0


@contextmanager
def entry_lock(
    client: MetastoreClient,
    table: str,
    *,
    wait_seconds: float = WAIT_SECONDS,
    dead_seconds: float = DEAD_SECONDS,
) -> Iterator[bool]:
    """Hold the lock of the entry `table` (`database.name`); False if the metastore has no tables for locks.

    Waits while another client holds it, at most `wait_seconds`; a lock without a heartbeat for
    `dead_seconds` is removed. Raises TableLockedError after the wait, and MetastoreError.
    """
    locked = lock_name(table)
    queued = _queue(client, locked)
    if queued is None:
        yield False
        return
    lock_id, is_acquired = queued
    try:
        if not is_acquired:
            _wait(client, lock_id, table, wait_seconds, dead_seconds)
        yield True
    finally:
        client.unlock(lock_id)


def _queue(client: MetastoreClient, locked: str) -> tuple[int, bool] | None:
    """The number of the lock and whether it is acquired, None if the server cannot lock."""
    try:
        return client.queue_lock(LOCK_DATABASE, locked, user_name(), socket.gethostname())
    except MetastoreUnavailableError:
        raise
    except MetastoreError:
        return None


def _wait(
    client: MetastoreClient, lock_id: int, table: str, wait_seconds: float, dead_seconds: float
) -> None:
    ends = time.monotonic() + wait_seconds
    pause = _FIRST_PAUSE_SECONDS
    while not client.has_lock(lock_id):
        if time.monotonic() > ends:
            raise TableLockedError(
                f"cannot alter {table}: another client has been changing its metastore entry for "
                f"{wait_seconds:.0f} s",
                hint=f"try again; the lock of a client that has ended is removed after {dead_seconds:.0f} s",
            )
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        if pause == _LONGEST_PAUSE_SECONDS:
            _remove_dead_locks(client, lock_name(table), dead_seconds)


def _remove_dead_locks(client: MetastoreClient, locked: str, dead_seconds: float) -> None:
    """Remove locks on `locked` that are older than `dead_seconds` by the clock of the server."""
    locks = [lock for lock in client.list_locks(LOCK_DATABASE) if lock.table == locked]
    # The newest heartbeat is that of this client, which has just asked for its lock.
    now = max((lock.last_heartbeat for lock in locks), default=0)
    for lock in locks:
        if now - lock.last_heartbeat > dead_seconds * 1000:
            client.unlock(lock.lock_id)
