"""Signs of life of a writer: a file that it touches every minute while its commit is open.

Follows `HoodieHeartbeatClient` of Hudi 0.15: `.hoodie/.heartbeat/<instant>`, whose modification time counts.
Writers with the LAZY policy for failed writes leave a commit with a fresh heartbeat alone.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

from hudisql.errors import NoSuchPathError, StorageError, WriteConflictError
from hudisql.format.timeline_layout import heartbeat_directory
from hudisql.storage import Storage, join


def heartbeat_path(base_path: str, instant_time: str) -> str:
    """Path of the file that the writer of the instant touches."""
    return join(heartbeat_directory(base_path), instant_time)


def is_alive(storage: Storage, base_path: str, instant_time: str, tolerance_ms: int) -> bool:
    """True if the writer of the instant has given a heartbeat of late. Raises StorageError."""
    beat = storage.info(heartbeat_path(base_path, instant_time))
    return beat is not None and time.time() * 1000 - beat.modification_time_ms <= tolerance_ms


def heartbeat_instants(storage: Storage, base_path: str) -> list[str]:
    """The times of the instants that have heartbeats, fresh or not. Raises StorageError."""
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
    """A thread that touches the file until it is told to stop; make one with `start_heartbeat`."""

    storage: Storage
    path: str
    interval_ms: int
    tolerance_ms: int
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)
    _thread: threading.Thread | None = field(default=None, repr=False)
    _last: float = field(default=0.0, repr=False)

    def check(self) -> None:
        """Raise WriteConflictError if others may have taken this writer for dead by now."""
        silence = time.time() - self._last
        if silence * 1000 > self.tolerance_ms:
            raise WriteConflictError(
                f"this writer has given no heartbeat for {silence:.0f} s ({self.path}): others may have "
                "rolled its commit back",
                hint="run the statement again; hoodie.client.heartbeat.interval_in_ms says how often signs "
                "are given, and hoodie.client.heartbeat.tolerable.misses how many may fail",
            )

    def stop(self, *, keeps_file: bool = False) -> None:
        """End the thread and, unless it `keeps_file`, remove the file. Raises StorageError."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if not keeps_file:
            self.storage.delete_file(self.path)

    def beat(self) -> None:
        """Touch the file, unless others may have taken this writer for dead by now. Raises StorageError."""
        before = time.time()
        if self._last and (before - self._last) * 1000 > self.tolerance_ms:
            return
        self.storage.write(self.path, b"")
        self._last = before

    def _run(self) -> None:
        while not self._stop.wait(self.interval_ms / 1000):
            # A sign that fails is one missed: `check` counts them.
            with suppress(StorageError):
                self.beat()


def start_heartbeat(
    storage: Storage, base_path: str, instant_time: str, interval_ms: int, tolerance_ms: int
) -> Heartbeat:
    """Give the first heartbeat for the instant, and go on. Raises StorageError."""
    heartbeat = Heartbeat(storage, heartbeat_path(base_path, instant_time), interval_ms, tolerance_ms)
    heartbeat.beat()
    thread = threading.Thread(target=heartbeat._run, name=f"heartbeat-{instant_time}", daemon=True)
    heartbeat._thread = thread
    thread.start()
    return heartbeat
