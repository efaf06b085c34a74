"""The file of a lock: its information about the holder, and the removal of an abandoned lock.

The content is Hudi's `LockInfo` and, beyond it, the holder's identity. To remove an abandoned lock a waiter
first claims it with a file that is named after the lock's content and that only one waiter can create. So two
waiters that both found the holder dead never remove the lock of the next holder.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha1
from typing import Any, Final

from hudisql.errors import NoSuchPathError, PathExistsError
from hudisql.storage import Storage, join, parent_of
from hudisql.write.transaction.process_identity import ProcessIdentity, parse_identity, this_process

_IDENTITY: Final = "hudisql"
_MOST_CLAIMS: Final = 100
HOLDER_TIMEOUT_MS: Final = 600_000
"""The time without a heartbeat after which the lock of a holder that is not stopped counts as abandoned."""


@dataclass(frozen=True, slots=True)
class LockFile:
    """The file as it was read; `modified_ms` is its modification time (epoch ms)."""

    path: str
    content: bytes
    modified_ms: int

    @property
    def age_ms(self) -> float:
        """How long ago it was created, by the clock of this host."""
        return time.time() * 1000 - self.modified_ms

    @property
    def holder(self) -> ProcessIdentity | None:
        """The process that created it; None for writers that do not say, such as Apache Hudi."""
        return parse_identity(self._values.get(_IDENTITY))

    @property
    def holder_name(self) -> str:
        """The holder for messages; empty if the file has no name."""
        return str(self._values.get("lockThreadName") or "")

    @property
    def heartbeat_path(self) -> str:
        """The path of the heartbeat file of a holder."""
        return f"{self._path_of_token()}-alive"

    def claim_path(self, number: int) -> str:
        """The path of the file that lets its creator remove the lock."""
        return f"{self._path_of_token()}-{number}"

    def _path_of_token(self) -> str:
        # Apache Hudi's files are empty: their modification times differ.
        unique = self.content or str(self.modified_ms).encode()
        return join(parent_of(self.path), f".lock-{sha1(unique, usedforsecurity=False).hexdigest()[:16]}")

    @property
    def _values(self) -> dict[str, Any]:
        try:
            values = json.loads(self.content or b"{}")
        except ValueError:
            return {}
        return values if isinstance(values, dict) else {}


def new_content() -> bytes:
    """Hudi's `LockInfo`, which its writers print while they wait, and the holder; always unique."""
    identity = this_process()
    name = f"hudisql {identity.host} process {identity.process} {uuid.uuid4().hex[:8]}"
    values = {
        "lockCreateTime": clock_time(time.time()),
        "lockThreadName": name,
        "lockStacksInfo": [],
        _IDENTITY: identity.to_json(),
    }
    return json.dumps(values, indent=2).encode()


def read_lock_file(storage: Storage, path: str) -> LockFile | None:
    """The file; None if it does not exist. Raises StorageError."""
    info = storage.info(path)
    if info is None:
        return None
    try:
        return LockFile(path, storage.read(path), info.modification_time_ms)
    except NoSuchPathError:
        return None


def remove_lock_file(storage: Storage, lock: LockFile) -> None:
    """Remove the file that was read, never a later one; does nothing if another waiter is removing it.

    The heartbeat file is removed, too. The claim of a dead waiter is ignored, on another host after
    `HOLDER_TIMEOUT_MS`. Raises StorageError.
    """
    claimed = _claim(storage, lock)
    if claimed is None:
        return
    own_paths = [lock.claim_path(number) for number in range(claimed + 1)]
    try:
        if read_lock_file(storage, lock.path) == lock:
            storage.delete_file(lock.path)
            own_paths.append(lock.heartbeat_path)
    finally:
        storage.delete_files(own_paths)


def _claim(storage: Storage, lock: LockFile) -> int | None:
    """The number of this waiter's claim; None while another waiter has a claim."""
    for number in range(_MOST_CLAIMS):
        try:
            storage.create(lock.claim_path(number), new_content())
            return number
        except PathExistsError:
            claim = read_lock_file(storage, lock.claim_path(number))
            if claim is None or not _was_abandoned(claim):
                return None
    return None


def _was_abandoned(claim: LockFile) -> bool:
    has_ended = None if claim.holder is None else claim.holder.has_ended
    return claim.age_ms > HOLDER_TIMEOUT_MS if has_ended is None else has_ended


def clock_time(seconds: float) -> str:
    """An epoch time as local date and time, in milliseconds."""
    return datetime.fromtimestamp(seconds).isoformat(sep=" ", timespec="milliseconds")
