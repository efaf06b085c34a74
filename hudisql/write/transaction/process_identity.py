"""Which process holds a lock or a lease, and whether it has ended.

A process number is not enough: numbers are reused, and each container and boot has its own. Without `/proc` a
process that is gone is recognized, but not one whose number was reused.
"""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

_NO_PROC = "?"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process of some host. `space` identifies boot and container, `start` is the start time in ticks."""

    host: str
    space: str
    process: int
    start: str | None

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"

    def to_json(self) -> dict[str, Any]:
        """The values as they stand in files."""
        return {
            "host": self.host,
            "processes": self.space,
            "process": self.process,
            "process_start": self.start,
        }

    @property
    def has_ended(self) -> bool | None:
        """True if it has ended, False if it runs or is stopped; None if that is not visible from here."""
        if not self._is_on_this_host:
            return None
        start = process_start(self.process)
        if start is None or (start != _NO_PROC and self.start not in (None, _NO_PROC, start)):
            return True
        # The number may be that of a later process.
        return None if start == _NO_PROC else False

    @property
    def is_stopped(self) -> bool:
        """True if it is a process of this host that a signal or a debugger has stopped."""
        if not self._is_on_this_host or self.has_ended:
            return False
        try:
            return _stat_fields(self.process)[0] in "Tt"
        except OSError:
            return False

    @property
    def _is_on_this_host(self) -> bool:
        return (self.host, self.space) == (socket.gethostname(), process_space())


def parse_identity(values: Any) -> ProcessIdentity | None:
    """The identity in a file's JSON; None if the file has none."""
    if not isinstance(values, Mapping):
        return None
    host, space, process = values.get("host"), values.get("processes"), values.get("process")
    start = values.get("process_start")
    if not (isinstance(host, str) and isinstance(space, str) and isinstance(process, int)):
        return None
    return ProcessIdentity(host, space, process, start if isinstance(start, str) else None)


def this_process() -> ProcessIdentity:
    """The identity of the calling process."""
    return _identity_of(os.getpid())


@lru_cache(1)
def _identity_of(process: int) -> ProcessIdentity:
    return ProcessIdentity(socket.gethostname(), process_space(), process, process_start(process))


@lru_cache(1)
def process_space() -> str:
    """The identity of this boot and container, in which process numbers are unique.

    Without `/proc` the number of the network card distinguishes machines with the same host name.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return f"card {uuid.getnode():x}"


def process_start(process: int) -> str | None:
    """The start time of a process of this machine in ticks; None without one, `?` if /proc lacks it."""
    try:
        fields = _stat_fields(process)
        # A killed process is a zombie until its parent reaps it, and its last threads may still run.
        has_ended = fields[0] in "ZX" and len(list(Path(f"/proc/{process}/task").iterdir())) <= 1
    except OSError:
        # There is no /proc, or it hides the processes of other users.
        return _NO_PROC if _exists(process) else None
    return None if has_ended else fields[19]


def _stat_fields(process: int) -> list[str]:
    """The fields of `/proc/<process>/stat` from the state on."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
