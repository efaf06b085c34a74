"""Which worker takes the pushes of a table: leases, which are locks of the metastore that their owner renews.

Each worker has a lock of its own, the sign that it is there, and one for each of its tables; the names are
those of a database that need not be. A worker whose own lock was not renewed during four looks of another one
is dead: that one removes its locks, by their numbers, whatever the metastore's own time for locks is
(`hive.txn.timeout`, which Hive 2.3 enforces only where its compactor runs). A worker that was thought dead
finds its locks gone, and its commits are refused by the offsets: leases keep workers from hindering each
other, and exactly once does not rest on them.

Tables are shared equally. A worker that has rows of a table in its log waits for the lock; the owner commits
and gives the table up. Everything but giving up happens in a thread of its own, since a commit may take long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.metastore_lock import lock_name
from hudisql.errors import HudisqlError, MetastoreError, MetastoreUnavailableError
from hudisql.ingest.ownership import DeclaredName, HandOver
from hudisql.ingest.push.lease_shares import LOOKS, LeaseShares
from hudisql.ingest.push.worker_locks import (
    LOCK_DATABASE,
    WorkerLocks,
    addresses_of,
    is_of_worker,
)

LEASE_SECONDS: Final = 20.0
# A worker whose own thread hangs for so long gives its tables to others.
_HANGING_SECONDS: Final = 900.0


class LeaseOwnership:
    """The ownership of the worker `identity`, which must be that of its log: only one process has a log.

    `addresses` say where clients reach it; without any it takes only the tables of which its log has rows,
    `in_log`, until these are committed. A dead worker is noticed after `lease_seconds`.
    """

    def __init__(
        self,
        client: MetastoreClient,
        identity: str,
        addresses: Mapping[str, str],
        in_log: Callable[[], Collection[str]],
        warn: Callable[[str], None],
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._locks = WorkerLocks(client, identity, addresses, clock)
        self._shares = LeaseShares(self._locks, in_log)
        self._warn = warn
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._declared: Mapping[str, str] = {}
        self._asked_at = 0.0
        self._is_failing = False
        self.is_settled = False
        self.hand_over: HandOver = lambda _is_left, _commits: None

    def owned(self, tables: Mapping[str, DeclaredName]) -> set[str]:
        """The tables whose lease this worker has; those that it has lost or is to leave are handed over.

        Raises MetastoreError at the first call if the metastore has no locks.
        """
        self._asked_at = self._clock()
        self._declared = {name: lock_name(name) for name in tables}
        if self._thread is None:
            self._look_first()
            self._thread = threading.Thread(target=self._run, name="push-leases", daemon=True)
            self._thread.start()
        # Before the tables are asked for: those that a look has added since are not yet the worker's.
        self.is_settled = self._shares.has_all
        lost, leaving = self._locks.pop_lost(), self._locks.to_leave
        if lost:
            self.hand_over(lost.__contains__, False)
        if leaving:
            self.hand_over(leaving.__contains__, True)
            self._locks.leave(leaving, self._warn)
        return self._locks.owned & set(tables)

    def owner(self, table: str) -> Mapping[str, str] | None:
        """Where another worker takes the table's pushes."""
        return self._shares.owners.get(table)

    def report(self, states: Mapping[str, str]) -> None:
        """Do nothing: a lease names its owner alone."""

    def close(self) -> None:
        """Give all tables up: other workers take them with their next look."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        try:
            self._locks.leave_all()
        except HudisqlError as error:
            self._warn(
                f"leases are not given back, and end after {self._lease_seconds:.0f} s: {error.message}"
            )
        self._locks.client.close()

    def look(self) -> None:
        """Renew what this worker has, take what it may, note what it must leave. Raises MetastoreError."""
        self._shares.look(self._declared)

    def _look_first(self) -> None:
        try:
            self.look()
        except MetastoreUnavailableError:
            raise
        except MetastoreError as error:
            raise MetastoreError(
                f"the metastore has no leases: {error.message}",
                hint="they need the tables of Hive's transactions, which schematool creates; a worker that "
                "is the only one that takes pushes needs none: --sole-worker",
            ) from error

    def _run(self) -> None:
        while not self._stop.wait(self._lease_seconds / LOOKS):
            if self._clock() - self._asked_at > _HANGING_SECONDS:
                continue
            try:
                self.look()
                self._is_failing = False
            except HudisqlError as error:
                if not self._is_failing:
                    self._warn(f"leases cannot be renewed: {error.message}")
                self._is_failing = True


def lease_holders(client: MetastoreClient) -> dict[str, str]:
    """Where the worker that has the lease of a table takes pushes, or its log's name, by `lock_name`.

    Raises MetastoreError.
    """
    return {
        lock.table: next(iter(addresses_of(lock).values()), lock.user)
        for lock in client.list_locks(LOCK_DATABASE)
        if lock.is_acquired and not is_of_worker(lock)
    }
