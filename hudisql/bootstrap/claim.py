"""The claim on a target folder: one run at a time writes to it, and a dead run's claim can be taken over.

A claim is a file created in one atomic step; who takes over creates that of the next generation and removes
the older ones, so that of several exactly one goes on. While it works a run gives signs of life, and it looks
whether the claim is still its own before it makes anything visible. Knows nothing of what is written.
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

from hudisql.bootstrap.leftovers import (
    ALIVE_FILE,
    FolderState,
    claim_generations,
    claim_path,
    folder_state,
    read_claim,
)
from hudisql.catalog.sync_description import quote
from hudisql.errors import PathExistsError, StorageError, TableExistsError
from hudisql.storage import Storage, join

_SECONDS_BETWEEN_SIGNS: Final = 60.0


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """The claim of this run; travels to its tasks."""

    base_path: str
    generation: int

    @property
    def path(self) -> str:
        """The claim's file."""
        return claim_path(self.base_path, self.generation)

    @property
    def closed_path(self) -> str:
        """The file by which tasks see that the run takes no more files."""
        return f"{self.path}-closed"

    def is_held(self, storage: Storage) -> bool:
        """True while the run has not ended and nobody took over."""
        return storage.exists(self.path)

    def check_held(self, storage: Storage) -> None:
        """Raise TableExistsError if another run took over."""
        if claim_generations(storage, self.base_path) != [self.generation]:
            raise TableExistsError(
                f"another bootstrap took {self.base_path} over",
                hint="it held this run for dead, which gave no sign of life for ten minutes; let it end",
            )

    def close(self, storage: Storage) -> None:
        """Take no more files: what attempts of tasks that do not count finish from here on goes.

        To be called before the driver looks for files that no result names. Raises StorageError.
        """
        storage.write(self.closed_path, b"")

    def keep_or_take_back(self, storage: Storage, paths: Sequence[str]) -> None:
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
        """Give the claim up. Raises StorageError."""
        storage.delete_file(join(self.base_path, ALIVE_FILE))
        storage.delete_file(self.path)
        # An earlier run may have closed its claim after it was taken over.
        for generation in range(self.generation + 1):
            storage.delete_file(HeldClaim(self.base_path, generation).closed_path)


def claim_target(storage: Storage, base_path: str, table: str, *, takes_over: bool) -> HeldClaim:
    """Claim the folder for this run; with `takes_over` also from a run that is gone.

    Raises TableExistsError if another run may be at work, or made the table meanwhile.
    """
    generation = 0
    dead = read_claim(storage, base_path) if takes_over else None
    if dead is not None:
        if not dead.is_gone:
            raise TableExistsError(
                f"the bootstrap that claims {base_path} may still be at work: {dead}",
                hint="wait for it; ten minutes after its last sign of life resume => true takes over",
            )
        generation = dead.generation + 1
    claim = HeldClaim(base_path, generation)
    told = {"table": table, "host": socket.gethostname(), "process": os.getpid()}
    try:
        storage.create(claim.path, json.dumps(told).encode())
    except PathExistsError as error:
        raise TableExistsError(
            f"another bootstrap is writing to {base_path}",
            hint="wait for it; if that run was killed, resume => true goes on where it stopped, and"
            f" CALL rollback_bootstrap(path => {quote(base_path)}) clears its files away",
        ) from error
    # Who was slower than two others finds a later claim, or the table, and steps back.
    generations = claim_generations(storage, base_path)
    is_late = takes_over and folder_state(storage, base_path) is FolderState.TABLE
    if generations[-1:] != [generation] or is_late:
        storage.delete_file(claim.path)
        raise TableExistsError(f"another bootstrap was faster at {base_path}", hint="let it end")
    for older in generations[:-1]:
        HeldClaim(base_path, older).release(storage)
    # A run that was killed in the midst of its release has left it.
    storage.delete_file(claim.closed_path)
    return claim


@contextmanager
def signs_of_life(storage: Storage, claim: HeldClaim) -> Iterator[None]:
    """Tell every minute, from a thread of its own, that the run is at work."""
    over = threading.Event()

    def tell() -> None:
        while not over.wait(_SECONDS_BETWEEN_SIGNS):
            # A store that fails now and then makes the run fail by itself, if it has to.
            with suppress(StorageError):
                if not claim.is_held(storage):
                    return
                storage.write(join(claim.base_path, ALIVE_FILE), b"at work")

    thread = threading.Thread(target=tell, name="hudisql-signs-of-life", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
