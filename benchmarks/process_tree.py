"""CPU seconds and peak memory of whole process trees, from /proc alone (Linux).

A process's own time is what it and the children it has reaped have used; the tree's is the sum over all of
its living members. So workers that come and go between two readings are counted too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessTimes:
    """One process: its parent, and user + system seconds of itself and of the children it has reaped."""

    parent: int
    seconds: float


def tree_cpu_seconds(root: int) -> float:
    """User + system CPU seconds that the process `root` and all its descendants have used so far."""
    processes = _read_processes()
    return sum(processes[pid].seconds for pid in tree_members(processes, root))


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


def parse_stat(text: str) -> ProcessTimes:
    """The line of /proc/<pid>/stat; the command in parentheses may hold anything."""
    fields = text[text.rindex(")") + 2 :].split()
    ticks = sum(int(fields[index]) for index in (11, 12, 13, 14))
    return ProcessTimes(parent=int(fields[1]), seconds=ticks / _TICKS_PER_SECOND)


def _read_processes() -> dict[int, ProcessTimes]:
    found = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = parse_stat((folder / "stat").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found
