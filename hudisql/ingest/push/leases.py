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

import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from hudisql.catalog.client import MetastoreClient
from hudisql.catalog.metastore_table import ListedLock
from hudisql.errors import HudisqlError, MetastoreError, MetastoreUnavailableError
from hudisql.ingest.ownership import DeclaredName, HandOver

LOCK_DATABASE: Final = "hudisql_ingest"
LEASE_SECONDS: Final = 20.0
_LOOKS: Final = 4
_WORKER: Final = "worker/"
LONGEST_NAME: Final = 128
NO_ADDRESS: Final = "-"
_NEW_LOCKS_A_LOOK: Final = 50
_RENEWED_SECONDS: Final = 60.0
# A worker whose own thread hangs for so long gives its tables to others.
_HANGING_SECONDS: Final = 900.0


@dataclass
class _Lock:
    """A lock of this worker, acquired or waited for."""

    lock_id: int
    renewed: float


@dataclass
class _Looks:
    """How often another worker was seen with the same heartbeat."""

    heartbeat: int = -1
    count: int = 0


@dataclass
class LeaseOwnership:
    """The ownership of the worker `identity`, which must be that of its log: only one process has a log.

    `addresses` say where clients reach it; without any it takes only the tables of which its log has rows,
    `in_log`, until these are committed. A dead worker is noticed after `lease_seconds`.
    """

    client: MetastoreClient
    identity: str
    addresses: Mapping[str, str]
    in_log: Callable[[], Collection[str]]
    warn: Callable[[str], None]
    lease_seconds: float = LEASE_SECONDS
    clock: Callable[[], float] = time.monotonic
    is_settled: bool = False
    _mutex: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _declared: Mapping[str, str] = field(default_factory=dict)
    _asked_at: float = 0.0
    _own_lock: int | None = None
    _held: dict[str, _Lock] = field(default_factory=dict)
    _waiting: dict[str, _Lock] = field(default_factory=dict)
    _lost: set[str] = field(default_factory=set)
    _to_leave: set[str] = field(default_factory=set)
    _looks: dict[str, _Looks] = field(default_factory=dict)
    _owners: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    _has_all: bool = False
    _is_failing: bool = False

    def __post_init__(self) -> None:
        self.hand_over: HandOver = lambda _is_left, _commits: None

    def owned(self, tables: Mapping[str, DeclaredName]) -> set[str]:
        """The tables whose lease this worker has; those that it has lost or is to leave are handed over.

        Raises MetastoreError at the first call if the metastore has no locks.
        """
        self._asked_at = self.clock()
        self._declared = {name: lock_name(name) for name in tables}
        if self._thread is None:
            self._look_first()
            self._thread = threading.Thread(target=self._run, name="push-leases", daemon=True)
            self._thread.start()
        # Before the tables are asked for: those that a look has added since are not yet the worker's.
        self.is_settled = self._has_all
        with self._mutex:
            lost, self._lost = self._lost, set()
            leaving = self._to_leave & set(self._held)
        if lost:
            self.hand_over(lost.__contains__, False)
        if leaving:
            self.hand_over(leaving.__contains__, True)
            self._leave(leaving)
        with self._mutex:
            return (set(self._held) - self._to_leave) & set(tables)

    def owner(self, table: str) -> Mapping[str, str] | None:
        """Where another worker takes the table's pushes."""
        return self._owners.get(table)

    def report(self, states: Mapping[str, str]) -> None:
        """Do nothing: a lease names its owner alone."""

    def close(self) -> None:
        """Give all tables up: other workers take them with their next look."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        try:
            for lock in [*self._held.values(), *self._waiting.values()]:
                self.client.unlock(lock.lock_id)
            if self._own_lock is not None:
                self.client.unlock(self._own_lock)
        except HudisqlError as error:
            self.warn(f"leases are not given back, and end after {self.lease_seconds:.0f} s: {error.message}")
        self.client.close()

    def look(self) -> None:
        """Renew what this worker has, take what it may, note what it must leave. Raises MetastoreError."""
        self._renew_own_lock()
        locks = self._without_dead(self.client.list_locks(LOCK_DATABASE))
        self._note_lost(locks)
        by_lock = {locked: name for name, locked in self._declared.items()}
        members = {
            each.user: addresses
            for each in locks
            if each.table.startswith(_WORKER) and (addresses := _addresses(each))
        }
        taken = [each for each in locks if each.is_acquired and each.table in by_lock]
        self._owners = {
            by_lock[each.table]: members[each.user]
            for each in taken
            if each.user in members and each.user != self.identity
        }
        share = math.ceil(len(self._declared) / max(1, len(members)))
        self._choose_tables_to_leave(locks, share)
        self._wait_for_tables_of_the_log()
        all_taken = self._take_free_tables({each.table for each in locks}, share)
        self._renew_tables()
        self._has_all = all_taken and not self._waiting

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
        while not self._stop.wait(self.lease_seconds / _LOOKS):
            if self.clock() - self._asked_at > _HANGING_SECONDS:
                continue
            try:
                self.look()
                self._is_failing = False
            except HudisqlError as error:
                if not self._is_failing:
                    self.warn(f"leases cannot be renewed: {error.message}")
                self._is_failing = True

    def _renew_own_lock(self) -> None:
        """Show that this worker is there; after it was thought dead it begins again without tables."""
        if self._own_lock is not None and self.client.has_lock(self._own_lock):
            return
        with self._mutex:
            self._lost |= set(self._held)
            self._held.clear()
            self._waiting.clear()
            self._to_leave.clear()
        # The log is this process's: what has its identity is of a process before it, or of this one before.
        for each in self.client.list_locks(LOCK_DATABASE):
            if each.user == self.identity:
                self.client.unlock(each.lock_id)
        self._own_lock, _ = self._queue(_WORKER + self.identity)

    def _without_dead(self, locks: Sequence[ListedLock]) -> list[ListedLock]:
        """The locks without those of workers that are dead, which are removed, their own lock last."""
        beats = {each.user: each.last_heartbeat for each in locks if each.table.startswith(_WORKER)}
        others = {each.user for each in locks} - {self.identity}
        dead = set()
        for user in others:
            looks = self._looks.setdefault(user, _Looks())
            heartbeat = beats.get(user, 0)
            looks.count = looks.count + 1 if heartbeat == looks.heartbeat else 0
            looks.heartbeat = heartbeat
            if looks.count >= _LOOKS:
                dead.add(user)
        self._looks = {user: each for user, each in self._looks.items() if user in others - dead}
        for each in sorted(locks, key=lambda each: each.table.startswith(_WORKER)):
            if each.user in dead:
                self.client.unlock(each.lock_id)
        return [each for each in locks if each.user not in dead]

    def _note_lost(self, locks: Sequence[ListedLock]) -> None:
        """Compare what this worker believes to have with what the metastore says."""
        mine = {each.lock_id: each for each in locks if each.user == self.identity}
        with self._mutex:
            known = {each.lock_id for each in [*self._held.values(), *self._waiting.values()]}
            for name, lock in list(self._held.items()):
                if lock.lock_id not in mine:
                    del self._held[name]
                    self._to_leave.discard(name)
                    self._lost.add(name)
            for name, lock in list(self._waiting.items()):
                if lock.lock_id not in mine:
                    del self._waiting[name]
        for lock_id, each in mine.items():
            # Of a request whose answer was lost.
            if lock_id not in known and not each.table.startswith(_WORKER):
                self.client.unlock(lock_id)

    def _choose_tables_to_leave(self, locks: Sequence[ListedLock], share: int) -> None:
        """Tables that are not declared any more, that others wait for, and those beyond a fair share."""
        awaited = {each.table for each in locks if not each.is_acquired and each.user != self.identity}
        in_log = set(self.in_log())
        with self._mutex:
            leaving = {
                name for name in self._held if self._declared.get(name, "") in awaited | {""}
            } | self._to_leave
            if self.addresses:
                kept = sorted(set(self._held) - leaving, key=lambda name: (name not in in_log, name))
                leaving |= set(kept[share:])
            else:
                leaving |= set(self._held) - in_log
            self._to_leave = leaving & set(self._held)

    def _wait_for_tables_of_the_log(self) -> None:
        """Queue for tables of which the log has rows: their owner gives them up."""
        wanted = set(self.in_log()) & set(self._declared)
        for name in wanted - set(self._held) - set(self._waiting):
            lock_id, is_acquired = self._queue(self._declared[name])
            self._note(name, lock_id, is_acquired)
        for name, lock in list(self._waiting.items()):
            if name not in wanted:
                self.client.unlock(lock.lock_id)
                del self._waiting[name]
            elif self.client.has_lock(lock.lock_id):
                self._note(name, lock.lock_id, is_acquired=True)

    def _take_free_tables(self, locked: Collection[str], share: int) -> bool:
        """Take tables that nobody has, up to a fair share; False if more are to be taken soon."""
        if not self.addresses:
            return True
        free = [name for name, locked_as in sorted(self._declared.items()) if locked_as not in locked]
        free = [name for name in free if name not in self._held and name not in self._waiting]
        mine = free[: max(0, share - len(self._held))]
        for name in mine[:_NEW_LOCKS_A_LOOK]:
            lock_id, is_acquired = self._queue(self._declared[name])
            if is_acquired:
                self._note(name, lock_id, is_acquired=True)
            else:
                self.client.unlock(lock_id)
        return len(mine) <= _NEW_LOCKS_A_LOOK

    def _renew_tables(self) -> None:
        """Keep the metastore from removing locks by its own time."""
        now = self.clock()
        for locks in (self._held, self._waiting):
            for lock in [each for each in list(locks.values()) if now - each.renewed > _RENEWED_SECONDS]:
                self.client.has_lock(lock.lock_id)
                lock.renewed = now

    def _leave(self, names: Collection[str]) -> None:
        for name in names:
            with self._mutex:
                lock = self._held.pop(name, None)
                self._to_leave.discard(name)
            if lock is not None:
                try:
                    self.client.unlock(lock.lock_id)
                except HudisqlError as error:
                    # It is among the locks of no known request: the next look removes it.
                    self.warn(f"{name}: the lease is not given back yet: {error.message}")

    def _queue(self, locked: str) -> tuple[int, bool]:
        http, flight = (self.addresses.get(each, NO_ADDRESS) for each in ("http", "flight"))
        return self.client.queue_lock(LOCK_DATABASE, locked, self.identity, http, flight)

    def _note(self, name: str, lock_id: int, is_acquired: bool) -> None:
        with self._mutex:
            self._waiting.pop(name, None)
            (self._held if is_acquired else self._waiting)[name] = _Lock(lock_id, self.clock())


def lock_name(table: str) -> str:
    """The name that a table's lease locks: the metastore has no more than 128 characters for it."""
    return table.lower() if len(table) <= LONGEST_NAME else sha256(table.lower().encode()).hexdigest()


def lease_holders(client: MetastoreClient) -> dict[str, str]:
    """Where the worker that has the lease of a table takes pushes, or its log's name, by `lock_name`.

    Raises MetastoreError.
    """
    return {
        each.table: next(iter(_addresses(each).values()), each.user)
        for each in client.list_locks(LOCK_DATABASE)
        if each.is_acquired and not each.table.startswith(_WORKER)
    }


def _addresses(lock: ListedLock) -> dict[str, str]:
    """Where the worker of a lock takes pushes."""
    found = {"http": lock.host, "flight": lock.agent}
    return {protocol: each for protocol, each in found.items() if each != NO_ADDRESS}
