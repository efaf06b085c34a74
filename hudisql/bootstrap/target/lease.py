"""The lease on a target directory: one run at a time writes to it, and a dead run's lease can be taken over.

A lease is a file created in one atomic step; who takes over creates that of the next fencing_epoch and
removes the older ones, so that of several exactly one goes on. While it works a run gives heartbeats, and it
looks whether the lease is still its own before it makes anything visible. Knows nothing of what is written.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from hudisql.bootstrap.target.target_state import (
    ALIVE_FILE,
    TargetState,
    directory_state,
    lease_epochs,
    lease_path,
    read_lease,
)
from hudisql.catalog.hive_ddl import quote
from hudisql.errors import PathExistsError, StorageError, TableExistsError
from hudisql.storage import Storage, join

_SECONDS_BETWEEN_SIGNS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of this run; travels to its tasks."""

    base_path: str
    fencing_epoch: int

    @property
    def path(self) -> str:
        """The lease's file."""
        return lease_path(self.base_path, self.fencing_epoch)

    @property
    def closed_path(self) -> str:
        """The file by which tasks see that the run takes no more files."""
        return f"{self.path}-closed"

    def is_held(self, storage: Storage) -> bool:
        """True while the run has not ended and nobody took over."""
        return storage.exists(self.path)

    def check_held(self, storage: Storage) -> None:
        """Raise TableExistsError if another run took over."""
        if lease_epochs(storage, self.base_path) != [self.fencing_epoch]:
            raise TableExistsError(
                f"another bootstrap took {self.base_path} over",
                hint="it held this run for dead, which gave no heartbeat for ten minutes; let it end",
            )

    def close(self, storage: Storage) -> None:
        """Take no more files: what attempts of tasks that do not count finish from here on goes.

        To be called before the driver looks for files that no result names. Raises StorageError.
        """
        storage.write(self.closed_path, b"")

    def fence_late_attempt(self, storage: Storage, paths: Sequence[str]) -> None:
        """To be called by a task before it begins a file, and when it has finished some: if its run is over,
        or takes no more files, they go.

        Raises StorageError then: a task that outlives its run must not add files to the table of another.
        """
        claimed, closed = storage.infos([self.path, self.closed_path])
        if claimed is None or closed is not None:
            storage.delete_files(list(paths))
            raise StorageError(
                f"the bootstrap into {self.base_path} is over, a late task took its files back"
            )

    def release(self, storage: Storage) -> None:
        """Give the lease up. Raises StorageError."""
        storage.delete_file(join(self.base_path, ALIVE_FILE))
        storage.delete_file(self.path)
        # An earlier run may have closed its lease after it was taken over.
        for fencing_epoch in range(self.fencing_epoch + 1):
            storage.delete_file(Lease(self.base_path, fencing_epoch).closed_path)


def acquire_lease(storage: Storage, base_path: str, table: str, *, takes_over: bool) -> Lease:
    """LeaseRecord the directory for this run; with `takes_over` also from a run that is gone.

    Raises TableExistsError if another run may be at work, or made the table meanwhile.
    """
    fencing_epoch = 0
    dead = read_lease(storage, base_path) if takes_over else None
    if dead is not None:
        if not dead.is_gone:
            raise TableExistsError(
                f"the bootstrap that leases {base_path} may still be at work: {dead}",
                hint="wait for it; ten minutes after its last heartbeat resume => true takes over",
            )
        fencing_epoch = dead.fencing_epoch + 1
    lease = Lease(base_path, fencing_epoch)
    told = {"table": table, "host": socket.gethostname(), "process": os.getpid()}
    try:
        storage.create(lease.path, json.dumps(told).encode())
    except PathExistsError as error:
        raise TableExistsError(
            f"another bootstrap is writing to {base_path}",
            hint="wait for it; if that run was killed, resume => true goes on where it stopped, and"
            f" CALL rollback_bootstrap(path => {quote(base_path)}) clears its files away",
        ) from error
    # Who was slower than two others finds a later lease, or the table, and steps back.
    fencing_epochs = lease_epochs(storage, base_path)
    is_late = takes_over and directory_state(storage, base_path) is TargetState.TABLE
    if fencing_epochs[-1:] != [fencing_epoch] or is_late:
        storage.delete_file(lease.path)
        raise TableExistsError(f"another bootstrap was faster at {base_path}", hint="let it end")
    for older in fencing_epochs[:-1]:
        Lease(base_path, older).release(storage)
    # A run that was killed in the midst of its release has left it.
    storage.delete_file(lease.closed_path)
    return lease


@contextmanager
def heartbeats(storage: Storage, lease: Lease) -> Iterator[None]:
    """Tell every minute, from a thread of its own, that the run is at work."""
    over = threading.Event()

    def tell() -> None:
        while not over.wait(_SECONDS_BETWEEN_SIGNS):
            # A store that fails now and then makes the run fail by itself, if it has to.
            with suppress(StorageError):
                if not lease.is_held(storage):
                    return
                storage.write(join(lease.base_path, ALIVE_FILE), b"at work")

    thread = threading.Thread(target=tell, name="hudisql-signs-of-life", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
