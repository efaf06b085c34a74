"""CPU seconds and peak memory of whole process trees, from /proc alone (Linux).

A process that ends takes its times along: Spark's Python daemon does not wait for its workers, so nobody
inherits them. A `CpuClock` therefore looks often and keeps what it last saw of every process there was.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
_LOOK_EVERY_SECONDS = 0.05


@dataclass(frozen=True)
class ProcessTimes:
    """One process: its parent, its own user + system seconds, and when it began (ticks since boot)."""

    parent: int
    seconds: float
    began: int = 0


def started_clock(root: int) -> CpuClock:
    """A clock that counts from now on, and all that the living have used before."""
    clock = CpuClock(root)
    clock.start()
    return clock


class CpuClock:
    """User + system CPU seconds of the process `root` and all its descendants, those that ended included.

    What a process used after the last look at it (50 ms apart) is not seen. What the looks take is left out,
    if they are made by one of these processes.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._seen: dict[tuple[int, int], float] = {}
        self._looking = 0.0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"cpu-of-{root}", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()

    def seconds(self) -> float:
        """What the tree has used until now."""
        with self._lock:
            processes = _read_processes()
            for pid in tree_members(processes, self._root):
                self._seen[pid, processes[pid].began] = processes[pid].seconds
            is_own = any(pid == os.getpid() for pid, _ in self._seen)
            return sum(self._seen.values()) - (self._looking if is_own else 0)

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_SECONDS):
            self.seconds()
            self._looking = time.thread_time()


def tree_members(processes: dict[int, ProcessTimes], root: int) -> set[int]:
    """`root` and its descendants among `processes`."""
    children: dict[int, list[int]] = {}
    for pid, times in processes.items():
        children.setdefault(times.parent, []).append(pid)
    members: set[int] = set()
    waiting = [root] if root in processes else []
    while waiting:
        pid = waiting.pop()
        members.add(pid)
        waiting += children.get(pid, [])
    return members


def peak_resident_bytes(pid: int) -> int:
    """The largest resident size that a living process has had."""
    for line in (_PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(f"process {pid} has no memory to speak of")


def reset_peak(pid: int) -> None:
    """Let `peak_resident_bytes` begin anew, for a process of this user's."""
    (_PROC / str(pid) / "clear_refs").write_text("5")


def parse_stat(text: str) -> ProcessTimes:
    """The line of /proc/<pid>/stat; the command in parentheses may hold anything."""
    fields = text[text.rindex(")") + 2 :].split()
    ticks = int(fields[11]) + int(fields[12])
    return ProcessTimes(parent=int(fields[1]), seconds=ticks / _TICKS_PER_SECOND, began=int(fields[19]))


def _read_processes() -> dict[int, ProcessTimes]:
    found = {}
    for directory in _PROC.iterdir():
        if directory.name.isdigit():
            try:
                found[int(directory.name)] = parse_stat((directory / "stat").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found
