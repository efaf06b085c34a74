"""Table locks, which writers hold while they begin and complete a commit.

Follows `LockManager`, `FileSystemBasedLockProvider` and `InProcessLockProvider` of Hudi 0.15, so that its
writers and hudisql exclude each other. Knows neither timelines nor settings.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from hudisql.errors import NoSuchPathError, PathExistsError, TableLockedError, WriteConflictError
from hudisql.hudi_config import LOCK_EXPIRE, LOCK_RETRIES, LOCK_RETRY_WAIT, LOCK_WAIT
from hudisql.storage import Storage, join

LOCK_FILE: Final = "lock"
_MS_PER_MINUTE: Final = 60_000


class TableLock(Protocol):
    """One writer's lock on a table; it can be acquired and released repeatedly."""

    @property
    def label(self) -> str:
        """What names the lock in messages."""

    def try_lock(self, timeout_ms: int, /) -> bool:
        """Try to acquire the lock for up to `timeout_ms`; False if another holds it. Raises StorageError."""

    def is_held(self) -> bool:
        """True if this writer still holds the lock; may renew it. Raises StorageError."""

    def unlock(self) -> None:
        """Release the lock, unless another writer holds it by now. Raises StorageError."""

    def owner(self) -> str:
        """A description of the holder, for messages; empty if unknown."""


@dataclass(frozen=True, slots=True)
class LockRetryPolicy:
    """How a lock is acquired: `retries` more attempts, `wait_ms` apart, each for up to `attempt_ms`."""

    retries: int = LOCK_RETRIES.default_value
    wait_ms: int = LOCK_RETRY_WAIT.default_value
    attempt_ms: int = LOCK_WAIT.default_value


@dataclass(frozen=True, slots=True)
class HeldLock:
    """The lock that is held while a block of code runs; None for writers without one."""

    lock: TableLock | None

    def check(self) -> None:
        """Raise WriteConflictError if the lock is no longer held: it expired or was removed."""
        if self.lock is not None and not self.lock.is_held():
            raise WriteConflictError(
                f"the lock {self.lock.label} was removed while this writer held it",
                hint="run the statement again; hoodie.write.lock.filesystem.expire (minutes) must be longer "
                "than a commit takes. A writer of Hudi 0.15 whose retries are exhausted removes the lock, "
                "too: increase its hoodie.write.lock.client.num_retries",
            )


@contextmanager
def hold_lock(lock: TableLock | None, retry_policy: LockRetryPolicy) -> Iterator[HeldLock]:
    """Hold the lock while the block runs. Raises TableLockedError if it cannot be acquired, StorageError."""
    if lock is None:
        yield HeldLock(None)
        return
    _acquire(lock, retry_policy)
    try:
        yield HeldLock(lock)
    finally:
        lock.unlock()


def _acquire(lock: TableLock, retry_policy: LockRetryPolicy) -> None:
    started = time.monotonic()
    for attempt in range(retry_policy.retries + 1):
        if attempt:
            time.sleep(retry_policy.wait_ms / 1000)
        if lock.try_lock(retry_policy.attempt_ms):
            return
    seconds = time.monotonic() - started
    owner = lock.owner()
    raise TableLockedError(
        f"another writer holds the lock {lock.label}: it was not acquired in {seconds:.0f} s"
        + (f" ({owner})" if owner else ""),
        hint="run the statement again later, or wait longer (hoodie.write.lock.client.num_retries, "
        "hoodie.write.lock.client.wait_time_ms_between_retry). A commit holds it for seconds: if its writer "
        "is dead, remove the lock, and set hoodie.write.lock.filesystem.expire (minutes)",
    )


@dataclass(slots=True)
class FileSystemLock:
    """A file that exists while the lock is held (`FileSystemBasedLockProvider`).

    Without `expire_minutes` the lock of a dead writer stays. The file's content names the holder; Apache Hudi
    0.15 leaves it empty.
    """

    storage: Storage
    directory: str
    expire_minutes: int = 0
    _mine: bytes | None = field(default=None, repr=False)

    @property
    def lock_path(self) -> str:
        """The path of the file."""
        return join(self.directory, LOCK_FILE)

    @property
    def label(self) -> str:
        """The path of the file."""
        return self.lock_path

    def try_lock(self, _timeout_ms: int, /) -> bool:
        """Create the file if it does not exist; does not wait, as in Hudi."""
        if self._is_expired():
            self.storage.delete_file(self.lock_path)
        content = _lock_content()
        try:
            self.storage.create(self.lock_path, content)
        except PathExistsError:
            return False
        self._mine = content
        return True

    def is_held(self) -> bool:
        """True if the file has this writer's content."""
        return self._mine is not None and self._content() == self._mine

    def unlock(self) -> None:
        """Remove the file."""
        if self.is_held():
            self.storage.delete_file(self.lock_path)
        self._mine = None

    def owner(self) -> str:
        """When the lock was acquired, by whom if the file names the holder, and when it expires."""
        found = self.storage.info(self.lock_path)
        if found is None:
            return ""
        since = found.modification_time_ms / 1000
        try:
            said = json.loads(self._content() or b"{}").get("lockThreadName")
        except (ValueError, AttributeError):
            said = None
        expires = (
            f"it expires after {self.expire_minutes} minutes"
            if self.expire_minutes
            else f"it never expires, since {LOCK_EXPIRE} is 0"
        )
        return (
            f"since {_clock_time(since)}, for {_duration(time.time() - since)}, by "
            f"{said or 'a writer without a name, such as Apache Hudi'}; {expires}"
        )

    def _content(self) -> bytes | None:
        try:
            return self.storage.read(self.lock_path)
        except NoSuchPathError:
            return None

    def _is_expired(self) -> bool:
        if not self.expire_minutes:
            return False
        found = self.storage.info(self.lock_path)
        age = 0.0 if found is None else time.time() * 1000 - found.modification_time_ms
        return age > self.expire_minutes * _MS_PER_MINUTE


_in_process: dict[str, threading.Lock] = {}
_in_process_guard = threading.Lock()


@dataclass(slots=True)
class InProcessLock:
    """A lock between the threads of this process (`InProcessLockProvider`), one for each table."""

    base_path: str
    _lock: threading.Lock = field(init=False, repr=False)
    _held: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        with _in_process_guard:
            self._lock = _in_process.setdefault(self.base_path, threading.Lock())

    @property
    def label(self) -> str:
        """What it locks."""
        return f"of this process on {self.base_path}"

    def try_lock(self, timeout_ms: int, /) -> bool:
        """Wait for other threads."""
        self._held = self._lock.acquire(timeout=timeout_ms / 1000)
        return self._held

    def is_held(self) -> bool:
        """True from `try_lock` to `unlock`."""
        return self._held

    def unlock(self) -> None:
        """Release the lock."""
        if self._held:
            self._held = False
            self._lock.release()

    def owner(self) -> str:
        """Unknown."""
        return ""


def _lock_content() -> bytes:
    """Hudi's `LockInfo`, which its writers print while they wait; the name is unique to this writer."""
    who = f"hudisql {socket.gethostname()} process {os.getpid()} {uuid.uuid4().hex[:8]}"
    said = {"lockCreateTime": _clock_time(time.time()), "lockThreadName": who, "lockStacksInfo": []}
    return json.dumps(said, indent=2).encode()


def _duration(seconds: float) -> str:
    """Formatted in the largest unit that gives a count of at least two."""
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0.0):.0f} s"


def _clock_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).isoformat(sep=" ", timespec="milliseconds")
