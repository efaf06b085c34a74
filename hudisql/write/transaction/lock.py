"""Table locks, which writers hold while they begin and complete a commit.

Follows `LockManager`, `FileSystemBasedLockProvider` and `InProcessLockProvider` of Hudi 0.15, so that its
writers and hudisql exclude each other. Knows neither timelines nor settings.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from hudisql.config.hudi_config import LOCK_EXPIRE, LOCK_RETRIES, LOCK_RETRY_WAIT, LOCK_WAIT
from hudisql.errors import (
    HudisqlError,
    NoSuchPathError,
    PathExistsError,
    StorageError,
    TableLockedError,
    WriteConflictError,
)
from hudisql.storage import Storage, join
from hudisql.write.transaction.heartbeat import Heartbeat, start_heartbeat
from hudisql.write.transaction.lock_file import (
    HOLDER_TIMEOUT_MS,
    LockFile,
    clock_time,
    new_content,
    read_lock_file,
    remove_lock_file,
)
from hudisql.write.transaction.process_identity import this_process

LOCK_FILE: Final = "lock"
_MS_PER_MINUTE: Final = 60_000
_RENEWAL_MS: Final = 60_000
_POLL_GROWTH: Final = 1.5
_LONGEST_POLL_SECONDS: Final = 1.0
_RELEASE_PAUSES_SECONDS: Final = (0.1, 0.4)
# The contents of the locks that this process holds.
_held_contents: Final[set[bytes]] = set()


class TableLock(Protocol):
    """One writer's lock on a table; it can be acquired and released repeatedly."""

    @property
    def label(self) -> str:
        """The name of the lock in messages."""

    def try_lock(self, timeout_ms: int, /) -> bool:
        """Try to acquire the lock for up to `timeout_ms`; False if another holds it. Raises StorageError."""

    def is_held(self) -> bool:
        """True if this writer still holds the lock; may renew it. Raises StorageError."""

    def unlock(self) -> None:
        """Release the lock, unless another writer holds it by now. Raises HudisqlError."""

    def owner(self) -> str:
        """A description of the holder, for messages; empty if unknown."""


@dataclass(frozen=True, slots=True)
class LockRetryPolicy:
    """How a lock is acquired: `retries` more attempts, `wait_ms` apart, each for up to `attempt_ms`.

    With `poll_ms` it is also tried between two attempts: first after about that time, then after pauses that
    grow to a second.
    """

    retries: int = LOCK_RETRIES.default_value
    wait_ms: int = LOCK_RETRY_WAIT.default_value
    attempt_ms: int = LOCK_WAIT.default_value
    poll_ms: int = 0


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
    """Hold the lock while the block runs. Raises TableLockedError if it cannot be acquired, StorageError.

    A lock that cannot be released is not an error: the result of the block stays.
    """
    if lock is None:
        yield HeldLock(None)
        return
    _acquire(lock, retry_policy)
    try:
        yield HeldLock(lock)
    finally:
        with suppress(HudisqlError):
            lock.unlock()


def _acquire(lock: TableLock, retry_policy: LockRetryPolicy) -> None:
    started = time.monotonic()
    polls = _poll_seconds(retry_policy.poll_ms)
    for attempt in range(retry_policy.retries + 1):
        if attempt and _is_acquired_in_wait(lock, retry_policy.wait_ms, polls):
            return
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


def _poll_seconds(poll_ms: int) -> Iterator[float]:
    """The pauses between polls, which grow; none without `poll_ms`."""
    seconds = poll_ms / 1000
    while seconds:
        # Without a random part waiters that start together would always try together.
        yield seconds * random.uniform(0.5, 1.5)
        seconds = min(seconds * _POLL_GROWTH, _LONGEST_POLL_SECONDS)


def _is_acquired_in_wait(lock: TableLock, wait_ms: int, polls: Iterator[float]) -> bool:
    """Wait until the next attempt; True if the lock was acquired meanwhile."""
    ends = time.monotonic() + wait_ms / 1000
    for seconds in polls:
        if seconds >= ends - time.monotonic():
            break
        time.sleep(seconds)
        if lock.try_lock(0):
            return True
    time.sleep(max(0.0, ends - time.monotonic()))
    return False


