"""The lease on a target directory: one run at a time writes to it, and an expired lease can be taken over.

A lease is a file that is created atomically. A run that takes over creates the file of the next fencing epoch
and removes the older ones, so that exactly one of several runs continues. A run renews its heartbeat every
minute, and checks that it still holds the lease before it publishes anything. Does not know what the run
writes.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from hudisql.bootstrap.lease.target_state import (
    HEARTBEAT_FILE,
    LEASE_TIMEOUT_MS,
    TargetState,
    lease_epochs,
    lease_path,
    read_lease,
    read_target_state,
)
from hudisql.errors import NoSuchPathError, PathExistsError, StorageError, TableExistsError
from hudisql.format.timeline.timeline_layout import METADATA_DIRECTORY
from hudisql.sql_literals import quote_string
from hudisql.storage import Storage, join
from hudisql.write.transaction.heartbeat import start_heartbeat
from hudisql.write.transaction.process_identity import this_process

_HEARTBEAT_MS: Final = 60_000
_LONGEST_TRUST_SECONDS: Final = 2.0
_TRUSTED_PART_OF_AGE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of this run; it is sent to the run's tasks. `run` differs from run to run."""

    base_path: str
    fencing_epoch: int
    run: str = ""

    @property
    def path(self) -> str:
        """The path of the lease file."""
        return lease_path(self.base_path, self.fencing_epoch)

    @property
    def closed_path(self) -> str:
        """The path of the file that tells tasks that the run accepts no more files."""
        return f"{self.path}-closed"

    def is_held(self, storage: Storage) -> bool:
        """True until the run ends or another run takes over."""
        return storage.exists(self.path)

    def check_held(self, storage: Storage) -> None:
        """Raise TableExistsError if another run took over."""
        if lease_epochs(storage, self.base_path) != [self.fencing_epoch]:
            raise TableExistsError(
                f"another bootstrap took over {self.base_path}",
                hint="the lease expired after 10 minutes without a heartbeat; wait for the new run",
            )

    def close(self, storage: Storage) -> None:
        """Accept no more files: from now on late attempts of tasks delete the files that they finish.

        Called `trust_seconds` before the driver searches for files that are in no task result. Raises
        StorageError.
        """
        storage.write(self.closed_path, b"")

    def fence_late_attempt(self, storage: Storage, paths: Sequence[str]) -> None:
        """Delete `paths` and raise StorageError if the run has ended, or accepts no more files.

        A task calls this after it has finished files, and now and then before it begins one
        (`LateAttemptFence`): a task that outlives its run must not add files to another run's table.
        """
        try:
            names = storage.list_file_names(join(self.base_path, METADATA_DIRECTORY))
        except NoSuchPathError:
            names = []
        lease, closed = (path.rsplit("/", 1)[-1] for path in (self.path, self.closed_path))
        if lease not in names or closed in names:
            storage.delete_files(list(paths))
            raise StorageError(
                f"the bootstrap into {self.base_path} has ended: a task outlived its run, its files were"
                " deleted"
            )

    def release(self, storage: Storage) -> None:
        """Delete the lease. Raises StorageError."""
        storage.delete_file(join(self.base_path, HEARTBEAT_FILE))
        storage.delete_file(self.path)
        # An earlier run may have closed its lease after the takeover.
        for fencing_epoch in range(self.fencing_epoch + 1):
            storage.delete_file(Lease(self.base_path, fencing_epoch).closed_path)


class LateAttemptFence:
    """Stops the attempts of a process that outlive their run, without looking at the lease before each file.

    A look is trusted for `trust_seconds`. What an attempt finishes in that time is there when the run lists
    its files, since the run waits as long after it closed the lease; what it finishes later is met by a new
    look.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._begun = time.monotonic()
        self._trusted_until = -math.inf

    def check(self, storage: Storage) -> None:
        """Raise StorageError if the run has ended, or accepts no more files; the last look may be trusted."""
        now = time.monotonic()
        if now >= self._trusted_until:
            self._lease.fence_late_attempt(storage, [])
            self._trusted_until = now + trust_seconds(now - self._begun)


@lru_cache(maxsize=8)
def fence_of_process(lease: Lease) -> LateAttemptFence:
    """The fence of all attempts of the run in this process: Spark uses its workers for many tasks."""
    return LateAttemptFence(lease)


def trust_seconds(age: float) -> float:
    """For how long a process trusts its look at the lease, so many seconds after its first.

    It is a part of the age because a run waits for it: a short one must not wait long.
    """
    return min(_LONGEST_TRUST_SECONDS, age * _TRUSTED_PART_OF_AGE)


def acquire_lease(storage: Storage, base_path: str, table: str, *, takes_over: bool) -> Lease:
    """Acquire the lease on the directory for this run; with `takes_over` also one that has expired.

    Raises TableExistsError if another run may still be running, or has published the table meanwhile.
    """
    fencing_epoch = 0
    held = read_lease(storage, base_path) if takes_over else None
    if held is not None:
        if not held.is_expired:
            raise TableExistsError(
                f"the bootstrap that holds the lease on {base_path} may still be running: {held}",
                hint="wait for it; ten minutes after its last heartbeat, resume => true takes over",
            )
        fencing_epoch = held.fencing_epoch + 1
    lease = Lease(base_path, fencing_epoch, uuid.uuid4().hex)
    content = {"table": table, **this_process().to_json()}
    try:
        storage.create(lease.path, json.dumps(content).encode())
    except PathExistsError as error:
        raise TableExistsError(
            f"another bootstrap is writing to {base_path}",
            hint="wait for it; if that run was killed, resume => true continues it, and"
            f" CALL rollback_bootstrap(path => {quote_string(base_path)}) deletes its files",
        ) from error
    # A run that was slower than two others finds a later lease, or the table, and stops.
    fencing_epochs = lease_epochs(storage, base_path)
    is_late = takes_over and read_target_state(storage, base_path) is TargetState.TABLE
    if fencing_epochs[-1:] != [fencing_epoch] or is_late:
        storage.delete_file(lease.path)
        raise TableExistsError(f"another bootstrap acquired the lease on {base_path}", hint="wait for it")
    for older in fencing_epochs[:-1]:
        Lease(base_path, older).release(storage)
    # Left by a run that was killed while it released its lease.
    storage.delete_file(lease.closed_path)
    return lease


@contextmanager
def heartbeats(storage: Storage, lease: Lease) -> Iterator[None]:
    """Renew the lease's heartbeat every minute from a background thread. Raises StorageError."""
    heartbeat = start_heartbeat(
        storage,
        join(lease.base_path, HEARTBEAT_FILE),
        interval_ms=_HEARTBEAT_MS,
        tolerance_ms=LEASE_TIMEOUT_MS,
        is_owner=partial(lease.is_held, storage),
    )
    try:
        yield
    finally:
        # `release` deletes the file; after a takeover it belongs to the other run.
        heartbeat.stop(keeps_file=True)
