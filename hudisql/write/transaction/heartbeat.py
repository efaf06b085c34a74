"""Heartbeats of a writer: a file that it touches regularly while its commit, or its lease, is open.

Follows `HoodieHeartbeatClient` of Hudi 0.15: `.hoodie/.heartbeat/<instant>`, whose modification time counts.
Writers with the LAZY policy for failed writes do not roll back a commit whose heartbeat has not expired.
Hudi's files are empty; here the content names the process, so that writers with the EAGER policy need not
wait for a process that has ended.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from hudisql.errors import NoSuchPathError, StorageError, WriteConflictError
from hudisql.format.timeline.timeline_layout import heartbeat_directory
from hudisql.storage import Storage, join
from hudisql.write.transaction.process_identity import parse_identity, this_process

# The tokens of this process's running heartbeats, since one path has several spellings.
_beating: Final[set[str]] = set()
_TOKEN: Final = "heartbeat"


def heartbeat_path(base_path: str, instant_time: str) -> str:
    """The path of the instant's heartbeat file."""
    return join(heartbeat_directory(base_path), instant_time)


def is_alive(
    storage: Storage, base_path: str, instant_time: str, tolerance_ms: int, *, asks_process: bool = False
) -> bool:
    """True if the instant's heartbeat has not expired. Raises StorageError.

    With `asks_process` the heartbeat of a process of this host expires when the process ends.
    """
    path = heartbeat_path(base_path, instant_time)
    beat = storage.info(path)
    if beat is None or time.time() * 1000 - beat.modification_time_ms > tolerance_ms:
        return False
    return not (asks_process and beat.length and _has_ended(storage, path))


def _has_ended(storage: Storage, path: str) -> bool:
    """True if a process of this host wrote the file and has ended, or this process has stopped it."""
    try:
        values = json.loads(storage.read(path) or b"{}")
    except NoSuchPathError:
        return True
    except ValueError:
        return False
    identity = parse_identity(values)
    if identity == this_process():
        return values.get(_TOKEN) not in _beating
    return identity is not None and identity.has_ended is True


def heartbeat_instants(storage: Storage, base_path: str) -> list[str]:
    """The instants that have a heartbeat file, expired or not. Raises StorageError."""
    try:
        entries = storage.list_directory(heartbeat_directory(base_path))
    except NoSuchPathError:
        return []
    return [entry.name for entry in entries if entry.name.isdigit()]


def delete_heartbeat(storage: Storage, base_path: str, instant_time: str) -> None:
    """Remove the file, if it is there. Raises StorageError."""
    storage.delete_file(heartbeat_path(base_path, instant_time))


@dataclass(slots=True)
class Heartbeat:
    """A thread that touches the file until it is stopped; make one with `start_heartbeat`.

    With `is_owner`, for leases, the thread ends when another writer owns the file. Without it, a heartbeat
    that is later than `tolerance_ms` is not written, since others may have rolled the commit back.
    """

    storage: Storage
    path: str
    interval_ms: int
    tolerance_ms: int
    is_owner: Callable[[], bool] | None = None
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)
    _thread: threading.Thread | None = field(default=None, repr=False)
    _last: float = field(default=0.0, repr=False)
    _token: str = field(default_factory=lambda: uuid.uuid4().hex, repr=False)
    _has_written: bool = field(default=False, repr=False)

    def check(self) -> None:
        """Raise WriteConflictError if the heartbeat has expired, so that others may have rolled back."""
        silence = time.time() - self._last
        if silence * 1000 > self.tolerance_ms:
            raise WriteConflictError(
                f"the heartbeat of this writer expired: none for {silence:.0f} s ({self.path}); others may "
                "have rolled its commit back",
                hint="run the statement again; hoodie.client.heartbeat.interval_in_ms is the interval, and "
                "hoodie.client.heartbeat.tolerable.misses how many heartbeats may fail",
            )

    def stop(self, *, keeps_file: bool = False) -> None:
        """End the thread and, unless it `keeps_file`, delete its file. Raises StorageError."""
        self._stop.set()
        _beating.discard(self._token)
        if self._thread is not None:
            self._thread.join()
        if self._has_written and not keeps_file:
            self.storage.delete_file(self.path)

    def beat(self) -> None:
        """Touch the file, unless the heartbeat has already expired. Raises StorageError."""
        before = time.time()
        if self.is_owner is None and self._last and (before - self._last) * 1000 > self.tolerance_ms:
            return
        # Before the write: a failed write may have created the file.
        self._has_written = True
        values = this_process().to_json() | {_TOKEN: self._token}
        self.storage.write(self.path, json.dumps(values).encode())
        self._last = before

    def _run(self) -> None:
        while not self._stop.wait(self.interval_ms / 1000):
            # A failed heartbeat counts as missed in `check`.
            with suppress(StorageError):
                if self.is_owner is not None and not self.is_owner():
                    return
                self.beat()


def start_heartbeat(
    storage: Storage,
    path: str,
    interval_ms: int,
    tolerance_ms: int,
    is_owner: Callable[[], bool] | None = None,
    *,
    beats_at_once: bool = True,
) -> Heartbeat:
    """Write the first heartbeat to `path` and renew it from a background thread. Raises StorageError.

    Without `beats_at_once` the first one is written after the interval.
    """
    heartbeat = Heartbeat(storage, path, interval_ms, tolerance_ms, is_owner)
    name = f"heartbeat-{path.rsplit('/', 1)[-1]}"
    heartbeat._thread = thread = threading.Thread(target=heartbeat._run, name=name, daemon=True)
    _beating.add(heartbeat._token)
    try:
        if beats_at_once:
            heartbeat.beat()
        thread.start()
    except BaseException:
        _beating.discard(heartbeat._token)
        raise
    return heartbeat


def stop_heartbeat(heartbeat: Heartbeat | None, *, keeps_file: bool = False) -> None:
    """End the heartbeats; a heartbeat file that cannot be deleted is harmless."""
    if heartbeat is not None:
        with suppress(StorageError):
            heartbeat.stop(keeps_file=keeps_file)
