"""The locks that one worker has in the metastore: its own, and those of the tables it holds or waits for.

Used by the worker's thread and by the thread that renews the leases.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.metastore_table import ListedLock
from hudisql.errors import HudisqlError

LOCK_DATABASE: Final = "hudisql_ingest"
NO_ADDRESS: Final = "-"
_WORKER: Final = "worker/"
_RENEWED_SECONDS: Final = 60.0


@dataclass
class _TableLock:
    """A lock of a table, acquired or waited for."""

    lock_id: int
    renewed: float


@dataclass
class WorkerLocks:
    """`identity` is the worker's name in its locks, `addresses` say where clients reach it, by protocol."""

    client: MetastoreClient
    identity: str
    addresses: Mapping[str, str]
    clock: Callable[[], float]
    _mutex: Lock = field(default_factory=Lock)
    _own_lock: int | None = None
    _held: dict[str, _TableLock] = field(default_factory=dict)
    _waiting: dict[str, _TableLock] = field(default_factory=dict)
    _lost: set[str] = field(default_factory=set)
    _to_leave: set[str] = field(default_factory=set)

    @property
    def held(self) -> set[str]:
        """The tables whose lock the worker has."""
        with self._mutex:
            return set(self._held)

    @property
    def owned(self) -> set[str]:
        """The tables whose lock the worker has and keeps."""
        with self._mutex:
            return set(self._held) - self._to_leave

    @property
    def to_leave(self) -> set[str]:
        """The tables whose lock the worker has and is to give back."""
        with self._mutex:
            return self._to_leave & set(self._held)

    @property
    def waiting(self) -> set[str]:
        """The tables whose lock the worker waits for."""
        return set(self._waiting)

    def pop_lost(self) -> set[str]:
        """The tables whose lock the worker has lost since the last call."""
        with self._mutex:
            lost, self._lost = self._lost, set()
            return lost

    def renew_worker(self) -> None:
        """Show that the worker is there; after others removed its own lock it begins again without tables."""
        if self._own_lock is not None and self.client.has_lock(self._own_lock):
            return
        with self._mutex:
            self._lost |= set(self._held)
            self._held.clear()
            self._waiting.clear()
            self._to_leave.clear()
        # Only one process has the log: other locks with its identity are stale.
        for lock in self.client.list_locks(LOCK_DATABASE):
            if lock.user == self.identity:
                self.client.unlock(lock.lock_id)
        self._own_lock, _ = self._queue(_WORKER + self.identity)

    def renew_tables(self) -> None:
        """Keep the metastore from removing locks by its own time."""
        now = self.clock()
        for locks in (self._held, self._waiting):
            for lock in [lock for lock in list(locks.values()) if now - lock.renewed > _RENEWED_SECONDS]:
                self.client.has_lock(lock.lock_id)
                lock.renewed = now

    def compare(self, locks: Sequence[ListedLock]) -> None:
        """Note which locks are lost, by the metastore's list of all locks."""
        listed = {lock.lock_id: lock for lock in locks if lock.user == self.identity}
        with self._mutex:
            known = {lock.lock_id for lock in [*self._held.values(), *self._waiting.values()]}
            for name, lock in list(self._held.items()):
                if lock.lock_id not in listed:
                    del self._held[name]
                    self._to_leave.discard(name)
                    self._lost.add(name)
            for name, lock in list(self._waiting.items()):
                if lock.lock_id not in listed:
                    del self._waiting[name]
        for lock_id, listed_lock in listed.items():
            # Of a request whose answer was lost.
            if lock_id not in known and not is_of_worker(listed_lock):
                self.client.unlock(lock_id)

    def acquire(self, name: str, locked: str) -> None:
        """Take the table's lock `locked` if it is free."""
        lock_id, is_acquired = self._queue(locked)
        if is_acquired:
            self._note(name, lock_id, is_acquired=True)
        else:
            self.client.unlock(lock_id)

    def wait_for(self, name: str, locked: str) -> None:
        """Take the table's lock `locked`, or wait for it: its owner gives it back."""
        lock_id, is_acquired = self._queue(locked)
        self._note(name, lock_id, is_acquired)

    def check_waiting(self, wanted: Collection[str]) -> None:
        """Note which awaited locks are the worker's now, and wait for tables that are `wanted` only."""
        for name, lock in list(self._waiting.items()):
            if name not in wanted:
                self.client.unlock(lock.lock_id)
                del self._waiting[name]
            elif self.client.has_lock(lock.lock_id):
                self._note(name, lock.lock_id, is_acquired=True)

    def mark_to_leave(self, names: Collection[str]) -> None:
        """The worker is to give these tables back, too."""
        with self._mutex:
            self._to_leave = (self._to_leave | set(names)) & set(self._held)

    def leave(self, names: Collection[str], warn: Callable[[str], None]) -> None:
        """Give the locks of these tables back."""
        for name in names:
            with self._mutex:
                lock = self._held.pop(name, None)
                self._to_leave.discard(name)
            if lock is not None:
                try:
                    self.client.unlock(lock.lock_id)
                except HudisqlError as error:
                    # The next look finds it among the locks of no known request, and removes it.
                    warn(f"{name}: the lease is not given back yet: {error.message}")

    def leave_all(self) -> None:
        """Give all locks back. Raises MetastoreError."""
        for lock in [*self._held.values(), *self._waiting.values()]:
            self.client.unlock(lock.lock_id)
        if self._own_lock is not None:
            self.client.unlock(self._own_lock)

    def _queue(self, locked: str) -> tuple[int, bool]:
        http, flight = (self.addresses.get(protocol, NO_ADDRESS) for protocol in ("http", "flight"))
        return self.client.queue_lock(LOCK_DATABASE, locked, self.identity, http, flight)

    def _note(self, name: str, lock_id: int, is_acquired: bool) -> None:
        with self._mutex:
            self._waiting.pop(name, None)
            (self._held if is_acquired else self._waiting)[name] = _TableLock(lock_id, self.clock())


def is_of_worker(lock: ListedLock) -> bool:
    """True for a worker's own lock, False for that of a table."""
    return lock.table.startswith(_WORKER)


def addresses_of(lock: ListedLock) -> dict[str, str]:
    """Where the worker of a lock takes pushes, by protocol."""
    addresses = {"http": lock.host, "flight": lock.agent}
    return {protocol: address for protocol, address in addresses.items() if address != NO_ADDRESS}
