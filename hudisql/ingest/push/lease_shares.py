"""Looks at the leases of all workers: removes dead workers, takes and leaves tables up to a fair share."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hudisql.catalog.metastore_table import ListedLock
from hudisql.ingest.push.worker_locks import LOCK_DATABASE, WorkerLocks, addresses_of, is_of_worker

LOOKS: Final = 4
"""A worker whose heartbeat stays the same during so many looks is dead."""
_NEW_LOCKS_A_LOOK: Final = 50


@dataclass
class _Heartbeat:
    """The last heartbeat of another worker, and how many looks have seen it again."""

    time: int = -1
    looks: int = 0


@dataclass
class LeaseShares:
    """`in_log` gives the tables of which the worker's log has rows.

    `owners` are the addresses of the other workers that hold leases, by table; `has_all` is True once the
    worker has its share.
    """

    locks: WorkerLocks
    in_log: Callable[[], Collection[str]]
    owners: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    has_all: bool = False
    _heartbeats: dict[str, _Heartbeat] = field(default_factory=dict)

    def look(self, declared: Mapping[str, str]) -> None:
        """Renew, take and mark leases of the `declared` tables, given with their lock's name.

        Raises MetastoreError.
        """
        self.locks.renew_worker()
        locks = self._without_dead(self.locks.client.list_locks(LOCK_DATABASE))
        self.locks.compare(locks)
        members = {
            lock.user: addresses for lock in locks if is_of_worker(lock) and (addresses := addresses_of(lock))
        }
        by_lock = {locked: name for name, locked in declared.items()}
        self.owners = {
            by_lock[lock.table]: members[lock.user]
            for lock in locks
            if lock.is_acquired
            and lock.table in by_lock
            and lock.user in members
            and lock.user != self.locks.identity
        }
        share = math.ceil(len(declared) / max(1, len(members)))
        self._mark_tables_to_leave(declared, locks, share)
        self._wait_for_tables_of_the_log(declared)
        all_taken = self._take_free_tables(declared, {lock.table for lock in locks}, share)
        self.locks.renew_tables()
        self.has_all = all_taken and not self.locks.waiting

    def _without_dead(self, locks: Sequence[ListedLock]) -> list[ListedLock]:
        """The locks without those of dead workers, which are removed, their own lock last."""
        times = {lock.user: lock.last_heartbeat for lock in locks if is_of_worker(lock)}
        others = {lock.user for lock in locks} - {self.locks.identity}
        heartbeats: dict[str, _Heartbeat] = {}
        for user in others:
            heartbeats[user] = heartbeat = self._heartbeats.get(user, _Heartbeat())
            time = times.get(user, 0)
            heartbeat.looks = heartbeat.looks + 1 if time == heartbeat.time else 0
            heartbeat.time = time
        dead = {user for user, heartbeat in heartbeats.items() if heartbeat.looks >= LOOKS}
        self._heartbeats = {user: heartbeats[user] for user in others - dead}
        for lock in sorted(locks, key=is_of_worker):
            if lock.user in dead:
                self.locks.client.unlock(lock.lock_id)
        return [lock for lock in locks if lock.user not in dead]

    def _mark_tables_to_leave(
        self, declared: Mapping[str, str], locks: Sequence[ListedLock], share: int
    ) -> None:
        """Tables that are not declared any more, that others wait for, and those beyond a fair share."""
        identity = self.locks.identity
        awaited = {lock.table for lock in locks if not lock.is_acquired and lock.user != identity}
        in_log, held = set(self.in_log()), self.locks.held
        leaving = {name for name in held if declared.get(name, "") in awaited | {""}} | self.locks.to_leave
        if self.locks.addresses:
            by_need = sorted(held - leaving, key=lambda name: (name not in in_log, name))
            leaving |= set(by_need[share:])
        else:
            leaving |= held - in_log
        self.locks.mark_to_leave(leaving)

    def _wait_for_tables_of_the_log(self, declared: Mapping[str, str]) -> None:
        wanted = set(self.in_log()) & set(declared)
        for name in wanted - self.locks.held - self.locks.waiting:
            self.locks.wait_for(name, declared[name])
        self.locks.check_waiting(wanted)

    def _take_free_tables(self, declared: Mapping[str, str], locked: Collection[str], share: int) -> bool:
        """Take tables that nobody has, up to a fair share; False if more are to be taken soon."""
        if not self.locks.addresses:
            return True
        held = self.locks.held
        known = held | self.locks.waiting
        free = [name for name, lock in sorted(declared.items()) if lock not in locked and name not in known]
        wanted = free[: max(0, share - len(held))]
        for name in wanted[:_NEW_LOCKS_A_LOOK]:
            self.locks.acquire(name, declared[name])
        return len(wanted) <= _NEW_LOCKS_A_LOOK
