"""The locks by which writers of one table exclude each other while they begin and complete a commit.

Follows `LockManager`, `FileSystemBasedLockProvider` and `InProcessLockProvider` of Hudi 0.15, so that its
writers and hudisql's wait for each other. Knows neither timelines nor settings.
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
from hudisql.storage import Storage, join

LOCK_FILE: Final = "lock"
LOCK_EXPIRE: Final = "hoodie.write.lock.filesystem.expire"
_MS_PER_MINUTE: Final = 60_000


class TableLock(Protocol):
    """What one writer locks a table with; the same value locks and unlocks it again and again."""

    @property
    def label(self) -> str:
        """What names the lock in messages."""

    def try_lock(self, timeout_ms: int, /) -> bool:
        """Take the lock, waiting so long at most; False if another has it. Raises StorageError."""

    def is_held(self) -> bool:
        """True if the lock is this writer's still. Raises StorageError."""

    def unlock(self) -> None:
        """Give the lock back; nothing happens if it is another's by now. Raises StorageError."""

    def owner(self) -> str:
        """What is known of who has it, for messages; empty if nothing is."""


@dataclass(frozen=True, slots=True)
class LockRetryPolicy:
    """How long a lock is asked for: `retries` more times, `wait_ms` apart, each for up to `attempt_ms`."""

    retries: int = 50
    wait_ms: int = 5_000
    attempt_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class HeldLock:
    """The lock that is held while a block of code runs; None for writers without one."""

    lock: TableLock | None

    def check(self) -> None:
        """Raise WriteConflictError if somebody has taken the lock away: an expired one, or by mistake."""
        if self.lock is not None and not self.lock.is_held():
            raise WriteConflictError(
                f"the lock {self.lock.label} was taken away while it was held",
                hint="run the statement again; hoodie.write.lock.filesystem.expire (minutes) must be longer "
                "than a commit takes. A writer of Hudi 0.15 that gives up waiting removes the lock, too: "
                "give it more hoodie.write.lock.client.num_retries",
            )


@contextmanager
def holding(lock: TableLock | None, retry_policy: LockRetryPolicy) -> Iterator[HeldLock]:
    """Hold the lock while the block runs. Raises TableLockedError if it cannot be had, StorageError."""
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
        f"another writer has held the lock {lock.label} for the {seconds:.0f} s that were waited"
        + (f" ({owner})" if owner else ""),
        hint="run the statement again later, or wait longer (hoodie.write.lock.client.num_retries, "
        "hoodie.write.lock.client.wait_time_ms_between_retry). A commit holds it for seconds: if its writer "
        "is gone, remove the lock, and set hoodie.write.lock.filesystem.expire (minutes) for the next time",
    )


@dataclass(slots=True)
class FileSystemLock:
    """A file that exists while the lock is held (`FileSystemBasedLockProvider`).

    Without `expire_minutes` nobody takes it from a writer that has died. Its content says who has it; the
    Apache Hudi 0.15 leaves it empty.
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
        """Make the file, if it is not there; it is never waited for here, as in Hudi."""
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
        """Since when, by whom as far as the file says so, and when others may take it."""
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
            f"{said or 'a writer that has not left its name, as Apache Hudi'}; {expires}"
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
    """A lock among the threads of this process alone (`InProcessLockProvider`), one a table."""

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
        """Wait for the other threads."""
        self._held = self._lock.acquire(timeout=timeout_ms / 1000)
        return self._held

    def is_held(self) -> bool:
        """True from `try_lock` to `unlock`."""
        return self._held

    def unlock(self) -> None:
        """Let the next thread go on."""
        if self._held:
            self._held = False
            self._lock.release()

    def owner(self) -> str:
        """Nothing is known of the thread."""
        return ""


def _lock_content() -> bytes:
    """Hudi's `LockInfo`, which its writers print while they wait; the name makes it this writer's own."""
    who = f"hudisql {socket.gethostname()} process {os.getpid()} {uuid.uuid4().hex[:8]}"
    said = {"lockCreateTime": _clock_time(time.time()), "lockThreadName": who, "lockStacksInfo": []}
    return json.dumps(said, indent=2).encode()


def _duration(seconds: float) -> str:
    """In the largest unit of which there are two at least."""
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0.0):.0f} s"


def _clock_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).isoformat(sep=" ", timespec="milliseconds")