@dataclass(slots=True)
class FileSystemLock:
    """A file that exists while the lock is held (`FileSystemBasedLockProvider`); it names the holder.

    Without `expire_minutes` the lock of a dead writer stays. `is_default` is for tables whose settings name
    no lock provider. Then the lock of a hudisql process that has ended is removed at once, that of a process
    that is stopped on this host never, and all others after `HOLDER_TIMEOUT_MS` without a heartbeat;
    `expire_minutes` applies to writers without a name, such as Apache Hudi.
    """

    storage: Storage
    directory: str
    expire_minutes: int = 0
    is_default: bool = False
    _mine: LockFile | None = field(default=None, repr=False, compare=False)
    _renewal: Heartbeat | None = field(default=None, repr=False, compare=False)

    @property
    def lock_path(self) -> str:
        """The path of the file."""
        return join(self.directory, LOCK_FILE)

    @property
    def label(self) -> str:
        """The path of the file."""
        return self.lock_path

    def try_lock(self, timeout_ms: int, /) -> bool:
        """Create the file if it does not exist; does not wait, as in Hudi.

        Without a `timeout_ms` it first checks for the file, since a failed creation costs more requests.
        """
        if timeout_ms and self._is_created():
            return True
        lock_file = read_lock_file(self.storage, self.lock_path)
        if lock_file is not None and not self._was_abandoned(lock_file):
            return False
        if lock_file is not None:
            remove_lock_file(self.storage, lock_file)
        return self._is_created()

    def _is_created(self) -> bool:
        mine = LockFile(self.lock_path, new_content(), round(time.time() * 1000))
        # Before the file is created: otherwise another thread would take it for a forgotten lock of this
        # process.
        _held_contents.add(mine.content)
        try:
            self.storage.create(self.lock_path, mine.content)
            renewal = self._start_renewal(mine) if self.is_default else None
        except PathExistsError:
            _held_contents.discard(mine.content)
            return False
        except BaseException:
            # The file may exist in spite of the error.
            with suppress(StorageError):
                self._release(mine, None)
            raise
        self._mine, self._renewal = mine, renewal
        return True

    def _start_renewal(self, mine: LockFile) -> Heartbeat:
        return start_heartbeat(
            self.storage,
            mine.heartbeat_path,
            _RENEWAL_MS,
            HOLDER_TIMEOUT_MS,
            lambda: True,
            beats_at_once=False,
        )

    def is_held(self) -> bool:
        """True if the file has this writer's content."""
        return self._mine is not None and self._content() == self._mine.content

    def unlock(self) -> None:
        """Remove the file, with a few retries."""
        mine, renewal = self._mine, self._renewal
        if mine is None:
            return
        self._mine = self._renewal = None
        try:
            self._release(mine, renewal)
        except BaseException:
            self._mine = self._mine or mine
            raise

    def _release(self, mine: LockFile, renewal: Heartbeat | None) -> None:
        try:
            if renewal is not None:
                with suppress(StorageError):
                    renewal.stop()
            self._remove_patiently(mine)
        except KeyboardInterrupt:
            # If the process runs on for long, other processes would wait for the lock.
            with suppress(StorageError):
                self._remove(mine)
            raise
        finally:
            # A remaining file is a forgotten lock of this process.
            _held_contents.discard(mine.content)

    def _remove_patiently(self, mine: LockFile) -> None:
        for seconds in _RELEASE_PAUSES_SECONDS:
            try:
                self._remove(mine)
            except StorageError:
                time.sleep(seconds)
            else:
                return
        self._remove(mine)

    def _remove(self, mine: LockFile) -> None:
        if self.is_default and mine.age_ms > HOLDER_TIMEOUT_MS / 2:
            # A waiter on another host may be removing it.
            lock_file = read_lock_file(self.storage, self.lock_path)
            if lock_file is not None and lock_file.content == mine.content:
                remove_lock_file(self.storage, lock_file)
        elif self._content() == mine.content:
            self.storage.delete_file(self.lock_path)

    def owner(self) -> str:
        """When the lock was acquired, by whom if the file names the holder, and when it expires."""
        lock_file = read_lock_file(self.storage, self.lock_path)
        if lock_file is None:
            return ""
        name = lock_file.holder_name or "a writer without a name, such as Apache Hudi"
        since = clock_time(lock_file.modified_ms / 1000)
        return (
            f"since {since}, for {_duration(lock_file.age_ms / 1000)}, by {name}; {self._expiry(lock_file)}"
        )

    def _expiry(self, found: LockFile) -> str:
        if self.is_default and found.holder is not None:
            if found.holder.is_stopped:
                return "that process is stopped on this host"
            return f"it expires {_duration(HOLDER_TIMEOUT_MS / 1000)} after its last heartbeat"
        if self.expire_minutes:
            return f"it expires after {self.expire_minutes} minutes"
        return f"it never expires, since {LOCK_EXPIRE} is 0"

    def _content(self) -> bytes | None:
        try:
            return self.storage.read(self.lock_path)
        except NoSuchPathError:
            return None

    def _was_abandoned(self, found: LockFile) -> bool:
        holder = found.holder if self.is_default else None
        if holder is None:
            return bool(self.expire_minutes) and found.age_ms > self.expire_minutes * _MS_PER_MINUTE
        if holder == this_process():
            return found.content not in _held_contents
        if holder.has_ended:
            return True
        if holder.is_stopped or found.age_ms <= HOLDER_TIMEOUT_MS:
            return False
        renewed = self.storage.info(found.heartbeat_path)
        return renewed is None or time.time() * 1000 - renewed.modification_time_ms > HOLDER_TIMEOUT_MS


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
        """The locked table."""
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
        """Empty: the holder is unknown."""
        return ""


def _duration(seconds: float) -> str:
    """Formatted in the largest unit that gives a count of at least two."""
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0.0):.0f} s"
